//! What an entity is found by.
//!
//! A change of an entity is the difference of two lists of keys: all keys that go are removed
//! before those that come are added, so that two entities can swap names in one change.

use std::{cmp::Ordering, sync::Arc};

use super::ranked::head;
use crate::{Entity, Id, Timestamp};

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

/// The keys of an entity, sorted and unique.
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

/// Splits two sorted lists into what only the first and what only the second has.
pub(crate) fn difference(before: Vec<Key>, after: Vec<Key>) -> (Vec<Key>, Vec<Key>) {
    if before.is_empty() {
        return (before, after);
    }
    let come = after.iter().filter(|key| before.binary_search(key).is_err()).cloned().collect();
    let gone = before.into_iter().filter(|key| after.binary_search(key).is_err()).collect();
    (gone, come)
}

/// The head of a time, ordered as the times are. No two times have one head.
pub(crate) fn head_of_time(at: Timestamp) -> u64 {
    (at.0 as u64) ^ (1 << 63)
}

/// The head of an id.
pub(crate) fn head_of_id(id: &Id) -> u64 {
    head(id.as_bytes())
}

/// The head of a key that an order is made of.
pub(crate) fn head_of(key: &Key) -> u64 {
    match key {
        Key::Created(at) => head_of_time(*at),
        Key::Name(text) | Key::Unique(_, text) | Key::Attribute(text) => head(text.as_bytes()),
        Key::Link(_, id) => head_of_id(id),
        Key::Eligible => 0,
    }
}

/// How the unique value of an entity stands to a text.
pub(crate) fn compare_unique(entity: &Entity, index: usize, text: &str) -> Ordering {
    let mut order = Ordering::Less;
    entity.unique(&mut |own, value| {
        if own == index {
            order = value.as_ref().cmp(text);
        }
    });
    order
}
