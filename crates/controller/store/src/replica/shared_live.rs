//! Live entities that several controllers share, which are sessions: a log of their own beside that of the model, with a
//! copy in a file of its own.
//!
//! ```text
//! put, delete -> outbox -> commit on the end of the log -> copy -> other controllers
//!                  ^                                        |
//!                  '--- an end, or a change, of others <----'--> LiveStore::listen
//! ```
//!
//! A change counts here at once, and for the others when it is in the log. The log gives all changes one order, and the end
//! of an entity counts over every change of it. While the log cannot be reached, changes wait in memory; ends are also in
//! the notes of this controller's own file, so that no restart takes them back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use weft_model::{Change, ChangeSet, Entity, Id, Kind, Revision};

use super::Replica;
use super::outbox::{Merge, Outbox, Sent};
use crate::standing::ReplicaState;
use crate::{
    BatchId, CommitError, Committed, Embedded, FollowError, LiveChange, LiveListener, LivePut,
    LiveStore, LogError, OpenError, Options, ReadError, SharedLog, Sharing, Space, Store as _,
    WaitingChange,
};

/// The space of notes with ends that the log may lack. Their names are the code of the kind in four hexadecimal digits, and
/// the id.
const ENDS: Space = Space(34);
/// Longest wait for the log, while it can be reached.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pauses after a failure: the first, and the longest.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MOST: Duration = Duration::from_secs(2);

/// Live entities that several controllers share; notes are a controller's own.
#[derive(Debug)]
pub(super) struct SharedLive {
    inner: Arc<Inner>,
    task: JoinHandle<()>,
}

struct Inner {
    /// The file of this controller, for notes.
    own: Embedded,
    shared: Replica,
    /// How the copy of the model stands to its log.
    model: watch::Receiver<ReplicaState>,
    outbox: Mutex<Outbox>,
    wake: Notify,
    /// The number of the last change that waits while nothing can be sent.
    waiting: watch::Sender<u64>,
    /// Whether the last try to send something has failed.
    is_stuck: AtomicBool,
    /// The number up to which changes were sent.
    done: watch::Sender<u64>,
    /// The revision of the log up to which changes were followed.
    followed: watch::Sender<Revision>,
    listener: OnceLock<LiveListener>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("shared", &self.shared).finish_non_exhaustive()
    }
}

/// The file with the copy of the log of sessions, beside that of the model.
pub(super) fn path_beside(model: &Path) -> PathBuf {
    let mut path = model.as_os_str().to_owned();
    path.push(".sessions");
    path.into()
}

/// Removes the copy of a former log of sessions: the network was in a file meanwhile, and has another one now.
async fn forget_former(
    path: &Path,
    options: &Options,
    log: &dyn SharedLog,
) -> Result<(), OpenError> {
    let is_there = std::fs::metadata(path).is_ok_and(|found| found.len() > 0);
    let theirs = match is_there {
        true => tokio::time::timeout(PATIENCE, log.head()).await,
        false => return Ok(()),
    };
    let Ok(Ok(Some(theirs))) = theirs else { return Ok(()) };
    let copy = Embedded::open(path, options.clone())?;
    let head = copy.head().map_err(|error| super::unreadable(path, &error))?;
    copy.close().await.map_err(|error| super::unreadable(path, &error))?;
    if head.revision > Revision::default() && head.timeline != theirs.head.timeline {
        tracing::info!("the sessions are in another log than before: they are loaded anew");
        remove(path)?;
    }
    Ok(())
}

/// Removes the copy of the log of sessions beside that of the model, if it is there.
pub(super) fn forget(model: &Path) -> Result<(), OpenError> {
    remove(&path_beside(model))
}

fn remove(path: &Path) -> Result<(), OpenError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(OpenError::Io { path: path.to_owned(), error })
        }
        _ => Ok(()),
    }
}

impl SharedLive {
    /// How the copy of the log of sessions stands to that log.
    pub(super) fn states(&self) -> watch::Receiver<ReplicaState> {
        self.inner.shared.states()
    }

    /// As [`Store::seal_anew`](crate::Store::seal_anew), for the log of sessions.
    pub(super) async fn seal_anew(&self) -> Result<bool, LogError> {
        Box::pin(self.inner.shared.seal_anew()).await
    }

