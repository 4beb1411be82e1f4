//! Policies as set algebra: the entities that a side of a policy selects, and what follows.
//!
//! The members of a side are computed at the first question, and carried from snapshot to snapshot
//! until an input changes: the role list, the bearers of one of its attributes, or the existence of
//! an entity. Pairs of identity and service are never stored. The members of a policy are computed
//! from its roles, and the policies of an entity from its attributes and id.

mod access_change;
mod counted;
mod queries;
mod verify;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

pub use access_change::{AccessChange, access_changes};
use imbl::{OrdMap, Vector};
pub use queries::Advice;
use roaring::RoaringBitmap;

use crate::meter::{Ended, Meter, Part, of_bitmap};
use crate::role::{Roles, Semantic};
use crate::table::{Delta, Table};
use crate::{Entity, Id, Kind};

/// The largest number of sides that a kind of policy has.
const SIDES: usize = 3;

/// An entry of a role list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum RoleKey {
    All,
    Attribute(Arc<str>),
    Id(Id),
}

/// The members of each side of a policy, as far as they were computed.
#[derive(Debug, Clone, Default)]
struct Members([OnceLock<Arc<RoaringBitmap>>; SIDES]);

/// The policies of one kind.
#[derive(Debug, Clone, Default)]
struct Policies {
    /// Members by the policy's ordinal.
    members: Vector<Option<Arc<Members>>>,
    /// Policies whose side names a key.
    naming: OrdMap<(u8, RoleKey), Arc<RoaringBitmap>>,
}

/// All policies of a snapshot.
#[derive(Debug, Clone, Default)]
pub(crate) struct PolicyIndex {
    by_kind: BTreeMap<Kind, Policies>,
}

impl PolicyIndex {
    /// Updates the index for a policy that was created, changed or deleted.
    pub(crate) fn replace(
        &mut self,
        kind: Kind,
        old: Option<(u32, &Entity)>,
        new: Option<(u32, &Entity)>,
    ) {
        let policies = self.by_kind.entry(kind).or_default();
        let mut members = Members::default();
        for side in 0..kind.sides().len().min(SIDES) {
            let before = old.and_then(|(_, entity)| entity.side(side));
            let after = new.and_then(|(_, entity)| entity.side(side));
            if before == after {
                if let Some((ordinal, _)) = old {
                    members.0[side] = policies.members_of(ordinal).0[side].clone();
                }
                continue;
            }
            if let (Some((ordinal, _)), Some((roles, _))) = (old, before) {
                policies.unname(side, roles, ordinal);
            }
            if let (Some((ordinal, _)), Some((roles, _))) = (new, after) {
                policies.name(side, roles, ordinal);
            }
        }
        if let Some((ordinal, _)) = old {
            policies.set(ordinal, None);
        }
        if let Some((ordinal, _)) = new {
            policies.set(ordinal, Some(members));
        }
    }

    /// Forgets members that depend on changed entities of a kind.
    pub(crate) fn invalidate(&mut self, kind: Kind, delta: &Delta) {
        if delta.eligible.is_empty() && delta.attributes.is_empty() {
            return;
        }
        let mut keys: Vec<_> = delta.attributes.iter().cloned().map(RoleKey::Attribute).collect();
        keys.extend(delta.eligible.iter().cloned().map(RoleKey::Id));
        if !delta.eligible.is_empty() {
            keys.push(RoleKey::All);
        }
        keys.sort_unstable();
        keys.dedup();
        for (policy_kind, policies) in &mut self.by_kind {
            let sides = policy_kind.sides().iter().take(SIDES).enumerate();
            for (side, _) in sides.filter(|(_, to)| **to == kind) {
                keys.iter().for_each(|key| policies.forget(side, key));
            }
        }
    }

    /// Ordinals of the entities that one side of a policy selects.
    pub(crate) fn members(
        &self,
        policies: &Table,
        ordinal: u32,
        side: usize,
        table: &Table,
    ) -> Arc<RoaringBitmap> {
        let compute = || {
            let roles = policies.at(ordinal).and_then(|policy| policy.side(side));
            roles.map(|(roles, semantic)| evaluate(roles, semantic, table)).unwrap_or_default()
        };
        let members = self.by_kind.get(&policies.kind());
        match members.and_then(|all| all.members.get(ordinal as usize)?.as_ref()?.0.get(side)) {
            Some(cell) => cell.get_or_init(compute).clone(),
            None => compute(),
        }
    }

    /// The units of making the members of a side, if they were not computed yet.
    pub(crate) fn units_of(
        &self,
        policies: &Table,
        ordinal: u32,
        side: usize,
        table: &Table,
    ) -> u64 {
        let members = self.by_kind.get(&policies.kind());
        let cell = members.and_then(|all| all.members.get(ordinal as usize)?.as_ref()?.0.get(side));
        if cell.is_some_and(|cell| cell.get().is_some()) {
            return 0;
        }
        let roles = policies.at(ordinal).and_then(|policy| policy.side(side));
        roles.map_or(0, |(roles, _)| units_of_roles(roles, table))
    }

    /// The policies whose side selects an entity of the table.
    pub(crate) fn holding(&self, policies: &Table, side: usize, entity: &Entity) -> RoaringBitmap {
        self.counted_holding(policies, side, entity, &Meter::default()).unwrap_or_default()
    }

