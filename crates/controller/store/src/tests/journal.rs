//! The journal of live state: acknowledged values outlive a kill at any moment.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use weft_model::entity::ApiSession;
use weft_model::{Base, Entity, Id, Kind, Timestamp};

use super::{commit, put, service};
use crate::embedded::JournalFault;
use crate::{Embedded, Options, Space, Store, restore};

const NOTES: Space = Space(7);

fn open(path: &Path) -> Embedded {
    Embedded::open(path, Options::default()).unwrap()
}

fn session(number: u32) -> Entity {
    let base = Base::new(Id::new(&format!("s{number:04}")), Timestamp(1));
    let token_hash = format!("{number}").into();
    ApiSession { base, token_hash, ..ApiSession::default() }.into()
}

fn journal(path: &Path) -> PathBuf {
    path.with_extension("live")
}

/// The files as a kill would leave them now, under another name.
fn killed(path: &Path, to: &Path) {
    // A moment at which the database is not being written.
    let (database, records) = loop {
        let (before, records) = (fs::read(path).unwrap(), fs::read(journal(path)).unwrap());
        if fs::read(path).unwrap() == before {
            break (before, records);
        }
    };
    fs::write(to, database).unwrap();
    fs::write(journal(to), records).unwrap();
}

/// The numbers of the sessions.
fn sessions(store: &Embedded) -> Vec<u32> {
    let mut found = Vec::new();
    let number = |entity: Entity| entity.id().as_str()[1..].parse().unwrap();
    store.live().load(&mut |entity| found.push(number(entity))).unwrap();
    found
}

/// Waits until the database itself, without its journal, holds this many sessions.
async fn folded(path: &Path, folder: &Path, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let copy = folder.join("alone");
    loop {
        fs::copy(path, &copy).unwrap();
        if Embedded::open(&copy, Options::default()).is_ok_and(|it| sessions(&it).len() == count) {
            return;
        }
        assert!(Instant::now() < deadline, "the database does not get the values");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn what_was_flushed_is_there_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("a"), folder.path().join("b"));
    let store = open(&path);
    let mode = fs::metadata(journal(&path)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for number in 0..40 {
        store.live().put(session(number));
        store.live().put_note(NOTES, "last", Some(Bytes::from(format!("{number}"))));
        if number % 3 == 0 {
            store.live().delete(Kind::ApiSession, session(number).id());
        }
        store.live().flush().await.unwrap();
        killed(&path, &copy);
        let again = open(&copy);
        assert_eq!(again.journal_fault(), None);
        let expected: Vec<u32> = (0..=number).filter(|it| it % 3 != 0).collect();
        assert_eq!(sessions(&again), expected);
        let last = again.live().note(NOTES, "last").unwrap().unwrap();
        assert_eq!(last, format!("{number}"));
        // The store is written to, killed and opened once more.
        again.live().put(session(9000 + number));
        again.live().flush().await.unwrap();
        let third = folder.path().join("c");
        killed(&copy, &third);
        let third = open(&third);
        assert_eq!((sessions(&third).len(), third.journal_fault()), (expected.len() + 1, None));
    }
}

/// A file whose writes reach the disk, but whose disk reports errors when it is waited for.
#[derive(Debug)]
struct Unsure {
    file: redb::backends::FileBackend,
    faults: Arc<Faults>,
}

#[derive(Debug, Default)]
struct Faults {
    /// When true, waits for the disk fail once the file's header selects another commit.
    is_armed: AtomicBool,
    /// When true, the header selects another commit since the faults were armed.
    is_selected: AtomicBool,
    /// Number of waits that failed.
    failed: AtomicU32,
}

impl Unsure {
    fn new(path: &Path, faults: &Arc<Faults>) -> Self {
        let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        Self { file: redb::backends::FileBackend::new(file).unwrap(), faults: faults.clone() }
    }
}

impl redb::StorageBackend for Unsure {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.faults.is_selected.load(Ordering::Acquire) {
            self.faults.failed.fetch_add(1, Ordering::AcqRel);
            return Err(io::Error::other("the disk is gone"));
        }
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.faults.is_selected.load(Ordering::Acquire) {
            return Err(io::Error::other("the disk is gone"));
        }
        let mut before = [0; 10];
        self.file.read(0, &mut before)?;
        let is_other = offset == 0 && data.get(9).is_some_and(|flags| (flags ^ before[9]) & 1 != 0);
        if is_other && self.faults.is_armed.load(Ordering::Acquire) {
            self.faults.is_selected.store(true, Ordering::Release);
        }
        self.file.write(offset, data)
    }
}

