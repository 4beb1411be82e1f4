//! The times at which the controller is asked for the routers of the identity, because one is lost: it may be
//! gone for good.
//!
//! Thousands of programs lose a router together, and most routers come back. The questions of one program
//! become rare, and those of many are spread over all the time between them. Dials and listeners read the
//! routers of their services by themselves.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

/// The longest time between two questions.
const LONGEST: Duration = Duration::from_secs(3600);
/// The first question is asked after this many intervals of refreshes.
const FIRST: u32 = 5;

/// The times of the questions.
#[derive(Debug)]
pub(crate) struct Relisting {
    first: Duration,
    lost: HashSet<String>,
    wait: Duration,
    due: Option<Instant>,
}

impl Relisting {
    /// For an endpoint with this interval of refreshes.
    pub(crate) fn new(refresh_interval: Duration) -> Self {
        let first = refresh_interval.saturating_mul(FIRST).min(LONGEST);
        Self { first, lost: HashSet::new(), wait: first, due: None }
    }

    /// True if a question is due, while these routers are lost. `chance` is between 0 and 1.
    pub(crate) fn note_lost(&mut self, lost: HashSet<String>, now: Instant, chance: f64) -> bool {
        let is_news = !lost.is_subset(&self.lost);
        self.lost = lost;
        if self.lost.is_empty() {
            self.due = None;
            return false;
        }
        if is_news || self.due.is_none() {
            self.wait = self.first;
            self.due = Some(now + spread(self.wait, chance));
        }
        if self.due.is_none_or(|due| now < due) {
            return false;
        }
        self.wait = self.wait.saturating_mul(2).min(LONGEST);
        self.due = Some(now + spread(self.wait, chance));
        true
    }
}

/// The wait, up to half shorter or longer.
fn spread(wait: Duration, chance: f64) -> Duration {
    wait.mul_f64(0.5 + chance.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn names(names: &[&str]) -> HashSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    /// The minutes of the questions in a day, in which these routers are lost in each minute.
    fn questions(lost: impl Fn(u32) -> HashSet<String>, chance: f64) -> Vec<u32> {
        let (mut relisting, start) = (Relisting::new(MINUTE), Instant::now());
        let is_due =
            |&minute: &u32| relisting.note_lost(lost(minute), start + MINUTE * minute, chance);
        (0..24 * 60).filter(is_due).collect()
    }

    #[test]
    fn questions_become_rare_while_a_router_is_away() {
        let asked = questions(|_| names(&["r"]), 0.5);
        assert_eq!(asked[..5], [5, 15, 35, 75, 135]);
        assert_eq!(asked.len(), 26);
        assert_eq!(questions(|_| names(&["r"]), 0.0)[0], 3);
        assert_eq!(questions(|_| names(&["r"]), 1.0)[0], 8);
    }

    #[test]
    fn a_router_that_comes_back_soon_leads_to_no_question() {
        let asked = questions(|minute| names(if minute % 10 < 4 { &["r"] } else { &[] }), 0.5);
        assert!(asked.is_empty(), "{asked:?}");
    }

    #[test]
    fn a_further_loss_is_followed_by_a_question() {
        let lost = |minute| names(if minute < 100 { &["r"] } else { &["r", "s"] });
        assert!(questions(lost, 0.5).contains(&105));
    }
}
