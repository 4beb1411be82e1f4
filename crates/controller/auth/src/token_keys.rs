//! The keys that sign tokens: of API sessions, service sessions, one-time codes and ends (docs/protocol/auth.md 15.10).
//!
//! The controller makes P-256 keys for this purpose alone. Each is published before it signs, and stays published until the
//! last token that it has signed has ended, so that nobody notices that another one signs. Enrollment tickets are signed with
//! the key of the server that clients connect to.
//!
//! - `stages`: the life of the keys, as a state machine; `kept`: their form in the notes of the store;
//! - `roll`: what is due, and what administrators ask for; [`answers`]: their operations.

pub mod answers;
mod kept;
mod roll;
pub mod stages;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
pub use roll::{DroppedKeys, KnownTokenKey};
use stages::{ClockReading, InUse, Stages};
pub use stages::{NotYet, Pace, Stage};
use tokio::sync::watch;
use weft_identity::token::TokenSigner;
use weft_identity::{Certificate, KeyAlgorithm, PrivateKey, PublicKey, SealKey, fingerprint};
use weft_model::{Timeline, Timestamp};
use weft_store::{ReadError, Space, Store};

/// The space of the notes with keys.
pub const NOTES: Space = Space(26);

/// The public half of a key, in the form in which routers get it.
#[derive(Debug, Clone)]
pub(crate) struct Public {
    pub(crate) key: PublicKey,
    /// The certificate of a key with which an earlier release signed.
    pub(crate) certificate: Option<Certificate>,
}

impl Public {
    fn of(key: PublicKey) -> Self {
        Self { key, certificate: None }
    }

    fn of_certificate(certificate: Certificate) -> Option<Self> {
        let key = certificate.public_key().ok()?.clone();
        Some(Self { key, certificate: Some(certificate) })
    }

    /// What routers get: the certificate, or the key itself.
    pub(crate) fn data(&self) -> &[u8] {
        self.certificate.as_ref().map_or(self.key.spki(), |certificate| certificate.der().as_ref())
    }
}

/// The keys at one moment.
#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) stages: Stages,
    /// The public halves of the keys that count.
    pub(crate) public: BTreeMap<String, Public>,
    /// The private halves of the signing key and of the next one.
    secrets: BTreeMap<String, PrivateKey>,
    signer: Arc<TokenSigner>,
}

/// The keys that sign tokens.
pub struct TokenKeys {
    store: Arc<dyn Store>,
    /// Seals private halves in the store.
    seal: Arc<SealKey>,
    /// A restored database is on another timeline: no key of it counts, as no session does.
    timeline: Timeline,
    pub(crate) pace: Pace,
    pub(crate) ring: ArcSwap<Ring>,
    /// Held during a change.
    change: Mutex<()>,
    /// When sessions were last asked which former keys they need.
    asked: Mutex<Option<Instant>>,
    /// When it was last told that there are too many former keys.
    told_full: Mutex<Option<Instant>>,
    /// Counts changes that routers have to be told.
    changes: watch::Sender<u64>,
}

/// Why keys cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The notes cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A key cannot be made.
    #[error(transparent)]
    Key(#[from] weft_identity::Error),
}

/// The store of keys, and what belongs to it.
pub(crate) struct KeyStorage {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) seal: Arc<SealKey>,
    pub(crate) timeline: Timeline,
}

impl TokenKeys {
    /// The keys of the last run. `earlier` are the certificates whose keys signed tokens in a release without these keys; they
    /// are asked for at the first start with them.
    pub(crate) fn load(
        storage: KeyStorage,
        pace: Pace,
        earlier: impl FnOnce() -> Result<Vec<Certificate>, ReadError>,
        changes: watch::Sender<u64>,
        now: Timestamp,
    ) -> Result<Self, LoadError> {
        let KeyStorage { store, seal, timeline } = storage;
        let notes = store.live().notes(NOTES)?;
        let mut draft = Draft::default();
        if notes.is_empty() {
            for certificate in earlier()? {
                let kid = certificate.fingerprint().to_owned();
                let Some(public) = Public::of_certificate(certificate) else { continue };
                draft.stages.enter(kid.clone(), Stage::Former { until: now });
                draft.public.insert(kid, public);
            }
        }
        for (kid, note) in notes {
            draft.read(&kid, &note, (&seal, &timeline), now);
        }
        let reading = ClockReading { now, settled: None };
        draft.advance(pace, reading, InUse::default)?;
        let ring = ArcSwap::from_pointee(draft.ring()?);
        let keys = Self {
            store,
            seal,
            timeline,
            pace,
            ring,
            change: Mutex::default(),
            asked: Mutex::default(),
            told_full: Mutex::default(),
            changes,
        };
        keys.write(&Stages::default(), &keys.ring.load())?;
        Ok(keys)
    }

    /// The signer of tokens.
    pub(crate) fn signer(&self) -> Arc<TokenSigner> {
        Arc::clone(&self.ring.load().signer)
    }

