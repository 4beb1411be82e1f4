//! Identities that gain or lose access between two snapshots: set algebra over the service policies
//! whose members differ, service by service, never pair by pair.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use roaring::RoaringBitmap;

use crate::entity::{Identity, OfKind, PolicyType, Service, ServicePolicy};
use crate::meter::{Meter, Part, of_set};
use crate::{Id, Kind, Snapshot};

/// Units of a policy or a service, and of the policies that hold it.
const FIND: u64 = 32;

/// Change of the access to one service.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessChange {
    /// The service.
    pub service: Id,
    /// Dial or Bind.
    pub policy_type: PolicyType,
    /// Ordinals, in the later snapshot, of the identities that gain access.
    pub gained: Arc<RoaringBitmap>,
    /// Ordinals, in the earlier snapshot, of the identities that lose access.
    pub lost: Arc<RoaringBitmap>,
}

/// Gained and lost.
type Difference = (Arc<RoaringBitmap>, Arc<RoaringBitmap>);

/// Identities whose ordinal differs between the snapshots: new or deleted ones.
struct Moved {
    before: RoaringBitmap,
    after: RoaringBitmap,
}

/// The services whose access differs between a snapshot and a later one, ordered by id and type.
/// `changed` are the entities that were put or deleted in between. Posture is ignored. Not all of them are there
/// once the meter ends the work.
pub fn access_changes<'i>(
    before: &Snapshot,
    after: &Snapshot,
    changed: impl IntoIterator<Item = (Kind, &'i Id)>,
    meter: &Meter,
) -> Vec<AccessChange> {
    let mut services = BTreeSet::new();
    let mut policies = BTreeSet::new();
    let mut moved = Moved { before: RoaringBitmap::new(), after: RoaringBitmap::new() };
    for (kind, id) in changed {
        match kind {
            Kind::ServicePolicy => {
                policies.insert(id.clone());
            }
            Kind::Service => {
                services.insert(id.clone());
            }
            Kind::Identity => {
                let was = before.ordinal_of::<Identity>(id);
                let is = after.ordinal_of::<Identity>(id);
                if was != is {
                    moved.before.extend(was);
                    moved.after.extend(is);
                }
                policies.extend(policies_of(before, after, id));
            }
            _ => {}
        }
    }
    for policy in policies {
        for snapshot in [before, after] {
            let found = services_of(snapshot, &policy);
            if !meter.spend(Part::Policies, FIND * (1 + found.len() as u64)) {
                return Vec::new();
            }
            services.extend(found);
        }
    }
    differences(before, after, services, &moved, meter)
}

/// The policies that hold an identity in only one of the snapshots.
fn policies_of(before: &Snapshot, after: &Snapshot, identity: &Id) -> BTreeSet<Id> {
    let attributes = |snapshot: &Snapshot| {
        let entity = snapshot.entity(Kind::Identity, identity);
        entity.and_then(|entity| entity.attributes().map(<[Arc<str>]>::to_vec))
    };
    if attributes(before) == attributes(after) {
        return BTreeSet::new();
    }
    let holding = |snapshot: &Snapshot| -> BTreeSet<Id> {
        let side = ServicePolicy::IDENTITIES;
        let found = snapshot.policies_holding::<ServicePolicy>(side, identity);
        found.into_iter().map(|policy| policy.id().clone()).collect()
    };
    &holding(before) ^ &holding(after)
}

fn services_of(snapshot: &Snapshot, policy: &Id) -> Vec<Id> {
    let members = snapshot.members_of::<ServicePolicy>(policy, ServicePolicy::SERVICES);
    members.into_iter().map(|service| service.id().clone()).collect()
}

