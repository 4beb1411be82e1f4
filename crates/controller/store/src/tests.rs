//! Tests of the engines: one suite for all of them, and tests of files.

mod damage;
mod examine;
mod file;
mod full_disk;
#[cfg(unix)]
mod journal;
mod moving;
mod replica;
mod restoring;
mod shared_live;
mod suite;

use std::sync::Arc;

use weft_model::entity::{Identity, Service};
use weft_model::{Base, Change, ChangeSet, Entity, Id, Kind, Revision, Timestamp};

use self::api::{Embedded, Faulty, Memory, MemoryLog, Options, Replica, Store};

/// The names of the store, for the rules of every engine.
mod api {
    pub(super) use crate::*;
}

/// Change sets that the engines under test keep.
const LOG_LIMIT: usize = 20;

/// Runs a rule over every engine of this crate.
fn over_all<F: Future<Output = ()>>(rule: impl Fn(Arc<dyn Store>) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        rule(Arc::new(Memory::with_log_limit(LOG_LIMIT))).await;
        let folder = tempfile::tempdir().unwrap();
        let options = || Options { log_limit: LOG_LIMIT, ..Options::default() };
        rule(Arc::new(Embedded::open(&folder.path().join("db"), options()).unwrap())).await;
        let log = Arc::new(MemoryLog::new(LOG_LIMIT).connect());
        let store = Replica::open(&folder.path().join("copy"), options(), log).await.unwrap();
        rule(Arc::new(store)).await;
        rule(Arc::new(Faulty::new(Memory::with_log_limit(LOG_LIMIT)))).await;
    });
}

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
