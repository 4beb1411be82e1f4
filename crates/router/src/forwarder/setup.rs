//! Routes that are being set up: the entries of a route are set whole or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;
use tokio_util::sync::CancellationToken;
use weft_wire::ctrl::REROUTE_ATTEMPT;

use super::Forwarder;
use super::circuit::{Before, ForwardingEntry, coarse_now};
use super::destination::{Destination, Link};
use super::flow::{Circuit, FlowRef};
use crate::seam::{Forward, ForwardKind, NotObeyed, RouteError, RouteErrorCode, RouteTicket};

/// A route that is being set up. It has failed if it is dropped before it is set up.
#[derive(Debug)]
pub(crate) struct SetUp {
    forwarder: Arc<Forwarder>,
    circuit: Arc<Circuit>,
    ticket: RouteTicket,
    attempt: u32,
    given_up: CancellationToken,
    is_done: AtomicBool,
}

impl SetUp {
    pub(super) fn new(
        forwarder: &Arc<Forwarder>,
        circuit: Arc<Circuit>,
        ticket: RouteTicket,
        attempt: u32,
    ) -> Self {
        let (forwarder, given_up) = (Arc::clone(forwarder), CancellationToken::new());
        let is_done = AtomicBool::new(false);
        Self { forwarder, circuit, ticket, attempt, given_up, is_done }
    }

    pub(crate) fn circuit(&self) -> &Arc<Circuit> {
        &self.circuit
    }

    pub(crate) fn ticket(&self) -> &RouteTicket {
        &self.ticket
    }

    /// Cancelled when the circuit is taken down before the route is set up.
    pub(crate) fn given_up(&self) -> &CancellationToken {
        &self.given_up
    }

    fn is_reroute(&self) -> bool {
        self.attempt == REROUTE_ATTEMPT
    }

    /// Fails if the route does not count any more.
    pub(crate) fn stands(&self) -> Result<(), NotObeyed> {
        self.forwarder.lives().check(&self.ticket)
    }

    /// Sets the entries of the route, all or none.
    pub(crate) fn route(&self, forwards: &[Forward]) -> Result<(), RouteError> {
        let links = self.links_of(forwards)?;
        let entries: Vec<ForwardingEntry> = forwards
            .iter()
            .map(|forward| ForwardingEntry {
                source: forward.source.as_str().into(),
                destination: forward.destination.as_str().into(),
            })
            .collect();
        let before = {
            // No unroute and no newer attempt comes between the decision and the entries.
            let mut lives = self.forwarder.lives();
            lives.check(&self.ticket)?;
            let before = self.set(&entries, &links)?;
            lives.done(&self.ticket);
            self.is_done.store(true, Ordering::Release);
            before
        };
        if self.is_reroute() {
            let new = |entry: &&ForwardingEntry| before.entries.iter().all(|old| !old.is(entry));
            self.forwarder.paths_changed(entries.iter().filter(new).map(|entry| &*entry.source));
        }
        self.circuit.hear();
        Ok(())
    }

    /// Sets entries under the lock of the machine. Returns what was there before.
    fn set(
        &self,
        entries: &[ForwardingEntry],
        links: &[Arc<Link>],
    ) -> Result<Before<FlowRef>, RouteError> {
        let outlet = |address: &str| {
            let link = links.iter().find(|link| *link.id == *address);
            link.map(|link| Arc::clone(&link.outlet))
        };
        let (links_before, now) = (self.circuit.links(), coarse_now());
        let before = self.circuit.set_entries(self.attempt, entries, outlet, now);
        // The former links stay in the index until the route is complete, because one that is away may come back
        // meanwhile.
        self.forwarder.goes_also_over(&self.circuit, links);
        self.follow_links(links);
        // An end that closed before this was not reported to the controller yet. A reroute also
        // serves ends that drain.
        let end_of = |entry: &ForwardingEntry| self.forwarder.destination(&entry.destination);
        if !self.is_reroute() && entries.iter().filter_map(end_of).any(|end| end.is_closed()) {
            self.undo(before, &links_before, links);
            let text = "an end of the circuit was closed while its route was set up".to_owned();
            return Err(RouteError { code: RouteErrorCode::Generic, text });
        }
        self.circuit.forget_surplus(entries, now);
        self.forwarder.goes_over(&self.circuit, &links_before, links);
        Ok(before)
    }

    /// The links that entries lead to; fails if a destination is not there.
    fn links_of(&self, forwards: &[Forward]) -> Result<SmallVec<[Arc<Link>; 2]>, RouteError> {
        let mut links = SmallVec::new();
        for forward in forwards {
            let to = &forward.destination;
            let (code, what) = match (self.forwarder.destination(to), forward.kind) {
                (Some(Destination::Link(link)), _) => {
                    links.push(link);
                    continue;
                }
                (Some(_), ForwardKind::End) | (_, ForwardKind::Start) => continue,
                (None, ForwardKind::End) => (RouteErrorCode::Generic, "end"),
                (_, ForwardKind::Link) => {
                    self.forwarder.unknown_link(to);
                    (RouteErrorCode::InvalidLinkDestination, "link")
                }
            };
            let text = format!("there is no {what} with address {to}");
            return Err(RouteError { code, text });
        }
        Ok(links)
    }

    /// Lists the circuit at links that closed and came back while the route was set up.
    fn follow_links(&self, links: &[Arc<Link>]) {
        for link in links {
            let now = self.forwarder.link(&link.id).filter(|now| now.peer == link.peer);
            if let Some((now, hop)) = now.zip(self.circuit.hop(&link.id)) {
                hop.move_to(&now.outlet);
            }
        }
    }

    /// Puts the former entries back. The index has the former links and the `new` ones; those that the circuit does not
    /// use any more are removed.
    fn undo(&self, before: Before<FlowRef>, former: &[Arc<str>], new: &[Arc<Link>]) {
        let outlet = |id: &str| self.forwarder.link(id).map(|link| Arc::clone(&link.outlet));
        self.circuit.restore_entries(before, outlet);
        let new = new.iter().map(|link| Arc::clone(&link.id));
        let all: Vec<Arc<str>> = former.iter().cloned().chain(new).collect();
        self.forwarder.goes_over(&self.circuit, &all, &[]);
    }
}

impl Drop for SetUp {
    fn drop(&mut self) {
        if !*self.is_done.get_mut() {
            self.forwarder.failed(&self.ticket);
        }
    }
}