    /// Opens the copy, and begins to send the ends that wait in the notes of `own`.
    pub(super) async fn open(
        (own, model): (Embedded, watch::Receiver<ReplicaState>),
        options: Options,
        log: Arc<dyn SharedLog>,
    ) -> Result<Self, OpenError> {
        let path = path_beside(own.shared.path());
        forget_former(&path, &options, &*log).await?;
        let shared = Box::pin(Replica::open(&path, options, log)).await?;
        let mut outbox = Outbox::default();
        for (kind, id) in ends(&own).map_err(|error| super::unreadable(&path, &error))? {
            outbox.add(Change::Delete(kind, id), true);
        }
        let at = shared.head().map_err(|error| super::unreadable(&path, &error))?.revision;
        let inner = Arc::new(Inner {
            own,
            shared,
            model,
            outbox: Mutex::new(outbox),
            wake: Notify::new(),
            waiting: watch::Sender::new(0),
            is_stuck: AtomicBool::new(false),
            done: watch::Sender::new(0),
            followed: watch::Sender::new(at),
            listener: OnceLock::new(),
        });
        let task =
            tokio::spawn(Sender { inner: Arc::clone(&inner), at, pause: None, failures: 0 }.run());
        Ok(Self { inner, task })
    }

    /// Sends what waits, if the log can be reached, and closes the copy.
    pub(super) async fn close(&self) -> Result<(), CommitError> {
        let flushed = self.flush().await;
        self.task.abort();
        let closed = self.inner.shared.close().await;
        flushed.and(closed)
    }
}

impl Drop for SharedLive {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The name of the note about the end of an entity.
fn note_of(kind: Kind, id: &Id) -> String {
    format!("{:04x}{id}", kind.code())
}

/// The ends that the log may lack.
fn ends(own: &Embedded) -> Result<Vec<(Kind, Id)>, ReadError> {
    let read = |(name, _): (String, Bytes)| {
        let (code, id) = name.split_at_checked(4)?;
        let kind = Kind::from_code(u16::from_str_radix(code, 16).ok()?)?;
        Some((kind, Id::new(id)))
    };
    Ok(own.live().notes(ENDS)?.into_iter().filter_map(read).collect())
}

impl Inner {
    fn put(&self, entity: Entity, how: LivePut) {
        let mut outbox = self.outbox.lock();
        match how {
            LivePut::New => outbox.add(Change::Put(entity), false),
            LivePut::Change => outbox.add(Change::Put(entity), true),
            LivePut::Use => outbox.add_use(entity),
        }
        self.added(outbox);
    }

    fn delete(&self, kind: Kind, id: &Id) {
        let mut outbox = self.outbox.lock();
        // Looked up under the lock: what is sent leaves the outbox only when the copy has it.
        if outbox.of(kind, id).is_none() && !self.has(kind, id) {
            return;
        }
        self.own.live().put_note(ENDS, &note_of(kind, id), Some(Bytes::new()));
        outbox.add(Change::Delete(kind, id.clone()), true);
        self.added(outbox);
    }

    /// To be called after changes: they are sent, or told to other controllers.
    fn added(&self, outbox: MutexGuard<'_, Outbox>) {
        let last = outbox.last();
        drop(outbox);
        if !self.can_send() {
            self.waiting.send_replace(last);
        }
        self.wake.notify_one();
    }

    /// Whether the copy has an entity. If it cannot be read, it counts as known: it is not sent again after the log was
    /// loaded anew without it.
    fn has(&self, kind: Kind, id: &Id) -> bool {
        self.shared.copy.shared.row(kind, id).map_or(true, |row| row.is_some())
    }

    fn is_reached(&self) -> bool {
        self.shared.states.borrow().obstacle.is_none()
    }

    /// Whether changes are sent at once: the log is reached, and takes what it is sent.
    fn can_send(&self) -> bool {
        !self.is_stuck.load(Ordering::Acquire) && self.is_reached()
    }

    /// To be called when changes are sent no longer: they are told to other controllers from now on.
    fn cannot_send(&self) {
        let last = self.outbox.lock().last();
        self.waiting.send_replace(last);
    }

