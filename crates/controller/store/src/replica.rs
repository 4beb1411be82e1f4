//! The engine of a controller that shares its log with others: a copy in a file, which follows the shared log.
//!
//! A commit is acknowledged when it is in the shared log and in the copy. Everything is read from the copy, also while
//! the shared log cannot be reached. What happens when answers are lost, or another controller was first, is decided by
//! the [`machine`].

pub(crate) mod chunk;
mod driver;
mod machine;
mod memory_log;
mod moving;
mod obstacles;
mod outbox;
mod presence;
mod restoring;
mod shared_live;
mod shared_log;
pub(crate) mod spool;
mod taken;

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use weft_model::{ChangeSet, ColdField, Entity, Id, Kind, Revision};

#[cfg(test)]
pub(crate) use self::driver::checkpoint_of;
use self::driver::{Driver, Message};
use self::machine::{Machine, NOT_REACHED, Position};
pub use self::memory_log::{AppendFault, LogConnection, MemoryLog};
pub use self::moving::MoveError;
pub use self::obstacles::Obstacles;
use self::shared_live::SharedLive;
pub use self::shared_log::{
    ALIVE, Announcements, AppendError, Checkpoint, FetchError, HeadVersion, LogDigest, LogError,
    LogHead, SharedLog, SharedLogEntry,
};
use crate::standing::{Alive, LogMember, Presence, ReplicaCounts, ReplicaState};
use crate::{
    BackupError, BatchId, CommitError, Committed, Embedded, Examination, FollowError, Head,
    LiveStore, LogKeys, Mend, OpenError, Options, ReadError, Store, WallClock,
};

/// The time for which an answer of the members of the service counts: whoever asks more often makes no more work.
const MEMBERS: Duration = Duration::from_secs(2);

/// A store in one file that is a copy of a shared log.
pub struct Replica {
    copy: Embedded,
    driver: mpsc::UnboundedSender<Message>,
    task: JoinHandle<()>,
    log: Arc<dyn SharedLog>,
    states: watch::Receiver<ReplicaState>,
    counts: Arc<Mutex<ReplicaCounts>>,
    /// The members of the service, as they were asked last.
    members: tokio::sync::Mutex<Option<(Instant, Vec<LogMember>)>>,
    /// The controllers that are alive, as of a moment ago.
    alive: watch::Sender<Alive>,
    announcing: OnceLock<(Presence, JoinHandle<()>)>,
    /// Why the last announcement was refused.
    refused: watch::Sender<Option<String>>,
    /// Live entities that other controllers share; none if they are of this controller alone.
    live: Option<SharedLive>,
}

impl Replica {
    /// Opens the copy in a file as [`Self::open`] does, and that of a second log, for live entities, in a file beside it
    /// (`<path>.sessions`).
    pub async fn open_with_live(
        path: &Path,
        options: Options,
        log: Arc<dyn SharedLog>,
        live: Arc<dyn SharedLog>,
    ) -> Result<Self, OpenError> {
        if !std::fs::metadata(path).is_ok_and(|found| found.len() > 0) {
            // Sessions beside a copy that is not there any more may be of another history.
            shared_live::forget(path)?;
        }
        let mut replica = Self::open(path, options.clone(), log).await?;
        replica.live =
            Some(SharedLive::open((replica.copy.clone(), replica.states()), options, live).await?);
        Ok(replica)
    }

    /// Opens the copy in a file. A new copy takes everything from the shared log, and begins that if it is empty; so does
    /// one of a former state of the network. Any other one is opened also while the shared log cannot be reached. Must be
    /// called within a runtime of Tokio.
    pub async fn open(
        path: &Path,
        options: Options,
        log: Arc<dyn SharedLog>,
    ) -> Result<Self, OpenError> {
        let mut copy = Embedded::open(path, options.clone())?;
        let head = copy.head().map_err(|error| unreadable(path, &error))?;
        let is_new = head.revision == Revision::default();
        let is_former = taken::is_copy(&copy).await.is_ok_and(|is_copy| is_copy)
            && is_former(&*log, &head).await;
        if (is_new || is_former) && join(path, &*log, &copy, &head).await? {
            // The journal of live state belongs to the timeline that the copy had.
            copy.close().await.map_err(|error| unreadable(path, &error))?;
            copy = Embedded::open(path, options)?;
        }
        let head = copy.head().map_err(|error| unreadable(path, &error))?;
        let digest = copy.shared.digest();
        let digest = digest.map_err(|failure| unreadable(path, &ReadError::from(failure)))?;
        let reads = copy.shared.options.reads;
        let end = Position { revision: head.revision, digest };
        let machine = Machine::new(head.timeline, end, reads);
        let (back, inbox) = mpsc::unbounded_channel();
        let (told, mut states) = watch::channel(driver::state_of(&machine));
        let counts = Arc::<Mutex<ReplicaCounts>>::default();
        let ends = (back.clone(), inbox);
        let seen = (told, Arc::clone(&counts));
        let driver = Driver::new(machine, (copy.clone(), Arc::clone(&log)), ends, seen);
        let task = tokio::spawn(driver.run());
        // The first changes of a controller come at once, and should not be refused.
        let is_answered = |state: &ReplicaState| state.obstacle.as_deref() != Some(NOT_REACHED);
        let _ = tokio::time::timeout(driver::REQUEST, states.wait_for(is_answered)).await;
        // What begins on a copy that is behind may be refused for what was true once.
        let is_ready = |state: &ReplicaState| state.obstacle.is_some() || state.lag == 0;
        let _ = tokio::time::timeout(driver::REQUEST * 5, states.wait_for(is_ready)).await;
        let alive = watch::Sender::default();
        Ok(Self {
            copy,
            driver: back,
            task,
            log,
            states,
            counts,
            members: tokio::sync::Mutex::default(),
            alive,
            announcing: OnceLock::new(),
            refused: watch::Sender::default(),
            live: None,
        })
    }

