//! All states of a circuit of an earlier run, and all transitions between them.
//!
//! Two kinds of things have a state. A *circuit* is put together from what routers name. Its *path* is looked at some time
//! after the last report, because a router or a link of it may have been lost while no controller was there. What is in
//! the first state of its line needs no memory and is in no table. The path of a circuit that is `Unknown` or `Torn` is
//! `Calm`.
//!
//! ```text
//!  circuit
//!    Unknown ──InPart──> Part ──HasEnds──> Ends     Unknown, Part, Ends ──IsWhole──> Whole
//!                         │ <────InPart──── │       Part, Ends ──Moved──> Whole
//!                         │ Torn, Lost      │ Lost  Part, Ends, Whole, Torn ──Over──> Unknown
//!                         └─────> Torn <────┘
//!    Unwanted, Excess, and Moved of a whole circuit, change no state
//!
//!  path
//!    Calm ──Reported──> Due ──Timeout──> Looking ──Works, Outdated, Moves──> Calm
//!                       ^ ^                │ │
//!                       │ └──Awaited, ─────┘ └──Unclear──> Resting ──News──> Looking
//!                       │    MovesEarly
//!                       └── Reported, in each state
//! ```

/// All transitions. An event without a row for the state changes nothing.
#[rustfmt::skip]
pub(super) const TABLE: &[Row] = {
    use {Action as A, Event as E, State as S};
    &[
        row(S::Unknown, E::InPart,     S::Part,    &[A::Put, A::Await]),
        row(S::Unknown, E::IsWhole,    S::Whole,   &[A::Charge, A::Put, A::Await]),
        row(S::Unknown, E::Excess,     S::Unknown, &[A::Refuse]),
        row(S::Unknown, E::Unwanted,   S::Unknown, &[A::Unroute]),
        row(S::Part,    E::InPart,     S::Part,    &[A::Put, A::Await]),
        row(S::Part,    E::HasEnds,    S::Ends,    &[A::Put, A::Await]),
        row(S::Part,    E::IsWhole,    S::Whole,   &[A::UnrouteBeside, A::Charge, A::Put, A::Await]),
        row(S::Part,    E::Excess,     S::Part,    &[A::Refuse]),
        row(S::Part,    E::Unwanted,   S::Part,    &[A::Unroute]),
        row(S::Part,    E::Torn,       S::Torn,    &[A::Remove]),
        row(S::Part,    E::Lost,       S::Torn,    &[A::Remove]),
        row(S::Part,    E::Moved,      S::Whole,   &[A::Complete, A::Charge]),
        row(S::Part,    E::Over,       S::Unknown, &[]),
        row(S::Ends,    E::InPart,     S::Part,    &[A::Put, A::Await]),
        row(S::Ends,    E::HasEnds,    S::Ends,    &[A::Put, A::Await]),
        row(S::Ends,    E::IsWhole,    S::Whole,   &[A::UnrouteBeside, A::Charge, A::Put, A::Await]),
        row(S::Ends,    E::Excess,     S::Ends,    &[A::Refuse]),
        row(S::Ends,    E::Unwanted,   S::Ends,    &[A::Unroute]),
        row(S::Ends,    E::Lost,       S::Torn,    &[A::Remove]),
        row(S::Ends,    E::Moved,      S::Whole,   &[A::Complete, A::Charge]),
        row(S::Ends,    E::Over,       S::Unknown, &[]),
        row(S::Whole,   E::Moved,      S::Whole,   &[A::Complete]),
        row(S::Whole,   E::Unwanted,   S::Whole,   &[A::Unroute]),
        row(S::Whole,   E::Over,       S::Unknown, &[]),
        row(S::Torn,    E::Unwanted,   S::Torn,    &[A::Unroute]),
        row(S::Torn,    E::Over,       S::Unknown, &[]),

        row(S::Calm,    E::Reported,   S::Due,     &[A::Schedule]),
        row(S::Due,     E::Reported,   S::Due,     &[A::Schedule]),
        row(S::Due,     E::Timeout,    S::Looking, &[A::Look]),
        row(S::Looking, E::Reported,   S::Due,     &[A::Schedule]),
        row(S::Looking, E::Works,      S::Calm,    &[]),
        row(S::Looking, E::Outdated,   S::Calm,    &[A::Move]),
        row(S::Looking, E::Moves,      S::Calm,    &[A::Move]),
        row(S::Looking, E::MovesEarly, S::Due,     &[A::Move, A::Schedule]),
        row(S::Looking, E::Awaited,    S::Due,     &[A::Schedule]),
        row(S::Looking, E::Unclear,    S::Resting, &[]),
        row(S::Looking, E::Torn,       S::Looking, &[A::Tear]),
        row(S::Resting, E::Reported,   S::Due,     &[A::Schedule]),
        row(S::Resting, E::News,       S::Looking, &[A::Look]),
    ]
};

/// The state of a circuit, or of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Circuit: no router has named it; this run has made it, or it has ended.
    Unknown,
    /// Circuit: some of its routers are known, and not both of its ends.
    Part,
    /// Circuit: both of its ends are known, and not the path between them.
    Ends,
    /// Circuit: its whole path is known.
    Whole,
    /// Circuit: one of its ends is gone. It is being removed.
    Torn,
    /// Path: nothing is to be looked at.
    Calm,
    /// Path: it is looked at in a while.
    Due,
    /// Path: it is being looked at.
    Looking,
    /// Path: it was looked at, and only news of routers or links can help.
    Resting,
}

/// What happens to a circuit or its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// With what routers have named, some routers of the circuit are known, and not both of its ends.
    InPart,
    /// With what routers have named, both ends are known, and not the path between them.
    HasEnds,
    /// With what routers have named, the whole path is known.
    IsWhole,
    /// A router has named the circuit beyond a limit.
    Excess,
    /// A router has named the circuit, which does not go over the router: it is whole, it has ended or is being removed,
    /// or the router has said before that it does not carry it.
    Unwanted,
    /// Circuit and path: no router can name the end that is not known.
    Torn,
    /// A router at an end does not carry the circuit, or no router is left that does.
    Lost,
    /// A move has given the circuit a path.
    Moved,
    /// The circuit has ended, or there was no room for it in the table of circuits.
    Over,
    /// A router has named the circuit, or a move found no path while routers may return.
    Reported,
    /// The time of the look has come.
    Timeout,
    /// The path works.
    Works,
    /// The path works, and routers may have lost their routes.
    Outdated,
    /// There is a gap in the path, and there is another path or no router is waited for any more.
    Moves,
    /// There is a gap in the path, and there is another path, while routers may return.
    MovesEarly,
    /// There is no path or an end is not known, while routers may return.
    Awaited,
    /// An end is not known, and a router that has not named its circuits may have it.
    Unclear,
    /// A router has named all its circuits, or a link has changed.
    News,
}

/// What a transition does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Puts what is known of the circuit into the table of circuits.
    Put,
    /// Has the path looked at in a while.
    Await,
    /// Takes the circuit down at routers that have named it and are not on its path: it had left them.
    UnrouteBeside,
    /// Drops what routers have named, and charges the whole circuit to the first of these routers.
    Charge,
    /// Says what routers have named.
    Complete,
    /// Says that the circuit is not adopted.
    Refuse,
    /// Takes the circuit down at the router that has named it.
    Unroute,
    /// Has the circuit removed.
    Remove,
    /// Sets the time of the look.
    Schedule,
    /// Has the path looked at.
    Look,
    /// Has the circuit moved to another path, or its routes sent again.
    Move,
    /// Gives the circuit up.
    Tear,
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
