//! Finds the service sessions whose grant a change of the model can end.
//!
//! A grant depends on the identity, the service, the service policies that select both, and the
//! posture checks of these policies. Only sessions for which one of these has changed are judged, so
//! that other sessions cost no time. Most changes concern new identities, which have no sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use roaring::RoaringBitmap;
use weft_kernel::Published;
use weft_model::entity::{Identity, Service, ServicePolicy, ServiceSession};
use weft_model::{Entity, Id, Kind, Snapshot, Table};

use super::services::{IDENTITY, SERVICE, referring};

/// The sessions whose grant a batch can end, and few others.
pub(super) fn by(sessions: &Table, published: &Published) -> Vec<Arc<ServiceSession>> {
    if sessions.is_empty() {
        return Vec::new();
    }
    let mut found = Found::default();
    let mut policies = BTreeSet::new();
    let snapshots = [&*published.before, &*published.after];
    for change in published.changes.iter().flat_map(|set| &set.changes) {
        let id = change.id();
        match change.kind() {
            Kind::Identity => found.extend(referring(sessions, IDENTITY, id)),
            Kind::Service => found.extend(referring(sessions, SERVICE, id)),
            Kind::ServicePolicy => {
                policies.insert(id);
            }
            Kind::PostureCheck => {
                for snapshot in snapshots {
                    let side = ServicePolicy::POSTURE_CHECKS;
                    let holding = snapshot.policies_holding::<ServicePolicy>(side, id);
                    policies.extend(holding.into_iter().map(|policy| &policy.base.id));
                }
            }
            _ => {}
        }
    }
    for snapshot in snapshots {
        under(sessions, snapshot, &policies, &mut found);
    }
    found.0.into_values().collect()
}

/// Found sessions by id.
#[derive(Default)]
struct Found(BTreeMap<Id, Arc<ServiceSession>>);

impl Extend<Arc<ServiceSession>> for Found {
    fn extend<I: IntoIterator<Item = Arc<ServiceSession>>>(&mut self, sessions: I) {
        self.0.extend(sessions.into_iter().map(|session| (session.base.id.clone(), session)));
    }
}

fn session(entity: &Entity) -> Option<Arc<ServiceSession>> {
    entity.get::<ServiceSession>().cloned()
}