    /// Tells the others from now on that this controller is alive and what its clock shows, and hears which others are
    /// ([`Store::alive`]).
    pub fn announce(&self, own: Presence, clock: WallClock) {
        let (log, copy) = (Arc::clone(&self.log), self.copy.clone());
        let task = tokio::spawn(presence::announce(
            log,
            (copy, self.obstacles()),
            (own.clone(), clock),
            (self.alive.clone(), self.refused.clone()),
        ));
        if let Err((_, second)) = self.announcing.set((own, task)) {
            second.abort();
        }
    }

    /// Tells the others that this controller is not alive any more.
    async fn leave(&self) {
        let Some((own, task)) = self.announcing.get() else { return };
        task.abort();
        // If nobody hears it, the time of the announcement runs out.
        let _ = tokio::time::timeout(driver::REQUEST, self.log.withdraw(own.run)).await;
    }

    /// How the copy stands to the shared log.
    #[must_use]
    pub fn states(&self) -> watch::Receiver<ReplicaState> {
        self.states.clone()
    }

    /// Why this controller cannot share changes with the others, now and later.
    #[must_use]
    pub fn obstacles(&self) -> Obstacles {
        Obstacles {
            model: self.states(),
            sessions: self.live.as_ref().map(SharedLive::states),
            announcements: self.refused.subscribe(),
        }
    }

    /// Sends the driver a message, and waits for its answer; `ended` if the store was closed before there was one.
    async fn ask<T>(
        &self,
        message: impl FnOnce(oneshot::Sender<Result<T, CommitError>>) -> Message,
        ended: impl FnOnce(String) -> CommitError,
    ) -> Result<T, CommitError> {
        const CLOSED: &str = "the store was closed";
        let (answer, answered) = oneshot::channel();
        let sent = self.driver.send(message(answer));
        sent.map_err(|_| CommitError::Unavailable(CLOSED.to_owned()))?;
        answered.await.map_err(|_| ended(CLOSED.to_owned()))?
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.task.abort();
        self.announcing.get().inspect(|(_, task)| task.abort());
    }
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replica").field("copy", &self.copy).finish_non_exhaustive()
    }
}

fn unreadable(path: &Path, error: &dyn std::error::Error) -> OpenError {
    OpenError::Io { path: path.to_owned(), error: std::io::Error::other(error.to_string()) }
}

/// Whether the network has begun a new timeline since this end of a copy. What is not known counts as no.
async fn is_former(log: &dyn SharedLog, head: &Head) -> bool {
    let asked = async {
        let theirs = log.head().await.ok()??;
        let is_other = theirs.head.timeline != head.timeline;
        Some(is_other && log.former().await.ok()?.contains(&head.timeline))
    };
    let is_former = matches!(tokio::time::timeout(driver::REQUEST, asked).await, Ok(Some(true)));
    if is_former {
        tracing::info!(
            "the network was restored: everything is taken anew from what the controllers share"
        );
    }
    is_former
}

/// Takes everything from the shared log into a copy, or begins the log. True if the copy has changed.
async fn join(
    path: &Path,
    log: &dyn SharedLog,
    copy: &Embedded,
    head: &Head,
) -> Result<bool, OpenError> {
    let failed = |error: String| unreadable(path, &LogError::Unavailable(error));
    let theirs = log.head().await.map_err(|error| failed(error.to_string()))?;
    let theirs = match theirs {
        Some(theirs) => theirs,
        None => {
            let chunks = futures::stream::empty().boxed();
            let from = Checkpoint { head: head.clone(), digest: LogDigest::default(), chunks };
            log.begin(from).await.map_err(|error| failed(error.to_string()))?
        }
    };
    if theirs.head.timeline == head.timeline {
        return Ok(false);
    }
    let now = (&theirs.head.timeline, head.revision);
    driver::reload(log, copy, now).await.map_err(failed)?;
    Ok(true)
}

