//! All states of a circuit at this router, and all transitions between them.
//!
//! ```text
//!   Unknown ─────Reroute, NewAttempt──────────────> Routing
//!   Routing ─────Done──> Routed
//!           └────LastFailed──> Unknown          (no route of it is left)
//!           └────RevivalFailed──> Remembered    (it was remembered before)
//!           └────ReturnFailed──> Ended          (it had ended before)
//!           └────Unrouted──> Remembered
//!           └────Left──> Ended                  (it had nothing to wait for)
//!   Routed ──────Left──> Leaving
//!           └────Unrouted, Unanswered──> Remembered
//!           └────NewAttempt──> Routing          (what older attempts have set up is removed)
//!   Leaving ─────Over, Unrouted──> Ended
//!           └────NewAttempt──> Routing
//!           └────Claimed──> Routed              (the new owner decides anew)
//!   Remembered ──Reroute, NewAttempt, SameAttempt──> Routing
//!           └────Left──> Ended
//!           └────Forgotten──> Unknown
//!   Ended ───────NewAttempt──> Routing
//!           └────Claimed──> Remembered
//!           └────Forgotten──> Unknown
//! ```
//!
//! A circuit that has been unrouted at once may come back, because it may only have left this router; one that was to
//! leave when its last messages have passed has ended for good. A circuit that is routed moves by further routes, and its
//! ends attach to it, without a change of its state.
//!
//! A claim comes before the command of the controller that makes it. A command of a controller that neither owns the
//! circuit nor has a higher term than its owner is no event.

/// All transitions. An event without a row for the state changes nothing.
#[rustfmt::skip]
pub(super) const TABLE: &[Row] = {
    use {Action as A, Event as E, State as S};
    &[
        row(S::Unknown,    E::Reroute,     S::Routing,    &[A::Own, A::Make, A::Join]),
        row(S::Unknown,    E::NewAttempt,  S::Routing,    &[A::Own, A::Make, A::Join]),
        row(S::Unknown,    E::EndGone,     S::Unknown,    &[A::ReportEnd]),
        row(S::Unknown,    E::Stray,       S::Unknown,    &[A::ReportFault]),

        row(S::Routing,    E::Claimed,     S::Routing,    &[A::Void, A::Own]),
        row(S::Routing,    E::Reroute,     S::Routing,    &[A::Join]),
        row(S::Routing,    E::NewAttempt,  S::Routing,    &[A::Void, A::Clear, A::Join]),
        row(S::Routing,    E::SameAttempt, S::Routing,    &[A::Join]),
        row(S::Routing,    E::OldAttempt,  S::Routing,    &[A::RefuseOld]),
        row(S::Routing,    E::Done,        S::Routed,     &[A::Keep]),
        row(S::Routing,    E::LastFailed,  S::Unknown,    &[A::TakeDown]),
        row(S::Routing,    E::RevivalFailed, S::Remembered, &[A::TakeDown, A::Remember]),
        row(S::Routing,    E::ReturnFailed, S::Ended,     &[A::TakeDown, A::Remember]),
        row(S::Routing,    E::Unrouted,    S::Remembered, &[A::GiveUp, A::TakeDown, A::Remember]),
        row(S::Routing,    E::Left,        S::Ended,      &[A::GiveUp, A::TakeDown, A::Remember]),
        row(S::Routing,    E::EndGone,     S::Routing,    &[A::ReportEnd]),
        row(S::Routing,    E::Stray,       S::Routing,    &[A::ReportFault]),

        row(S::Routed,     E::Claimed,     S::Routed,     &[A::Void, A::Own]),
        row(S::Routed,     E::Reroute,     S::Routed,     &[A::Join]),
        row(S::Routed,     E::NewAttempt,  S::Routing,    &[A::Void, A::Clear, A::Join]),
        row(S::Routed,     E::SameAttempt, S::Routed,     &[A::Join]),
        row(S::Routed,     E::OldAttempt,  S::Routed,     &[A::RefuseOld]),
        row(S::Routed,     E::Done,        S::Routed,     &[A::Keep]),
        row(S::Routed,     E::Unanswered,  S::Remembered, &[A::GiveUp, A::TakeDown, A::Remember]),
        row(S::Routed,     E::Unrouted,    S::Remembered, &[A::GiveUp, A::TakeDown, A::Remember]),
        row(S::Routed,     E::Left,        S::Leaving,    &[A::GiveUp, A::Leave]),
        row(S::Routed,     E::EndGone,     S::Routed,     &[A::ReportEnd]),
        row(S::Routed,     E::Idle,        S::Routed,     &[A::ReportIdle]),
        row(S::Routed,     E::Stray,       S::Routed,     &[A::ReportFault]),

        row(S::Leaving,    E::Claimed,     S::Routed,     &[A::Void, A::Own]),
        row(S::Leaving,    E::Reroute,     S::Leaving,    &[A::Join]),
        row(S::Leaving,    E::NewAttempt,  S::Routing,    &[A::Void, A::Clear, A::Join]),
        row(S::Leaving,    E::SameAttempt, S::Leaving,    &[A::RefuseOver]),
        row(S::Leaving,    E::OldAttempt,  S::Leaving,    &[A::RefuseOld]),
        row(S::Leaving,    E::Done,        S::Leaving,    &[A::Keep]),
        row(S::Leaving,    E::Due,         S::Leaving,    &[A::Look]),
        row(S::Leaving,    E::NotOver,     S::Leaving,    &[A::Wait]),
        row(S::Leaving,    E::Over,        S::Ended,      &[A::GiveUp, A::TakeDown, A::Remember]),
        row(S::Leaving,    E::Unrouted,    S::Ended,      &[A::GiveUp, A::TakeDown, A::Remember]),
        row(S::Leaving,    E::EndGone,     S::Leaving,    &[A::ReportEnd]),

        row(S::Remembered, E::Claimed,     S::Remembered, &[A::Own]),
        row(S::Remembered, E::Reroute,     S::Routing,    &[A::Make, A::Join]),
        row(S::Remembered, E::NewAttempt,  S::Routing,    &[A::Make, A::Join]),
        row(S::Remembered, E::SameAttempt, S::Routing,    &[A::Make, A::Join]),
        row(S::Remembered, E::OldAttempt,  S::Remembered, &[A::RefuseOld]),
        row(S::Remembered, E::Left,        S::Ended,      &[]),
        row(S::Remembered, E::EndGone,     S::Remembered, &[A::ReportEnd]),
        row(S::Remembered, E::Forgotten,   S::Unknown,    &[]),

        row(S::Ended,      E::Claimed,     S::Remembered, &[A::Own]),
        row(S::Ended,      E::Reroute,     S::Ended,      &[A::RefuseOver]),
        row(S::Ended,      E::NewAttempt,  S::Routing,    &[A::Make, A::Join]),
        row(S::Ended,      E::SameAttempt, S::Ended,      &[A::RefuseOver]),
        row(S::Ended,      E::OldAttempt,  S::Ended,      &[A::RefuseOld]),
        row(S::Ended,      E::EndGone,     S::Ended,      &[A::ReportEnd]),
        row(S::Ended,      E::Forgotten,   S::Unknown,    &[]),
    ]
};

