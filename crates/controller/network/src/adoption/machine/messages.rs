//! What the machine is told, and what it has the driver do.

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_model::Id;
use weft_paths::queue::MoveReason;
use weft_wire::ctrl::Route;

use super::assembly::AssembledCircuit;
use super::limits::Excess;

/// What the table of circuits says of a circuit that a router names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is whole and goes over the router, or it is in the making.
    Wanted,
    /// It is whole and does not go over the router, it has ended, or the router has said that it does not carry it.
    Unwanted,
    /// It is not whole, or not known. So many circuits go over the router.
    Open { at_router: usize },
}

/// What the driver sees of a path.
#[derive(Clone, Copy)]
pub(crate) struct Sight<'a> {
    /// Whether all routers and links of the path are known and work.
    pub(crate) works: bool,
    /// Whether there is any path between the ends.
    pub(crate) has_path: bool,
    /// The router at the other end of a link of a router, if the link is known.
    pub(crate) far_end: &'a dyn Fn(&Id, &str) -> Option<Id>,
    /// Whether a router has named all its circuits.
    pub(crate) has_told: &'a dyn Fn(&Id) -> bool,
    /// Whether a router that may connect has not named all its circuits.
    pub(crate) awaits_reports: &'a dyn Fn() -> bool,
}

/// What the machine is told.
pub(crate) enum Input<'a> {
    /// A router names a circuit: it reports its route, or asks whether the circuit is still wanted, and then the route
    /// has no ways.
    Named { router: &'a Id, route: Route, standing: Standing },
    /// A router does not carry a circuit that is not whole.
    NotCarried { router: &'a Id, circuit: &'a str },
    /// A move is about to give a circuit that is not whole a path; its size is then so many bytes. It may do so if
    /// [`Output::Complete`] follows.
    Moved { circuit: &'a str, bytes: usize },
    /// A move found no path for a circuit while routers may return. With `sends_again`, its routers are to be sent their
    /// routes again.
    Stranded { circuit: &'a str, sends_again: bool },
    /// A circuit is not in the table of circuits any more, or could not be put there.
    Ended(&'a str),
    /// A router has named all its circuits, or a link has come or gone.
    News,
    /// The time has come to look at what is [due](super::Machine::next_due).
    Tick,
    /// What is seen of a path, after [`Output::Look`].
    Looked { circuit: &'a str, sight: Sight<'a> },
}

/// What the driver is to do, in this order.
#[derive(Debug, PartialEq)]
pub(crate) enum Output {
    /// Put a circuit into the table of circuits, in the place of what was known of it, before the next input. If that is
    /// not possible, [`Input::Ended`] follows.
    Put(Arc<str>, Box<AssembledCircuit>),
    /// Take a circuit down at a router, unless it is on its path or the circuit is being moved.
    Unroute { router: Id, circuit: Arc<str> },
    /// Take a circuit down at a router that it had left, once it is not being moved, unless the router is on its path
    /// then.
    Leave { router: Id, circuit: Arc<str> },
    /// Say that a circuit is not adopted.
    Refuse { router: Id, circuit: Arc<str>, why: Excess },
    /// Put the path of a move into the table of circuits. The routers have named the circuit with these routes.
    Complete(BTreeMap<Id, Route>),
    /// End a circuit, one of whose ends is gone.
    Remove(Arc<str>),
    /// Give [`Input::Looked`] unless the circuit has ended.
    Look(Arc<str>),
    /// Move a circuit.
    Move(Arc<str>, MoveReason),
}
