//! Live state: kept in memory until a thread has written it, within 250 ms.
//!
//! The thread writes to the journal when a caller waits for the disk, and to the database otherwise.
//! Values of the journal are brought into the database 2 s later at the latest.

use std::{
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
    journal::{Batch, Journal, JournalFault, Values},
    tables::{LIVE, META, NOTES},
};
use crate::{CommitError, Damage, LiveStore, OpenError, ReadError, Space, codec};

/// Longest wait of a write for others to join it.
const DELAY: Duration = Duration::from_millis(250);
/// Longest time for which values are only in the journal.
const FOLD: Duration = Duration::from_secs(2);
/// Shortest pause after a write that failed.
const RETRY: Duration = Duration::from_secs(1);
/// Key in `meta` of the journal's generation that the database contains, with a byte that is 1 while
/// the journal may contain more.
const FOLDED: &str = "live";

/// Values that the thread has not taken yet.
#[derive(Debug, Default)]
struct Pending {
    values: Batch,
    /// Number of writes so far.
    put: u64,
    /// True if a caller waits for the disk.
    hurry: bool,
    /// True if a caller waits until the database contains everything.
    fold: bool,
    /// True if the journal is given up, because the store is closed.
    close: bool,
    stop: bool,
}

/// Values that the thread has taken. Reads look here, too.
#[derive(Debug, Default)]
struct Taken {
    /// Values in the journal that the database does not contain yet.
    journaled: Batch,
    /// Values that are being written.
    writing: Batch,
}

/// Results so far. Writes are counted as in [`Pending::put`].
#[derive(Debug, Clone)]
struct Settled {
    /// Writes that were tried.
    tried: u64,
    /// Writes that are on the disk.
    on_disk: u64,
    /// Writes that the database contains.
    in_database: u64,
    /// The result of the last try.
    outcome: Result<(), CommitError>,
    /// True if the journal takes values.
    can_append: bool,
    /// True if the journal was given up, because the store was closed.
    is_closed: bool,
}

#[derive(Debug)]
struct Queue {
    /// Values since the thread last took them.
    pending: Mutex<Pending>,
    taken: Mutex<Taken>,
    wake: Condvar,
    settled: watch::Sender<Settled>,
}

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

/// The state of the journal, as the database has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Folded {
    generation: u64,
    /// True if the journal may contain values that the database lacks.
    is_open: bool,
}

/// A journal as a start finds it.
#[derive(Default)]
struct Found {
    journal: Option<Journal>,
    values: Batch,
    is_open: bool,
    #[cfg(test)]
    fault: Option<JournalFault>,
}

/// A step of the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Append to the journal.
    Append,
    /// Bring everything into the database.
    Fold,
    /// Bring everything into the database; the journal is not used any more.
    Close,
    /// Bring everything into the database, and end the thread.
    Stop,
}

