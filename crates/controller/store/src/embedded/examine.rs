//! Examining and mending the file.

use std::collections::{BTreeMap, BTreeSet};

use redb::{Database, ReadTransaction, ReadableTable, TableDefinition, WriteTransaction};
use weft_model::Revision;

use super::failure::{Failure, guarded};
use super::file::{self, Shared};
use super::tables::{COLD, LIVE, LOG, META, NOTES, ROWS, TALLIES};
use super::{load, log};
use crate::codec::{self, RowFault, Tally};
use crate::{
    Damage, Examination, ExaminationItem, Head, Mend, ReadError, StoreLocation, StoredFault,
};

/// Temporary table, into which a table is copied when entries are dropped from it.
const MENDING: Bytewise = TableDefinition::new("mending");

/// An examination: one read transaction.
pub(super) struct Reading {
    transaction: ReadTransaction,
    head: Head,
}

impl Shared {
    pub(super) fn examine(&self) -> Result<Reading, Failure> {
        self.read(|database: &Database| {
            use redb::ReadableDatabase as _;
            let transaction = database.begin_read()?;
            let head = load::required_head(&transaction)?;
            Ok(Reading { transaction, head })
        })
    }

    /// Applies repairs in one transaction, if the head is `base`. The head stays.
    pub(super) fn mend(&self, base: Revision, mends: &[Mend]) -> Result<(), Failure> {
        self.write(|database| {
            let transaction = file::begin(database)?;
            let head = {
                let meta = transaction.open_table(META)?;
                file::head_of(&meta)?.ok_or_else(|| Damage::new("head", "it is missing"))?
            };
            if head.revision != base {
                return Err(Failure::Stale(head.revision));
            }
            drop_from(
                &transaction,
                ROWS,
                &keys(mends, |location| match location {
                    StoreLocation::Row(key) => Some(key),
                    _ => None,
                }),
            )?;
            drop_from(
                &transaction,
                COLD,
                &keys(mends, |location| match location {
                    StoreLocation::Cold(key) => Some(key),
                    _ => None,
                }),
            )?;
            drop_from(
                &transaction,
                LIVE,
                &keys(mends, |location| match location {
                    StoreLocation::Live(key) => Some(key),
                    _ => None,
                }),
            )?;
            drop_from(
                &transaction,
                NOTES,
                &keys(mends, |location| match location {
                    StoreLocation::Note(key) => Some(key),
                    _ => None,
                }),
            )?;
            if mends.contains(&Mend::Drop(StoreLocation::Log)) {
                transaction.delete_table(LOG)?;
                transaction.open_table(LOG)?;
                log::recount(&transaction)?;
            }
            put_rows(&transaction, mends)?;
            count_rows(&transaction)?;
            transaction.commit()?;
            Ok(())
        })
    }
}

type Bytewise = TableDefinition<'static, &'static [u8], &'static [u8]>;

/// The keys of a table that are dropped.
fn keys<'m>(
    mends: &'m [Mend],
    of_table: impl Fn(&'m StoreLocation) -> Option<&'m Vec<u8>>,
) -> BTreeSet<&'m [u8]> {
    let dropped = mends.iter().filter_map(|mend| match mend {
        Mend::Drop(location) => of_table(location),
        Mend::Put(_) => None,
    });
    dropped.map(Vec::as_slice).collect()
}

/// Copies a table without some of its entries. Removing them one by one fails: a key with a flipped
/// bit is out of order, so that a search does not find it.
fn drop_from(
    transaction: &WriteTransaction,
    table: Bytewise,
    dropped: &BTreeSet<&[u8]>,
) -> Result<(), Failure> {
    if dropped.is_empty() {
        return Ok(());
    }
    {
        let old = transaction.open_table(table)?;
        let mut new = transaction.open_table(MENDING)?;
        for entry in old.iter()? {
            let (key, value) = entry?;
            if !dropped.contains(key.value()) {
                new.insert(key.value(), value.value())?;
            }
        }
    }
    transaction.delete_table(table)?;
    transaction.rename_table(MENDING, table)?;
    Ok(())
}

