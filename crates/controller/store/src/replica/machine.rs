//! A controller's copy of the shared log, and the batches that it appends: a state machine without I/O, lock, clock or
//! randomness.
//!
//! ```text
//!  batches of callers ──────┐                      ┌──> appends, fences, reads of the shared log
//!  heads of the shared log ─┼──> Machine::step ────┼──> writes to the copy
//!  answers ─────────────────┘         │            └──> answers to callers
//!                                   table
//! ```
//!
//! A batch is answered when it is in the shared log and in the copy. A batch that lost to another controller's is
//! answered when the copy has that one. The outcome of a batch whose answer was lost is looked up in the copy, after a
//! fence has made sure that the batch cannot come any more and the copy has reached the head behind the fence.

mod table;
#[cfg(test)]
mod tests;

use weft_model::{Revision, Timeline};

use self::table::{Action, Event, Row, State, TABLE};
use super::shared_log::{AppendError, HeadVersion, LogDigest, LogHead};
use crate::head::Barred;
use crate::{BatchId, CommitError};

/// Most batches and questions of callers that wait. A controller's writer has one.
const MOST: usize = 64;

/// The obstacle before the first answer of the shared log.
pub(super) const NOT_REACHED: &str = "the shared log was not reached yet";

/// Number of a question of a caller.
pub(super) type Ticket = u64;

/// What the machine is told.
#[derive(Debug, Clone)]
pub(super) enum Input {
    /// A caller commits a batch of so many change sets, which were decided on a revision.
    Commit { batch: BatchId, base: Revision, count: u64 },
    /// A caller asks for the outcome of a batch.
    Settle { batch: BatchId, ticket: Ticket },
    /// A caller asks whether the head is still at a revision.
    Confirm { base: Revision, ticket: Ticket },
    /// The shared log has this head. It was asked for it when `since` was the newest version known.
    Head { head: LogHead, since: HeadVersion },
    /// The shared log cannot be reached.
    Unreachable(String),
    /// The answer to [`Output::Append`].
    Appended(BatchId, Result<LogHead, AppendError>),
    /// The answer to [`Output::Fence`] or [`Output::Read`].
    Answered { ticket: Ticket, since: HeadVersion, head: Result<LogHead, String> },
    /// The answer to [`Output::Fetch`].
    Fetched(Result<(), FetchFailure>),
    /// The answer to [`Output::Apply`]: the end of the copy, and the batches that were written.
    Applied(Result<(Position, Vec<BatchId>), String>),
    /// The answer to [`Output::Reload`]: the end of the copy, and a head that was read afterwards if it could be read.
    Reloaded(Result<(Position, Option<LogHead>), String>),
    /// The pause is over: the end of the copy, if it can be read. A write that failed may be on the disk all the same.
    Due(Option<Position>),
}

/// A place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) revision: Revision,
    /// None for a copy whose digest is not known.
    pub(super) digest: Option<LogDigest>,
}

