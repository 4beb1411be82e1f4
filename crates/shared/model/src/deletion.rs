//! Deletion of an entity with everything that goes with it, by the rules of [`OnDelete`].

use std::collections::{BTreeMap, BTreeSet};

use crate::entity::OnDelete;
use crate::{Change, Entity, Id, Kind, Snapshot, Timestamp};

/// A reference that prevents a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Referrer {
    /// The kind of the entity that refers.
    pub kind: Kind,
    /// Id of the entity that refers.
    pub id: Id,
    /// Name of the entity that refers, or its id if it has no name.
    pub name: String,
    /// The field that refers.
    pub field: &'static str,
}

/// Why an entity cannot be deleted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeletionError {
    /// The entity does not exist.
    #[error("there is no {0} {1}")]
    NotFound(Kind, Id),
    /// Other entities refer to the entity.
    #[error("{kind} {id} is in use by {}", list(.by))]
    InUse {
        /// The kind of the entity.
        kind: Kind,
        /// Id of the entity.
        id: Id,
        /// The references.
        by: Vec<Referrer>,
    },
}

fn list(referrers: &[Referrer]) -> String {
    const SHOWN: usize = 5;
    let mut text: Vec<_> =
        referrers.iter().take(SHOWN).map(|by| format!("{} {}", by.kind, by.name)).collect();
    if referrers.len() > SHOWN {
        text.push(format!("{} more", referrers.len() - SHOWN));
    }
    text.join(", ")
}

/// The changes that delete an entity, in order: entities lose their references to it, entities that
/// go with it are deleted (those that refer before those referred to), the entity is deleted.
pub fn plan(
    snapshot: &Snapshot,
    kind: Kind,
    id: &Id,
    now: Timestamp,
) -> Result<Vec<Change>, DeletionError> {
    if !snapshot.contains(kind, id) {
        return Err(DeletionError::NotFound(kind, id.clone()));
    }
    let mut order = vec![(kind, id.clone())];
    let mut doomed: BTreeSet<_> = order.iter().cloned().collect();
    let mut kept: BTreeMap<(Kind, Id), Entity> = BTreeMap::new();
    let mut refused = Vec::new();
    let mut at = 0;
    while let Some((kind, id)) = order.get(at).cloned() {
        for (entity, index, link) in snapshot.referrers(kind, &id) {
            let key = (entity.kind(), entity.id().clone());
            match link.on_delete {
                OnDelete::Cascade => {
                    if doomed.insert(key.clone()) {
                        order.push(key);
                    }
                }
                OnDelete::Unlink => {
                    let current = kept.get(&key).unwrap_or(entity);
                    kept.insert(key, current.without(index, &id));
                }
                OnDelete::Refuse => refused.push((entity, link.field)),
            }
        }
        at += 1;
    }
    refused.retain(|(entity, _)| !doomed.contains(&(entity.kind(), entity.id().clone())));
    if !refused.is_empty() {
        let by = refused.into_iter().map(|(entity, field)| referrer(entity, field)).collect();
        return Err(DeletionError::InUse { kind, id: id.clone(), by });
    }
    kept.retain(|key, _| !doomed.contains(key));
    let freed = kept.into_values().map(|entity| Change::Put(entity.touched(now)));
    let deleted = order.into_iter().rev().map(|(kind, id)| Change::Delete(kind, id));
    Ok(freed.chain(deleted).collect())
}

fn referrer(entity: &Entity, field: &'static str) -> Referrer {
    let name = entity.name().map_or_else(|| entity.id().to_string(), ToString::to_string);
    Referrer { kind: entity.kind(), id: entity.id().clone(), name, field }
}
