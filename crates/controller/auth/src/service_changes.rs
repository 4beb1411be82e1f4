//! The time when the services of each identity last changed (docs/protocol/auth.md 17.3). SDKs poll
//! this time and read their services again when it changes. A change without cause costs one read; a
//! missing one would leave an SDK with old services.

use std::sync::Arc;

use parking_lot::Mutex;
use roaring::RoaringBitmap;
use weft_kernel::Published;
use weft_model::entity::{Config, Identity, PolicyType, Service, ServicePolicy};
use weft_model::policy::access_changes;
use weft_model::{Change, Entity, Id, Kind, Meter, Snapshot, Timestamp};

/// Index of config overrides among the links of an identity.
const CONFIG_OVERRIDE: usize = 3;

/// The times at which the services of identities last changed. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct ServiceChanges(Arc<Mutex<Times>>);

#[derive(Debug, Default)]
struct Times {
    /// The last change that concerns an unknown number of identities.
    everybody: Option<Timestamp>,
    /// The last change of each identity, by ordinal; the default means never. A reused ordinal only
    /// makes a client read once more. A change sets the time of the identities that it concerns,
    /// and leaves the others alone.
    each: Vec<Timestamp>,
}

impl ServiceChanges {
    /// The last change of the services of an identity since the start, if there was one.
    pub fn last(&self, identity: u32) -> Option<Timestamp> {
        let times = self.0.lock();
        let own = times.each.get(identity as usize).copied();
        own.filter(|at| *at != Timestamp::default()).max(times.everybody)
    }

    /// Notes a change that concerns one identity.
    pub fn one(&self, identity: u32, now: Timestamp) {
        self.put(now, &RoaringBitmap::from_iter([identity]));
    }

    /// Notes a change that concerns an unknown number of identities.
    pub fn everybody(&self, now: Timestamp) {
        *self.0.lock() = Times { everybody: Some(now), each: Vec::new() };
    }

    /// Notes the identities that a published batch concerns.
    pub fn follow(&self, published: &Published, now: Timestamp) {
        let (before, after) = (&published.before, &published.after);
        let mut concerned = RoaringBitmap::new();
        for change in published.changes.iter().flat_map(|set| &set.changes) {
            concerned |= match change {
                Change::Put(Entity::Identity(identity)) => of_identity(before, after, identity),
                _ if change.kind() == Kind::ServicePolicy => of_policy(before, after, change.id()),
                _ => of_change(before, change) | of_change(after, change),
            };
        }
        self.put(now, &concerned);
    }

    fn put(&self, now: Timestamp, concerned: &RoaringBitmap) {
        let Some(last) = concerned.max() else { return };
        let mut times = self.0.lock();
        if times.each.len() <= last as usize {
            times.each.resize(last as usize + 1, Timestamp::default());
        }
        for ordinal in concerned {
            if let Some(time) = times.each.get_mut(ordinal as usize) {
                *time = now;
            }
        }
    }
}

/// The identities whose services a change concerns, in one snapshot.
fn of_change(snapshot: &Snapshot, change: &Change) -> RoaringBitmap {
    let id = change.id();
    match change.kind() {
        Kind::Service => of_service(snapshot, id),
        Kind::Config => of_config(snapshot, id),
        Kind::PostureCheck => {
            let side = ServicePolicy::POSTURE_CHECKS;
            let policies = snapshot.holding::<ServicePolicy>(side, id);
            snapshot.union_of::<ServicePolicy>(&policies, ServicePolicy::IDENTITIES)
        }
        _ => RoaringBitmap::new(),
    }
}

/// The identity, if the change gives it other services, or other configs of them.
fn of_identity(before: &Snapshot, after: &Snapshot, identity: &Identity) -> RoaringBitmap {
    let id = &identity.base.id;
    let former = before.get::<Identity>(id);
    let services = |snapshot: &Snapshot| {
        [PolicyType::Dial, PolicyType::Bind].map(|to| snapshot.services_of(id, to))
    };
    let is_seen_alike = former.is_none_or(|former| {
        former.service_configs == identity.service_configs
            && former.service_hosting_costs == identity.service_hosting_costs
            && former.service_hosting_precedences == identity.service_hosting_precedences
            && former.default_hosting_cost == identity.default_hosting_cost
            && former.default_hosting_precedence == identity.default_hosting_precedence
    });
    if is_seen_alike && services(before) == services(after) {
        return RoaringBitmap::new();
    }
    after.ordinal_of::<Identity>(id).into_iter().collect()
}

/// The identities that gain or lose a service by a change of a policy, and those judged by other
/// posture checks. A policy that grants nothing beyond other policies concerns no identity.
fn of_policy(before: &Snapshot, after: &Snapshot, policy: &Id) -> RoaringBitmap {
    let changed = [(Kind::ServicePolicy, policy)];
    let changes = access_changes(before, after, changed, &Meter::default());
    let of_access = changes.iter().map(|change| &*change.gained | &*change.lost);
    let concerned = of_access.fold(RoaringBitmap::new(), |all, these| all | these);
    let checks = |snapshot: &Snapshot| {
        snapshot.get::<ServicePolicy>(policy).map(|it| it.posture_check_roles.clone())
    };
    match (checks(before), checks(after)) {
        (Some(was), Some(is)) if was != is => {
            concerned | members(before, policy) | members(after, policy)
        }
        _ => concerned,
    }
}

/// The identities of a policy; none while it has no service.
fn members(snapshot: &Snapshot, policy: &Id) -> RoaringBitmap {
    let Some(ordinal) = snapshot.ordinal_of::<ServicePolicy>(policy) else {
        return RoaringBitmap::new();
    };
    let members = |side| snapshot.members(Kind::ServicePolicy, ordinal, side);
    match members(ServicePolicy::SERVICES).is_empty() {
        true => RoaringBitmap::new(),
        false => (*members(ServicePolicy::IDENTITIES)).clone(),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_moves_the_time_of_those_it_concerns_alone() {
        let changes = ServiceChanges::default();
        let at = Timestamp::from_secs;
        assert_eq!(changes.last(7), None);
        changes.one(7, at(10));
        // The time stays, however many changes of others follow.
        for other in 100..1100 {
            changes.one(other, at(i64::from(other)));
        }
        assert_eq!((changes.last(7), changes.last(100)), (Some(at(10)), Some(at(100))));
        assert_eq!((changes.last(8), changes.last(5000)), (None, None));
        changes.everybody(at(2000));
        assert_eq!((changes.last(7), changes.last(5000)), (Some(at(2000)), Some(at(2000))));
        changes.one(7, at(2001));
        assert_eq!((changes.last(7), changes.last(8)), (Some(at(2001)), Some(at(2000))));
    }
}
