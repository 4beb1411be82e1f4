//! Changes of a table: checked first, then applied, so that a refused change has no effect.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use imbl::ordmap;

use super::key::{Key, difference, head_of_id, head_of_time, keys};
use super::ranked::{Compare, Ranked, head};
use super::refs::Refs;
use super::{ApplyError, Delta, Table};
use crate::{Entity, Id};

/// New value of each changed entity of one kind, by id; `None` deletes it.
pub(crate) type TableChange = BTreeMap<Id, Option<Entity>>;

impl Table {
    /// Creates or replaces one entity, in a table outside of snapshots.
    pub fn put(&mut self, entity: impl Into<Entity>) -> Result<(), ApplyError> {
        let entity = entity.into();
        let change = TableChange::from([(entity.id().clone(), Some(entity))]);
        self.check_unique(&change)?;
        self.apply(change);
        Ok(())
    }

    /// Deletes one entity, in a table outside of snapshots.
    pub fn remove(&mut self, id: &Id) -> Option<Entity> {
        let entity = self.get(id)?.clone();
        self.apply(TableChange::from([(id.clone(), None)]));
        Some(entity)
    }

    /// Checks that names and other unique values are still unique after a change.
    pub(crate) fn check_unique(&self, change: &TableChange) -> Result<(), ApplyError> {
        let mut coming: HashMap<(Option<usize>, Arc<str>), Id> = HashMap::new();
        for (id, entity) in change.iter().filter_map(|(id, new)| Some((id, new.as_ref()?))) {
            let mut check = |field: Option<usize>, value: &Arc<str>| {
                let holder = match field {
                    None => self.named(value),
                    Some(index) => self.holding_unique(index, value),
                };
                let holder = holder.map(|ordinal| self.id_at(ordinal)).filter(|holder| {
                    holder != id && change.get(holder).is_none_or(|new| holds(new, field, value))
                });
                let other = match change.len() {
                    1 => None,
                    _ => coming.insert((field, value.clone()), id.clone()),
                };
                match holder.or(other) {
                    Some(holder) => Err(self.duplicate(field, value, holder)),
                    None => Ok(()),
                }
            };
            let mut checked = match entity.name().filter(|name| !name.is_empty()) {
                Some(name) => check(None, name),
                None => Ok(()),
            };
            entity.unique(&mut |index, value| {
                if checked.is_ok() && !value.is_empty() {
                    checked = check(Some(index), value);
                }
            });
            checked?;
        }
        Ok(())
    }

    fn duplicate(&self, field: Option<usize>, value: &Arc<str>, holder: Id) -> ApplyError {
        let (kind, value) = (self.kind, value.clone());
        match field {
            None => ApplyError::DuplicateName { kind, name: value, holder },
            Some(index) => {
                let field = kind.unique().get(index).copied().unwrap_or_default();
                ApplyError::DuplicateValue { kind, field, value, holder }
            }
        }
    }

    /// Applies a change that was checked.
    pub(crate) fn apply(&mut self, change: TableChange) -> Delta {
        if !self.freed.is_empty() {
            Arc::make_mut(&mut self.free).extend(std::mem::take(&mut self.freed));
        }
        let mut delta = Delta::default();
        let mut coming = Vec::with_capacity(change.len());
        for (id, new) in change {
            let ordinal = self.ordinal(&id);
            let before = ordinal.and_then(|ordinal| self.at(ordinal)).map(keys);
            let after = new.as_ref().map(keys);
            let (gone, come) = difference(before.unwrap_or_default(), after.unwrap_or_default());
            if let Some(ordinal) = ordinal {
                gone.iter().for_each(|key| self.remove_key(key, ordinal, &id));
                gone.into_iter().for_each(|key| delta.note(key, &id));
            }
            match (new, ordinal) {
                (Some(new), _) => coming.push((id, ordinal, new, come)),
                (None, Some(ordinal)) => self.free_slot(&id, ordinal),
                (None, None) => {}
            }
        }
        for (id, ordinal, new, come) in coming {
            let ordinal = ordinal.unwrap_or_else(|| self.take_slot(&id));
            self.slots.set(ordinal as usize, Some(new));
            for key in come {
                self.insert_key(&key, ordinal, &id);
                delta.note(key, &id);
            }
        }
        delta
    }

    fn take_slot(&mut self, id: &Id) -> u32 {
        let ordinal = match self.free.min() {
            Some(lowest) => {
                Arc::make_mut(&mut self.free).remove(lowest);
                lowest
            }
            None => {
                self.slots.push_back(None);
                (self.slots.len() - 1) as u32
            }
        };
        // The index is moved out while it changes, because it asks the table how entities compare.
        let mut index = std::mem::take(&mut self.by_id);
        index.insert(head_of_id(id), ordinal, &|other| self.compare_id(other, id.as_str()));
        self.by_id = index;
        Arc::make_mut(&mut self.live).insert(ordinal);
        ordinal
    }

    fn free_slot(&mut self, id: &Id, ordinal: u32) {
        let mut index = std::mem::take(&mut self.by_id);
        index.remove(head_of_id(id), &|other| self.compare_id(other, id.as_str()));
        self.by_id = index;
        self.slots.set(ordinal as usize, None);
        Arc::make_mut(&mut self.live).remove(ordinal);
        self.freed.push(ordinal);
    }