fn differences(
    before: &Snapshot,
    after: &Snapshot,
    services: BTreeSet<Id>,
    moved: &Moved,
    meter: &Meter,
) -> Vec<AccessChange> {
    // Many services are held by the same policies, so that their access is the same.
    let mut known: HashMap<(PolicyKey, PolicyKey), Difference> = HashMap::new();
    let mut sets = [Sets::new(before), Sets::new(after)];
    let mut found = Vec::new();
    for service in services {
        for policy_type in [PolicyType::Dial, PolicyType::Bind] {
            let keys = sets.each_ref().map(|sets| sets.key(&service, policy_type));
            let [was, is] = keys;
            let units = 2 * FIND + (was.len() + is.len()) as u64;
            if !meter.spend(Part::Policies, units) {
                return found;
            }
            let (gained, lost) = match known.get(&(was.clone(), is.clone())) {
                Some(known) => known.clone(),
                None => {
                    let sizes = [(before, &was), (after, &is)];
                    let units = sizes.map(|(snapshot, key)| units_of_union(snapshot, key));
                    if !meter.spend(Part::Policies, units.iter().sum()) {
                        return found;
                    }
                    let [first, second] = &mut sets;
                    let difference = difference(&first.union(&was), &second.union(&is), moved);
                    known.insert((was, is), difference.clone());
                    difference
                }
            };
            if !gained.is_empty() || !lost.is_empty() {
                let service = service.clone();
                found.push(AccessChange { service, policy_type, gained, lost });
            }
        }
    }
    found
}

/// Units of the union of the identities of policies.
fn units_of_union(snapshot: &Snapshot, policies: &PolicyKey) -> u64 {
    let identities = snapshot.table(Kind::Identity);
    (2 + policies.len() as u64) * 2 * of_set(identities.len() as u64, identities.highest())
}

/// Gained and lost. Where an ordinal moved, it stands for different identities in the two
/// snapshots.
fn difference(was: &RoaringBitmap, is: &RoaringBitmap, moved: &Moved) -> Difference {
    let gained = is - (was - &moved.before);
    let lost = was - (is - &moved.after);
    (Arc::new(gained), Arc::new(lost))
}

/// The policies of one type that hold a service.
type PolicyKey = Vec<u32>;

/// Unions of members of one snapshot, each computed once.
struct Sets<'s> {
    snapshot: &'s Snapshot,
    unions: BTreeMap<PolicyKey, Arc<RoaringBitmap>>,
}

impl<'s> Sets<'s> {
    fn new(snapshot: &'s Snapshot) -> Self {
        Self { snapshot, unions: BTreeMap::new() }
    }

    fn key(&self, service: &Id, policy_type: PolicyType) -> PolicyKey {
        if !self.snapshot.contains(Service::KIND, service) {
            return PolicyKey::new();
        }
        let holding = self.snapshot.holding::<ServicePolicy>(ServicePolicy::SERVICES, service);
        let of_type = |ordinal: &u32| {
            let policy = self.snapshot.at::<ServicePolicy>(*ordinal);
            policy.is_some_and(|policy| policy.policy_type == policy_type)
        };
        holding.iter().filter(of_type).collect()
    }

