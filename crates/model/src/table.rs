//! All entities of one kind with their indexes; the part a snapshot is made of.
//!
//! Every entity has a dense number, its *ordinal*, private to the process. Sets of entities are
//! compressed sets of ordinals. Ordinals of deleted entities are given out again, lowest first,
//! but not before the next change: within one change an ordinal never means two entities.
//!
//! What an entity is found by is a list of [`Key`]s. A change is the difference of two such lists:
//! all keys that go are removed before those that come are added, so that two entities can swap
//! names in one change.

mod verify;

use std::{collections::BTreeMap, sync::Arc};

use imbl::{HashMap, OrdMap, OrdSet, Vector};
use roaring::RoaringBitmap;

use crate::{Entity, Id, Kind, Timestamp};

/// What an entity is found by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// Policies can mean it.
    Eligible,
    Created(Timestamp),
    Name(Arc<str>),
    Unique(u8, Arc<str>),
    Link(u8, Id),
    Attribute(Arc<str>),
}

/// Why a change does not fit the entities that are there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Another entity of the kind has the name.
    #[error("{kind} {holder} already has the name {name:?}")]
    DuplicateName {
        /// The kind.
        kind: Kind,
        /// The name wanted twice.
        name: Arc<str>,
        /// Who has it.
        holder: Id,
    },
    /// Another entity of the kind has a value that must be unique.
    #[error("{kind} {holder} already has the same {field}")]
    DuplicateValue {
        /// The kind.
        kind: Kind,
        /// The field that must be unique.
        field: &'static str,
        /// The value wanted twice.
        value: Arc<str>,
        /// Who has it.
        holder: Id,
    },
    /// An entity names another one that is not there.
    #[error("{field} of {kind} {id} names {to} {target}, which does not exist")]
    MissingReference {
        /// The kind of the entity.
        kind: Kind,
        /// The entity.
        id: Id,
        /// The field.
        field: &'static str,
        /// The kind it names.
        to: Kind,
        /// The id it names.
        target: Id,
    },
    /// An entity is deleted although another one names it.
    #[error("{kind} {id} cannot be deleted: {field} of {by} {referrer} names it")]
    StillReferenced {
        /// The kind of the deleted entity.
        kind: Kind,
        /// The deleted entity.
        id: Id,
        /// The kind that names it.
        by: Kind,
        /// The entity that names it.
        referrer: Id,
        /// The field.
        field: &'static str,
    },
    /// An entity that is not there is deleted or gets a cold field.
    #[error("there is no {kind} {id}")]
    NotFound {
        /// The kind.
        kind: Kind,
        /// The id.
        id: Id,
    },
    /// The entity has no id.
    #[error("a {0} without id")]
    NoId(Kind),
    /// Entities of this kind are not kept in snapshots.
    #[error("{0} is not kept in snapshots")]
    NotInSnapshots(Kind),
}

/// What a change means for policies: keys of sets whose members changed.
#[derive(Debug, Default)]
pub(crate) struct Delta {
    /// Entities that policies can mean since, or no longer.
    pub(crate) eligible: Vec<Id>,
    /// Attributes that were given or taken.
    pub(crate) attributes: Vec<Arc<str>>,
}

/// All entities of one kind.
#[derive(Debug, Clone)]
pub struct Table {
    kind: Kind,
    slots: Vector<Option<Entity>>,
    live: Arc<RoaringBitmap>,
    eligible: Arc<RoaringBitmap>,
    /// Ordinals that may be given out.
    free: Arc<RoaringBitmap>,
    /// Ordinals freed by the last change.
    freed: Vec<u32>,
    by_id: OrdMap<Id, u32>,
    by_name: OrdMap<Arc<str>, u32>,
    by_created: OrdSet<(Timestamp, u32)>,
    by_unique: Vec<HashMap<Arc<str>, u32>>,
    by_link: OrdSet<(u8, Id, u32)>,
    by_attribute: OrdMap<Arc<str>, Arc<RoaringBitmap>>,
}

