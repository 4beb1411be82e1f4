//! The adoption of circuits of an earlier run of this controller, as a state machine: it has no I/O, lock, clock or
//! randomness.
//!
//! ```text
//!  routes that routers report ───┐                             ┌──> table of circuits
//!  questions about idle circuits ┼──> Machine::step ──> Output ┼──> circuits to be moved, sent their routes, or removed
//!  moves, ends, looks, ticks ────┘          │                  └──> circuits to be taken down at a router
//!                                         table
//! ```
//!
//! A router of weft that connects reports the routes that it carries ([`CarriedCircuits`](weft_wire::ctrl::CarriedCircuits)),
//! and other routers are asked for them. When all routers of a circuit have named it, the circuit is whole and works like
//! any other. Until then it is known in part: a router that asks whether the circuit is still wanted is told that it is, and
//! the circuit can be ended. It can be moved to another path once both of its ends are known. A circuit over a router that
//! names no routes, and only asks about idle circuits, stays known in part.
//!
//! One [`Machine::step`] takes an [`Input`] and decides all that follows from it, by the [`table`] of transitions. The
//! driver (`adoption`) gives the inputs under one lock. It changes the table of circuits before it lets go of the lock, and
//! carries the other [`Output`]s out afterwards.

mod assembly;
mod checks;
mod limits;
mod messages;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use prost::Message as _;
use weft_model::Id;
use weft_paths::queue::MoveReason;
use weft_wire::ctrl::{DestType, Route};

pub(crate) use self::assembly::{AssembledCircuit, size};
use self::assembly::{is_end, put_together};
use self::checks::{Check, Checks};
pub(crate) use self::limits::{Excess, is_id};
use self::limits::{Limits, Shares};
pub(crate) use self::messages::{Input, Output, Sight, Standing};
use self::table::{Action, Event, Row, State, TABLE};

/// Most paths that are looked at after one tick.
pub(crate) const TURN: usize = 64;

/// A circuit that routers have named.
#[derive(Debug)]
struct AdoptedCircuit {
    state: State,
    /// The router that named it first, for which it counts.
    first: Id,
    /// The routes with which routers have named it, until it is whole. That of a router that only asked about it has no
    /// ways.
    pieces: BTreeMap<Id, Route>,
    /// Its size in bytes, once it is whole.
    bytes: usize,
    check: Check,
}

/// An event of a circuit.
#[derive(Default)]
struct Happened<'a> {
    /// The router that has named the circuit.
    router: Option<&'a Id>,
    /// What the pieces make.
    assembled: Option<Box<AssembledCircuit>>,
    /// The size of the circuit, if it is whole.
    bytes: usize,
    excess: Option<Excess>,
}

/// What is known of circuits of an earlier run.
#[derive(Debug)]
pub(crate) struct Machine {
    table: &'static [Row],
    limits: Limits,
    circuits: HashMap<Arc<str>, AdoptedCircuit>,
    shares: Shares,
    checks: Checks,
    /// The start of the controller, and the time until which routers may not have connected since.
    start: Instant,
    early_until: Instant,
    /// What is to be done, in this order.
    outputs: Vec<Output>,
    /// The rows that were taken.
    #[cfg(test)]
    taken: std::collections::BTreeSet<usize>,
}

impl Machine {
    /// A machine without circuits. The controller starts now; routers have `return_time` to connect.
    pub(crate) fn new(now: Instant, return_time: Duration) -> Self {
        Self {
            table: TABLE,
            limits: Limits::default(),
            circuits: HashMap::new(),
            shares: Shares::default(),
            checks: Checks::default(),
            start: now,
            early_until: now + return_time,
            outputs: Vec::new(),
            #[cfg(test)]
            taken: std::collections::BTreeSet::new(),
        }
    }

