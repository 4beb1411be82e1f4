//! The keys of external signers whose keys are at a URL (`jwksEndpoint`; docs/protocol/auth.md 13.2).
//!
//! A set is fetched when a token of its signer comes first, at least hourly from then on, and for a key that is not
//! in it, or whose name another key may have now: once in 10 s for each signer, and one fetch at a time. A key that is missing in a fetched set is dropped.
//! While the provider cannot be reached, the keys of the last fetch are good for a day
//! (`edge.externalJwtSigners.keysWithoutProvider`). All times are of the machine's steady clock, so that a clock
//! that is set neither drops keys nor keeps them.
//!
//! - `set`: the keys of one signer; `refresh`: the task that fetches them again; `kept`: keys in the store.

mod kept;
pub(crate) mod refresh;
mod set;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use set::{Look, Set};
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;
use weft_identity::PublicKey;
use weft_kernel::clock::Clock;
use weft_kernel::{Kernel, KeySource};
use weft_limits::{LogLines, source_of};
use weft_model::Id;
use weft_model::entity::ExtJwtSigner;
use weft_store::{ReadError, Store};

use crate::waiting::WaitingLogins;

/// Most sets that are kept, of 100 keys at most; above that the one that was not used for the longest time goes, and
/// is fetched again with its signer's next token.
pub(crate) const MOST_SETS: usize = 256;

/// Why there is no key for a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoKey {
    /// The provider has no such key.
    #[error("the key set of the signer has no key {0:?}")]
    Unknown(String),
    /// The keys cannot be had.
    #[error("the keys of the signer {signer:?} cannot be fetched from {endpoint}: {reason}")]
    Provider {
        /// Name of the signer.
        signer: String,
        /// The URL.
        endpoint: String,
        /// Why not.
        reason: String,
    },
    /// Too many tokens wait for keys.
    #[error("too many tokens wait for the keys of their signers")]
    Busy,
}

/// The key sets of all signers.
pub(crate) struct KeySets {
    sets: Mutex<HashMap<Id, Arc<Set>>>,
    /// The URLs of the sets in the notes: more than those in memory, as a set that goes for others keeps its note.
    noted: Mutex<HashMap<Id, String>>,
    source: Arc<dyn KeySource>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// How long fetched keys are good while their provider cannot be reached.
    good_for: Duration,
    waiting: WaitingLogins,
    told: Mutex<LogLines>,
}