    /// Notes how far changes were sent, and forgets the notes about these ends.
    fn note_done(&self, ends: &[(Kind, Id)], outbox: &Outbox) {
        let notes = ends.iter().map(|(kind, id)| (note_of(*kind, id), None));
        let notes: Vec<_> = notes.collect();
        if !notes.is_empty() {
            self.own.live().put_notes(ENDS, notes);
        }
        self.done.send_replace(outbox.done());
    }

    fn merge(&self) -> Option<Merge> {
        self.listener.get().map(|listener| listener.merge)
    }

    fn latest(&self, outbox: &Outbox, kind: Kind, id: &Id) -> Result<Option<Entity>, ReadError> {
        match outbox.of(kind, id) {
            Some(Change::Put(entity)) => Ok(Some(entity.clone())),
            Some(Change::Delete(..) | Change::Cold { .. }) => Ok(None),
            None => Ok(self.shared.copy.shared.row(kind, id)?),
        }
    }

    /// Tells the listener, if there is one yet.
    fn tell(&self, change: LiveChange<'_>) {
        if let Some(listener) = self.listener.get() {
            (listener.heard)(change);
        }
    }
}

/// Sends changes, and follows those of others, one after the other: what is sent comes after everything that was followed.
struct Sender {
    inner: Arc<Inner>,
    /// The revision up to which changes were followed.
    at: Revision,
    /// The pause after the last failure.
    pause: Option<Duration>,
    /// Failures since the last success.
    failures: u32,
}

impl Sender {
    async fn run(mut self) {
        loop {
            let log = self.inner.shared.follow(self.at);
            let Err(error) = self.follow(log).await else { return };
            self.start_over(&error).await;
        }
    }

    /// Follows the log, and sends what waits, until the log cannot be followed any more, or the store was closed.
    async fn follow(
        &mut self,
        mut log: BoxStream<'static, Result<Committed, FollowError>>,
    ) -> Result<(), FollowError> {
        let inner = Arc::clone(&self.inner);
        let mut states = inner.shared.states();
        loop {
            while let Some(next) = log.next().now_or_never() {
                let Some(committed) = next else { return Ok(()) };
                self.take(&committed?);
            }
            let batch = match self.pause.is_none() && inner.is_reached() {
                true => inner.outbox.lock().batch(),
                false => Sent::new(),
            };
            if !batch.is_empty() {
                self.send(batch).await;
                continue;
            }
            let pause = self.pause.unwrap_or(Duration::MAX);
            tokio::select! {
                next = log.next() => {
                    let Some(committed) = next else { return Ok(()) };
                    self.take(&committed?);
                }
                () = inner.wake.notified() => {}
                changed = states.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    if !inner.is_reached() {
                        inner.cannot_send();
                    }
                }
                () = tokio::time::sleep(pause) => self.pause = None,
            }
        }
    }

    fn moved_to(&mut self, revision: Revision) {
        self.at = revision;
        self.inner.followed.send_replace(revision);
    }

    /// Follows a change set of another controller; one of this controller was followed when it was sent.
    fn take(&mut self, committed: &Committed) {
        if committed.revision <= self.at {
            return;
        }
        let mut foreign = Vec::new();
        {
            let merge = self.inner.merge();
            let mut outbox = self.inner.outbox.lock();
            let mut ended = Vec::new();
            for change in &committed.change_set.changes {
                if outbox.take(change, merge) {
                    foreign.push(change.clone());
                }
                outbox.drop_same(change);
                if let Change::Delete(kind, id) = change {
                    ended.push((*kind, id.clone()));
                }
            }
            self.inner.note_done(&ended, &outbox);
        }
        if !foreign.is_empty() {
            self.inner.tell(LiveChange::Changes(&foreign));
        }
        self.moved_to(committed.revision);
    }

