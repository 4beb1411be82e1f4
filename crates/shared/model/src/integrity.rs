//! Integrity of a snapshot: finding faults and mending them.
//!
//! A change set cannot break an index or leave a dangling reference. A fault found here therefore
//! comes from a defect of this program or the machine, or from rows that another program wrote.

use std::collections::BTreeMap;

use crate::entity::{AuthPolicy, ExtJwtSigner, Identity, OnDelete};
use crate::{ApplyError, Change, Entity, Id, Kind, Link, Snapshot, Timestamp, deletion};

/// A reference to an entity that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dangling {
    /// The kind of the entity that refers.
    pub kind: Kind,
    /// Id of the entity that refers.
    pub id: Id,
    /// Number of the reference, see [`Kind::links`].
    pub link: usize,
    /// Id of the missing entity.
    pub target: Id,
}

impl Dangling {
    fn rule(&self) -> Option<&'static Link> {
        self.kind.links().get(self.link)
    }
}

impl std::fmt::Display for Dangling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (field, to) = self.rule().map_or(("?", "?"), |rule| (rule.field, rule.to.name()));
        let Self { kind, id, target, .. } = self;
        write!(f, "{field} of {kind} {id} names {to} {target}, which does not exist")
    }
}

impl Snapshot {
    /// Every dangling reference, ordered by kind and id of the entity that refers.
    pub fn dangling(&self) -> Vec<Dangling> {
        let mut found = Vec::new();
        for kind in Kind::ALL {
            for entity in self.table(*kind).iter() {
                found.extend(self.dangling_of(entity));
            }
        }
        found
    }

    /// The dangling references of one entity.
    pub fn dangling_of(&self, entity: &Entity) -> Vec<Dangling> {
        let kind = entity.kind();
        let mut found = Vec::new();
        entity.links(&mut |link, target| {
            let Some(rule) = kind.links().get(link) else { return };
            if target.is_empty() || self.contains(rule.to, target) {
                return;
            }
            let one = Dangling { kind, id: entity.id().clone(), link, target: target.clone() };
            if !found.contains(&one) {
                found.push(one);
            }
        });
        found
    }

    /// Passes a description of every fault of the indexes to `wrong`.
    pub fn verify_indexes(&self, wrong: &mut dyn FnMut(String)) {
        for kind in Kind::ALL {
            self.table(*kind).verify(wrong);
        }
        for kind in Kind::ALL.iter().filter(|kind| !kind.sides().is_empty()) {
            self.policies.verify(self.table(*kind), |kind| self.table(kind), wrong);
        }
    }

    /// The same entities at the same revision, with all indexes rebuilt. Ordinals change.
    pub fn rebuilt(&self) -> Result<Self, ApplyError> {
        let mut loader = Self::loader(self.timeline().clone(), self.revision());
        for kind in Kind::ALL {
            for (_, entity) in self.table(*kind).occupied() {
                loader.put(entity.clone())?;
            }
        }
        loader.finish()
    }
}

/// The changes that leave an entity as if the missing entities that it refers to had been deleted by
/// an operation. `None` if a reference can be neither removed nor replaced.
pub fn mend(snapshot: &Snapshot, kind: Kind, id: &Id, now: Timestamp) -> Option<Vec<Change>> {
    let entity = snapshot.entity(kind, id)?;
    let dangling = snapshot.dangling_of(entity);
    if dangling.is_empty() {
        return Some(Vec::new());
    }
    let goes_along =
        |one: &Dangling| one.rule().is_some_and(|rule| rule.on_delete == OnDelete::Cascade);
    if dangling.iter().any(goes_along) {
        return deletion::plan(snapshot, kind, id, now).ok();
    }
    let mut mended = entity.clone();
    for one in &dangling {
        mended = match one.rule()?.on_delete {
            OnDelete::Unlink => mended.without(one.link, &one.target),
            OnDelete::Refuse => without_refused(&mended, one)?,
            OnDelete::Cascade => return None,
        };
    }
    Some(vec![Change::Put(mended.touched(now))])
}