    fn union(&mut self, key: &PolicyKey) -> Arc<RoaringBitmap> {
        if let Some(known) = self.unions.get(key) {
            return Arc::clone(known);
        }
        let ordinals: RoaringBitmap = key.iter().copied().collect();
        let union = self.snapshot.union_of::<ServicePolicy>(&ordinals, ServicePolicy::IDENTITIES);
        let union = Arc::new(union);
        self.unions.insert(key.clone(), Arc::clone(&union));
        union
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::choice::Choice as _;
    use crate::entity::Base;
    use crate::{ChangeSet, Roles, Timeline, Timestamp};

    fn base(id: &str) -> Base {
        Base::new(Id::new(id), Timestamp(1))
    }

    /// A small network, described by numbers.
    #[derive(Debug, Clone)]
    enum Step {
        Identity(u8, Vec<u8>),
        Service(u8, Vec<u8>),
        Policy(u8, bool, Vec<u8>, Vec<u8>),
        Drop(u8, u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        let attributes = || prop::collection::vec(0u8..3, 0..3);
        prop_oneof![
            (0u8..6, attributes()).prop_map(|(id, has)| Step::Identity(id, has)),
            (0u8..4, attributes()).prop_map(|(id, has)| Step::Service(id, has)),
            (0u8..4, any::<bool>(), attributes(), attributes())
                .prop_map(|(id, dial, who, what)| Step::Policy(id, dial, who, what)),
            (0u8..3, 0u8..6).prop_map(|(kind, id)| Step::Drop(kind, id)),
        ]
    }

    fn words(numbers: &[u8]) -> Vec<String> {
        numbers.iter().map(|number| format!("a{number}")).collect()
    }

    fn roles(numbers: &[u8]) -> Roles {
        let entries: Vec<String> = numbers.iter().map(|number| format!("#a{number}")).collect();
        if entries.is_empty() { Roles::all() } else { Roles::parse(&entries).unwrap() }
    }

    fn run(snapshot: &Snapshot, step: &Step) -> (Snapshot, Vec<(Kind, Id)>) {
        let mut set = ChangeSet::default();
        match step {
            Step::Identity(id, has) => {
                let id = format!("i{id}");
                let role_attributes = crate::role::attributes(&words(has)).unwrap();
                let name = id.as_str().into();
                set.put(Identity { base: base(&id), name, role_attributes, ..Identity::default() });
            }
            Step::Service(id, has) => {
                let id = format!("s{id}");
                let role_attributes = crate::role::attributes(&words(has)).unwrap();
                let name = id.as_str().into();
                set.put(Service { base: base(&id), name, role_attributes, ..Service::default() });
            }
            Step::Policy(id, dial, who, what) => {
                let id = format!("p{id}");
                set.put(ServicePolicy {
                    base: base(&id),
                    name: id.as_str().into(),
                    policy_type: if *dial { PolicyType::Dial } else { PolicyType::Bind },
                    identity_roles: roles(who),
                    service_roles: roles(what),
                    ..ServicePolicy::default()
                });
            }
            Step::Drop(kind, id) => {
                let (kind, letter) =
                    [(Kind::Identity, 'i'), (Kind::Service, 's'), (Kind::ServicePolicy, 'p')]
                        [usize::from(*kind)];
                let id = Id::new(&format!("{letter}{id}"));
                if snapshot.contains(kind, &id) {
                    set.delete(kind, id);
                }
            }
        }
        let touched =
            set.changes.iter().map(|change| (change.kind(), change.id().clone())).collect();
        (snapshot.apply(&set).unwrap(), touched)
    }

    /// Every pair of identity and service with access, by name.
    fn pairs(snapshot: &Snapshot) -> BTreeSet<(String, String, &'static str)> {
        let mut pairs = BTreeSet::new();
        for service in snapshot.list::<Service>() {
            for of in [PolicyType::Dial, PolicyType::Bind] {
                let may = snapshot.identities_of(service.id(), of);
                for identity in snapshot.entities::<Identity>(&may) {
                    pairs.insert((
                        identity.name.to_string(),
                        service.name.to_string(),
                        of.as_str(),
                    ));
                }
            }
        }
        pairs
    }

    proptest! {
        #[test]
        fn what_is_gained_and_lost_is_the_difference_of_all_pairs(
            first in prop::collection::vec(step(), 0..20),
            second in prop::collection::vec(step(), 1..12),
        ) {
            let empty = Snapshot::empty(Timeline("t".into()));
            // In real networks identities refer to an auth policy; here none does.
            let before = first.iter().fold(empty, |snapshot, step| run(&snapshot, step).0);
            let mut touched = BTreeSet::new();
            let mut after = before.clone();
            for step in &second {
                let (next, changed) = run(&after, step);
                touched.extend(changed);
                after = next;
            }
            let (had, has) = (pairs(&before), pairs(&after));
            let (mut gained, mut lost) = (BTreeSet::new(), BTreeSet::new());
            let changed = touched.iter().map(|(kind, id)| (*kind, id));
            for change in access_changes(&before, &after, changed, &Meter::default()) {
                let of = change.policy_type.as_str();
                let service = change.service.to_string();
                for identity in after.entities::<Identity>(&change.gained) {
                    gained.insert((identity.name.to_string(), service.clone(), of));
                }
                for identity in before.entities::<Identity>(&change.lost) {
                    lost.insert((identity.name.to_string(), service.clone(), of));
                }
            }
            // An identity that was deleted and created again with its id may be in both.
            let both: BTreeSet<_> = gained.intersection(&lost).cloned().collect();
            prop_assert!(both.iter().all(|pair| had.contains(pair) && has.contains(pair)));
            let net = |side: &BTreeSet<_>| -> BTreeSet<_> { side.difference(&both).cloned().collect() };
            prop_assert_eq!(net(&gained), has.difference(&had).cloned().collect::<BTreeSet<_>>());
            prop_assert_eq!(net(&lost), had.difference(&has).cloned().collect::<BTreeSet<_>>());
        }
    }
}
