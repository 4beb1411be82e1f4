//! A shared log in memory, which fails on demand, for tests of what stands on one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use parking_lot::Mutex;
use tokio::sync::watch;
use weft_model::{Change, Revision, Timeline};

use super::chunk::{self, ChunkTable, ChunkWriter};
use super::shared_log::{
    ALIVE, Announcements, AppendError, Checkpoint, FetchError, HeadVersion, LogError, LogHead,
    SharedLog, SharedLogEntry,
};
use crate::codec;
use crate::standing::Presence;

/// The fate of one append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendFault {
    /// It succeeds, and its answer is lost.
    LosesAnswer,
    /// It does not happen, and its answer is lost.
    LosesRequest,
    /// It succeeds and is never answered.
    Hangs,
    /// It is refused.
    Refuses,
}

/// A shared log in memory. Clones are one log.
#[derive(Debug, Clone)]
pub struct MemoryLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    heads: watch::Sender<Option<LogHead>>,
}

#[derive(Debug)]
struct State {
    /// What the entries were applied to, by table and key.
    rows: BTreeMap<(u8, Vec<u8>), Vec<u8>>,
    head: Option<LogHead>,
    former: Vec<Timeline>,
    entries: VecDeque<SharedLogEntry>,
    kept: usize,
    faults: VecDeque<AppendFault>,
    /// The controllers that are alive, in the order in which they began, and when they have said so last.
    alive: Vec<(Presence, Instant)>,
    moment: u64,
}

impl MemoryLog {
    /// A log that was not begun, and will keep so many change sets.
    #[must_use]
    pub fn new(kept: usize) -> Self {
        let (faults, entries) = (VecDeque::new(), VecDeque::new());
        let (rows, alive, former) = (BTreeMap::new(), Vec::new(), Vec::new());
        let state = State { rows, head: None, former, entries, kept, faults, alive, moment: 0 };
        Self(Arc::new(Inner { state: Mutex::new(state), heads: watch::Sender::new(None) }))
    }

    /// The connection of one controller to the log.
    #[must_use]
    pub fn connect(&self) -> LogConnection {
        LogConnection { log: self.clone(), is_cut: Arc::default(), cuts: watch::Sender::new(0) }
    }

    /// Adds a fault to the queue; each append takes one.
    pub fn push(&self, fault: AppendFault) {
        self.0.state.lock().faults.push_back(fault);
    }

    /// The batches of the log that are kept, one for each change set.
    #[must_use]
    pub fn entries(&self) -> Vec<SharedLogEntry> {
        self.0.state.lock().entries.iter().cloned().collect()
    }
}

/// The connection of one controller to a [`MemoryLog`], which can be cut.
#[derive(Debug, Clone)]
pub struct LogConnection {
    log: MemoryLog,
    is_cut: Arc<AtomicBool>,
    cuts: watch::Sender<u64>,
}

impl LogConnection {
    /// Cuts the connection, or mends it.
    pub fn set_cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Release);
        self.cuts.send_modify(|count| *count += 1);
    }

    fn check(&self) -> Result<(), LogError> {
        match self.is_cut.load(Ordering::Acquire) {
            true => Err(LogError::Unavailable("the shared log is cut off".to_owned())),
            false => Ok(()),
        }
    }

    /// Runs work on the log, and publishes the head that it leaves.
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> Result<T, LogError> {
        self.check()?;
        let mut state = self.log.0.state.lock();
        let done = work(&mut state);
        let head = state.head.clone();
        self.log.0.heads.send_if_modified(|known| {
            let is_new = *known != head;
            *known = head;
            is_new
        });
        Ok(done)
    }
}

impl State {
    fn append(
        &mut self,
        at: &LogHead,
        entries: Vec<SharedLogEntry>,
    ) -> Result<LogHead, AppendError> {
        let refused = |why: &str| AppendError::Refused(why.to_owned());
        let Some(head) = &mut self.head else { return Err(refused("the log was not begun")) };
        if head != at {
            return Err(AppendError::Moved(head.clone()));
        }
        let Some(last) = entries.last() else { return Err(refused("there is nothing to append")) };
        head.head.revision = last.revision;
        head.head.batch = last.batch;
        head.head.format = SharedLogEntry::format_after(head.head.format, &entries);
        head.digest = last.digest;
        head.version.0 += 1;
        let head = head.clone();
        for entry in entries {
            entry.change_set.changes.iter().for_each(|change| self.apply(change));
            self.entries.push_back(entry);
        }
        while self.entries.len() > self.kept {
            self.entries.pop_front();
        }
        Ok(head)
    }
}

