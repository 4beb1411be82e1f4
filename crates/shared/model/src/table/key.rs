//! Keys by which entities are found.
//!
//! A change of an entity is the difference of two lists of keys. All removed keys go before new
//! ones are added, so that two entities can swap names in one change.

use std::cmp::Ordering;
use std::sync::Arc;

use super::ranked::head;
use crate::{Entity, Id, Timestamp};

/// A key of an entity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// Policies can select the entity.
    Eligible,
    Created(Timestamp),
    Name(Arc<str>),
    Unique(u8, Arc<str>),
    Link(u8, Id),
    Attribute(Arc<str>),
}

/// The keys of an entity, sorted, without repetitions.
pub(crate) fn keys(entity: &Entity) -> Vec<Key> {
    let mut keys = Vec::with_capacity(8);
    keys.push(Key::Created(entity.base().created_at));
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
    entity.groups(&mut |group, id| keys.push(Key::Link(group as u8, id.clone())));
    if let Some(attributes) = entity.attributes() {
        keys.push(Key::Eligible);
        keys.extend(attributes.iter().cloned().map(Key::Attribute));
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Splits two sorted lists into the elements of only the first and of only the second.
pub(crate) fn difference(before: Vec<Key>, after: Vec<Key>) -> (Vec<Key>, Vec<Key>) {
    if before.is_empty() {
        return (before, after);
    }
    let come = after.iter().filter(|key| before.binary_search(key).is_err()).cloned().collect();
    let gone = before.into_iter().filter(|key| after.binary_search(key).is_err()).collect();
    (gone, come)
}

/// Head of a time, with the same order. Different times have different heads.
pub(crate) fn head_of_time(at: Timestamp) -> u64 {
    (at.0 as u64) ^ (1 << 63)
}

/// Head of an id.
pub(crate) fn head_of_id(id: &Id) -> u64 {
    head(id.as_bytes())
}

/// Head of a key in an order.
pub(crate) fn head_of(key: &Key) -> u64 {
    match key {
        Key::Created(at) => head_of_time(*at),
        Key::Name(text) | Key::Unique(_, text) | Key::Attribute(text) => head(text.as_bytes()),
        Key::Link(_, id) => head_of_id(id),
        Key::Eligible => 0,
    }
}

/// Order of an entity's unique value to a text.
pub(crate) fn compare_unique(entity: &Entity, index: usize, text: &str) -> Ordering {
    let mut order = Ordering::Less;
    entity.unique(&mut |own, value| {
        if own == index {
            order = value.as_ref().cmp(text);
        }
    });
    order
}
