//! The file as a copy of a shared log: change sets of several batches at once, the digest of the log, and the
//! replacement of everything by a checkpoint.

use redb::ReadableDatabase as _;
use weft_model::Revision;

use super::failure::Failure;
use super::file::{self, Shared};
use super::load;
use super::tables::{COLD, LOG, META, ROWS, TALLIES};
use crate::codec;
use crate::replica::{Checkpoint, LogDigest, SharedLogEntry};

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

    /// Replaces rows, cold fields and log by a checkpoint of the shared log.
    pub(crate) fn replace(&self, by: &Checkpoint) -> Result<(), Failure> {
        self.check_writing()?;
        let prepared = self.with(|database| {
            let transaction = file::begin(database)?;
            transaction.delete_table(ROWS)?;
            transaction.delete_table(TALLIES)?;
            transaction.delete_table(COLD)?;
            transaction.delete_table(LOG)?;
            let content = (&by.head, by.rows.as_slice(), by.cold.as_slice());
            file::fill(&transaction, &by.head, |into| file::put_rows(into, content.1, content.2))?;
            super::log::recount(&transaction)?;
            write_digest(&transaction, by.head.revision, by.digest)?;
            Ok(transaction.commit())
        });
        let committed = prepared.map_err(|failure| self.failed_to_write(failure))?;
        self.finish_copy(by.head.revision, committed.map_err(Failure::from))
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
            let Some(sealed) = transaction.open_table(META)?.get(DIGEST)? else { return Ok(None) };
            let value = codec::unseal("digest", DIGEST.as_bytes(), sealed.value())?;
            let known = value.split_first_chunk().and_then(|(revision, digest)| {
                Some((u64::from_be_bytes(*revision), LogDigest(*digest.first_chunk()?)))
            });
            Ok(known.filter(|(of, _)| *of == head.revision.0).map(|(_, digest)| digest))
        })
    }
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
