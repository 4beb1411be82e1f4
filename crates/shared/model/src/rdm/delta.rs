//! The difference of two snapshots, as events.
//!
//! The order is: removed members of policies, so that no deleted entity is a member of a policy;
//! deleted policies and entities; new and changed entities, each after those that it refers to; new
//! members of policies; deleted configs, to which nothing refers any more; CAs and revocations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use roaring::RoaringBitmap;

use super::{Action, ENTITIES, Event, MemberKind, Subject, ids, subject};
use crate::entity::{IdentityType, ServicePolicy};
use crate::{ChangeSet, Id, Kind, Snapshot};

/// The events for the change sets that lead from one snapshot to another: the net difference, empty
/// if routers see none.
pub fn changes(before: &Snapshot, after: &Snapshot, sets: &[Arc<ChangeSet>]) -> Vec<Event> {
    let delta = Delta::new(before, after, sets);
    let (gone, come) = delta.members();
    let mut events = gone;
    events.extend(delta.deleted(&[
        Kind::ServicePolicy,
        Kind::Identity,
        Kind::Service,
        Kind::PostureCheck,
        Kind::Router,
    ]));
    for kind in ENTITIES.into_iter().chain([Kind::ServicePolicy]) {
        events.extend(delta.put(kind));
    }
    events.extend(come);
    events.extend(delta.deleted(&[Kind::Config, Kind::ConfigType, Kind::Ca]));
    events.extend(delta.put(Kind::Ca));
    events.extend(delta.deleted(&[Kind::Revocation]));
    events.extend(delta.put(Kind::Revocation));
    events
}

/// The removed and the new members of one policy, sorted.
#[derive(Default)]
struct Moves {
    went: Vec<Id>,
    came: Vec<Id>,
}

struct Delta<'a> {
    before: &'a Snapshot,
    after: &'a Snapshot,
    /// The changed entities.
    touched: BTreeSet<(Kind, &'a Id)>,
}

impl<'a> Delta<'a> {
    fn new(before: &'a Snapshot, after: &'a Snapshot, sets: &'a [Arc<ChangeSet>]) -> Self {
        let changes = sets.iter().flat_map(|set| &set.changes);
        let touched = changes.map(|change| (change.kind(), change.id())).collect();
        Self { before, after, touched }
    }

    fn touched(&self, kind: Kind) -> impl Iterator<Item = &'a Id> + '_ {
        self.touched.iter().filter(move |(of, _)| *of == kind).map(|(_, id)| *id)
    }

    fn subjects(&self, kind: Kind, id: &Id) -> (Option<Subject>, Option<Subject>) {
        let find = |snapshot: &Snapshot| snapshot.entity(kind, id).and_then(subject);
        (find(self.before), find(self.after))
    }

    fn deleted(&self, kinds: &'a [Kind]) -> impl Iterator<Item = Event> + '_ {
        let ids = kinds.iter().flat_map(|kind| self.touched(*kind).map(|id| (*kind, id)));
        ids.filter_map(|(kind, id)| match self.subjects(kind, id) {
            (Some(subject), None) => Some(Event { action: Action::Delete, subject }),
            _ => None,
        })
    }

    fn put(&self, kind: Kind) -> impl Iterator<Item = Event> + '_ {
        self.touched(kind).filter_map(move |id| match self.subjects(kind, id) {
            (None, Some(subject)) => Some(Event { action: Action::Create, subject }),
            (Some(old), Some(subject)) if !same(&old, &subject) => {
                // Revocations are only ever created (docs/protocol/edge-control-plane.md 7.1).
                let action = match subject {
                    Subject::Revocation(_) => Action::Create,
                    _ => Action::Update,
                };
                Some(Event { action, subject })
            }
            _ => None,
        })
    }

    /// Members of service policies that went, and those that came.
    ///
    /// If the role list of a policy changed, its members before and after are compared. Other
    /// policies can only have gained or lost entities that changed themselves, so that the policies
    /// of these are looked up: the cost depends on the number of changes only.
    fn members(&self) -> (Vec<Event>, Vec<Event>) {
        let mut moves: BTreeMap<(u32, usize), Moves> = BTreeMap::new();
        let policies = self.after.table(Kind::ServicePolicy);
        for id in self.touched(Kind::ServicePolicy) {
            let Some(ordinal) = policies.ordinal(id) else { continue };
            for (place, kind) in MemberKind::ALL.into_iter().enumerate() {
                if !self.is_same_side(id, kind) {
                    moves.insert((ordinal, place), self.compared(id, ordinal, kind));
                }
            }
        }
        let compared: BTreeSet<_> = moves.keys().copied().collect();
        for (place, kind) in MemberKind::ALL.into_iter().enumerate() {
            for id in self.touched(kind.kind()) {
                let (was, is) = (self.held_before(kind, id), self.held_after(kind, id));
                let told = |ordinal: &u32| !compared.contains(&(*ordinal, place));
                for ordinal in (&was - &is).iter().filter(told) {
                    moves.entry((ordinal, place)).or_default().went.push(id.clone());
                }
                for ordinal in (&is - &was).iter().filter(told) {
                    moves.entry((ordinal, place)).or_default().came.push(id.clone());
                }
            }
        }
        let (mut gone, mut come) = (Vec::new(), Vec::new());
        for ((ordinal, place), Moves { went, came }) in moves {
            let Some(policy) = policies.at(ordinal) else { continue };
            let Some(kind) = MemberKind::ALL.get(place).copied() else { continue };
            let tell = |ids: Vec<Id>, action| {
                let policy = policy.id().clone();
                let told = !ids.is_empty();
                told.then_some(Event { action, subject: Subject::Members { policy, kind, ids } })
            };
            gone.extend(tell(went, Action::Delete));
            come.extend(tell(came, Action::Create));
        }
        (gone, come)
    }

