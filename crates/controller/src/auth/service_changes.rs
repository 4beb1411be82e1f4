//! When the services of an identity last changed: a short journal of times and the identities
//! concerned, read on demand (protocol: auth 17.3). SDKs poll it and read their services anew when
//! it moves, so it may say "changed" too often, but never too rarely.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use roaring::RoaringBitmap;
use weft_model::entity::{Config, Identity, PolicyType, Service, ServicePolicy};
use weft_model::{Change, Entity, Id, Kind, Snapshot, Timestamp};

use crate::Published;

/// Place of an identity's config overrides among its links.
const CONFIG_OVERRIDE: usize = 3;
/// Entries kept; older ones are merged.
const KEPT: usize = 256;

#[derive(Debug, Clone)]
enum Who {
    Everybody,
    /// Ordinals of identities. One that is given out again only makes a client look once more.
    These(RoaringBitmap),
}

/// The journal.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServiceChanges(Arc<Mutex<VecDeque<(Timestamp, Who)>>>);

impl ServiceChanges {
    /// When the services of this identity last changed since the start, if they did.
    pub(crate) fn last(&self, identity: u32) -> Option<Timestamp> {
        let journal = self.0.lock();
        let concerned = journal.iter().rev().find(|(_, who)| match who {
            Who::Everybody => true,
            Who::These(ordinals) => ordinals.contains(identity),
        });
        concerned.map(|(at, _)| *at)
    }

    /// Something changed that concerns one identity.
    pub(crate) fn one(&self, identity: u32, now: Timestamp) {
        self.put(now, RoaringBitmap::from_iter([identity]));
    }

    /// Something changed that concerns an unknown number of identities.
    pub(crate) fn everybody(&self, now: Timestamp) {
        let mut journal = self.0.lock();
        journal.clear();
        journal.push_back((now, Who::Everybody));
    }

    /// Writes down whom a batch concerns.
    pub(crate) fn follow(&self, published: &Published, now: Timestamp) {
        let mut concerned = RoaringBitmap::new();
        for change in published.changes.iter().flat_map(|set| &set.changes) {
            concerned |= of_change(&published.before, change);
            concerned |= of_change(&published.after, change);
        }
        if !concerned.is_empty() {
            self.put(now, concerned);
        }
    }

    fn put(&self, now: Timestamp, concerned: RoaringBitmap) {
        let mut journal = self.0.lock();
        // Clients that report again and again fill one entry.
        if let Some((at, Who::These(last))) = journal.back_mut()
            && *last == concerned
        {
            *at = now;
            return;
        }
        journal.push_back((now, Who::These(concerned)));
        if journal.len() > KEPT
            && let (Some((_, older)), Some((at, newer))) =
                (journal.pop_front(), journal.pop_front())
        {
            journal.push_front((at, older.and(newer)));
        }
    }
}

impl Who {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::These(a), Self::These(b)) => Self::These(a | b),
            _ => Self::Everybody,
        }
    }
}

/// The identities whose services a change concerns, as one snapshot sees it.
fn of_change(snapshot: &Snapshot, change: &Change) -> RoaringBitmap {
    let id = change.id();
    match change.kind() {
        Kind::ServicePolicy => of_policy(snapshot, id),
        Kind::Service => of_service(snapshot, id),
        Kind::Config => of_config(snapshot, id),
        Kind::PostureCheck => {
            let side = ServicePolicy::POSTURE_CHECKS;
            let policies = snapshot.holding::<ServicePolicy>(side, id);
            snapshot.union_of::<ServicePolicy>(&policies, ServicePolicy::IDENTITIES)
        }
        Kind::Identity => match change {
            Change::Put(Entity::Identity(_)) => {
                snapshot.ordinal_of::<Identity>(id).into_iter().collect()
            }
            _ => RoaringBitmap::new(),
        },
        _ => RoaringBitmap::new(),
    }
}

fn of_policy(snapshot: &Snapshot, policy: &Id) -> RoaringBitmap {
    let ordinal = snapshot.ordinal_of::<ServicePolicy>(policy);
    let members = |ordinal| {
        (*snapshot.members(Kind::ServicePolicy, ordinal, ServicePolicy::IDENTITIES)).clone()
    };
    ordinal.map(members).unwrap_or_default()
}

fn of_service(snapshot: &Snapshot, service: &Id) -> RoaringBitmap {
    snapshot.identities_of(service, PolicyType::Dial)
        | snapshot.identities_of(service, PolicyType::Bind)
}

fn of_config(snapshot: &Snapshot, config: &Id) -> RoaringBitmap {
    if snapshot.get::<Config>(config).is_none() {
        return RoaringBitmap::new();
    }
    let services = snapshot.referring::<Service>(0, config);
    let over_services = services.map(|service| of_service(snapshot, &service.base.id));
    let mut concerned = over_services.fold(RoaringBitmap::new(), |all, these| all | these);
    let overriding = snapshot.referring::<Identity>(CONFIG_OVERRIDE, config);
    let overriding = overriding.filter_map(|it| snapshot.ordinal_of::<Identity>(&it.base.id));
    concerned.extend(overriding);
    concerned
}
