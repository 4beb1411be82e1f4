//! The keys in use, and former keys for as long as their signatures may be shown.
//!
//! Keys and certificates can be exchanged while the controller runs:
//! [`Auth::exchange_keys`](crate::Auth::exchange_keys) replaces all of them at once, for everything
//! that signs. Tokens are signed with [other keys](crate::token_keys). Signatures of former keys stay valid:
//!
//! - enrollment tickets, for the life of a ticket: the former key stays in the published key set, and at
//!   least for the first hours of a run, so that a clock that is wrong for a moment takes out no key;
//! - certificates of a former signer, while it leads to a root of the bundle and all certificates up to
//!   that root are valid. That is judged by the clock at each use and decides nothing for good, because
//!   a clock may be wrong for a moment.
//!
//! Only public halves of former keys are kept, in the notes of the store, so that an exchange by a
//! restart has the same effect. A root that is missing in the new bundle ends at once, because an
//! operator removed it on purpose.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use weft_identity::token::TokenSigner;
use weft_identity::{Certificate, TrustBundle, chain_up};
use weft_kernel::clock::timestamp;
use weft_kernel::{Durations, Keys};
use weft_model::Timestamp;
use weft_store::{ReadError, Space, Store};

use crate::token_keys::LoadError;

/// The space of the notes with certificates.
pub const NOTES: Space = Space(24);
/// Former certificates kept for each use; above that the oldest are forgotten.
pub const FORMER: usize = 8;
/// Names of keys that routers are told to forget; above that the oldest are dropped.
pub const FORGOTTEN: usize = 64;

/// The use of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Use {
    /// The certificate is the root identity's. In an earlier release its key signed tokens.
    Session,
    /// The key signed tokens in an earlier release.
    Token,
    /// The key signs enrollment tickets.
    Enrollment,
    /// The certificate is the signer's, which issues certificates.
    Authority,
    /// The certificate is a root of the bundle.
    Root,
}

impl Use {
    /// Whether a former certificate of this use counts no more.
    fn ends_at_once(self) -> bool {
        matches!(self, Self::Session | Self::Token | Self::Root)
    }

    /// Whether routers are told of it.
    pub(crate) fn is_told(self) -> bool {
        self.ends_at_once()
    }
}

/// A certificate in use, or a former one.
#[derive(Debug, Clone)]
pub(crate) struct KeyringCertificate {
    pub(crate) certificate: Certificate,
    /// The end of its use; none while it is in use.
    pub(crate) until: Option<Timestamp>,
    /// Whether the certificate counts no more. Only its name is kept, so that routers are told to
    /// forget it.
    pub(crate) is_forgotten: bool,
}

/// A [`KeyringCertificate`] in the form of the notes.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Note {
    used_for: Use,
    certificate: String,
    until: Option<i64>,
    is_forgotten: bool,
}

type KeyringCertificates = BTreeMap<(Use, String), KeyringCertificate>;

/// The keys that count at one moment.
#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) keys: Arc<Keys>,
    /// The keys without the additions to the bundle.
    pub(crate) given: Arc<Keys>,
    pub(crate) known: KeyringCertificates,
    /// The time in which the additions to the bundle are these.
    during: RangeInclusive<Timestamp>,
}

/// The keys of a controller.
pub struct Keyring {
    store: Arc<dyn Store>,
    /// Longest life of a ticket.
    ticket_life: Duration,
    pub(crate) ring: ArcSwap<Ring>,
    /// Held during an exchange.
    exchange: Mutex<()>,
    /// Counts changes that routers have to be told.
    pub(crate) changes: watch::Sender<u64>,
}

impl Keyring {
    /// The keys given at the start, with former keys from the notes.
    pub fn load(
        store: Arc<dyn Store>,
        keys: Keys,
        durations: &Durations,
        changes: watch::Sender<u64>,
        now: Timestamp,
    ) -> Result<Self, LoadError> {
        check_signing(&keys)?;
        let mut noted = KeyringCertificates::new();
        for (name, note) in store.live().notes(NOTES)? {
            match read_note(&note) {
                Some((used_for, known)) => {
                    let print = known.certificate.fingerprint().to_owned();
                    noted.insert((used_for, print), known);
                }
                None => tracing::warn!(
                    name,
                    "a certificate in the store's notes cannot be read and is left out"
                ),
            }
        }
        let given = Arc::new(keys.clone());
        let ring = Ring { keys: Arc::clone(&given), given, known: noted, during: now..=now };
        let keyring = Self {
            store,
            ticket_life: durations.identity_enrollment.max(durations.router_enrollment),
            ring: ArcSwap::from_pointee(ring),
            exchange: Mutex::default(),
            changes,
        };
        keyring.put(keys, now);
        Ok(keyring)
    }