fn put_rows(transaction: &WriteTransaction, mends: &[Mend]) -> Result<(), Failure> {
    let mut rows = transaction.open_table(ROWS)?;
    for mend in mends {
        let Mend::Put(entity) = mend else { continue };
        let key = codec::row_key(entity.kind(), entity.id());
        rows.insert(key.as_slice(), codec::seal_row(&key, entity).as_slice())?;
    }
    Ok(())
}

/// Counts the tallies of all rows again.
fn count_rows(transaction: &WriteTransaction) -> Result<(), Failure> {
    let mut counted = BTreeMap::<u16, Tally>::new();
    for entry in transaction.open_table(ROWS)?.iter()? {
        let (key, sealed) = entry?;
        let (code, _) = codec::split_key(key.value())?;
        counted.entry(code).or_default().add(key.value(), sealed.value());
    }
    transaction.delete_table(TALLIES)?;
    let mut tallies = transaction.open_table(TALLIES)?;
    for (code, tally) in counted {
        tallies.insert(code, tally.to_bytes().as_slice())?;
    }
    Ok(())
}

impl Examination for Reading {
    fn head(&self) -> &Head {
        &self.head
    }

    fn run(&self, seen: &mut dyn FnMut(ExaminationItem)) -> Result<(), ReadError> {
        let done = guarded(|| {
            self.rows(seen)?;
            self.log(seen)?;
            self.cold(seen)?;
            self.live(seen)?;
            self.notes(seen)
        });
        Ok(done?)
    }
}

impl Reading {
    fn rows(&self, seen: &mut dyn FnMut(ExaminationItem)) -> Result<(), Failure> {
        let mut counted = BTreeMap::<u16, Tally>::new();
        for entry in self.transaction.open_table(ROWS)?.iter()? {
            let (key, sealed) = entry?;
            let (key, sealed) = (key.value(), sealed.value());
            if let Ok((code, _)) = codec::split_key(key) {
                counted.entry(code).or_default().add(key, sealed);
            }
            match codec::unseal_row(key, sealed) {
                Ok(entity) => seen(ExaminationItem::Row(entity)),
                Err(fault) => seen(fault_at(StoreLocation::Row(key.to_vec()), fault)),
            }
        }
        for entry in self.transaction.open_table(TALLIES)?.iter()? {
            let (code, tally) = entry?;
            let code = code.value();
            let counted = counted.remove(&code).unwrap_or_default();
            match Tally::from_bytes(tally.value()) {
                Ok(tally) if tally == counted => {}
                Ok(tally) => seen(tally_fault(code, tally)),
                Err(damage) => seen(fault_at(StoreLocation::Tally(code), damage.into())),
            }
        }
        for code in counted.into_keys() {
            seen(tally_fault(code, Tally::default()));
        }
        Ok(())
    }

    /// The log has one fault at most, as it is dropped as a whole.
    fn log(&self, seen: &mut dyn FnMut(ExaminationItem)) -> Result<(), Failure> {
        let log = self.transaction.open_table(LOG)?;
        let mut last = None;
        let mut fault = None;
        for entry in log.iter()? {
            let (revision, sealed) = entry?;
            let revision = revision.value();
            let read = load::unseal_log(revision, sealed.value());
            fault = fault.or(read.err());
            last = Some(revision);
        }
        if last.is_some_and(|last| last != self.head.revision.0) {
            fault = fault.or(Some(Damage::new("log", "it does not end at the head")));
        }
        if let Some(damage) = fault {
            seen(fault_at(StoreLocation::Log, damage.into()));
        }
        Ok(())
    }

