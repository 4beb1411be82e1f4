//! Counts wrong passwords in a row, by authenticator, with the addresses that they came from. The counts
//! are kept in memory only, and are bounded. Controllers tell each other what they count, so that their number gives
//! nobody more tries: whoever counts the last one locks.

use std::net::IpAddr;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::broadcast;
use weft_model::Id;

/// Authenticators with a count; above that all counts start anew.
const COUNTED: usize = 100_000;
/// Most addresses that are remembered for an authenticator; above that the oldest one is dropped.
const ADDRESSES: usize = 4;

/// Counted passwords that another controller may be behind before it misses some.
const BACKLOG: usize = 1024;

/// Wrong passwords in a row, by authenticator.
#[derive(Debug, Clone)]
pub struct Lockouts {
    counts: Arc<Mutex<HashMap<Id, Wrong>>>,
    counted: broadcast::Sender<CountedPassword>,
}

/// A password that was counted here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CountedPassword {
    /// A wrong one.
    Wrong {
        /// Of this authenticator.
        authenticator: Id,
        /// The address that it came from.
        from: Option<IpAddr>,
    },
    /// A right one, or the last wrong one before a lock: the count starts anew.
    Last {
        /// Of this authenticator.
        authenticator: Id,
    },
}

/// Wrong passwords in a row for one authenticator.
#[derive(Debug, Default)]
struct Wrong {
    count: u32,
    /// The addresses that they came from, the latest one last.
    from: Vec<IpAddr>,
}

impl Default for Lockouts {
    fn default() -> Self {
        Self { counts: Arc::default(), counted: broadcast::channel(BACKLOG).0 }
    }
}

impl Wrong {
    fn count(&mut self, from: Option<IpAddr>) {
        self.count = self.count.saturating_add(1);
        if let Some(from) = from.map(|from| from.to_canonical()) {
            self.from.retain(|known| *known != from);
            self.from.push(from);
            let surplus = self.from.len().saturating_sub(ADDRESSES);
            self.from.drain(..surplus);
        }
    }
}

/// The count of an authenticator.
fn of<'c>(counts: &'c mut HashMap<Id, Wrong>, authenticator: &Id) -> &'c mut Wrong {
    if counts.len() >= COUNTED && !counts.contains_key(authenticator) {
        counts.clear();
    }
    counts.entry(authenticator.clone()).or_default()
}

impl Lockouts {
    /// Counts a wrong password. If the limit is reached, returns the latest addresses that wrong
    /// passwords came from; the count then starts anew.
    pub fn wrong(
        &self,
        authenticator: &Id,
        max_attempts: u32,
        from: Option<IpAddr>,
    ) -> Option<Vec<IpAddr>> {
        let mut counts = self.counts.lock();
        let wrong = of(&mut counts, authenticator);
        wrong.count(from);
        let is_over = max_attempts > 0 && wrong.count >= max_attempts;
        let addresses = is_over.then(|| counts.remove(authenticator).unwrap_or_default().from);
        drop(counts);
        let authenticator = authenticator.clone();
        // Nobody listens in a network with one controller.
        let _ = self.counted.send(match addresses {
            Some(_) => CountedPassword::Last { authenticator },
            None => CountedPassword::Wrong { authenticator, from },
        });
        addresses
    }

    /// Forgets the count, after a right password.
    pub fn right(&self, authenticator: &Id) {
        if self.counts.lock().remove(authenticator).is_some() {
            let _ =
                self.counted.send(CountedPassword::Last { authenticator: authenticator.clone() });
        }
    }

    /// The passwords that are counted here from now on.
    pub fn counted(&self) -> broadcast::Receiver<CountedPassword> {
        self.counted.subscribe()
    }

    /// Takes over what another controller has counted. It locks nothing: the other one does, or the next wrong password.
    pub fn take_over(&self, counted: CountedPassword) {
        let mut counts = self.counts.lock();
        match counted {
            CountedPassword::Wrong { authenticator, from } => {
                of(&mut counts, &authenticator).count(from);
            }
            CountedPassword::Last { authenticator } => drop(counts.remove(&authenticator)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_wrong_ones_in_a_row_count() {
        let lockouts = Lockouts::default();
        let id = Id::new("a");
        assert!(lockouts.wrong(&id, 2, None).is_none());
        lockouts.right(&id);
        assert!(lockouts.wrong(&id, 2, None).is_none());
        assert!(lockouts.wrong(&id, 2, None).is_some());
        assert!(lockouts.wrong(&id, 0, None).is_none());
    }

    #[test]
    fn controllers_count_together() {
        let [one, two] = [(); 2].map(|()| Lockouts::default());
        let mut heard = [one.counted(), two.counted()];
        let mut exchange = || {
            while let Ok(counted) = heard[0].try_recv() {
                two.take_over(counted);
            }
            while let Ok(counted) = heard[1].try_recv() {
                one.take_over(counted);
            }
        };
        let (id, from) = (Id::new("a"), |last| Some(IpAddr::from([192, 0, 2, last])));
        let mut locks = Vec::new();
        for (number, at) in [&one, &two, &two, &one, &two].into_iter().enumerate() {
            locks.push(at.wrong(&id, 4, from(number as u8)).map(|it| it.len()));
            exchange();
        }
        assert_eq!(locks, [None, None, None, Some(4), None], "the count starts anew at both");
        one.right(&id);
        exchange();
        // What they do at once costs one try more.
        let tries = |at: &Lockouts| (0..3).filter(|_| at.wrong(&id, 4, None).is_some()).count();
        assert_eq!((tries(&one), tries(&two)), (0, 0));
        exchange();
        assert!(two.wrong(&id, 4, None).is_some());
    }

    #[test]
    fn the_latest_addresses_are_remembered_once_each() {
        let lockouts = Lockouts::default();
        let id = Id::new("a");
        let address = |last: u8| IpAddr::from([192, 0, 2, last]);
        let mapped = |last: u8| IpAddr::from([192, 0, 2, last]).to_string();
        let mapped = |last: u8| format!("::ffff:{}", mapped(last)).parse().unwrap();
        for last in [0, 1, 2, 1, 3, 4] {
            assert!(lockouts.wrong(&id, 8, Some(address(last))).is_none());
        }
        assert!(lockouts.wrong(&id, 8, Some(mapped(2))).is_none());
        let known = lockouts.wrong(&id, 8, None).unwrap();
        assert_eq!(known, [1, 3, 4, 2].map(address));
        // The next count begins without them.
        assert_eq!(lockouts.wrong(&id, 1, None).unwrap(), [] as [IpAddr; 0]);
    }
}