/// Why change sets were not read.
#[derive(Debug, Clone)]
pub(super) enum FetchFailure {
    TooOld,
    Failed(String),
    /// They do not follow from the copy.
    Diverged(String),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Output {
    /// Send a batch to the shared log, once, for this head.
    Append { batch: BatchId, at: LogHead },
    /// Fence the shared log.
    Fence { ticket: Ticket, since: HeadVersion },
    /// Read the head.
    Read { ticket: Ticket, since: HeadVersion },
    /// Read at most so many change sets after this position, and compare their digests.
    Fetch { after: Position, most: u64 },
    /// Write to the copy what was read last.
    Apply,
    /// Write a batch of this controller to the copy.
    ApplyOwn(BatchId),
    /// Replace the copy by the newest checkpoint.
    Reload,
    /// Let some time pass.
    Pause,
    /// Answer a batch.
    Answer(BatchId, Result<Revision, CommitError>),
    /// Look a batch up in the log of the copy, and answer with its revision. If it is not there, it did not happen if
    /// that log goes back to its base, and it is forgotten otherwise.
    Lookup { batch: BatchId, ticket: Ticket, base: Option<Revision> },
    /// Answer a question: the head is still at the revision, or the batch did not happen, or why this is not known.
    Tell(Ticket, Result<(), CommitError>),
}

#[derive(Debug)]
struct Batch {
    id: BatchId,
    state: State,
    base: Revision,
    count: u64,
    /// The version of the head that it was sent for.
    at: HeadVersion,
}

impl Batch {
    fn last(&self) -> Revision {
        Revision(self.base.0 + self.count)
    }
}

/// What a caller asks.
#[derive(Debug)]
enum Question {
    Settle(BatchId),
    Confirm(Revision),
}

#[derive(Debug)]
struct Asked {
    ticket: Ticket,
    question: Question,
    /// The head that the shared log has answered with: the copy has to reach it.
    until: Option<Revision>,
}

/// The machine.
#[derive(Debug)]
pub(super) struct Machine {
    table: &'static [Row],
    timeline: Timeline,
    /// The newest format that this program reads.
    reads: u32,
    /// The state of the copy, and its end.
    copy: State,
    end: Position,
    /// The newest head that is known.
    head: Option<LogHead>,
    /// Why the shared log cannot be used.
    obstacle: Option<String>,
    /// Why the copy could not be brought up to date when that was tried last.
    trouble: Option<String>,
    batches: Vec<Batch>,
    asked: Vec<Asked>,
    barred: Barred,
    outputs: Vec<Output>,
    #[cfg(test)]
    taken: Vec<usize>,
}

/// What to do about a copy of another history.
const ANOTHER: &str = "restart this controller: if the network was restored, it takes everything anew. If it stays so, remove \
                       the copy (the file that `db` names)";

/// What to do about a network whose stored data has a newer format.
pub(super) fn too_new(format: u32, reads: u32) -> String {
    format!(
        "the network was upgraded to format {format}, and this weft reads up to {reads}: use a newer weft, as the other \
         controllers do"
    )
}

impl Machine {
    /// The machine for a copy of this timeline that ends here. The shared log was not reached yet.
    pub(super) fn new(timeline: Timeline, end: Position, reads: u32) -> Self {
        Self {
            table: TABLE,
            timeline,
            reads,
            copy: State::Level,
            end,
            head: None,
            obstacle: Some(NOT_REACHED.to_owned()),
            trouble: None,
            batches: Vec::new(),
            asked: Vec::new(),
            barred: Barred::default(),
            outputs: Vec::new(),
            #[cfg(test)]
            taken: Vec::new(),
        }
    }

    /// The newest version of the head that is known.
    pub(super) fn version(&self) -> HeadVersion {
        self.head.as_ref().map(|head| head.version).unwrap_or_default()
    }

    /// Why nothing can be committed, if so.
    pub(super) fn obstacle(&self) -> Option<&str> {
        self.obstacle.as_deref().or(self.trouble.as_deref())
    }

    /// Whether the copy is of another history than the shared log.
    pub(super) fn has_stopped(&self) -> bool {
        self.copy == State::Stopped
    }

    /// The timeline of the copy.
    pub(super) fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// The end of the copy.
    pub(super) fn end(&self) -> Revision {
        self.end.revision
    }

    /// How many revisions the copy is behind the newest head that is known.
    pub(super) fn lag(&self) -> u64 {
        let head = self.head.as_ref().map_or(self.end.revision, |head| head.head.revision);
        head.0.saturating_sub(self.end.revision.0)
    }

    /// Takes an input, and says what follows from it.
    pub(super) fn step(&mut self, input: Input) -> Vec<Output> {
        match input {
            Input::Commit { batch, base, count } => self.commit(batch, base, count),
            Input::Settle { batch, ticket } => self.ask(ticket, Question::Settle(batch)),
            Input::Confirm { base, ticket } => self.ask(ticket, Question::Confirm(base)),
            Input::Head { head, since } => {
                self.note(head, since);
                self.clear_obstacle();
            }
            Input::Unreachable(why) => self.block(why),
            Input::Appended(batch, answer) => self.appended(batch, answer),
            Input::Answered { ticket, since, head } => self.answered(ticket, since, head),
            Input::Fetched(Ok(())) => self.move_copy(Event::Fetched),
            Input::Fetched(Err(FetchFailure::TooOld)) => self.move_copy(Event::TooOld),
            Input::Fetched(Err(FetchFailure::Failed(why))) => self.failed(why),
            Input::Fetched(Err(FetchFailure::Diverged(why))) => self.diverged(&why),
            Input::Applied(Ok((end, batches))) => self.applied(end, &batches),
            Input::Applied(Err(why)) => self.not_applied(why),
            Input::Reloaded(Ok((end, head))) => {
                (self.end, self.trouble) = (end, None);
                if let Some(head) = head {
                    self.note(head, HeadVersion::default());
                    self.check_end();
                }
                self.move_copy(Event::Reloaded);
            }
            Input::Reloaded(Err(why)) => self.failed(why),
            Input::Due(end) => self.due(end),
        }
        self.go_on();
        std::mem::take(&mut self.outputs)
    }

