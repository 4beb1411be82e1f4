//! What the machine is told, and what it has the driver do.

use std::sync::Arc;
use std::time::Duration;

use weft_wire::ctrl::{ClaimCircuits, Route, Unroute};
use weft_xgress::Role;

use crate::seam::{ControllerId, NotObeyed, RouteTicket};

/// What the machine is told.
#[derive(Debug)]
pub(crate) enum Input<'a> {
    /// A controller sends a route. `takes_new` is false once the router is about to stop.
    Route { from: &'a ControllerId, route: &'a Route, takes_new: bool },
    /// A controller ends a circuit.
    Unroute { from: &'a ControllerId, unroute: &'a Unroute },
    /// A controller claims circuits. The answer is [`Output::Carried`].
    Claim { from: &'a ControllerId, claim: &'a ClaimCircuits },
    /// The route of a ticket is set up: [`Machine::check`](super::Machine::check) had nothing against it.
    Done(&'a RouteTicket),
    /// The route of a ticket has failed, or is over in any other way.
    Failed(&'a RouteTicket),
    /// The answer cannot be sent that the route of a ticket, which is part of an attempt, is set up.
    Unanswered(&'a RouteTicket),
    /// An end on this router is gone, which was set up in this attempt, if that is known. `asked` was asked for the
    /// circuit, or has it made: nobody else is known to own a circuit that is unknown here.
    EndGone { circuit: &'a str, asked: &'a ControllerId, end: Role, attempt: Option<u32> },
    /// These circuits are idle.
    Idle(Vec<IdleCircuit>),
    /// No client begins these circuits any more, which begin on this router.
    NotBegun(&'a [Arc<str>]),
    /// Messages of these circuits have no next place, or wait for a link that is away.
    Stray(&'a [Arc<str>]),
    /// The answer to [`Output::Look`].
    Looked { circuit: &'a str, sight: Sight },
    /// The time of [`Machine::next_wake`](super::Machine::next_wake) has come.
    Tick,
}

/// A circuit that has carried nothing for a while.
#[derive(Clone, Debug)]
pub(crate) struct IdleCircuit {
    pub(crate) circuit: Arc<str>,
    /// For how long.
    pub(crate) time: Duration,
    /// An end on this router that its route leads to, and that is not there.
    pub(crate) gone: Option<Role>,
}

/// How a circuit looks that its controller has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    /// Whether its ends on this router are gone and nothing waits for a neighbour: no message is of use here.
    pub(crate) is_done: bool,
    /// Bytes that wait for neighbours.
    pub(crate) waiting: u64,
    /// The time since the last sign of the other end.
    pub(crate) unheard: Duration,
}

/// What the driver is to do. It changes the tables before anybody else gives the machine an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Put a circuit without entries into the table.
    Make { circuit: Arc<str>, by: ControllerId },
    /// Carry a route out. The answer is [`Input::Done`] or [`Input::Failed`].
    Begin(RouteTicket),
    /// Refuse a command.
    Refuse(NotObeyed),
    /// Remove all entries of a circuit, and the ends that they lead to.
    Clear(Arc<str>),
    /// Stop the route with this number.
    GiveUp(u64),
    /// Take a circuit down: its ends are told.
    TakeDown(Arc<str>),
    /// Look at a circuit, for the first time or once more. The answer is [`Input::Looked`].
    Look { circuit: Arc<str>, is_first: bool },
    /// These circuits are up, and are of the controller that has claimed them.
    Carried(Vec<Arc<str>>),
    /// Tell the former owner of circuits that they are another controller's.
    Taken { owner: ControllerId, circuits: Vec<Arc<str>> },
    /// Report an end, and the attempt that has set it up, if it is known.
    ReportEnd { owner: ControllerId, circuit: Arc<str>, end: Role, attempt: Option<u32> },
    /// Report idle circuits.
    ReportIdle { owner: ControllerId, circuits: Vec<(String, Duration)> },
    /// Report circuits with messages that have no next place. Without an owner, all controllers are told.
    ReportFaults { owner: Option<ControllerId>, circuits: Vec<String> },
}
