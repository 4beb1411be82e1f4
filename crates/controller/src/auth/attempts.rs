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
    /// Whether another code is looked at now; else how long until one is.
    pub(crate) fn allow(&self, identity: &Id, now: Timestamp) -> Result<(), Duration> {
        let counts = self.0.lock();
        let Some(wrong) = counts.get(identity).filter(|wrong| wrong.counts_at(now)) else {
            return Ok(());
        };
        if wrong.count < ALLOWED {
            return Ok(());
        }
        Err(wrong.since.plus(WINDOW).since(now).max(Duration::from_secs(1)))
    }

    /// Counts a wrong code.
    pub(crate) fn wrong(&self, identity: &Id, now: Timestamp) {
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
        wrong.count = wrong.count.saturating_add(1);
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
            assert_eq!(attempts.allow(&id, now), Ok(()));
            attempts.wrong(&id, now);
        }
        let later = now.plus(Duration::from_secs(100));
        assert_eq!(attempts.allow(&id, later), Err(Duration::from_secs(200)));
        assert_eq!(attempts.allow(&Id::new("b"), later), Ok(()));
        assert_eq!(attempts.allow(&id, now.plus(WINDOW)), Ok(()));
        attempts.right(&id);
        assert_eq!(attempts.allow(&id, later), Ok(()));
    }
}
