//! All states of the presence of routers, and all transitions between them.
//!
//! Four kinds of things have a state. A *router* is here or away. While it is here, its report of *circuits* has a state,
//! and so have its *links* with routers that are not heard, about which it is asked. A *link that broke* may be back
//! without a report, as long as the router that dialed it is not heard; the router at its other end is asked for it. What
//! is in the first state of its line needs no memory and is in no table.
//!
//! ```text
//!  router
//!    Away ──Connected──> Here ──Ended──> Away        Here ──Connected──> Here: the new connection replaces the former
//!    Refused, ShutOut, Unlisted change no state
//!
//!  circuits of a router that is here
//!    Unreported ──Due──> Asked ──AnswerPart──> Answering ──AnswerComplete──> Reported
//!        ^  │             │ │                      │
//!        │  └────Part─────┼─┼──────────Part────────┴─────> Reporting ──Complete──> Reported
//!        └───Unanswered───┘ └──────────Part──────────────────^ │
//!                         ^────────────────Due─────────────────┘
//!
//!  links of a router that is here
//!    Doubtful ──Due──> Judged ──Uncertain──> Questioned ──Answered, Unanswered──> Doubtful
//!       ^ ^              │ │
//!       │ └──Doubted, ───┘ └──Certain──> Calm ──Doubted──> Doubtful
//!       │     Awaited
//!       └── the first state of a router that has connected
//!
//!  link that broke
//!    Known ──Broke──> Broken ──NotListed──> Missing ──Broke──> Broken
//!    Broken, Missing ──Listed──> Known: it is back;  Broken, Missing ──Over──> Known
//! ```

/// All transitions. An event without a row for the state changes nothing. A transition of circuits or links ends what
/// they waited for, unless one of its actions begins a wait.
#[rustfmt::skip]
pub(super) const TABLE: &[Row] = {
    use {Action as A, Event as E, State as S};
    &[
        row(S::Away,       E::Connected,      S::Here,       &[A::Register, A::Come, A::AwaitReport, A::AwaitCheck]),
        row(S::Away,       E::Refused,        S::Away,       &[A::Refuse]),
        row(S::Away,       E::ShutOut,        S::Away,       &[A::ShutOut]),
        row(S::Here,       E::Connected,      S::Here,       &[A::Register, A::Close, A::Leave, A::Come, A::AwaitReport, A::AwaitCheck]),
        row(S::Here,       E::Unlisted,       S::Here,       &[A::DropDialed]),
        row(S::Here,       E::Refused,        S::Here,       &[A::Refuse]),
        row(S::Here,       E::ShutOut,        S::Here,       &[A::ShutOut]),
        row(S::Here,       E::Ended,          S::Away,       &[A::Unregister, A::Leave, A::GoOffline]),

        row(S::Unreported, E::Due,            S::Asked,      &[A::AskCircuits]),
        row(S::Unreported, E::Part,           S::Reporting,  &[A::Expect, A::Take, A::AwaitRest]),
        row(S::Asked,      E::Part,           S::Reporting,  &[A::Expect, A::Take, A::AwaitRest]),
        row(S::Asked,      E::AnswerPart,     S::Answering,  &[A::Expect, A::Take]),
        row(S::Asked,      E::Unanswered,     S::Unreported, &[A::AwaitReport]),
        row(S::Answering,  E::Part,           S::Reporting,  &[A::Expect, A::Take, A::AwaitRest]),
        row(S::Answering,  E::AnswerPart,     S::Answering,  &[A::Take]),
        row(S::Answering,  E::AnswerComplete, S::Reported,   &[A::TellMissing, A::LookForGaps]),
        row(S::Reporting,  E::Part,           S::Reporting,  &[A::Take, A::AwaitRest]),
        row(S::Reporting,  E::Due,            S::Asked,      &[A::AskCircuits]),
        row(S::Reporting,  E::Complete,       S::Reported,   &[A::TellMissing, A::LookForGaps]),

        row(S::Calm,       E::Doubted,        S::Doubtful,   &[A::AwaitCheck]),
        row(S::Doubtful,   E::Due,            S::Judged,     &[A::JudgeLinks]),
        row(S::Judged,     E::Doubted,        S::Doubtful,   &[A::AwaitCheck]),
        row(S::Judged,     E::Awaited,        S::Doubtful,   &[A::AwaitCheck]),
        row(S::Judged,     E::Certain,        S::Calm,       &[]),
        row(S::Judged,     E::Uncertain,      S::Questioned, &[A::AskLinks]),
        row(S::Questioned, E::Answered,       S::Doubtful,   &[A::AwaitCheck]),
        row(S::Questioned, E::Unanswered,     S::Doubtful,   &[A::AwaitCheck]),

        row(S::Known,      E::Broke,          S::Broken,     &[A::AwaitReturn, A::Doubt]),
        row(S::Broken,     E::Broke,          S::Broken,     &[A::AwaitReturn]),
        row(S::Broken,     E::Listed,         S::Known,      &[A::Restore]),
        row(S::Broken,     E::NotListed,      S::Missing,    &[]),
        row(S::Broken,     E::Over,           S::Known,      &[]),
        row(S::Missing,    E::Broke,          S::Broken,     &[A::AwaitReturn]),
        row(S::Missing,    E::Listed,         S::Known,      &[A::Restore]),
        row(S::Missing,    E::Over,           S::Known,      &[]),
    ]
};

