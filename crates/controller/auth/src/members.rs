//! The controllers of a network that has several: what each tells the others, and what they take from it.
//!
//! A controller that shares its store writes its own entry before it signs anything, and again when its keys change. The
//! entries of the others verify their tokens, and routers get the keys of all. The one that has been alive for the longest
//! time leads: it does what one has to do.
//!
//! ```text
//!          invite, join             start               leave
//!  (none) -------------> invited ----------> present -----------> left --after 2 tokens' lives--> (none)
//!                           ^        (with that authority)  |       |
//!                           |                               +-------+--- remove ---> removed ---readmit---> (none)
//!                           +------------------------------- invite, join ------------'
//! ```

pub mod answers;
mod clock;
pub(crate) mod clock_watch;
pub(crate) mod invitations;
mod joining;
mod leadership;
mod leaving;
pub(crate) mod network_key;
pub(crate) mod network_keys;
pub(crate) mod newer;
mod roll;
mod upgrade;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use weft_contract::{ErrorCode, Word as _};
use weft_identity::{Certificate, PublicKey};
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure, Result};
use weft_model::entity::{ApiLocation, ControllerMember, TokenKey};
use weft_model::{Base, ChangeSet, Id, Kind, Snapshot};
use weft_store::{Alive, Sharing};

use crate::handle::{Auth, WeakAuth};
use crate::keyring::FORGOTTEN;
use crate::public_keys::PublicKey as RouterKey;

/// What a controller that was removed is told.
pub const REMOVED: &str = "this controller was removed from the network, or another one was invited in its place. At another \
                       controller, `weft cluster readmit` lets it come back, and `weft cluster invite` lets it join anew";

/// The least time between two looks at the own entry.
const PACE: std::time::Duration = std::time::Duration::from_secs(1);
/// The pause after a failure to write the own entry.
const AGAIN: std::time::Duration = std::time::Duration::from_secs(5);

impl Auth {
    /// Whether there may be other controllers.
    pub fn is_member(&self) -> bool {
        self.kernel().settings().store.live().sharing() != Sharing::Alone
    }

    /// Whether other controllers write, and this one cannot for now.
    pub fn is_cut_off(&self) -> bool {
        self.kernel().is_cut_off()
    }

    /// Writes the entry of this controller if it has changed, or if the controller starts now (`joins`).
    ///
    /// # Errors
    /// If nothing can be written now.
    pub async fn write_member(&self, joins: bool) -> Result<()> {
        let (own, now, auth) = (self.own_member(), self.kernel().now(), self.clone());
        let decide = move |decision: &mut Decision<'_>| {
            let known = decision.tip().get::<ControllerMember>(&own.base.id);
            let own = auth.tell_network_key(own.clone(), known.map(|known| &**known));
            let authority = own.authorities.first().cloned().unwrap_or_default();
            if known.is_some_and(|known| !known.admits(&authority)) {
                return Err(Failure::because(ErrorCode::Unauthorized, REMOVED));
            }
            // One that has left comes back when it starts, not because its keys have changed.
            if !joins && known.is_some_and(|known| !known.is_present()) {
                return Ok(());
            }
            let written = known.is_some_and(|known| is_same(known, &own));
            let joined_at = known.map(|known| known.joined_at).filter(|_| !joins).unwrap_or(now);
            if !written || joins {
                // Routers are told the list again if it says something else.
                let is_listed = |known: &&Arc<ControllerMember>| {
                    !joins
                        && (&known.ctrl_addresses, &known.apis) == (&own.ctrl_addresses, &own.apis)
                };
                let listed = known.filter(is_listed).map(|known| known.list_index);
                let index = listed.unwrap_or_else(|| next_list(decision));
                let base = known.map_or_else(|| own.base.clone(), |known| known.base.clone());
                decision.put(ControllerMember {
                    base: Base { updated_at: now, ..base },
                    list_index: index,
                    joined_at,
                    ..own
                });
            }
            Ok(())
        };
        self.kernel().decide(&Caller::own("member"), decide).await?;
        if joins {
            self.0.has_joined.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// The entry of this controller.
    pub(crate) fn own_member(&self) -> ControllerMember {
        let (settings, keys) = (self.kernel().settings(), self.keys());
        let ring = self.token_keys().ring.load();
        let token_keys = ring.public.iter().map(|(kid, public)| TokenKey {
            kid: kid.as_str().into(),
            data: Bytes::copy_from_slice(public.data()),
            is_certificate: public.certificate.is_some(),
        });
        let apis = settings.addresses.apis.iter().flat_map(|(api, urls)| {
            let location =
                |url: &String| ApiLocation { api: api.as_str().into(), url: url.as_str().into() };
            urls.iter().map(location)
        });
        let der = |certificate: &Certificate| Bytes::copy_from_slice(certificate.der().as_ref());
        ControllerMember {
            base: Base::new(Id::new(&settings.id), self.kernel().now()),
            certificate: der(keys.session.leaf()),
            authorities: vec![der(keys.authority.certificate())],
            ctrl_addresses: settings.addresses.ctrl.clone(),
            apis: apis.collect(),
            token_keys: token_keys.collect(),
            reads: settings.store.formats()[1],
            ..ControllerMember::default()
        }
    }

    /// The other controllers of a snapshot.
    pub fn other_members<'s>(
        &self,
        snapshot: &'s Snapshot,
    ) -> impl Iterator<Item = &'s Arc<ControllerMember>> + use<'s> {
        let own = Id::new(&self.kernel().settings().id);
        snapshot.list::<ControllerMember>().filter(move |member| member.base.id != own)
    }