#[tokio::test]
async fn what_was_flushed_after_a_fold_of_unknown_outcome_is_there_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("a"), folder.path().join("b"));
    drop(open(&path));
    let faults = Arc::new(Faults::default());
    let backend = { (path.clone(), faults.clone()) };
    let opener = move |_| Unsure::new(&backend.0, &backend.1);
    let store = Embedded::open_beside(&path, opener).unwrap();
    for number in 1..3 {
        store.live().put(session(number));
    }
    store.live().flush().await.unwrap();
    killed(&path, &copy);
    let before = fs::read(&copy).unwrap();
    faults.is_armed.store(true, Ordering::Release);
    let deadline = Instant::now() + Duration::from_secs(60);
    while faults.failed.load(Ordering::Acquire) == 0 {
        assert!(Instant::now() < deadline, "no fold is tried");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The fold has reached the disk, which the store does not know.
    store.live().delete(Kind::ApiSession, session(1).id());
    store.live().put(session(3));
    store.live().flush().await.unwrap();
    killed(&path, &copy);
    let again = open(&copy);
    assert_eq!((sessions(&again), again.journal_fault()), (vec![2, 3], None));
    again.live().put(session(4));
    again.live().flush().await.unwrap();
    let third = folder.path().join("c");
    killed(&copy, &third);
    assert_eq!(sessions(&open(&third)), [2, 3, 4]);
    drop(again);
    // The database without that commit.
    killed(&path, &copy);
    fs::write(&copy, before).unwrap();
    let again = open(&copy);
    assert_eq!((sessions(&again), again.journal_fault()), (vec![2, 3], None));
    drop(again);
    // Once the disk is back, everything gets into the database.
    faults.is_armed.store(false, Ordering::Release);
    faults.is_selected.store(false, Ordering::Release);
    folded(&path, folder.path(), 2).await;
    store.live().put(session(5));
    store.live().flush().await.unwrap();
    killed(&path, &copy);
    assert_eq!(sessions(&open(&copy)), [2, 3, 5]);
}

#[tokio::test]
async fn a_fold_brings_everything_and_nothing_old_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let store = open(&path);
    for number in 0..5 {
        store.live().put(session(number));
    }
    store.live().flush().await.unwrap();
    let unfolded = fs::read(journal(&path)).unwrap();
    folded(&path, folder.path(), 5).await;
    // The delete is not waited for, so that only the database gets it.
    store.live().delete(Kind::ApiSession, session(0).id());
    folded(&path, folder.path(), 4).await;
    assert_eq!(fs::read(journal(&path)).unwrap(), unfolded, "the journal is not cleared");
    let copy = folder.path().join("b");
    killed(&path, &copy);
    let again = open(&copy);
    assert_eq!((sessions(&again), again.journal_fault()), (vec![1, 2, 3, 4], None));
}

#[tokio::test]
async fn a_journal_that_is_gone_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("a"), folder.path().join("b"));
    let store = open(&path);
    assert_eq!(store.journal_fault(), None, "the first start");
    store.live().put(session(1));
    folded(&path, folder.path(), 1).await;
    for number in 2..40 {
        store.live().put(session(number));
        store.live().flush().await.unwrap();
    }
    for damage in [None, Some(vec![]), Some(vec![0x5a; 70_000])] {
        killed(&path, &copy);
        match &damage {
            None => fs::remove_file(journal(&copy)).unwrap(),
            Some(bytes) => fs::write(journal(&copy), bytes).unwrap(),
        }
        assert_eq!(open(&copy).journal_fault(), Some(JournalFault::NotThere), "{damage:?}");
    }
    killed(&path, &copy);
    let torn = OpenOptions::new().write(true).open(journal(&copy)).unwrap();
    torn.write_all_at(&[0x5a; 40], 200).unwrap();
    assert_eq!(open(&copy).journal_fault(), Some(JournalFault::Cut));
    // A store that was closed needs none.
    store.close().await.unwrap();
    drop(store);
    fs::remove_file(journal(&path)).unwrap();
    let again = open(&path);
    assert_eq!((again.journal_fault(), sessions(&again).len()), (None, 39));
}

#[tokio::test]
async fn a_closed_store_needs_no_journal_and_leaves_it_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let store = open(&path);
    store.live().put(session(1));
    store.live().flush().await.unwrap();
    store.close().await.unwrap();
    assert!(fs::metadata(journal(&path)).unwrap().len() < 100, "it is cut");
    let again = open(&path);
    again.live().put(session(2));
    again.live().flush().await.unwrap();
    let written = fs::read(journal(&path)).unwrap();
    store.live().put(session(3));
    assert!(store.live().flush().await.is_err());
    drop(store);
    assert_eq!(fs::read(journal(&path)).unwrap(), written);
    drop(again);
    fs::remove_file(journal(&path)).unwrap();
    assert_eq!(sessions(&open(&path)), [1, 2]);
}

