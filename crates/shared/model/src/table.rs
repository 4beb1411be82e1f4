//! All entities of one kind, with their indexes; snapshots consist of tables.
//!
//! Every entity has a dense number, its *ordinal*, which is private to the process. Sets of
//! entities are compressed sets of ordinals, and an order of entities is a list of ordinals.
//! Ordinals of deleted entities are reused, lowest first, but not within the same change: in one
//! change an ordinal stands for one entity only.
//!
//! A clone shares everything; changing it copies only the parts that it touches, once.

mod apply;
mod error;
mod key;
mod load;
mod ranked;
mod refs;
mod verify;

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

pub(crate) use apply::TableChange;
pub use error::ApplyError;
use imbl::{OrdMap, Vector};
use roaring::RoaringBitmap;

use self::key::{compare_unique, head_of_id, head_of_time};
use self::ranked::{Ranked, head};
use self::refs::Refs;
use crate::meter::of_set;
use crate::{Entity, Id, Kind, Timestamp};

/// Effect of a change on policies: keys of sets whose members changed.
#[derive(Debug, Default)]
pub(crate) struct Delta {
    /// Entities that policies can select since the change, or no longer.
    pub(crate) eligible: Vec<Id>,
    /// Attributes that entities got or lost.
    pub(crate) attributes: Vec<Arc<str>>,
}

/// All entities of one kind.
#[derive(Debug, Clone)]
pub struct Table {
    kind: Kind,
    slots: Vector<Option<Entity>>,
    live: Arc<RoaringBitmap>,
    eligible: Arc<RoaringBitmap>,
    /// Ordinals that may be reused.
    free: Arc<RoaringBitmap>,
    /// Ordinals freed by the last change.
    freed: Vec<u32>,
    by_id: Ranked,
    by_name: Ranked,
    /// By time of creation, then id.
    by_created: Ranked,
    by_unique: Vec<Ranked>,
    /// One map for each link, followed by one for each group.
    by_link: Vec<OrdMap<Id, Refs>>,
    by_attribute: OrdMap<Arc<str>, Arc<RoaringBitmap>>,
}

