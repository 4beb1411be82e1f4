//! Changes of a terminator that a controller was not sent yet.

use crate::seam::TerminatorUpdate;

/// Changes that a controller was not sent yet.
#[derive(Debug, Default)]
pub(super) struct Untold {
    change: TerminatorUpdate,
    pub(super) health: Option<bool>,
    /// True while a task sends them.
    pub(super) telling: bool,
}

impl Untold {
    /// Puts changes back that could not be sent. Newer ones that are here stay.
    pub(super) fn add(&mut self, older: TerminatorUpdate, health: Option<bool>) {
        self.change.cost = self.change.cost.or(older.cost);
        self.change.precedence = self.change.precedence.or(older.precedence);
        self.health = self.health.or(health);
    }

    /// The changes to be sent next; `None` ends the task.
    pub(super) fn next(&mut self) -> Option<(TerminatorUpdate, Option<bool>)> {
        let (change, health) = (std::mem::take(&mut self.change), self.health.take());
        self.telling = change != TerminatorUpdate::default() || health.is_some();
        self.telling.then_some((change, health))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::TerminatorPrecedence;

    #[test]
    fn what_is_told_is_the_newest_and_everything() {
        let mut untold = Untold::default();
        assert_eq!(untold.next(), None);
        let cost = TerminatorUpdate { cost: Some(1), precedence: None };
        untold.add(cost, Some(false));
        assert_eq!(untold.next(), Some((cost, Some(false))));
        // While it could not be told, more came.
        let precedence =
            TerminatorUpdate { cost: None, precedence: Some(TerminatorPrecedence::Failed) };
        untold.add(precedence, None);
        untold.health = Some(true);
        untold.add(cost, Some(false));
        let both = TerminatorUpdate { cost: cost.cost, precedence: precedence.precedence };
        assert_eq!(untold.next(), Some((both, Some(true))));
        assert!(untold.telling);
        assert_eq!(untold.next(), None);
        assert!(!untold.telling);
    }
}
