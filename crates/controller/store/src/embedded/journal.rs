//! The journal of live state: a file beside the database, to which values are appended when a
//! caller waits for the disk.
//!
//! A commit of the database writes several pages and waits for the disk twice; appending a value to
//! the journal writes as many bytes as the value has and waits once. Some time later one commit, the
//! *fold*, brings all values of the journal into the database.
//!
//! ```text
//! header: magic (8 bytes), length of the timeline (1 byte), timeline
//! record: length of the body (u32), CRC-32 of timeline and body (u32), body
//! body:   generation (u64), then values: table (u8), length of the key (u32), key,
//!         length of the value (u32, u32::MAX for a removed key), value        (all little endian)
//! ```
//!
//! Eight zero bytes follow the last record. Every fold stores the generation of the records that it
//! brings, in the same commit. Records after the begin of a fold have the next generation. If the fold
//! succeeds, they are written from the start of the file again. If it fails, they are written behind
//! the records so far, because a commit that failed may have reached the disk all the same: whether it
//! counts is known at the next start only.
//!
//! A start reads records until those zeros, and passes over those of generations that the database
//! contains. A record that is not whole ends the journal, too: a write was cut off, or the file is
//! damaged, which cannot be told apart. The journal of another timeline, from before a restore, does
//! not count.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weft_identity::give_to_owner_of_folder;
use weft_model::Timeline;

use super::hold::sync_folder_of;

/// Sealed values by key; `None` removes the key.
pub(super) type Values = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Live entities and notes.
#[derive(Debug, Clone, Default)]
pub(super) struct Batch {
    pub(super) entities: Values,
    pub(super) notes: Values,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.entities.is_empty() && self.notes.is_empty()
    }

    /// The number of values.
    pub(super) fn len(&self) -> usize {
        self.entities.len() + self.notes.len()
    }

    /// The values of several batches, the oldest first.
    pub(super) fn joined<'b>(batches: impl IntoIterator<Item = &'b Arc<Self>>) -> Self {
        batches.into_iter().fold(Self::default(), |mut all, batch| {
            all.extend((**batch).clone());
            all
        })
    }

    /// Adds values, which replace older ones.
    pub(super) fn extend(&mut self, newer: Self) {
        self.entities.extend(newer.entities);
        self.notes.extend(newer.notes);
    }

    /// Adds values that nothing newer has replaced.
    pub(super) fn extend_older(&mut self, older: Self) {
        for (mine, older) in [(&mut self.entities, older.entities), (&mut self.notes, older.notes)]
        {
            for (key, value) in older {
                mine.entry(key).or_insert(value);
            }
        }
    }
}

const MAGIC: &[u8; 8] = b"weftlive";
/// Length of the prefix of a record in bytes, and the prefix that ends the records.
const PREFIX: usize = 8;
const END: [u8; PREFIX] = [0; PREFIX];
/// Longest body of a record, and the length of all records from which a fold does not wait, in bytes
/// (8 MiB).
const LONGEST: usize = 8 << 20;
/// The file grows in steps of this many bytes (1 MiB). Appending within the file needs no change of
/// its length, which the disk would have to write as well.
const STEP: u64 = 1 << 20;
/// Length in bytes to which a longer file is cut when its records have been folded (8 MiB).
const KEPT: u64 = 8 * STEP;
const REMOVED: u32 = u32::MAX;

/// A fault of a journal, found at a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JournalFault {
    /// The journal is new or belongs to another timeline.
    NotThere,
    /// The last record is not whole.
    Cut,
}

/// The file.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    timeline: Timeline,
    /// Generation of the records that are appended.
    generation: u64,
    /// Position of the next record, and the length of the file.
    at: u64,
    len: u64,
    /// False after an error, until the next fold.
    is_sound: bool,
}

impl Journal {
    /// The journal of a database.
    pub(crate) fn path_of(database: &Path) -> PathBuf {
        let mut path = database.as_os_str().to_owned();
        path.push(".live");
        PathBuf::from(path)
    }