    /// [`Self::holding`], counted.
    pub(crate) fn counted_holding(
        &self,
        policies: &Table,
        side: usize,
        entity: &Entity,
        meter: &Meter,
    ) -> Result<RoaringBitmap, Ended> {
        let none = || Ok(RoaringBitmap::new());
        let Some(index) = self.by_kind.get(&policies.kind()) else { return none() };
        let Some(attributes) = entity.attributes() else { return none() };
        let id = entity.id();
        let keys = [RoleKey::All, RoleKey::Id(id.clone())].into_iter();
        let keys = keys.chain(attributes.iter().cloned().map(RoleKey::Attribute));
        let mut candidates = RoaringBitmap::new();
        for key in keys {
            if let Some(naming) = index.naming.get(&(side as u8, key)) {
                candidates |= &**naming;
            }
        }
        let means = |ordinal: &u32| {
            let roles = policies.at(*ordinal).and_then(|policy| policy.side(side));
            roles.is_some_and(|(roles, semantic)| roles.matches(semantic, id, attributes))
        };
        meter.take(Part::Policies, candidates.len())?;
        Ok(candidates.iter().filter(means).collect())
    }

    /// Number of policies that name an attribute on a side, for the list of attributes in use.
    pub(crate) fn naming_attribute(
        &self,
        kind: Kind,
        side: usize,
        attribute: &Arc<str>,
    ) -> Arc<RoaringBitmap> {
        let key = (side as u8, RoleKey::Attribute(attribute.clone()));
        let naming = self.by_kind.get(&kind).and_then(|policies| policies.naming.get(&key));
        naming.cloned().unwrap_or_default()
    }
}

impl Policies {
    fn members_of(&self, ordinal: u32) -> Arc<Members> {
        self.members.get(ordinal as usize).cloned().flatten().unwrap_or_default()
    }

    fn set(&mut self, ordinal: u32, members: Option<Members>) {
        while self.members.len() <= ordinal as usize {
            self.members.push_back(None);
        }
        self.members.set(ordinal as usize, members.map(Arc::new));
    }

    fn name(&mut self, side: usize, roles: &Roles, ordinal: u32) {
        for key in role_keys(roles) {
            let naming = self.naming.entry((side as u8, key)).or_default();
            Arc::make_mut(naming).insert(ordinal);
        }
    }

    fn unname(&mut self, side: usize, roles: &Roles, ordinal: u32) {
        for key in role_keys(roles).map(|key| (side as u8, key)) {
            let Some(naming) = self.naming.get_mut(&key) else { continue };
            Arc::make_mut(naming).remove(ordinal);
            if naming.is_empty() {
                self.naming.remove(&key);
            }
        }
    }

    /// Forgets the members of a side of every policy that names a key.
    fn forget(&mut self, side: usize, key: &RoleKey) {
        let Some(naming) = self.naming.get(&(side as u8, key.clone())).cloned() else { return };
        for ordinal in naming.iter() {
            // Replaced even if they were not computed: an earlier snapshot may share the cell and
            // compute them later.
            let mut members = (*self.members_of(ordinal)).clone();
            members.0[side] = OnceLock::new();
            self.set(ordinal, Some(members));
        }
    }
}

fn role_keys(roles: &Roles) -> impl Iterator<Item = RoleKey> {
    let all = roles.all.then_some(RoleKey::All).into_iter();
    let attributes = roles.attributes.iter().cloned().map(RoleKey::Attribute);
    all.chain(attributes).chain(roles.ids.iter().cloned().map(RoleKey::Id))
}

/// The units of [`evaluate`]: of the sets that are joined, where there are several.
fn units_of_roles(roles: &Roles, table: &Table) -> u64 {
    if roles.all || (roles.attributes.len() <= 1 && roles.ids.is_empty()) {
        return 0;
    }
    let sets = roles.attributes.iter().filter_map(|attribute| table.bearers(attribute));
    sets.map(|set| of_bitmap(set)).sum::<u64>() + roles.ids.len() as u64
}

/// The members of a role list (docs/protocol/management-api.md 7.4).
pub(crate) fn evaluate(roles: &Roles, semantic: Semantic, table: &Table) -> Arc<RoaringBitmap> {
    if roles.all {
        return table.eligible().clone();
    }
    let mut sets = roles.attributes.iter().map(|attribute| table.bearers(attribute));
    if let (1, true) = (roles.attributes.len(), roles.ids.is_empty()) {
        return sets.next().flatten().cloned().unwrap_or_default();
    }
    let mut members = match semantic {
        Semantic::AnyOf => sets.flatten().fold(RoaringBitmap::new(), |all, set| all | &**set),
        Semantic::AllOf => match sets.next() {
            Some(Some(first)) => sets.fold((**first).clone(), |all, set| match set {
                Some(set) => all & &**set,
                None => RoaringBitmap::new(),
            }),
            _ => RoaringBitmap::new(),
        },
    };
    let ids = roles.ids.iter().filter_map(|id| table.ordinal(id));
    members.extend(ids.filter(|ordinal| table.eligible().contains(*ordinal)));
    Arc::new(members)
}
