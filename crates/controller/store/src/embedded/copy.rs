//! The file as a copy of a shared log: change sets of several batches at once, the digest of the log, and the
//! replacement of everything by a checkpoint.

use std::collections::BTreeMap;

use bytes::Bytes;
use redb::{ReadTransaction, ReadableDatabase as _, ReadableTable as _};
use weft_model::{Entity, Id, Kind, Revision};

use super::failure::Failure;
use super::file::{self, Shared};
use super::load;
use super::tables::{COLD, LOG, META, ROWS, TALLIES};
use crate::Head;
use crate::codec::{self, Tally};
use crate::replica::chunk::{self, ChunkTable, ChunkWriter};
use crate::replica::spool::Spool;
use crate::replica::{LogDigest, SharedLogEntry};

/// Key in `meta` of a revision and the digest of the shared log at it. It counts while the head has that revision.
const DIGEST: &str = "digest";

impl Shared {
    /// Appends change sets of the shared log after `base`, and notes its digest.
    pub(crate) fn append(&self, base: Revision, entries: &[SharedLogEntry]) -> Result<(), Failure> {
        let Some(last) = entries.last() else { return Ok(()) };
        self.check_writing()?;
        let sets: Vec<_> = entries.iter().map(|entry| (entry.batch, &*entry.change_set)).collect();
        let prepared = self.with(|database| {
            let (transaction, _) = self.prepare(database, base, &sets)?;
            write_digest(&transaction, last.revision, last.digest)?;
            Ok(transaction.commit())
        });
        let committed = prepared.map_err(|failure| self.failed_to_write(failure))?;
        self.finish_copy(last.revision, committed.map_err(Failure::from))
    }

    /// Notes the digest of a shared log that begins with what the file has.
    pub(crate) fn note_digest(&self, digest: LogDigest) -> Result<(), Failure> {
        self.check_writing()?;
        let end = self.head()?.revision;
        let prepared = self.with(|database| {
            let transaction = file::begin(database)?;
            write_digest(&transaction, end, digest)?;
            Ok(transaction.commit())
        });
        let committed = prepared.map_err(|failure| self.failed_to_write(failure))?;
        self.finish_copy(end, committed.map_err(Failure::from))
    }

    /// The row of an entity, if there is one.
    pub(crate) fn row(&self, kind: Kind, id: &Id) -> Result<Option<Entity>, Failure> {
        let key = codec::row_key(kind, id);
        let sealed = self.look(|database| {
            // What is found is copied before the transaction ends: then a commit may free its page.
            let transaction = database.begin_read()?;
            let table = transaction.open_table(ROWS)?;
            let found = table.get(key.as_slice())?.map(|sealed| sealed.value().to_vec());
            Ok(found)
        })?;
        Ok(sealed.map(|sealed| codec::unseal_row(&key, &sealed)).transpose()?)
    }

    /// Replaces rows, cold fields and log by a checkpoint of the shared log.
    pub(crate) fn replace(
        &self,
        head: &Head,
        digest: LogDigest,
        parts: Spool,
    ) -> Result<(), Failure> {
        self.check_writing()?;
        let prepared = self.with(|database| {
            let transaction = file::begin(database)?;
            transaction.delete_table(ROWS)?;
            transaction.delete_table(TALLIES)?;
            transaction.delete_table(COLD)?;
            transaction.delete_table(LOG)?;
            file::fill(&transaction, head, |into| {
                let mut tallies = BTreeMap::<u16, Tally>::new();
                parts.read(|part| put_chunk(into, &mut tallies, part))?;
                for (code, tally) in tallies {
                    into.tallies.insert(code, tally.to_bytes().as_slice())?;
                }
                Ok(())
            })?;
            super::log::recount(&transaction)?;
            write_digest(&transaction, head.revision, digest)?;
            Ok(transaction.commit())
        });
        let committed = prepared.map_err(|failure| self.failed_to_write(failure))?;
        self.finish_copy(head.revision, committed.map_err(Failure::from))
    }

    /// Passes everything at the present head on in parts, until `chunk` wants no more. `begin` gets the head first.
    pub(crate) fn checkpoint(
        &self,
        begin: impl FnOnce(Head, LogDigest) -> bool,
        mut chunk: impl FnMut(Bytes) -> bool,
    ) -> Result<(), Failure> {
        let transaction = self.read(|database| Ok(database.begin_read()?))?;
        let head = load::required_head(&transaction)?;
        let Some(digest) = digest_at(&transaction, head.revision)? else {
            return Err(Failure::Unavailable("the digest of the copy is not known".to_owned()));
        };
        if !begin(head, digest) {
            return Ok(());
        }
        let mut writer = ChunkWriter::default();
        for (name, table) in [(ChunkTable::Rows, ROWS), (ChunkTable::Cold, COLD)] {
            for entry in transaction.open_table(table)?.iter()? {
                let (key, value) = entry?;
                let full = writer.put(name, key.value(), value.value());
                if full.is_some_and(|full| !chunk(full)) {
                    return Ok(());
                }
            }
        }
        writer.finish().map(chunk);
        Ok(())
    }

    /// A commit that failed may have reached the disk: the file is opened again, and its head tells.
    fn finish_copy(&self, end: Revision, committed: Result<(), Failure>) -> Result<(), Failure> {
        self.note_writing(committed.as_ref());
        if let Err(failure) = committed {
            self.mark_broken();
            if self.head()?.revision != end {
                return Err(failure);
            }
        }
        self.heads.send_replace(end);
        Ok(())
    }

    /// The digest of the shared log at the head, if it is known.
    pub(crate) fn digest(&self) -> Result<Option<LogDigest>, Failure> {
        self.read(|database| {
            let transaction = database.begin_read()?;
            let head = load::required_head(&transaction)?;
            digest_at(&transaction, head.revision)
        })
    }
}

/// The digest that is stored for a revision, if one is. A log without changes has the empty one.
fn digest_at(
    transaction: &ReadTransaction,
    revision: Revision,
) -> Result<Option<LogDigest>, Failure> {
    if revision == Revision::default() {
        return Ok(Some(LogDigest::default()));
    }
    let Some(sealed) = transaction.open_table(META)?.get(DIGEST)? else { return Ok(None) };
    let value = codec::unseal("digest", DIGEST.as_bytes(), sealed.value())?;
    let known = value.split_first_chunk().and_then(|(of, digest)| {
        Some((u64::from_be_bytes(*of), LogDigest(*digest.first_chunk()?)))
    });
    Ok(known.filter(|(of, _)| *of == revision.0).map(|(_, digest)| digest))
}

/// Writes the items of a part of a checkpoint.
fn put_chunk(
    into: &mut file::Tables<'_>,
    tallies: &mut BTreeMap<u16, Tally>,
    chunk: &[u8],
) -> Result<(), Failure> {
    for item in chunk::items(chunk) {
        let (table, key, sealed) = item?;
        codec::unseal("row", key, sealed)?;
        match table {
            ChunkTable::Rows => {
                tallies.entry(codec::split_key(key)?.0).or_default().add(key, sealed);
                into.rows.insert(key, sealed)?;
            }
            ChunkTable::Cold => {
                into.cold.insert(key, sealed)?;
            }
        }
    }
    Ok(())
}

fn write_digest(
    transaction: &redb::WriteTransaction,
    revision: Revision,
    digest: LogDigest,
) -> Result<(), Failure> {
    let value = [revision.0.to_be_bytes().as_slice(), &digest.0].concat();
    let sealed = codec::seal(DIGEST.as_bytes(), &value);
    transaction.open_table(META)?.insert(DIGEST, sealed.as_slice())?;
    Ok(())
}