    /// True if the role list of a policy's side is unchanged.
    fn is_same_side(&self, policy: &Id, kind: MemberKind) -> bool {
        let (before, after) = (
            self.before.entity(Kind::ServicePolicy, policy),
            self.after.entity(Kind::ServicePolicy, policy),
        );
        match (before, after) {
            (Some(before), Some(after)) => before.side(kind.side()) == after.side(kind.side()),
            _ => false,
        }
    }

    /// The difference of all members of a policy.
    fn compared(&self, policy: &Id, ordinal: u32, kind: MemberKind) -> Moves {
        let of = |snapshot: &Snapshot, ordinal: u32| {
            snapshot.members(Kind::ServicePolicy, ordinal, kind.side())
        };
        let old = self.before.table(Kind::ServicePolicy).ordinal(policy);
        let was = old.map(|old| of(self.before, old)).unwrap_or_default();
        let is = of(self.after, ordinal);
        // An ordinal that was given to another entity counts as one that went and one that came.
        let reused = self.reused(kind.kind());
        let (went, came) =
            (&(&*was - &*is) | &(&*was & &reused), &(&*is - &*was) | &(&*is & &reused));
        Moves { went: ids(self.before, kind, &went), came: ids(self.after, kind, &came) }
    }

    /// The policies that held an entity before, by their present ordinals, without deleted ones.
    fn held_before(&self, kind: MemberKind, id: &Id) -> RoaringBitmap {
        let held = self.before.holding::<ServicePolicy>(kind.side(), id);
        let (before, after) =
            (self.before.table(Kind::ServicePolicy), self.after.table(Kind::ServicePolicy));
        held.iter().filter_map(|ordinal| after.ordinal(before.at(ordinal)?.id())).collect()
    }

    fn held_after(&self, kind: MemberKind, id: &Id) -> RoaringBitmap {
        self.after.holding::<ServicePolicy>(kind.side(), id)
    }

    /// Ordinals whose entity was deleted, or which another entity has now.
    fn reused(&self, kind: Kind) -> RoaringBitmap {
        let (before, after) = (self.before.table(kind), self.after.table(kind));
        let moved = self.touched(kind).filter(|id| before.ordinal(id) != after.ordinal(id));
        moved.filter_map(|id| before.ordinal(id)).collect()
    }
}

/// True if routers see no difference.
fn same(old: &Subject, new: &Subject) -> bool {
    match (old, new) {
        (Subject::ConfigType(a), Subject::ConfigType(b)) => {
            (&a.name, a.target) == (&b.name, b.target)
        }
        (Subject::Config(a), Subject::Config(b)) => {
            (&a.name, &a.config_type_id, &a.data) == (&b.name, &b.config_type_id, &b.data)
        }
        (Subject::Identity(a), Subject::Identity(b)) => {
            let hosting = |it: &crate::entity::Identity| {
                (it.default_hosting_precedence, it.default_hosting_cost)
            };
            a.name == b.name
                && hosting(a) == hosting(b)
                && a.service_hosting_precedences == b.service_hosting_precedences
                && a.service_hosting_costs == b.service_hosting_costs
                && a.app_data == b.app_data
                && (a.base.tags == b.base.tags || a.identity_type != IdentityType::Router)
                && a.service_configs == b.service_configs
                && (a.disabled_at, a.disabled_until) == (b.disabled_at, b.disabled_until)
        }
        (Subject::Service(a), Subject::Service(b)) => {
            (&a.name, a.encryption_required, a.authenticated_ends, &a.configs)
                == (&b.name, b.encryption_required, b.authenticated_ends, &b.configs)
        }
        (Subject::Router(a), Subject::Router(b)) => {
            (&a.name, &a.fingerprint, &a.configs, a.disabled)
                == (&b.name, &b.fingerprint, &b.configs, b.disabled)
        }
        (Subject::PostureCheck(a), Subject::PostureCheck(b)) => {
            a.name == b.name && a.check_type == b.check_type && a.check() == b.check()
        }
        (Subject::ServicePolicy(a), Subject::ServicePolicy(b)) => {
            (&a.name, a.policy_type) == (&b.name, b.policy_type)
        }
        (Subject::Ca(a), Subject::Ca(b)) => a.cert_pem == b.cert_pem,
        (Subject::Revocation(a), Subject::Revocation(b)) => {
            (a.revocation_type, a.expires_at, a.issued_before, &a.sessions)
                == (b.revocation_type, b.expires_at, b.issued_before, &b.sessions)
        }
        _ => false,
    }
}
