//! A network on its way from a file into a shared log, and back.

use std::path::Path;
use std::sync::Arc;

use futures::StreamExt as _;
use weft_model::entity::{Service, ServiceSession};
use weft_model::{Base, Change, ChangeSet, Entity, Id, Revision, Timestamp};

use crate::{
    AppendFault, Checkpoint, Embedded, LogDigest, MemoryLog, MoveError, Options, Presence, Replica,
    SharedLog, Sharing, Store,
};

pub(super) fn service(id: &str) -> Entity {
    let base = Base::new(Id::new(id), Timestamp(1));
    Entity::from(Service { base, name: id.into(), ..Service::default() })
}

pub(super) fn session(id: &str) -> Entity {
    let base = Base::new(Id::new(id), Timestamp(1));
    Entity::from(ServiceSession {
        base,
        token: format!("token of {id}").into(),
        ..ServiceSession::default()
    })
}

/// A file with services and sessions.
pub(super) async fn file(path: &Path, services: usize, sessions: usize) -> Vec<Entity> {
    let store = Embedded::open(path, Options::default()).unwrap();
    for number in 0..services {
        let base = store.head().unwrap().revision;
        let set = ChangeSet::of([Change::Put(service(&format!("{number:04}")))]);
        store.commit(base, vec![Arc::new(set)]).await.unwrap();
    }
    let sessions: Vec<Entity> =
        (0..sessions).map(|number| session(&format!("s{number:04}"))).collect();
    sessions.iter().for_each(|session| store.live().put(session.clone()));
    store.close().await.unwrap();
    sessions
}

pub(super) fn rows(store: &dyn Store) -> Vec<Entity> {
    let mut rows = Vec::new();
    store.load(&mut |row| rows.push(row)).unwrap();
    rows
}

pub(super) fn sessions(store: &dyn Store) -> Vec<Entity> {
    let mut found = Vec::new();
    store.live().load(&mut |session| found.push(session)).unwrap();
    found
}

pub(super) struct Logs {
    pub(super) model: MemoryLog,
    pub(super) live: MemoryLog,
}

impl Logs {
    pub(super) fn new() -> Self {
        Self { model: MemoryLog::new(1000), live: MemoryLog::new(1000) }
    }

    /// A controller that says again and again that it is alive, until it is aborted.
    pub(super) fn speak(&self, name: &str) -> tokio::task::JoinHandle<()> {
        let (log, mut own) = (self.model.connect(), Presence::of_new_run(name, "v1"));
        tokio::spawn(async move {
            loop {
                own.said_at.0 += 1;
                log.announce(own.clone()).await.unwrap();
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            }
        })
    }

    pub(super) async fn publish(&self, path: &Path) -> Result<crate::Head, MoveError> {
        let (model, live) = (self.model.connect(), self.live.connect());
        Replica::publish(path, Options::default(), (&model, &live)).await
    }

    pub(super) async fn open(&self, path: &Path) -> Replica {
        let (model, live) = (self.model.connect(), self.live.connect());
        let opened =
            Replica::open_with_live(path, Options::default(), Arc::new(model), Arc::new(live));
        opened.await.unwrap()
    }

    async fn take_back(&self, path: &Path) -> Result<crate::Head, MoveError> {
        let (model, live) = (self.model.connect(), self.live.connect());
        self.open(path).await.take_back((&model, &live)).await
    }
}

#[tokio::test]
async fn a_network_goes_into_the_logs_and_back_with_its_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let logs = Logs::new();
    let wanted = file(&one, 20, 1234).await;
    let head = logs.publish(&one).await.unwrap();
    assert_eq!(head.revision, Revision(20));
    let first = logs.open(&one).await;
    let second = logs.open(&two).await;
    for store in [&first, &second] {
        assert_eq!(store.head().unwrap().timeline, head.timeline, "routers need not load it anew");
        assert_eq!((rows(store).len(), sessions(store)), (20, wanted.clone()));
    }
    let set = Arc::new(ChangeSet::of([Change::Put(service("late"))]));
    assert_eq!(second.commit(head.revision, vec![set]).await, Ok(Revision(21)));
    second.live().delete(wanted[0].kind(), wanted[0].id());
    second.live().flush().await.unwrap();
    second.close().await.unwrap();
    first.close().await.unwrap();

    // The copy that does not have everything yet takes it back, too.
    let back = logs.take_back(&one).await.unwrap();
    assert_eq!((back.revision, &back.timeline), (Revision(21), &head.timeline));
    assert!(logs.model.connect().head().await.unwrap().is_none());
    assert!(!folder.path().join("one.sessions").exists());
    let alone = Embedded::open(&one, Options::default()).unwrap();
    assert_eq!((rows(&alone).len(), sessions(&alone)), (21, wanted[1..].to_vec()));
    let set = Arc::new(ChangeSet::of([Change::Put(service("alone"))]));
    assert_eq!(alone.commit(Revision(21), vec![set]).await, Ok(Revision(22)));
    alone.close().await.unwrap();

    // And once more; what is left of a former copy is loaded anew.
    logs.publish(&one).await.unwrap();
    let (first, second) = (logs.open(&one).await, logs.open(&two).await);
    second.confirm(Revision(22)).await.unwrap();
    for store in [&first, &second] {
        assert_eq!((rows(store).len(), sessions(store)), (22, wanted[1..].to_vec()));
        assert_eq!(store.live().sharing(), Sharing::Together);
    }
    // Back and there without a change between: the other copy is still one of the log.
    second.close().await.unwrap();
    first.close().await.unwrap();
    logs.take_back(&one).await.unwrap();
    let options = Options::default();
    assert!(Replica::is_taken_back(&one, options.clone()).await.unwrap());
    assert!(!Replica::is_taken_back(&two, options.clone()).await.unwrap());
    logs.publish(&one).await.unwrap();
    assert!(!Replica::is_taken_back(&one, options).await.unwrap());
    let (first, second) = (logs.open(&one).await, logs.open(&two).await);
    commit(&first, "after").await;
    second.confirm(Revision(23)).await.unwrap();
    first.live().put(session("new"));
    first.live().flush().await.unwrap();
    second.live().catch_up().await.unwrap();
    assert_eq!(sessions(&second).len(), wanted.len());
    assert_eq!(second.standing().obstacle, None);
}