impl KeySets {
    /// The sets of the last run that are still good.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn load(kernel: &Kernel) -> Result<Self, ReadError> {
        let settings = kernel.settings();
        let good_for = settings.external_tokens.keys_without_provider;
        let sets = kept::load(&*settings.store, &kernel.snapshot(), good_for, kernel.now())?;
        let noted = sets.iter().map(|(id, set)| (id.clone(), set.endpoint.clone())).collect();
        Ok(Self {
            sets: Mutex::new(sets),
            noted: Mutex::new(noted),
            source: Arc::clone(&settings.key_source),
            store: Arc::clone(&settings.store),
            clock: Arc::clone(&settings.clock),
            good_for,
            waiting: WaitingLogins::default(),
            told: Mutex::new(LogLines::new(std::time::Instant::now())),
        })
    }

    /// The key of a signer with this name if it is known already.
    pub(crate) fn known(&self, signer: &ExtJwtSigner, kid: &str) -> Option<PublicKey> {
        let set = self.set_of(signer)?;
        match set.look(kid, Instant::now()) {
            Look::Known(key) => Some(key),
            _ => None,
        }
    }

    /// The key of a signer with this name, fetched if it is not known. `from` is the source of the token, which has
    /// a share of the tokens that wait.
    pub(crate) async fn key(
        self: &Arc<Self>,
        signer: &ExtJwtSigner,
        kid: &str,
        from: Option<IpAddr>,
    ) -> Result<PublicKey, NoKey> {
        let Some(set) = self.set_of(signer) else { return Err(NoKey::Unknown(short(kid))) };
        if let Some(answer) = self.answer(&set, kid) {
            return answer;
        }
        let _waiting = self.waiting.begin(from.map(source_of)).ok_or(NoKey::Busy)?;
        let turn = Arc::clone(&set.turn).lock_owned().await;
        // Another token may have fetched the set meanwhile.
        if let Some(answer) = self.answer(&set, kid) {
            return answer;
        }
        self.fetch_in_turn(&signer.base.id, &set, turn).await;
        self.answer(&set, kid).unwrap_or_else(|| Err(NoKey::Unknown(short(kid))))
    }

    /// The key that has taken the name of another one, whose signature of a token is wrong. Fetched if that may be done
    /// at once: nobody waits here for the fetch of somebody else.
    pub(crate) async fn renewed(
        self: &Arc<Self>,
        signer: &ExtJwtSigner,
        kid: &str,
        former: &PublicKey,
    ) -> Option<PublicKey> {
        let set = self.set_of(signer)?;
        let other = || match set.look(kid, Instant::now()) {
            Look::Known(key) => Some(key).filter(|key| key != former),
            _ => None,
        };
        if let Some(key) = other() {
            return Some(key);
        }
        let turn = Arc::clone(&set.turn).try_lock_owned().ok()?;
        if !set.may_fetch(Instant::now()) {
            return None;
        }
        self.fetch_in_turn(&signer.base.id, &set, turn).await;
        other()
    }

    /// Fetches a set in its turn. The fetch goes on if the client of this token goes away, and others wait for it.
    async fn fetch_in_turn(
        self: &Arc<Self>,
        signer: &Id,
        set: &Arc<Set>,
        turn: OwnedMutexGuard<()>,
    ) {
        set.begin(Instant::now());
        let (sets, fetching, id) = (Arc::clone(self), Arc::clone(set), signer.clone());
        let fetch = tokio::spawn(async move {
            sets.fetch(&id, &fetching).await;
            drop(turn);
        });
        if fetch.await.is_err() {
            set.end(Err("the fetch ended in a fault".into()), self.good_for, Instant::now());
        }
    }

    /// What is known of a key without a fetch; none if the set should be fetched.
    fn answer(&self, set: &Set, kid: &str) -> Option<Result<PublicKey, NoKey>> {
        match set.look(kid, Instant::now()) {
            Look::Known(key) => Some(Ok(key)),
            Look::Unknown => Some(Err(NoKey::Unknown(short(kid)))),
            Look::Failed(reason) => Some(Err(NoKey::Provider {
                signer: set.name.to_string(),
                endpoint: set.endpoint.clone(),
                reason,
            })),
            Look::Fetch => None,
        }
    }

    /// Fetches a set; the caller holds its turn.
    async fn fetch(&self, signer: &Id, set: &Set) {
        let document = self.source.fetch(&set.endpoint).await;
        let read = document.and_then(|text| set::read(&text));
        let now = Instant::now();
        let (name, endpoint) = (&set.name, &set.endpoint);
        match &read {
            Err(reason) => {
                let left = set.good_for(now).map(|left| left.as_secs());
                match self.told.lock().due(std::time::Instant::now()) {
                    Some(left_out) => {
                        tracing::warn!(signer = %name, %endpoint, %reason, keys_good_for_seconds = left, left_out, "the keys of an external signer cannot be fetched: logins with its tokens are refused once its known keys are too old; is the provider up, and may the controller reach it?");
                    }
                    None => {
                        tracing::debug!(signer = %name, %endpoint, %reason, "the keys of an external signer cannot be fetched");
                    }
                }
            }
            Ok(keys) => {
                tracing::debug!(signer = %name, %endpoint, keys = keys.len(), "the keys of an external signer were fetched");
                kept::put(&*self.store, signer, endpoint, keys, self.clock.now());
                self.noted.lock().insert(signer.clone(), endpoint.clone());
            }
        }
        set.end(read, self.good_for, now);
    }

    /// The set of a signer; none if its keys are not at a URL.
    fn set_of(&self, signer: &ExtJwtSigner) -> Option<Arc<Set>> {
        let endpoint = signer.jwks_endpoint.as_deref()?;
        let now = Instant::now();
        let mut sets = self.sets.lock();
        if let Some(set) = sets.get(&signer.base.id).filter(|set| set.is_of(signer, endpoint)) {
            set.used(now);
            return Some(Arc::clone(set));
        }
        if sets.len() >= MOST_SETS && !sets.contains_key(&signer.base.id) {
            let oldest =
                sets.iter().min_by_key(|(_, set)| set.last_used()).map(|(id, _)| id.clone());
            oldest.and_then(|id| sets.remove(&id));
        }
        let set = Arc::new(Set::new(&signer.name, endpoint, now));
        sets.insert(signer.base.id.clone(), Arc::clone(&set));
        Some(set)
    }

    /// Forgets the sets and notes of signers that are gone, are disabled or have another URL now.
    fn retain<'s>(&self, signer: impl Fn(&Id) -> Option<&'s ExtJwtSigner>) {
        let enabled = |id: &Id| signer(id).filter(|it| it.enabled);
        self.sets.lock().retain(|id, set| {
            enabled(id).is_some_and(|it| {
                it.jwks_endpoint.as_deref().is_some_and(|endpoint| set.is_of(it, endpoint))
            })
        });
        self.noted.lock().retain(|id, endpoint| {
            let is_kept = enabled(id).is_some_and(|it| it.jwks_endpoint.as_ref() == Some(endpoint));
            if !is_kept {
                kept::forget(&*self.store, id);
            }
            is_kept
        });
    }

    /// The sets that should be fetched again.
    fn due(&self) -> Vec<(Id, Arc<Set>)> {
        let now = Instant::now();
        let sets = self.sets.lock();
        let due = sets.iter().filter(|(_, set)| set.is_due(now));
        due.map(|(id, set)| (id.clone(), Arc::clone(set))).collect()
    }
}

/// The name of a key for a message.
fn short(kid: &str) -> String {
    kid.chars().take(80).collect()
}

#[cfg(test)]
mod tests;