    fn commit(&mut self, batch: BatchId, base: Revision, count: u64) {
        let refused = match self.barred.check(batch) {
            Ok(()) if self.waiting().count() >= MOST => Some(CommitError::Busy),
            Ok(()) => None,
            Err(error) => Some(error),
        };
        match refused {
            Some(error) => self.outputs.push(Output::Answer(batch, Err(error))),
            None => self.queue(batch, base, count),
        }
    }

    fn ask(&mut self, ticket: Ticket, question: Question) {
        if let Some(why) = self.obstacle() {
            let error = CommitError::Unavailable(why.to_owned());
            self.outputs.push(Output::Tell(ticket, Err(error)));
            return;
        }
        if self.asked.len() >= MOST {
            self.outputs.push(Output::Tell(ticket, Err(CommitError::Busy)));
            return;
        }
        let since = self.version();
        match question {
            Question::Settle(batch) if self.is(batch, State::Waiting) => {
                self.barred.bar(batch);
                self.move_batch(batch, Event::Settled, "it was given up before it was sent");
                self.outputs.push(Output::Tell(ticket, Ok(())));
                return;
            }
            // A batch is not sent again once its outcome is asked for.
            Question::Settle(batch) => {
                self.move_batch(batch, Event::Lost, "its caller gave it up");
                self.outputs.push(Output::Fence { ticket, since });
            }
            Question::Confirm(_) => self.outputs.push(Output::Read { ticket, since }),
        }
        self.asked.push(Asked { ticket, question, until: None });
    }

    fn answered(&mut self, ticket: Ticket, since: HeadVersion, head: Result<LogHead, String>) {
        let Some(at) = self.asked.iter().position(|asked| asked.ticket == ticket) else { return };
        match head {
            Ok(head) => {
                self.asked[at].until = Some(head.head.revision);
                self.note(head, since);
            }
            Err(why) => {
                self.asked.remove(at);
                self.outputs.push(Output::Tell(ticket, Err(CommitError::Unavailable(why))));
            }
        }
    }

    fn appended(&mut self, batch: BatchId, answer: Result<LogHead, AppendError>) {
        let sent = self.batches.iter().find(|known| known.id == batch);
        let since = sent.map(|known| known.at).unwrap_or_default();
        match answer {
            Ok(head) => {
                self.move_batch(batch, Event::Accepted, "");
                self.note(head, since);
            }
            Err(AppendError::Moved(head)) => {
                self.move_batch(batch, Event::Moved, "");
                self.note(head, since);
            }
            Err(AppendError::Refused(why)) => self.move_batch(batch, Event::Refused, &why),
            Err(AppendError::Unanswered(why)) => self.move_batch(batch, Event::Lost, &why),
        }
    }

    fn queue(&mut self, id: BatchId, base: Revision, count: u64) {
        let at = HeadVersion::default();
        self.batches.push(Batch { id, state: State::Waiting, base, count, at });
        let is_lost = |batch: &Batch| batch.state == State::Lost;
        if self.batches.iter().filter(|batch| is_lost(batch)).count() > MOST {
            let oldest = self.batches.iter().position(is_lost);
            oldest.map(|at| self.batches.remove(at));
        }
    }

    fn waiting(&self) -> impl Iterator<Item = &Batch> {
        self.batches.iter().filter(|batch| batch.state == State::Waiting)
    }

    fn is(&self, batch: BatchId, state: State) -> bool {
        self.batches.iter().any(|known| known.id == batch && known.state == state)
    }

    fn applied(&mut self, end: Position, batches: &[BatchId]) {
        self.end = end;
        let is_copied =
            |batch: &&Batch| batches.contains(&batch.id) && batch.last() <= end.revision;
        let copied: Vec<BatchId> = self.batches.iter().filter(is_copied).map(|it| it.id).collect();
        copied.iter().for_each(|batch| self.move_batch(*batch, Event::Copied, ""));
        self.trouble = None;
        self.check_end();
        self.move_copy(Event::Applied);
    }

