//! Files that are written as a whole: a backup, a store from a backup, and a store of entities from elsewhere.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable};
use weft_model::{Change, ColdField, Entity, Id, Kind, Revision};

use super::failure::{Failure, guarded};
use super::file::{Shared, Tables, begin, check_format, fill, open_checked, private};
use super::hold::sync_folder_of;
use super::load;
use super::tables::{CHECKING, COLD, LIVE, NOTES, ROWS, TALLIES};
use crate::{BackupError, FORMAT, Head, OpenError, Space, codec};

/// Memory for the pages of a file that is written as a whole, in bytes.
const WRITING: usize = 128 << 20;

impl Shared {
    /// Copies everything except the log to a new file, from one read transaction.
    pub(super) fn backup(&self, to: &Path) -> Result<Revision, BackupError> {
        let read = |failure: Failure| BackupError::Read(failure.into());
        let (transaction, head) = self
            .read(|database| {
                let transaction = database.begin_read()?;
                let head = load::required_head(&transaction)?;
                Ok((transaction, head))
            })
            .map_err(read)?;
        copy(&transaction, &head, to, true).map_err(BackupError::Write)?;
        Ok(head.revision)
    }
}

/// Writes a file under another name and renames it, so that it is complete when it appears.
fn write_file(
    path: &Path,
    head: &Head,
    work: impl FnOnce(&mut Tables<'_>) -> Result<(), Failure>,
) -> Result<(), OpenError> {
    if path.exists() {
        return Err(OpenError::Exists(path.to_owned()));
    }
    let io = |error| OpenError::Io { path: path.to_owned(), error };
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    if part.exists() {
        fs::remove_file(&part).map_err(io)?;
    }
    private(&part).map_err(io)?;
    let written = guarded(|| {
        let database = Database::builder().set_cache_size(WRITING).create(&part)?;
        let transaction = begin(&database)?;
        fill(&transaction, head, work)?;
        transaction.commit()?;
        Ok(())
    });
    if let Err(failure) = written {
        drop(fs::remove_file(&part));
        return Err(failure.open(path));
    }
    fs::rename(&part, path).and_then(|()| sync_folder_of(path)).map_err(io)
}

/// Copies rows, cold fields and notes from a transaction to a new file, and live state if
/// `with_live`.
pub(super) fn copy(
    from: &ReadTransaction,
    head: &Head,
    to: &Path,
    with_live: bool,
) -> Result<(), OpenError> {
    write_file(to, head, |into| {
        for entry in from.open_table(ROWS)?.iter()? {
            let (key, value) = entry?;
            codec::unseal("row", key.value(), value.value())?;
            into.rows.insert(key.value(), value.value())?;
        }
        for entry in from.open_table(TALLIES)?.iter()? {
            let (key, value) = entry?;
            into.tallies.insert(key.value(), value.value())?;
        }
        let mut copies = vec![(COLD, &mut into.cold), (NOTES, &mut into.notes)];
        if with_live {
            copies.push((LIVE, &mut into.live));
        }
        for (table, into) in copies {
            for entry in from.open_table(table)?.iter()? {
                let (key, value) = entry?;
                codec::unseal("entry", key.value(), value.value())?;
                into.insert(key.value(), value.value())?;
            }
        }
        Ok(())
    })
}

/// The content of a store without a file.
pub(crate) struct Content {
    pub(crate) head: Head,
    pub(crate) rows: Vec<Entity>,
    pub(crate) cold: Vec<(Kind, Id, ColdField, Bytes)>,
    pub(crate) live: Vec<Entity>,
    pub(crate) notes: Vec<(Space, String, Bytes)>,
}

/// Writes a new file.
pub(crate) fn write_new(path: &Path, content: Content) -> Result<(), OpenError> {
    write_file(path, &content.head, |into| {
        let mut tallies = BTreeMap::<u16, codec::Tally>::new();
        for entity in &content.rows {
            let key = codec::row_key(entity.kind(), entity.id());
            let sealed = codec::seal_row(&key, entity);
            tallies.entry(entity.kind().code()).or_default().add(&key, &sealed);
            into.rows.insert(key.as_slice(), sealed.as_slice())?;
        }
        for (code, tally) in tallies {
            into.tallies.insert(code, tally.to_bytes().as_slice())?;
        }
        for (kind, id, field, value) in &content.cold {
            let key = codec::cold_key(*kind, id, field.code());
            into.cold.insert(key.as_slice(), codec::seal(&key, value).as_slice())?;
        }
        for entity in &content.live {
            let key = codec::row_key(entity.kind(), entity.id());
            into.live.insert(key.as_slice(), codec::seal_row(&key, entity).as_slice())?;
        }
        for (space, key, value) in &content.notes {
            let key = codec::note_key(space.0, key);
            into.notes.insert(key.as_slice(), codec::seal(&key, value).as_slice())?;
        }
        Ok(())
    })
}

/// Makes a new store of entities of the model and notes, on a new timeline, at revision 1 and without a log. `into` must
/// not exist; it appears when everything is on the disk.
pub fn create(
    into: &Path,
    rows: impl IntoIterator<Item = Entity>,
    live: impl IntoIterator<Item = Entity>,
    notes: impl IntoIterator<Item = (Space, String, Bytes)>,
) -> Result<Head, OpenError> {
    let head = Head { revision: Revision(1), ..Head::new(Head::new_timeline()) };
    write_file(into, &head, |into| {
        let mut tallies = BTreeMap::<u16, codec::Tally>::new();
        for change in rows.into_iter().flat_map(Change::apart) {
            let (kind, id) = (change.kind(), change.id().clone());
            match change {
                Change::Put(entity) => {
                    let key = codec::row_key(kind, &id);
                    let sealed = codec::seal_row(&key, &entity);
                    let tally = tallies.entry(kind.code()).or_default();
                    if let Some(old) = into.rows.insert(key.as_slice(), sealed.as_slice())? {
                        tally.remove(&key, old.value());
                    }
                    tally.add(&key, &sealed);
                }
                Change::Cold { field, value: Some(value), .. } => {
                    let key = codec::cold_key(kind, &id, field.code());
                    into.cold.insert(key.as_slice(), codec::seal(&key, &value).as_slice())?;
                }
                Change::Cold { value: None, .. } | Change::Delete(..) => {}
            }
        }
        for (code, tally) in tallies {
            into.tallies.insert(code, tally.to_bytes().as_slice())?;
        }
        for entity in live {
            let key = codec::row_key(entity.kind(), entity.id());
            into.live.insert(key.as_slice(), codec::seal_row(&key, &entity).as_slice())?;
        }
        for (space, key, value) in notes {
            let key = codec::note_key(space.0, &key);
            into.notes.insert(key.as_slice(), codec::seal(&key, &value).as_slice())?;
        }
        Ok(())
    })?;
    Ok(head)
}

/// Makes a new store from a backup: the same rows at the same revision, on a new timeline.
///
/// The backup is checked as a whole first; `into` must not exist. Live state is not copied, as
/// sessions that have ended since the backup was made must not come back.
pub fn restore(from: &Path, into: &Path) -> Result<Head, OpenError> {
    if !from.exists() {
        let error = io::ErrorKind::NotFound.into();
        return Err(OpenError::Io { path: from.to_owned(), error });
    }
    // The check writes to the file it checks: it gets a copy, and the backup stays unchanged.
    let mut scratch = into.as_os_str().to_owned();
    scratch.push(".checking");
    let scratch = PathBuf::from(scratch);
    let restored = restore_through(&scratch, from, into);
    drop(fs::remove_file(&scratch));
    restored
}

fn restore_through(scratch: &Path, from: &Path, into: &Path) -> Result<Head, OpenError> {
    let (_database, transaction, head) = checked(scratch, from, &mut |_| {})?;
    let Head { revision, format, .. } = head;
    let head = Head { revision, format, ..Head::new(Head::new_timeline()) };
    copy(&transaction, &head, into, false)?;
    Ok(head)
}

/// Reads the entities of a backup, which stays as it is: what is read is a copy in the folder for temporary files, only for
/// the owner, which is removed.
pub fn read_backup(from: &Path, rows: &mut dyn FnMut(Entity)) -> Result<Head, OpenError> {
    static READ: AtomicU64 = AtomicU64::new(0);
    let number = READ.fetch_add(1, Ordering::Relaxed);
    let scratch =
        std::env::temp_dir().join(format!("weft-{}-{number}.reading", std::process::id()));
    let read = checked(&scratch, from, rows).map(|(_, _, head)| head);
    drop(fs::remove_file(&scratch));
    read
}

/// Checks a copy of a backup, and passes its entities on.
fn checked(
    scratch: &Path,
    from: &Path,
    rows: &mut dyn FnMut(Entity),
) -> Result<(Database, ReadTransaction, Head), OpenError> {
    let io = |error| OpenError::Io { path: scratch.to_owned(), error };
    if scratch.exists() {
        fs::remove_file(scratch).map_err(io)?;
    }
    let mut copied = private(scratch).map_err(io)?;
    let read = |error| OpenError::Io { path: from.to_owned(), error };
    io::copy(&mut File::open(from).map_err(read)?, &mut copied).map_err(io)?;
    drop(copied);
    let checked = guarded(|| {
        let database = open_checked(scratch, CHECKING)?;
        let transaction = database.begin_read()?;
        check_format(&load::required_head(&transaction)?, FORMAT)?;
        let head = load::load(&transaction, rows)?;
        Ok((database, transaction, head))
    });
    checked.map_err(|failure| failure.open(from))
}
