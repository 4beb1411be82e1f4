//! Counts wrong passwords in a row, by authenticator, with the addresses that they came from. The counts
//! are kept in memory only, and are bounded.

use std::net::IpAddr;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use weft_model::Id;

/// Authenticators with a count; above that all counts start anew.
const COUNTED: usize = 100_000;
/// Most addresses that are remembered for an authenticator; above that the oldest one is dropped.
const ADDRESSES: usize = 4;

/// Wrong passwords in a row, by authenticator.
#[derive(Debug, Clone, Default)]
pub struct Lockouts(Arc<Mutex<HashMap<Id, Wrong>>>);

/// Wrong passwords in a row for one authenticator.
#[derive(Debug, Default)]
struct Wrong {
    count: u32,
    /// The addresses that they came from, the latest one last.
    from: Vec<IpAddr>,
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
        let mut counts = self.0.lock();
        if counts.len() >= COUNTED && !counts.contains_key(authenticator) {
            counts.clear();
        }
        let wrong = counts.entry(authenticator.clone()).or_default();
        wrong.count = wrong.count.saturating_add(1);
        if let Some(from) = from.map(|from| from.to_canonical()) {
            wrong.from.retain(|known| *known != from);
            wrong.from.push(from);
            let surplus = wrong.from.len().saturating_sub(ADDRESSES);
            wrong.from.drain(..surplus);
        }
        let is_over = max_attempts > 0 && wrong.count >= max_attempts;
        is_over.then(|| counts.remove(authenticator).unwrap_or_default().from)
    }

    /// Forgets the count, after a right password.
    pub fn right(&self, authenticator: &Id) {
        self.0.lock().remove(authenticator);
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
