//! Rules of files only: modes, locks, cut-off writers.

use std::fs;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use weft_model::entity::{ApiSession, Authenticator, CertCredential};
use weft_model::{Base, ChangeSet, ColdField, Entity, Id, Kind, Revision, Timestamp};

use super::{commit, put, rows, service};
use crate::{
    CommitError, Embedded, ExaminationItem, FORMAT, Hold, OpenError, Options, Space, Store,
    read_backup, restore,
};

fn open(path: &Path) -> Embedded {
    Embedded::open(path, Options::default()).unwrap()
}

#[tokio::test]
async fn a_store_is_private_and_survives_being_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let store = open(&path);
    commit(&store, vec![put(service("a", "a"))]).await;
    let head = store.head().unwrap();
    drop(store);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let store = open(&path);
    assert_eq!(store.head().unwrap(), head);
    assert_eq!(rows(&store), [service("a", "a")]);
}

#[tokio::test]
async fn a_closed_store_lets_go_of_its_file_whoever_holds_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let store = open(&path);
    let held = store.clone();
    commit(&store, vec![put(service("a", "a"))]).await;
    store.live().put(ApiSession::default().into());
    store.close().await.unwrap();
    // The flags of the header: the file is not in use, and the newer commit is the one that counts.
    let header = fs::read(&path).unwrap();
    assert_eq!(header[9] & 2, 0, "it was closed properly");
    let number = |slot: usize| u64::from_le_bytes(header[slot + 104..][..8].try_into().unwrap());
    assert_eq!(header[9] & 1 == 1, number(192) > number(64));

    let again = open(&path);
    assert_eq!(rows(&again), [service("a", "a")]);
    let mut sessions = 0;
    again.live().load(&mut |_| sessions += 1).unwrap();
    assert_eq!(sessions, 1, "what was put is there");
    let late = held.commit(Revision(1), vec![put(service("b", "b"))]).await.unwrap_err();
    assert!(matches!(late, CommitError::Unavailable(_)), "{late}");
    assert!(held.head().is_err() && held.backup(&folder.path().join("copy")).await.is_err());
    assert!(held.head().is_err(), "an error does not open it again");
    held.close().await.unwrap();
    assert_eq!(rows(&again), [service("a", "a")]);
}

#[tokio::test]
async fn a_second_opener_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let _first = open(&path);
    let second = Embedded::open(&path, Options::default()).unwrap_err();
    assert!(matches!(second, OpenError::InUse(_)), "{second}");
    assert!(second.to_string().contains("in use by another process"), "{second}");
}

#[tokio::test]
async fn nobody_opens_what_is_held() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    assert!(Hold::take(&path).unwrap().is_none());
    let store = open(&path);
    assert!(matches!(Hold::take(&path), Err(OpenError::InUse(_))));
    drop(store);
    let hold = Hold::take(&path).unwrap().unwrap();
    assert!(matches!(Hold::take(&path), Err(OpenError::InUse(_))));
    let second = Embedded::open(&path, Options::default()).unwrap_err();
    assert!(matches!(second, OpenError::InUse(_)), "{second}");
    // The lock stays with the file when it is renamed.
    let moved = folder.path().join("moved");
    fs::rename(&path, &moved).unwrap();
    assert!(Embedded::open(&moved, Options::default()).is_err());
    drop(open(&path));
    drop(hold);
    drop(open(&moved));
    // A file that cannot be opened any more can be locked.
    fs::write(&path, b"cut").unwrap();
    assert!(Hold::take(&path).unwrap().is_some());
}

#[tokio::test]
async fn live_state_reaches_the_disk_without_being_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let store = open(&path);
    let base = Base::new(Id::new("s"), Timestamp(1));
    store.live().put(ApiSession { base, token_hash: "t".into(), ..ApiSession::default() }.into());
    let copy = folder.path().join("copy");
    let found = async {
        loop {
            fs::copy(&path, &copy).unwrap();
            let mut found = 0;
            if let Ok(store) = Embedded::open(&copy, Options::default()) {
                store.live().load(&mut |_| found += 1).unwrap_or_default();
            }
            if found == 1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), found).await.unwrap();
}