/// Adds the sessions whose identity and service are in one of the policies.
fn under(sessions: &Table, snapshot: &Snapshot, policies: &BTreeSet<&Id>, found: &mut Found) {
    let policies = policies.iter().filter_map(|id| snapshot.ordinal_of::<ServicePolicy>(id));
    let policies: RoaringBitmap = policies.collect();
    let identities = snapshot.union_of::<ServicePolicy>(&policies, ServicePolicy::IDENTITIES);
    let services = snapshot.union_of::<ServicePolicy>(&policies, ServicePolicy::SERVICES);
    let is_held = |session: &Arc<ServiceSession>| {
        let identity = snapshot.ordinal_of::<Identity>(&session.identity_id);
        let service = snapshot.ordinal_of::<Service>(&session.service_id);
        identity.is_some_and(|ordinal| identities.contains(ordinal))
            && service.is_some_and(|ordinal| services.contains(ordinal))
    };
    // Starts with the smaller set.
    let all = sessions.len() as u64;
    if services.len().min(all) <= identities.len() && services.len() < all {
        let ids = services.iter().filter_map(|at| Some(&snapshot.at::<Service>(at)?.base.id));
        found.extend(ids.flat_map(|id| referring(sessions, SERVICE, id)).filter(is_held));
    } else if identities.len() < all {
        let ids = identities.iter().filter_map(|at| Some(&snapshot.at::<Identity>(at)?.base.id));
        found.extend(ids.flat_map(|id| referring(sessions, IDENTITY, id)).filter(is_held));
    } else {
        found.extend(sessions.iter().filter_map(session).filter(is_held));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_model::access::{self, Posture};
    use weft_model::entity::{PolicyType, PostureCheck};
    use weft_model::{Base, Change, ChangeSet, Revision, Roles, Timeline, Timestamp, role};

    use super::*;

    const NOW: Timestamp = Timestamp(1);

    #[derive(Debug, Clone)]
    enum Step {
        /// Number, attributes, whether it is disabled.
        Identity(u8, Vec<u8>, bool),
        /// Number, attributes, whether clients may not use it.
        Service(u8, Vec<u8>, bool),
        Check(u8, Vec<u8>),
        /// Number, whether to dial, attributes of its three sides.
        Policy(u8, bool, [Vec<u8>; 3]),
        Drop(u8, u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        let some = || prop::collection::vec(0u8..3, 0..3);
        let sides = (some(), some(), prop_oneof![3 => Just(vec![]), 1 => some()]);
        let sides = sides.prop_map(|(who, what, checks)| [who, what, checks]);
        let rarely = || prop::bool::weighted(0.2);
        prop_oneof![
            (0u8..6, some(), rarely()).prop_map(|(id, has, off)| Step::Identity(id, has, off)),
            (0u8..4, some(), rarely()).prop_map(|(id, has, off)| Step::Service(id, has, off)),
            (0u8..2, some()).prop_map(|(id, has)| Step::Check(id, has)),
            (0u8..4, any::<bool>(), sides).prop_map(|(id, dial, of)| Step::Policy(id, dial, of)),
            (0u8..4, 0u8..6).prop_map(|(kind, id)| Step::Drop(kind, id)),
        ]
    }

    fn attributes(numbers: &[u8]) -> Vec<Arc<str>> {
        let words: Vec<String> = numbers.iter().map(|number| format!("a{number}")).collect();
        role::attributes(&words).unwrap()
    }

    fn roles(numbers: &[u8], none: Roles) -> Roles {
        let entries: Vec<String> = numbers.iter().map(|number| format!("#a{number}")).collect();
        if entries.is_empty() { none } else { Roles::parse(&entries).unwrap() }
    }

    fn base(letter: char, number: u8) -> (Base, Arc<str>) {
        let id = format!("{letter}{number}");
        (Base::new(Id::new(&id), NOW), id.as_str().into())
    }

    fn change(step: &Step, snapshot: &Snapshot) -> ChangeSet {
        let change: Change = match step {
            Step::Identity(number, has, is_disabled) => {
                let (base, name) = base('i', *number);
                let disabled_at = is_disabled.then_some(NOW);
                let role_attributes = attributes(has);
                let identity =
                    Identity { base, name, role_attributes, disabled_at, ..Identity::default() };
                Change::Put(identity.into())
            }
            Step::Service(number, has, is_fabric_only) => {
                let ((base, name), role_attributes) = (base('s', *number), attributes(has));
                let is_fabric_only = *is_fabric_only;
                let service =
                    Service { base, name, role_attributes, is_fabric_only, ..Service::default() };
                Change::Put(service.into())
            }
            Step::Check(number, has) => {
                let ((base, name), role_attributes) = (base('c', *number), attributes(has));
                let check = PostureCheck { base, name, role_attributes, ..PostureCheck::default() };
                Change::Put(check.into())
            }
            Step::Policy(number, dial, [who, what, checks]) => {
                let (base, name) = base('p', *number);
                let policy = ServicePolicy {
                    base,
                    name,
                    policy_type: if *dial { PolicyType::Dial } else { PolicyType::Bind },
                    identity_roles: roles(who, Roles::all()),
                    service_roles: roles(what, Roles::all()),
                    posture_check_roles: roles(checks, Roles::default()),
                    ..ServicePolicy::default()
                };
                Change::Put(policy.into())
            }
            Step::Drop(kind, number) => {
                let (kind, letter) = [
                    (Kind::Identity, 'i'),
                    (Kind::Service, 's'),
                    (Kind::ServicePolicy, 'p'),
                    (Kind::PostureCheck, 'c'),
                ][usize::from(*kind)];
                let (base, _) = base(letter, *number);
                if !snapshot.contains(kind, &base.id) {
                    return ChangeSet::default();
                }
                Change::Delete(kind, base.id)
            }
        };
        ChangeSet::of([change])
    }

    /// Every identity has sessions for every service, of both types, but only those whose number
    /// is among `kept`.
    fn sessions(kept: &BTreeSet<u8>) -> Table {
        let mut table = Table::new(Kind::ServiceSession);
        let mut number = 0;
        for identity in 0..6 {
            for service in 0..4 {
                for session_type in [PolicyType::Dial, PolicyType::Bind] {
                    number += 1;
                    if kept.contains(&number) {
                        let session = ServiceSession {
                            base: base('x', number).0,
                            identity_id: base('i', identity).0.id,
                            service_id: base('s', service).0.id,
                            session_type,
                            ..ServiceSession::default()
                        };
                        table.put(session).unwrap();
                    }
                }
            }
        }
        table
    }

    /// The granted sessions; no posture check passes.
    fn granted(sessions: &Table, snapshot: &Snapshot) -> BTreeSet<Id> {
        let is_granted = |session: &Arc<ServiceSession>| {
            let (identity, service) = (session.identity_id.as_str(), session.service_id.as_str());
            let action = session.session_type;
            let posture = Posture::Unknown;
            access::decide(snapshot, identity, service, action, posture, NOW).is_granted()
        };
        let all = sessions.iter().filter_map(session).filter(is_granted);
        all.map(|session| session.base.id.clone()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn whoever_loses_a_grant_is_touched(
            first in prop::collection::vec(step(), 0..25),
            second in prop::collection::vec(step(), 1..6),
            kept in prop::collection::btree_set(1u8..=48, 1..48),
        ) {
            let sessions = sessions(&kept);
            let empty = Snapshot::empty(Timeline("t".into()));
            let before = first.iter().fold(empty, |snapshot, step| {
                snapshot.apply(&change(step, &snapshot)).unwrap()
            });
            let (mut after, mut changes) = (before.clone(), Vec::new());
            for step in &second {
                let set = change(step, &after);
                after = after.apply(&set).unwrap();
                changes.push(Arc::new(set));
            }
            let (had, has) = (granted(&sessions, &before), granted(&sessions, &after));
            let published = Published {
                before: Arc::new(before),
                after: Arc::new(after),
                changes,
                revision: Revision(1),
            };
            let touched = by(&sessions, &published);
            let touched: BTreeSet<Id> = touched.iter().map(|it| it.base.id.clone()).collect();
            // Judging only these sessions ends the same ones as judging all of them.
            let lost: BTreeSet<Id> = had.difference(&has).cloned().collect();
            prop_assert!(lost.is_subset(&touched), "{lost:?} but only {touched:?}");
        }
    }

    #[test]
    fn what_does_not_concern_a_session_does_not_touch_it() {
        let run = |snapshot: Snapshot, step: Step| {
            let set = change(&step, &snapshot);
            (snapshot.apply(&set).unwrap(), Arc::new(set))
        };
        let all: BTreeSet<u8> = (1..=48).collect();
        let sessions = sessions(&all);
        let mut snapshot = Snapshot::empty(Timeline("t".into()));
        for number in 0..6 {
            snapshot = run(snapshot, Step::Identity(number, vec![number % 3], false)).0;
        }
        for number in 0..4 {
            snapshot = run(snapshot, Step::Service(number, vec![number % 2], false)).0;
        }
        let touched_by = |step: Step| {
            let before = snapshot.clone();
            let (after, set) = run(before.clone(), step);
            let (before, after) = (Arc::new(before), Arc::new(after));
            let published = Published { before, after, changes: vec![set], revision: Revision(1) };
            by(&sessions, &published).len()
        };
        // Two types each: one identity with four services, one service with six identities, two
        // identities with two services.
        assert_eq!(touched_by(Step::Identity(9, vec![0], false)), 0);
        assert_eq!(touched_by(Step::Identity(1, vec![], false)), 8);
        assert_eq!(touched_by(Step::Service(1, vec![], false)), 12);
        assert_eq!(touched_by(Step::Policy(1, true, [vec![0], vec![1], vec![]])), 8);
        assert_eq!(touched_by(Step::Check(1, vec![0])), 0);
    }
}
