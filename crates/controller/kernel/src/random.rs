//! The controller's source of randomness and the ids made from it.
//!
//! Random values (ids, tokens, salts) are made on the caller's task before an operation is decided.
//! The source is passed at the start: tests pass one with a seed, and get the same ids every time.

use std::sync::Arc;

use parking_lot::Mutex;
use weft_model::{Id, Timestamp};

/// A source of random bytes.
pub trait Random: Send + Sync + 'static {
    /// Fills `bytes` with random bytes.
    fn fill(&self, bytes: &mut [u8]);
}

/// A generator seeded by the operating system.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) {
        rand::fill(bytes);
    }
}

/// A repeatable source for tests: the same seed gives the same bytes.
#[derive(Debug)]
pub struct SeededRandom(Mutex<u64>);

impl SeededRandom {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }
}

impl Random for SeededRandom {
    fn fill(&self, bytes: &mut [u8]) {
        let mut state = self.0.lock();
        for chunk in bytes.chunks_mut(8) {
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = *state;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^= word >> 31;
            chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        }
    }
}

/// Makes ids and tokens.
#[derive(Clone)]
pub struct Ids {
    random: Arc<dyn Random>,
    /// The last ordered id: its milliseconds, and the counter within them.
    last: Arc<Mutex<(u64, u32)>>,
}

impl Ids {
    /// Makes ids from this source.
    pub fn new(random: Arc<dyn Random>) -> Self {
        Self { random, last: Arc::default() }
    }

    /// The source itself.
    pub fn random(&self) -> &dyn Random {
        &*self.random
    }

    /// `N` random bytes.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.random.fill(&mut bytes);
        bytes
    }

    /// A new entity id (docs/protocol/management-api.md 2.3).
    pub fn entity(&self) -> Id {
        Id::short(u64::from_le_bytes(self.bytes()))
    }

    /// A new token: a random UUID.
    pub fn token(&self) -> Id {
        Id::uuid(self.bytes())
    }

    /// A new id that sorts after all ids made before, as routers need for API sessions and full
    /// synchronisations (docs/protocol/edge-control-plane.md 10.2): `c`, the time in milliseconds,
    /// a counter and 12 random digits, 25 characters in all.
    pub fn ordered(&self, now: Timestamp) -> Id {
        const COUNTER: u32 = 36 * 36 * 36 * 36;
        let now_millis = now.0.unsigned_abs();
        let (millis, counter) = {
            let mut last = self.last.lock();
            *last = match *last {
                (millis, counter) if millis >= now_millis && counter + 1 < COUNTER => {
                    (millis, counter + 1)
                }
                (millis, _) if millis >= now_millis => (millis + 1, 0),
                _ => (now_millis, 0),
            };
            *last
        };
        Id::ordered(millis, counter, u64::from_le_bytes(self.bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordered_ids_sort_by_creation() {
        let ids = Ids::new(Arc::new(SeededRandom::new(1)));
        let mut made = Vec::new();
        for now in [1_700_000_000_000, 1_700_000_000_000, 1_699_999_999_999, 1_700_000_000_001] {
            made.push(ids.ordered(Timestamp(now)));
        }
        let mut sorted = made.clone();
        sorted.sort();
        assert_eq!(made, sorted);
        assert!(made.iter().all(|id| id.as_str().len() == 25 && id.as_str().starts_with('c')));
    }

    #[test]
    fn a_seed_gives_the_same_ids() {
        let make = || Ids::new(Arc::new(SeededRandom::new(7))).entity();
        assert_eq!(make(), make());
    }

    #[test]
    fn tokens_are_random_uuids() {
        let token = Ids::new(Arc::new(SystemRandom)).token();
        let parsed = uuid::Uuid::parse_str(token.as_str()).unwrap();
        assert_eq!(parsed.get_version_num(), 4);
    }
}