    /// Changes the order that a key belongs to, if there is one. The order is moved out meanwhile,
    /// because comparing keys reads the table.
    fn change_order(
        &mut self,
        key: &Key,
        id: &Id,
        change: impl FnOnce(&mut Ranked, u64, Compare<'_>),
    ) {
        match key {
            Key::Created(at) => {
                let mut order = std::mem::take(&mut self.by_created);
                let compare = |other| self.compare_id(other, id.as_str());
                change(&mut order, head_of_time(*at), &compare);
                self.by_created = order;
            }
            Key::Name(name) => {
                let mut order = std::mem::take(&mut self.by_name);
                let compare = |other| self.compare_name(other, name);
                change(&mut order, head(name.as_bytes()), &compare);
                self.by_name = order;
            }
            Key::Unique(number, value) => {
                let number = usize::from(*number);
                let Some(order) = self.by_unique.get_mut(number) else { return };
                let mut order = std::mem::take(order);
                let compare = |other| self.compare_unique(other, number, value);
                change(&mut order, head(value.as_bytes()), &compare);
                self.by_unique[number] = order;
            }
            Key::Eligible | Key::Link(..) | Key::Attribute(_) => {}
        }
    }

    pub(super) fn remove_key(&mut self, key: &Key, ordinal: u32, id: &Id) {
        match key {
            Key::Eligible => {
                Arc::make_mut(&mut self.eligible).remove(ordinal);
            }
            Key::Created(_) | Key::Name(_) | Key::Unique(..) => {
                self.change_order(key, id, |order, head, compare| {
                    order.remove(head, compare);
                });
            }
            Key::Link(link, target) => {
                let Some(targets) = self.by_link.get_mut(usize::from(*link)) else { return };
                if targets.get_mut(target).is_some_and(|refs| refs.remove(ordinal)) {
                    targets.remove(target);
                }
            }
            Key::Attribute(attribute) => {
                let Some(bearers) = self.by_attribute.get_mut(attribute) else { return };
                Arc::make_mut(bearers).remove(ordinal);
                if bearers.is_empty() {
                    self.by_attribute.remove(attribute);
                }
            }
        }
    }

    pub(super) fn insert_key(&mut self, key: &Key, ordinal: u32, id: &Id) {
        match key {
            Key::Eligible => {
                Arc::make_mut(&mut self.eligible).insert(ordinal);
            }
            Key::Created(_) | Key::Name(_) | Key::Unique(..) => {
                self.change_order(key, id, |order, head, compare| {
                    order.insert(head, ordinal, compare);
                });
            }
            Key::Link(link, target) => {
                let Some(targets) = self.by_link.get_mut(usize::from(*link)) else { return };
                match targets.entry(target.clone()) {
                    ordmap::Entry::Occupied(mut refs) => refs.get_mut().insert(ordinal),
                    ordmap::Entry::Vacant(none) => {
                        none.insert(Refs::One(ordinal));
                    }
                }
            }
            Key::Attribute(attribute) => {
                let bearers = self.by_attribute.entry(attribute.clone()).or_default();
                Arc::make_mut(bearers).insert(ordinal);
            }
        }
    }
}

/// True if an entity has this name or other unique value.
fn holds(entity: &Option<Entity>, field: Option<usize>, value: &Arc<str>) -> bool {
    let Some(entity) = entity else { return false };
    let Some(index) = field else { return entity.name() == Some(value) };
    let mut found = false;
    entity.unique(&mut |own, text| found |= own == index && text == value);
    found
}

impl Delta {
    fn note(&mut self, key: Key, id: &Id) {
        match key {
            Key::Eligible => self.eligible.push(id.clone()),
            Key::Attribute(attribute) => self.attributes.push(attribute),
            _ => {}
        }
    }
}

#[cfg(test)]
mod check {
    use std::collections::BTreeMap;

    use roaring::RoaringBitmap;

    use super::*;

    impl Table {
        /// Asserts that the indexes agree with the entities, and that no set has the ordinal of a
        /// deleted entity.
        pub(crate) fn check(&self) {
            let all = 0..self.slots.len() as u32;
            let live: RoaringBitmap = all.filter(|at| self.at(*at).is_some()).collect();
            assert_eq!(*self.live, live);
            assert!(self.eligible.is_subset(&live));
            assert!(self.free.is_disjoint(&live));
            assert!(self.by_attribute.values().all(|set| set.is_subset(&live) && !set.is_empty()));
            let unused = self.free.len() + self.freed.len() as u64;
            assert_eq!(live.len() + unused, self.slots.len() as u64);
            let mut linked = vec![0; self.by_link.len()];
            let mut by_name = BTreeMap::new();
            let mut by_created = BTreeMap::new();
            for (ordinal, entity) in self.occupied() {
                assert_eq!(self.ordinal(entity.id()), Some(ordinal));
                by_created.insert((entity.base().created_at, entity.id().clone()), ordinal);
                for key in keys(entity) {
                    match key {
                        Key::Eligible => assert!(self.eligible.contains(ordinal)),
                        Key::Created(_) => {}
                        Key::Name(name) => {
                            assert_eq!(self.named(&name), Some(ordinal));
                            by_name.insert(name, ordinal);
                        }
                        Key::Unique(index, value) => {
                            assert_eq!(self.holding_unique(index.into(), &value), Some(ordinal));
                        }
                        Key::Link(link, target) => {
                            assert!(self.referrers(link.into(), &target).contains(ordinal));
                            linked[usize::from(link)] += 1;
                        }
                        Key::Attribute(attribute) => {
                            assert!(self.bearers(&attribute).unwrap().contains(ordinal));
                        }
                    }
                }
            }
            assert!(self.by_name.iter().eq(by_name.into_values()));
            assert!(self.by_created.iter().eq(by_created.into_values()));
            assert!(self.iter().map(Entity::id).is_sorted());
            assert_eq!(self.by_id.len() as u64, live.len());
            for (targets, expected) in self.by_link.iter().zip(linked) {
                assert_eq!(targets.values().map(|refs| refs.to_set().len()).sum::<u64>(), expected);
            }
        }
    }
}
