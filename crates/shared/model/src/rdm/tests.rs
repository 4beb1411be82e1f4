//! A naive receiver that knows only the rules of routers must end with the state of the snapshot. An
//! event may name only entities that the receiver knows.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::entity::IdentityType;
use crate::row::Field;
use crate::testing::{self, Step, steps};
use crate::{Base, Change, ChangeSet, StorageClass, Timeline, Timestamp};

/// State of a router: entities by kind and id, members by policy.
#[derive(Debug, Default, PartialEq)]
struct Receiver {
    entities: BTreeMap<(&'static str, Id), Subject>,
    members: BTreeMap<(Id, &'static str), BTreeSet<Id>>,
}

fn told(snapshot: &Snapshot) -> Vec<Event> {
    full_state(snapshot).collect()
}

fn word(kind: MemberKind) -> &'static str {
    match kind {
        MemberKind::Services => "service",
        MemberKind::Identities => "identity",
        MemberKind::PostureChecks => "check",
    }
}

impl Receiver {
    fn key(subject: &Subject) -> Option<(&'static str, Id)> {
        Some(match subject {
            Subject::ConfigType(it) => ("type", it.base.id.clone()),
            Subject::Config(it) => ("config", it.base.id.clone()),
            Subject::Identity(it) => ("identity", it.base.id.clone()),
            Subject::Service(it) => ("service", it.base.id.clone()),
            Subject::Router(it) => ("router", it.base.id.clone()),
            Subject::PostureCheck(it) => ("check", it.base.id.clone()),
            Subject::ServicePolicy(it) => ("policy", it.base.id.clone()),
            Subject::Ca(it) => ("ca", it.base.id.clone()),
            Subject::Revocation(it) => ("revocation", it.base.id.clone()),
            Subject::Members { .. } => return None,
        })
    }

    fn take(&mut self, event: &Event) {
        if let Subject::Members { policy, kind, ids } = &event.subject {
            assert!(self.entities.contains_key(&("policy", policy.clone())), "{event:?}");
            let members = self.members.entry((policy.clone(), word(*kind))).or_default();
            for id in ids {
                match event.action {
                    Action::Delete => assert!(members.remove(id), "{event:?}"),
                    _ => {
                        assert!(members.insert(id.clone()), "{event:?}");
                        let known = self.entities.contains_key(&(word(*kind), id.clone()));
                        assert!(known, "{event:?}");
                    }
                }
            }
            return;
        }
        let key = Self::key(&event.subject).unwrap();
        let known = self.entities.contains_key(&key);
        match event.action {
            Action::Create => assert!(!known || key.0 == "revocation", "{event:?}"),
            Action::Update | Action::Delete => assert!(known, "{event:?}"),
        }
        if event.action != Action::Delete {
            if let Subject::Service(service) = &event.subject {
                for config in &service.configs {
                    assert!(self.entities.contains_key(&("config", config.clone())), "{event:?}");
                }
            }
            self.entities.insert(key, event.subject.clone());
            return;
        }
        if key.0 == "policy" {
            self.members.retain(|(policy, _), _| *policy != key.1);
        }
        let held =
            self.members.iter().any(|((_, kind), ids)| *kind == key.0 && ids.contains(&key.1));
        assert!(!held, "{event:?} while a policy holds it");
        self.entities.remove(&key);
    }

    fn of(events: &[Event]) -> Self {
        let mut receiver = Self::default();
        events.iter().for_each(|event| receiver.take(event));
        receiver
    }

