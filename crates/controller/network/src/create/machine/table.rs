//! All states of a dial, and all transitions between them.
//!
//! ```text
//!   Choosing ──Chosen──> Routing ──Complete──> Entering ──Entered──> Over: the circuit is made
//!     │ ^ ^                ^ │ │
//!     │ │ └─────Again──────┼─┘ └──Anew──> Renaming ──Renamed, NotRenamed──> Choosing
//!     │ └──────────────────┼──────────────────────────────────────────────────┘
//!     └─Busy─> Pausing ──Due──> Rechoosing ──Chosen──> Routing
//!
//!   Choosing, Rechoosing ──NotChosen──> Over: no circuit
//!   Routing ──Exhausted──> Over: no circuit
//!   Routing, Entering ──Ended──> Over: no circuit
//! ```

/// All transitions. An event without a row for the state cannot happen; it would end the dial.
#[rustfmt::skip]
pub(super) const TABLE: &[Row] = {
    use {Action as A, Event as E, State as S};
    &[
        row(S::Choosing,   E::Chosen,     S::Routing,    A::Tell),
        row(S::Choosing,   E::Busy,       S::Pausing,    A::Pause),
        row(S::Choosing,   E::NotChosen,  S::Over,       A::Fail),

        row(S::Pausing,    E::Due,        S::Rechoosing, A::Choose),

        row(S::Rechoosing, E::Chosen,     S::Routing,    A::Tell),
        row(S::Rechoosing, E::NotChosen,  S::Over,       A::Fail),

        row(S::Routing,    E::Set,        S::Routing,    A::Listen),
        row(S::Routing,    E::Complete,   S::Entering,   A::Enter),
        row(S::Routing,    E::Anew,       S::Renaming,   A::Rename),
        row(S::Routing,    E::Again,      S::Choosing,   A::Choose),
        row(S::Routing,    E::Exhausted,  S::Over,       A::Fail),
        row(S::Routing,    E::Ended,      S::Over,       A::Fail),

        row(S::Renaming,   E::Renamed,    S::Choosing,   A::Choose),
        row(S::Renaming,   E::NotRenamed, S::Choosing,   A::Choose),

        row(S::Entering,   E::Entered,    S::Over,       A::Finish),
        row(S::Entering,   E::Ended,      S::Over,       A::Fail),
    ]
};

/// The state of a dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// A terminator and a path are looked for.
    Choosing,
    /// A router at an end or a host that takes no new circuits is given some time.
    Pausing,
    /// A terminator and a path are looked for after that time.
    Rechoosing,
    /// The routers of the path are told their routes, and answer.
    Routing,
    /// The circuit gets another id for its next attempt.
    Renaming,
    /// All routers have answered: the circuit is put into the table of circuits.
    Entering,
    /// The circuit is made, or is not made.
    Over,
}

/// What happens to a dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// There is a terminator with a path to it.
    Chosen,
    /// The same, and the router at an end of the path or the host has just taken no new circuit.
    Busy,
    /// There is no terminator, or no path to any.
    NotChosen,
    /// The pause is over.
    Due,
    /// A router has set up its route, and others have not.
    Set,
    /// The last router has set up its route.
    Complete,
    /// The attempt has failed; there is another one, under another id.
    Anew,
    /// The attempt has failed; there is another one, under the same id, because the router of the dialer chose it.
    Again,
    /// The last attempt has failed.
    Exhausted,
    /// The circuit has another id.
    Renamed,
    /// The circuit keeps its id.
    NotRenamed,
    /// The circuit is in the table.
    Entered,
    /// The circuit has ended: by the word of a router on its path, or because its dialer or its host may not have it
    /// any more.
    Ended,
}

/// What a transition does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Looks for a terminator and a path.
    Choose,
    /// Lets some time pass.
    Pause,
    /// Tells the routers of the path their routes.
    Tell,
    /// Waits for more answers.
    Listen,
    /// Gives the circuit another id, and takes the attempt down.
    Rename,
    /// Puts the circuit into the table, and takes former attempts down.
    Enter,
    /// Ends the dial with a circuit.
    Finish,
    /// Ends the dial without a circuit, and takes all attempts down.
    Fail,
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
