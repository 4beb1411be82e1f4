//! Disks that are full, and disks that fail.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use weft_model::{Change, ChangeSet, ColdField, Id, Kind, Revision};

use super::{commit, put, rows, service};
use crate::embedded::{FailureForTests as Failure, OpeningForTests as Opening};
use crate::{BatchId, CommitError, Embedded, Space, Store};

/// A block of a disk.
const BLOCK: usize = 4096;
/// Longer than any pause between two tries.
const SOON: Duration = Duration::from_secs(60);

/// A disk that can be full or fail. Blocks of zeros take no room, so that a large file is made
/// quickly.
#[derive(Debug, Clone, Default)]
struct Disk(Arc<State>);

#[derive(Debug)]
struct State {
    file: Mutex<fs::File>,
    /// Blocks that were written, and those of them that are not all zero.
    written: Mutex<(BTreeSet<u64>, BTreeSet<u64>)>,
    /// When true, only blocks that were written before can be written.
    is_full: AtomicBool,
    /// Bytes that can still be written.
    room: AtomicU64,
    /// Number of writes that were tried.
    writes: AtomicU64,
    /// When true, every write fails.
    fails: AtomicBool,
    opened_first: AtomicU32,
    opened_again: AtomicU32,
    opened_to_read: AtomicU32,
}

impl Default for State {
    fn default() -> Self {
        Self {
            file: Mutex::new(tempfile::tempfile().unwrap()),
            written: Mutex::default(),
            is_full: AtomicBool::new(false),
            room: AtomicU64::new(u64::MAX),
            writes: AtomicU64::new(0),
            fails: AtomicBool::new(false),
            opened_first: AtomicU32::new(0),
            opened_again: AtomicU32::new(0),
            opened_to_read: AtomicU32::new(0),
        }
    }
}

impl Disk {
    fn open(&self) -> Embedded {
        let disk = self.clone();
        let opened = move |opening| {
            let count = match opening {
                Opening::First => &disk.0.opened_first,
                Opening::Again => &disk.0.opened_again,
                Opening::ToRead => &disk.0.opened_to_read,
            };
            count.fetch_add(1, Ordering::AcqRel);
            disk.clone()
        };
        Embedded::open_backend(opened).unwrap()
    }

    fn opened_again(&self) -> u32 {
        self.0.opened_again.load(Ordering::Acquire)
    }

    fn write_block(&self, at: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.0.written.lock();
        let block = at / BLOCK as u64;
        if written.0.insert(block) && self.0.is_full.load(Ordering::Acquire) {
            written.0.remove(&block);
            return Err(io::ErrorKind::StorageFull.into());
        }
        if data == &[0; BLOCK][..data.len()] && !written.1.contains(&block) {
            return Ok(());
        }
        written.1.insert(block);
        let mut file = self.0.file.lock();
        file.seek(SeekFrom::Start(at))?;
        file.write_all(data)
    }
}

impl redb::StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.file.lock().metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut file = self.0.file.lock();
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.file.lock().set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, mut data: &[u8]) -> io::Result<()> {
        self.0.writes.fetch_add(1, Ordering::AcqRel);
        if self.0.fails.load(Ordering::Acquire) {
            return Err(io::Error::other("the disk is gone"));
        }
        let taken = |room: u64| room.checked_sub(data.len() as u64);
        if self.0.room.fetch_update(Ordering::AcqRel, Ordering::Acquire, taken).is_err() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut at = offset;
        while !data.is_empty() {
            let left = BLOCK - (at % BLOCK as u64) as usize;
            let (block, rest) = data.split_at(left.min(data.len()));
            self.write_block(at, block)?;
            at += block.len() as u64;
            data = rest;
        }
        Ok(())
    }
}

fn head(store: &Embedded) -> Revision {
    store.head().unwrap().revision
}