    fn due(&mut self, end: Option<Position>) {
        let Some(end) = end else { return self.move_copy(Event::Failed) };
        self.end = end;
        self.check_end();
        if self.lag() == 0 {
            self.trouble = None;
        }
        self.move_copy(Event::Due);
    }

    /// Checks that the copy does not go beyond the newest head, which is older in the log than what was written.
    fn check_end(&mut self) {
        let Some(head) = self.head.as_ref().map(|head| head.head.revision) else { return };
        if self.end.revision > head {
            self.diverged(&gone_back(head, self.end.revision));
        }
    }

    /// The copy cannot be written, for example because the disk is full: it falls behind.
    fn not_applied(&mut self, why: String) {
        self.each(State::Accepted, Event::NotCopied, &why);
        self.failed(why);
    }

    fn failed(&mut self, why: String) {
        self.trouble = Some(why);
        self.move_copy(Event::Failed);
    }

    /// Takes a head that was asked for when `since` was the newest version known.
    fn note(&mut self, head: LogHead, since: HeadVersion) {
        if self.copy == State::Stopped {
            return;
        }
        match self.conflict(&head, since) {
            Some(why) => self.diverged(&why),
            None if head.version > self.version() => self.head = Some(head),
            None => {}
        }
    }

    /// Why a head cannot be one of the log that the copy is of.
    fn conflict(&self, head: &LogHead, since: HeadVersion) -> Option<String> {
        let (Revision(theirs), Revision(ours)) = (head.head.revision, self.end.revision);
        if head.head.format > self.reads {
            return Some(too_new(head.head.format, self.reads));
        }
        if head.head.timeline != self.timeline {
            return Some(format!(
                "the shared log is of timeline {}, the copy of this controller of {}: {ANOTHER}",
                head.head.timeline, self.timeline
            ));
        }
        let known = self.head.as_ref();
        let is_newer = known.is_none_or(|known| known.version < head.version);
        let is_other = known.is_some_and(|known| known.version == head.version && known != head);
        if head.version < since || is_other || (is_newer && theirs < ours) {
            return Some(gone_back(head.head.revision, self.end.revision));
        }
        let differs = self.end.digest.is_some_and(|digest| digest != head.digest);
        (theirs == ours && differs).then(|| {
            format!("the shared log and the copy of this controller differ at revision {ours}: {ANOTHER}")
        })
    }

    fn diverged(&mut self, why: &str) {
        self.move_copy(Event::Diverged);
        self.obstacle = Some(why.to_owned());
    }

    fn block(&mut self, why: String) {
        if self.copy != State::Stopped {
            self.obstacle = Some(why);
        }
    }

    fn clear_obstacle(&mut self) {
        if self.copy != State::Stopped {
            self.obstacle = None;
        }
    }

    /// Does what has become possible.
    fn go_on(&mut self) {
        let end = self.end.revision;
        let is_copied = |batch: &&Batch| batch.state == State::Accepted && batch.last() <= end;
        let copied: Vec<BatchId> = self.batches.iter().filter(is_copied).map(|it| it.id).collect();
        copied.iter().for_each(|batch| self.move_batch(*batch, Event::Copied, ""));
        self.answer_questions();
        if let Some(why) = self.obstacle().map(str::to_owned) {
            self.each(State::Waiting, Event::Unreachable, &why);
            if self.copy == State::Stopped {
                self.each(State::Accepted, Event::NotCopied, &why);
            }
            for Asked { ticket, .. } in std::mem::take(&mut self.asked) {
                let error = CommitError::Unavailable(why.clone());
                self.outputs.push(Output::Tell(ticket, Err(error)));
            }
        }
        self.move_on();
        self.take_turns();
    }

    /// Goes on with the copy, if nothing is being done for it.
    fn move_on(&mut self) {
        let accepted = self
            .batches
            .iter()
            .any(|batch| batch.state == State::Accepted && batch.base == self.end.revision);
        if accepted {
            self.move_copy(Event::Own);
        } else if self.obstacle.is_none() && self.lag() > 0 {
            self.move_copy(Event::Behind);
        }
    }

    /// Answers questions whose head the copy has reached.
    fn answer_questions(&mut self) {
        let end = self.end.revision;
        let is_ready = |asked: &Asked| asked.until.is_some_and(|until| until <= end);
        while let Some(at) = self.asked.iter().position(is_ready) {
            let Asked { ticket, question, until } = self.asked.remove(at);
            let until = until.unwrap_or_default();
            let output = match question {
                Question::Confirm(base) if base == until => Output::Tell(ticket, Ok(())),
                Question::Confirm(_) => {
                    Output::Tell(ticket, Err(CommitError::Stale { head: until }))
                }
                Question::Settle(batch) => self.settled(batch, ticket),
            };
            self.outputs.push(output);
        }
    }