/// The state of a circuit at this router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing is known of it.
    Unknown,
    /// Its first route, or the first of a further attempt, is being set up.
    Routing,
    /// It has a route. Others may be under way: it moves.
    Routed,
    /// Its controller has ended it. It stays for messages that wait here or are on their way.
    Leaving,
    /// It was unrouted at once a short time ago.
    Remembered,
    /// It has ended for good a short time ago.
    Ended,
}

/// What happens to a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Another controller commands it, with a higher term than that of its owner.
    Claimed,
    /// It is to be moved.
    Reroute,
    /// It is to be set up, by an attempt that is newer than all before.
    NewAttempt,
    /// It is to be set up, by the newest attempt once more.
    SameAttempt,
    /// It is to be set up, by an attempt that a newer one has replaced.
    OldAttempt,
    /// A route that was under way is set up.
    Done,
    /// The last route that was under way has failed.
    LastFailed,
    /// The same, of a circuit that was remembered before.
    RevivalFailed,
    /// The same, of a circuit that had ended before.
    ReturnFailed,
    /// Its controller cannot be told that the route is set up that was set up last.
    Unanswered,
    /// It is to be taken down at once.
    Unrouted,
    /// It is to be taken down when its last messages have passed.
    Left,
    /// An end of it on this router is gone.
    EndGone,
    /// It has carried nothing for a while.
    Idle,
    /// A message of it has no next place, or waits for a link that is away.
    Stray,
    /// It is to be looked at.
    Due,
    /// Nothing has to be waited for any more.
    Over,
    /// Messages may still be on their way.
    NotOver,
    /// The time is over for which it is remembered, or too many others are.
    Forgotten,
}

/// What a transition does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Makes the controller that commands the circuit its owner.
    Own,
    /// Makes a circuit without entries.
    Make,
    /// Has the route carried out.
    Join,
    /// Keeps the routes under way from taking effect.
    Void,
    /// Removes what former attempts have set up.
    Clear,
    /// Refuses a route because a newer attempt counts.
    RefuseOld,
    /// Refuses a route because the circuit has ended.
    RefuseOver,
    /// Notes the route for reports.
    Keep,
    /// Ends the routes under way.
    GiveUp,
    /// Takes the circuit down.
    TakeDown,
    /// Notes when the circuit has ended.
    Remember,
    /// Notes that the circuit leaves, and has it looked at.
    Leave,
    /// Has the circuit looked at.
    Look,
    /// Has the circuit looked at later.
    Wait,
    /// Reports the end that is gone to the owner.
    ReportEnd,
    /// Reports to the owner that the circuit is idle.
    ReportIdle,
    /// Reports a message without a next place to the owner, or to all controllers if nothing is known of the circuit.
    ReportFault,
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