/// Writes until it succeeds, as the disk is not written for a pause after a failure.
async fn write_until_it_works(store: &Embedded, id: &str) {
    let deadline = Instant::now() + SOON;
    loop {
        match store.commit(head(store), vec![put(service(id, id))]).await {
            Ok(_) => return,
            Err(CommitError::Full | CommitError::Unavailable(_)) => {}
            Err(CommitError::Unknown { batch, .. }) => {
                if store.settle(batch).await.is_ok_and(|found| found.is_some()) {
                    return;
                }
            }
            Err(error) => panic!("{error}"),
        }
        assert!(Instant::now() < deadline, "it does not heal");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_full_disk_says_so_loses_nothing_and_heals() {
    let disk = Disk::default();
    let store = disk.open();
    commit(&store, vec![put(service("a", "a"))]).await;
    for room in [0, 4096, 8192, 20_000, 40_000] {
        let base = head(&store);
        disk.0.room.store(room, Ordering::Release);
        let written = store.commit(base, vec![put(service("b", "b"))]).await;
        disk.0.room.store(u64::MAX, Ordering::Release);
        match written {
            Ok(revision) => assert_eq!(head(&store), revision),
            Err(CommitError::Full) => {
                // With room again, the store writes by itself after the pause.
                write_until_it_works(&store, "b").await;
                assert_eq!(head(&store), base.next());
            }
            Err(CommitError::Unknown { batch, .. }) => {
                let deadline = Instant::now() + SOON;
                let settled = loop {
                    match store.settle(batch).await {
                        Ok(settled) => break settled,
                        Err(error) => assert!(Instant::now() < deadline, "{error}"),
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                };
                assert_eq!(head(&store), settled.unwrap_or(base));
            }
            Err(error) => panic!("with room for {room}: {error}"),
        }
        assert!(rows(&store).contains(&service("a", "a")));
    }
    write_until_it_works(&store, "c").await;
    assert!(rows(&store).contains(&service("c", "c")));
}

/// A file of 1 GiB on a disk with room.
async fn large(disk: &Disk) -> Embedded {
    const PART: usize = 4 << 20;
    let store = disk.open();
    commit(&store, vec![put(service("a", "a"))]).await;
    let zeros = Bytes::from(vec![0; PART]);
    for number in 0..(1 << 30) / PART {
        store.live().put_note(Space(9), &format!("{number:04}"), Some(zeros.clone()));
        if number % 16 == 15 {
            store.live().flush().await.unwrap();
        }
    }
    assert!(redb::StorageBackend::len(disk).unwrap() >= 1 << 30);
    store
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_under_a_file_of_1_gib_is_left_alone_and_read_meanwhile() {
    let disk = Disk::default();
    let store = large(&disk).await;
    disk.0.is_full.store(true, Ordering::Release);
    let begun = Instant::now();
    while disk.opened_again() < 6 {
        assert!(begun.elapsed() < SOON, "it is not tried again");
        // More than fits into the free pages of the file.
        let sets = (0..200).map(|n| put(service(&format!("{n}"), &"x".repeat(20_000)))).collect();
        let error = store.commit(Revision(1), sets).await.unwrap_err();
        assert_eq!(error, CommitError::Full);
        store.live().put_note(Space(1), "late", Some(Bytes::from_static(b"it waits")));
        // Reads of the file go on, and see data that waits to be written.
        assert_eq!(head(&store), Revision(1));
        assert!(store.cold(Kind::Service, &Id::new("a"), ColdField::Tags).unwrap().is_none());
        assert!(store.live().note(Space(1), "late").unwrap().is_some());
        assert_eq!(store.live().notes(Space(2)).unwrap(), []);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // After pauses of 100, 200, 400, 800 and 1600 ms. Commits and live state share them, unless
    // both tried at the same moment.
    assert!(begun.elapsed() >= Duration::from_millis(1500), "{:?}", begun.elapsed());
    assert_eq!(disk.0.opened_first.load(Ordering::Acquire), 1, "the whole file is checked once");

    disk.0.is_full.store(false, Ordering::Release);
    write_until_it_works(&store, "b").await;
    let deadline = Instant::now() + SOON;
    while store.live().flush().await.is_err() {
        assert!(Instant::now() < deadline, "live state does not reach the disk");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(store);
    let store = disk.open();
    assert_eq!(rows(&store).len(), 2);
    let late = store.live().note(Space(1), "late").unwrap();
    assert_eq!(late.as_deref(), Some(&b"it waits"[..]));
}

#[tokio::test]
async fn reads_outlast_any_number_of_writers_that_fail() {
    let store = Disk::default().open();
    commit(&store, vec![put(service("a", "a"))]).await;
    let mut tries = 0;
    let read = store.shared.read(|_| {
        tries += 1;
        if tries < 20 { Err(Failure::Broken) } else { Ok(tries) }
    });
    assert!(matches!(read, Ok(20)), "{read:?}");
    // Not for ever.
    let begun = Instant::now();
    let read = store.shared.read::<()>(|_| Err(Failure::Broken));
    assert!(matches!(read, Err(Failure::Broken)) && begun.elapsed() < SOON);
    assert_eq!(head(&store), Revision(1));
}

#[tokio::test]
async fn who_comes_while_a_full_disk_is_left_alone_is_refused_without_a_try() {
    let disk = Disk::default();
    let store = disk.open();
    commit(&store, vec![put(service("a", "a"))]).await;
    disk.0.is_full.store(true, Ordering::Release);
    let large = || (0..200).map(|n| put(service(&format!("{n}"), &"x".repeat(20_000)))).collect();
    let deadline = Instant::now() + SOON;
    while disk.opened_again() < 6 {
        assert_eq!(store.commit(Revision(1), large()).await, Err(CommitError::Full));
        assert_eq!(head(&store), Revision(1));
        assert!(Instant::now() < deadline, "it is not tried again");
    }
    // The pause after the sixth failure is 3.2 s.
    let tried = disk.0.writes.load(Ordering::Acquire);
    for _ in 0..100 {
        assert_eq!(store.commit(Revision(1), large()).await, Err(CommitError::Full));
        assert_eq!(head(&store), Revision(1));
    }
    assert_eq!(disk.0.writes.load(Ordering::Acquire), tried);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_takes_nothing_is_read_and_not_asked_by_everybody() {
    let disk = Disk::default();
    let store = disk.open();
    let owner = Id::new("a");
    let tags = Change::Cold {
        kind: Kind::Service,
        id: owner.clone(),
        field: ColdField::Tags,
        value: Some(Bytes::from_static(b"{}")),
    };
    commit(&store, vec![put(service("a", "a")), ChangeSet::of([tags]).into()]).await;
    store.live().put_note(Space(1), "kept", Some(Bytes::from_static(b"yes")));
    store.fold().await.unwrap();
    disk.0.fails.store(true, Ordering::Release);
    let failed = store.commit(Revision(2), vec![put(service("b", "b"))]).await.unwrap_err();
    assert!(
        matches!(failed, CommitError::Unknown { .. } | CommitError::Unavailable(_)),
        "{failed}"
    );
    store.live().put_note(Space(1), "late", Some(Bytes::from_static(b"waits")));
    let begun = Instant::now();
    let mut asked = 0;
    while begun.elapsed() < Duration::from_secs(1) {
        // The file cannot even be opened again; it is read all the same.
        let read = store.cold(Kind::Service, &owner, ColdField::Tags).unwrap();
        assert_eq!(read.as_deref(), Some(&b"{}"[..]));
        assert_eq!(store.live().notes(Space(1)).unwrap().len(), 2);
        assert!(store.live().note(Space(1), "kept").unwrap().is_some());
        // Which commits there are is not known before the file is opened again.
        assert!(store.settle(BatchId::random()).await.is_err());
        asked += 1;
    }
    let (again, views) = (disk.opened_again(), disk.0.opened_to_read.load(Ordering::Acquire));
    assert!((1..=5).contains(&again) && asked > 100, "opened again {again} times for {asked}");
    assert!((1..=again).contains(&views), "{views} views for {again} tries");
    disk.0.fails.store(false, Ordering::Release);
    let deadline = Instant::now() + SOON;
    while store.head().is_err() {
        assert!(Instant::now() < deadline, "it does not heal");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    write_until_it_works(&store, "c").await;
    assert!(rows(&store).contains(&service("c", "c")));
}