    /// The batch cannot come any more, and the copy has everything that the log had behind the fence.
    fn settled(&mut self, batch: BatchId, ticket: Ticket) -> Output {
        let base = self.batches.iter().find(|known| known.id == batch).map(|known| known.base);
        self.barred.bar(batch);
        self.move_batch(batch, Event::Settled, "");
        Output::Lookup { batch, ticket, base }
    }

    /// Answers the batches that have lost to others, and sends the next one.
    fn take_turns(&mut self) {
        let Some(head) = self.head.as_ref().map(|head| head.head.revision) else { return };
        if self.obstacle().is_some() {
            return;
        }
        // The copy may never have all while others write.
        let end = self.end.revision;
        let is_past = |batch: &&Batch| batch.base < end || (end >= head && batch.base != head);
        let past: Vec<BatchId> = self.waiting().filter(is_past).map(|batch| batch.id).collect();
        past.iter().for_each(|batch| self.move_batch(*batch, Event::Past, ""));
        let is_out = |batch: &Batch| matches!(batch.state, State::Sent | State::Accepted);
        if self.batches.iter().any(is_out) {
            return;
        }
        let next = self.waiting().find(|batch| batch.base == head).map(|batch| batch.id);
        if let Some(batch) = next {
            self.move_batch(batch, Event::AtBase, "");
        }
    }

    fn each(&mut self, state: State, event: Event, why: &str) {
        let these = self.batches.iter().filter(|batch| batch.state == state);
        let these: Vec<BatchId> = these.map(|batch| batch.id).collect();
        these.iter().for_each(|batch| self.move_batch(*batch, event, why));
    }

    /// The transition of a state by an event.
    fn row(&mut self, state: State, event: Event) -> Option<Row> {
        let at = self.table.iter().position(|row| row.state == state && row.event == event)?;
        #[cfg(test)]
        self.taken.push(at);
        self.table.get(at).copied()
    }

    fn move_copy(&mut self, event: Event) {
        let Some(Row { next, action, .. }) = self.row(self.copy, event) else { return };
        self.copy = next;
        let output = match action {
            Action::Fetch => Output::Fetch { after: self.end, most: self.lag() },
            Action::Apply => Output::Apply,
            Action::ApplyOwn => {
                let own = self.batches.iter().find(|batch| batch.state == State::Accepted);
                let Some(own) = own else { return };
                Output::ApplyOwn(own.id)
            }
            Action::Reload => Output::Reload,
            Action::Pause => Output::Pause,
            _ => return,
        };
        self.outputs.push(output);
    }

    /// Moves a batch by an event. `why` is the reason of a failure.
    fn move_batch(&mut self, id: BatchId, event: Event, why: &str) {
        let Some(at) = self.batches.iter().position(|batch| batch.id == id) else { return };
        let Some(Row { next, action, .. }) = self.row(self.batches[at].state, event) else {
            return;
        };
        let (head, end) = (self.head.clone(), self.end.revision);
        let batch = &mut self.batches[at];
        batch.state = next;
        let answer = match action {
            Action::Append => {
                if let Some(at) = head {
                    batch.at = at.version;
                    self.outputs.push(Output::Append { batch: id, at });
                }
                None
            }
            Action::AnswerDone => Some(Ok(batch.last())),
            Action::AnswerStale => Some(Err(CommitError::Stale { head: end })),
            Action::AnswerNotDone => Some(Err(CommitError::Unavailable(why.to_owned()))),
            Action::AnswerUnknown => {
                Some(Err(CommitError::Unknown { batch: id, reason: why.to_owned() }))
            }
            _ => None,
        };
        if next == State::Over {
            self.batches.remove(at);
        }
        if let Some(answer) = answer {
            self.outputs.push(Output::Answer(id, answer));
        }
    }
}

fn gone_back(theirs: Revision, ours: Revision) -> String {
    format!(
        "the shared log has gone back to revision {theirs}, this controller has {ours}: it was restored from an older \
         snapshot. `weft controller restore` says what is lost, and has the network go on"
    )
}
