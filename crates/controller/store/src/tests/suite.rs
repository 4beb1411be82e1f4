//! Rules of every engine, one function each. Whoever includes this file says over which engines they run, and where the
//! names of the store come from: the tests of this crate, and those of the crate `etcd`.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use proptest::prelude::*;
use weft_model::entity::{ApiSession, ServiceSession};
use weft_model::{Change, ChangeSet, ColdField, Entity, Id, Kind, Revision, Snapshot, Timestamp};

use super::api::{
    BatchId, CommitError, Embedded, Faulty, FollowError, InjectedFault, Memory, Options, Space,
    Store, restore,
};
use super::{LOG_LIMIT, commit, delete, identity, over_all, put, rows, service};

#[test]
fn a_new_store_is_empty_at_revision_zero() {
    over_all(async |store| {
        let head = store.head().unwrap();
        assert_eq!(head.revision, Revision(0));
        assert!(!head.timeline.0.is_empty());
        assert!(rows(&*store).is_empty());
    });
}

#[test]
fn each_change_set_of_a_batch_is_one_revision() {
    over_all(async |store| {
        let batch = vec![put(service("b", "two")), put(service("a", "one"))];
        assert_eq!(store.commit(Revision(0), batch).await, Ok(Revision(2)));
        assert_eq!(store.head().unwrap().revision, Revision(2));
        assert_eq!(rows(&*store), [service("a", "one"), service("b", "two")]);
        commit(&*store, vec![put(service("a", "three")), delete(Kind::Service, "b")]).await;
        assert_eq!(rows(&*store), [service("a", "three")]);
    });
}

#[test]
fn a_commit_on_another_revision_is_stale_and_changes_nothing() {
    over_all(async |store| {
        commit(&*store, vec![put(service("a", "one"))]).await;
        let stale = store.commit(Revision(0), vec![put(service("b", "two"))]).await;
        assert_eq!(stale, Err(CommitError::Stale { head: Revision(1) }));
        assert_eq!(rows(&*store).len(), 1);
    });
}

