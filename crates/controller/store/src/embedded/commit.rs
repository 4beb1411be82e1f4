//! Commits: one batch is one transaction and one fsync.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use redb::{Database, ReadableTable, Table, WriteTransaction};
use weft_model::{Change, ChangeSet, Revision};

use super::failure::Failure;
use super::file::{self, Shared};
use super::load;
use super::log::Kept;
use super::tables::{COLD, HEAD, LOG, META, ROWS, TALLIES};
use crate::codec::{self, Tally};
use crate::{BatchId, Damage, Head};

impl Shared {
    /// Commits a batch if the head is `base`.
    pub(super) fn commit(
        &self,
        base: Revision,
        sets: &[Arc<ChangeSet>],
        batch: BatchId,
    ) -> Result<Revision, Failure> {
        // Locked until the commit is done: `settle` waits for it.
        let barred = self.barred.lock();
        if let Err(error) = barred.check(batch) {
            return Err(Failure::Unavailable(error.to_string()));
        }
        self.check_writing()?;
        let prepared = self.with(|database| {
            let sets: Vec<_> = sets.iter().map(|set| (batch, &**set)).collect();
            let (transaction, head) = self.prepare(database, base, &sets)?;
            Ok((head, transaction.commit()))
        });
        let (head, committed) = prepared.map_err(|failure| self.failed_to_write(failure))?;
        let committed = committed.map_err(Failure::from);
        self.note_writing(committed.as_ref());
        if let Err(failure) = committed {
            self.settle_here(batch, failure)?;
        }
        self.heads.send_replace(head.revision);
        Ok(head.revision)
    }

    /// The last revision of a batch; `None` if it is not in the log, and it is barred from then on.
    pub(super) fn settle(&self, batch: BatchId) -> Result<Option<Revision>, Failure> {
        let mut barred = self.barred.lock();
        let found = self.find_batch(batch)?;
        if found.is_none() {
            barred.bar(batch);
        }
        Ok(found)
    }

    /// A failed commit may have reached the disk: opens the file again and looks for the batch.
    fn settle_here(&self, batch: BatchId, failure: Failure) -> Result<(), Failure> {
        self.mark_broken();
        match self.find_batch(batch) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(failure),
            Err(_) if matches!(failure, Failure::Damaged(_)) => Err(failure),
            Err(error) => {
                let reason = crate::ReadError::from(error).to_string();
                Err(Failure::Unknown(batch, reason))
            }
        }
    }

    /// Writes change sets, each with its batch, into a transaction, which is left to be committed.
    pub(super) fn prepare(
        &self,
        database: &Database,
        base: Revision,
        sets: &[(BatchId, &ChangeSet)],
    ) -> Result<(WriteTransaction, Head), Failure> {
        let transaction = file::begin(database)?;
        let mut meta = transaction.open_table(META)?;
        let sealed = meta.get(HEAD)?.map(|sealed| sealed.value().to_vec());
        let sealed = sealed.ok_or_else(|| Damage::new("head", "it is missing"))?;
        let mut head = Head::from_bytes(codec::unseal("head", HEAD.as_bytes(), &sealed)?)?;
        if head.revision != base {
            return Err(Failure::Stale(head.revision));
        }
        let mut rows = Rows {
            rows: transaction.open_table(ROWS)?,
            tallies: transaction.open_table(TALLIES)?,
            cold: transaction.open_table(COLD)?,
            changed: BTreeMap::new(),
        };
        let mut log = transaction.open_table(LOG)?;
        let mut kept = Kept::read(&meta, &log, base)?;
        for (batch, set) in sets {
            (head.revision, head.batch) = (head.revision.next(), *batch);
            head.format = head.format.max(set.format);
            set.changes.iter().try_for_each(|change| rows.apply(change))?;
            let entry = load::seal_log(head.revision, *batch, set);
            kept.append(&mut log, head.revision, &entry)?;
        }
        kept.finish((&mut meta, &mut log), &self.options, (base, head.revision))?;
        rows.finish()?;
        file::write_head(&mut meta, &head)?;
        drop((meta, log, rows));
        Ok((transaction, head))
    }
}

/// The rows within the transaction of a batch.
struct Rows<'t> {
    rows: Table<'t, &'static [u8], &'static [u8]>,
    tallies: Table<'t, u16, &'static [u8]>,
    cold: Table<'t, &'static [u8], &'static [u8]>,
    /// Tallies of the kinds that the batch has changed so far.
    changed: BTreeMap<u16, Tally>,
}

impl Rows<'_> {
    fn apply(&mut self, change: &Change) -> Result<(), Failure> {
        let (kind, id) = (change.kind(), change.id());
        let key = codec::row_key(kind, id);
        match change {
            Change::Put(entity) => {
                let sealed = codec::seal_row(&key, entity);
                let tally = tally(&mut self.changed, &self.tallies, kind.code())?;
                if let Some(old) = self.rows.insert(key.as_slice(), sealed.as_slice())? {
                    tally.remove(&key, old.value());
                }
                tally.add(&key, &sealed);
            }
            Change::Delete(..) => {
                let tally = tally(&mut self.changed, &self.tallies, kind.code())?;
                if let Some(old) = self.rows.remove(key.as_slice())? {
                    tally.remove(&key, old.value());
                }
                let (from, to) = codec::cold_range(kind, id);
                self.cold.retain_in(from.as_slice()..to.as_slice(), |_, _| false)?;
            }
            Change::Cold { field, value, .. } => {
                let key = codec::cold_key(kind, id, field.code());
                match value {
                    Some(value) => {
                        self.cold.insert(key.as_slice(), codec::seal(&key, value).as_slice())?
                    }
                    None => self.cold.remove(key.as_slice())?,
                };
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        for (code, tally) in &self.changed {
            self.tallies.insert(*code, tally.to_bytes().as_slice())?;
        }
        Ok(())
    }
}

/// Tally of a kind, with the changes so far.
fn tally<'a>(
    changed: &'a mut BTreeMap<u16, Tally>,
    stored: &Table<'_, u16, &'static [u8]>,
    code: u16,
) -> Result<&'a mut Tally, Failure> {
    match changed.entry(code) {
        Entry::Occupied(known) => Ok(known.into_mut()),
        Entry::Vacant(new) => {
            let tally = stored.get(code)?.map(|bytes| Tally::from_bytes(bytes.value()));
            Ok(new.insert(tally.transpose()?.unwrap_or_default()))
        }
    }
}
