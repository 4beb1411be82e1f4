//! All states of the standing of terminators, and all transitions between them.
//!
//! Three kinds of things have a state. A *router* is asked one question at a time, and only while it is connected. A
//! *terminator* is what its router is asked about: whether the router hosts it. A *right* is that of a terminator's host
//! to host the service, once a dial has found that the right is lost. What is in the first state of its line needs no
//! memory and is in no table.
//!
//! ```text
//!  router
//!    Away ──Connected──> Free ──QuestionSent──> Waiting ──Answered, Overdue──> Free
//!      ^                  │                        │
//!      └───────Lost───────┴──────────Lost──────────┘     the terminators of the router become Settled
//!
//!  terminator (DoubtedNow leads where Doubted does)
//!    Settled ──Doubted──> Doubtful ──Due──> Asked ──Denied──> Denied ──Removed──> Settled
//!                           ^ ^               │                 │
//!                           │ └────Doubted────┘                 │
//!                           └──────────Doubted, NotRemoved──────┘
//!    Settled, Doubtful, Asked ──DialDenied──> DialDenied ──Removed──> Settled
//!                               Doubtful <──Doubted, NotRemoved──┘
//!    Doubtful, Asked ──Absent──> Settled;  Asked ──Confirmed──> Settled
//!
//!  right
//!    Granted ──PassedOver──> Lapsed ──Expired──> Withdrawn ──Removed, NotRemoved──> Granted
//! ```

/// All transitions. An event without a row for the state changes nothing.
#[rustfmt::skip]
pub(super) const TABLE: &[Row] = {
    use {Action as A, Event as E, State as S};
    &[
        row(S::Away,       E::Connected,    S::Free,       &[A::Number]),
        row(S::Free,       E::QuestionSent, S::Waiting,    &[]),
        row(S::Free,       E::Lost,         S::Away,       &[]),
        row(S::Waiting,    E::Answered,     S::Free,       &[]),
        row(S::Waiting,    E::Overdue,      S::Free,       &[]),
        row(S::Waiting,    E::Lost,         S::Away,       &[]),

        row(S::Settled,    E::Doubted,      S::Doubtful,   &[A::Number]),
        row(S::Settled,    E::DoubtedNow,   S::Doubtful,   &[A::Number, A::AskNow]),
        row(S::Settled,    E::DialDenied,   S::DialDenied, &[A::Number, A::Remove]),
        row(S::Doubtful,   E::DoubtedNow,   S::Doubtful,   &[A::AskNow]),
        row(S::Doubtful,   E::Due,          S::Asked,      &[A::Ask]),
        row(S::Doubtful,   E::Absent,       S::Settled,    &[]),
        row(S::Doubtful,   E::DialDenied,   S::DialDenied, &[A::Remove]),
        row(S::Asked,      E::Doubted,      S::Doubtful,   &[A::Number]),
        row(S::Asked,      E::DoubtedNow,   S::Doubtful,   &[A::Number, A::AskNow]),
        row(S::Asked,      E::Due,          S::Asked,      &[A::Ask]),
        row(S::Asked,      E::Absent,       S::Settled,    &[]),
        row(S::Asked,      E::Confirmed,    S::Settled,    &[]),
        row(S::Asked,      E::Denied,       S::Denied,     &[A::Remove]),
        row(S::Asked,      E::DialDenied,   S::DialDenied, &[A::Remove]),
        row(S::Denied,     E::Doubted,      S::Doubtful,   &[A::Number]),
        row(S::Denied,     E::DoubtedNow,   S::Doubtful,   &[A::Number, A::AskNow]),
        row(S::Denied,     E::NotRemoved,   S::Doubtful,   &[A::Number]),
        row(S::Denied,     E::Removed,      S::Settled,    &[]),
        row(S::DialDenied, E::Doubted,      S::Doubtful,   &[A::Number, A::AskNow]),
        row(S::DialDenied, E::DoubtedNow,   S::Doubtful,   &[A::Number, A::AskNow]),
        row(S::DialDenied, E::NotRemoved,   S::Doubtful,   &[A::Number, A::AskNow]),
        row(S::DialDenied, E::Removed,      S::Settled,    &[]),

        row(S::Granted,    E::PassedOver,   S::Lapsed,     &[]),
        row(S::Lapsed,     E::Expired,      S::Withdrawn,  &[A::Withdraw]),
        row(S::Withdrawn,  E::Removed,      S::Granted,    &[A::EndCircuits]),
        row(S::Withdrawn,  E::NotRemoved,   S::Granted,    &[]),
    ]
};

/// The state of a router, of a terminator at its router, or of a host's right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Router: it is not connected.
    Away,
    /// Router: it has answered every question.
    Free,
    /// Router: it has a question to answer.
    Waiting,
    /// Terminator: its router hosts it, as far as anybody knows.
    Settled,
    /// Terminator: its router is to be asked about it.
    Doubtful,
    /// Terminator: it was in a question, and not in an answer.
    Asked,
    /// Terminator: its router answered that it does not host it. It is being removed.
    Denied,
    /// Terminator: a dial failed because its router does not host it. It is being removed.
    DialDenied,
    /// Right: no dial has found it lost.
    Granted,
    /// Right: it is lost. The router has some time to remove the terminator.
    Lapsed,
    /// Right: the terminator is being removed.
    Withdrawn,
}

/// What happens to a router, a terminator or a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The router has connected.
    Connected,
    /// The connection of the router has ended.
    Lost,
    /// A question was sent to the router.
    QuestionSent,
    /// The router has answered.
    Answered,
    /// The router has not answered for too long: the question or the answer was lost.
    Overdue,
    /// The terminator was made, or its router has reported it again.
    Doubted,
    /// The router has connected, or reported the terminator again since a dial that it denied.
    DoubtedNow,
    /// The router may be asked about the terminator.
    Due,
    /// The router has no such terminator any more.
    Absent,
    /// The router has answered that it hosts the terminator.
    Confirmed,
    /// The router has answered that it does not host the terminator.
    Denied,
    /// A dial has failed because the router does not host the terminator.
    DialDenied,
    /// The terminator was removed.
    Removed,
    /// The terminator was not removed.
    NotRemoved,
    /// A dial has passed the terminator over, because its host may not host the service.
    PassedOver,
    /// The router has had enough time to remove the terminator.
    Expired,
}

/// What a transition does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Gives the next number, so that whatever was asked or chosen before does not count.
    Number,
    /// Has the router asked without waiting for the next tick.
    AskNow,
    /// Puts the terminator into the question to its router.
    Ask,
    /// Removes the terminator, unless it is doubted by then.
    Remove,
    /// Removes the terminator, unless its host has the right again.
    Withdraw,
    /// Ends the circuits to the terminator.
    EndCircuits,
}

/// A transition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) state: State,
    pub(super) event: Event,
    pub(super) next: State,
    pub(super) actions: &'static [Action],
}

const fn row(state: State, event: Event, next: State, actions: &'static [Action]) -> Row {
    Row { state, event, next, actions }
}