    /// Puts keys in the place of those in use.
    pub(crate) fn put(&self, keys: Keys, now: Timestamp) {
        let _one = self.exchange.lock();
        let mut known = self.ring.load().known.clone();
        for known in known.values_mut().filter(|known| known.until.is_none()) {
            known.until = Some(now);
        }
        for (used_for, certificate) in used(&keys) {
            let name = (used_for, certificate.fingerprint().to_owned());
            let certificate = certificate.clone();
            known
                .insert(name, KeyringCertificate { certificate, until: None, is_forgotten: false });
        }
        for ((used_for, _), known) in &mut known {
            known.is_forgotten |= used_for.ends_at_once() && known.until.is_some();
        }
        self.keep(Arc::new(keys), known, now);
    }

    /// Drops former keys whose tickets have ended, by the time that has
    /// [settled](weft_limits::SettledClock), if there is one.
    pub fn sweep(&self, now: Timestamp, settled: Option<Timestamp>) {
        let is_former = |known: &KeyringCertificate| known.until.is_some() && !known.is_forgotten;
        if !self.ring.load().known.values().any(is_former) {
            return;
        }
        let _one = self.exchange.lock();
        let ring = self.ring.load_full();
        let mut known = ring.known.clone();
        let mut changed = false;
        for ((used_for, _), known) in &mut known {
            let Some(until) = known.until.filter(|_| !known.is_forgotten) else { continue };
            known.is_forgotten = match used_for {
                Use::Enrollment => settled.is_some_and(|it| it >= until.plus(self.ticket_life)),
                // Certificates of a former signer are judged at each use, and their number is
                // limited.
                Use::Authority => false,
                Use::Session | Use::Token | Use::Root => true,
            };
            changed |= known.is_forgotten;
        }
        if changed {
            self.keep(Arc::clone(&ring.given), known, now);
        }
    }

    /// Replaces the table within its limits, and notes the differences in the store.
    fn keep(&self, given: Arc<Keys>, mut known: KeyringCertificates, now: Timestamp) {
        limit(&mut known);
        let former = known.iter().filter_map(|((used_for, _), known)| {
            let counts = *used_for == Use::Authority && !known.is_forgotten;
            counts.then(|| known.certificate.clone())
        });
        let (bundle, during) = with_former(&given, &former.collect::<Vec<_>>(), now);
        let keys = Arc::new(Keys { bundle, ..(*given).clone() });
        let before = self.ring.load_full();
        for (name, known) in &known {
            let same = before.known.get(name).is_some_and(|old| {
                (old.until, old.is_forgotten) == (known.until, known.is_forgotten)
            });
            if !same {
                self.store.live().put_note(NOTES, &note_name(name), write_note(name.0, known));
            }
        }
        for name in before.known.keys().filter(|name| !known.contains_key(*name)) {
            self.store.live().put_note(NOTES, &note_name(name), None);
        }
        self.ring.store(Arc::new(Ring { keys, given, known, during }));
        self.changes.send_modify(|count| *count += 1);
    }

    /// The keys in use; the bundle includes former signers that are believed at `now`.
    pub fn keys(&self, now: Timestamp) -> Arc<Keys> {
        let ring = self.ring.load();
        if ring.during.contains(&now) {
            return Arc::clone(&ring.keys);
        }
        drop(ring);
        let _one = self.exchange.lock();
        let ring = self.ring.load_full();
        if !ring.during.contains(&now) {
            self.keep(Arc::clone(&ring.given), ring.known.clone(), now);
        }
        Arc::clone(&self.ring.load().keys)
    }

    /// Whether a certificate has the key of an authority of the network, present or former: one in
    /// the bundle, the signer, or an authority above the controller's own certificates.
    pub fn is_of_authority(&self, certificate: &Certificate) -> bool {
        let ring = self.ring.load();
        let keys = &ring.keys;
        let former = ring.known.iter().filter_map(|((used_for, _), known)| {
            matches!(used_for, Use::Authority | Use::Root).then_some(&known.certificate)
        });
        let own = [&keys.session, &keys.enrollment].into_iter().flat_map(|it| it.chain());
        let mut known = keys.bundle.certificates().iter().chain(own).chain(former);
        known.any(|it| match (it.public_key(), certificate.public_key()) {
            (Ok(known), Ok(shown)) => known.is_same(shown),
            _ => it == certificate,
        })
    }

    /// The certificates of a use that count, those in use first.
    pub(crate) fn counting(&self, used_for: Use) -> Vec<Certificate> {
        let ring = self.ring.load();
        let counts = ring.known.iter().filter(|((of, _), it)| *of == used_for && !it.is_forgotten);
        let mut found: Vec<&KeyringCertificate> = counts.map(|(_, known)| known).collect();
        found.sort_by_key(|known| known.until.is_some());
        found.into_iter().map(|known| known.certificate.clone()).collect()
    }
}

