//! Live state: kept in memory until a thread has written it, within 250 ms.
//!
//! The thread writes to the journal when a caller waits for the disk, and to the database otherwise.
//! Values of the journal are brought into the database 2 s later at the latest.

mod opened;
mod queue;

use std::io;
use std::ops::Bound::{Excluded, Included};
use std::ops::Range;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use redb::{ReadableDatabase, TableDefinition};
use weft_model::{Entity, Id, Kind};

use self::opened::{Found, open_journal};
use self::queue::{Pending, Queue, Settled};
use super::failure::Failure;
use super::file::Shared;
#[cfg(test)]
use super::journal::JournalFault;
use super::journal::{Batch, Values};
use super::tables::{LIVE, NOTES};
use crate::{CommitError, LiveStore, OpenError, ReadError, Space, codec};

/// Writes live state in the background.
#[derive(Debug)]
pub(crate) struct LiveWriter {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
    /// The fault of the journal that was found when the store was opened.
    #[cfg(test)]
    pub(super) fault: Option<JournalFault>,
}

impl LiveWriter {
    /// Starts the thread. A store that is not a file in a folder has no journal.
    pub(super) fn start(shared: Arc<Shared>, has_journal: bool) -> Result<Self, OpenError> {
        let io = |error: io::Error| OpenError::Io { path: shared.path().to_owned(), error };
        let found = if has_journal { open_journal(&shared)? } else { Found::default() };
        let Found { journal, values: journaled, is_open, unread, .. } = found;
        let queue = Arc::new(Queue::new(journaled, journal.is_some()));
        let run = { (shared.clone(), queue.clone()) };
        let thread = thread::Builder::new().name("weft-store-live".into());
        let thread = thread.spawn(move || run.1.run(&run.0, journal, (is_open, unread)));
        Ok(Self {
            thread: Some(thread.map_err(io)?),
            queue,
            shared,
            #[cfg(test)]
            fault: found.fault,
        })
    }

    fn push(&self, put: impl FnOnce(&mut Pending)) {
        let mut pending = self.queue.pending.lock();
        put(&mut pending);
        pending.put += 1;
        self.queue.wake.notify_one();
    }

    /// Values of a range of keys: from the table, overridden by those that the thread has taken,
    /// overridden by those that wait.
    fn values(
        &self,
        table: TableDefinition<'_, &'static [u8], &'static [u8]>,
        range: Range<&[u8]>,
        pick: impl Fn(&Batch) -> &Values,
    ) -> Result<Values, Failure> {
        let within = |batch: &Batch| -> Values {
            let within = pick(batch).range::<[u8], _>((Included(range.start), Excluded(range.end)));
            within.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        // Locked in the order in which values move, so that none is missed.
        let pending = self.queue.pending.lock();
        let taken = self.queue.taken.lock();
        let newest = within(&pending.values);
        let (journaled, writing) = (taken.journaled.clone(), Arc::clone(&taken.writing));
        drop((pending, taken));
        let older = journaled.iter().chain([&writing]).map(|batch| within(batch));
        let newer: Vec<Values> = older.chain([newest]).collect();
        let mut all = Values::new();
        self.shared.look(|database| {
            let transaction = database.begin_read()?;
            for entry in transaction.open_table(table)?.range(range.clone())? {
                let (key, value) = entry?;
                all.insert(key.value().to_vec(), Some(value.value().to_vec()));
            }
            Ok(())
        })?;
        all.extend(newer.into_iter().flatten());
        all.retain(|_, value| value.is_some());
        Ok(all)
    }

    /// The sealed value of one note.
    fn sealed_note(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let newer = {
            let pending = self.queue.pending.lock();
            let taken = self.queue.taken.lock();
            let journaled = taken.journaled.iter().rev().map(|batch| &**batch);
            let mut newest_first = [&pending.values, &*taken.writing].into_iter().chain(journaled);
            newest_first.find_map(|batch| batch.notes.get(key)).cloned()
        };
        if let Some(newer) = newer {
            return Ok(newer);
        }
        self.shared.look(|database| {
            let transaction = database.begin_read()?;
            let found = transaction.open_table(NOTES)?.get(key)?;
            Ok(found.map(|sealed| sealed.value().to_vec()))
        })
    }

    /// Waits until `is_done`, or until a try has failed that was `asked` for with these writes.
    async fn settled(
        &self,
        ask: impl FnOnce(&mut Pending),
        is_done: impl Fn(&Settled, u64) -> bool,
    ) -> Result<(), CommitError> {
        let mut settled = self.queue.settled.subscribe();
        let put = {
            let mut pending = self.queue.pending.lock();
            if is_done(&settled.borrow_and_update(), pending.put) {
                return Ok(());
            }
            ask(&mut pending);
            self.queue.wake.notify_one();
            pending.put
        };
        // While writing pauses, the caller gets the failure at once.
        let now = settled.borrow().clone();
        if now.outcome.is_err() && !now.can_append && !self.shared.writing_pause().is_zero() {
            return now.outcome;
        }
        loop {
            if settled.changed().await.is_err() {
                return Err(CommitError::Unavailable("the store was closed".into()));
            }
            let now = settled.borrow_and_update().clone();
            if is_done(&now, put) {
                return Ok(());
            }
            if now.tried >= put && now.outcome.is_err() {
                return now.outcome;
            }
        }
    }

    /// Waits until the database contains everything put so far.
    pub(super) async fn fold(&self) -> Result<(), CommitError> {
        self.settled(|pending| pending.fold = true, |now, put| now.in_database >= put).await
    }

    /// [`LiveWriter::fold`], after which the journal is not touched any more.
    pub(super) async fn close(&self) -> Result<(), CommitError> {
        let folded = self.fold().await;
        let ask = |pending: &mut Pending| pending.close = true;
        let closed = self.settled(ask, |now, _| now.is_closed).await;
        folded.and(closed)
    }
}

impl LiveStore for LiveWriter {
    fn put(&self, entity: Entity) {
        let key = codec::row_key(entity.kind(), entity.id());
        let sealed = codec::seal_row(&key, &entity);
        self.push(|pending| {
            pending.values.entities.insert(key, Some(sealed));
        });
    }