    /// Opens a journal, or makes a new one of mode 0600, and reads the values of generations after
    /// `folded`.
    pub(super) fn open(
        path: &Path,
        timeline: &Timeline,
        folded: u64,
    ) -> io::Result<(Self, Batch, Option<JournalFault>)> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        let len = file.metadata()?.len();
        if len == 0 {
            give_to_owner_of_folder(&file, path);
        }
        let mut journal = Self {
            file,
            timeline: timeline.clone(),
            generation: folded.saturating_add(1),
            at: header_of(timeline).len() as u64,
            len,
            is_sound: true,
        };
        let header = header_of(timeline);
        let mut found = vec![0; header.len()];
        let is_own = len >= header.len() as u64 && {
            read_at(&journal.file, &mut found, 0)?;
            found == header
        };
        if !is_own {
            journal.file.set_len(0)?;
            write_at(&journal.file, &header, 0)?;
            journal.file.sync_all()?;
            sync_folder_of(path)?;
            journal.len = header.len() as u64;
            return Ok((journal, Batch::default(), Some(JournalFault::NotThere)));
        }
        let mut found = Batch::default();
        let is_whole = journal.read(&mut found)?;
        Ok((journal, found, (!is_whole).then_some(JournalFault::Cut)))
    }

    /// Reads values until the end of the records. The next record will be behind the last one whose
    /// values the database lacks. False if the last record is not whole.
    fn read(&mut self, found: &mut Batch) -> io::Result<bool> {
        let mut prefix = [0; PREFIX];
        let mut at = self.at;
        while at + PREFIX as u64 <= self.len {
            read_at(&self.file, &mut prefix, at)?;
            if prefix == END {
                return Ok(true);
            }
            let [a, b, c, d, sum @ ..] = prefix;
            let (length, sum) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes(sum));
            let end = at + PREFIX as u64 + u64::from(length);
            if length == 0 || end > self.len {
                return Ok(false);
            }
            let mut body = vec![0; length as usize];
            read_at(&self.file, &mut body, at + PREFIX as u64)?;
            at = end;
            if sum != self.checksum(&body) {
                return Ok(false);
            }
            let Some((generation, values)) = split(&body) else { return Ok(false) };
            if generation < self.generation {
                continue;
            }
            let Some(values) = batch(values) else { return Ok(false) };
            found.extend(values);
            self.generation = generation;
            self.at = end;
        }
        Ok(at == self.len)
    }

    /// Appends values and waits for the disk. After an error nothing is appended until
    /// [`Journal::folded`].
    pub(super) fn append(&mut self, values: &Batch) -> io::Result<()> {
        if !self.is_sound {
            return Err(io::Error::other("the journal failed before"));
        }
        let written = self.write(values);
        self.is_sound = written.is_ok();
        written
    }

    fn write(&mut self, values: &Batch) -> io::Result<()> {
        let mut record = vec![0; PREFIX];
        record.extend(self.generation.to_le_bytes());
        put(&mut record, 0, &values.entities)?;
        put(&mut record, 1, &values.notes)?;
        let body = record.get(PREFIX..).unwrap_or_default();
        if body.len() > LONGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let (length, sum) = (body.len() as u32, self.checksum(body));
        for (place, byte) in
            record.iter_mut().zip([length.to_le_bytes(), sum.to_le_bytes()].as_flattened())
        {
            *place = *byte;
        }
        let end = self.at + record.len() as u64;
        record.extend(END);
        if end + PREFIX as u64 > self.len {
            let longer = (end + PREFIX as u64).next_multiple_of(STEP);
            write_at(&self.file, &vec![0; (longer - self.len) as usize], self.len)?;
            self.len = longer;
        }
        write_at(&self.file, &record, self.at)?;
        self.file.sync_data()?;
        self.at = end;
        Ok(())
    }

    /// Begins a fold: returns the generation of the records so far, to be stored with their values.
    /// Records from now on have the next one, so that they count whether or not the fold does.
    pub(super) fn begin_fold(&mut self) -> u64 {
        let folded = self.generation;
        self.generation = folded.saturating_add(1);
        folded
    }

    /// False if a fold should not wait: after an error, or because of its length.
    pub(super) fn takes_more(&self) -> bool {
        self.is_sound && self.at < LONGEST as u64
    }

    /// The fold has succeeded: the records so far are in the database.
    pub(super) fn folded(&mut self) {
        self.at = header_of(&self.timeline).len() as u64;
        self.is_sound = true;
        if self.len > KEPT {
            match self.file.set_len(KEPT) {
                Ok(()) => self.len = KEPT,
                Err(error) => tracing::debug!(%error, "the journal cannot be cut and stays long"),
            }
        }
    }

    /// Cuts a journal whose records are all in the database, and that is not written any more.
    pub(super) fn cut(&self) {
        if let Err(error) = self.file.set_len(header_of(&self.timeline).len() as u64) {
            tracing::debug!(%error, "the journal cannot be cut and stays long");
        }
    }

    fn checksum(&self, body: &[u8]) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(self.timeline.0.as_bytes());
        hasher.update(body);
        hasher.finalize()
    }
}

