//! Routes that are being set up.
//!
//! A controller that gets no answer in time tries again: with the same circuit id, often at the
//! same router, and while the earlier attempt is still under way there. All attempts share the
//! circuit, and the newest one counts: it removes what older attempts set up, and an older attempt
//! that finishes later is refused. A reroute is no attempt: it changes a circuit that is up.

use std::sync::Arc;

use smallvec::SmallVec;

use super::circuit::{Before, ForwardingEntry, coarse_now};
use super::destination::{Destination, Link};
use super::flow::{Circuit, FlowRef};
use super::{Forwarder, shard};
use crate::seam::{ControllerId, Forward, ForwardKind, RouteError, RouteErrorCode};

/// A route that is being set up. A circuit without a route is forgotten when its last `SetUp` is
/// dropped.
#[derive(Debug)]
pub(crate) struct SetUp {
    forwarder: Arc<Forwarder>,
    circuit: Arc<Circuit>,
    /// The number of the attempt; `None` for a reroute.
    attempt: Option<u32>,
}

impl Forwarder {
    /// Begins to set up a route of the circuit of this id, which is made if it is unknown. The entries
    /// of older attempts are removed.
    pub(crate) fn set_up(
        self: &Arc<Self>,
        id: &str,
        owner: &ControllerId,
        attempt: Option<u32>,
    ) -> Result<SetUp, RouteError> {
        let (circuit, older, links_before) = {
            let mut shard = shard(&self.circuits, id).write();
            let circuit = match shard.get(id) {
                Some(known) => Arc::clone(known),
                None => {
                    let book = &self.measures().book;
                    let circuit = Circuit::booked(id, Arc::clone(owner), book);
                    shard.insert(Arc::clone(&circuit.id), Arc::clone(&circuit));
                    circuit
                }
            };
            let links_before = circuit.links();
            let older = circuit.begin(attempt).ok_or_else(superseded)?;
            (circuit, older, links_before)
        };
        for end in self.take_destinations(&circuit, &older) {
            end.withdrawn();
        }
        self.goes_over(&circuit, &links_before, &[]);
        Ok(SetUp { forwarder: Arc::clone(self), circuit, attempt })
    }
}

impl SetUp {
    pub(crate) fn circuit(&self) -> &Arc<Circuit> {
        &self.circuit
    }

    /// Fails if a newer attempt was begun.
    pub(crate) fn stands(&self) -> Result<(), RouteError> {
        if self.circuit.is_superseded(self.attempt) { Err(superseded()) } else { Ok(()) }
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
        let outlet = |address: &str| {
            let link = links.iter().find(|link| *link.id == *address);
            link.map(|link| Arc::clone(&link.outlet))
        };
        let links_before = self.circuit.links();
        let now = coarse_now();
        let before = self.circuit.set_entries(self.attempt, &entries, outlet, now);
        let before = before.ok_or_else(superseded)?;
        // The former links stay in the index until the route is complete, because one that is away may come back
        // meanwhile.
        self.forwarder.goes_also_over(&self.circuit, &links);
        self.follow_links(&links);
        if self.circuit.has_ended() {
            // The circuit was unrouted meanwhile.
            self.undo(before, &links_before, &links);
            return Err(failed("the circuit was unrouted while its route was set up"));
        }
        // An end that closed before this was not reported to the controller yet. A reroute also
        // serves ends that drain.
        let end_of = |entry: &ForwardingEntry| self.forwarder.destination(&entry.destination);
        let is_new = self.attempt.is_some();
        if is_new && entries.iter().filter_map(end_of).any(|end| end.is_closed()) {
            self.undo(before, &links_before, &links);
            return Err(failed("an end of the circuit was closed while its route was set up"));
        }
        self.circuit.forget_surplus(&entries, now);
        self.forwarder.goes_over(&self.circuit, &links_before, &links);
        if !is_new {
            let new = |entry: &&ForwardingEntry| before.entries.iter().all(|old| !old.is(entry));
            self.forwarder.paths_changed(entries.iter().filter(new).map(|entry| &*entry.source));
        }
        self.circuit.hear();
        Ok(())
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
        self.circuit.restore_entries(self.attempt, before, outlet);
        if self.circuit.has_ended() {
            self.circuit.close_hops();
        }
        let new = new.iter().map(|link| Arc::clone(&link.id));
        let all: Vec<Arc<str>> = former.iter().cloned().chain(new).collect();
        self.forwarder.goes_over(&self.circuit, &all, &[]);
    }
}

impl Drop for SetUp {
    fn drop(&mut self) {
        // Other attempts begin under this lock, so that none is missed.
        let mut shard = shard(&self.forwarder.circuits, &self.circuit.id).write();
        let is_unused = self.circuit.is_unused_after_set_up();
        let known = || shard.get(&self.circuit.id);
        if is_unused && known().is_some_and(|known| Arc::ptr_eq(known, &self.circuit)) {
            shard.remove(&self.circuit.id);
        }
    }
}

fn superseded() -> RouteError {
    failed("a newer attempt to set the route up took the place of this one")
}

fn failed(message: &str) -> RouteError {
    RouteError { code: RouteErrorCode::Generic, text: message.to_owned() }
}
