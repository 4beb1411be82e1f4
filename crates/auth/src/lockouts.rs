//! Counts wrong passwords in a row, by authenticator. The counts are kept in memory only, and are
//! bounded.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use weft_model::Id;

/// Authenticators with a count; above that all counts start anew.
const COUNTED: usize = 100_000;

/// Wrong passwords in a row, by authenticator.
#[derive(Debug, Clone, Default)]
pub struct Lockouts(Arc<Mutex<HashMap<Id, u32>>>);

impl Lockouts {
    /// Counts a wrong password. True if the limit is reached; the count then starts anew.
    pub fn wrong(&self, authenticator: &Id, max_attempts: u32) -> bool {
        let mut counts = self.0.lock();
        if counts.len() >= COUNTED && !counts.contains_key(authenticator) {
            counts.clear();
        }
        let count = counts.entry(authenticator.clone()).or_default();
        *count = count.saturating_add(1);
        let is_over = max_attempts > 0 && *count >= max_attempts;
        if is_over {
            counts.remove(authenticator);
        }
        is_over
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
        assert!(!lockouts.wrong(&id, 2));
        lockouts.right(&id);
        assert!(!lockouts.wrong(&id, 2));
        assert!(lockouts.wrong(&id, 2));
        assert!(!lockouts.wrong(&id, 0));
    }
}