    /// Notes whether there is a channel to another controller.
    pub fn reaches(&self, controller: &Id, is_reached: bool) {
        let mut reached = self.0.reached.lock();
        match is_reached {
            true => reached.insert(controller.clone()),
            false => reached.remove(controller),
        };
    }

    /// Whether another controller runs: it says so in etcd or, while nobody hears of etcd, over a channel.
    pub(crate) fn is_alive(&self, controller: &Id, alive: &Alive) -> bool {
        alive.controllers.iter().any(|it| it.name == controller.as_str())
            || !alive.is_heard && self.0.reached.lock().contains(controller)
    }

    /// Follows changes of the entries of others: routers are told of their keys.
    pub(crate) fn follow_members(
        &self,
        before: &Snapshot,
        after: &Snapshot,
        sets: &[Arc<ChangeSet>],
    ) {
        let mut changes = sets.iter().flat_map(|set| &set.changes);
        if !changes.any(|change| change.kind() == Kind::ControllerMember) {
            return;
        }
        let kids = |snapshot: &Snapshot| -> BTreeSet<String> {
            let keys = self.other_members(snapshot).flat_map(|it| told_of(it)).map(|key| key.kid);
            keys.collect()
        };
        let there = kids(after);
        let gone = kids(before).into_iter().filter(|kid| !there.contains(kid));
        let mut forgotten = self.0.keys_gone.lock();
        forgotten.extend(gone);
        let surplus = forgotten.len().saturating_sub(FORGOTTEN);
        forgotten.drain(..surplus);
        drop(forgotten);
        self.keyring().changes.send_modify(|count| *count += 1);
    }

    /// The key of another controller with which it signs tokens.
    pub(crate) fn token_key_of_others(&self, kid: &str) -> Option<PublicKey> {
        let snapshot = self.kernel().snapshot();
        let mut keys = self.other_members(&snapshot).flat_map(|member| &member.token_keys);
        keys.find(|key| *key.kid == *kid).and_then(public_of)
    }
}

/// The number of the list of controllers that a change makes.
pub(crate) fn next_list(decision: &Decision<'_>) -> u64 {
    let last = ControllerMember::newest_list(decision.tip()).unwrap_or_default();
    last.saturating_add(1).max(decision.now().0.unsigned_abs())
}

/// Whether two entries tell the same.
fn is_same(one: &ControllerMember, other: &ControllerMember) -> bool {
    let told = |it: &ControllerMember| {
        let keys = (it.certificate.clone(), it.authorities.clone(), it.token_keys.clone());
        let numbers = (it.network_key, it.seals_with, it.sealed_since);
        let network_key = (it.wrap_key.clone(), it.handed.clone(), numbers);
        (keys, network_key, it.ctrl_addresses.clone(), it.apis.clone(), it.reads)
    };
    told(one) == told(other)
}

/// The public keys of a controller that routers are told: those of its tokens, its certificate and its authorities.
pub(crate) fn told_of(member: &ControllerMember) -> impl Iterator<Item = RouterKey> + '_ {
    let of_tokens = member.token_keys.iter().map(|key| RouterKey {
        kid: key.kid.to_string(),
        data: key.data.to_vec(),
        is_certificate: key.is_certificate,
        for_tokens: true,
        for_clients: false,
    });
    let certificates = std::iter::once(&member.certificate).chain(&member.authorities);
    let certificates = certificates.filter_map(|der| Certificate::from_der(der.to_vec()).ok());
    of_tokens.chain(certificates.map(|certificate| RouterKey::of(&certificate)))
}

/// A key that an entry holds.
pub(crate) fn public_of(key: &TokenKey) -> Option<PublicKey> {
    match key.is_certificate {
        true => Certificate::from_der(key.data.to_vec()).ok()?.public_key().ok().cloned(),
        false => PublicKey::from_spki(&key.data).ok(),
    }
}

/// Writes the entry of this controller again whenever its keys change.
pub(crate) async fn follow_keys(weak: WeakAuth) {
    let is_known = |auth: &Auth| auth.is_member() && auth.kernel().settings().joins;
    let Some(mut changes) = weak.upgrade().filter(is_known).map(|auth| auth.key_changes()) else {
        return;
    };
    let mut has_failed = false;
    loop {
        let Some(auth) = weak.upgrade() else { return };
        changes.mark_unchanged();
        // The start may have found etcd without a quorum.
        let joins = !auth.0.has_joined.load(Ordering::Acquire);
        if let Err(error) = auth.write_member(joins).await {
            if !std::mem::replace(&mut has_failed, true) {
                tracing::warn!(%error, "the other controllers do not know the keys of this one yet; it is tried again");
            }
            tokio::time::sleep(AGAIN).await;
            continue;
        }
        has_failed = false;
        drop(auth);
        // Another program with the name of this controller writes, too, until it notices and ends.
        tokio::time::sleep(PACE).await;
        if changes.changed().await.is_err() {
            return;
        }
    }
}