impl Store for Replica {
    fn head(&self) -> Result<Head, ReadError> {
        self.copy.head()
    }

    fn load(&self, rows: &mut dyn FnMut(Entity)) -> Result<Head, OpenError> {
        self.copy.load(rows)
    }

    fn commit_as(
        &self,
        batch: BatchId,
        base: Revision,
        sets: Vec<Arc<ChangeSet>>,
    ) -> BoxFuture<'_, Result<Revision, CommitError>> {
        // The batch may have been sent.
        let ended = move |reason| CommitError::Unknown { batch, reason };
        self.ask(move |answer| Message::Commit { batch, base, sets, answer }, ended).boxed()
    }

    fn settle(&self, batch: BatchId) -> BoxFuture<'_, Result<Option<Revision>, CommitError>> {
        self.ask(move |answer| Message::Settle(batch, answer), CommitError::Unavailable).boxed()
    }

    fn confirm(&self, base: Revision) -> BoxFuture<'_, Result<(), CommitError>> {
        self.ask(move |answer| Message::Confirm(base, answer), CommitError::Unavailable).boxed()
    }

    fn heads(&self) -> watch::Receiver<Revision> {
        self.copy.heads()
    }

    fn follow(&self, after: Revision) -> BoxStream<'static, Result<Committed, FollowError>> {
        self.copy.follow(after)
    }

    fn cold(&self, kind: Kind, id: &Id, field: ColdField) -> Result<Option<Bytes>, ReadError> {
        self.copy.cold(kind, id, field)
    }

    fn blob(
        &self,
        kind: Kind,
        id: &Id,
        field: ColdField,
    ) -> BoxFuture<'_, Result<Option<Bytes>, ReadError>> {
        self.copy.blob(kind, id, field)
    }

    fn formats(&self) -> [u32; 2] {
        self.copy.formats()
    }

    fn alive(&self) -> Option<watch::Receiver<Alive>> {
        Some(self.alive.subscribe())
    }

    fn presence(&self) -> Presence {
        self.announcing.get().map(|(own, _)| own.clone()).unwrap_or_default()
    }

    fn standing(&self) -> ReplicaState {
        let state = self.states.borrow().clone();
        ReplicaState { obstacle: self.obstacles().current(), ..state }
    }

    fn counts(&self) -> ReplicaCounts {
        *self.counts.lock()
    }

    fn log_members(&self) -> BoxFuture<'_, Vec<LogMember>> {
        async {
            let mut known = self.members.lock().await;
            if let Some((at, members)) = &*known
                && at.elapsed() < MEMBERS
            {
                return members.clone();
            }
            let members = self.log.members().await;
            *known = Some((Instant::now(), members.clone()));
            members
        }
        .boxed()
    }

    fn log_keys(&self) -> Option<Arc<dyn LogKeys>> {
        self.log.keys()
    }

    fn seal_anew(&self) -> BoxFuture<'_, Result<bool, LogError>> {
        async {
            let is_anew = self.log.is_sealed_anew().await?;
            if !is_anew {
                // The driver may have ended.
                let _ = self.driver.send(Message::Checkpoint);
            }
            match &self.live {
                Some(live) => Ok(live.seal_anew().await? && is_anew),
                None => Ok(is_anew),
            }
        }
        .boxed()
    }

    fn live(&self) -> &dyn LiveStore {
        match &self.live {
            Some(shared) => shared,
            None => self.copy.live(),
        }
    }

    fn file(&self) -> Option<&Path> {
        self.copy.file()
    }

    fn examine(&self) -> Result<Box<dyn Examination>, ReadError> {
        self.copy.examine()
    }

    fn mend(&self, base: Revision, mends: Vec<Mend>) -> BoxFuture<'_, Result<(), CommitError>> {
        self.copy.mend(base, mends)
    }

    fn backup(&self, to: &Path) -> BoxFuture<'_, Result<Revision, BackupError>> {
        self.copy.backup(to)
    }

    fn close(&self) -> BoxFuture<'_, Result<(), CommitError>> {
        async {
            self.leave().await;
            let live = match &self.live {
                Some(live) => live.close().await,
                None => Ok(()),
            };
            self.task.abort();
            self.copy.close().await.and(live)
        }
        .boxed()
    }
}
