//! Copies of one shared log: answers that are lost, connections that are cut, and logs that are shortened.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use weft_model::{Change, ChangeSet, ColdField, Id, Kind, Revision};

use super::{commit, put, rows, service};
use crate::{
    AppendFault, BatchId, CommitError, LogConnection, MemoryLog, Options, Replica, ReplicaState,
    Store,
};

async fn open(folder: &Path, name: &str, log: &MemoryLog) -> (Replica, LogConnection) {
    let connection = log.connect();
    let shared = Arc::new(connection.clone());
    let store = Replica::open(&folder.join(name), Options::default(), shared).await.unwrap();
    state(&store, |state| state.obstacle.is_none()).await;
    (store, connection)
}

/// Waits for a state of a copy.
async fn state(store: &Replica, is: impl Fn(&ReplicaState) -> bool) {
    let mut states = store.states();
    let waited = states.wait_for(is);
    tokio::time::timeout(std::time::Duration::from_secs(20), waited).await.unwrap().unwrap();
}

/// Waits until a copy has a revision.
async fn reached(store: &Replica, revision: Revision) {
    let mut heads = store.heads();
    let waited = heads.wait_for(|head| *head >= revision);
    tokio::time::timeout(std::time::Duration::from_secs(20), waited).await.unwrap().unwrap();
}

#[tokio::test]
async fn what_one_controller_writes_is_in_the_copy_of_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let log = MemoryLog::new(100);
    let (one, _) = open(folder.path(), "one", &log).await;
    let (two, _) = open(folder.path(), "two", &log).await;
    assert_eq!(one.head().unwrap().timeline, two.head().unwrap().timeline);
    let revision = commit(&one, vec![put(service("a", "one"))]).await;
    reached(&two, revision).await;
    assert_eq!(rows(&two), [service("a", "one")]);
    // A controller that comes later takes everything.
    commit(&two, vec![put(service("b", "two"))]).await;
    let (three, _) = open(folder.path(), "three", &log).await;
    reached(&three, Revision(2)).await;
    assert_eq!(rows(&three), [service("a", "one"), service("b", "two")]);
    assert_eq!(three.head().unwrap(), two.head().unwrap());
}

#[tokio::test]
async fn of_two_that_change_one_revision_one_wins_and_the_other_sees_it() {
    let folder = tempfile::tempdir().unwrap();
    let log = MemoryLog::new(100);
    let (one, _) = open(folder.path(), "one", &log).await;
    let (two, _) = open(folder.path(), "two", &log).await;
    for round in 0..20 {
        let base = Revision(round);
        reached(&one, base).await;
        reached(&two, base).await;
        let (ours, theirs) = futures::join!(
            one.commit(base, vec![put(service("a", &format!("one {round}")))]),
            two.commit(base, vec![put(service("a", &format!("two {round}")))]),
        );
        let winner = if ours.is_ok() { (&one, &two, theirs) } else { (&two, &one, ours) };
        assert_eq!(winner.2, Err(CommitError::Stale { head: base.next() }));
        // The loser has what won, and can decide again.
        assert_eq!(rows(winner.0), rows(winner.1));
    }
}

#[tokio::test]
async fn a_lost_answer_is_settled_truly() {
    let folder = tempfile::tempdir().unwrap();
    let log = MemoryLog::new(100);
    let (one, _) = open(folder.path(), "one", &log).await;
    for (fault, happened) in [(AppendFault::LosesAnswer, true), (AppendFault::LosesRequest, false)]
    {
        log.push(fault);
        let (batch, base) = (BatchId::random(), one.head().unwrap().revision);
        let lost = one.commit_as(batch, base, vec![put(service("a", &format!("{fault:?}")))]).await;
        assert!(matches!(lost, Err(CommitError::Unknown { .. })), "{lost:?}");
        let outcome = one.settle(batch).await.unwrap();
        assert_eq!(outcome, happened.then_some(base.next()));
        assert_eq!(one.settle(batch).await.unwrap(), outcome);
        let is_there = rows(&one).contains(&service("a", &format!("{fault:?}")));
        assert_eq!(is_there, happened);
    }
    log.push(AppendFault::Refuses);
    let base = one.head().unwrap().revision;
    let refused = one.commit(base, vec![put(service("a", "a"))]).await;
    assert_eq!(refused, Err(CommitError::Unavailable("the log is full".into())));
    commit(&one, vec![put(service("a", "a"))]).await;
}

