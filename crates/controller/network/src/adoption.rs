//! Adopts circuits of an earlier run of this controller, so that a restart breaks none, and those of another controller that
//! were claimed ([`ownership`](super::ownership)).
//!
//! Circuits of this run are never adopted: their ids begin with the tag of the run. Ended circuits are remembered and not
//! adopted either.
//!
//! `machine` decides, and this module carries out what it says; `looks` looks at the paths of adopted circuits.

mod looks;
pub(crate) mod machine;
pub(crate) mod shared;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;
use weft_kernel::events::CircuitChange;
use weft_model::entity::Terminator;
use weft_model::{Id, Snapshot};
use weft_paths::path::Path;
use weft_paths::queue::MoveReason;
use weft_wire::ctrl::route::Egress;
use weft_wire::ctrl::{CarriedCircuits, Route};

use self::machine::{AssembledCircuit, Excess, Input, Machine, Output, Standing, is_id, size};
use crate::circuits::{Circuit, EndAddresses};
use crate::clock;
use crate::misreports::Misreport;
use crate::network::Network;
use crate::presence::machine::{Input as OfPresence, Source};
use crate::routers::LiveRouter;

/// Routes of a report that are handled before the lock is released for others.
const TURN: usize = 64;

/// A circuit that a router has named beyond a limit.
struct NotAdopted {
    circuit: Arc<str>,
    why: Excess,
}

/// The machine under its lock, while inputs are given.
struct AdoptionSteps<'a> {
    network: &'a Network,
    machine: MutexGuard<'a, Machine>,
    next_due: Option<Instant>,
    /// What is to be done once the lock is free.
    later: Vec<Output>,
}

impl AdoptionSteps<'_> {
    /// Gives the machine an input, and changes the table of circuits as it says.
    fn step(&mut self, input: Input<'_>) {
        for output in self.machine.step(clock::now(), input) {
            match output {
                Output::Put(circuit, assembled) => {
                    if !self.network.put_assembled(&circuit, *assembled) {
                        self.step(Input::Ended(&circuit));
                    }
                }
                other => self.later.push(other),
            }
        }
    }

    /// A router names a circuit; `has_told` if it has named all its circuits before.
    fn named(&mut self, router: &LiveRouter, route: Route, has_told: bool) {
        let standing = match self.network.0.circuits.standing(&route.circuit_id, &router.id) {
            _ if self.network.0.ownership.is_elsewhere(&route.circuit_id) => Standing::Wanted,
            Standing::Open { .. } if has_told => Standing::Unwanted,
            Standing::Open { .. } if self.network.is_of_this_run(&route.circuit_id) => {
                Standing::Unwanted
            }
            standing => standing,
        };
        self.step(Input::Named { router: &router.id, route, standing });
    }

    /// Lets go of the lock, and carries out what is left. Returns the circuits that are not adopted.
    fn end(self) -> Vec<NotAdopted> {
        let next = self.machine.next_due();
        drop(self.machine);
        if next.is_some_and(|next| self.next_due.is_none_or(|before| next < before)) {
            self.network.0.adoption.sooner.notify_one();
        }
        self.network.carry_out_adoption(self.later)
    }
}