fn header_of(timeline: &Timeline) -> Vec<u8> {
    let name = timeline.0.as_bytes();
    let mut header = MAGIC.to_vec();
    header.push(name.len() as u8);
    header.extend(name);
    header
}

fn put(record: &mut Vec<u8>, table: u8, values: &Values) -> io::Result<()> {
    let length = |bytes: &[u8]| -> io::Result<u32> {
        let length = u32::try_from(bytes.len()).ok().filter(|length| *length != REMOVED);
        length.ok_or_else(|| io::ErrorKind::FileTooLarge.into())
    };
    for (key, value) in values {
        record.push(table);
        record.extend(length(key)?.to_le_bytes());
        record.extend(key);
        match value {
            Some(value) => {
                record.extend(length(value)?.to_le_bytes());
                record.extend(value);
            }
            None => record.extend(REMOVED.to_le_bytes()),
        }
    }
    Ok(())
}

/// The generation and the values of a body.
fn split(body: &[u8]) -> Option<(u64, &[u8])> {
    let (generation, values) = body.split_first_chunk()?;
    Some((u64::from_le_bytes(*generation), values))
}

fn batch(mut rest: &[u8]) -> Option<Batch> {
    let mut found = Batch::default();
    while let Some((table, after)) = rest.split_first() {
        let (length, after) = after.split_first_chunk()?;
        let (key, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let (length, after) = after.split_first_chunk()?;
        let (value, after) = match u32::from_le_bytes(*length) {
            REMOVED => (None, after),
            length => {
                let (value, after) = after.split_at_checked(length as usize)?;
                (Some(value.to_vec()), after)
            }
        };
        let values = match table {
            0 => &mut found.entities,
            1 => &mut found.notes,
            _ => return None,
        };
        values.insert(key.to_vec(), value);
        rest = after;
    }
    Some(found)
}

#[cfg(unix)]
fn read_at(file: &File, into: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, into, at)
}

#[cfg(unix)]
fn write_at(file: &File, data: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, data, at)
}

#[cfg(not(unix))]
fn read_at(mut file: &File, into: &mut [u8], at: u64) -> io::Result<()> {
    use io::{Read as _, Seek as _};
    file.seek(io::SeekFrom::Start(at))?;
    file.read_exact(into)
}

#[cfg(not(unix))]
fn write_at(mut file: &File, data: &[u8], at: u64) -> io::Result<()> {
    use io::{Seek as _, Write as _};
    file.seek(io::SeekFrom::Start(at))?;
    file.write_all(data)
}