    async fn send(&mut self, sent: Sent) {
        let changes = sent.iter().map(|(_, change)| change.clone());
        let set = Arc::new(ChangeSet::of(changes));
        let batch = BatchId::random();
        let mut outcome = self.inner.shared.commit_as(batch, self.at, vec![set]).await;
        let mut pause = PAUSE;
        // Until it is known whether the batch is in the log, nothing else may be sent.
        while let Err(CommitError::Unknown { .. }) = outcome {
            outcome = match self.inner.shared.settle(batch).await {
                Ok(Some(revision)) => Ok(revision),
                Ok(None) => Err(CommitError::Unavailable("it was not written".to_owned())),
                Err(error @ CommitError::Forgotten(_)) => Err(error),
                Err(error) => {
                    tracing::debug!(%error, "it is not known whether sessions were written to the shared log");
                    self.inner.is_stuck.store(true, Ordering::Release);
                    self.inner.cannot_send();
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MOST);
                    continue;
                }
            };
        }
        match outcome {
            Ok(revision) => {
                let mut outbox = self.inner.outbox.lock();
                outbox.sent(&sent);
                let ends = sent.iter().filter(|(_, it)| matches!(it, Change::Delete(..)));
                let ends: Vec<_> = ends.map(|(_, end)| (end.kind(), end.id().clone())).collect();
                self.inner.note_done(&ends, &outbox);
                drop(outbox);
                self.inner.is_stuck.store(false, Ordering::Release);
                self.moved_to(revision);
                (self.pause, self.failures) = (None, 0);
            }
            // What others have written comes first.
            Err(CommitError::Stale { .. }) => {}
            Err(error) => {
                if let CommitError::Forgotten(_) = error {
                    self.inner.outbox.lock().note_known(&sent);
                }
                if self.failures == 0 {
                    tracing::warn!(%error, "sessions were not written to the shared log, so that other controllers do not know them yet; it is tried again");
                }
                self.pause = Some((PAUSE * (1 << self.failures.min(5))).min(PAUSE_MOST));
                self.failures += 1;
                self.inner.is_stuck.store(true, Ordering::Release);
                self.inner.cannot_send();
            }
        }
    }

    /// The log between is no longer kept: everything may be different.
    async fn start_over(&mut self, error: &FollowError) {
        tracing::info!(%error, "the shared sessions are loaded anew");
        tokio::time::sleep(PAUSE).await;
        let head = loop {
            match self.inner.shared.head() {
                Ok(head) => break head.revision,
                Err(error) => {
                    tracing::warn!(%error, "the shared sessions cannot be read; it is tried again");
                    tokio::time::sleep(PAUSE_MOST).await;
                }
            }
        };
        let inner = Arc::clone(&self.inner);
        let started = tokio::task::spawn_blocking(move || {
            let mut outbox = inner.outbox.lock();
            outbox.retain_known(|(kind, id)| inner.has(*kind, id));
            let waiting: Vec<Change> = outbox.all().cloned().collect();
            for change in waiting {
                let row = inner.shared.copy.shared.row(change.kind(), change.id());
                if let Ok(Some(theirs)) = row {
                    outbox.take(&Change::Put(theirs), inner.merge());
                }
            }
            inner.note_done(&[], &outbox);
            drop(outbox);
            inner.tell(LiveChange::StartOver);
        });
        if let Err(error) = started.await {
            tracing::error!(%error, "the shared sessions were not loaded anew");
        }
        self.moved_to(head);
    }
}

impl LiveStore for SharedLive {
    fn put(&self, entity: Entity) {
        self.inner.put(entity, LivePut::New);
    }

    fn put_as(&self, entity: Entity, how: LivePut) {
        self.inner.put(entity, how);
    }

    fn delete(&self, kind: Kind, id: &Id) {
        self.inner.delete(kind, id);
    }

    fn latest(&self, kind: Kind, id: &Id) -> Result<Option<Entity>, ReadError> {
        // Under the lock, so that nothing moves from the outbox into the copy meanwhile.
        self.inner.latest(&self.inner.outbox.lock(), kind, id)
    }

    fn join(&self, theirs: &Entity) -> Result<Option<Entity>, ReadError> {
        let mut outbox = self.inner.outbox.lock();
        outbox.join(theirs, self.inner.merge());
        self.inner.latest(&outbox, theirs.kind(), theirs.id())
    }

