//! All states of a copy of the shared log and of a batch, and all transitions between them.
//!
//! ```text
//!  the copy:   Level ──Behind──> Fetching ──Fetched──> Applying ──Applied──> Level
//!                │ ^                 │ └──TooOld──> Reloading ──Reloaded──> Level
//!                │ └──Due── Pausing <┴─ Failed (of any)
//!                └──Own──> Applying                    all ──Diverged──> Stopped
//!
//!  a batch:    Waiting ──AtBase──> Sent ──Accepted──> Accepted ──Copied──> Over: answered with its revision
//!                │ ^                │ │ └────────────────┼───────Copied──────^
//!                │ └────Moved───────┘ └──Lost──> Lost <──┘ NotCopied
//!                │                    └──Refused──> Over: was not done
//!                └──Past, Unreachable, Settled──> Over: was not done           Lost ──Settled──> Over
//! ```

/// All transitions. Other events change nothing.
#[rustfmt::skip]
pub(super) const TABLE: &[Row] = {
    use {Action as A, Event as E, State as S};
    &[
        row(S::Level,     E::Behind,      S::Fetching,  A::Fetch),
        row(S::Level,     E::Own,         S::Applying,  A::ApplyOwn),
        row(S::Level,     E::Diverged,    S::Stopped,   A::None),

        row(S::Fetching,  E::Fetched,     S::Applying,  A::Apply),
        row(S::Fetching,  E::TooOld,      S::Reloading, A::Reload),
        row(S::Fetching,  E::Failed,      S::Pausing,   A::Pause),
        row(S::Fetching,  E::Diverged,    S::Stopped,   A::None),

        row(S::Applying,  E::Applied,     S::Level,     A::None),
        row(S::Applying,  E::Failed,      S::Pausing,   A::Pause),
        row(S::Applying,  E::Diverged,    S::Stopped,   A::None),

        row(S::Reloading, E::Reloaded,    S::Level,     A::None),
        row(S::Reloading, E::Failed,      S::Pausing,   A::Pause),
        row(S::Reloading, E::Diverged,    S::Stopped,   A::None),

        row(S::Pausing,   E::Due,         S::Level,     A::None),
        row(S::Pausing,   E::Failed,      S::Pausing,   A::Pause),
        row(S::Pausing,   E::Diverged,    S::Stopped,   A::None),

        row(S::Waiting,   E::AtBase,      S::Sent,      A::Append),
        row(S::Waiting,   E::Past,        S::Over,      A::AnswerStale),
        row(S::Waiting,   E::Unreachable, S::Over,      A::AnswerNotDone),
        row(S::Waiting,   E::Settled,     S::Over,      A::AnswerNotDone),

        row(S::Sent,      E::Accepted,    S::Accepted,  A::None),
        row(S::Sent,      E::Copied,      S::Over,      A::AnswerDone),
        row(S::Sent,      E::Moved,       S::Waiting,   A::None),
        row(S::Sent,      E::Refused,     S::Over,      A::AnswerNotDone),
        row(S::Sent,      E::Lost,        S::Lost,      A::AnswerUnknown),

        row(S::Accepted,  E::Copied,      S::Over,      A::AnswerDone),
        row(S::Accepted,  E::NotCopied,   S::Lost,      A::AnswerUnknown),

        row(S::Lost,      E::Settled,     S::Over,      A::None),
    ]
};

/// The state of the copy, or of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The copy ends where the shared log was last seen to end, or it is not known where that is.
    Level,
    /// Change sets are read from the shared log.
    Fetching,
    /// Change sets are written to the copy.
    Applying,
    /// A checkpoint replaces the copy, because change sets between are no longer kept.
    Reloading,
    /// Some time passes after a failure.
    Pausing,
    /// The copy is no part of the shared log's history: nothing is read from it or written to it any more.
    Stopped,

    /// The batch waits for its turn, or for the head.
    Waiting,
    /// The batch was sent to the shared log.
    Sent,
    /// The batch is in the shared log, and is being written to the copy.
    Accepted,
    /// It is not known whether the batch is in the shared log, and its caller was told so.
    Lost,
    /// The caller of the batch has its answer.
    Over,
}

/// What happens to the copy, or to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The shared log goes on after the end of the copy.
    Behind,
    /// What follows the end of the copy is a batch of this controller, which is at hand.
    Own,
    /// Change sets were read.
    Fetched,
    /// The change sets after the end of the copy are no longer kept.
    TooOld,
    /// Reading or writing has failed.
    Failed,
    /// Change sets were written to the copy.
    Applied,
    /// A checkpoint has replaced the copy.
    Reloaded,
    /// The pause is over.
    Due,
    /// The shared log has another history than the copy.
    Diverged,

    /// It is the batch's turn, and the head is the revision that the batch was decided on.
    AtBase,
    /// The copy has gone past that revision.
    Past,
    /// The shared log cannot be reached.
    Unreachable,
    /// The shared log has another head than the batch was sent for.
    Moved,
    /// The shared log has accepted the batch.
    Accepted,
    /// The shared log has refused the batch.
    Refused,
    /// The answer of the shared log was lost, or its caller waits for it no longer.
    Lost,
    /// The batch is in the copy.
    Copied,
    /// The batch could not be written to the copy.
    NotCopied,
    /// Its outcome was asked for, and can be answered.
    Settled,
}

/// What a transition does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    None,
    /// Reads the change sets after the end of the copy.
    Fetch,
    /// Writes the change sets that were read to the copy.
    Apply,
    /// Writes the accepted batch to the copy.
    ApplyOwn,
    /// Replaces the copy by the newest checkpoint.
    Reload,
    /// Lets some time pass.
    Pause,

    /// Sends the batch.
    Append,
    /// Answers with the revision.
    AnswerDone,
    /// Answers with the end of the copy, on which the caller decides again.
    AnswerStale,
    /// Answers that nothing was done.
    AnswerNotDone,
    /// Answers that the outcome is not known.
    AnswerUnknown,
}

/// A transition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) state: State,
    pub(super) event: Event,
    pub(super) next: State,
    pub(super) action: Action,
}

const fn row(state: State, event: Event, next: State, action: Action) -> Row {
    Row { state, event, next, action }
}