    /// When [`Input::Tick`] is to be given next.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.checks.next_due(self.start)
    }

    /// True while routers may not have connected since the start of the controller.
    pub(crate) fn is_early(&self, now: Instant) -> bool {
        now < self.early_until
    }

    /// The routes with which routers have named a circuit that is not whole.
    pub(crate) fn pieces(&self, circuit: &str) -> Option<&BTreeMap<Id, Route>> {
        self.circuits.get(circuit).map(|known| &known.pieces)
    }

    /// Number of circuits that are known in part.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn in_part(&self) -> usize {
        self.shares.in_part()
    }

    /// Takes an input, and says what follows from it.
    pub(crate) fn step(&mut self, now: Instant, input: Input<'_>) -> Vec<Output> {
        match input {
            Input::Named { router, route, standing } => self.named(now, router, route, standing),
            Input::NotCarried { router, circuit } => self.not_carried(now, router, circuit),
            Input::Moved { circuit, bytes } => {
                let happened = Happened { bytes, ..Happened::default() };
                self.circuit_event(now, &self.key(circuit), Event::Moved, happened);
            }
            Input::Stranded { circuit, sends_again } => {
                let known = self.circuits.get_mut(circuit);
                if let Some(known) = known.filter(|known| known.state != State::Torn) {
                    known.check.sends_again |= sends_again;
                    self.path_event(now, &self.key(circuit), Event::Reported);
                }
            }
            Input::Ended(circuit) => {
                let circuit = self.key(circuit);
                self.circuit_event(now, &circuit, Event::Over, Happened::default());
            }
            Input::News => self.checks.news(now, self.early_until),
            Input::Tick => {
                for _ in 0..TURN {
                    let Some((circuit, event)) = self.checks.pop(now) else { break };
                    self.path_event(now, &circuit, event);
                }
            }
            Input::Looked { circuit, sight } => {
                if let Some(event) = self.seen(now, circuit, sight) {
                    self.path_event(now, &self.key(circuit), event);
                }
            }
        }
        std::mem::take(&mut self.outputs)
    }

    fn named(&mut self, now: Instant, router: &Id, route: Route, standing: Standing) {
        let circuit = self.key(&route.circuit_id);
        let named = |happened| Happened { router: Some(router), ..happened };
        let is_open = matches!(self.state(&circuit), State::Unknown | State::Part | State::Ends);
        match standing {
            Standing::Wanted => {}
            Standing::Open { at_router } if is_open => {
                match self.add(&circuit, router, route, at_router) {
                    Ok(true) => self.reassemble(now, &circuit, Some(router)),
                    Ok(false) => {}
                    Err(why) => {
                        let happened = named(Happened { excess: Some(why), ..Happened::default() });
                        self.circuit_event(now, &circuit, Event::Excess, happened);
                    }
                }
            }
            Standing::Open { .. } | Standing::Unwanted => {
                self.circuit_event(now, &circuit, Event::Unwanted, named(Happened::default()));
            }
        }
    }

    /// Adds a piece of a circuit, in the place of the former one of the router. False if it says nothing new, or the
    /// circuit has too many routers.
    fn add(
        &mut self,
        circuit: &Arc<str>,
        router: &Id,
        route: Route,
        at_router: usize,
    ) -> Result<bool, Excess> {
        let (limits, share) = (self.limits, self.shares.of(router));
        let known = self.circuits.get(circuit);
        let pieces = known.map(|known| &known.pieces);
        let former = pieces.and_then(|pieces| pieces.get(router));
        let is_full = pieces.is_some_and(|pieces| pieces.len() >= limits.nodes);
        let (size, before) = (route.encoded_len(), former.map_or(0, Route::encoded_len));
        if former.map_or(is_full, |_| route.forwards.is_empty()) {
            return Ok(false);
        }
        if known.is_none() && at_router >= limits.at_router {
            return Err(Excess::AtRouter);
        }
        let is_at_limit = self.shares.in_part() >= limits.circuits || share.begun >= limits.begun;
        if known.is_none() && is_at_limit {
            return Err(Excess::InPart);
        }
        if size > limits.route {
            return Err(Excess::Route);
        }
        if share.bytes + size - before > limits.bytes {
            return Err(Excess::Bytes);
        }
        self.shares.give_back(router, before);
        self.shares.take(router, size);
        if known.is_none() {
            self.shares.begin(router);
        }
        let known = self.circuits.entry(Arc::clone(circuit)).or_insert_with(|| AdoptedCircuit {
            state: State::Unknown,
            first: router.clone(),
            pieces: BTreeMap::new(),
            bytes: 0,
            check: Check::default(),
        });
        known.pieces.insert(router.clone(), route);
        Ok(true)
    }

    /// Puts the pieces of a circuit together, after a router has named it or taken its piece back.
    fn reassemble(&mut self, now: Instant, circuit: &Arc<str>, router: Option<&Id>) {
        let Some(known) = self.circuits.get(circuit) else { return };
        let assembled = put_together(&known.pieces);
        let bytes = circuit.len() + assembled.bytes();
        let own = known.pieces.get(&known.first).map_or(0, Route::encoded_len);
        let share = self.shares.of(&known.first).bytes.saturating_sub(own);
        let (event, excess) = match (assembled.is_whole, assembled.has_ends()) {
            (true, _) if share + bytes > self.limits.bytes => (Event::Excess, Some(Excess::Bytes)),
            (true, _) => (Event::IsWhole, None),
            (false, true) => (Event::HasEnds, None),
            (false, false) => (Event::InPart, None),
        };
        let assembled = Some(Box::new(assembled));
        self.circuit_event(now, circuit, event, Happened { router, assembled, bytes, excess });
    }

    fn not_carried(&mut self, now: Instant, router: &Id, circuit: &str) {
        let circuit = self.key(circuit);
        let Some(known) = self.circuits.get_mut(&circuit) else { return };
        let Some(piece) = known.pieces.get(router) else { return };
        if is_end(piece) || known.pieces.len() == 1 {
            return self.circuit_event(now, &circuit, Event::Lost, Happened::default());
        }
        let size = piece.encoded_len();
        known.pieces.remove(router);
        self.shares.give_back(router, size);
        self.reassemble(now, &circuit, None);
    }

    /// What is seen of a path, as an event.
    fn seen(&self, now: Instant, circuit: &str, sight: Sight<'_>) -> Option<Event> {
        let known = self.circuits.get(circuit)?;
        match (known.state, self.is_early(now)) {
            (State::Whole, _) if sight.works && known.check.sends_again => Some(Event::Outdated),
            (State::Whole, _) if sight.works => Some(Event::Works),
            (State::Part, is_early) if is_torn(&known.pieces, sight, is_early) => Some(Event::Torn),
            (State::Part, true) => Some(Event::Awaited),
            (State::Part, false) => Some(Event::Unclear),
            (State::Ends | State::Whole, false) => Some(Event::Moves),
            (State::Ends | State::Whole, true) if sight.has_path => Some(Event::MovesEarly),
            (State::Ends | State::Whole, true) => Some(Event::Awaited),
            _ => None,
        }
    }

    /// The id of a circuit, shared with all that is kept of it.
    fn key(&self, circuit: &str) -> Arc<str> {
        let known = self.circuits.get_key_value(circuit);
        known.map_or_else(|| circuit.into(), |(id, _)| Arc::clone(id))
    }

    fn state(&self, circuit: &str) -> State {
        self.circuits.get(circuit).map_or(State::Unknown, |known| known.state)
    }

    /// The transition from a state by an event.
    fn transition(&mut self, state: State, event: Event) -> Option<Row> {
        let at = self.table.iter().position(|row| row.state == state && row.event == event)?;
        #[cfg(test)]
        self.taken.insert(at);
        #[cfg(feature = "testing")]
        crate::coverage::count("adoption", self.table, at, |row| (row.state, row.event));
        Some(self.table[at])
    }

    fn circuit_event(
        &mut self,
        now: Instant,
        circuit: &Arc<str>,
        event: Event,
        mut happened: Happened<'_>,
    ) {
        let Some(row) = self.transition(self.state(circuit), event) else { return };
        if let Some(known) = self.circuits.get_mut(circuit) {
            known.state = row.next;
            if matches!(row.next, State::Torn | State::Unknown) {
                self.checks.remove(circuit, &mut known.check);
                known.check = Check::default();
            }
        }
        for action in row.actions {
            self.act_on_circuit(now, circuit, *action, &mut happened);
        }
        if row.next == State::Unknown {
            self.forget(circuit);
        }
    }

    fn path_event(&mut self, now: Instant, circuit: &Arc<str>, event: Event) {
        let Some(known) = self.circuits.get(circuit) else { return };
        let Some(row) = self.transition(known.check.state, event) else { return };
        let Some(known) = self.circuits.get_mut(circuit) else { return };
        let check = &mut known.check;
        if row.next != check.state {
            self.checks.remove(circuit, check);
        }
        check.state = row.next;
        if row.next == State::Resting {
            self.checks.rest(circuit);
        }
        for action in row.actions {
            self.act_on_path(now, circuit, *action);
        }
    }

    fn act_on_circuit(
        &mut self,
        now: Instant,
        circuit: &Arc<str>,
        action: Action,
        happened: &mut Happened<'_>,
    ) {
        let known = self.circuits.get_mut(circuit);
        let (router, id) = (happened.router.cloned(), Arc::clone(circuit));
        match (action, known) {
            (Action::Put, _) => {
                let assembled = happened.assembled.take();
                self.outputs.extend(assembled.map(|assembled| Output::Put(id, assembled)));
            }
            (Action::Await, Some(_)) => self.path_event(now, circuit, Event::Reported),
            (Action::UnrouteBeside, Some(known)) => {
                let Some(assembled) = &happened.assembled else { return };
                let nodes = &assembled.path.nodes;
                let beside = known.pieces.keys().filter(|router| !nodes.contains(router));
                let leave = |router: &Id| Output::Leave {
                    router: router.clone(),
                    circuit: Arc::clone(circuit),
                };
                self.outputs.extend(beside.map(leave));
            }
            (Action::Complete, Some(known)) => {
                self.outputs.push(Output::Complete(known.pieces.clone()));
            }
            (Action::Charge, Some(known)) => {
                known.bytes = happened.bytes;
                for (router, route) in std::mem::take(&mut known.pieces) {
                    self.shares.give_back(&router, route.encoded_len());
                }
                self.shares.take(&known.first, happened.bytes);
                self.shares.complete(&known.first);
            }
            (Action::Refuse, _) => {
                let refused = router.zip(happened.excess);
                let refuse = |(router, why)| Output::Refuse { router, circuit: id, why };
                self.outputs.extend(refused.map(refuse));
            }
            (Action::Unroute, _) => {
                self.outputs.extend(router.map(|router| Output::Unroute { router, circuit: id }));
            }
            (Action::Remove, _) => self.outputs.push(Output::Remove(id)),
            _ => {}
        }
    }

    fn act_on_path(&mut self, now: Instant, circuit: &Arc<str>, action: Action) {
        let Some(known) = self.circuits.get_mut(circuit) else { return };
        match action {
            Action::Schedule => self.checks.schedule(circuit, &mut known.check, now),
            Action::Look => self.outputs.push(Output::Look(Arc::clone(circuit))),
            Action::Move => {
                let sends_again = std::mem::take(&mut known.check.sends_again);
                let why = match known.state == State::Whole && !sends_again {
                    true => MoveReason::Broken,
                    false => MoveReason::Lost,
                };
                self.outputs.push(Output::Move(Arc::clone(circuit), why));
            }
            Action::Tear => self.circuit_event(now, circuit, Event::Torn, Happened::default()),
            _ => {}
        }
    }

    /// Forgets a circuit, and gives back what it took of the shares of routers.
    fn forget(&mut self, circuit: &str) {
        let Some(known) = self.circuits.remove(circuit) else { return };
        for (router, route) in &known.pieces {
            self.shares.give_back(router, route.encoded_len());
        }
        match known.bytes {
            0 => self.shares.complete(&known.first),
            bytes => self.shares.give_back(&known.first, bytes),
        }
    }
}

