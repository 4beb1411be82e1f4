//! The latest repeated reports of terminators: a dial that was chosen before such a report says nothing about the
//! terminator.

use std::collections::VecDeque;

use weft_model::Id;

/// Most repeated reports of terminators that are remembered.
pub(super) const MAX_REPORTS: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Terminators with the numbers of their reports, the oldest first.
    latest: VecDeque<(Id, u64)>,
    /// The number of the last report that is not remembered any more.
    forgotten: u64,
}

impl Reports {
    pub(super) fn note(&mut self, terminator: &Id, number: u64) {
        self.latest.push_back((terminator.clone(), number));
        if self.latest.len() > MAX_REPORTS
            && let Some((_, number)) = self.latest.pop_front()
        {
            self.forgotten = number;
        }
    }

    /// True if a terminator was, or may have been, reported after this number.
    pub(super) fn has_after(&self, number: u64, terminator: &Id) -> bool {
        let is_it = |(id, at): &(Id, u64)| *at > number && id == terminator;
        self.forgotten > number || self.latest.iter().any(is_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_reports_are_too_many_every_terminator_counts_as_reported() {
        let (mut reports, [t1, t2]) = (Reports::default(), ["t1", "t2"].map(Id::new));
        reports.note(&t1, 5);
        assert!(reports.has_after(4, &t1) && !reports.has_after(5, &t1));
        assert!(!reports.has_after(4, &t2));
        (6..6 + MAX_REPORTS as u64).for_each(|at| reports.note(&Id::new(&format!("m{at}")), at));
        assert!(reports.has_after(4, &t2) && !reports.has_after(5, &t2));
        assert_eq!(reports.latest.len(), MAX_REPORTS);
    }
}
