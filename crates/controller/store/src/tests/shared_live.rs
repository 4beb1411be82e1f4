//! Sessions that several controllers share: who hears of what, ends that count over changes, and logs that are cut off or
//! shortened.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use weft_model::entity::{ApiSession, ServiceSession};
use weft_model::{Base, Change, Entity, Id, Kind, Timestamp};

use crate::{
    AppendFault, LiveChange, LiveListener, LivePut, LiveStore, LogConnection, MemoryLog, Options,
    Replica, Sharing, Space, Store,
};

/// What a controller has heard, in its order; a loading of all entities is none.
type Heard = Arc<Mutex<Vec<Option<Change>>>>;

struct Controller {
    store: Replica,
    live: LogConnection,
    heard: Heard,
}

async fn open(folder: &Path, name: &str, (log, live): (&MemoryLog, &MemoryLog)) -> Controller {
    let (log, live) = (Arc::new(log.connect()), live.connect());
    let path = folder.join(name);
    let shared = Arc::new(live.clone());
    let store = Replica::open_with_live(&path, Options::default(), log, shared).await.unwrap();
    let heard = Heard::default();
    let told = Arc::clone(&heard);
    store.live().listen(LiveListener {
        heard: Box::new(move |change| match change {
            LiveChange::Changes(changes) => told.lock().extend(changes.iter().cloned().map(Some)),
            LiveChange::StartOver => told.lock().push(None),
        }),
        merge: |_, ours| ours.clone(),
    });
    Controller { store, live, heard }
}

impl Controller {
    fn live(&self) -> &dyn LiveStore {
        self.store.live()
    }

    fn all(&self) -> Vec<Entity> {
        let mut all = Vec::new();
        self.live().load(&mut |entity| all.push(entity)).unwrap();
        all
    }

    fn end(&self, id: &str) {
        self.live().delete(Kind::ServiceSession, &Id::new(id));
    }

    fn take_heard(&self) -> Vec<Option<Change>> {
        std::mem::take(&mut self.heard.lock())
    }

    async fn set_cut(&self, is_cut: bool) {
        self.live.set_cut(is_cut);
        let wanted = if is_cut { Sharing::CutOff } else { Sharing::Together };
        until("the connection", || self.live().sharing() == wanted).await;
    }
}

async fn until(what: &str, is: impl Fn() -> bool) {
    let waited = async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), waited).await;
    waited.unwrap_or_else(|_| panic!("waited in vain for {what}"));
}

fn session(id: &str, token: &str) -> Entity {
    let base = Base::new(Id::new(id), Timestamp(1));
    ServiceSession { base, token: token.into(), ..Default::default() }.into()
}

fn ended(id: &str) -> Change {
    Change::Delete(Kind::ServiceSession, Id::new(id))
}

#[tokio::test]
async fn what_one_controller_does_to_sessions_the_other_hears_and_keeps() {
    let folder = tempfile::tempdir().unwrap();
    let (log, live) = (MemoryLog::new(100), MemoryLog::new(100));
    let one = open(folder.path(), "one", (&log, &live)).await;
    let two = open(folder.path(), "two", (&log, &live)).await;
    let login: Entity = ApiSession {
        base: Base::new(Id::new("login"), Timestamp(1)),
        token_hash: "hash".into(),
        ..Default::default()
    }
    .into();
    one.live().put(login.clone());
    one.live().put(session("a", "1"));
    one.live().put_note(Space(1), "note", Some("own".into()));
    one.live().flush().await.unwrap();
    two.live().catch_up().await.unwrap();
    let puts = [login.clone(), session("a", "1")].map(|entity| Some(Change::Put(entity)));
    assert_eq!(two.take_heard(), puts);
    assert_eq!(two.all(), [login.clone(), session("a", "1")]);
    assert_eq!(two.live().note(Space(1), "note").unwrap(), None, "notes are a controller's own");
    two.end("a");
    two.live().flush().await.unwrap();
    one.live().catch_up().await.unwrap();
    assert_eq!(one.take_heard(), [Some(ended("a"))]);
    assert_eq!(two.take_heard(), [], "nobody hears of what it did itself");
    assert_eq!(one.all(), std::slice::from_ref(&login));
    // One that comes later has everything, and so has one that is started again.
    let three = open(folder.path(), "three", (&log, &live)).await;
    assert_eq!(three.all(), std::slice::from_ref(&login));
    one.store.close().await.unwrap();
    drop(one);
    let one = open(folder.path(), "one", (&log, &live)).await;
    assert_eq!(one.all(), [login]);
    assert_eq!(one.live().note(Space(1), "note").unwrap(), Some("own".into()));
}