impl LiveWriter {
    /// Starts the thread. A store that is not a file in a folder has no journal.
    pub(super) fn start(shared: Arc<Shared>, has_journal: bool) -> Result<Self, OpenError> {
        let io = |error: io::Error| OpenError::Io { path: shared.path().to_owned(), error };
        let found = if has_journal { open_journal(&shared)? } else { Found::default() };
        let Found { journal, values: journaled, is_open, .. } = found;
        let queue = Arc::new(Queue {
            pending: Mutex::default(),
            taken: Mutex::new(Taken { journaled, writing: Batch::default() }),
            wake: Condvar::new(),
            settled: watch::Sender::new(Settled {
                tried: 0,
                on_disk: 0,
                in_database: 0,
                outcome: Ok(()),
                can_append: journal.is_some(),
                is_closed: false,
            }),
        });
        let run = { (shared.clone(), queue.clone()) };
        let thread = thread::Builder::new().name("weft-store-live".into());
        let thread = thread.spawn(move || run.1.run(&run.0, journal, is_open));
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
        let newer = [within(&taken.journaled), within(&taken.writing), within(&pending.values)];
        drop((pending, taken));
        let mut all = Values::new();
        self.shared.read(|database| {
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
        let pending = self.queue.pending.lock();
        let taken = self.queue.taken.lock();
        let newest_first = [&pending.values, &taken.writing, &taken.journaled];
        if let Some(newer) = newest_first.into_iter().find_map(|batch| batch.notes.get(key)) {
            return Ok(newer.clone());
        }
        drop((pending, taken));
        self.shared.read(|database| {
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

/// Opens the journal of a database. Without it the store works, if more slowly.
fn open_journal(shared: &Shared) -> Result<Found, OpenError> {
    let read = shared.read(|database| {
        let transaction = database.begin_read()?;
        let head = file::read_head(&transaction)?;
        let head = head.ok_or_else(|| Damage::new("head", "it is missing"))?;
        let sealed = transaction.open_table(META)?.get(FOLDED)?;
        let folded = sealed.map(|sealed| Folded::from_sealed(sealed.value())).transpose()?;
        Ok((head.timeline, folded.unwrap_or(Folded { generation: 0, is_open: false })))
    });
    let (timeline, folded) = read.map_err(|failure| failure.open(shared.path()))?;
    let path = Journal::path_of(shared.path());
    let file = path.display();
    let is_open = folded.is_open;
    match Journal::open(&path, &timeline, folded.generation) {
        Ok((journal, values, fault)) => {
            // There is no journal before the first start, and none of this database after a restore.
            let fault = fault.filter(|fault| is_open || *fault == JournalFault::Cut);
            match fault {
                Some(JournalFault::NotThere) => tracing::warn!(
                    %file,
                    "the journal is gone, or is another database's: of the last seconds before the \
                     controller ended, sessions that began may be missing, and those that ended may \
                     be back"
                ),
                Some(JournalFault::Cut) => tracing::warn!(
                    %file,
                    "the journal's last record is not whole: its write was cut off, or the file is \
                     damaged; its contents are left out"
                ),
                None => {}
            }
            Ok(Found {
                journal: Some(journal),
                values,
                is_open,
                #[cfg(test)]
                fault,
            })
        }
        Err(error) => {
            tracing::warn!(%file, %error, "no journal: sessions are written to the database");
            Ok(Found { is_open, ..Found::default() })
        }
    }
}

impl Folded {
    fn from_sealed(sealed: &[u8]) -> Result<Self, Damage> {
        let bytes = codec::unseal(FOLDED, FOLDED.as_bytes(), sealed)?;
        let damage = || Damage::new("the generation of live state", "it is cut short");
        let (generation, rest) = bytes.split_first_chunk().ok_or_else(damage)?;
        Ok(Self { generation: u64::from_le_bytes(*generation), is_open: rest == [1] })
    }

    fn sealed(self) -> Vec<u8> {
        let mut bytes = self.generation.to_le_bytes().to_vec();
        bytes.push(u8::from(self.is_open));
        codec::seal(FOLDED.as_bytes(), &bytes)
    }
}

/// The times at which the thread has to act.
#[derive(Debug, Default)]
struct Times {
    /// Latest time of the next fold, while values are only in the journal.
    fold: Option<Instant>,
    /// End of the pause after a failure.
    pause: Option<Instant>,
}

impl Queue {
    /// The thread's loop.
    fn run(&self, shared: &Shared, mut journal: Option<Journal>, mut is_open: bool) {
        let mut times = Times::default();
        if !self.taken.lock().journaled.is_empty() {
            times.fold = Some(Instant::now() + DELAY);
        }
        loop {
            let can_append = journal.as_ref().is_some_and(Journal::takes_more);
            let (step, put, values) = self.next(&times, can_append);
            if let (Step::Append, Some(journal)) = (step, &mut journal)
                && self.append(journal, put, &values)
            {
                times.fold.get_or_insert_with(|| Instant::now() + FOLD);
                continue;
            }
            let is_last = matches!(step, Step::Stop | Step::Close);
            let done = self.fold(shared, journal.as_mut(), values, (is_last, is_open));
            if done.is_ok() {
                is_open = journal.is_some() && !is_last;
            }
            if is_last && done.is_ok() {
                journal.iter().for_each(Journal::cut);
            }
            if step == Step::Close {
                journal = None;
            }
            let failed = done.is_err();
            let can_append = journal.as_ref().is_some_and(Journal::takes_more);
            self.settle(put, done, (can_append, step == Step::Close));
            if step == Step::Stop {
                return;
            }
            let now = Instant::now();
            times = Times {
                fold: failed.then_some(now),
                pause: failed.then(|| now + shared.writing_pause().max(RETRY)),
            };
        }
    }

    /// Waits for the next step, and takes the values that are there.
    fn next(&self, times: &Times, can_append: bool) -> (Step, u64, Batch) {
        let mut pending = self.pending.lock();
        let mut gathered = None;
        let step = loop {
            let now = Instant::now();
            let is_empty = pending.values.is_empty();
            if pending.stop {
                break Step::Stop;
            }
            if pending.close {
                break Step::Close;
            }
            // Values that are not here any more are on the disk: another caller has waited, too.
            pending.hurry &= !is_empty;
            let pause = times.pause.filter(|until| now < *until);
            if pending.hurry && can_append {
                let is_due = pending.fold || times.fold.is_some_and(|due| due <= now);
                break if is_due && pause.is_none() { Step::Fold } else { Step::Append };
            }
            let due = match pause {
                // New values do not shorten the pause after a failure.
                Some(until) => Some(until),
                None => {
                    if !is_empty {
                        gathered.get_or_insert(now + DELAY);
                    }
                    let due = [gathered, times.fold].into_iter().flatten().min();
                    if pending.fold || pending.hurry || due.is_some_and(|due| due <= now) {
                        break Step::Fold;
                    }
                    due
                }
            };
            match due {
                Some(due) => drop(self.wake.wait_until(&mut pending, due)),
                None => self.wake.wait(&mut pending),
            }
        };
        pending.hurry = false;
        if step != Step::Append {
            (pending.fold, pending.close) = (false, false);
        }
        let values = std::mem::take(&mut pending.values);
        self.taken.lock().writing = values.clone();
        (step, pending.put, values)
    }

    /// Appends values to the journal, and is true if they are on the disk.
    fn append(&self, journal: &mut Journal, put: u64, values: &Batch) -> bool {
        if let Err(error) = journal.append(values) {
            tracing::warn!(%error, "the journal of sessions cannot be written");
            return false;
        }
        {
            let mut taken = self.taken.lock();
            let written = std::mem::take(&mut taken.writing);
            taken.journaled.extend(written);
        }
        self.settled.send_modify(|settled| {
            (settled.tried, settled.on_disk, settled.outcome) = (put, put, Ok(()));
        });
        true
    }

    /// Brings the values of the journal and these into the database.
    fn fold(
        &self,
        shared: &Shared,
        mut journal: Option<&mut Journal>,
        values: Batch,
        (is_last, is_open): (bool, bool),
    ) -> Result<(), CommitError> {
        let mut all = self.taken.lock().journaled.clone();
        all.extend(values);
        if all.is_empty() && !(is_last && is_open) {
            return Ok(());
        }
        let generation = journal.as_deref().map(Journal::generation);
        let folded = generation.map(|generation| Folded { generation, is_open: !is_last });
        let done = write(shared, &all, folded, is_last).map_err(CommitError::from);
        match (&done, &mut journal) {
            (Ok(()), Some(journal)) => journal.folded(),
            // The journal may be readable where the database is not.
            (Err(_), Some(journal)) if is_last => drop(journal.append(&all)),
            _ => {}
        }
        done
    }

    /// Reports the result of a fold. Values that could not be written wait again, unless newer ones
    /// replace them.
    fn settle(
        &self,
        put: u64,
        outcome: Result<(), CommitError>,
        (can_append, is_closed): (bool, bool),
    ) {
        {
            let mut pending = self.pending.lock();
            let mut taken = self.taken.lock();
            let written = std::mem::take(&mut taken.writing);
            match &outcome {
                Ok(()) => taken.journaled = Batch::default(),
                Err(error) => {
                    tracing::warn!(%error, "sessions could not be written to the database; it is tried again");
                    pending.values.extend_older(written);
                }
            }
        }
        self.settled.send_modify(|settled| {
            settled.tried = put;
            settled.can_append = can_append;
            settled.is_closed |= is_closed;
            if outcome.is_ok() {
                (settled.on_disk, settled.in_database) = (put, put);
            }
            settled.outcome = outcome;
        });
    }
}

fn write(
    shared: &Shared,
    values: &Batch,
    folded: Option<Folded>,
    is_last: bool,
) -> Result<(), Failure> {
    let put = |database: &Database| {
        let transaction = file::begin(database)?;
        for (table, values) in [(LIVE, &values.entities), (NOTES, &values.notes)] {
            let mut table = transaction.open_table(table)?;
            for (key, value) in values {
                match value {
                    Some(value) => table.insert(key.as_slice(), value.as_slice())?,
                    None => table.remove(key.as_slice())?,
                };
            }
        }
        if let Some(folded) = folded {
            transaction.open_table(META)?.insert(FOLDED, folded.sealed().as_slice())?;
        }
        Ok(transaction.commit()?)
    };
    if is_last { shared.with(put) } else { shared.write(put) }
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

    fn put_note(&self, space: Space, key: &str, value: Option<Bytes>) {
        let key = codec::note_key(space.0, key);
        let sealed = value.map(|value| codec::seal(&key, &value));
        self.push(|pending| {
            pending.values.notes.insert(key, sealed);
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