impl State {
    fn apply(&mut self, change: &Change) {
        let (kind, id) = (change.kind(), change.id());
        let row = codec::row_key(kind, id);
        let (rows, cold) = (ChunkTable::Rows as u8, ChunkTable::Cold as u8);
        match change {
            Change::Put(entity) => {
                let sealed = codec::seal_row(&row, entity);
                self.rows.insert((rows, row), sealed);
            }
            Change::Delete(..) => {
                self.rows.remove(&(rows, row));
                let (from, to) = codec::cold_range(kind, id);
                self.rows.retain(|(table, key), _| *table != cold || *key < from || *key >= to);
            }
            Change::Cold { field, value, .. } => {
                let key = codec::cold_key(kind, id, field.code());
                match value {
                    Some(value) => {
                        let sealed = codec::seal(&key, value);
                        self.rows.insert((cold, key), sealed)
                    }
                    None => self.rows.remove(&(cold, key)),
                };
            }
        }
    }

    fn chunks(&self) -> Vec<Bytes> {
        let mut writer = ChunkWriter::default();
        let mut chunks = Vec::new();
        for ((table, key), sealed) in &self.rows {
            let table = if *table == 1 { ChunkTable::Rows } else { ChunkTable::Cold };
            chunks.extend(writer.put(table, key, sealed));
        }
        chunks.extend(writer.finish());
        chunks
    }
}

