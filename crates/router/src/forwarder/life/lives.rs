//! The machine, and the routes that it may give up.

use std::collections::HashMap;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weft_circuit::now;

use super::machine::{Input, Machine};
use crate::seam::{NotObeyed, RouteTicket};

/// The machine, and what stops the routes that are under way.
#[derive(Debug)]
pub(in crate::forwarder) struct Lives {
    pub(super) machine: Machine,
    pub(super) given_up: HashMap<u64, CancellationToken>,
}

impl Lives {
    /// `quiet` is the time after which a circuit that its controller has ended counts as quiet.
    pub(in crate::forwarder) fn new(quiet: Duration) -> Self {
        Self { machine: Machine::new(quiet), given_up: HashMap::new() }
    }

    /// Whether the route of a ticket still counts.
    pub(in crate::forwarder) fn check(&self, ticket: &RouteTicket) -> Result<(), NotObeyed> {
        self.machine.check(ticket)
    }

    /// The route of a ticket is set up.
    pub(in crate::forwarder) fn done(&mut self, ticket: &RouteTicket) {
        self.given_up.remove(&ticket.number);
        // The machine answers nothing: the route counts, and was under way.
        self.machine.step(now(), Input::Done(ticket));
    }
}