    fn cold(&self, seen: &mut dyn FnMut(ExaminationItem)) -> Result<(), Failure> {
        let rows = self.transaction.open_table(ROWS)?;
        for entry in self.transaction.open_table(COLD)?.iter()? {
            let (key, sealed) = entry?;
            let (key, sealed) = (key.value(), sealed.value());
            let location = || StoreLocation::Cold(key.to_vec());
            if let Err(damage) = codec::unseal("cold field", key, sealed) {
                seen(fault_at(location(), damage.into()));
                continue;
            }
            let owner = codec::cold_owner(key);
            if owner.is_none() || owner.is_some_and(|owner| !matches!(rows.get(owner), Ok(Some(_))))
            {
                let damage = Damage::new("a cold field", "its entity does not exist");
                seen(fault_at(location(), damage.into()));
            }
        }
        Ok(())
    }

    fn live(&self, seen: &mut dyn FnMut(ExaminationItem)) -> Result<(), Failure> {
        for entry in self.transaction.open_table(LIVE)?.iter()? {
            let (key, sealed) = entry?;
            if let Err(fault) = codec::unseal_row(key.value(), sealed.value()) {
                seen(fault_at(StoreLocation::Live(key.value().to_vec()), fault));
            }
        }
        Ok(())
    }

    fn notes(&self, seen: &mut dyn FnMut(ExaminationItem)) -> Result<(), Failure> {
        for entry in self.transaction.open_table(NOTES)?.iter()? {
            let (key, sealed) = entry?;
            if let Err(damage) = codec::unseal("note", key.value(), sealed.value()) {
                seen(fault_at(StoreLocation::Note(key.value().to_vec()), damage.into()));
            }
        }
        Ok(())
    }
}

fn fault_at(location: StoreLocation, fault: RowFault) -> ExaminationItem {
    let damage = match fault {
        RowFault::Damaged(damage) => damage,
        RowFault::Row(error) => Damage::new("a row", error),
    };
    ExaminationItem::Fault(StoredFault { location, damage })
}

fn tally_fault(code: u16, tally: Tally) -> ExaminationItem {
    ExaminationItem::Fault(StoredFault {
        location: StoreLocation::Tally(code),
        damage: load::tally_damage(code, tally),
    })
}

#[cfg(test)]
pub(crate) mod plant {
    //! Faults planted in a file, for tests.

    use super::*;
    use crate::BatchId;

    /// The table to write into, past every check.
    pub(crate) enum Into {
        Rows,
        Cold,
        Live,
        Notes,
    }

    impl Shared {
        pub(crate) fn plant(&self, into: &Into, key: &[u8], value: Option<&[u8]>) {
            let table = match into {
                Into::Rows => ROWS,
                Into::Cold => COLD,
                Into::Live => LIVE,
                Into::Notes => NOTES,
            };
            self.with(|database| {
                let transaction = file::begin(database)?;
                {
                    let mut table = transaction.open_table(table)?;
                    match value {
                        Some(value) => drop(table.insert(key, value)?),
                        None => drop(table.remove(key)?),
                    }
                }
                Ok(transaction.commit()?)
            })
            .unwrap();
        }

        pub(crate) fn plant_tally(&self, code: u16, tally: &[u8]) {
            self.with(|database| {
                let transaction = file::begin(database)?;
                transaction.open_table(TALLIES)?.insert(code, tally)?;
                Ok(transaction.commit()?)
            })
            .unwrap();
        }

        pub(crate) fn plant_log(&self, revision: u64, entry: &[u8]) {
            self.with(|database| {
                let transaction = file::begin(database)?;
                transaction.open_table(LOG)?.insert(revision, entry)?;
                Ok(transaction.commit()?)
            })
            .unwrap();
        }
    }

    /// An entry of the log, encoded.
    pub(crate) fn log_entry(revision: u64) -> Vec<u8> {
        load::seal_log(Revision(revision), BatchId(1), &weft_model::ChangeSet::default())
    }
}
