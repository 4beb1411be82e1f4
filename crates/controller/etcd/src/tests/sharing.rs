//! Controllers that write to one log.

use bytes::Bytes;
use weft_model::entity::ServiceSession;
use weft_model::{ColdField, Kind};
use weft_store::{Alive, Presence, SharedLog};
use weft_wire::etcd::{CompactionRequest, CompactionResponse};

use super::*;

#[tokio::test]
async fn what_one_controller_writes_is_in_the_copies_of_the_others() {
    let Some(server) = Server::start(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let one = open(folder.path(), "one", server.log()).await;
    let two = open(folder.path(), "two", server.log()).await;
    assert_eq!(one.head().unwrap().timeline, two.head().unwrap().timeline);
    let revision = commit(&one, put("a", "one")).await;
    reached(&two, revision).await;
    assert_eq!(rows(&two), [service("a", "one")]);
    let base = two.head().unwrap().revision;
    let sets = vec![put("b", "two"), put("c", "three")];
    assert_eq!(two.commit(base, sets).await, Ok(Revision(3)));
    let three = open(folder.path(), "three", server.log()).await;
    reached(&three, Revision(3)).await;
    reached(&one, Revision(3)).await;
    assert_eq!(rows(&three), [service("a", "one"), service("b", "two"), service("c", "three")]);
    assert_eq!(three.head().unwrap(), two.head().unwrap());
    assert_eq!(one.confirm(Revision(3)).await, Ok(()));
    assert_eq!(one.confirm(Revision(2)).await, Err(CommitError::Stale { head: Revision(3) }));
}

#[tokio::test]
async fn controllers_that_write_at_once_lose_no_change() {
    let Some(server) = Server::start(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut stores = Vec::new();
    for name in ["one", "two", "three"] {
        stores.push(open(folder.path(), name, server.log()).await);
    }
    let write = async |at: usize| {
        for n in 0..30 {
            let id = format!("{at}-{n}");
            commit(&stores[at], put(&id, &id)).await;
        }
    };
    futures::join!(write(0), write(1), write(2));
    for store in &stores {
        reached(store, Revision(90)).await;
        assert_eq!(rows(store).len(), 90);
        assert_eq!(store.head().unwrap().revision, Revision(90));
    }
}

#[tokio::test]
async fn a_batch_larger_than_a_request_is_whole_for_everybody() {
    let Some(server) = Server::start(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let one = open(folder.path(), "one", server.log()).await;
    let two = open(folder.path(), "two", server.log()).await;
    let large = Bytes::from(vec![7; 5 << 20]);
    let cold = Change::Cold {
        kind: Kind::Service,
        id: Id::new("a"),
        field: ColdField::AppData,
        value: Some(large.clone()),
    };
    let set = ChangeSet::of([Change::Put(service("a", "large")), cold]);
    let many: Vec<_> = (0..300).map(|n| put(&format!("n{n}"), &format!("n{n}"))).collect();
    let sets = std::iter::once(Arc::new(set)).chain(many).collect();
    assert_eq!(one.commit(Revision(0), sets).await, Ok(Revision(301)));
    reached(&two, Revision(301)).await;
    let read = two.cold(Kind::Service, &Id::new("a"), ColdField::AppData).unwrap();
    assert!(read == Some(large));
    assert_eq!(rows(&two), rows(&one));
}

#[tokio::test]
async fn a_checkpoint_shortens_the_log_and_brings_everything() {
    let Some(server) = Server::start(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let log = || EtcdLog::with_checkpoints(server.options(), 20);
    let one = open(folder.path(), "one", log()).await;
    let late = open(folder.path(), "late", log()).await;
    let large = Change::Cold {
        kind: Kind::Service,
        id: Id::new("large"),
        field: ColdField::AppData,
        value: Some(Bytes::from(vec![3; 3 << 20])),
    };
    commit(&one, Arc::new(ChangeSet::of([Change::Put(service("large", "large")), large]))).await;
    reached(&late, Revision(1)).await;
    late.close().await.unwrap();
    drop(late);
    let direct = server.log();
    let mut number = 0;
    // The log forgets what is before the checkpoint before the last one.
    let work = async {
        while direct.entries(Revision(1), 1).await.is_ok() {
            commit(&one, put(&format!("{}", number % 50), &format!("name {number}"))).await;
            number += 1;
        }
    };
    tokio::time::timeout(PATIENCE, work).await.unwrap();
    // A compaction of etcd's history by somebody else takes nothing.
    let status = direct.head().await.unwrap().unwrap();
    let compact = CompactionRequest { revision: status.version.0 as i64, physical: false };
    let _: CompactionResponse = direct.call("KV/Compact", &compact).await.unwrap();
    let head = one.head().unwrap().revision;
    for name in ["late", "new"] {
        let store = open(folder.path(), name, log()).await;
        reached(&store, head).await;
        assert_eq!(rows(&store), rows(&one), "{name}");
        let read = store.cold(Kind::Service, &Id::new("large"), ColdField::AppData).unwrap();
        assert_eq!(read.map(|value| value.len()), Some(3 << 20), "{name}");
        commit(&store, put(name, name)).await;
        let revision = store.head().unwrap().revision;
        reached(&one, revision).await;
    }
}

#[tokio::test]
async fn sessions_are_shared_beside_the_model_and_who_is_alive_is_known() {
    let Some(server) = Server::start(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let open = async |name: &str| {
        let prefix = format!("{}sessions/", server.options().prefix);
        let live = EtcdLog::new(EtcdOptions { prefix, ..server.options() });
        let path = folder.path().join(name);
        let (log, live) = (Arc::new(server.log()), Arc::new(live));
        let store = Replica::open_with_live(&path, Options::default(), log, live).await.unwrap();
        store.announce(Presence::of_new_run(name, "v1"), Arc::new(|| Timestamp(1)));
        store
    };
    let (one, two) = (open("one").await, open("two").await);
    let session = |token: &str| {
        let base = Base::new(Id::new("s"), Timestamp(1));
        Entity::from(ServiceSession { base, token: token.into(), ..ServiceSession::default() })
    };
    for number in 0..20 {
        let session = session(&format!("{number}"));
        one.live().put(session.clone());
        one.live().flush().await.unwrap();
        two.live().catch_up().await.unwrap();
        let mut found = Vec::new();
        two.live().load(&mut |entity| found.push(entity)).unwrap();
        assert_eq!(found, [session]);
    }
    assert_eq!(one.head().unwrap().revision, Revision(0), "the model has not changed");
    commit(&two, put("a", "one")).await;
    let alive = async |asked: &Replica, wanted: &[&str]| {
        let names =
            |alive: &Alive| alive.controllers.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
        let mut alive = asked.alive().unwrap();
        let waited = alive.wait_for(|alive| alive.is_heard && names(alive) == wanted);
        let waited = tokio::time::timeout(PATIENCE, waited).await;
        waited
            .expect("who is alive in time")
            .unwrap()
            .leader(|_| true)
            .map(|leader| leader.name.clone())
    };
    assert_eq!(alive(&one, &["one", "two"]).await.as_deref(), Some("one"));
    // One that closes its store says so, one that dies is missed.
    one.close().await.unwrap();
    assert_eq!(alive(&two, &["two"]).await.as_deref(), Some("two"));
    let one = open("one").await;
    assert_eq!(alive(&one, &["two", "one"]).await.as_deref(), Some("two"));
    drop(two);
    assert_eq!(alive(&one, &["one"]).await.as_deref(), Some("one"));
}