pub(super) async fn commit(store: &Replica, id: &str) {
    let base = store.head().unwrap().revision;
    let set = ChangeSet::of([Change::Put(service(id))]);
    store.commit(base, vec![Arc::new(set)]).await.unwrap();
}

#[tokio::test]
async fn a_network_without_sessions_moves_too() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let logs = Logs::new();
    file(&one, 1, 0).await;
    logs.publish(&one).await.unwrap();
    let (first, second) = (logs.open(&one).await, logs.open(&two).await);
    for store in [&first, &second] {
        assert_eq!(store.standing().obstacle, None);
        assert_eq!(store.live().sharing(), Sharing::Together);
    }
    first.live().put(session("s"));
    first.live().flush().await.unwrap();
    second.live().catch_up().await.unwrap();
    assert_eq!(sessions(&second).len(), 1);
}

/// The network was taken into the file of one controller, which has changed it; then another one brings its copy.
#[tokio::test]
async fn two_histories_of_one_network_are_not_joined() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let logs = Logs::new();
    file(&one, 3, 0).await;
    logs.publish(&one).await.unwrap();
    logs.open(&two).await.close().await.unwrap();
    logs.take_back(&one).await.unwrap();
    file(&one, 1, 2).await;
    logs.publish(&two).await.unwrap();
    let second = logs.open(&two).await;
    for id in ["a", "b", "c"] {
        commit(&second, id).await;
    }
    let refused = logs.publish(&one).await;
    assert!(matches!(refused, Err(MoveError::Another(..))), "{refused:?}");
    let alone = Embedded::open(&one, Options::default()).unwrap();
    assert_eq!((alone.head().unwrap().revision, sessions(&alone).len()), (Revision(4), 2));
}

#[tokio::test]
async fn what_is_in_the_way_is_named_and_nothing_changes() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two, empty] = ["one", "two", "empty"].map(|name| folder.path().join(name));
    let logs = Logs::new();
    let wanted = file(&one, 3, 2).await;
    file(&two, 3, 1).await;
    file(&empty, 0, 1).await;
    assert!(matches!(logs.publish(&empty).await, Err(MoveError::Empty)));
    logs.publish(&one).await.unwrap();
    assert!(matches!(logs.publish(&two).await, Err(MoveError::Another(..))));
    let alone = Embedded::open(&two, Options::default()).unwrap();
    assert_eq!((rows(&alone).len(), sessions(&alone).len()), (3, 1));
    // Another controller is alive.
    let north = logs.speak("north");
    let refused = logs.take_back(&one).await.unwrap_err();
    north.abort();
    assert!(matches!(&refused, MoveError::Alive(names) if names == &["north"]), "{refused}");
    let store = logs.open(&one).await;
    assert_eq!((rows(&store).len(), sessions(&store)), (3, wanted));
}

#[tokio::test]
async fn a_move_that_was_interrupted_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let one = folder.path().join("one");
    let logs = Logs::new();
    let wanted = file(&one, 5, 700).await;
    // The log of the sessions was begun, with a copy, and that of the model was not.
    let other = Embedded::open(&folder.path().join("other"), Options::default()).unwrap();
    let (head, digest) = (other.head().unwrap(), LogDigest::default());
    let chunks = futures::stream::empty().boxed();
    logs.live.connect().begin(Checkpoint { head, digest, chunks }).await.unwrap();
    std::fs::write(folder.path().join("one.sessions"), "not whole").unwrap();
    let alone = Embedded::open(&one, Options::default()).unwrap();
    assert_eq!(
        (rows(&alone).len(), sessions(&alone)),
        (5, wanted.clone()),
        "the file has everything"
    );
    // It goes on alone, and is moved later.
    alone.live().delete(wanted[0].kind(), wanted[0].id());
    alone.close().await.unwrap();
    logs.publish(&one).await.unwrap();
    // Made again, it changes nothing.
    logs.publish(&one).await.unwrap();
    let store = logs.open(&one).await;
    assert_eq!((rows(&store).len(), sessions(&store)), (5, wanted[1..].to_vec()));
    // What waits in the outbox is not lost on the way back.
    let before = logs.live.entries().len();
    logs.live.push(AppendFault::Refuses);
    store.live().put(session("waits"));
    let sent = async {
        while logs.live.entries().len() == before {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), sent).await.unwrap();
    store.close().await.unwrap();
    logs.take_back(&one).await.unwrap();
    let alone = Embedded::open(&one, Options::default()).unwrap();
    assert_eq!(rows(&alone).len(), 5);
    assert_eq!(sessions(&alone).len(), wanted.len(), "one has ended, and one has begun");
}