/// A copy of the file between two commits is the file of a controller that is killed at that
/// moment.
#[tokio::test]
async fn what_was_acknowledged_is_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let store = open(&path);
    for n in 0..30 {
        let id = format!("{n:02}");
        commit(&store, vec![put(service(&id, &id))]).await;
        if n % 7 != 0 {
            continue;
        }
        let copy = folder.path().join(format!("copy{n}"));
        fs::copy(&path, &copy).unwrap();
        let killed = open(&copy);
        assert_eq!(rows(&killed).len(), n + 1);
        assert_eq!(killed.head().unwrap(), store.head().unwrap());
        assert_eq!(commit(&killed, vec![put(service("x", "x"))]).await, Revision(n as u64 + 2));
    }
}

#[test]
fn a_store_of_entities_from_elsewhere_is_as_if_they_had_been_committed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let cert = CertCredential {
        fingerprint: "f1".into(),
        cert_pem: "a certificate".into(),
        ..CertCredential::default()
    };
    let authenticator = Authenticator {
        base: Base::new(Id::new("x"), Timestamp(1)),
        identity_id: Id::new("i"),
        cert: Some(cert),
        updb: None,
    };
    let entities = || {
        [
            Entity::from(authenticator.clone()),
            service("b", "b"),
            service("a", "old"),
            service("a", "a"),
        ]
    };
    let note = (Space(7), "key".to_owned(), "value".into());
    let base = Base::new(Id::new("s"), Timestamp(1));
    let live = || [Entity::from(ApiSession { base: base.clone(), ..ApiSession::default() })];
    let head = crate::create(&path, entities(), live(), [note]).unwrap();
    assert_eq!(head.revision, Revision(1));
    assert!(matches!(crate::create(&path, entities(), live(), []), Err(OpenError::Exists(_))));
    let store = open(&path);
    assert_eq!(store.head().unwrap(), head);
    let services: Vec<_> =
        rows(&store).into_iter().filter(|row| row.kind() == Kind::Service).collect();
    assert_eq!(services, [service("a", "a"), service("b", "b")]);
    assert_eq!(rows(&store).len(), 3);
    let pem = store.cold(Kind::Authenticator, &Id::new("x"), ColdField::CertPem).unwrap();
    assert_eq!(pem.as_deref(), Some(&b"a certificate"[..]));
    let notes = store.live().notes(Space(7)).unwrap();
    assert_eq!(notes, [("key".to_owned(), Bytes::from_static(b"value"))]);
    let mut sessions = Vec::new();
    store.live().load(&mut |entity| sessions.push(entity)).unwrap();
    assert_eq!(sessions, live());
    let mut faults = 0;
    let examination = store.examine().unwrap();
    examination
        .run(&mut |item| faults += usize::from(matches!(item, ExaminationItem::Fault(_))))
        .unwrap();
    assert_eq!(faults, 0, "sums and counts are right");
}

#[tokio::test]
async fn what_has_a_newer_format_is_refused_as_a_file_and_as_a_backup() {
    let folder = tempfile::tempdir().unwrap();
    let [path, backup, restored] =
        ["db", "backup", "restored"].map(|name| folder.path().join(name));
    let newer = Options { reads: FORMAT + 1, ..Options::default() };
    let store = Embedded::open(&path, newer).unwrap();
    commit(&store, vec![put(service("a", "a"))]).await;
    store.backup(&backup).await.unwrap();
    assert_eq!(restore(&backup, &restored).unwrap().format, FORMAT);
    let base = store.head().unwrap().revision;
    let set = ChangeSet { format: FORMAT + 1, ..ChangeSet::default() };
    store.commit(base, vec![set.into()]).await.unwrap();
    assert_eq!(store.formats(), [FORMAT + 1; 2]);
    fs::remove_file(&backup).unwrap();
    fs::remove_file(&restored).unwrap();
    store.backup(&backup).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    let is_newer = |error: OpenError| matches!(error, OpenError::Newer { found, known } if (found, known) == (FORMAT + 1, FORMAT));
    assert!(is_newer(Embedded::open(&path, Options::default()).unwrap_err()));
    assert!(is_newer(restore(&backup, &restored).unwrap_err()) && !restored.exists());
    assert!(is_newer(read_backup(&backup, &mut |_| {}).unwrap_err()));
}