    /// The key with this name, if its signatures are right.
    pub(crate) fn key(&self, kid: &str) -> Option<PublicKey> {
        self.ring.load().public.get(kid).map(|public| public.key.clone())
    }

    /// When the program that signed before weft first started did so for the last time, if this is a key of it that counts.
    pub(crate) fn earlier_program_until(&self, kid: &str) -> Option<Timestamp> {
        let ring = self.ring.load();
        ring.public.get(kid)?.certificate.as_ref()?;
        match ring.stages.get(kid) {
            Some(Stage::Former { until }) => Some(until),
            _ => None,
        }
    }

    /// The keys of that program that count, each with the time of its last signature.
    pub(crate) fn of_earlier_program(&self) -> Vec<(String, Timestamp)> {
        let ring = self.ring.load();
        let until = |kid: &String| Some((kid.clone(), self.earlier_program_until(kid)?));
        ring.public.keys().filter_map(until).collect()
    }

    /// Changes the keys. Without a difference nothing is written, and nobody is told.
    fn change<T, E: From<weft_identity::Error>>(
        &self,
        change: impl FnOnce(&mut Draft) -> Result<T, E>,
    ) -> Result<T, E> {
        let _one = self.change.lock();
        let before = self.ring.load_full();
        let mut draft = Draft::of(&before);
        let answer = change(&mut draft)?;
        if draft.stages != before.stages {
            let ring = draft.ring()?;
            self.write(&before.stages, &ring)?;
            self.ring.store(Arc::new(ring));
            self.changes.send_modify(|count| *count += 1);
        }
        Ok(answer)
    }

    /// Notes the differences in the store, all of them or none.
    fn write(&self, before: &Stages, ring: &Ring) -> weft_identity::Result<()> {
        let (mut notes, after) = (Vec::new(), &ring.stages);
        for (kid, stage) in after.iter().filter(|(kid, stage)| before.get(kid) != Some(*stage)) {
            let note = kept::Note {
                stage,
                public: ring.public.get(kid),
                secret: ring.secrets.get(kid),
                timeline: &self.timeline,
            };
            notes.push((kid.to_owned(), Some(note.write(kid, &self.seal)?)));
        }
        let forgotten = before.iter().filter(|(kid, _)| after.get(kid).is_none());
        notes.extend(forgotten.map(|(kid, _)| (kid.to_owned(), None)));
        self.store.live().put_notes(NOTES, notes);
        Ok(())
    }
}

/// A ring that is being changed.
#[derive(Debug, Default)]
struct Draft {
    stages: Stages,
    public: BTreeMap<String, Public>,
    secrets: BTreeMap<String, PrivateKey>,
}

impl Draft {
    fn of(ring: &Ring) -> Self {
        Self {
            stages: ring.stages.clone(),
            public: ring.public.clone(),
            secrets: ring.secrets.clone(),
        }
    }

    /// Takes a key of an earlier run.
    fn read(&mut self, kid: &str, note: &[u8], of: (&SealKey, &Timeline), now: Timestamp) {
        let Some(read) = kept::Read::of(kid, note, of) else {
            tracing::warn!(
                kid,
                "a key of tokens in the store's notes cannot be read and is left out"
            );
            self.stages.enter(kid.to_owned(), Stage::Gone { since: now, stolen: false });
            return;
        };
        self.stages.enter(kid.to_owned(), read.stage);
        if let Some(public) = read.public {
            self.public.insert(kid.to_owned(), public);
        }
        match read.secret {
            Some(secret) => drop(self.secrets.insert(kid.to_owned(), secret)),
            None if read.stage.has_secret() => {
                tracing::warn!(
                    kid,
                    "a key of tokens cannot be opened, because the key of session tokens is another one; another key signs"
                );
                self.stages.lose(kid, now);
            }
            None => {}
        }
    }

    fn advance(
        &mut self,
        pace: Pace,
        reading: ClockReading,
        in_use: impl FnOnce() -> InUse,
    ) -> weft_identity::Result<()> {
        let Self { stages, public, secrets } = self;
        stages.advance(pace, reading, in_use, || {
            let secret = PrivateKey::generate(KeyAlgorithm::EcP256)?;
            let kid = fingerprint(secret.public().spki());
            public.insert(kid.clone(), Public::of(secret.public().clone()));
            secrets.insert(kid.clone(), secret);
            Ok(kid)
        })
    }

    /// The ring, without what no stage needs any more.
    fn ring(mut self) -> weft_identity::Result<Ring> {
        self.public.retain(|kid, _| self.stages.get(kid).is_some_and(Stage::verifies));
        self.secrets.retain(|kid, _| self.stages.get(kid).is_some_and(Stage::has_secret));
        let signing = self.stages.signing().map(|(kid, _)| kid).unwrap_or_default();
        let secret = self.secrets.get(&signing).cloned().ok_or(weft_identity::Error::NoKey)?;
        let signer = Arc::new(TokenSigner::with_kid(secret, &signing)?);
        let Self { stages, public, secrets } = self;
        Ok(Ring { stages, public, secrets, signer })
    }
}

#[cfg(test)]
pub(crate) mod tests;