    /// The state without fields that routers do not see, and without empty sets of members.
    fn seen(mut self) -> Self {
        self.members.retain(|_, ids| !ids.is_empty());
        for subject in self.entities.values_mut() {
            if let Subject::Identity(it) = subject {
                let it = Arc::make_mut(it);
                it.role_attributes.clear();
                it.base = Default::default();
            }
            if let Subject::Service(it) = subject {
                let it = Arc::make_mut(it);
                it.role_attributes.clear();
                it.base = Default::default();
            }
            if let Subject::ServicePolicy(it) = subject {
                let it = Arc::make_mut(it);
                let name = it.name.clone();
                let policy_type = it.policy_type;
                *it = ServicePolicy { name, policy_type, ..ServicePolicy::default() };
            }
            if let Subject::PostureCheck(it) = subject {
                let it = Arc::make_mut(it);
                it.role_attributes.clear();
                it.base = Default::default();
            }
            if let Subject::Router(it) = subject {
                let it = Arc::make_mut(it);
                *it = Router { name: it.name.clone(), ..Router::default() };
            }
        }
        self
    }
}

fn run(batches: &[Vec<Vec<Step>>]) {
    let mut snapshot = testing::empty();
    let mut receiver = Receiver::of(&told(&snapshot));
    for batch in batches {
        let before = snapshot.clone();
        let mut sets = Vec::new();
        for steps in batch {
            let set = Arc::new(testing::change_set(&snapshot, steps));
            snapshot = snapshot.apply(&set).unwrap();
            sets.push(set);
        }
        changes(&before, &snapshot, &sets).iter().for_each(|event| receiver.take(event));
        let full = Receiver::of(&told(&snapshot));
        let Receiver { entities, members } = receiver;
        receiver = Receiver { entities: entities.clone(), members: members.clone() };
        assert_eq!(Receiver { entities, members }.seen(), full.seen());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn deltas_lead_where_full_states_do(
        batches in prop::collection::vec(prop::collection::vec(steps(), 1..4), 1..8)
    ) {
        run(&batches);
    }
}

#[test]
fn what_routers_do_not_see_gives_no_event() {
    // Only routers use the tags of an identity, those of their own.
    for (identity_type, seen) in [(IdentityType::Default, 0), (IdentityType::Router, 1)] {
        let before = testing::empty();
        let mut set = ChangeSet::default();
        let base = crate::Base::new(Id::new("i"), Timestamp(1));
        let identity = Identity { base, name: "i".into(), identity_type, ..Identity::default() };
        set.put(identity.clone());
        let after = before.apply(&set).unwrap();
        assert_eq!(changes(&before, &after, &[Arc::new(set)]).len(), 1);
        let mut tagged = identity;
        tagged.base.tags = crate::JsonMap::from_text(r#"{"a":1}"#).unwrap();
        let set = Arc::new(ChangeSet::of([Change::Put(tagged.into())]));
        let again = after.apply(&set).unwrap();
        assert_eq!(changes(&after, &again, &[set]).len(), seen, "{identity_type}");
    }
}

/// Within a batch the ordinal of a deleted entity is given to another one: routers are told of
/// both.
#[test]
fn numbers_given_out_again_within_a_batch_are_not_mistaken() {
    let identity = |id: &str| -> Entity {
        let base = crate::Base::new(Id::new(id), Timestamp(1));
        Identity { base, name: id.into(), ..Identity::default() }.into()
    };
    let policy = ServicePolicy {
        base: crate::Base::new(Id::new("p"), Timestamp(1)),
        name: "p".into(),
        identity_roles: crate::Roles::all(),
        ..ServicePolicy::default()
    };
    let put = |entity| ChangeSet::of([Change::Put(entity)]);
    let delete = |id: &str| ChangeSet::of([Change::Delete(Kind::Identity, Id::new(id))]);
    let before = testing::empty().apply(&put(policy.into())).unwrap();
    let before = before.apply(&put(identity("a"))).unwrap();
    for sets in [
        vec![delete("a"), put(identity("b"))],
        vec![delete("a"), put(identity("b")), put(identity("a"))],
    ] {
        let after = sets.iter().fold(before.clone(), |tip, set| tip.apply(set).unwrap());
        let table =
            |snapshot: &Snapshot, id: &str| snapshot.table(Kind::Identity).ordinal(&Id::new(id));
        assert_eq!(table(&before, "a"), table(&after, "b"));
        let mut receiver = Receiver::of(&told(&before));
        let sets: Vec<_> = sets.into_iter().map(Arc::new).collect();
        changes(&before, &after, &sets).iter().for_each(|event| receiver.take(event));
        let full = Receiver::of(&told(&after));
        assert_eq!(receiver.seen(), full.seen());
    }
}

/// An entity of a kind, of which routers know if they know any of the kind.
fn sample(kind: Kind) -> Entity {
    let mut row = Vec::new();
    Field::write(&Base::new(Id::new("x"), Timestamp::default()), 1, &mut row);
    match Entity::from_row(kind, kind.row_version(), &row).unwrap() {
        Entity::Ca(ca) => Ca { is_verified: true, ..(*ca).clone() }.into(),
        other => other,
    }
}

#[test]
fn routers_hear_of_every_kind_that_they_are_told_of() {
    let (in_snapshots, others): (Vec<Kind>, Vec<Kind>) =
        Kind::ALL.iter().partition(|kind| kind.class() == StorageClass::Durable);
    assert!(!others.iter().copied().any(is_told), "{others:?}");
    for kind in in_snapshots {
        let none = Snapshot::empty(Timeline("one".into()));
        let come = ChangeSet::of([Change::Put(sample(kind))]);
        let some = none.apply(&come).unwrap();
        let gone = ChangeSet::of([Change::Delete(kind, Id::new("x"))]);
        let heard = [
            !told(&some).is_empty(),
            !changes(&none, &some, &[come.into()]).is_empty(),
            !changes(&some, &none, &[gone.into()]).is_empty(),
        ];
        assert_eq!(heard, [is_told(kind); 3], "{kind}: in the full state, new, deleted");
    }
}