/// An order of a table's entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ranking {
    Id,
    Name,
    /// By time of creation, then id.
    Created,
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
            by_id: Ranked::default(),
            by_name: Ranked::default(),
            by_created: Ranked::default(),
            by_unique: vec![Ranked::default(); kind.unique().len()],
            by_link: vec![OrdMap::new(); kind.links().len() + kind.groups()],
            by_attribute: OrdMap::new(),
        }
    }

    /// The kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Number of entities.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// True if there are no entities.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entity with this id.
    pub fn get(&self, id: &Id) -> Option<&Entity> {
        self.at(self.ordinal(id)?)
    }

    /// The ordinal of an entity.
    pub fn ordinal(&self, id: &Id) -> Option<u32> {
        self.by_id.find(head_of_id(id), &|other| self.compare_id(other, id.as_str()))
    }

    /// The entity with this ordinal.
    pub fn at(&self, ordinal: u32) -> Option<&Entity> {
        self.slots.get(ordinal as usize)?.as_ref()
    }

    /// The entity with this name.
    pub fn by_name(&self, name: &str) -> Option<&Entity> {
        self.at(self.named(name)?)
    }

    /// The ordinal of the entity with this name.
    pub(crate) fn named(&self, name: &str) -> Option<u32> {
        self.by_name.find(head(name.as_bytes()), &|other| self.compare_name(other, name))
    }

    /// The entities whose names are after this one, ordered by name; `None`: all with names.
    pub fn behind_name(&self, name: Option<&str>) -> impl Iterator<Item = &Entity> {
        let behind = |name| self.rank_of_name(name) + usize::from(self.named(name).is_some());
        let ranks = name.map_or(0, behind)..self.by_name.len();
        self.ranks(Ranking::Name, ranks).filter_map(|(_, ordinal)| self.at(ordinal))
    }

    /// The entity with a unique value; `index` is that in [`Kind::unique`].
    pub fn by_unique(&self, index: usize, value: &str) -> Option<&Entity> {
        self.at(self.holding_unique(index, value)?)
    }

    /// The ordinal of the entity with a unique value.
    pub(crate) fn holding_unique(&self, index: usize, value: &str) -> Option<u32> {
        let head = head(value.as_bytes());
        self.by_unique.get(index)?.find(head, &|other| self.compare_unique(other, index, value))
    }

    /// All entities, ordered by id.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Entity> {
        self.by_id.iter().filter_map(|ordinal| self.at(ordinal))
    }

    /// Every entity with its ordinal, ordered by ordinal and independent of the indexes: the
    /// fastest way to read all of them.
    pub(crate) fn occupied(&self) -> impl Iterator<Item = (u32, &Entity)> {
        (0u32..).zip(self.slots.iter()).filter_map(|(at, slot)| Some((at, slot.as_ref()?)))
    }

    /// The ordinals at these ranks of an order, each with its head: entities with the same time of
    /// creation have the same head.
    pub(crate) fn ranks(
        &self,
        ranking: Ranking,
        ranks: Range<usize>,
    ) -> impl DoubleEndedIterator<Item = (u64, u32)> + '_ {
        self.ranked(ranking).ranks(ranks)
    }

    /// The first and the last ordinal in an order.
    pub(crate) fn ends(&self, ranking: Ranking) -> [Option<u32>; 2] {
        let ranked = self.ranked(ranking);
        [ranked.first(), ranked.last()].map(|end| end.map(|(_, ordinal)| ordinal))
    }

    /// True if an order has every entity: the order of names lacks entities without a name.
    pub(crate) fn is_complete(&self, ranking: Ranking) -> bool {
        self.ranked(ranking).len() == self.len()
    }

    /// Number of ids before a text.
    pub(crate) fn rank_of_id(&self, text: &str) -> usize {
        self.by_id.rank(head(text.as_bytes()), &|other| self.compare_id(other, text))
    }

    /// Number of names before a text.
    pub(crate) fn rank_of_name(&self, text: &str) -> usize {
        self.by_name.rank(head(text.as_bytes()), &|other| self.compare_name(other, text))
    }

    /// Number of entities created before a time.
    pub(crate) fn rank_of_time(&self, at: Timestamp) -> usize {
        self.by_created.rank(head_of_time(at), &|_| Ordering::Greater)
    }

    /// The entities that refer to `target` by the link; the number is that in [`Kind::links`].
    pub fn referring<'a>(
        &'a self,
        link: usize,
        target: &Id,
    ) -> impl Iterator<Item = &'a Entity> + use<'a> {
        let refs = self.by_link.get(link).and_then(|targets| targets.get(target));
        refs.into_iter().flat_map(Refs::iter).filter_map(|ordinal| self.at(ordinal))
    }

    /// The entities that refer to one target by one link and to another by another. It reads the
    /// referrers of the target with fewer of them.
    pub fn referring_both<'a>(
        &'a self,
        one: (usize, &Id),
        other: (usize, &Id),
    ) -> impl Iterator<Item = &'a Entity> + use<'a> {
        let refs = |(link, target): (usize, &Id)| self.by_link.get(link)?.get(target);
        let both = refs(one).zip(refs(other));
        let ordered = both.map(|(a, b)| if a.len() <= b.len() { (a, b) } else { (b, a) });
        let within = ordered
            .into_iter()
            .flat_map(|(few, many)| few.iter().filter(|ordinal| many.contains(*ordinal)));
        within.filter_map(|ordinal| self.at(ordinal))
    }

    /// Ordinals of the entities that refer to `target` by the link.
    pub fn referrers(&self, link: usize, target: &Id) -> RoaringBitmap {
        let refs = self.by_link.get(link).and_then(|targets| targets.get(target));
        refs.map(Refs::to_set).unwrap_or_default()
    }

    /// Number of entities that refer to `target` by the link.
    pub fn count_referrers(&self, link: usize, target: &Id) -> u64 {
        let refs = self.by_link.get(link).and_then(|targets| targets.get(target));
        refs.map_or(0, Refs::len)
    }

    /// The ordinals of all entities.
    pub fn live(&self) -> &Arc<RoaringBitmap> {
        &self.live
    }

    /// Ordinals of the entities that policies can select, which `#all` means.
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

    /// Number of role attributes in use.
    pub fn count_attributes(&self) -> usize {
        self.by_attribute.len()
    }

    /// Units of work of a set of any of the entities, and of its union with another.
    pub fn units_of_set(&self) -> u64 {
        2 * of_set(self.len() as u64, self.highest())
    }

    /// The highest ordinal; 0 if there are no entities.
    pub(crate) fn highest(&self) -> u32 {
        self.live.max().unwrap_or_default()
    }

    /// Replaces a role attribute's text with the one that its bearers share.
    pub(crate) fn share(&self, attribute: &mut Arc<str>) {
        if let Some((shared, _)) = self.by_attribute.get_key_value(attribute) {
            *attribute = shared.clone();
        }
    }

    fn ranked(&self, ranking: Ranking) -> &Ranked {
        match ranking {
            Ranking::Id => &self.by_id,
            Ranking::Name => &self.by_name,
            Ranking::Created => &self.by_created,
        }
    }

    fn compare_id(&self, other: u32, id: &str) -> Ordering {
        self.at(other).map_or(Ordering::Less, |entity| entity.id().as_str().cmp(id))
    }

    fn compare_name(&self, other: u32, name: &str) -> Ordering {
        let own = self.at(other).and_then(Entity::name);
        own.map_or(Ordering::Less, |own| own.as_ref().cmp(name))
    }

    fn compare_unique(&self, other: u32, index: usize, value: &str) -> Ordering {
        self.at(other).map_or(Ordering::Less, |entity| compare_unique(entity, index, value))
    }

    fn id_at(&self, ordinal: u32) -> Id {
        self.at(ordinal).map(|entity| entity.id().clone()).unwrap_or_default()
    }
}
