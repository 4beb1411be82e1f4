//! All states of a circuit that is being moved, and all transitions between them.
//!
//! The states say where payloads may go. In `Better` and `Other` they take the path in the table of circuits. In
//! `Again`, after a switch that failed or after a router has lost its routes, each end may send over another path, and
//! nobody knows which.
//!
//! ```text
//!   Better, Other, Again ──Prepares──> PrepareBetter, PrepareOther, PrepareAgain
//!     │ ^        ^                        │    │   new ways, which no payload takes yet
//!     │ └────────┼───────Retry────────────┘    │
//!     │          └─Retry─┐                     │
//!     ├───Switches───> Switch <───Switches─────┤   changed ways, which payloads take from then on
//!     │                  │ Arrives             │
//!     └───Arrives────> Put <──────Arrives──────┘   a path whose ways all routers had, or that replaces none
//!                        └─────> Over <── whatever ends the move in another state
//! ```
//!
//! A move that fails for good is over: one for a cheaper path leaves the circuit where it is; any other one leaves it
//! waiting for a path or a router, or ends it.

use super::{Beside, Ending};

/// All transitions. An event without a row for the state cannot happen; it would make the circuit wait for its next move.
#[rustfmt::skip]
pub(super) const TABLE: &[Row] = {
    use Beside::{Leave, Unroute, Keep};
    use Ending::{Arrived, Awaiting, Ended, Failed, Kept, Parked, Removed, Resting, Stranded};
    use {Action as A, Event as E, State as S};
    &[
        row(S::Better,        E::Prepares,    S::PrepareBetter, A::TellNew),
        row(S::Better,        E::Switches,    S::Switch,        A::TellChanged),
        row(S::Better,        E::Arrives,     S::Put,           A::Put),
        row(S::Better,        E::Stays,       S::Over,          A::Over(Arrived, Leave)),
        row(S::Better,        E::Full,        S::Over,          A::Over(Parked, Keep)),
        row(S::Better,        E::Retry,       S::Better,        A::Find),
        row(S::Better,        E::NoPath,      S::Over,          A::Over(Kept, Unroute)),
        row(S::Better,        E::NoWayAround, S::Over,          A::Over(Kept, Unroute)),
        row(S::Better,        E::Early,       S::Over,          A::Over(Kept, Unroute)),
        row(S::Better,        E::NoEnds,      S::Over,          A::Over(Kept, Unroute)),
        row(S::Better,        E::SilentEnd,   S::Over,          A::Over(Kept, Unroute)),
        row(S::Better,        E::Obstructed,  S::Over,          A::Over(Kept, Unroute)),
        row(S::Better,        E::Ended,       S::Over,          A::Over(Ended, Unroute)),
        row(S::PrepareBetter, E::Arrives,     S::Put,           A::Put),
        row(S::PrepareBetter, E::Switches,    S::Switch,        A::TellChanged),
        row(S::PrepareBetter, E::Retry,       S::Better,        A::Find),
        row(S::PrepareBetter, E::SilentEnd,   S::Over,          A::Over(Kept, Unroute)),
        row(S::PrepareBetter, E::Obstructed,  S::Over,          A::Over(Kept, Unroute)),
        row(S::PrepareBetter, E::Refused,     S::Over,          A::Over(Kept, Unroute)),

        row(S::Other,         E::Prepares,    S::PrepareOther,  A::TellNew),
        row(S::Other,         E::Switches,    S::Switch,        A::TellChanged),
        row(S::Other,         E::Arrives,     S::Put,           A::Put),
        row(S::Other,         E::Stays,       S::Over,          A::Over(Arrived, Leave)),
        row(S::Other,         E::Full,        S::Over,          A::Over(Parked, Keep)),
        row(S::Other,         E::Retry,       S::Other,         A::Find),
        row(S::Other,         E::NoPath,      S::Over,          A::Over(Stranded, Unroute)),
        row(S::Other,         E::NoWayAround, S::Over,          A::Over(Failed, Unroute)),
        row(S::Other,         E::Early,       S::Over,          A::Over(Awaiting, Unroute)),
        row(S::Other,         E::NoEnds,      S::Over,          A::Over(Removed, Unroute)),
        row(S::Other,         E::SilentEnd,   S::Over,          A::Over(Resting, Unroute)),
        row(S::Other,         E::Obstructed,  S::Over,          A::Over(Failed, Unroute)),
        row(S::Other,         E::Ended,       S::Over,          A::Over(Ended, Unroute)),
        row(S::PrepareOther,  E::Switches,    S::Switch,        A::TellChanged),
        row(S::PrepareOther,  E::Arrives,     S::Put,           A::Put),
        row(S::PrepareOther,  E::Retry,       S::Other,         A::Find),
        row(S::PrepareOther,  E::SilentEnd,   S::Over,          A::Over(Resting, Unroute)),
        row(S::PrepareOther,  E::Obstructed,  S::Over,          A::Over(Failed, Unroute)),
        row(S::PrepareOther,  E::Refused,     S::Over,          A::Over(Removed, Unroute)),

        row(S::Switch,        E::Arrives,     S::Put,           A::Put),
        row(S::Switch,        E::Retry,       S::Again,         A::Find),
        row(S::Switch,        E::SilentEnd,   S::Over,          A::Over(Resting, Keep)),
        row(S::Switch,        E::Obstructed,  S::Over,          A::Over(Failed, Keep)),
        row(S::Switch,        E::Refused,     S::Over,          A::Over(Removed, Unroute)),

        row(S::Again,         E::Prepares,    S::PrepareAgain,  A::TellNew),
        row(S::Again,         E::Switches,    S::Switch,        A::TellChanged),
        row(S::Again,         E::Full,        S::Over,          A::Over(Parked, Keep)),
        row(S::Again,         E::Retry,       S::Again,         A::Find),
        row(S::Again,         E::NoPath,      S::Over,          A::Over(Stranded, Keep)),
        row(S::Again,         E::NoWayAround, S::Over,          A::Over(Failed, Keep)),
        row(S::Again,         E::Early,       S::Over,          A::Over(Awaiting, Keep)),
        row(S::Again,         E::NoEnds,      S::Over,          A::Over(Removed, Unroute)),
        row(S::Again,         E::SilentEnd,   S::Over,          A::Over(Resting, Keep)),
        row(S::Again,         E::Obstructed,  S::Over,          A::Over(Failed, Keep)),
        row(S::Again,         E::Ended,       S::Over,          A::Over(Ended, Unroute)),
        row(S::PrepareAgain,  E::Switches,    S::Switch,        A::TellChanged),
        row(S::PrepareAgain,  E::Arrives,     S::Put,           A::Put),
        row(S::PrepareAgain,  E::Retry,       S::Again,         A::Find),
        row(S::PrepareAgain,  E::SilentEnd,   S::Over,          A::Over(Resting, Keep)),
        row(S::PrepareAgain,  E::Obstructed,  S::Over,          A::Over(Failed, Keep)),
        row(S::PrepareAgain,  E::Refused,     S::Over,          A::Over(Removed, Unroute)),

        row(S::Put,           E::Arrives,     S::Over,          A::Over(Arrived, Leave)),
    ]
};

