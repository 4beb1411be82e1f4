//! All states of links at this router, and all transitions between them.
//!
//! Two kinds of things have a state. A *target* is a link that this router wants to dial: there is one for
//! each pair of a dialer here and a listener there that share a group (docs/protocol/data-plane.md 4). Its
//! id stays the same over all dials, which the *iteration* counts. A *link* is a connection that was opened
//! by either router. Of two links with one key both routers keep the same one: the one with the smaller id.
//!
//! ```text
//!  target
//!    Wanted ────> Pending ──Due──> Dialing ──DialFailed, DialRefused, AddressGone──> DialFailed
//!                    │              │   ^                                              │   │
//!                    │              │   └───────────────────── Due ────────────────────┘   │
//!                    └──────────────┴──────────────┬── LinkTaken ──────────────────────────┘
//!                                                  v
//!    WantedWithLink ──────────────────────────> Connected ──LinkEnded──> LinkFailed ──Due──> Dialing
//!                                                  ^                         │
//!                                                  └─────── LinkTaken ───────┘
//!    from each state: Unwanted ──> Gone;  Retry: a target that waits is dialed at once
//!
//!  link
//!    Candidate ──Preferred──> Established ──Superseded──> Duplicate
//!        │                        │    MustClose, Renewed     │ MustClose, Renewed, Expired
//!        │ Refused                │       ┌───────────┐       │
//!        │                        ├──────>│  Closing  │<──────┤
//!        v                        │       └─────┬─────┘       │
//!       Gone <──────────────── Closed ──────────┴─────────────┘
//! ```

/// All transitions. An event without a row for the state changes nothing.
#[rustfmt::skip]
pub(in crate::link) const TABLE: &[Row] = {
    use {Action as A, Event as E, State as S};
    &[
        row(S::Gone,        E::Wanted,         S::Pending,     &[A::DialNow]),
        row(S::Gone,        E::WantedWithLink, S::Connected,   &[]),
        row(S::Pending,     E::Retry,          S::Pending,     &[A::DialNow]),
        row(S::Pending,     E::Due,            S::Dialing,     &[A::StartDial]),
        row(S::Pending,     E::LinkTaken,      S::Connected,   &[A::CancelDial, A::CountConnection]),
        row(S::Pending,     E::Unwanted,       S::Gone,        &[A::CancelDial]),
        row(S::Dialing,     E::DialFailed,     S::DialFailed,  &[A::DialAfterFailure, A::NextAddress]),
        row(S::Dialing,     E::DialRefused,    S::DialFailed,  &[A::DialAfterRefusal]),
        row(S::Dialing,     E::AddressGone,    S::DialFailed,  &[A::DialNow]),
        row(S::Dialing,     E::LinkTaken,      S::Connected,   &[A::CountConnection]),
        row(S::Dialing,     E::Unwanted,       S::Gone,        &[]),
        row(S::DialFailed,  E::Retry,          S::DialFailed,  &[A::DialNow]),
        row(S::DialFailed,  E::Due,            S::Dialing,     &[A::StartDial]),
        row(S::DialFailed,  E::LinkTaken,      S::Connected,   &[A::CancelDial, A::CountConnection]),
        row(S::DialFailed,  E::Unwanted,       S::Gone,        &[A::CancelDial]),
        row(S::Connected,   E::LinkTaken,      S::Connected,   &[A::CountConnection]),
        row(S::Connected,   E::LinkEnded,      S::LinkFailed,  &[A::DialAfterEnd]),
        row(S::Connected,   E::Unwanted,       S::Gone,        &[]),
        row(S::LinkFailed,  E::Retry,          S::LinkFailed,  &[A::DialNow]),
        row(S::LinkFailed,  E::Due,            S::Dialing,     &[A::StartDial]),
        row(S::LinkFailed,  E::LinkTaken,      S::Connected,   &[A::CancelDial, A::CountConnection]),
        row(S::LinkFailed,  E::Unwanted,       S::Gone,        &[A::CancelDial]),

        row(S::Candidate,   E::Refused,        S::Gone,        &[A::Reject, A::EndDial]),
        row(S::Candidate,   E::Preferred,      S::Established, &[A::Open, A::Take, A::ReportUp, A::CheckKeys]),
        row(S::Established, E::Superseded,     S::Duplicate,   &[A::ReportDuplicate, A::SetDeadline]),
        row(S::Established, E::Renewed,        S::Closing,     &[A::Close]),
        row(S::Established, E::MustClose,      S::Closing,     &[A::Close]),
        row(S::Established, E::Closed,         S::Gone,        &[A::Withdraw, A::ReportFault, A::Forget]),
        row(S::Duplicate,   E::Expired,        S::Closing,     &[A::Close]),
        row(S::Duplicate,   E::Renewed,        S::Closing,     &[A::Close]),
        row(S::Duplicate,   E::MustClose,      S::Closing,     &[A::Close]),
        row(S::Duplicate,   E::Closed,         S::Gone,        &[A::Withdraw, A::ReportFault, A::Forget]),
        row(S::Closing,     E::Closed,         S::Gone,        &[A::Withdraw, A::ReportFault, A::Forget]),
    ]
};

