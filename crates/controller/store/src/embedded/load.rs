//! Reading the file: rows with all checks, cold fields, the kept part of the log.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use redb::{ReadTransaction, ReadableDatabase, ReadableTable};
use tokio::sync::watch;
use weft_model::{ChangeSet, ColdField, Entity, Id, Kind, Revision};

use super::failure::Failure;
use super::file::{self, Shared};
use super::tables::{COLD, LOG, ROWS, TALLIES};
use crate::codec::{self, Tally};
use crate::follow::History;
use crate::{BatchId, Committed, Damage, FollowError, Head, ReadError};

pub(super) fn required_head(transaction: &ReadTransaction) -> Result<Head, Failure> {
    let head = file::read_head(transaction)?;
    Ok(head.ok_or_else(|| Damage::new("head", "it is missing"))?)
}

/// Passes every row on after checking it; checks the tallies and the end of the log.
pub(super) fn load(
    transaction: &ReadTransaction,
    rows: &mut dyn FnMut(Entity),
) -> Result<Head, Failure> {
    let head = required_head(transaction)?;
    let mut counted = BTreeMap::<u16, Tally>::new();
    for entry in transaction.open_table(ROWS)?.iter()? {
        let (key, sealed) = entry?;
        let (key, sealed) = (key.value(), sealed.value());
        let entity = codec::unseal_row(key, sealed)?;
        counted.entry(entity.kind().code()).or_default().add(key, sealed);
        rows(entity);
    }
    for entry in transaction.open_table(TALLIES)?.iter()? {
        let (code, tally) = entry?;
        let (code, tally) = (code.value(), Tally::from_bytes(tally.value())?);
        if counted.remove(&code).unwrap_or_default() != tally {
            return Err(tally_damage(code, tally).into());
        }
    }
    if let Some((code, _)) = counted.first_key_value() {
        return Err(tally_damage(*code, Tally::default()).into());
    }
    let last = transaction.open_table(LOG)?.last()?.map(|(revision, _)| revision.value());
    if last.is_some_and(|last| last != head.revision.0) {
        return Err(Damage::new("log", "it does not end at the head").into());
    }
    Ok(head)
}

pub(super) fn tally_damage(code: u16, tally: Tally) -> Damage {
    let kind = Kind::from_code(code).map_or("unknown kind", Kind::name);
    let reason = format!("rows are missing or changed: there should be {}", tally.count);
    Damage::new(format!("the rows of {kind}"), reason)
}

/// The encoded log entry of a revision.
pub(super) fn seal_log(revision: Revision, batch: BatchId, set: &ChangeSet) -> Vec<u8> {
    let mut value = batch.0.to_le_bytes().to_vec();
    value.extend(set.to_bytes());
    codec::seal(&revision.0.to_be_bytes(), &value)
}

pub(super) fn unseal_log(revision: u64, sealed: &[u8]) -> Result<(BatchId, &[u8]), Damage> {
    let value = codec::unseal("log entry", &revision.to_be_bytes(), sealed)?;
    let Some((batch, set)) = value.split_first_chunk() else {
        return Err(Damage::new(format!("log entry {revision}"), "it is cut short"));
    };
    Ok((BatchId(u128::from_le_bytes(*batch)), set))
}

impl Shared {
    pub(super) fn load(&self, rows: &mut dyn FnMut(Entity)) -> Result<Head, Failure> {
        self.with(|database| load(&database.begin_read()?, rows))
    }

    pub(super) fn cold(
        &self,
        kind: Kind,
        id: &Id,
        field: ColdField,
    ) -> Result<Option<Bytes>, Failure> {
        let key = codec::cold_key(kind, id, field.code());
        self.look(|database| {
            let transaction = database.begin_read()?;
            let Some(sealed) = transaction.open_table(COLD)?.get(key.as_slice())? else {
                return Ok(None);
            };
            let value = codec::unseal("cold field", &key, sealed.value())?;
            Ok(Some(Bytes::copy_from_slice(value)))
        })
    }

    /// The last revision of a batch, if the log has the batch.
    pub(crate) fn find_batch(&self, batch: BatchId) -> Result<Option<Revision>, Failure> {
        self.read(|database| {
            let transaction = database.begin_read()?;
            for entry in transaction.open_table(LOG)?.iter()?.rev() {
                let (revision, sealed) = entry?;
                if unseal_log(revision.value(), sealed.value())?.0 == batch {
                    return Ok(Some(Revision(revision.value())));
                }
            }
            Ok(None)
        })
    }

    /// The first revision that the log has; the one after the head, if it has none.
    pub(crate) fn log_begins(&self) -> Result<Revision, Failure> {
        self.read(|database| {
            let transaction = database.begin_read()?;
            let first = transaction.open_table(LOG)?.first()?.map(|(first, _)| first.value());
            let head = required_head(&transaction)?.revision;
            Ok(first.map_or(head.next(), Revision))
        })
    }

    fn history(&self, after: Revision, most: usize) -> Result<Vec<Committed>, HistoryFailure> {
        self.read(|database| {
            let transaction = database.begin_read()?;
            let head = required_head(&transaction)?.revision;
            if after > head {
                return Ok(Err(FollowError::Ahead { head }));
            }
            let log = transaction.open_table(LOG)?;
            let oldest = log.first()?.map_or(head.next(), |(first, _)| Revision(first.value()));
            if after.next() < oldest {
                return Ok(Err(FollowError::TooOld { oldest }));
            }
            let mut found = Vec::new();
            let mut expected = after;
            for entry in log.range(after.next().0..)?.take(most) {
                let (revision, sealed) = entry?;
                let revision = Revision(revision.value());
                expected = expected.next();
                if revision != expected {
                    return Err(missing(expected));
                }
                let (_, set) = unseal_log(revision.0, sealed.value())?;
                let change_set = ChangeSet::from_bytes(set).map_err(Failure::Row)?;
                found.push(Committed { revision, change_set: Arc::new(change_set) });
            }
            if found.len() < most && expected < head {
                return Err(missing(expected.next()));
            }
            Ok(Ok(found))
        })
        .map_err(HistoryFailure::File)?
        .map_err(HistoryFailure::Follow)
    }
}

/// Damage, because a caller that waited for this entry would wait for ever.
fn missing(revision: Revision) -> Failure {
    Damage::new(format!("log entry {}", revision.0), "it is missing").into()
}

enum HistoryFailure {
    File(Failure),
    Follow(FollowError),
}

impl History for Shared {
    fn read(&self, after: Revision, most: usize) -> Result<Vec<Committed>, FollowError> {
        self.history(after, most).map_err(|failure| match failure {
            HistoryFailure::File(failure) => ReadError::from(failure).into(),
            HistoryFailure::Follow(error) => error,
        })
    }

    fn heads(&self) -> watch::Receiver<Revision> {
        self.heads.subscribe()
    }
}