/// The state of a circuit that is being moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// A cheaper path is looked for. The present one works.
    Better,
    /// Routers are told the new ways of a cheaper path.
    PrepareBetter,
    /// Another path is looked for, because the present one is broken or has lost its routes.
    Other,
    /// Routers are told the new ways of that path.
    PrepareOther,
    /// Routers are told the changed ways of a path, which payloads take from then on.
    Switch,
    /// A path is looked for, and nobody knows over which path the ends send.
    Again,
    /// Routers are told the new ways of that path.
    PrepareAgain,
    /// All routers of the path have answered: it is put into the table of circuits.
    Put,
    /// The circuit is being moved no more.
    Over,
}

/// What happens to a circuit that is being moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// There is a path, some of whose ways are new at their routers.
    Prepares,
    /// There is a path of whose ways none is new any more, and some replace others.
    Switches,
    /// All ways of the path are set up, and it is in the table in the end.
    Arrives,
    /// The present path works, and no other one is cheaper.
    Stays,
    /// A router of the path has as many unanswered routes as it may have.
    Full,
    /// A router has failed, and may be avoided.
    Retry,
    /// There is no path.
    NoPath,
    /// There is no path around the router at which the move has failed.
    NoWayAround,
    /// There is no path, or an end is not known, while routers may still return after a start of the controller.
    Early,
    /// The ends of the circuit are not known.
    NoEnds,
    /// The router at an end does not answer.
    SilentEnd,
    /// A router has failed for the last time, for a reason that may pass.
    Obstructed,
    /// A router has refused its route for the last time.
    Refused,
    /// The circuit has ended.
    Ended,
}

/// What a transition does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Looks for a path.
    Find,
    /// Tells routers the ways that are new to them.
    TellNew,
    /// Tells routers the ways that replace others.
    TellChanged,
    /// Puts the path into the table of circuits.
    Put,
    /// Ends the move.
    Over(Ending, Beside),
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
