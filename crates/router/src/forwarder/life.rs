//! The life of circuits: what controllers command, what is undone, and what they are told.
//!
//! ```text
//!  control half ──routes, unroutes──> machine ──> tables of the forwarder
//!  ends, links, clock ──────────────────^   └───> reports to the owners of circuits
//! ```
//!
//! [`machine`] decides. This driver changes the tables under the lock of the machine: which circuits there are, and which
//! entries they have. What follows from that comes after the lock is released: first the ends of circuits that are over
//! are told, and then reports are sent, in the order of the outputs.

mod lives;
mod machine;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::MutexGuard;
use tokio_util::sync::CancellationToken;
use weft_circuit::now;
use weft_wire::ctrl::{ClaimCircuits, Route, Unroute};
use weft_xgress::Role;

pub(super) use self::lives::Lives;
use self::machine::{CarriedRoute, IdleCircuit, Input, Output, Sight};
use super::circuit::Lost;
use super::destination::Destination;
use super::flow::Circuit;
use super::setup::SetUp;
use super::{Forwarder, shard};
use crate::seam::{ControllerId, NotObeyed, RouteTicket};

/// Most circuits that are reported in one step. The lock is free for others between two steps.
const PART: usize = 1_000;

/// What follows from a step after the lock is released.
#[derive(Default)]
struct Rest {
    /// The answer to a route or an unroute.
    answer: Option<Result<SetUp, NotObeyed>>,
    /// Circuits that are over, and circuits that have lost what earlier attempts had set up.
    lost: Vec<(Arc<Circuit>, Option<Lost>)>,
    outputs: Vec<Output>,
    /// Circuits that were claimed.
    claimed: Vec<CarriedRoute>,
}

impl Forwarder {
    /// A controller sends a route. It is to be carried out with the `SetUp`.
    pub(crate) fn begin(
        self: &Arc<Self>,
        from: &ControllerId,
        route: &Route,
        takes_new: bool,
    ) -> Result<SetUp, NotObeyed> {
        let attempt = route.attempt;
        let rest = self.decide(Input::Route { from, route, takes_new }, |ticket| {
            let circuit = self.circuit(&ticket.circuit)?;
            Some(SetUp::new(self, circuit, ticket, attempt))
        });
        self.follow(rest).unwrap_or(Err(NotObeyed::TakenDown))
    }

    /// A controller ends a circuit.
    pub(crate) fn unroute(&self, from: &ControllerId, unroute: &Unroute) -> Result<(), NotObeyed> {
        match self.step(Input::Unroute { from, unroute }) {
            Some(Err(why)) => Err(why),
            _ => Ok(()),
        }
    }

    /// A controller claims circuits: returns those of them that it owns now.
    pub(crate) fn claim(&self, from: &ControllerId, claim: &ClaimCircuits) -> Vec<Route> {
        let mut rest = self.decide(Input::Claim { from, claim }, |_| None);
        let claimed = std::mem::take(&mut rest.claimed);
        self.follow(rest);
        claimed.into_iter().map(CarriedRoute::into_route).collect()
    }

    /// The circuits that a controller has made or owned, and that another one owns now.
    pub(crate) fn taken_from(&self, controller: &str) -> Vec<Arc<str>> {
        self.lives.lock().machine.taken_from(controller)
    }

    /// The answer that a route is set up cannot be sent to its controller.
    pub(crate) fn retract(&self, route: &RouteTicket) {
        self.step(Input::Unanswered(route));
    }

    /// An end of a circuit is gone before it was there, for which `asked` was asked.
    pub(crate) fn end_gone(&self, asked: &ControllerId, circuit: &str, end: Role) {
        self.step(Input::EndGone { circuit, asked, end, attempt: None });
    }

    /// An end of a circuit is gone that was set up in this attempt; none if it is not known.
    pub(super) fn end_ended(&self, circuit: &Circuit, end: Role, attempt: Option<u32>) {
        let (asked, circuit) = (&circuit.made_by, &*circuit.id);
        self.step(Input::EndGone { circuit, asked, end, attempt });
    }

    /// The route of a ticket has failed, if it is not set up.
    pub(super) fn failed(&self, ticket: &RouteTicket) {
        self.step(Input::Failed(ticket));
    }