impl Network {
    fn adopting(&self) -> AdoptionSteps<'_> {
        let machine = self.0.adoption.machine.lock();
        let next_due = machine.next_due();
        AdoptionSteps { network: self, machine, next_due, later: Vec::new() }
    }

    /// Gives the machine an input, and carries out what follows from it.
    pub(crate) fn adoption(&self, input: Input<'_>) {
        let mut steps = self.adopting();
        steps.step(input);
        steps.end();
    }

    fn carry_out_adoption(&self, outputs: Vec<Output>) -> Vec<NotAdopted> {
        let (mut refused, mut removed) = (Vec::new(), 0);
        for output in outputs {
            match output {
                Output::Unroute { router, circuit } => self.unroute_unless_moved(&router, &circuit),
                Output::Leave { router, circuit } => self.0.moves.leave(circuit, router),
                Output::Refuse { circuit, why, .. } => refused.push(NotAdopted { circuit, why }),
                Output::Remove(id) => {
                    tracing::debug!(circuit = %id, "an adopted circuit is removed");
                    removed += 1;
                    self.remove_circuit(&id, true);
                }
                Output::Move(id, why) => {
                    if let Some(circuit) = self.0.circuits.get(&id) {
                        self.move_or_end(&circuit, why);
                    }
                }
                // They are carried out where the input is.
                Output::Put(..) | Output::Complete(_) | Output::Look(_) => {}
            }
        }
        if removed > 0 {
            tracing::info!(
                count = removed,
                "adopted circuits are removed, because routers do not carry them any more"
            );
        }
        refused
    }

    /// Handles a part of a router's report of the circuits that it carries. A router reports once
    /// for each connection.
    pub fn on_carried(&self, router: &Arc<LiveRouter>, part: CarriedCircuits) {
        if !self.take_report(router, Source::Report, part) {
            tracing::debug!(router = %router.id, "a router reports its circuits a second time; the report is ignored");
        }
    }

    /// Handles a part of the circuits that a router carries, which it reported or was asked for. False if the part does
    /// not count.
    pub(crate) fn take_report(
        &self,
        router: &Arc<LiveRouter>,
        source: Source,
        part: CarriedCircuits,
    ) -> bool {
        if !self.begin_part(router, source) {
            return false;
        }
        let is_last = part.last;
        let named = self.adopt_routes(router, part.routes);
        let connection = &router.connection;
        self.presence(OfPresence::Named { connection, source, circuits: &named, is_last });
        true
    }

    /// Adopts circuits that a router names. Returns the ids that it names.
    pub(crate) fn adopt_routes(&self, router: &Arc<LiveRouter>, routes: Vec<Route>) -> Vec<String> {
        let (mut named, mut refused) = (Vec::with_capacity(routes.len()), Vec::new());
        let mut routes = routes.into_iter().peekable();
        while routes.peek().is_some() {
            let mut steps = self.adopting();
            for route in routes.by_ref().take(TURN) {
                if is_id(&route.circuit_id) {
                    named.push(route.circuit_id.clone());
                    steps.named(router, route, false);
                } else {
                    self.refuse(router, Misreport::MalformedCircuit, &route.circuit_id);
                }
            }
            refused.append(&mut steps.end());
        }
        if let Some(NotAdopted { circuit, why }) = refused.first() {
            let (router, count) = (&router.id, refused.len());
            tracing::warn!(%router, %circuit, count, %why, "circuits that a router names are not adopted");
        }
        named
    }

    /// Handles a router's question whether a circuit is still wanted that is not known to go over the router: it is kept
    /// as known in part if it may be a circuit of an earlier run, and taken down at the router otherwise.
    pub(crate) fn confirm_unknown(&self, router: &LiveRouter, id: &str) {
        if !is_id(id) {
            return self.unroute(&router.id, id);
        }
        // It is about to name the circuit.
        if router.claims.is_awaited(clock::now()) && !self.is_over(id) {
            return;
        }
        let has_told = self.has_told(&router.id);
        let mut steps = self.adopting();
        steps.named(router, Route { circuit_id: id.to_owned(), ..Route::default() }, has_told);
        for NotAdopted { circuit, why } in steps.end() {
            tracing::debug!(router = %router.id, %circuit, %why, "a circuit that a router names is not adopted");
        }
    }

    /// Takes a circuit down at a router that is not on its path. A circuit that is being moved, or whose last move has
    /// failed halfway, is spared: payloads may go over the router, although the table does not say so.
    pub(crate) fn unroute_unless_moved(&self, router: &Id, circuit: &str) {
        // The lock on the queue keeps the circuit from moving meanwhile.
        let queue = self.0.moves.queue.lock();
        let now = self.0.circuits.get(circuit);
        let is_on = now.is_some_and(|it| it.path.nodes.contains(router));
        let is_moved = queue.is_under_way(circuit) || self.0.moves.is_unsettled(circuit);
        if !is_on && !is_moved {
            self.unroute(router, circuit);
        }
    }

    /// Handles the loss of a circuit at a router on its path. A router between the ends of a whole circuit can be
    /// replaced: the circuit moves to another path.
    pub(crate) fn not_carried(&self, circuit: &str, router: &Id) {
        let mut steps = self.adopting();
        let Some(circuit) = self.0.circuits.get(circuit) else { return };
        let is_over_it = circuit.path.has_node(router.as_str());
        if is_over_it && !circuit.is_whole {
            steps.step(Input::NotCarried { router, circuit: &circuit.id });
        }
        steps.end();
        match circuit.path.has_end(router) {
            _ if !is_over_it || !circuit.is_whole => {}
            true => _ = self.remove_circuit(&circuit.id, true),
            false => self.move_or_end(&circuit, MoveReason::Lost),
        }
    }

    /// Puts a circuit known in part into the table as whole, after a move from `from`. Returns the
    /// routers that have reported or confirmed the circuit, with the routes that they reported; none
    /// if the circuit has ended. Routers may have reported the circuit since the move began.
    pub(crate) fn complete(&self, from: &Circuit, path: Path) -> Option<BTreeMap<Id, Route>> {
        let mut steps = self.adopting();
        let now = self.0.circuits.get(&from.id)?;
        let (ingress, egress) = (from.ingress.clone(), from.egress.clone());
        let circuit = Arc::new(Circuit { is_whole: true, ingress, egress, ..now.moved(path) });
        let bytes = size(&circuit.path, [&circuit.ingress, &circuit.egress], &circuit.tags);
        let bytes = circuit.id.len() + bytes;
        steps.step(Input::Moved { circuit: &circuit.id, bytes });
        let Some(Output::Complete(mut reporters)) = steps.later.pop() else { return None };
        // It may have become whole since the move began.
        for router in &now.path.nodes {
            reporters.entry(router.clone()).or_default();
        }
        let event = self.circuit_event(CircuitChange::PathUpdated, &circuit, Duration::ZERO);
        let is_put = self.0.circuits.put_with(circuit, || self.tell_event(event));
        steps.end();
        is_put.then_some(reporters)
    }

    /// A circuit, and the routes with which routers have named it if it is not whole.
    pub(crate) fn with_pieces(&self, id: &str) -> Option<(Arc<Circuit>, BTreeMap<Id, Route>)> {
        let machine = (!self.is_of_this_run(id)).then(|| self.0.adoption.machine.lock());
        let circuit = self.0.circuits.get(id)?;
        let pieces = machine.and_then(|machine| machine.pieces(id).cloned());
        Some((circuit, pieces.unwrap_or_default()))
    }

    /// Whether a circuit that is not known has ended for certain.
    pub(crate) fn is_over(&self, id: &str) -> bool {
        self.is_of_this_run(id) || self.0.circuits.has_ended(id)
    }

    /// True for a circuit of an earlier run while the controller has not run long enough for all routers to connect.
    pub(crate) fn awaits_routers(&self, circuit: &str) -> bool {
        !self.is_of_this_run(circuit) && clock::now() < self.0.adoption.early_until
    }

    /// The same, for a circuit that is not known.
    pub(crate) fn may_be_adopted(&self, circuit: &str) -> bool {
        self.awaits_routers(circuit) && !self.0.circuits.has_ended(circuit)
    }

    /// Puts a circuit into the table, in place of the part that was known of it; false if it has ended or there is no room.
    fn put_assembled(&self, id: &str, assembled: AssembledCircuit) -> bool {
        let mut assembled = assembled;
        // The tag shows operators on whose report the circuit exists.
        let by: Vec<&str> = assembled.path.nodes.iter().map(Id::as_str).collect();
        assembled.tags.reported_by = Some(Id::new(&by.join(",")));
        let target = assembled.tags.service.clone().unwrap_or_default();
        let target = target.as_str();
        let (instance, service) = target.split_once('@').unwrap_or(("", target));
        let service = Id::new(service);
        let terminator = assembled.dialed.as_ref().and_then(|(router, egress)| {
            find_terminator(&self.0.kernel.with_held(), &service, router, egress)
        });
        let before = self.0.circuits.get(id);
        let was_counted = before.as_ref().is_some_and(|before| before.is_counted);
        let terminator = terminator.unwrap_or_default();
        let circuit = Arc::new(Circuit {
            id: id.to_owned(),
            // The dialing identity: routers do not report the session.
            client: assembled.tags.client.as_ref().map(Id::to_string).unwrap_or_default(),
            is_of_session: false,
            dialer_proves: true,
            instance: instance.to_owned(),
            service,
            is_counted: was_counted || !terminator.is_empty(),
            terminator,
            path: assembled.path,
            ingress: assembled.ingress,
            egress: assembled.egress,
            addresses: EndAddresses::default(),
            created_at: before.as_ref().map_or_else(|| self.0.kernel.now(), |it| it.created_at),
            made_at: self.0.adoption.start,
            routed_at: self.0.adoption.start,
            tags: assembled.tags,
            term: assembled.term.max(self.0.ownership.term(id)),
            is_whole: assembled.is_whole,
            moving: Arc::default(),
            traffic: before.as_ref().map(|it| Arc::clone(&it.traffic)).unwrap_or_default(),
        });
        let event = match circuit.is_whole {
            true => self.circuit_event(CircuitChange::Adopted, &circuit, Duration::ZERO),
            false => None,
        };
        let with = || {
            if circuit.is_counted && !was_counted {
                self.0.costs.created(&circuit.terminator);
            }
            self.tell_event(event);
        };
        match before {
            Some(_) => self.0.circuits.put_with(Arc::clone(&circuit), with),
            None => self.0.circuits.adopt(Arc::clone(&circuit), with),
        }
    }

    /// Number of circuits that are known in part.
    #[cfg(any(test, feature = "testing"))]
    pub fn in_part(&self) -> usize {
        self.0.adoption.machine.lock().in_part()
    }
}

/// Whether the path of a circuit used a router before the router connected. Only such circuits have to be in the
/// router's report. A move leads a circuit to routers between its ends anew; the routers at its ends have carried the
/// circuit since it was made, also if it has moved since one of them restarted and connected. An adopted circuit is older
/// than the run of the controller.
pub(crate) fn is_of_before(circuit: &Circuit, router: &LiveRouter) -> bool {
    let is_at_end = circuit.has_ends() && circuit.path.has_end(&router.id);
    let since = if is_at_end { circuit.made_at } else { circuit.routed_at };
    circuit.path.nodes.contains(&router.id) && since < router.since
}

/// The terminator that an end was dialed for, if it still exists.
fn find_terminator(snapshot: &Snapshot, service: &Id, router: &Id, egress: &Egress) -> Option<Id> {
    let mut found = snapshot.referring::<Terminator>(Terminator::SERVICE, service);
    let same = |one: &&Arc<Terminator>| {
        one.router_id == *router
            && *one.binding == *egress.binding
            && *one.address == *egress.destination
    };
    found.find(same).map(|terminator| terminator.base.id.clone())
}