#[tokio::test]
async fn a_controller_that_is_cut_off_reads_and_does_not_write_and_catches_up() {
    let folder = tempfile::tempdir().unwrap();
    let log = MemoryLog::new(5);
    let (one, connection) = open(folder.path(), "one", &log).await;
    let (two, _) = open(folder.path(), "two", &log).await;
    commit(&one, vec![put(service("a", "a"))]).await;
    connection.set_cut(true);
    state(&one, |state| state.obstacle.is_some()).await;
    let refused = one.commit(Revision(1), vec![put(service("b", "b"))]).await;
    assert!(matches!(refused, Err(CommitError::Unavailable(_))), "{refused:?}");
    assert_eq!(rows(&one), [service("a", "a")]);
    // The copy starts without the shared log.
    one.close().await.unwrap();
    drop(one);
    let path = folder.path().join("one");
    let one = Replica::open(&path, Options::default(), Arc::new(connection.clone())).await.unwrap();
    assert_eq!(rows(&one), [service("a", "a")]);

    // Meanwhile the log goes on, beyond what it keeps.
    reached(&two, Revision(1)).await;
    let cold = Change::Cold {
        kind: Kind::Service,
        id: Id::new("a"),
        field: ColdField::AppData,
        value: Some(Bytes::from_static(b"much")),
    };
    commit(&two, vec![ChangeSet::of([cold]).into()]).await;
    for n in 0..20 {
        commit(&two, vec![put(service("n", &n.to_string()))]).await;
    }
    connection.set_cut(false);
    reached(&one, Revision(22)).await;
    assert_eq!(rows(&one), rows(&two));
    let read = one.cold(Kind::Service, &Id::new("a"), ColdField::AppData).unwrap();
    assert_eq!(read.as_deref(), Some(b"much".as_slice()));
    let revision = commit(&one, vec![put(service("b", "b"))]).await;
    reached(&two, revision).await;
    one.close().await.unwrap();
    drop(one);
    let (one, _) = open(folder.path(), "one", &log).await;
    assert_eq!(rows(&one), rows(&two), "the copy is whole after a restart");
}

#[tokio::test]
async fn a_refusal_counts_once_the_head_was_read() {
    let folder = tempfile::tempdir().unwrap();
    let log = MemoryLog::new(100);
    let (one, connection) = open(folder.path(), "one", &log).await;
    let (two, _) = open(folder.path(), "two", &log).await;
    assert_eq!(one.confirm(Revision(0)).await, Ok(()));
    commit(&two, vec![put(service("a", "a"))]).await;
    assert_eq!(one.confirm(Revision(0)).await, Err(CommitError::Stale { head: Revision(1) }));
    assert_eq!(rows(&one), [service("a", "a")]);
    assert_eq!(one.confirm(Revision(1)).await, Ok(()));
    connection.set_cut(true);
    let refused = one.confirm(Revision(1)).await;
    assert!(matches!(refused, Err(CommitError::Unavailable(_))), "{refused:?}");
}

#[tokio::test]
async fn a_copy_of_another_network_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (one, _) = open(folder.path(), "one", &MemoryLog::new(100)).await;
    commit(&one, vec![put(service("a", "a"))]).await;
    one.close().await.unwrap();
    drop(one);
    let other = MemoryLog::new(100);
    open(folder.path(), "other", &other).await;
    let shared = Arc::new(other.connect());
    let path = folder.path().join("one");
    let one = Replica::open(&path, Options::default(), shared).await.unwrap();
    let mut states = one.states();
    let state = states
        .wait_for(|state| state.obstacle.as_ref().is_some_and(|why| why.contains("timeline")));
    state.await.unwrap();
    let refused = one.commit(Revision(1), vec![put(service("b", "b"))]).await;
    assert!(matches!(refused, Err(CommitError::Unavailable(_))), "{refused:?}");
    assert_eq!(rows(&one), [service("a", "a")], "what it has can be read");
}

#[tokio::test]
async fn a_batch_that_was_sent_when_the_store_was_closed_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let log = MemoryLog::new(100);
    let (one, _) = open(folder.path(), "one", &log).await;
    log.push(AppendFault::Hangs);
    let commit = one.commit(Revision(0), vec![put(service("a", "a"))]);
    let close = async {
        while log.entries().is_empty() {
            tokio::task::yield_now().await;
        }
        one.close().await.unwrap();
    };
    let (answer, ()) = futures::join!(commit, close);
    assert!(matches!(answer, Err(CommitError::Unknown { .. })), "{answer:?}");
    let late = one.commit(Revision(1), vec![put(service("b", "b"))]).await;
    assert!(matches!(late, Err(CommitError::Unavailable(_))), "{late:?}");
}