    /// Reports circuits that are idle.
    pub(super) fn report_idle_circuits(&self, circuits: Vec<(Arc<str>, Duration)>) {
        let idle = |(circuit, time): &(Arc<str>, Duration)| {
            let carried = self.lives.lock().machine.carried(circuit);
            // Reports of ends wait for a controller that is away: one for each end is enough.
            let heard = carried.filter(|carried| self.control.is_connected(&carried.owner));
            let ends = heard.map(|carried| carried.ends()).unwrap_or_default();
            let gone = ends.into_iter().find(|(address, _)| !self.has_open_end(address));
            let (circuit, gone) = (Arc::clone(circuit), gone.map(|(_, end)| end));
            IdleCircuit { circuit, time: *time, gone }
        };
        for part in circuits.chunks(PART) {
            self.step(Input::Idle(part.iter().map(idle).collect()));
        }
    }

    /// The circuits that a controller has made, that begin on this router, and that no client has begun yet. Clients begin
    /// circuits when the controller has answered that they are made.
    pub(crate) fn not_begun(&self, maker: &str) -> Vec<Arc<str>> {
        let mut made: Vec<Arc<str>> = Vec::new();
        for shard in &self.circuits {
            let shard = shard.read();
            let of_maker = shard.values().filter(|circuit| &*circuit.made_by == maker);
            made.extend(of_maker.map(|circuit| Arc::clone(&circuit.id)));
        }
        made.retain(|id| self.lacks_initiator(id));
        made
    }

    /// Reports those of these circuits that no client has begun since: their maker is gone, and nobody else answers.
    pub(crate) fn report_not_begun(&self, circuits: &[Arc<str>]) {
        let lost: Vec<_> = circuits.iter().filter(|id| self.lacks_initiator(id)).cloned().collect();
        for part in lost.chunks(PART) {
            self.step(Input::NotBegun(part));
        }
    }

    fn lacks_initiator(&self, circuit: &str) -> bool {
        let carried = self.lives.lock().machine.carried(circuit);
        let ends = carried.map(|carried| carried.ends()).unwrap_or_default();
        ends.iter().any(|(address, end)| *end == Role::Initiator && !self.has_open_end(address))
    }

    /// Reports circuits with messages that have no next place, or that wait for a link that is away.
    pub(super) fn report_strays(&self, circuits: Vec<Arc<str>>) {
        for part in circuits.chunks(PART) {
            self.step(Input::Stray(part));
        }
    }

    /// Whether messages of a circuit that have no next place are to be reported.
    pub(super) fn is_fault(&self, circuit: &str) -> bool {
        self.lives.lock().machine.is_fault(circuit)
    }

    /// The owners and routes of the circuits that are up.
    pub(crate) fn routes(&self) -> Vec<(ControllerId, Route)> {
        let all = self.lives.lock().machine.all_carried(None);
        all.into_iter().map(|carried| (carried.owner.clone(), carried.into_route())).collect()
    }

    /// The route of a circuit that is up.
    pub(crate) fn route_of(&self, circuit: &str) -> Option<Route> {
        let carried = self.lives.lock().machine.carried(circuit);
        carried.map(CarriedRoute::into_route)
    }

    /// The routes of the circuits that a controller owns.
    pub(crate) fn routes_of(&self, owner: &str) -> Vec<Route> {
        let all = self.lives.lock().machine.all_carried(Some(owner));
        all.into_iter().map(CarriedRoute::into_route).collect()
    }

    /// Wakes the machine whenever it has something to do.
    pub(crate) async fn keep_time(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let at = self.lives.lock().machine.next_wake();
            let due = async {
                match at {
                    Some(at) => tokio::time::sleep(at.saturating_duration_since(now())).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.wake.notified() => continue,
                () = due => {}
            }
            self.step(Input::Tick);
        }
    }

    /// Gives the machine an input that begins no route, and carries out what follows.
    fn step(&self, input: Input<'_>) -> Option<Result<SetUp, NotObeyed>> {
        let rest = self.decide(input, |_| None);
        self.follow(rest)
    }

