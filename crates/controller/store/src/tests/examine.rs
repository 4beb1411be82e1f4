//! Examinations and repairs of everything that is stored.

use std::path::Path;

use bytes::Bytes;
use weft_model::entity::ApiSession;
use weft_model::{Base, Change, ChangeSet, ColdField, Id, Kind, Revision, Timestamp};

use super::{commit, identity, put, rows, service};
use crate::embedded::examine::plant::{Into, log_entry};
use crate::{
    CommitError, Embedded, ExaminationItem, Memory, Mend, Options, Space, Store, StoreLocation,
    StoredFault, codec,
};

fn session(id: &str) -> ApiSession {
    let base = Base::new(Id::new(id), Timestamp(1));
    ApiSession { base, token_hash: format!("token-{id}").as_str().into(), ..ApiSession::default() }
}

async fn filled(path: &Path) -> Embedded {
    let store = Embedded::open(path, Options::default()).unwrap();
    for n in 0..5 {
        commit(&store, vec![put(service(&format!("s{n}"), &format!("name {n}")))]).await;
    }
    let cold = Change::Cold {
        kind: Kind::Identity,
        id: Id::new("i"),
        field: ColdField::CertPem,
        value: Some(Bytes::from("pem")),
    };
    commit(&store, vec![put(identity("i", "i")), ChangeSet::of([cold]).into()]).await;
    store.live().put(session("a").into());
    store.live().put_note(Space(1), "k", Some(Bytes::from("v")));
    store.live().flush().await.unwrap();
    store
}

fn examined(store: &dyn Store) -> (usize, Vec<StoredFault>) {
    let (mut rows, mut faults) = (0, Vec::new());
    let examination = store.examine().unwrap();
    assert_eq!(*examination.head(), store.head().unwrap());
    let seen = &mut |seen| match seen {
        ExaminationItem::Row(_) => rows += 1,
        ExaminationItem::Fault(fault) => faults.push(fault),
    };
    examination.run(seen).unwrap();
    (rows, faults)
}

/// Plants a fault in a file, finds it at that location and mends it. Afterwards everything is in
/// order, also for a process that opens the file anew.
async fn planted(plant: impl FnOnce(&Embedded), location: StoreLocation, mend: Mend) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let store = filled(&path).await;
    assert_eq!(examined(&store), (6, Vec::new()));
    let whole = rows(&store);
    plant(&store);
    let (_, faults) = examined(&store);
    assert!(faults.iter().any(|fault| fault.location == location), "{location:?}: {faults:?}");
    let base = store.head().unwrap().revision;
    let stale = store.mend(Revision(1), vec![mend.clone()]).await;
    assert_eq!(stale, Err(CommitError::Stale { head: base }));
    store.mend(base, vec![mend]).await.unwrap();
    assert_eq!(examined(&store), (6, Vec::new()));
    assert_eq!((rows(&store), store.head().unwrap().revision), (whole.clone(), base));
    drop(store);
    let store = Embedded::open(&path, Options::default()).unwrap();
    assert_eq!((rows(&store), examined(&store)), (whole, (6, Vec::new())));
    commit(&store, vec![put(service("later", "later"))]).await;
    assert_eq!(examined(&store), (7, Vec::new()));
}

fn row_key(id: &str) -> Vec<u8> {
    codec::row_key(Kind::Service, &Id::new(id))
}

#[tokio::test]
async fn rows_are_looked_at_one_by_one() {
    let key = row_key("s1");
    let location = StoreLocation::Row(key.clone());
    assert_eq!(location.entity(), Some((Kind::Service, Id::new("s1"))));
    let mend = Mend::Put(service("s1", "name 1"));
    let mut flipped = codec::seal_row(&key, &service("s1", "name 1"));
    *flipped.last_mut().unwrap() ^= 1;
    planted(
        |it| it.shared.plant(&Into::Rows, &key, Some(&flipped)),
        location.clone(),
        mend.clone(),
    )
    .await;
    // The checksum itself is flipped: the tally is wrong with it.
    let mut flipped = codec::seal_row(&key, &service("s1", "name 1"));
    flipped[0] ^= 1;
    planted(
        |it| it.shared.plant(&Into::Rows, &key, Some(&flipped)),
        location.clone(),
        mend.clone(),
    )
    .await;
    planted(|it| it.shared.plant(&Into::Rows, &key, Some(&[1])), location.clone(), mend.clone())
        .await;
    // Another row under this key.
    let other = codec::seal_row(&row_key("s2"), &service("s2", "name 2"));
    planted(|it| it.shared.plant(&Into::Rows, &key, Some(&other)), location, mend).await;
    // A row of an unknown kind.
    let key = vec![0xff, 0xff, b'x'];
    let sealed = codec::seal(&key, &[1, 0]);
    let location = StoreLocation::Row(key.clone());
    planted(
        |it| it.shared.plant(&Into::Rows, &key, Some(&sealed)),
        location.clone(),
        Mend::Drop(location),
    )
    .await;
}