    fn delete(&self, kind: Kind, id: &Id) {
        let key = codec::row_key(kind, id);
        self.push(|pending| {
            pending.values.entities.insert(key, None);
        });
    }

    fn load(&self, entities: &mut dyn FnMut(Entity)) -> Result<(), ReadError> {
        let all = &[][..]..&[u8::MAX; 3][..];
        let values = self.values(LIVE, all, |batch| &batch.entities)?;
        for (key, sealed) in values {
            let sealed = sealed.unwrap_or_default();
            entities(codec::unseal_row(&key, &sealed).map_err(Failure::from)?);
        }
        Ok(())
    }

    fn put_notes(&self, space: Space, notes: Vec<(String, Option<Bytes>)>) {
        let sealed: Vec<_> = notes
            .into_iter()
            .map(|(key, value)| {
                let key = codec::note_key(space.0, &key);
                let sealed = value.map(|value| codec::seal(&key, &value));
                (key, sealed)
            })
            .collect();
        // The thread takes all values that wait at once, and writes them in one record or transaction.
        self.push(|pending| pending.values.notes.extend(sealed));
    }

    fn note(&self, space: Space, key: &str) -> Result<Option<Bytes>, ReadError> {
        let key = codec::note_key(space.0, key);
        let Some(sealed) = self.sealed_note(&key)? else { return Ok(None) };
        let value = codec::unseal("note", &key, &sealed).map_err(Failure::from)?;
        Ok(Some(Bytes::copy_from_slice(value)))
    }

    fn notes(&self, space: Space) -> Result<Vec<(String, Bytes)>, ReadError> {
        let first @ [high, low] = space.0.to_be_bytes();
        // No key has this byte, so that the last space has an end too.
        let behind = [high, low, u8::MAX];
        let of_space = &first[..]..&behind[..];
        let values = self.values(NOTES, of_space, |batch| &batch.notes)?;
        let read = |(key, sealed): (Vec<u8>, Option<Vec<u8>>)| {
            let sealed = sealed.unwrap_or_default();
            let value = codec::unseal("note", &key, &sealed).map_err(Failure::from)?;
            let (_, name) = codec::split_key(&key).map_err(Failure::from)?;
            Ok((name.to_owned(), Bytes::copy_from_slice(value)))
        };
        values.into_iter().map(read).collect()
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), CommitError>> {
        self.settled(|pending| pending.hurry = true, |now, put| now.on_disk >= put).boxed()
    }
}

impl Drop for LiveWriter {
    fn drop(&mut self) {
        self.queue.pending.lock().stop = true;
        self.queue.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