#[test]
fn two_writers_on_one_head_never_lose_an_update() {
    over_all(async |store| {
        let write = |writer: u32| {
            let store = store.clone();
            async move {
                for n in 0..20 {
                    let id = format!("{writer}-{n}");
                    loop {
                        let base = store.head().unwrap().revision;
                        match store.commit(base, vec![put(service(&id, &id))]).await {
                            Ok(_) => break,
                            Err(CommitError::Stale { .. }) => continue,
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            }
        };
        futures::join!(write(1), write(2));
        assert_eq!(rows(&*store).len(), 40);
        assert_eq!(store.head().unwrap().revision, Revision(40));
    });
}

#[test]
fn followers_get_history_then_news() {
    over_all(async |store| {
        commit(&*store, vec![put(service("a", "a")), put(service("b", "b"))]).await;
        let mut all = store.follow(Revision(0));
        let mut from_one = store.follow(Revision(1));
        for revision in [1, 2] {
            assert_eq!(all.next().await.unwrap().unwrap().revision, Revision(revision));
        }
        let second = from_one.next().await.unwrap().unwrap();
        assert_eq!(second.change_set.changes, [Change::Put(service("b", "b"))]);
        let (news, _) = futures::join!(all.next(), async {
            tokio::task::yield_now().await;
            commit(&*store, vec![delete(Kind::Service, "a")]).await
        });
        let news = news.unwrap().unwrap();
        assert_eq!(news.revision, Revision(3));
        assert_eq!(news.change_set.changes, [Change::Delete(Kind::Service, Id::new("a"))]);
    });
}

#[test]
fn the_log_is_bounded_and_says_so() {
    over_all(async |store| {
        for n in 0..25 {
            commit(&*store, vec![put(service("a", &format!("name {n}")))]).await;
        }
        let mut old = store.follow(Revision(4));
        let oldest = Revision(25 - LOG_LIMIT as u64 + 1);
        assert_eq!(old.next().await.unwrap().unwrap_err(), FollowError::TooOld { oldest });
        assert!(old.next().await.is_none());
        let first = store.follow(Revision(5)).next().await.unwrap().unwrap();
        assert_eq!(first.revision, oldest);
        let ahead = store.follow(Revision(26)).next().await.unwrap().unwrap_err();
        assert_eq!(ahead, FollowError::Ahead { head: Revision(25) });
    });
}

#[test]
fn cold_fields_come_and_go_with_their_entity() {
    over_all(async |store| {
        let cold = |id: &str, value: Option<&'static str>| Change::Cold {
            kind: Kind::Service,
            id: Id::new(id),
            field: ColdField::AppData,
            value: value.map(Bytes::from),
        };
        let read = async |id: &str| {
            let value = store.blob(Kind::Service, &Id::new(id), ColdField::AppData).await.unwrap();
            value.map(|value| String::from_utf8(value.to_vec()).unwrap())
        };
        let sets = ["a", "aa"]
            .map(|id| ChangeSet::of([Change::Put(service(id, id)), cold(id, Some("much"))]).into());
        commit(&*store, sets.to_vec()).await;
        assert_eq!(read("a").await.as_deref(), Some("much"));
        commit(&*store, vec![delete(Kind::Service, "a")]).await;
        assert_eq!(read("a").await, None);
        assert_eq!(read("aa").await.as_deref(), Some("much"));
        commit(&*store, vec![ChangeSet::of([cold("aa", None)]).into()]).await;
        assert_eq!(read("aa").await, None);
    });
}

#[test]
fn live_state_is_read_as_it_was_put() {
    over_all(async |store| {
        let live = store.live();
        let session = |id: &str, at| -> Entity {
            let base = weft_model::Base::new(Id::new(id), Timestamp(at));
            ApiSession { base, token_hash: id.into(), ..ApiSession::default() }.into()
        };
        let all = || {
            let mut found = Vec::new();
            live.load(&mut |entity| found.push(entity)).unwrap();
            found
        };
        live.put(session("b", 1));
        live.put(session("a", 1));
        live.put(session("b", 2));
        assert_eq!(all(), [session("a", 1), session("b", 2)]);
        live.flush().await.unwrap();
        live.delete(Kind::ApiSession, &Id::new("a"));
        live.put(
            ServiceSession {
                base: weft_model::Base::new(Id::new("s"), Timestamp(1)),
                ..ServiceSession::default()
            }
            .into(),
        );
        assert_eq!(all().len(), 2);
        live.flush().await.unwrap();
        assert_eq!(all().len(), 2);
        assert_eq!(store.head().unwrap().revision, Revision(0));
    });
}

#[test]
fn notes_are_kept_by_space() {
    over_all(async |store| {
        let (one, two, last) = (Space(1), Space(2), Space(u16::MAX));
        let live = store.live();
        live.put_note(one, "b", Some(Bytes::from("1b")));
        live.put_note(two, "a", Some(Bytes::from("2a")));
        live.put_note(one, "a", Some(Bytes::from("1a")));
        live.flush().await.unwrap();
        live.put_note(two, "a", None);
        live.put_note(last, "z", Some(Bytes::from("z")));
        assert_eq!(live.notes(last).unwrap(), [("z".into(), Bytes::from("z"))]);
        let notes = live.notes(one).unwrap();
        assert_eq!(notes, [("a".into(), Bytes::from("1a")), ("b".into(), Bytes::from("1b"))]);
        assert!(live.notes(two).unwrap().is_empty());
        let more = [("a", None), ("c", Some(Bytes::from("1c")))];
        live.put_notes(one, more.map(|(key, value)| (key.to_owned(), value)).into());
        live.flush().await.unwrap();
        let notes = live.notes(one).unwrap();
        assert_eq!(notes, [("b".into(), Bytes::from("1b")), ("c".into(), Bytes::from("1c"))]);
    });
}

#[test]
fn a_batch_that_never_was_is_settled_as_such() {
    over_all(async |store| {
        commit(&*store, vec![put(service("a", "a"))]).await;
        assert_eq!(store.settle(BatchId(7)).await, Ok(None));
        let batch = store.head().unwrap().batch;
        assert_eq!(store.settle(batch).await, Ok(Some(Revision(1))));
    });
}

#[test]
fn a_backup_becomes_a_store_on_another_timeline() {
    over_all(async |store| {
        let folder = tempfile::tempdir().unwrap();
        let (backup, restored) = (folder.path().join("backup"), folder.path().join("restored"));
        commit(&*store, vec![put(service("a", "a")), put(identity("i", "i"))]).await;
        store.live().put_note(Space(1), "k", Some(Bytes::from("v")));
        store.live().put(
            weft_model::entity::ApiSession {
                base: weft_model::Base::new(weft_model::Id::new("ended"), weft_model::Timestamp(1)),
                ..Default::default()
            }
            .into(),
        );
        assert_eq!(store.backup(&backup).await.unwrap(), Revision(2));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(&backup).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert!(store.backup(&backup).await.unwrap_err().to_string().contains("move it away"));
        commit(&*store, vec![delete(Kind::Service, "a")]).await;

        let head = restore(&backup, &restored).unwrap();
        assert_eq!(head.revision, Revision(2));
        assert_ne!(head.timeline, store.head().unwrap().timeline);
        let again = Embedded::open(&restored, Options::default()).unwrap();
        assert_eq!(rows(&again), [identity("i", "i"), service("a", "a")]);
        assert_eq!(again.live().notes(Space(1)).unwrap().len(), 1);
        again.live().load(&mut |entity| panic!("{entity:?} has come back")).unwrap();
        assert_eq!(commit(&again, vec![put(service("b", "b"))]).await, Revision(3));
        let mut followed = again.follow(Revision(2));
        assert_eq!(followed.next().await.unwrap().unwrap().revision, Revision(3));
    });
}

#[test]
fn a_batch_is_found_by_the_name_that_its_writer_chose() {
    over_all(async |store| {
        let batch = BatchId::random();
        let written = store.commit_as(batch, Revision(0), vec![put(service("a", "a"))]).await;
        assert_eq!(written, Ok(Revision(1)));
        assert_eq!(store.settle(batch).await, Ok(Some(Revision(1))));
        // A batch that was reported as not having happened never happens.
        let late = BatchId::random();
        assert_eq!(store.settle(late).await, Ok(None));
        let refused = store.commit_as(late, Revision(1), vec![put(service("b", "b"))]).await;
        assert!(matches!(refused, Err(CommitError::Unavailable(_))), "{refused:?}");
        assert_eq!(store.head().unwrap().revision, Revision(1));
        commit(&*store, vec![put(service("c", "c"))]).await;
        assert_eq!(rows(&*store), [service("a", "a"), service("c", "c")]);
    });
}

#[tokio::test]
async fn faults_happen_once_and_are_settled_truly() {
    let store = Faulty::new(Memory::new());
    store.push(InjectedFault::Fails(CommitError::Full));
    store.push(InjectedFault::LosesAnswer);
    store.push(InjectedFault::LosesCommit);
    store.push(InjectedFault::Hangs);
    let mut base = Revision(0);
    let full = store.commit(base, vec![put(service("a", "a"))]).await;
    assert_eq!(full, Err(CommitError::Full));
    for expected in [Some(Revision(1)), None] {
        let Err(CommitError::Unknown { batch, .. }) =
            store.commit(base, vec![put(service("a", "a"))]).await
        else {
            panic!("the answer should be lost");
        };
        let outcome = store.settle(batch).await.unwrap();
        assert_eq!(outcome, expected);
        base = outcome.unwrap_or(base);
    }
    let hangs = store.commit(base, vec![]);
    assert!(tokio::time::timeout(Duration::from_millis(20), hangs).await.is_err());
    assert_eq!(store.commit(base, vec![put(service("b", "b"))]).await, Ok(Revision(2)));
}

#[derive(Debug, Clone)]
enum Step {
    Put(u8, u8),
    Delete(u8),
}

fn steps() -> impl Strategy<Value = Vec<Vec<Step>>> {
    let step = prop_oneof![
        3 => (0u8..12, any::<u8>()).prop_map(|(id, name)| Step::Put(id, name)),
        1 => (0u8..12).prop_map(Step::Delete),
    ];
    prop::collection::vec(prop::collection::vec(step, 1..5), 1..12)
}

fn step_change(step: &Step) -> Change {
    match step {
        Step::Put(id, name) => Change::Put(service(&id.to_string(), &format!("{id} {name}"))),
        Step::Delete(id) => Change::Delete(Kind::Service, Id::new(&id.to_string())),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Rows loaded after any commits equal those of a plain map, and a snapshot built from them
    /// equals the one that followed the log.
    #[test]
    fn load_after_commits_equals_a_map(batches in steps()) {
        over_all(async |store| {
            let mut naive = BTreeMap::new();
            for batch in &batches {
                let sets = batch.iter().map(|step| ChangeSet::of([step_change(step)]).into());
                commit(&*store, sets.collect()).await;
                for step in batch {
                    match step_change(step) {
                        Change::Put(entity) => naive.insert(entity.id().clone(), entity),
                        change => naive.remove(change.id()),
                    };
                }
                assert_eq!(rows(&*store), naive.values().cloned().collect::<Vec<_>>());
            }
            let head = store.head().unwrap();
            let mut loader = Snapshot::loader(head.timeline, head.revision);
            store.load(&mut |entity| loader.put(entity).unwrap()).unwrap();
            assert_eq!(loader.finish().unwrap().table(Kind::Service).len(), naive.len());
        });
    }
}
