//! Carries out what the machine of a copy says: requests to the shared log, writes to the copy, answers to callers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use weft_model::{ChangeSet, Revision, Timeline};

use super::machine::{FetchFailure, Input, Machine, Output, Position, Ticket, too_new};
use super::shared_log::{
    AppendError, Checkpoint, FetchError, HeadVersion, LogError, LogHead, SharedLog, SharedLogEntry,
};
use super::spool::Spool;
use crate::embedded::Failure;
use crate::standing::{ReplicaCounts, ReplicaState};
use crate::{BatchId, CommitError, Embedded};

/// The time for an answer of the shared log to an append, a fence, or a question for its head.
pub(super) const REQUEST: Duration = Duration::from_secs(2);
/// The time for an answer with change sets.
const FETCH: Duration = Duration::from_secs(10);
/// Most change sets that are read at once.
const CHUNK: u64 = 256;
/// The pause after a failure of reading or writing.
const PAUSE: Duration = Duration::from_millis(500);
/// The pause after a checkpoint that was not written.
const CHECKPOINT_PAUSE: Duration = Duration::from_secs(60);
/// Parts of a checkpoint that are read ahead.
const CHUNKS_AHEAD: usize = 4;
/// After so many commits in a row that lost to those of other controllers, this one takes the turn.
const LOSSES: u32 = 3;
/// Pauses between tries to reach the shared log: the first, and the longest.
const RECONNECT: Duration = Duration::from_millis(100);
const RECONNECT_MOST: Duration = Duration::from_secs(2);

/// What reaches the driver.
pub(super) enum Message {
    Commit {
        batch: BatchId,
        base: Revision,
        sets: Vec<Arc<ChangeSet>>,
        answer: Answer<Revision>,
    },
    Settle(BatchId, Answer<Option<Revision>>),
    Confirm(Revision, Answer<()>),
    Input(Input),
    /// Change sets were read from the shared log.
    Entries(Vec<SharedLogEntry>),
    /// The turn was not taken: it may be the next time.
    TurnNotTaken,
    /// The log may want a checkpoint.
    Checkpoint,
    /// A checkpoint was written, or was not.
    Checkpointed,
}

/// Where a caller waits.
type Answer<T> = oneshot::Sender<Result<T, CommitError>>;

/// What a caller asks.
enum Question {
    Settle(Answer<Option<Revision>>),
    Confirm(Answer<()>),
}

/// The batch of a caller.
struct Pending {
    sets: Vec<Arc<ChangeSet>>,
    /// The change sets as they were sent.
    entries: Vec<SharedLogEntry>,
    answer: Option<Answer<Revision>>,
}

/// Counts an answer to an append.
fn note_append(counts: &mut ReplicaCounts, answer: &Result<LogHead, AppendError>, took: Duration) {
    match answer {
        Ok(_) => {
            counts.appends += 1;
            let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            counts.append_micros = counts.append_micros.saturating_add(micros);
        }
        Err(AppendError::Moved(_)) => counts.conflicts += 1,
        Err(AppendError::Refused(_) | AppendError::Unanswered(_)) => counts.failures += 1,
    }
}

pub(super) fn state_of(machine: &Machine) -> ReplicaState {
    ReplicaState {
        obstacle: machine.obstacle().map(str::to_owned),
        lag: machine.lag(),
        has_diverged: machine.has_stopped(),
    }
}

/// Carries out what the machine says.
pub(super) struct Driver {
    machine: Machine,
    copy: Embedded,
    log: Arc<dyn SharedLog>,
    inbox: mpsc::UnboundedReceiver<Message>,
    back: mpsc::UnboundedSender<Message>,
    states: watch::Sender<ReplicaState>,
    counts: Arc<Mutex<ReplicaCounts>>,
    /// The newest version of the head, for the task that watches it.
    version: Arc<AtomicU64>,
    pending: HashMap<BatchId, Pending>,
    questions: HashMap<Ticket, Question>,
    tickets: Ticket,
    fetched: Vec<SharedLogEntry>,
    is_checkpointing: bool,
    /// Commits in a row that lost to those of others.
    losses: u32,
}

impl Driver {
    pub(super) fn new(
        machine: Machine,
        (copy, log): (Embedded, Arc<dyn SharedLog>),
        (back, inbox): (mpsc::UnboundedSender<Message>, mpsc::UnboundedReceiver<Message>),
        (states, counts): (watch::Sender<ReplicaState>, Arc<Mutex<ReplicaCounts>>),
    ) -> Self {
        Self {
            machine,
            copy,
            log,
            inbox,
            back,
            states,
            counts,
            version: Arc::default(),
            pending: HashMap::new(),
            questions: HashMap::new(),
            tickets: 0,
            fetched: Vec::new(),
            is_checkpointing: false,
            losses: 0,
        }
    }

