//! How often somebody may guess a code (protocol: auth 11.3). Class Memory, bounded.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use weft_model::{Id, Timestamp};

/// Wrong codes that an identity may send within [`WINDOW`].
const ALLOWED: u32 = 5;
/// How long wrong codes are remembered.
const WINDOW: Duration = Duration::from_secs(300);
/// Identities that are counted for; beyond that the old ones are forgotten.
const COUNTED: usize = 100_000;

/// Wrong codes, by identity.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attempts(Arc<Mutex<HashMap<Id, Wrong>>>);

#[derive(Debug, Clone, Copy)]
struct Wrong {
    count: u32,
    since: Timestamp,
}

impl Attempts {
    /// Counts a code as wrong before it is looked at, so that codes sent at the same time count as
    /// those sent one by one do; or says how long until another is looked at.
    pub(crate) fn begin(&self, identity: &Id, now: Timestamp) -> Result<(), Duration> {
        let mut counts = self.0.lock();
        if counts.len() >= COUNTED && !counts.contains_key(identity) {
            counts.retain(|_, wrong| wrong.counts_at(now));
            if counts.len() >= COUNTED {
                counts.clear();
            }
        }
        let wrong = counts.entry(identity.clone()).or_insert(Wrong { count: 0, since: now });
        if !wrong.counts_at(now) {
            *wrong = Wrong { count: 0, since: now };
        }
        if wrong.count >= ALLOWED {
            return Err(wrong.since.plus(WINDOW).since(now).max(Duration::from_secs(1)));
        }
        wrong.count += 1;
        Ok(())
    }

    /// A code that was counted was neither right nor wrong.
    pub(crate) fn give_back(&self, identity: &Id) {
        if let Some(wrong) = self.0.lock().get_mut(identity) {
            wrong.count = wrong.count.saturating_sub(1);
        }
    }

    /// Forgets the wrong codes before a right one.
    pub(crate) fn right(&self, identity: &Id) {
        self.0.lock().remove(identity);
    }
}

impl Wrong {
    fn counts_at(&self, now: Timestamp) -> bool {
        now < self.since.plus(WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guessing_is_stopped_for_a_while() {
        let attempts = Attempts::default();
        let (id, now) = (Id::new("a"), Timestamp::from_secs(1000));
        for _ in 0..ALLOWED {
            assert_eq!(attempts.begin(&id, now), Ok(()));
        }
        let later = now.plus(Duration::from_secs(100));
        assert_eq!(attempts.begin(&id, later), Err(Duration::from_secs(200)));
        assert_eq!(attempts.begin(&Id::new("b"), later), Ok(()));
        attempts.give_back(&id);
        assert_eq!(attempts.begin(&id, later), Ok(()), "one was not looked at");
        assert!(attempts.begin(&id, later).is_err());
        assert_eq!(attempts.begin(&id, now.plus(WINDOW)), Ok(()));
        attempts.right(&id);
        assert_eq!(attempts.begin(&id, later), Ok(()));
    }
}
