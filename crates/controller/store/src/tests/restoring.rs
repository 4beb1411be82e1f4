//! A network in a shared log that goes on from another state.

use std::path::Path;
use std::sync::Arc;

use weft_model::{Change, ChangeSet};

use super::moving::{Logs, commit, file, rows, service, session, sessions};
use crate::replica::checkpoint_of;
use crate::{
    AppendError, Checkpoint, Embedded, LogDigest, LogHead, MemoryLog, MoveError, Options, Replica,
    SharedLog, Space, Store,
};

const OWN: Space = Space(1);

impl Logs {
    async fn restore(&self, from: &Path, own: &Path) -> Result<crate::Head, MoveError> {
        let (model, live) = (self.model.connect(), self.live.connect());
        Replica::restore(from, own, Options::default(), (&model, &live)).await
    }

    async fn fetch(&self, into: &Path) -> Result<crate::Head, MoveError> {
        Replica::fetch(into, Options::default(), Arc::new(self.model.connect())).await
    }
}

fn ids(store: &dyn Store) -> Vec<String> {
    rows(store).iter().map(|row| row.id().to_string()).collect()
}

async fn obstacle(store: &Replica) -> String {
    let mut states = store.states();
    let state = states.wait_for(|state| state.obstacle.is_some());
    let state = tokio::time::timeout(std::time::Duration::from_secs(20), state).await;
    state.unwrap().unwrap().obstacle.clone().unwrap()
}

/// Logs as they were at an earlier moment: those of `at`, and the sessions of then.
async fn put_back(at: &Path) -> Logs {
    let earlier = Logs::new();
    let copy = Embedded::open(at, Options::default()).unwrap();
    let from = checkpoint_of(&copy).await.unwrap();
    earlier.model.connect().begin(from).await.unwrap();
    copy.close().await.unwrap();
    let sessions = Checkpoint {
        head: crate::Head::new(crate::Head::new_timeline()),
        digest: LogDigest::default(),
        chunks: Box::pin(futures::stream::empty()),
    };
    earlier.live.connect().begin(sessions).await.unwrap();
    earlier
}

#[tokio::test]
async fn a_log_that_was_put_back_goes_on_as_it_is_and_all_copies_follow() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two, early, fetched] =
        ["one", "two", "early", "fetched"].map(|name| folder.path().join(name));
    let logs = Logs::new();
    file(&one, 3, 2).await;
    let begun = logs.publish(&one).await.unwrap();
    let (first, second) = (logs.open(&one).await, logs.open(&two).await);
    logs.fetch(&early).await.unwrap();
    first.live().put_note(OWN, "mine", Some("kept".into()));
    commit(&first, "lost").await;
    let end = first.head().unwrap().revision;
    second.confirm(end).await.unwrap();
    first.close().await.unwrap();
    second.close().await.unwrap();

    let logs = put_back(&early).await;
    let first = logs.open(&one).await;
    assert!(obstacle(&first).await.contains("`weft controller restore`"));
    assert!(ids(&first).contains(&"lost".to_owned()), "reads go on");
    first.close().await.unwrap();
    // A controller that has nothing of what was lost has written meanwhile.
    let third = logs.open(&folder.path().join("three")).await;
    commit(&third, "later").await;
    third.close().await.unwrap();

    assert_eq!(logs.fetch(&fetched).await.unwrap().revision, end);
    let head = logs.restore(&fetched, &one).await.unwrap();
    assert_eq!(head.revision, end, "the same revision, with another meaning");
    assert_ne!(head.timeline, begun.timeline, "routers take everything anew");
    let (first, second) = (logs.open(&one).await, logs.open(&two).await);
    for store in [&first, &second] {
        assert_eq!(store.standing().obstacle, None);
        assert_eq!(store.head().unwrap().timeline, head.timeline);
        assert_eq!(ids(store), ["0000", "0001", "0002", "later"]);
        assert_eq!(sessions(store), []);
    }
    assert_eq!(first.live().note(OWN, "mine").unwrap().as_deref(), Some(&b"kept"[..]));
    commit(&second, "after").await;
    first.confirm(end.next()).await.unwrap();
    second.live().put(session("new"));
    second.live().flush().await.unwrap();
    first.live().catch_up().await.unwrap();
    assert_eq!(sessions(&first).len(), 1);
    first.close().await.unwrap();
    second.close().await.unwrap();
    assert!(!folder.path().join("one.restoring").exists());
    // The state before the restore is no later one.
    let former = put_back(&early).await;
    assert!(obstacle(&former.open(&one).await).await.contains("is of timeline"));
}

