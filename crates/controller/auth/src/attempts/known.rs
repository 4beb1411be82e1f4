//! The sources from which right codes came, by identity. Kept in memory only, and bounded.

use std::time::Duration;

use tokio::time::Instant;
use weft_limits::{BoundedTable, Caps, Network, WhenFull};
use weft_model::Id;

use super::guesser::Guesser;

/// Most sources that are remembered of an identity, and of all identities; above that the oldest
/// one goes of the identity, or of the identity that has most.
const OF_IDENTITY: usize = 8;
const ALL: usize = 100_000;
/// The time after a right code for which its source is remembered.
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 3600);

/// The sources from which right codes came.
#[derive(Debug)]
pub(super) struct KnownSources(BoundedTable<(Id, Network), (), Id>);

impl Default for KnownSources {
    fn default() -> Self {
        Self(BoundedTable::new(Caps {
            total: ALL,
            per_source: OF_IDENTITY,
            max_age: Some(REMEMBERED),
            when_full: WhenFull::EvictOldest,
        }))
    }
}

impl KnownSources {
    /// Whether a right code of the identity came from the source of this code.
    pub(super) fn has(&self, guesser: &Guesser, now: Instant) -> bool {
        guesser.source.is_some_and(|source| {
            let key = (guesser.identity.clone(), Network::of(source));
            self.0.get(&key, now.into_std()).is_some()
        })
    }

    /// Notes that a code was right.
    pub(super) fn note(&mut self, guesser: &Guesser, now: Instant) {
        let Some(source) = guesser.source else { return };
        let key = (guesser.identity.clone(), Network::of(source));
        // The age of the entry begins anew. The table always has room, because it evicts others.
        self.0.remove(&key);
        let _ = self.0.insert(key, (), guesser.identity.clone(), now.into_std());
    }

    /// Forgets the sources of an identity.
    pub(super) fn forget(&mut self, identity: &Id) {
        while let Some(key) = self.0.oldest_of(identity).map(|(key, ())| key.clone()) {
            self.0.remove(&key);
        }
    }
}