    /// Gives the machine an input, and changes the tables. `begin` makes the set-up of a route.
    fn decide(&self, input: Input<'_>, begin: impl FnOnce(RouteTicket) -> Option<SetUp>) -> Rest {
        let mut lives = self.lives.lock();
        let lives = &mut *lives;
        if let Input::Failed(ticket) = &input {
            lives.given_up.remove(&ticket.number);
        }
        let before = lives.machine.next_wake();
        let mut rest = Rest::default();
        let mut begin = Some(begin);
        for output in lives.machine.step(now(), input) {
            match output {
                Output::Make { circuit, by } => self.make(&circuit, by),
                Output::Begin(ticket) => {
                    let number = ticket.number;
                    let begun = begin.take().and_then(|begin| begin(ticket));
                    if let Some(set_up) = &begun {
                        lives.given_up.insert(number, set_up.given_up().clone());
                    }
                    rest.answer = begun.map(Ok);
                }
                Output::Refuse(why) => rest.answer = Some(Err(why)),
                Output::GiveUp(number) => {
                    lives.given_up.remove(&number).iter().for_each(CancellationToken::cancel);
                }
                Output::Clear(id) => {
                    let circuit = self.circuit(&id);
                    rest.lost.extend(circuit.map(|circuit| {
                        let lost = circuit.clear();
                        (circuit, Some(lost))
                    }));
                }
                Output::TakeDown(id) => {
                    let circuit = shard(&self.circuits, &id).write().remove(&*id);
                    rest.lost.extend(circuit.map(|circuit| {
                        circuit.end();
                        (circuit, None)
                    }));
                }
                Output::Carried(ids) => {
                    let carried = ids.iter().filter_map(|id| lives.machine.carried(id));
                    rest.claimed.extend(carried);
                }
                output => rest.outputs.push(output),
            }
        }
        let next = lives.machine.next_wake();
        if next.is_some_and(|next| before.is_none_or(|before| next < before)) {
            self.wake.notify_one();
        }
        rest
    }

    fn make(&self, id: &Arc<str>, by: ControllerId) {
        let circuit = Circuit::booked(id, by, &self.measures().book);
        shard(&self.circuits, id).write().insert(Arc::clone(id), circuit);
    }

    /// Does what follows from a change of the tables.
    fn follow(&self, rest: Rest) -> Option<Result<SetUp, NotObeyed>> {
        for (circuit, lost) in rest.lost {
            self.release(&circuit, lost);
        }
        for output in rest.outputs {
            match output {
                Output::Look { circuit: id, is_first } => {
                    let Some(circuit) = self.circuit(&id) else { continue };
                    let sight = self.sight(&circuit);
                    if is_first && !sight.is_done {
                        self.trim_circuit(&circuit);
                    }
                    self.step(Input::Looked { circuit: &id, sight });
                }
                Output::Taken { owner, circuits } => {
                    let circuits = circuits.iter().map(ToString::to_string).collect();
                    self.control.circuits_taken(&owner, circuits);
                }
                Output::ReportEnd { owner, circuit, end, attempt } => {
                    self.control.circuit_ended(&owner, &circuit, end, attempt);
                }
                Output::ReportIdle { owner, circuits } => {
                    self.control.idle_circuits(&owner, circuits);
                }
                Output::ReportFaults { owner, circuits } => {
                    self.tell_faults(owner.as_ref(), &circuits);
                }
                _ => {}
            }
        }
        rest.answer
    }

    /// Tells the ends of a circuit that is over, or those that an earlier attempt has set up.
    fn release(&self, circuit: &Arc<Circuit>, lost: Option<Lost>) {
        let (links, addresses) = lost.unwrap_or_else(|| circuit.clear());
        self.goes_over(circuit, &links, &[]);
        for destination in self.take_destinations(circuit, &addresses) {
            if circuit.has_ended() { destination.unrouted() } else { destination.withdrawn() }
        }
        if circuit.has_ended() {
            // The bytes are written into the book now: connections may hold the circuit for long, and the table no
            // longer has it when the interval ends.
            circuit.carried.settle(&circuit.id);
        }
    }

    /// How a circuit looks that its controller has ended. A router that only passes messages on cannot know whether
    /// messages are still on their way: such a circuit is never done.
    pub(super) fn sight(&self, circuit: &Circuit) -> Sight {
        let ends = circuit.ends();
        let are_gone = ends.iter().all(|address| self.destination(address).is_none());
        Sight {
            is_done: !ends.is_empty() && are_gone && !circuit.has_waiting(),
            waiting: circuit.waiting(),
            unheard: circuit.unheard(),
        }
    }

    /// Frees the unused memory of a circuit's queues.
    pub(super) fn trim_circuit(&self, circuit: &Circuit) {
        circuit.trim();
        for address in circuit.ends() {
            match self.destination(&address) {
                Some(Destination::Local(end)) => end.trim(),
                Some(Destination::Sdk(queue)) => queue.trim(),
                Some(Destination::Link(_)) | None => {}
            }
        }
    }

    /// The lock under which the tables are changed.
    pub(super) fn lives(&self) -> MutexGuard<'_, Lives> {
        self.lives.lock()
    }
}