    /// Runs until it is dropped.
    pub(super) async fn run(mut self) {
        let watching = watch_log(self.log.clone(), self.back.clone(), self.version.clone());
        let mut watching = std::pin::pin!(watching);
        loop {
            let message = tokio::select! {
                message = self.inbox.recv() => message,
                () = &mut watching => None,
            };
            let Some(message) = message else { return };
            if let Some(input) = self.take(message) {
                self.step(input);
            }
        }
    }

    /// The input that a message is.
    fn take(&mut self, message: Message) -> Option<Input> {
        match message {
            Message::Commit { batch, base, sets, answer } => {
                let count = sets.len() as u64;
                let pending = Pending { sets, entries: Vec::new(), answer: Some(answer) };
                self.pending.insert(batch, pending);
                Some(Input::Commit { batch, base, count })
            }
            Message::Settle(batch, answer) => {
                let ticket = self.question(Question::Settle(answer));
                Some(Input::Settle { batch, ticket })
            }
            Message::Confirm(base, answer) => {
                let ticket = self.question(Question::Confirm(answer));
                Some(Input::Confirm { base, ticket })
            }
            Message::Entries(entries) => {
                self.fetched = entries;
                Some(Input::Fetched(Ok(())))
            }
            Message::TurnNotTaken => None,
            Message::Checkpoint => {
                self.checkpoint_if_wanted();
                None
            }
            Message::Checkpointed => {
                self.is_checkpointing = false;
                None
            }
            Message::Input(input) => Some(input),
        }
    }

    fn question(&mut self, question: Question) -> Ticket {
        self.tickets += 1;
        self.questions.insert(self.tickets, question);
        self.tickets
    }