#[tokio::test]
async fn an_end_counts_over_every_change_that_waits() {
    let folder = tempfile::tempdir().unwrap();
    let (log, live) = (MemoryLog::new(100), MemoryLog::new(100));
    let one = open(folder.path(), "one", (&log, &live)).await;
    let two = open(folder.path(), "two", (&log, &live)).await;
    for id in ["a", "b"] {
        one.live().put(session(id, "1"));
    }
    one.live().flush().await.unwrap();
    two.live().catch_up().await.unwrap();
    two.take_heard();
    two.set_cut(true).await;
    two.live().put_as(session("a", "2"), LivePut::Change);
    two.live().put_as(session("b", "2"), LivePut::Change);
    two.live().put(session("c", "2"));
    assert_eq!(two.all(), ["a", "b", "c"].map(|id| session(id, "2")));
    one.end("a");
    one.live().put(session("b", "3"));
    one.live().flush().await.unwrap();
    two.set_cut(false).await;
    two.live().flush().await.unwrap();
    two.live().catch_up().await.unwrap();
    // The change of the one that was cut off comes later, and is the last one.
    let theirs = Some(Change::Put(session("b", "3")));
    assert_eq!(two.take_heard(), [Some(ended("a")), theirs]);
    let latest = |id: &str| two.live().latest(Kind::ServiceSession, &Id::new(id)).unwrap();
    assert_eq!((latest("a"), latest("b")), (None, Some(session("b", "2"))));
    one.live().catch_up().await.unwrap();
    assert_eq!(one.all(), [session("b", "2"), session("c", "2")]);
    assert_eq!(two.all(), one.all());
}

#[tokio::test]
async fn an_end_that_nobody_could_be_told_of_outlives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (log, live) = (MemoryLog::new(100), MemoryLog::new(100));
    let one = open(folder.path(), "one", (&log, &live)).await;
    one.live().put(session("a", "1"));
    one.live().put(session("b", "1"));
    one.live().flush().await.unwrap();
    one.set_cut(true).await;
    one.end("a");
    one.live().put(session("lost", "1"));
    one.live().flush().await.unwrap();
    one.store.close().await.unwrap();
    drop(one);
    let one = open(folder.path(), "one", (&log, &live)).await;
    assert_eq!(one.all(), [session("b", "1")]);
    one.live().flush().await.unwrap();
    let two = open(folder.path(), "two", (&log, &live)).await;
    assert_eq!(two.all(), [session("b", "1")]);
    let is_forgotten = || one.live().notes(Space(32)).unwrap().is_empty();
    until("the note about the end to go", is_forgotten).await;
}

#[tokio::test]
async fn a_controller_that_was_away_for_long_loads_everything_and_brings_nothing_back() {
    let folder = tempfile::tempdir().unwrap();
    let (log, live) = (MemoryLog::new(100), MemoryLog::new(5));
    let one = open(folder.path(), "one", (&log, &live)).await;
    let two = open(folder.path(), "two", (&log, &live)).await;
    one.live().put(session("ended", "1"));
    one.live().put(session("stays", "1"));
    one.live().flush().await.unwrap();
    two.live().catch_up().await.unwrap();
    two.take_heard();
    two.set_cut(true).await;
    two.live().put_as(session("ended", "2"), LivePut::Change);
    two.live().put(session("new", "2"));
    two.live().put_as(session("stays", "2"), LivePut::Change);
    one.end("ended");
    for number in 0..20 {
        one.live().put(session("busy", &format!("{number}")));
        one.live().flush().await.unwrap();
    }
    two.set_cut(false).await;
    until("everything to be loaded", || two.heard.lock().contains(&None)).await;
    two.live().flush().await.unwrap();
    one.live().catch_up().await.unwrap();
    let all = [session("busy", "19"), session("new", "2"), session("stays", "2")];
    assert_eq!(two.all(), all);
    assert_eq!(one.all(), all);
}

#[tokio::test]
async fn answers_that_are_lost_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (log, live) = (MemoryLog::new(100), MemoryLog::new(100));
    let one = open(folder.path(), "one", (&log, &live)).await;
    let two = open(folder.path(), "two", (&log, &live)).await;
    let faults = [AppendFault::LosesAnswer, AppendFault::LosesRequest, AppendFault::Refuses];
    for round in 0..9 {
        live.push(faults[round % faults.len()]);
        let id = format!("s{round}");
        one.live().put(session(&id, "1"));
        one.live().flush().await.unwrap();
        one.live().put(session(&id, "2"));
        until("the session", || two.all().contains(&session(&id, "2"))).await;
        two.end(&id);
        two.live().flush().await.unwrap();
        until("its end", || one.all().is_empty()).await;
    }
}
