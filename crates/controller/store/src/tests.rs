//! Tests of the engines: one suite for all of them, and tests of files.

mod damage;
mod examine;
mod file;
mod full_disk;
#[cfg(unix)]
mod journal;
mod replica;
mod suite;

use std::sync::Arc;

use weft_model::entity::{Identity, Service};
use weft_model::{Base, Change, ChangeSet, Entity, Id, Kind, Revision, Timestamp};

use crate::Store;

pub(super) fn service(id: &str, name: &str) -> Entity {
    let base = Base::new(Id::new(id), Timestamp(1));
    Service { base, name: name.into(), ..Service::default() }.into()
}

pub(super) fn identity(id: &str, name: &str) -> Entity {
    let base = Base::new(Id::new(id), Timestamp(1));
    Identity { base, name: name.into(), ..Identity::default() }.into()
}

pub(super) fn put(entity: Entity) -> Arc<ChangeSet> {
    Arc::new(ChangeSet::of([Change::Put(entity)]))
}

pub(super) fn delete(kind: Kind, id: &str) -> Arc<ChangeSet> {
    Arc::new(ChangeSet::of([Change::Delete(kind, Id::new(id))]))
}

/// Everything in the store, by kind and id.
pub(super) fn rows(store: &dyn Store) -> Vec<Entity> {
    let mut rows = Vec::new();
    store.load(&mut |entity| rows.push(entity)).unwrap();
    rows
}

pub(super) async fn commit(store: &dyn Store, sets: Vec<Arc<ChangeSet>>) -> Revision {
    let base = store.head().unwrap().revision;
    store.commit(base, sets).await.unwrap()
}