impl Table {
    /// An empty table.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            slots: Vector::new(),
            live: Arc::default(),
            eligible: Arc::default(),
            free: Arc::default(),
            freed: Vec::new(),
            by_id: OrdMap::new(),
            by_name: OrdMap::new(),
            by_created: OrdSet::new(),
            by_unique: kind.unique().iter().map(|_| HashMap::new()).collect(),
            by_link: OrdSet::new(),
            by_attribute: OrdMap::new(),
        }
    }

    /// The kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// How many entities there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The entity with this id.
    pub fn get(&self, id: &Id) -> Option<&Entity> {
        self.at(self.ordinal(id)?)
    }

    /// The ordinal of an entity.
    pub fn ordinal(&self, id: &Id) -> Option<u32> {
        self.by_id.get(id).copied()
    }

    /// The entity with this ordinal.
    pub fn at(&self, ordinal: u32) -> Option<&Entity> {
        self.slots.get(ordinal as usize)?.as_ref()
    }

    /// The entity with this name.
    pub fn by_name(&self, name: &str) -> Option<&Entity> {
        self.at(*self.by_name.get(name)?)
    }

    /// The entity with a unique value; the index is that into [`Kind::unique`].
    pub fn by_unique(&self, index: usize, value: &str) -> Option<&Entity> {
        self.at(*self.by_unique.get(index)?.get(value)?)
    }

    /// All entities, ordered by id.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Entity> {
        self.by_id.values().filter_map(|ordinal| self.at(*ordinal))
    }

    /// All entities with names, ordered by name.
    pub fn iter_by_name(&self) -> impl DoubleEndedIterator<Item = &Entity> {
        self.by_name.values().filter_map(|ordinal| self.at(*ordinal))
    }

    /// All entities, ordered by time of creation.
    pub fn iter_by_created(&self) -> impl DoubleEndedIterator<Item = &Entity> {
        self.by_created.iter().filter_map(|(_, ordinal)| self.at(*ordinal))
    }

    /// Ordinals of entities whose names lie in the range, ordered by name.
    pub fn name_range<'a>(
        &'a self,
        range: impl std::ops::RangeBounds<Arc<str>> + 'a,
    ) -> impl DoubleEndedIterator<Item = u32> + 'a {
        self.by_name.range(range).map(|(_, ordinal)| *ordinal)
    }

    /// Ordinals of entities created in the half-open range, oldest first.
    pub fn created_range(
        &self,
        range: std::ops::Range<Timestamp>,
    ) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.by_created.range((range.start, 0)..(range.end, 0)).map(|(_, ordinal)| *ordinal)
    }

    /// The entities that name `target` by the link; the number is that into [`Kind::links`].
    pub fn referring<'a>(
        &'a self,
        link: usize,
        target: &Id,
    ) -> impl Iterator<Item = &'a Entity> + use<'a> {
        let link = link as u8;
        let range = (link, target.clone(), 0)..=(link, target.clone(), u32::MAX);
        self.by_link.range(range).filter_map(|(_, _, ordinal)| self.at(*ordinal))
    }

    /// The ordinals of all entities.
    pub fn live(&self) -> &Arc<RoaringBitmap> {
        &self.live
    }

    /// The ordinals of the entities that policies can mean; these are what `#all` means.
    pub fn eligible(&self) -> &Arc<RoaringBitmap> {
        &self.eligible
    }

    /// The ordinals of the entities that bear a role attribute.
    pub fn bearers(&self, attribute: &str) -> Option<&Arc<RoaringBitmap>> {
        self.by_attribute.get(attribute)
    }

    /// The role attributes in use with their bearers, in order.
    pub fn attributes(&self) -> impl DoubleEndedIterator<Item = (&Arc<str>, &Arc<RoaringBitmap>)> {
        self.by_attribute.iter()
    }

    /// Creates or replaces one entity. For tables outside of snapshots.
    pub fn put(&mut self, entity: impl Into<Entity>) -> Result<(), ApplyError> {
        let entity = entity.into();
        self.apply(BTreeMap::from([(entity.id().clone(), Some(entity))])).map(drop)
    }

    /// Removes one entity. For tables outside of snapshots.
    pub fn remove(&mut self, id: &Id) -> Option<Entity> {
        let entity = self.get(id)?.clone();
        self.apply(BTreeMap::from([(id.clone(), None)])).ok().map(|_| entity)
    }

    /// Applies one change: for each id the new entity, or `None` to remove it. After an error the
    /// table is half changed and must be thrown away.
    pub(crate) fn apply(
        &mut self,
        change: BTreeMap<Id, Option<Entity>>,
    ) -> Result<Delta, ApplyError> {
        if !self.freed.is_empty() {
            Arc::make_mut(&mut self.free).extend(std::mem::take(&mut self.freed));
        }
        let mut delta = Delta::default();
        let mut coming = Vec::with_capacity(change.len());
        for (id, new) in change {
            let old = self.get(&id);
            let (before, after) = (old.map(keys), new.as_ref().map(keys));
            let (gone, come) = difference(before.unwrap_or_default(), after.unwrap_or_default());
            let ordinal = self.ordinal(&id);
            if let Some(ordinal) = ordinal {
                gone.iter().for_each(|key| self.remove_key(key, ordinal));
                gone.into_iter().for_each(|key| delta.note(key, &id));
            }
            match (new, ordinal) {
                (Some(new), _) => coming.push((id, ordinal, new, come)),
                (None, Some(ordinal)) => self.free_slot(&id, ordinal),
                (None, None) => {}
            }
        }
        for (id, ordinal, new, come) in coming {
            let ordinal = match ordinal {
                Some(ordinal) => ordinal,
                None => self.take_slot(&id),
            };
            self.slots.set(ordinal as usize, Some(new));
            for key in come {
                self.insert_key(&key, ordinal)?;
                delta.note(key, &id);
            }
        }
        Ok(delta)
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
        self.by_id.insert(id.clone(), ordinal);
        Arc::make_mut(&mut self.live).insert(ordinal);
        ordinal
    }

    fn free_slot(&mut self, id: &Id, ordinal: u32) {
        self.slots.set(ordinal as usize, None);
        self.by_id.remove(id);
        Arc::make_mut(&mut self.live).remove(ordinal);
        self.freed.push(ordinal);
    }

    fn remove_key(&mut self, key: &Key, ordinal: u32) {
        match key {
            Key::Eligible => {
                Arc::make_mut(&mut self.eligible).remove(ordinal);
            }
            Key::Created(at) => {
                self.by_created.remove(&(*at, ordinal));
            }
            Key::Name(name) => {
                self.by_name.remove(name);
            }
            Key::Unique(index, value) => {
                if let Some(map) = self.by_unique.get_mut(usize::from(*index)) {
                    map.remove(value);
                }
            }
            Key::Link(link, target) => {
                self.by_link.remove(&(*link, target.clone(), ordinal));
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

    fn insert_key(&mut self, key: &Key, ordinal: u32) -> Result<(), ApplyError> {
        match key {
            Key::Eligible => {
                Arc::make_mut(&mut self.eligible).insert(ordinal);
            }
            Key::Created(at) => {
                self.by_created.insert((*at, ordinal));
            }
            Key::Name(name) => {
                if let Some(other) = self.by_name.insert(name.clone(), ordinal) {
                    let (kind, name, holder) = (self.kind, name.clone(), self.id_at(other));
                    return Err(ApplyError::DuplicateName { kind, name, holder });
                }
            }
            Key::Unique(index, value) => {
                let index = usize::from(*index);
                let Some(map) = self.by_unique.get_mut(index) else { return Ok(()) };
                if let Some(other) = map.insert(value.clone(), ordinal) {
                    let field = self.kind.unique().get(index).copied().unwrap_or_default();
                    let (kind, value, holder) = (self.kind, value.clone(), self.id_at(other));
                    return Err(ApplyError::DuplicateValue { kind, field, value, holder });
                }
            }
            Key::Link(link, target) => {
                self.by_link.insert((*link, target.clone(), ordinal));
            }
            Key::Attribute(attribute) => {
                let bearers = self.by_attribute.entry(attribute.clone()).or_default();
                Arc::make_mut(bearers).insert(ordinal);
            }
        }
        Ok(())
    }

    fn id_at(&self, ordinal: u32) -> Id {
        self.at(ordinal).map(|entity| entity.id().clone()).unwrap_or_default()
    }

    /// Proves that no set holds the ordinal of an entity that is not there.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let live: RoaringBitmap =
            (0..self.slots.len() as u32).filter(|ordinal| self.at(*ordinal).is_some()).collect();
        assert_eq!(*self.live, live);
        assert!(self.eligible.is_subset(&live));
        assert!(self.free.is_disjoint(&live));
        assert!(self.by_attribute.values().all(|set| set.is_subset(&live) && !set.is_empty()));
        assert!(self.by_link.iter().all(|(_, _, ordinal)| live.contains(*ordinal)));
        assert_eq!(self.by_created.len(), self.len());
        let unused = self.free.len() + self.freed.len() as u64;
        assert_eq!(live.len() + unused, self.slots.len() as u64);
    }
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

/// The keys of an entity, sorted and unique.
fn keys(entity: &Entity) -> Vec<Key> {
    let mut keys = vec![Key::Created(entity.base().created_at)];
    keys.extend(entity.name().filter(|name| !name.is_empty()).cloned().map(Key::Name));
    entity.unique(&mut |index, value| {
        if !value.is_empty() {
            keys.push(Key::Unique(index as u8, value.clone()));
        }
    });
    entity.links(&mut |link, id| {
        if !id.is_empty() {
            keys.push(Key::Link(link as u8, id.clone()));
        }
    });
    if let Some(attributes) = entity.attributes() {
        keys.push(Key::Eligible);
        keys.extend(attributes.iter().cloned().map(Key::Attribute));
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Splits two sorted lists into what only the first and what only the second has.
fn difference(before: Vec<Key>, after: Vec<Key>) -> (Vec<Key>, Vec<Key>) {
    let come = after.iter().filter(|key| before.binary_search(key).is_err()).cloned().collect();
    let gone = before.into_iter().filter(|key| after.binary_search(key).is_err()).collect();
    (gone, come)
}