/// Removes a reference that would have prevented the deletion of its target.
fn without_refused(entity: &Entity, one: &Dangling) -> Option<Entity> {
    let default = || Id::new(AuthPolicy::DEFAULT_ID);
    Some(match entity {
        Entity::Identity(identity) => {
            let mut identity = Identity::clone(identity);
            match one.rule()?.to {
                Kind::AuthPolicy if one.target != AuthPolicy::DEFAULT_ID => {
                    identity.auth_policy_id = default();
                }
                Kind::Config => drop_override(&mut identity, &one.target),
                _ => return None,
            }
            identity.into()
        }
        Entity::ExtJwtSigner(signer) if one.target != AuthPolicy::DEFAULT_ID => {
            let enroll_auth_policy_id = Some(default());
            ExtJwtSigner { enroll_auth_policy_id, ..ExtJwtSigner::clone(signer) }.into()
        }
        Entity::AuthPolicy(policy) if one.link == 0 => {
            let mut policy = AuthPolicy::clone(policy);
            policy.ext_jwt.allowed_signers.retain(|signer| *signer != one.target);
            // An empty list would accept every signer, which no operator configured.
            policy.ext_jwt.allowed &= !policy.ext_jwt.allowed_signers.is_empty();
            policy.into()
        }
        // The signer of a required second token, or the type of a config. An auth policy without
        // that signer would admit more logins, and a config without its type has no meaning.
        _ => return None,
    })
}

fn drop_override(identity: &mut Identity, config: &Id) {
    for overrides in identity.service_configs.values_mut() {
        overrides.configs.retain(|_, own| own != config);
    }
    identity.service_configs.retain(|_, overrides| !overrides.configs.is_empty());
}

/// The entities with dangling references, without repetitions.
pub fn referrers(dangling: &[Dangling]) -> BTreeMap<(Kind, Id), Vec<&Dangling>> {
    let mut by_entity: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for one in dangling {
        by_entity.entry((one.kind, one.id.clone())).or_default().push(one);
    }
    by_entity
}

impl Snapshot {
    /// Removes an entity from its indexes: a fault, for tests.
    #[doc(hidden)]
    pub fn plant_lost_keys(&mut self, kind: Kind, id: &Id) {
        self.table_mut(kind).plant_lost_keys(id);
    }

