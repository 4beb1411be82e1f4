//! Questions of a router for service sessions that wait until it is certain which sessions there are.

/// Service sessions that a router asked about.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// Their ids.
    pub(crate) ids: Vec<String>,
    /// Whether the router asked about more than may wait.
    pub(crate) is_over: bool,
    /// Whether a task waits for certainty.
    pub(crate) is_waiting: bool,
}

impl Questions {
    /// Adds ids, of which `most` may wait in all.
    pub(crate) fn add(&mut self, ids: impl IntoIterator<Item = String>, most: usize) {
        self.ids.extend(ids);
        self.is_over |= self.ids.len() > most;
        self.ids.truncate(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_wait_and_it_is_noted_if_there_were_more() {
        let mut questions = Questions::default();
        let ids = |range: std::ops::Range<u8>| range.map(|number| number.to_string());
        questions.add(ids(0..3), 5);
        questions.add(ids(3..5), 5);
        assert_eq!((questions.ids.len(), questions.is_over), (5, false));
        questions.add(ids(5..9), 5);
        assert_eq!((questions.ids.len(), questions.is_over), (5, true));
    }
}