#[tokio::test]
async fn a_write_that_was_cut_off_takes_nothing_before_it_along() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("a"), folder.path().join("b"));
    let store = open(&path);
    let empty = fs::metadata(journal(&path)).unwrap().len();
    store.live().put(session(1));
    store.live().flush().await.unwrap();
    let first = fs::read(journal(&path)).unwrap();
    store.live().put(session(2));
    store.live().flush().await.unwrap();
    let both = fs::read(journal(&path)).unwrap();
    let source = folder.path().join("d");
    killed(&path, &source);
    let differs = first.iter().zip(&both).position(|(a, b)| a != b).unwrap() as u64;
    let end = both.iter().rposition(|byte| *byte != 0).unwrap() as u64;
    assert!(empty < differs && differs < end);
    for cut in (differs..=end).step_by(3) {
        killed(&source, &copy);
        let torn = OpenOptions::new().write(true).open(journal(&copy)).unwrap();
        torn.write_all_at(&vec![0; (end - cut + 1) as usize], cut).unwrap();
        let again = open(&copy);
        assert_eq!(sessions(&again), [1], "cut at {cut}");
        // With only its last zeros missing, a record is whole.
        assert_eq!(
            again.journal_fault(),
            (cut != differs).then_some(JournalFault::Cut),
            "at {cut}"
        );
        again.live().put(session(3));
        again.live().flush().await.unwrap();
        let third = folder.path().join("c");
        killed(&copy, &third);
        assert_eq!(sessions(&open(&third)), [1, 3], "cut at {cut}");
    }
    // Shorter than its own records.
    for length in [0, 5, empty, empty + 4, differs + 3, end] {
        killed(&source, &copy);
        let torn = OpenOptions::new().write(true).open(journal(&copy)).unwrap();
        torn.set_len(length).unwrap();
        assert!(sessions(&open(&copy)).len() <= 1, "{length} bytes");
    }
}

#[tokio::test]
async fn the_journal_of_another_database_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let (path, backup, into) =
        (folder.path().join("a"), folder.path().join("backup"), folder.path().join("b"));
    let store = open(&path);
    commit(&store, vec![put(service("a", "a"))]).await;
    store.backup(&backup).await.unwrap();
    store.live().put(session(1));
    store.live().flush().await.unwrap();
    fs::copy(journal(&path), journal(&into)).unwrap();
    restore(&backup, &into).unwrap();
    let restored = open(&into);
    assert!(sessions(&restored).is_empty(), "a session from before a restore is back");
    restored.live().put(session(2));
    restored.live().flush().await.unwrap();
    let copy = folder.path().join("c");
    killed(&into, &copy);
    assert_eq!(sessions(&open(&copy)), [2]);
    // A file that is no journal is ignored, too.
    fs::copy(&backup, &copy).unwrap();
    fs::write(journal(&copy), vec![0xa5; 3 << 20]).unwrap();
    assert!(sessions(&open(&copy)).is_empty());
}

#[tokio::test]
async fn a_store_without_a_place_for_its_journal_works() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    fs::create_dir(journal(&path)).unwrap();
    let store = open(&path);
    store.live().put(session(1));
    store.live().flush().await.unwrap();
    let copy = folder.path().join("b");
    fs::copy(&path, &copy).unwrap();
    assert_eq!(sessions(&open(&copy)), [1]);
}

#[tokio::test]
async fn a_journal_that_could_not_be_opened_brings_nothing_old_back() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("a"), folder.path().join("b"));
    let store = open(&path);
    store.live().put(session(1));
    folded(&path, folder.path(), 1).await;
    // The record of this session is in the journal when the session has ended.
    store.live().put(session(1));
    store.live().flush().await.unwrap();
    killed(&path, &copy);
    let (place, aside) = (journal(&copy), folder.path().join("aside"));
    fs::rename(&place, &aside).unwrap();
    fs::create_dir(&place).unwrap();
    let without = open(&copy);
    without.live().delete(Kind::ApiSession, session(1).id());
    without.live().put(session(2));
    without.live().flush().await.unwrap();
    drop(without);
    fs::remove_dir(&place).unwrap();
    fs::rename(&aside, &place).unwrap();
    let again = open(&copy);
    assert_eq!((sessions(&again), again.journal_fault()), (vec![2], None));
    again.live().put(session(3));
    again.live().flush().await.unwrap();
    let third = folder.path().join("c");
    killed(&copy, &third);
    assert_eq!(sessions(&open(&third)), [2, 3]);
}

#[tokio::test]
async fn more_than_the_journal_takes_goes_to_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("a"), folder.path().join("b"));
    let store = open(&path);
    for number in 0..24 {
        let large = Bytes::from(vec![number; 1 << 20]);
        store.live().put_note(NOTES, &format!("{number:02}"), Some(large));
        if number % 2 == 0 || number > 18 {
            store.live().flush().await.unwrap();
            killed(&path, &copy);
            assert_eq!(open(&copy).live().notes(NOTES).unwrap().len(), usize::from(number) + 1);
        }
    }
    let large = Bytes::from(vec![1; 12 << 20]);
    store.live().put_note(NOTES, "larger", Some(large.clone()));
    store.live().flush().await.unwrap();
    killed(&path, &copy);
    assert_eq!(open(&copy).live().note(NOTES, "larger").unwrap().unwrap(), large);
    assert!(fs::metadata(journal(&path)).unwrap().len() <= 17 << 20);
}