    /// Empties the members of a policy: a fault, for tests.
    #[doc(hidden)]
    pub fn plant_lost_members(&mut self, kind: Kind, id: &Id) {
        let table = self.table(kind).clone();
        if let Some(policy) = table.get(id) {
            self.policies.plant_lost_members(&table, policy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::{
        Authenticator, Config, EdgeRouterPolicy, Enrollment, PolicyType, Router, Service,
        ServiceConfigs, ServicePolicy, Terminator,
    };
    use crate::{Base, ChangeSet, Roles, Timeline};

    const NOW: Timestamp = Timestamp(9);

    fn base(id: &str) -> Base {
        Base::new(Id::new(id), Timestamp(1))
    }

    fn ids(ids: &[&str]) -> Vec<Id> {
        ids.iter().map(|id| Id::new(id)).collect()
    }

    /// A snapshot of unchecked rows.
    fn loaded(rows: Vec<Entity>) -> Snapshot {
        let mut loader = Snapshot::loader(Timeline("t".into()), crate::Revision(3));
        rows.into_iter().for_each(|row| loader.put(row).unwrap());
        loader.put(AuthPolicy::default_policy(NOW).into()).unwrap();
        loader.finish().unwrap()
    }

    /// Mends everything that can be mended, and lists the rest.
    fn mended(snapshot: Snapshot) -> (Snapshot, Vec<String>) {
        let dangling = snapshot.dangling();
        let mut current = snapshot;
        for (kind, id) in referrers(&dangling).into_keys() {
            let Some(changes) = mend(&current, kind, &id, NOW) else { continue };
            current = current.apply(&ChangeSet::of(changes)).unwrap();
        }
        let left = current.dangling().iter().map(ToString::to_string).collect();
        (current, left)
    }

    #[test]
    fn references_to_nothing_are_found_and_mended_by_their_rules() {
        let service = Service { base: base("s"), configs: ids(&["gone"]), ..Service::default() };
        let roles = Roles { ids: ids(&["gone", "s"]), ..Roles::default() };
        let policy = ServicePolicy {
            base: base("sp"),
            policy_type: PolicyType::Dial,
            service_roles: roles,
            ..ServicePolicy::default()
        };
        let authenticator = Authenticator {
            base: base("a"),
            identity_id: Id::new("nobody"),
            ..Authenticator::default()
        };
        let overrides = ServiceConfigs { configs: [(Id::new("t"), Id::new("gone"))].into() };
        let identity = Identity {
            base: base("i"),
            auth_policy_id: Id::new("gone"),
            service_configs: BTreeMap::from([(Id::new("s"), overrides)]).into(),
            service_hosting_costs: BTreeMap::from([(Id::new("gone"), 7)]).into(),
            ..Identity::default()
        };
        let terminator = Terminator {
            base: base("t"),
            service_id: Id::new("s"),
            router_id: Id::new("gone"),
            ..Terminator::default()
        };
        let snapshot = loaded(vec![
            service.into(),
            policy.into(),
            authenticator.into(),
            identity.into(),
            terminator.into(),
        ]);
        let found: Vec<_> = snapshot.dangling().iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 7, "{found:?}");
        assert!(found.contains(
            &"authPolicyId of identity i names authentication policy gone, which does not exist"
                .replace("authentication policy", Kind::AuthPolicy.name())
        ));
        let (after, left) = mended(snapshot);
        assert_eq!(left, [""; 0]);
        assert!(after.get::<Authenticator>(&Id::new("a")).is_none());
        assert!(after.get::<Terminator>(&Id::new("t")).is_none());
        let identity = after.get::<Identity>(&Id::new("i")).unwrap();
        assert_eq!(identity.auth_policy_id, "default");
        assert!(identity.service_configs.is_empty() && identity.service_hosting_costs.is_empty());
        assert_eq!(after.get::<Service>(&Id::new("s")).unwrap().configs, ids(&[]));
        let policy = after.get::<ServicePolicy>(&Id::new("sp")).unwrap();
        assert_eq!(policy.service_roles.ids, ids(&["s"]));
    }

    #[test]
    fn rules_of_logins_are_never_widened() {
        let mut only = AuthPolicy { base: base("p1"), ..AuthPolicy::default() };
        only.ext_jwt.allowed = true;
        only.ext_jwt.allowed_signers = ids(&["gone"]);
        let mut second = AuthPolicy { base: base("p2"), name: "b".into(), ..AuthPolicy::default() };
        second.secondary.require_ext_jwt_signer = Some(Id::new("gone"));
        let config =
            Config { base: base("c"), config_type_id: Id::new("gone"), ..Config::default() };
        let (after, left) = mended(loaded(vec![only.into(), second.into(), config.into()]));
        assert!(!after.get::<AuthPolicy>(&Id::new("p1")).unwrap().ext_jwt.allowed);
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(left[0].contains("configTypeId") || left[1].contains("configTypeId"));
    }

    #[test]
    fn lost_keys_and_members_come_back() {
        let router =
            Router { base: base("r"), name: "r".into(), is_edge: true, ..Router::default() };
        let roles = Roles { all: true, ..Roles::default() };
        let policy = EdgeRouterPolicy {
            base: base("erp"),
            name: "erp".into(),
            identity_roles: roles.clone(),
            edge_router_roles: roles,
            ..EdgeRouterPolicy::default()
        };
        let identity = Identity {
            base: base("i"),
            name: "i".into(),
            auth_policy_id: Id::new("default"),
            ..Identity::default()
        };
        let enrollment = Enrollment {
            base: base("e"),
            identity_id: Some(Id::new("i")),
            token: "secret".into(),
            ..Enrollment::default()
        };
        let mut snapshot =
            loaded(vec![router.into(), policy.into(), identity.into(), enrollment.into()]);
        let faults = |snapshot: &Snapshot| {
            let mut found = Vec::new();
            snapshot.verify_indexes(&mut |text| found.push(text));
            found
        };
        assert_eq!(snapshot.routers_of_identity(&Id::new("i")).len(), 1);
        assert_eq!(faults(&snapshot), [""; 0]);
        snapshot.plant_lost_members(Kind::EdgeRouterPolicy, &Id::new("erp"));
        let members = |of: &Snapshot| of.members_of::<EdgeRouterPolicy>(&Id::new("erp"), 0).len();
        assert_eq!(members(&snapshot), 0);
        assert_eq!(faults(&snapshot).len(), 1, "{:?}", faults(&snapshot));
        snapshot.plant_lost_keys(Kind::Enrollment, &Id::new("e"));
        assert!(snapshot.enrollment_by_token("secret").is_none());
        let found = faults(&snapshot);
        assert!(found.iter().any(|text| text.contains("enrollment e")), "{found:?}");
        assert!(found.iter().all(|text| !text.contains("secret")));
        let rebuilt = snapshot.rebuilt().unwrap();
        assert_eq!(faults(&rebuilt), [""; 0]);
        assert_eq!(
            (rebuilt.revision(), rebuilt.timeline()),
            (snapshot.revision(), snapshot.timeline())
        );
        assert!(rebuilt.enrollment_by_token("secret").is_some());
        assert_eq!(members(&rebuilt), 1);
    }
}