/// Whether an end of a circuit known in part is gone. This is so if each link that the known routers use for the circuit
/// ends at another known router, or at a router that has named all its circuits without this one. Early, that router may
/// have been between the ends; then, and behind an unknown link, the missing end may be at any router that has not named its
/// circuits. A router that has only asked about the circuit may lead anywhere, until it has named its circuits.
///
/// A router of another program does not say where the address belongs to which it has no way: it may be that of the end
/// that is gone, or a link that is away for a moment. It counts as a link if it is a known one, and early.
fn is_torn(pieces: &BTreeMap<Id, Route>, sight: Sight<'_>, is_early: bool) -> bool {
    let may_lead_on =
        |router: &Id| !(sight.has_told)(router) || (is_early && (sight.awaits_reports)());
    let leads_on = |router: &Id, link: &str, may_be_unknown: bool| {
        (sight.far_end)(router, link).map_or_else(
            || may_be_unknown && (sight.awaits_reports)(),
            |next| !pieces.contains_key(&next) && may_lead_on(&next),
        )
    };
    !pieces.iter().any(|(router, route)| {
        let ways = &route.forwards;
        let has_way_to = |address: &str| ways.iter().any(|way| way.dst_address == address);
        let mut links = ways.iter().filter(|way| way.dst_type() == DestType::Link);
        let mut one_way = ways.iter().filter(|way| !has_way_to(&way.src_address));
        (ways.is_empty() && may_lead_on(router))
            || links.any(|way| leads_on(router, &way.dst_address, true))
            || one_way.any(|way| leads_on(router, &way.src_address, is_early))
    })
}
