//! The rules of every engine, over etcd.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use weft_model::entity::Identity;
use weft_model::{Base, Change, ChangeSet, Entity, Id, Kind, Revision, Timestamp};
use weft_test_etcd::Server;

use self::api::{Options, Replica, Store};
use super::server::Reach as _;
use crate::{EtcdLog, EtcdOptions};

/// The names of the store, for the rules.
mod api {
    pub(super) use weft_store::*;
}

#[path = "../../../store/src/tests/suite.rs"]
mod suite;

const LOG_LIMIT: usize = 20;

/// Runs a rule over a new log of an etcd that all rules share.
fn over_all<F: Future<Output = ()>>(rule: impl Fn(Arc<dyn Store>) -> F) {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    static LOGS: AtomicU64 = AtomicU64::new(0);
    let Some(server) = SERVER.get_or_init(Server::start_for_the_process) else { return };
    let prefix = format!("/{}/", LOGS.fetch_add(1, Ordering::Relaxed));
    let log = EtcdLog::new(EtcdOptions { prefix, ..server.options() });
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { log_limit: LOG_LIMIT, ..Options::default() };
        let store = Replica::open(&folder.path().join("copy"), options, Arc::new(log)).await;
        rule(Arc::new(store.unwrap())).await;
    });
}

fn service(id: &str, name: &str) -> Entity {
    super::service(id, name)
}

fn identity(id: &str, name: &str) -> Entity {
    let base = Base::new(Id::new(id), Timestamp(1));
    Identity { base, name: name.into(), ..Identity::default() }.into()
}

fn put(entity: Entity) -> Arc<ChangeSet> {
    Arc::new(ChangeSet::of([Change::Put(entity)]))
}

fn delete(kind: Kind, id: &str) -> Arc<ChangeSet> {
    Arc::new(ChangeSet::of([Change::Delete(kind, Id::new(id))]))
}

fn rows(store: &dyn Store) -> Vec<Entity> {
    let mut rows = Vec::new();
    store.load(&mut |entity| rows.push(entity)).unwrap();
    rows
}

async fn commit(store: &dyn Store, sets: Vec<Arc<ChangeSet>>) -> Revision {
    let base = store.head().unwrap().revision;
    store.commit(base, sets).await.unwrap()
}