    fn step(&mut self, input: Input) {
        // A batch of this controller may also come by the watch, before its append is answered.
        let is_own = |batch: &BatchId| self.pending.contains_key(batch);
        let has_written =
            matches!(&input, Input::Applied(Ok((_, batches))) if batches.iter().any(is_own));
        for output in self.machine.step(input) {
            self.carry_out(output);
        }
        if has_written {
            self.checkpoint_if_wanted();
        }
        self.version.store(self.machine.version().0, Ordering::Release);
        let state = state_of(&self.machine);
        self.states.send_if_modified(|known| {
            let is_new = *known != state;
            *known = state;
            is_new
        });
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Append { batch, at } => self.append(batch, at),
            Output::Fence { ticket, since } => {
                self.ask(ticket, since, |log| async move { Ok(Some(log.fence().await?)) });
            }
            Output::Read { ticket, since } => {
                self.ask(ticket, since, |log| async move { log.head().await });
            }
            Output::Fetch { after, most } => self.fetch(after, most),
            Output::Apply => {
                let entries = std::mem::take(&mut self.fetched);
                self.write(entries);
            }
            Output::ApplyOwn(batch) => {
                let own = self.pending.get(&batch).map(|pending| pending.entries.clone());
                self.write(own.unwrap_or_default());
            }
            Output::Reload => self.reload(),
            Output::Pause => {
                let copy = self.copy.clone();
                self.later(async move {
                    tokio::time::sleep(PAUSE).await;
                    Message::Input(Input::Due(position(&copy).await.ok()))
                });
            }
            Output::Answer(batch, answer) => self.answer(batch, answer),
            Output::Lookup { batch, ticket, base } => {
                self.look_up(batch, ticket, base);
            }
            Output::Tell(ticket, answer) => match (self.questions.remove(&ticket), answer) {
                (Some(Question::Confirm(told)), answer) => drop(told.send(answer)),
                (Some(Question::Settle(told)), answer) => {
                    drop(told.send(answer.map(|()| None)));
                }
                (None, _) => {}
            },
        }
    }

    /// Runs work whose result comes back as a message.
    fn later(&self, work: impl Future<Output = Message> + Send + 'static) {
        let back = self.back.clone();
        tokio::spawn(async move {
            let message = work.await;
            // The driver may have ended.
            let _ = back.send(message);
        });
    }

    fn append(&mut self, batch: BatchId, at: LogHead) {
        let Some(pending) = self.pending.get_mut(&batch) else { return };
        let mut end = (at.head.revision, at.digest);
        let entries = pending.sets.iter().map(|set| {
            let entry = SharedLogEntry::after(end, batch, Arc::clone(set));
            end = (entry.revision, entry.digest);
            entry
        });
        pending.entries = entries.collect();
        let (log, entries) = (self.log.clone(), pending.entries.clone());
        let counts = Arc::clone(&self.counts);
        self.later(async move {
            // A batch that is larger than a request takes several.
            let size = entries.iter().map(|entry| entry.bytes.len()).sum::<usize>();
            let time = REQUEST * (1 + (size >> 20) as u32);
            let began = Instant::now();
            let answer = tokio::time::timeout(time, log.append(at, entries)).await;
            let late = || AppendError::Unanswered("the shared log does not answer".to_owned());
            let answer = answer.unwrap_or_else(|_| Err(late()));
            note_append(&mut counts.lock(), &answer, began.elapsed());
            Message::Input(Input::Appended(batch, answer))
        });
    }

    /// Asks the shared log for its head, in one way or another.
    fn ask<F>(
        &self,
        ticket: Ticket,
        since: HeadVersion,
        ask: impl FnOnce(Arc<dyn SharedLog>) -> F + Send + 'static,
    ) where
        F: Future<Output = Result<Option<LogHead>, LogError>> + Send,
    {
        let log = self.log.clone();
        self.later(async move {
            let head = match tokio::time::timeout(REQUEST, ask(log)).await {
                Ok(Ok(Some(head))) => Ok(head),
                Ok(Ok(None)) => Err("the shared log is empty".to_owned()),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err("the shared log does not answer".to_owned()),
            };
            Message::Input(Input::Answered { ticket, since, head })
        });
    }

    fn fetch(&self, after: Position, most: u64) {
        let log = self.log.clone();
        self.later(async move {
            let most = most.min(CHUNK) as usize;
            let read = tokio::time::timeout(FETCH, log.entries(after.revision, most)).await;
            let read = match read {
                Ok(Ok(entries)) => check_entries(after, entries),
                Ok(Err(FetchError::TooOld { .. })) => Err(FetchFailure::TooOld),
                // Somebody else than a controller of this network wrote it.
                Ok(Err(FetchError::Log(error @ LogError::Damaged(_)))) => {
                    Err(FetchFailure::Diverged(error.to_string()))
                }
                Ok(Err(FetchError::Log(error))) => failed(&error),
                Err(late) => failed(&late),
            };
            match read {
                Ok(entries) => Message::Entries(entries),
                Err(failure) => Message::Input(Input::Fetched(Err(failure))),
            }
        });
    }

    fn write(&self, entries: Vec<SharedLogEntry>) {
        let copy = self.copy.clone();
        self.later(async move {
            let mut batches: Vec<BatchId> = entries.iter().map(|entry| entry.batch).collect();
            batches.dedup();
            let end = entries
                .last()
                .map(|last| Position { revision: last.revision, digest: Some(last.digest) });
            let base = entries.first().map(|first| Revision(first.revision.0.saturating_sub(1)));
            let (Some(end), Some(base)) = (end, base) else {
                return Message::Input(Input::Applied(Err("there is nothing to write".to_owned())));
            };
            let written = copy.blocking(move |shared| shared.append(base, &entries)).await;
            Message::Input(Input::Applied(match written {
                Ok(()) => Ok((end, batches)),
                // An earlier write that failed was on the disk all the same.
                Err(Failure::Stale(_)) => match position(&copy).await {
                    Ok(end) => Ok((end, Vec::new())),
                    Err(failure) => Err(not_written(failure)),
                },
                Err(failure) => Err(not_written(failure)),
            }))
        });
    }

    fn reload(&self) {
        let (log, copy) = (self.log.clone(), self.copy.clone());
        let (timeline, known) = (self.machine.timeline().clone(), self.machine.end());
        self.later(async move {
            let reloaded = reload(&*log, &copy, (&timeline, known)).await.map_err(|error| {
                tracing::warn!(error, "the copy was not loaded anew from the shared log; it is tried again");
                format!("changes of others are no longer in the log, and no checkpoint has them: {error}")
            });
            Message::Input(Input::Reloaded(reloaded))
        });
    }

    /// Gives the shared log a checkpoint of the copy, if it wants one.
    fn checkpoint_if_wanted(&mut self) {
        if self.is_checkpointing || !self.log.wants_checkpoint() {
            return;
        }
        self.is_checkpointing = true;
        let (log, copy) = (self.log.clone(), self.copy.clone());
        self.later(async move {
            match write_checkpoint(&*log, &copy).await {
                Ok(revision) => tracing::info!(%revision, "a checkpoint for the shared log was written"),
                Err(cause) => {
                    tracing::warn!(%cause, "the shared log got no checkpoint; it is tried again in a minute");
                    tokio::time::sleep(CHECKPOINT_PAUSE).await;
                }
            }
            Message::Checkpointed
        });
    }

    fn answer(&mut self, batch: BatchId, answer: Result<Revision, CommitError>) {
        let Some(told) = self.pending.remove(&batch).and_then(|pending| pending.answer) else {
            return;
        };
        self.losses = match &answer {
            Err(CommitError::Stale { .. }) => self.losses + 1,
            Ok(_) => 0,
            Err(_) => self.losses,
        };
        if self.losses < LOSSES {
            // The caller may have gone.
            let _ = told.send(answer);
            return;
        }
        self.losses = 0;
        let (log, since) = (Arc::clone(&self.log), self.machine.version());
        self.later(async move {
            let taken = tokio::time::timeout(REQUEST, log.take_turn()).await;
            let Some(head) = taken.ok().and_then(Result::ok).flatten() else {
                let _ = told.send(answer);
                return Message::TurnNotTaken;
            };
            // The caller decides on the head that nobody else moves now.
            let _ = told.send(Err(CommitError::Stale { head: head.head.revision }));
            Message::Input(Input::Head { head, since })
        });
    }

    fn look_up(&mut self, batch: BatchId, ticket: Ticket, base: Option<Revision>) {
        let Some(Question::Settle(told)) = self.questions.remove(&ticket) else { return };
        let copy = self.copy.clone();
        tokio::spawn(async move {
            let found =
                copy.blocking(move |shared| Ok((shared.find_batch(batch)?, shared.log_begins()?)));
            let outcome = match found.await {
                Ok((None, begins)) if begins > base.unwrap_or_default().next() => {
                    Err(CommitError::Forgotten(batch))
                }
                found => found.map(|(found, _)| found).map_err(CommitError::from),
            };
            let _ = told.send(outcome);
        });
    }
}

