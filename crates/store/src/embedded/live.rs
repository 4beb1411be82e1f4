//! Live state: kept in memory until a thread has written it, within 250 ms.

use std::{
    collections::BTreeMap,
    io,
    ops::{
        Bound::{Excluded, Included},
        Range,
    },
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use parking_lot::{Condvar, Mutex};
use redb::{Database, ReadableDatabase, TableDefinition};
use tokio::sync::watch;
use weft_model::{Entity, Id, Kind};

use super::{
    failure::Failure,
    file::{self, Shared},
    tables::{LIVE, NOTES},
};
use crate::{CommitError, Live, OpenError, ReadError, Space, codec};

/// Longest wait of a write for others to join it.
const DELAY: Duration = Duration::from_millis(250);
/// Shortest pause after a write that failed.
const RETRY: Duration = Duration::from_secs(1);

/// Sealed values by key; `None` removes the key.
type Values = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Values that the thread has not taken yet.
#[derive(Debug, Default)]
struct Pending {
    entities: Values,
    notes: Values,
    /// Number of writes so far.
    put: u64,
    /// True if a caller waits for the disk.
    hurry: bool,
    stop: bool,
}

#[derive(Debug)]
struct Queue {
    /// Values since the thread last took them.
    pending: Mutex<Pending>,
    /// Values that the thread is writing. Reads look here too.
    writing: Mutex<(Values, Values)>,
    wake: Condvar,
    /// Number of writes that were tried on the disk, and the result.
    settled: watch::Sender<(u64, Result<(), CommitError>)>,
}

/// Writes live state in the background.
#[derive(Debug)]
pub(crate) struct Writer {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(shared: Arc<Shared>) -> Result<Self, OpenError> {
        let queue = Arc::new(Queue {
            pending: Mutex::default(),
            writing: Mutex::default(),
            wake: Condvar::new(),
            settled: watch::Sender::new((0, Ok(()))),
        });
        let run = { (shared.clone(), queue.clone()) };
        let thread = thread::Builder::new().name("weft-store-live".into());
        let thread = thread.spawn(move || run.1.run(&run.0));
        let io = |error: io::Error| OpenError::Io { path: shared.path().to_owned(), error };
        Ok(Self { thread: Some(thread.map_err(io)?), queue, shared })
    }

    fn push(&self, put: impl FnOnce(&mut Pending)) {
        let mut pending = self.queue.pending.lock();
        put(&mut pending);
        pending.put += 1;
        self.queue.wake.notify_one();
    }

    /// Values of a range of keys: from the table, overridden by those being written, overridden by
    /// those that wait.
    fn values(
        &self,
        table: TableDefinition<'_, &'static [u8], &'static [u8]>,
        range: Range<&[u8]>,
        pick: impl Fn(&(Values, Values)) -> &Values,
        waiting: impl Fn(&Pending) -> &Values,
    ) -> Result<Values, Failure> {
        let within = |values: &Values| -> Values {
            let within = values.range::<[u8], _>((Included(range.start), Excluded(range.end)));
            within.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        // Locked in the order in which values move, so that none is missed.
        let pending = self.queue.pending.lock();
        let writing = self.queue.writing.lock();
        let (written, newest) = (within(pick(&writing)), within(waiting(&pending)));
        drop((pending, writing));
        let mut all = Values::new();
        self.shared.read(|database| {
            let transaction = database.begin_read()?;
            for entry in transaction.open_table(table)?.range(range.clone())? {
                let (key, value) = entry?;
                all.insert(key.value().to_vec(), Some(value.value().to_vec()));
            }
            Ok(())
        })?;
        all.extend(written);
        all.extend(newest);
        all.retain(|_, value| value.is_some());
        Ok(all)
    }

    /// The sealed value of one note.
    fn sealed_note(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let pending = self.queue.pending.lock();
        let writing = self.queue.writing.lock();
        if let Some(newer) = pending.notes.get(key).or_else(|| writing.1.get(key)) {
            return Ok(newer.clone());
        }
        drop((pending, writing));
        self.shared.read(|database| {
            let transaction = database.begin_read()?;
            let found = transaction.open_table(NOTES)?.get(key)?;
            Ok(found.map(|sealed| sealed.value().to_vec()))
        })
    }
}

impl Queue {
    /// The thread's loop: wait for values, let more gather, write them.
    fn run(&self, shared: &Shared) {
        loop {
            let mut pending = self.pending.lock();
            while pending.is_empty() && !pending.hurry && !pending.stop {
                self.wake.wait(&mut pending);
            }
            let deadline = Instant::now() + DELAY;
            while !pending.hurry && !pending.stop {
                if self.wake.wait_until(&mut pending, deadline).timed_out() {
                    break;
                }
            }
            let (put, stop) = (pending.put, pending.stop);
            pending.hurry = false;
            let mut writing = self.writing.lock();
            *writing = (std::mem::take(&mut pending.entities), std::mem::take(&mut pending.notes));
            let values = writing.clone();
            drop((pending, writing));
            // The last write is tried regardless of the pause.
            let done = write(shared, &values, stop).map_err(CommitError::from);
            self.settle(put, done, stop, shared.writing_pause().max(RETRY));
            if stop {
                return;
            }
        }
    }

    /// Reports the result of a write. Values that could not be written wait again, unless newer
    /// ones replace them.
    fn settle(&self, put: u64, outcome: Result<(), CommitError>, stop: bool, pause: Duration) {
        let mut pending = self.pending.lock();
        let (entities, notes) = std::mem::take(&mut *self.writing.lock());
        if let Err(error) = &outcome {
            tracing::warn!(%error, "live state is not on the disk yet");
            for (key, value) in entities {
                pending.entities.entry(key).or_insert(value);
            }
            for (key, value) in notes {
                pending.notes.entry(key).or_insert(value);
            }
        }
        let failed = outcome.is_err();
        drop(self.settled.send_replace((put, outcome)));
        // New values do not shorten the pause after a failure.
        let until = Instant::now() + pause;
        while failed && !stop && !pending.stop {
            if self.wake.wait_until(&mut pending, until).timed_out() {
                break;
            }
        }
    }
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.entities.is_empty() && self.notes.is_empty()
    }
}

fn write(
    shared: &Shared,
    (entities, notes): &(Values, Values),
    is_last: bool,
) -> Result<(), Failure> {
    if entities.is_empty() && notes.is_empty() {
        return Ok(());
    }
    let put = |database: &Database| {
        let transaction = file::begin(database)?;
        for (table, values) in [(LIVE, entities), (NOTES, notes)] {
            let mut table = transaction.open_table(table)?;
            for (key, value) in values {
                match value {
                    Some(value) => table.insert(key.as_slice(), value.as_slice())?,
                    None => table.remove(key.as_slice())?,
                };
            }
        }
        Ok(transaction.commit()?)
    };
    if is_last { shared.with(put) } else { shared.write(put) }
}

impl Live for Writer {
    fn put(&self, entity: Entity) {
        let key = codec::row_key(entity.kind(), entity.id());
        let sealed = codec::seal_row(&key, &entity);
        self.push(|pending| {
            pending.entities.insert(key, Some(sealed));
        });
    }

    fn delete(&self, kind: Kind, id: &Id) {
        let key = codec::row_key(kind, id);
        self.push(|pending| {
            pending.entities.insert(key, None);
        });
    }

    fn load(&self, entities: &mut dyn FnMut(Entity)) -> Result<(), ReadError> {
        let all = &[][..]..&[u8::MAX; 3][..];
        let values = self.values(LIVE, all, |writing| &writing.0, |pending| &pending.entities)?;
        for (key, sealed) in values {
            let sealed = sealed.unwrap_or_default();
            entities(codec::unseal_row(&key, &sealed).map_err(Failure::from)?);
        }
        Ok(())
    }

    fn put_note(&self, space: Space, key: &str, value: Option<Bytes>) {
        let key = codec::note_key(space.0, key);
        let sealed = value.map(|value| codec::seal(&key, &value));
        self.push(|pending| {
            pending.notes.insert(key, sealed);
        });
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
        let values =
            self.values(NOTES, of_space, |writing| &writing.1, |pending| &pending.notes)?;
        let read = |(key, sealed): (Vec<u8>, Option<Vec<u8>>)| {
            let sealed = sealed.unwrap_or_default();
            let value = codec::unseal("note", &key, &sealed).map_err(Failure::from)?;
            let (_, name) = codec::split_key(&key).map_err(Failure::from)?;
            Ok((name.to_owned(), Bytes::copy_from_slice(value)))
        };
        values.into_iter().map(read).collect()
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), CommitError>> {
        async move {
            let mut settled = self.queue.settled.subscribe();
            let put = {
                let mut pending = self.queue.pending.lock();
                pending.hurry = true;
                self.queue.wake.notify_one();
                pending.put
            };
            // An earlier result counts only if it covers this write and was a success.
            let (done, outcome) = settled.borrow_and_update().clone();
            if done >= put && outcome.is_ok() {
                return Ok(());
            }
            // While writing pauses, the caller gets the failure at once.
            if outcome.is_err() && !self.shared.writing_pause().is_zero() {
                return outcome;
            }
            loop {
                if settled.changed().await.is_err() {
                    return Err(CommitError::Unavailable("the store was closed".into()));
                }
                let (done, outcome) = settled.borrow_and_update().clone();
                if done >= put {
                    return outcome;
                }
            }
        }
        .boxed()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.pending.lock().stop = true;
        self.queue.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