/// A controller is judged by its copy when it starts.
#[tokio::test]
async fn a_copy_that_is_opened_has_what_others_have_written() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
    let logs = Logs { model: MemoryLog::new(5_000), live: MemoryLog::new(1_000) };
    file(&one, 1, 0).await;
    logs.publish(&one).await.unwrap();
    let first = logs.open(&one).await;
    logs.open(&two).await.close().await.unwrap();
    for number in 0..20 {
        let base = first.head().unwrap().revision;
        let put = |at| Change::Put(service(&format!("{number:04}-{at:04}")));
        let sets = (0..100).map(|at| Arc::new(ChangeSet::of([put(at)]))).collect();
        first.commit(base, sets).await.unwrap();
    }
    let second = logs.open(&two).await;
    assert_eq!(second.head().unwrap().revision, first.head().unwrap().revision);
}

#[tokio::test]
async fn a_backup_takes_the_place_of_what_the_controllers_share() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two, backup] = ["one", "two", "backup"].map(|name| folder.path().join(name));
    let logs = Logs::new();
    file(&one, 2, 1).await;
    logs.publish(&one).await.unwrap();
    let (first, second) = (logs.open(&one).await, logs.open(&two).await);
    first.backup(&backup).await.unwrap();
    commit(&second, "late").await;
    let north = logs.speak("north");
    tokio::task::yield_now().await;
    first.close().await.unwrap();
    second.close().await.unwrap();
    let refused = logs.restore(&backup, &one).await.unwrap_err();
    assert!(matches!(&refused, MoveError::Alive(names) if names == &["north"]), "{refused}");
    // What it has said is there for some seconds.
    north.abort();
    // It is made twice; a copy of any of the former timelines follows.
    let once = logs.restore(&backup, &one).await.unwrap();
    let again = logs.restore(&backup, &two).await.unwrap();
    assert_ne!(once.timeline, again.timeline);
    for path in [&one, &two] {
        let store = logs.open(path).await;
        assert_eq!((ids(&store), sessions(&store)), (vec!["0000".into(), "0001".into()], vec![]));
        store.close().await.unwrap();
    }
    let stranger = folder.path().join("stranger");
    file(&stranger, 1, 0).await;
    let refused = logs.open(&stranger).await;
    assert!(obstacle(&refused).await.contains("is of timeline"));
}

/// What is brought there after the log has lost everything may be less than routers have heard of.
#[tokio::test]
async fn the_copy_of_a_log_that_is_lost_goes_on_on_another_timeline() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let logs = Logs::new();
    file(&one, 2, 3).await;
    let before = logs.publish(&one).await.unwrap();
    for path in [&one, &two] {
        logs.open(path).await.close().await.unwrap();
    }
    let logs = Logs::new();
    let after = logs.publish(&one).await.unwrap();
    assert_eq!(after.revision, before.revision);
    assert_ne!(after.timeline, before.timeline);
    assert_eq!(
        logs.publish(&one).await.unwrap().timeline,
        after.timeline,
        "made again, it is there"
    );
    for path in [&one, &two] {
        let store = logs.open(path).await;
        assert_eq!(store.standing().obstacle, None);
        assert_eq!((ids(&store).len(), sessions(&store)), (2, vec![]));
        store.close().await.unwrap();
    }
    assert_eq!(logs.publish(&one).await.unwrap().timeline, after.timeline);
}

#[tokio::test]
async fn nobody_writes_between_the_look_and_the_new_beginning() {
    let logs = Logs::new();
    let log = logs.model.connect();
    let begin = |head: crate::Head| Checkpoint {
        head,
        digest: LogDigest::default(),
        chunks: Box::pin(futures::stream::empty()),
    };
    let new = || begin(crate::Head::new(crate::Head::new_timeline()));
    let seen: LogHead = log.begin(new()).await.unwrap();
    let moved = log.fence().await.unwrap();
    let refused = log.begin_anew(Some(seen), new(), Vec::new()).await;
    assert_eq!(refused, Err(AppendError::Moved(moved.clone())));
    assert_eq!(log.begin_anew(None, new(), Vec::new()).await, Err(AppendError::Moved(moved)));
}