fn not_written(failure: Failure) -> String {
    let error = CommitError::from(failure);
    tracing::warn!(%error, "the copy of the shared log could not be written; it is tried again");
    format!("the change is in the shared log, and not in the copy of this controller: {error}")
}

/// The end of the copy.
async fn position(copy: &Embedded) -> Result<Position, Failure> {
    copy.blocking(|shared| {
        Ok(Position { revision: shared.head()?.revision, digest: shared.digest()? })
    })
    .await
}

/// Replaces the copy by the newest checkpoint. Returns its end.
pub(super) async fn reload(
    log: &dyn SharedLog,
    copy: &Embedded,
    (timeline, known): (&Timeline, Revision),
) -> Result<(Position, Option<LogHead>), String> {
    let here = position(copy).await.map_err(|failure| CommitError::from(failure).to_string())?;
    if here.revision != known {
        // A write that failed was on the disk all the same.
        return Ok((here, None));
    }
    let checkpoint = log.checkpoint().await.map_err(|error| error.to_string())?;
    let end = Position { revision: checkpoint.head.revision, digest: Some(checkpoint.digest) };
    let head = crate::Store::head(copy).map_err(|error| error.to_string())?;
    if checkpoint.head.timeline != *timeline {
        return Err("the checkpoint in the shared log is of another timeline".to_owned());
    }
    let reads = copy.shared.options.reads;
    if checkpoint.head.format > reads {
        return Err(too_new(checkpoint.head.format, reads));
    }
    if end.revision <= head.revision && checkpoint.head.timeline == head.timeline {
        return Err("the newest checkpoint in the shared log is not newer than the copy".to_owned());
    }
    match known == Revision::default() {
        true => tracing::debug!(revision = %end.revision, "loading a new copy from the shared log"),
        false => {
            tracing::info!(revision = %end.revision, "loading the copy anew from the shared log")
        }
    }
    let Checkpoint { head, digest, chunks } = checkpoint;
    let parts = spool(copy, chunks).await?;
    let replaced = copy.blocking(move |shared| shared.replace(&head, digest, parts)).await;
    replaced.map_err(|failure| CommitError::from(failure).to_string())?;
    // Without it, the next head that comes tells where the log is.
    Ok((end, log.head().await.ok().flatten()))
}

