//! What the machine is told, and what it has the driver do.

use std::sync::Arc;
use std::time::Instant;

use hashbrown::HashSet;
use weft_model::Id;
use weft_paths::links::Link;

use crate::routers::NotConnected;

/// A connection of a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    pub(crate) router: Id,
    /// Its number, which no other connection has.
    pub(crate) number: u64,
}

/// A connection that a router has made, or that this controller has dialed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newcomer<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) is_dialed: bool,
    /// Whether the router says at each connection which links it has.
    pub(crate) lists_links: bool,
    /// Whether data may go over the router while it is not heard.
    pub(crate) may_carry: bool,
    /// Whether the registered connection answers; none if its channel has closed.
    pub(crate) registered_answers: Option<bool>,
}

/// Who names circuits or has not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The router reports by itself.
    Report,
    /// The router was asked.
    Answer,
}

/// What the machine is told.
pub(crate) enum Input<'a> {
    /// A router has connected.
    Connected(Newcomer<'a>),
    /// A connection has ended.
    Ended { connection: &'a Connection, may_carry: bool },
    /// The controller stops: no router connects any more.
    Stop,
    /// A router may not be used any more.
    ShutOut(&'a Id),
    /// A part of the circuits of a router is to be handled. It counts if [`Output::Take`] follows.
    Part(&'a Connection, Source),
    /// The circuits that a router has to name, after [`Output::Expect`].
    Expected(&'a Connection, Source, HashSet<String>),
    /// The circuits of a part that has been handled.
    Named { connection: &'a Connection, source: Source, circuits: &'a [String], is_last: bool },
    /// A router has not answered which circuits it carries.
    CircuitsUnanswered(&'a Connection),
    /// A router has reported the end of a circuit that is not known.
    CircuitEnded(&'a Connection, &'a str),
    /// Routers have links with one that is not heard any more.
    Doubted(&'a [Id]),
    /// The answer to [`Output::JudgeLinks`]: whether the router has links with routers that are not heard, and whether a
    /// dialer is not heard or does not answer.
    Judged { connection: &'a Connection, has_doubtful: bool, has_unheard_dialer: bool },
    /// The links that a router has, by its answer to a question of `asked_at`; `doubtful` are those of its links in the
    /// table by then whose other routers were not heard.
    LinksListed {
        connection: &'a Connection,
        asked_at: Instant,
        doubtful: &'a [Arc<Link>],
        links: &'a HashSet<String>,
    },
    /// A router has not answered which links it has.
    LinksUnanswered(&'a Connection),
    /// A link broke. The router that dialed it may not be heard when it is back.
    LinkBroke(&'a Arc<Link>),
    /// The router that dialed a link has reported that it is up.
    LinkBack(&'a Arc<Link>),
    /// A router has reported that a link broke which is not in the table. If it is waited for, it was back for a moment, and
    /// an answer of before says nothing of it.
    BrokeAgain(&'a Id, &'a str),
    /// The time has come to look at what is [due](super::Machine::next_due).
    Tick,
}

/// What the driver is to do, in this order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Output {
    /// Refuse a connection.
    Refuse(NotConnected),
    /// Put a connection into the table of connected routers.
    Register(Connection),
    /// Close a connection that was replaced.
    Close(Connection),
    /// Take a connection out of the table.
    Unregister(Connection),
    /// Tell that a router is connected.
    Come(Connection),
    /// Tell that a connection of a router is over, and give [`Input::Doubted`] with its neighbours.
    Leave(Id),
    /// Tell that a router is away.
    GoOffline(Connection),
    /// Drop the links that a router dialed.
    DropDialed(Id),
    /// End the circuits at a router, and drop its links.
    ShutOut(Id),
    /// Ask a router for its circuits. The answer is a [`Input::Part`] or [`Input::CircuitsUnanswered`].
    AskCircuits(Connection),
    /// Give [`Input::Expected`].
    Expect(Connection),
    /// Handle the part, and give [`Input::Named`].
    Take,
    /// Handle that a router does not carry circuits that it had to name.
    NotCarried(Connection, HashSet<String>),
    /// Look at the circuits that are known in part.
    LookForGaps,
    /// Give [`Input::Judged`]; links that these routers dialed may come back.
    JudgeLinks(Connection, HashSet<Id>),
    /// Ask a router which links it has. The answer is [`Input::LinksListed`] or [`Input::LinksUnanswered`].
    AskLinks(Connection),
    /// Drop a link that one of its routers does not have, unless it was dialed anew.
    DropLink(Arc<Link>),
    /// Put a link that is back into the table.
    Restore(Arc<Link>),
}
