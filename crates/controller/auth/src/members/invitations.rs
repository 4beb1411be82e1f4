//! Invitations: by each of them one controller may join, once, within ten minutes. They are known to the controller that
//! made them, and end with it.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

/// The time within which an invitation is used.
pub(crate) const INVITATION: Duration = Duration::from_secs(600);
/// Most invitations at a time; a further one ends the oldest.
const MOST: usize = 16;

/// The invitations that were not used yet, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Invitations(Mutex<Vec<Invitation>>);

#[derive(Debug)]
struct Invitation {
    name: String,
    /// SHA-256 of the secret.
    hash: [u8; 32],
    until: Instant,
}

fn hash_of(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

impl Invitations {
    /// Notes an invitation of this name; a former one of the same name ends.
    pub(crate) fn add(&self, name: &str, secret: &str, now: Instant) {
        let mut known = self.0.lock();
        known.retain(|it| it.until > now && it.name != name);
        let surplus = (known.len() + 1).saturating_sub(MOST);
        known.drain(..surplus);
        let (name, hash) = (name.to_owned(), hash_of(secret));
        known.push(Invitation { name, hash, until: now + INVITATION });
    }

    /// Whether there is an invitation with this name and secret.
    pub(crate) fn has(&self, name: &str, secret: &str, now: Instant) -> bool {
        let hash = hash_of(secret);
        self.0.lock().iter().any(|it| it.is(name, &hash, now))
    }

    /// Uses an invitation; false if there is none.
    pub(crate) fn take(&self, name: &str, secret: &str, now: Instant) -> bool {
        let hash = hash_of(secret);
        let mut known = self.0.lock();
        let at = known.iter().position(|it| it.is(name, &hash, now));
        at.map(|at| known.remove(at)).is_some()
    }
}

impl Invitation {
    fn is(&self, name: &str, hash: &[u8; 32], now: Instant) -> bool {
        // Hashes are compared: the time tells nothing of the secret.
        self.hash == *hash && self.name == name && self.until > now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_used_once_by_its_name_and_in_its_time() {
        let (known, now) = (Invitations::default(), Instant::now());
        known.add("north", "s1", now);
        known.add("south", "s2", now);
        for (name, secret) in [("north", "s2"), ("south", "s1"), ("west", "s1"), ("north", "")] {
            assert!(!known.has(name, secret, now) && !known.take(name, secret, now), "{name}");
        }
        let late = now + INVITATION;
        assert!(known.has("north", "s1", now) && !known.has("north", "s1", late));
        assert!(!known.take("north", "s1", late));
        assert!(known.take("north", "s1", now) && !known.take("north", "s1", now));
        known.add("south", "s3", now);
        assert!(!known.take("south", "s2", now), "a new one replaces it");
        assert!(known.take("south", "s3", now));
    }

    #[test]
    fn there_are_few_at_a_time() {
        let (known, now) = (Invitations::default(), Instant::now());
        for number in 0..=MOST {
            known.add(&format!("c{number}"), "s", now);
        }
        assert!(!known.has("c0", "s", now) && known.has("c1", "s", now));
        assert!(known.has(&format!("c{MOST}"), "s", now));
        assert_eq!(known.0.lock().len(), MOST);
    }
}