/// Brings the parts of a checkpoint into a file.
async fn spool(
    copy: &Embedded,
    mut chunks: BoxStream<'static, Result<Bytes, LogError>>,
) -> Result<Spool, String> {
    let database = copy.shared.path().to_owned();
    let kept = |error: std::io::Error| format!("the checkpoint could not be kept: {error}");
    let mut spool = Spool::beside(&database).map_err(kept)?;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| error.to_string())?;
        let put = tokio::task::spawn_blocking(move || spool.put(&chunk).map(|()| spool));
        spool = put.await.map_err(|error| error.to_string())?.map_err(kept)?;
    }
    Ok(spool)
}

/// Writes a checkpoint of the copy to the shared log. Returns its revision.
async fn write_checkpoint(log: &dyn SharedLog, copy: &Embedded) -> Result<Revision, String> {
    let checkpoint = checkpoint_of(copy).await?;
    let revision = checkpoint.head.revision;
    log.write_checkpoint(checkpoint).await.map_err(|error| error.to_string())?;
    Ok(revision)
}

/// A checkpoint of the copy, which is read while it is used.
pub(crate) async fn checkpoint_of(copy: &Embedded) -> Result<Checkpoint, String> {
    let (told, head) = oneshot::channel();
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    let shared = Arc::clone(&copy.shared);
    let reading = tokio::task::spawn_blocking(move || {
        let begin = |head, digest| told.send((head, digest)).is_ok();
        shared.checkpoint(begin, |chunk| sender.blocking_send(Ok(chunk)).is_ok())
    });
    let Ok((head, digest)) = head.await else {
        let read = reading.await.map_err(|error| error.to_string())?;
        let why = read.map_err(|failure| CommitError::from(failure).to_string());
        return why.and(Err("the copy could not be read".to_owned()));
    };
    let chunks = futures::stream::unfold(receiver, |mut receiver| async move {
        let chunk = receiver.recv().await?;
        Some((chunk, receiver))
    });
    // A checkpoint that was not read to its end must not count.
    let end = async {
        match reading.await {
            Ok(Ok(())) => None,
            Ok(Err(failure)) => Some(CommitError::from(failure).to_string()),
            Err(error) => Some(error.to_string()),
        }
    };
    let end = futures::stream::once(end)
        .filter_map(|end| async { end.map(|why| Err(LogError::Unavailable(why))) });
    let chunks = chunks.chain(end).boxed();
    Ok(Checkpoint { head, digest, chunks })
}

fn failed(cause: &dyn std::fmt::Display) -> Result<Vec<SharedLogEntry>, FetchFailure> {
    tracing::debug!(%cause, "change sets were not read from the shared log; they are read again");
    Err(FetchFailure::Failed(format!("the changes of others cannot be read: {cause}")))
}

/// Checks that change sets follow from the copy.
fn check_entries(
    after: Position,
    entries: Vec<SharedLogEntry>,
) -> Result<Vec<SharedLogEntry>, FetchFailure> {
    if entries.is_empty() {
        return failed(&"it has nothing yet");
    }
    let (mut revision, mut digest) = (after.revision, after.digest);
    for entry in &entries {
        if entry.revision != revision.next() {
            return failed(&format!("it lacks change set {}", revision.next()));
        }
        if digest.is_some_and(|digest| !entry.follows(digest)) {
            return Err(FetchFailure::Diverged(format!(
                "change set {} of the shared log does not follow from the copy of this controller",
                entry.revision
            )));
        }
        (revision, digest) = (entry.revision, Some(entry.digest));
    }
    Ok(entries)
}

/// Tells the driver every head of the shared log, and when the log cannot be reached.
async fn watch_log(
    log: Arc<dyn SharedLog>,
    driver: mpsc::UnboundedSender<Message>,
    version: Arc<AtomicU64>,
) {
    let mut pause = RECONNECT;
    loop {
        let since = HeadVersion(version.load(Ordering::Acquire));
        let mut heads = log.watch();
        // The first head is read after the watch has begun.
        let first = tokio::time::timeout(2 * REQUEST, heads.next()).await;
        let mut next = first.unwrap_or_else(|_| Some(Err(late())));
        let mut since = Some(since);
        let why = loop {
            match next {
                Some(Ok(head)) => {
                    pause = RECONNECT;
                    let since = since.take().unwrap_or_default();
                    if driver.send(Message::Input(Input::Head { head, since })).is_err() {
                        return;
                    }
                }
                Some(Err(error)) => break error.to_string(),
                None => break "the connection to the shared log is lost".to_owned(),
            }
            next = heads.next().await;
        };
        if driver.send(Message::Input(Input::Unreachable(why))).is_err() {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RECONNECT_MOST);
    }
}

fn late() -> LogError {
    LogError::Unavailable("the shared log does not answer".to_owned())
}