/// Checks that these keys can sign tickets.
pub(crate) fn check_signing(keys: &Keys) -> weft_identity::Result<()> {
    TokenSigner::new(&keys.enrollment).map(drop)
}

/// The note, in a store that no controller has opened yet, by which the key of a certificate counts as one that signed
/// tokens before: they stay valid until they end.
pub fn note_of_earlier_signer(certificate: &Certificate) -> Option<(Space, String, Bytes)> {
    let known =
        KeyringCertificate { certificate: certificate.clone(), until: None, is_forgotten: false };
    let name = note_name(&(Use::Token, certificate.fingerprint().to_owned()));
    Some((NOTES, name, write_note(Use::Token, &known)?))
}

/// The certificates whose keys signed tokens in a release without keys for that alone.
pub(crate) fn earlier_signers(store: &dyn Store) -> Result<Vec<Certificate>, ReadError> {
    let notes = store.live().notes(NOTES)?;
    let known = notes.iter().filter_map(|(_, note)| read_note(note));
    let signers = known.filter(|(used_for, known)| {
        matches!(used_for, Use::Session | Use::Token) && !known.is_forgotten
    });
    Ok(signers.map(|(_, known)| known.certificate).collect())
}

/// The certificates of keys, each with its use.
fn used(keys: &Keys) -> impl Iterator<Item = (Use, &Certificate)> {
    let own = [
        (Use::Session, keys.session.leaf()),
        (Use::Enrollment, keys.enrollment.leaf()),
        (Use::Authority, keys.authority.certificate()),
    ];
    own.into_iter().chain(keys.bundle.roots().map(|root| (Use::Root, root)))
}

/// The bundle, with former signers that lead to one of its roots over certificates that are valid at
/// `now`; and the time around `now` in which the bundle is the same.
fn with_former(
    keys: &Keys,
    former: &[Certificate],
    now: Timestamp,
) -> (TrustBundle, RangeInclusive<Timestamp>) {
    let known = keys.bundle.certificates();
    let above: Vec<Certificate> = known.iter().chain(former).cloned().collect();
    let (mut from, mut until) = (Timestamp(i64::MIN), Timestamp(i64::MAX));
    let mut believed = Vec::new();
    for signer in former {
        let chain = chain_up(signer, &above);
        if chain.last().is_none_or(|last| keys.bundle.roots().all(|root| root != last)) {
            continue;
        }
        let begin = chain.iter().map(|it| timestamp(it.not_before())).max().unwrap_or(from);
        let end = chain.iter().map(|it| timestamp(it.not_after())).min().unwrap_or(until);
        if now > end {
            from = from.max(Timestamp(end.0.saturating_add(1)));
        } else if now < begin {
            until = until.min(Timestamp(begin.0.saturating_sub(1)));
        } else {
            (from, until) = (from.max(begin), until.min(end));
            believed.push(signer.clone());
        }
    }
    (TrustBundle::new(known.iter().cloned().chain(believed)), from..=until)
}

/// Drops the oldest certificates above the limits.
fn limit(known: &mut KeyringCertificates) {
    let over = |known: &KeyringCertificates,
                of: &dyn Fn(Use, &KeyringCertificate) -> bool,
                most: usize| {
        let mut found: Vec<_> = known.iter().filter(|((used, _), it)| of(*used, it)).collect();
        found.sort_by_key(|(_, it)| std::cmp::Reverse(it.until));
        found.into_iter().skip(most).map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    for used_for in [Use::Enrollment, Use::Authority] {
        let former = |used, it: &KeyringCertificate| {
            used == used_for && it.until.is_some() && !it.is_forgotten
        };
        for name in over(known, &former, FORMER) {
            known.entry(name).and_modify(|it| it.is_forgotten = true);
        }
    }
    known.retain(|(used_for, _), it| !it.is_forgotten || used_for.is_told());
    for name in over(known, &|_, it| it.is_forgotten, FORGOTTEN) {
        known.remove(&name);
    }
}

fn note_name((used_for, print): &(Use, String)) -> String {
    format!("{used_for:?}/{print}")
}

fn write_note(used_for: Use, known: &KeyringCertificate) -> Option<Bytes> {
    let note = Note {
        used_for,
        certificate: known.certificate.to_pem(),
        until: known.until.map(|until| until.0),
        is_forgotten: known.is_forgotten,
    };
    serde_json::to_vec(&note).ok().map(Bytes::from)
}

fn read_note(note: &[u8]) -> Option<(Use, KeyringCertificate)> {
    let note: Note = serde_json::from_slice(note).ok()?;
    let certificate = Certificate::from_pem(note.certificate.as_bytes()).ok()?;
    let until = note.until.map(Timestamp);
    let certificate = certificate.into_iter().next()?;
    Some((
        note.used_for,
        KeyringCertificate { certificate, until, is_forgotten: note.is_forgotten },
    ))
}
