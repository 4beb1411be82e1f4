//! Checks entities that belong together: the tunneler of a router with its identity and policy, the
//! entities of every network, sorted sets, and enrollments with the identity or router that they
//! enroll.

use std::sync::Arc;

use weft_kernel::Result;
use weft_kernel::decision::Decision;
use weft_model::entity::{
    AuthPolicy, ConfigType, EdgeRouterPolicy, Enrollment, Identity, IdentityType, Router, Service,
};
use weft_model::{Entity, Id, Kind, Snapshot};

use crate::Controller;
use crate::domain::integrity::run::Report;
use crate::domain::resources::edge_router::put_tunneler;
use crate::domain::seeds;

/// A fault, and how it is mended.
struct Wrong {
    description: String,
    mend: Mend,
}

enum Mend {
    /// The identity and the policy of a router's tunneler are made or renamed.
    Tunneler(Id),
    /// The identity or the policy of a tunneler that does not exist is deleted.
    Orphan(Kind, Id),
    /// An entity that belongs to nothing is deleted.
    Delete(Kind, Id),
    /// An entity that every network has is made.
    Seed(Box<Entity>),
    /// The sets of an entity are sorted.
    Sets(Kind, Id),
}

impl Controller {
    /// Checks the entities that every network has. They are mended before references are checked,
    /// because other entities may refer to them.
    pub(super) async fn examine_seeds(&self, fix: bool, report: &Report) {
        let mut wrong = Vec::new();
        seeds_of_every_network(&self.kernel().snapshot(), self.kernel().now(), &mut wrong);
        self.mend_together(wrong, fix, report).await;
    }

    pub(super) async fn examine_together(&self, fix: bool, report: &Report) {
        let snapshot = self.kernel().snapshot();
        let mut wrong = Vec::new();
        tunnelers(&snapshot, &mut wrong);
        enrollments(&snapshot, &mut wrong);
        sets(&snapshot, &mut wrong);
        self.mend_together(wrong, fix, report).await;
    }

    async fn mend_together(&self, wrong: Vec<Wrong>, fix: bool, report: &Report) {
        for Wrong { description, mend } in wrong {
            let mend = Arc::new(mend);
            let fixed = self.mends(fix, move |decision| mend.apply(decision)).await;
            report.found(description, fixed);
        }
    }
}

impl Mend {
    /// Decides with the current entity, which may have been changed or mended since the check saw
    /// it.
    fn apply(&self, decision: &mut Decision<'_>) -> Result<()> {
        match self {
            Self::Tunneler(id) => match decision.tip().get::<Router>(id) {
                Some(router) if router.is_tunneler_enabled => put_tunneler(decision, router),
                _ => Ok(()),
            },
            Self::Orphan(_, id) if has_tunneler(decision.tip(), id) => Ok(()),
            Self::Orphan(kind, id) | Self::Delete(kind, id) => decision.delete_if_there(*kind, id),
            Self::Seed(entity) if decision.tip().contains(entity.kind(), entity.id()) => Ok(()),
            Self::Seed(entity) => {
                decision.put(Entity::clone(entity));
                Ok(())
            }
            Self::Sets(kind, id) => {
                if let Some(mended) = in_order(decision.tip(), *kind, id) {
                    decision.put(mended);
                }
                Ok(())
            }
        }
    }
}

/// Checks that the default auth policy and the built-in config types exist.
fn seeds_of_every_network(snapshot: &Snapshot, now: weft_model::Timestamp, wrong: &mut Vec<Wrong>) {
    if !snapshot.contains(Kind::AuthPolicy, &Id::new(AuthPolicy::DEFAULT_ID)) {
        wrong.push(Wrong {
            description: "the default authentication policy is missing".to_owned(),
            mend: Mend::Seed(Box::new(AuthPolicy::default_policy(now).into())),
        });
    }
    for seed in seeds::CONFIG_TYPES {
        let known = snapshot.get::<ConfigType>(&Id::new(seed.id));
        // A user may have given the name to another type, which is no fault.
        let is_named = snapshot.by_name::<ConfigType>(seed.name).is_some();
        let (None, Some(restored), false) = (known, seed.make(now), is_named) else { continue };
        wrong.push(Wrong {
            description: format!("the built-in config type {} is missing", seed.name),
            mend: Mend::Seed(Box::new(restored.into())),
        });
    }
}

/// Checks that a router with a tunneler has an identity and a policy of its id, and that no other
/// router has them.
fn tunnelers(snapshot: &Snapshot, wrong: &mut Vec<Wrong>) {
    for router in snapshot.list::<Router>().filter(|router| router.is_tunneler_enabled) {
        let (id, name) = (&router.base.id, &router.name);
        let mut lacks = Vec::new();
        match snapshot.get::<Identity>(id) {
            None => lacks.push("its identity is missing"),
            Some(identity) if identity.name != *name => lacks.push("its identity has another name"),
            Some(_) => {}
        }
        if !snapshot.contains(Kind::EdgeRouterPolicy, id) {
            lacks.push("its policy is missing");
        }
        for lack in lacks {
            wrong.push(Wrong {
                description: format!("router {id} ({name}) has a tunneler: {lack}"),
                mend: Mend::Tunneler(id.clone()),
            });
        }
    }
    let orphan = |kind: Kind, id: &Id, name: &str| Wrong {
        description: format!(
            "{kind} {id} ({name}) belongs to the tunneler of a router that has none"
        ),
        mend: Mend::Orphan(kind, id.clone()),
    };
    for identity in snapshot.list::<Identity>() {
        let id = &identity.base.id;
        if identity.identity_type == IdentityType::Router && !has_tunneler(snapshot, id) {
            wrong.push(orphan(Kind::Identity, id, &identity.name));
        }
    }
    for policy in snapshot.list::<EdgeRouterPolicy>() {
        let id = &policy.base.id;
        if policy.base.is_system && !has_tunneler(snapshot, id) {
            wrong.push(orphan(Kind::EdgeRouterPolicy, id, &policy.name));
        }
    }
}