    fn load(&self, entities: &mut dyn FnMut(Entity)) -> Result<(), ReadError> {
        // Read before the copy, so that none is missed that is sent meanwhile.
        let waiting: Vec<Change> = self.inner.outbox.lock().all().cloned().collect();
        let mut all = BTreeMap::new();
        let mut read =
            |entity: Entity| drop(all.insert((entity.kind(), entity.id().clone()), entity));
        let loaded = self.inner.shared.load(&mut read);
        loaded.map_err(|error| ReadError::Unavailable(error.to_string()))?;
        for change in waiting {
            let key = (change.kind(), change.id().clone());
            match change {
                Change::Put(entity) => drop(all.insert(key, entity)),
                Change::Delete(..) | Change::Cold { .. } => drop(all.remove(&key)),
            }
        }
        all.into_values().for_each(entities);
        Ok(())
    }

    fn put_notes(&self, space: Space, notes: Vec<(String, Option<Bytes>)>) {
        self.inner.own.live().put_notes(space, notes);
    }

    fn note(&self, space: Space, key: &str) -> Result<Option<Bytes>, ReadError> {
        self.inner.own.live().note(space, key)
    }

    fn notes(&self, space: Space) -> Result<Vec<(String, Bytes)>, ReadError> {
        self.inner.own.live().notes(space)
    }

    /// Waits until the log has all changes so far. While the log cannot be reached, they are in memory, and the ends among
    /// them on the disk.
    fn flush(&self) -> BoxFuture<'_, Result<(), CommitError>> {
        let last = self.inner.outbox.lock().last();
        async move {
            let mut done = self.inner.done.subscribe();
            let mut states = self.inner.shared.states();
            tokio::select! {
                biased;
                _ = done.wait_for(|done| *done >= last) => {}
                _ = states.wait_for(|state| state.obstacle.is_some()) => {}
                () = tokio::time::sleep(PATIENCE) => {}
            }
            self.inner.own.live().flush().await
        }
        .boxed()
    }

    fn sharing(&self) -> Sharing {
        // What sessions rest on is in the other log.
        match self.inner.is_reached() && self.inner.model.borrow().obstacle.is_none() {
            true => Sharing::Together,
            false => Sharing::CutOff,
        }
    }

    fn listen(&self, listener: LiveListener) {
        let _ = self.inner.listener.set(listener);
    }

    fn last_waiting(&self) -> Option<watch::Receiver<u64>> {
        Some(self.inner.waiting.subscribe())
    }

    fn waiting_after(&self, number: u64, most: usize) -> (Vec<WaitingChange>, u64) {
        let mut outbox = self.inner.outbox.lock();
        if self.inner.can_send() {
            return (Vec::new(), number);
        }
        let (found, last) = outbox.after(number, most);
        outbox.note_told(last);
        (found, last)
    }

    fn take_waiting(&self, changes: Vec<WaitingChange>) {
        let inner = &self.inner;
        let Some(merge) = inner.merge() else { return };
        let mut outbox = inner.outbox.lock();
        let followed = changes.iter().filter_map(|theirs| {
            let (kind, id) = (theirs.change.kind(), theirs.change.id());
            let row = inner.shared.copy.shared.row(kind, id).ok()?;
            let followed = outbox.take_waiting(theirs, row.as_ref(), merge)?;
            if let Change::Delete(..) = followed {
                inner.own.live().put_note(ENDS, &note_of(kind, id), Some(Bytes::new()));
            }
            Some(followed)
        });
        let followed: Vec<Change> = followed.collect();
        if followed.is_empty() {
            return;
        }
        inner.added(outbox);
        inner.tell(LiveChange::Changes(&followed));
    }

    fn catch_up(&self) -> BoxFuture<'_, Result<(), CommitError>> {
        async move {
            let closed = |_| CommitError::Unavailable("the store was closed".to_owned());
            let mut followed = self.inner.followed.subscribe();
            let at = *followed.borrow_and_update();
            let head = match self.inner.shared.confirm(at).await {
                Ok(()) => return Ok(()),
                Err(CommitError::Stale { head }) => head,
                Err(error) => return Err(error),
            };
            followed.wait_for(|followed| *followed >= head).await.map_err(closed)?;
            Ok(())
        }
        .boxed()
    }
}