/// The state of a router, of its report of circuits, of its links, or of a link that broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    /// Router: it is not connected. Data may go over it while its links stand.
    Away,
    /// Router: it is connected.
    Here,
    /// Circuits: the router has named none, and is asked in a while.
    Unreported,
    /// Circuits: the router was asked for them.
    Asked,
    /// Circuits: the answer of the router is being handled.
    Answering,
    /// Circuits: the router reports them by itself, and has not come to the end.
    Reporting,
    /// Circuits: the router has named all.
    Reported,
    /// Links: as far as anybody knows, none of them is in doubt.
    Calm,
    /// Links: in a while, it is found out whether the router is to be asked.
    Doubtful,
    /// Links: it is being found out whether the router is to be asked.
    Judged,
    /// Links: the router was asked which links it has.
    Questioned,
    /// Link that broke: it is in the table of links, or nobody waits for it.
    Known,
    /// Link that broke: the router at its other end has not been asked since then.
    Broken,
    /// Link that broke: the router at its other end has been asked and did not have it.
    Missing,
}

/// What happens to a router, its circuits, its links, or a link that broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The router has connected, and its connection counts from now on.
    Connected,
    /// The router has connected, and the registered connection keeps its place, or the controller stops.
    Refused,
    /// The router that has connected does not say which of its links broke while it was away.
    Unlisted,
    /// The registered connection of the router has ended.
    Ended,
    /// The router may not be used any more: it is deleted, disabled or not enrolled.
    ShutOut,
    /// A wait is over.
    Due,
    /// The router reports a part of its circuits.
    Part,
    /// A part of the router's answer about its circuits is handled.
    AnswerPart,
    /// The last part of the router's report has been handled.
    Complete,
    /// The last part of the router's answer has been handled.
    AnswerComplete,
    /// The router has answered.
    Answered,
    /// The router has not answered, or has refused.
    Unanswered,
    /// A router at the other end of a link is not heard any more, or such a link broke.
    Doubted,
    /// The router need not be asked about its links.
    Certain,
    /// The router need not be asked now, but a link may come back whose dialer may stop answering.
    Awaited,
    /// The router is to be asked about its links.
    Uncertain,
    /// The link broke.
    Broke,
    /// The router at the other end has the link.
    Listed,
    /// The router at the other end does not have the link.
    NotListed,
    /// Nobody waits for the link any more: too much time has passed, or the router that dialed it says by itself whether
    /// it is back.
    Over,
}

/// What a transition does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Has the connection count as the router's.
    Register,
    /// Closes the connection that was replaced.
    Close,
    /// Refuses the connection.
    Refuse,
    /// Ends that the connection counts as the router's.
    Unregister,
    /// Tells everybody that the router is connected.
    Come,
    /// Tells everybody that the connection of the router is over, and has its neighbours asked about their links.
    Leave,
    /// Tells everybody that the router is away.
    GoOffline,
    /// Drops the links that the router dialed: it names those that it has.
    DropDialed,
    /// Ends the circuits of the router, and drops its links.
    ShutOut,
    /// Gives the router time to report its circuits by itself.
    AwaitReport,
    /// Gives the router time for the next part of its report.
    AwaitRest,
    /// Asks the router for its circuits.
    AskCircuits,
    /// Finds out which circuits the router has to name.
    Expect,
    /// Has the part of the report or answer handled.
    Take,
    /// Tells which circuits the router had to name and did not.
    TellMissing,
    /// Has circuits that are known in part looked at.
    LookForGaps,
    /// Lets some time pass before the links are judged.
    AwaitCheck,
    /// Finds out whether the router is to be asked about its links.
    JudgeLinks,
    /// Asks the router about its links.
    AskLinks,
    /// Waits for the link for a limited time.
    AwaitReturn,
    /// Has the router at the other end of the link asked.
    Doubt,
    /// Puts the link into the table of links.
    Restore,
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