fn has_tunneler(snapshot: &Snapshot, id: &Id) -> bool {
    snapshot.get::<Router>(id).is_some_and(|router| router.is_tunneler_enabled)
}

/// Checks that each enrollment names an identity or a router.
fn enrollments(snapshot: &Snapshot, wrong: &mut Vec<Wrong>) {
    let nobody = |it: &&Arc<Enrollment>| it.identity_id.is_none() && it.router_id.is_none();
    for enrollment in snapshot.list::<Enrollment>().filter(nobody) {
        let id = &enrollment.base.id;
        wrong.push(Wrong {
            description: format!("enrollment {id} names neither an identity nor a router"),
            mend: Mend::Delete(Kind::Enrollment, id.clone()),
        });
    }
}

/// Checks that attributes and configs are sorted and without duplicates: policies and lists rely on
/// it.
fn sets(snapshot: &Snapshot, wrong: &mut Vec<Wrong>) {
    for kind in [Kind::Identity, Kind::Service, Kind::Router] {
        for entity in snapshot.table(kind).iter() {
            let id = entity.id();
            if in_order(snapshot, kind, id).is_some() {
                wrong.push(Wrong {
                    description: format!(
                        "attributes or configs of {kind} {id} are not sorted and unique"
                    ),
                    mend: Mend::Sets(kind, id.clone()),
                });
            }
        }
    }
}

/// The entity with sorted sets; none if they are sorted already.
fn in_order(snapshot: &Snapshot, kind: Kind, id: &Id) -> Option<Entity> {
    match kind {
        Kind::Identity => {
            let it = snapshot.get::<Identity>(id).filter(|it| !is_set(&it.role_attributes))?;
            let role_attributes = set(&it.role_attributes);
            Some(Identity { role_attributes, ..(**it).clone() }.into())
        }
        Kind::Service => {
            let it = snapshot.get::<Service>(id)?;
            let (role_attributes, configs) = (set(&it.role_attributes), set(&it.configs));
            let is_wrong = !is_set(&it.role_attributes) || !is_set(&it.configs);
            is_wrong.then(|| Service { role_attributes, configs, ..(**it).clone() }.into())
        }
        Kind::Router => {
            let it = snapshot.get::<Router>(id)?;
            let (role_attributes, configs) = (set(&it.role_attributes), set(&it.configs));
            let is_wrong = !is_set(&it.role_attributes) || !is_set(&it.configs);
            is_wrong.then(|| Router { role_attributes, configs, ..(**it).clone() }.into())
        }
        _ => None,
    }
}

fn is_set<T: Ord>(values: &[T]) -> bool {
    values.is_sorted_by(|one, other| one < other)
}

fn set<T: Ord + Clone>(values: &[T]) -> Vec<T> {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.dedup();
    values
}

#[cfg(test)]
mod tests {
    use weft_kernel::Caller;
    use weft_model::{Base, Change, Timestamp};

    use super::*;

    const NOW: Timestamp = Timestamp(1_000);
    const LATER: Timestamp = Timestamp(2_000);

    fn service(id: &str, name: &str, attributes: &[&str]) -> Change {
        let role_attributes = attributes.iter().map(|it| (*it).into()).collect();
        let base = Base::new(Id::new(id), NOW);
        Change::Put(
            Service { base, name: name.into(), role_attributes, ..Service::default() }.into(),
        )
    }

    /// The changes that mend the faults of `before` when they are decided after `since`.
    fn mended(before: Vec<Change>, since: Vec<Change>) -> Vec<Change> {
        let caller = Caller::system();
        let mut network = Snapshot::empty(weft_model::Timeline::default());
        let advance = |network: &mut Snapshot, changes: Vec<Change>| {
            let mut set = Decision::new(network, &caller, NOW).finish().unwrap();
            set.changes = changes;
            network.advance(&set).unwrap();
        };
        advance(&mut network, before);
        let mut wrong = Vec::new();
        seeds_of_every_network(&network, NOW, &mut wrong);
        sets(&network, &mut wrong);
        advance(&mut network, since);
        let mut decision = Decision::new(&network, &caller, LATER);
        for Wrong { mend, .. } in wrong {
            mend.apply(&mut decision).unwrap();
        }
        decision.finish().unwrap().changes
    }

    #[test]
    fn what_was_changed_since_the_fault_was_seen_stays() {
        let broken = || vec![service("a", "old", &["b", "a"]), service("b", "gone", &["b", "a"])];
        let seeds = || mended(Vec::new(), Vec::new());
        assert!(!seeds().is_empty());
        let since = vec![
            service("a", "new", &["c", "b", "a"]),
            Change::Delete(Kind::Service, Id::new("b")),
        ];
        let since = since.into_iter().chain(seeds()).collect();
        assert_eq!(mended(broken(), since), [service("a", "new", &["a", "b", "c"])]);
        let since = vec![service("a", "old", &["a"]), service("b", "gone", &[])];
        let since = since.into_iter().chain(seeds()).collect();
        assert_eq!(mended(broken(), since), []);
    }
}