/// The state of a target or of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::link) enum State {
    /// It is in no table: not yet, or not any more.
    Gone,
    /// Target: it waits for its first dial.
    Pending,
    /// Target: a dial is under way.
    Dialing,
    /// Target: the last dial failed.
    DialFailed,
    /// Target: the link has closed.
    LinkFailed,
    /// Target: a link with its key is open, whichever router dialed it.
    Connected,
    /// Link: it has just been opened.
    Candidate,
    /// Link: it is the one with its key.
    Established,
    /// Link: another one took its place. It stays open for messages on their way.
    Duplicate,
    /// Link: it was told to close.
    Closing,
}

/// What happens to a target or to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::link) enum Event {
    /// A dialer and a listener share a group.
    Wanted,
    /// The same, and the other router has opened a link with this key already.
    WantedWithLink,
    /// No dialer and listener share a group any more, or the other router was removed.
    Unwanted,
    /// The other router is back, or has another address or key.
    Retry,
    /// The time of the next dial has come, and fewer dials are under way than may be.
    Due,
    /// The dial has failed.
    DialFailed,
    /// The dial has opened a link that this router refuses.
    DialRefused,
    /// The dial has ended without a link, and its address was given up during the dial.
    AddressGone,
    /// A link took the key of the target.
    LinkTaken,
    /// The link with the key of the target has closed.
    LinkEnded,
    /// The link is refused, for one of the [reasons](super::Reason).
    Refused,
    /// The link takes the key.
    Preferred,
    /// A link with another id took the key.
    Superseded,
    /// The link was dialed anew: its peer has given up the former connection.
    Renewed,
    /// Messages have had the time to arrive over a duplicate.
    Expired,
    /// A controller, the other router's listeners or keys, or the shutdown require the end of the link.
    MustClose,
    /// The channel has closed.
    Closed,
}

/// An action of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::link) enum Action {
    /// Makes the target due now.
    DialNow,
    /// Makes the target due after the wait that follows a failed dial.
    DialAfterFailure,
    /// The same, and a moment later: the other router may need it to notice the end of a former link.
    DialAfterRefusal,
    /// Makes the target due at once, or after a short wait if its links close soon.
    DialAfterEnd,
    /// Turns to the next address of the target.
    NextAddress,
    /// Starts a dial.
    StartDial,
    /// Makes the target due no more.
    CancelDial,
    /// Counts the connection of the target, and forgets its failures.
    CountConnection,
    /// Refuses the link.
    Reject,
    /// Tells the target that its dial has brought no link, if it still waits for one.
    EndDial,
    /// Publishes the link to the forwarder and starts its channels.
    Open,
    /// Gives the key to the link, and tells its target and the link that had the key.
    Take,
    /// Reports the link.
    ReportUp,
    /// Checks the key of the router that was dialed: a controller may name another one since.
    CheckKeys,
    /// Reports that another link took the place of this one.
    ReportDuplicate,
    /// Sets the time at which a duplicate closes.
    SetDeadline,
    /// Closes the channels.
    Close,
    /// Takes the link out of the forwarder's table.
    Withdraw,
    /// Reports the end of the link, unless the link is there again.
    ReportFault,
    /// Forgets the link, and tells the target whose key it had.
    Forget,
}

/// A transition.
#[derive(Clone, Copy, Debug)]
pub(in crate::link) struct Row {
    pub(in crate::link) state: State,
    pub(in crate::link) event: Event,
    pub(in crate::link) next: State,
    pub(in crate::link) actions: &'static [Action],
}

const fn row(state: State, event: Event, next: State, actions: &'static [Action]) -> Row {
    Row { state, event, next, actions }
}
