//! Controllers that share a log in a real etcd.

mod failures;
mod history;
mod intruder;
mod members;
mod restored;
mod rolled_keys;
mod rules;
mod secured;
mod server;
mod sharing;
mod turns;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weft_model::entity::Service;
use weft_model::{Base, Change, ChangeSet, Entity, Id, Revision, Timestamp};
use weft_store::{CommitError, Options, Replica, ReplicaState, Store};
use weft_test_etcd::Server;

use self::server::Reach as _;
use crate::{EtcdLog, EtcdOptions};

/// The longest wait of these tests.
const PATIENCE: Duration = Duration::from_secs(40);

fn service(id: &str, name: &str) -> Entity {
    let base = Base::new(Id::new(id), Timestamp(1));
    Service { base, name: name.into(), ..Service::default() }.into()
}

fn put(id: &str, name: &str) -> Arc<ChangeSet> {
    Arc::new(ChangeSet::of([Change::Put(service(id, name))]))
}

fn rows(store: &Replica) -> Vec<Entity> {
    let mut rows = Vec::new();
    store.load(&mut |entity| rows.push(entity)).unwrap();
    rows
}

/// A controller's store.
async fn open(folder: &Path, name: &str, log: EtcdLog) -> Replica {
    let options = Options { log_limit: 1_000, ..Options::default() };
    Replica::open(&folder.join(name), options, Arc::new(log)).await.unwrap()
}

/// Commits on whatever the head is, until it succeeds.
async fn commit(store: &Replica, set: Arc<ChangeSet>) -> Revision {
    let work = async {
        loop {
            let base = store.head().unwrap().revision;
            match store.commit(base, vec![set.clone()]).await {
                Ok(revision) => return revision,
                Err(CommitError::Unknown { batch, .. }) => loop {
                    match store.settle(batch).await {
                        Ok(Some(revision)) => return revision,
                        Ok(None) => break,
                        Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                    }
                },
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, work).await.expect("a commit in time")
}

/// Waits until a copy has a revision.
async fn reached(store: &Replica, revision: Revision) {
    let mut heads = store.heads();
    let waited = heads.wait_for(|head| *head >= revision);
    tokio::time::timeout(PATIENCE, waited).await.expect("the revision in time").unwrap();
}

/// Waits for a state of a copy.
async fn state(store: &Replica, is: impl Fn(&ReplicaState) -> bool) {
    let mut states = store.states();
    let waited = states.wait_for(is);
    tokio::time::timeout(PATIENCE, waited).await.expect("the state in time").unwrap();
}