#[tokio::test]
async fn rows_that_are_missing_or_too_many_show_in_the_tally() {
    let code = Kind::Service.code();
    let key = row_key("s3");
    planted(
        |it| it.shared.plant(&Into::Rows, &key, None),
        StoreLocation::Tally(code),
        Mend::Put(service("s3", "name 3")),
    )
    .await;
    let key = row_key("extra");
    let sealed = codec::seal_row(&key, &service("extra", "extra"));
    planted(
        |it| it.shared.plant(&Into::Rows, &key, Some(&sealed)),
        StoreLocation::Tally(code),
        Mend::Drop(StoreLocation::row(Kind::Service, &Id::new("extra"))),
    )
    .await;
    for wrong in [&[0; 16][..], &[7; 3]] {
        let location = StoreLocation::Tally(code);
        planted(|it| it.shared.plant_tally(code, wrong), location.clone(), Mend::Drop(location))
            .await;
    }
}

#[tokio::test]
async fn the_log_cold_fields_live_state_and_notes_are_looked_at() {
    let log = || Mend::Drop(StoreLocation::Log);
    planted(|it| it.shared.plant_log(3, b"not an entry"), StoreLocation::Log, log()).await;
    planted(|it| it.shared.plant_log(99, &log_entry(99)), StoreLocation::Log, log()).await;

    let cold = |id: &str| codec::cold_key(Kind::Identity, &Id::new(id), ColdField::CertPem.code());
    for (key, value) in [
        (cold("i"), b"flipped".to_vec()),
        (cold("nobody"), codec::seal(&cold("nobody"), b"orphan")),
        (vec![0, 1, b'x'], codec::seal(&[0, 1, b'x'], b"no field")),
    ] {
        let location = StoreLocation::Cold(key.clone());
        let mend = Mend::Drop(location.clone());
        planted(|it| it.shared.plant(&Into::Cold, &key, Some(&value)), location, mend).await;
    }
    let key = codec::row_key(Kind::ApiSession, &Id::new("a"));
    let location = StoreLocation::Live(key.clone());
    assert_eq!(location.entity(), Some((Kind::ApiSession, Id::new("a"))));
    let mend = Mend::Drop(location.clone());
    planted(|it| it.shared.plant(&Into::Live, &key, Some(b"flipped")), location, mend).await;
    let key = codec::note_key(1, "k");
    let location = StoreLocation::Note(key.clone());
    let mend = Mend::Drop(location.clone());
    planted(|it| it.shared.plant(&Into::Notes, &key, Some(b"flipped")), location, mend).await;
}

/// An examination sees one revision, whatever is committed meanwhile.
#[tokio::test]
async fn commits_go_on_during_an_examination() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(&folder.path().join("db")).await;
    let examination = store.examine().unwrap();
    commit(&store, vec![put(service("later", "later"))]).await;
    let mut rows = 0;
    examination
        .run(&mut |seen| rows += usize::from(matches!(seen, ExaminationItem::Row(_))))
        .unwrap();
    assert_eq!(rows, 6);
    assert_eq!(examined(&store).0, 7);
}

#[tokio::test]
async fn memory_is_examined_and_mended_too() {
    let store = Memory::new();
    commit(&store, vec![put(service("a", "a"))]).await;
    let mends = vec![
        Mend::Put(service("b", "b")),
        Mend::Drop(StoreLocation::row(Kind::Service, &Id::new("a"))),
        Mend::Drop(StoreLocation::Log),
    ];
    store.mend(Revision(1), mends).await.unwrap();
    assert_eq!(rows(&store), [service("b", "b")]);
    assert_eq!(examined(&store), (1, Vec::new()));
    assert!(store.file().is_none());
}