impl SharedLog for LogConnection {
    fn head(&self) -> BoxFuture<'_, Result<Option<LogHead>, LogError>> {
        async { self.with(|state| state.head.clone()) }.boxed()
    }

    fn begin_anew(
        &self,
        over: Option<LogHead>,
        from: Checkpoint,
        former: Vec<Timeline>,
    ) -> BoxFuture<'_, Result<LogHead, AppendError>> {
        let refused = |error: LogError| AppendError::Refused(error.to_string());
        async move {
            let chunks: Vec<Bytes> = from.chunks.try_collect().await.map_err(refused)?;
            let begun = self.with(|state| {
                if let Some(head) = state.head.as_ref().filter(|head| over.as_ref() != Some(*head))
                {
                    return Err(AppendError::Moved(head.clone()));
                }
                state.rows.clear();
                state.entries.clear();
                state.former = former;
                for (table, key, sealed) in chunks.iter().flat_map(|it| chunk::items(it)).flatten()
                {
                    state.rows.insert((table as u8, key.to_vec()), sealed.to_vec());
                }
                let version = HeadVersion(over.map_or(0, |over| over.version.0) + 1);
                let head = LogHead { head: from.head, digest: from.digest, version };
                Ok(state.head.insert(head).clone())
            });
            begun.map_err(refused)?
        }
        .boxed()
    }

    fn former(&self) -> BoxFuture<'_, Result<Vec<Timeline>, LogError>> {
        async { self.with(|state| state.former.clone()) }.boxed()
    }

    fn append(
        &self,
        at: LogHead,
        entries: Vec<SharedLogEntry>,
    ) -> BoxFuture<'_, Result<LogHead, AppendError>> {
        async move {
            let lost = |why: &str| Err(AppendError::Unanswered(why.to_owned()));
            let mut hangs = false;
            let appended = self.with(|state| match state.faults.pop_front() {
                None => state.append(&at, entries),
                Some(AppendFault::Hangs) => {
                    hangs = true;
                    state.append(&at, entries)
                }
                Some(AppendFault::LosesRequest) => lost("the request was lost"),
                Some(AppendFault::Refuses) => {
                    Err(AppendError::Refused("the log is full".to_owned()))
                }
                Some(AppendFault::LosesAnswer) => {
                    state.append(&at, entries).and_then(|_| lost("the answer was lost"))
                }
            });
            if hangs {
                std::future::pending::<()>().await;
            }
            appended.unwrap_or_else(|error| Err(AppendError::Refused(error.to_string())))
        }
        .boxed()
    }

    fn fence(&self) -> BoxFuture<'_, Result<LogHead, LogError>> {
        async {
            let fenced = self.with(|state| {
                let head = state.head.as_mut()?;
                head.version.0 += 1;
                Some(head.clone())
            })?;
            fenced.ok_or_else(|| LogError::Unavailable("the log was not begun".to_owned()))
        }
        .boxed()
    }

    fn entries(
        &self,
        after: Revision,
        most: usize,
    ) -> BoxFuture<'_, Result<Vec<SharedLogEntry>, FetchError>> {
        async move {
            self.with(|state| {
                let end = state.head.as_ref().map(|head| head.head.revision).unwrap_or_default();
                let oldest = state.entries.front().map_or(end.next(), |entry| entry.revision);
                if after.next() < oldest {
                    return Err(FetchError::TooOld { oldest });
                }
                let later = state.entries.iter().filter(|entry| entry.revision > after);
                Ok(later.take(most).cloned().collect())
            })?
        }
        .boxed()
    }

    fn watch(&self) -> BoxStream<'static, Result<LogHead, LogError>> {
        let mut heads = self.log.0.heads.subscribe();
        heads.mark_changed();
        let (mut cuts, connection) = (self.cuts.subscribe(), self.clone());
        cuts.mark_unchanged();
        let next = move |at: Option<(watch::Receiver<Option<LogHead>>, watch::Receiver<u64>)>| {
            let connection = connection.clone();
            async move {
                let (mut heads, mut cuts) = at?;
                loop {
                    if let Err(error) = connection.check() {
                        return Some((Err(error), None));
                    }
                    tokio::select! {
                        changed = heads.changed() => changed.ok()?,
                        changed = cuts.changed() => {
                            changed.ok()?;
                            continue;
                        }
                    }
                    let head: Option<LogHead> = heads.borrow_and_update().clone();
                    if let Some(head) = head {
                        return Some((Ok(head), Some((heads, cuts))));
                    }
                }
            }
        };
        futures::stream::unfold(Some((heads, cuts)), next).boxed()
    }

    fn erase(&self, at: LogHead) -> BoxFuture<'_, Result<(), AppendError>> {
        let erased = self.with(|state| match &state.head {
            Some(head) if *head != at => Err(AppendError::Moved(head.clone())),
            _ => {
                state.head = None;
                state.entries.clear();
                state.rows.clear();
                Ok(())
            }
        });
        let erased = erased.unwrap_or_else(|error| Err(AppendError::Refused(error.to_string())));
        async { erased }.boxed()
    }

    fn announce(&self, presence: Presence) -> BoxFuture<'_, Result<(), LogError>> {
        let announced = self.with(|state| {
            state.alive.retain(|(_, at)| at.elapsed() < ALIVE);
            let now = Instant::now();
            match state.alive.iter_mut().find(|(known, _)| known.run == presence.run) {
                Some(known) => {
                    *known = (Presence { since: known.0.since, ..presence }, now);
                }
                None => {
                    state.moment += 1;
                    state.alive.push((Presence { since: state.moment, ..presence }, now));
                }
            }
        });
        async { announced }.boxed()
    }

    fn withdraw(&self, run: u128) -> BoxFuture<'_, Result<(), LogError>> {
        let withdrawn = self.with(|state| state.alive.retain(|(known, _)| known.run != run));
        async { withdrawn }.boxed()
    }

    fn announced(&self) -> BoxFuture<'_, Result<Announcements, LogError>> {
        let announced = self.with(|state| {
            state.alive.retain(|(_, at)| at.elapsed() < ALIVE);
            state.moment += 1;
            let controllers = state.alive.iter().map(|(known, _)| known.clone()).collect();
            Announcements { controllers, moment: state.moment }
        });
        async { announced }.boxed()
    }

    fn checkpoint(&self) -> BoxFuture<'_, Result<Checkpoint, LogError>> {
        async {
            let found = self.with(|state| Some((state.chunks(), state.head.clone()?)))?;
            let none = || LogError::Unavailable("the log was not begun".to_owned());
            let (chunks, head) = found.ok_or_else(none)?;
            let chunks = futures::stream::iter(chunks).map(Ok).boxed();
            Ok(Checkpoint { head: head.head, digest: head.digest, chunks })
        }
        .boxed()
    }

    /// Never: the log makes its checkpoints itself.
    fn wants_checkpoint(&self) -> bool {
        false
    }

    fn write_checkpoint(&self, _: Checkpoint) -> BoxFuture<'_, Result<(), LogError>> {
        async { Ok(()) }.boxed()
    }
}
