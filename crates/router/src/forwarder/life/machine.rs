//! The life of circuits at this router, as a state machine: it has no I/O, lock, clock or randomness.
//!
//! ```text
//!  routes, unroutes ────────┐                              ┌──> changes of the tables
//!  routes done, failed ─────┼──> Machine::step ──> Output ─┼──> routes to carry out, or to give up
//!  ends, idleness, faults ──┘          │                   └──> reports to the owners of circuits
//!                                    table
//! ```
//!
//! A circuit has an *owner*: the controller that has routed it over this router. Reports about the circuit go to its
//! owner, and only its owner moves and ends it. Another controller takes the circuit over by a command or a claim of a
//! higher *term*: a number that grows whenever a controller comes or goes. Controllers of other programs know no terms, so
//! that their circuits stay with the first one. A controller claims all circuits of one that has ended at once
//! ([`Input::Claim`]).
//!
//! A controller that gets no answer in time tries again: with the same circuit id, often at the same router, and while
//! the earlier *attempt* is still under way there. The newest attempt counts: it removes what older attempts have set
//! up, and an older one that is done later has no effect. A reroute is no attempt: it changes a circuit that is up.
//!
//! One [`Machine::step`] takes an [`Input`] and decides all that follows from it, by the [`table`] of transitions. The
//! driver (`super`) changes the tables of the forwarder under the same lock, so that nothing comes between a decision
//! and what payloads find.

mod leaving;
mod messages;
mod table;
#[cfg(test)]
mod tests;
mod ways;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use weft_wire::ctrl::{ClaimCircuits, Route, Unroute};
use weft_xgress::Role;

use self::leaving::Leaving;
pub(crate) use self::messages::{IdleCircuit, Input, Output, Sight};
use self::table::{Action, Event, Row, State, TABLE};
use crate::seam::{ControllerId, NotObeyed, RouteTicket};

/// The time for which a circuit that is over is remembered. Its payloads may still be on their way, and are no fault.
const KEPT: Duration = Duration::from_secs(30);
/// Most ways of one route. Controllers of weft and of the original name one for each direction; the work for a route,
/// which is done while all other circuits wait, grows with the square of its ways.
const MAX_WAYS: usize = 64;
/// Most circuits that are remembered; beyond that the oldest one is forgotten.
const MOST: usize = 65_536;
/// Circuits whose time is over are forgotten after this time at the latest, all at once.
const SWEEP: Duration = Duration::from_secs(1);
/// Most controllers whose claimed circuits are remembered.
const MOST_CLAIMED: usize = 64;

/// A circuit that is known.
#[derive(Debug)]
struct KnownCircuit {
    state: State,
    /// None only if the state is unknown.
    owner: Option<ControllerId>,
    /// The first owner, and the one before the present one.
    maker: Option<ControllerId>,
    former: Option<ControllerId>,
    term: u64,
    /// The newest attempt to set it up.
    newest: Option<u32>,
    /// What is known of it while it is in the tables.
    up: Option<Box<Up>>,
    /// The number of its end, once it is over.
    ended: Option<u64>,
    /// What it was before its routes were begun anew, until one of them is in effect.
    was: Option<State>,
}

/// A circuit in the tables.
#[derive(Debug, Default)]
struct Up {
    /// The routes that are in effect, in one; none before the first one is set up.
    route: Option<Arc<Route>>,
    under_way: Vec<UnderWay>,
    /// The number of the route that was set up last.
    last_set: Option<u64>,
    leaving: Option<Leaving>,
    /// When it is looked at.
    look: Option<Instant>,
}

/// A route that is being set up.
#[derive(Debug)]
struct UnderWay {
    number: u64,
    route: Route,
    /// Whether another attempt or another owner has taken its place.
    is_void: bool,
}

impl KnownCircuit {
    const UNKNOWN: Self = Self {
        state: State::Unknown,
        owner: None,
        maker: None,
        former: None,
        term: 0,
        newest: None,
        up: None,
        ended: None,
        was: None,
    };

    /// Whether a controller with this term may command something: nobody owns the circuit, the controller owns it, or the
    /// term is higher than that of the owner.
    fn may_be_commanded(&self, by: &ControllerId, term: u64) -> bool {
        self.owner.as_ref().is_none_or(|owner| owner == by || term > self.term)
    }

    /// Whether a claim is about the circuit, and it is up or being set up.
    fn is_claimed(&self, id: &str, by: &ControllerId, claim: &ClaimCircuits) -> bool {
        let is = |it: &Option<ControllerId>| it.as_deref() == Some(&*claim.controller);
        // What the sender owns of another one is no matter of a claim of what it has made itself.
        let is_owned = is(&self.owner) && **by != *claim.controller;
        let is_tagged = !claim.tag.is_empty() && id.starts_with(&claim.tag);
        // What a router knows of former owners may be out of date: it may have been away when one was back.
        let spared = || claim.spared.iter().take(MOST_CLAIMED);
        let is_others = || spared().any(|tag| id.starts_with(tag));
        matches!(self.state, State::Routing | State::Routed)
            && (is_tagged || ((is_owned || is(&self.maker)) && !is_others()))
    }

    /// The owner and the route that is in effect, for reports.
    fn carried(&self) -> Option<CarriedRoute> {
        let route = self.up.as_ref().filter(|_| self.state == State::Routed)?.route.as_ref()?;
        Some(CarriedRoute { owner: self.owner.clone()?, term: self.term, route: Arc::clone(route) })
    }
}

/// The route of a circuit that is up.
#[derive(Clone, Debug)]
pub(crate) struct CarriedRoute {
    pub(crate) owner: ControllerId,
    term: u64,
    route: Arc<Route>,
}

impl CarriedRoute {
    /// The addresses on this router at which the circuit begins or ends.
    pub(crate) fn ends(&self) -> Vec<(String, Role)> {
        ways::ends(&self.route)
    }

    /// The route with the present term.
    pub(crate) fn into_route(self) -> Route {
        Route { term: self.term, ..Arc::unwrap_or_clone(self.route) }
    }
}

/// An event of a circuit.
struct Happened<'a> {
    event: Event,
    /// The controller that the event comes from.
    from: Option<&'a ControllerId>,
    term: u64,
    /// A route that is to be carried out, or is set up.
    route: Option<Route>,
    /// The end that is gone, and the attempt that has set it up, if it is known.
    end: Option<Role>,
    attempt: Option<u32>,
    /// How long the circuit has been idle, or the time until the next look at it.
    time: Duration,
}

impl Happened<'_> {
    fn new(event: Event) -> Self {
        let (end, attempt) = (None, None);
        Self { event, from: None, term: 0, route: None, end, attempt, time: Duration::ZERO }
    }
}

/// All circuits that are known.
#[derive(Debug)]
pub(crate) struct Machine {
    table: &'static [Row],
    circuits: HashMap<Arc<str>, KnownCircuit>,
    /// The highest terms with which circuits of controllers were claimed. What these controllers make later has no lower
    /// one, so that the same claim does not take it.
    claims: HashMap<String, u64>,
    /// When circuits that leave are looked at.
    looks: BTreeSet<(Instant, Arc<str>)>,
    /// Circuits that are over, in the order of their ends. A circuit that has come back is here, too.
    over: VecDeque<(Instant, u64, Arc<str>)>,
    last_end: u64,
    last_ticket: u64,
    /// The time after which a circuit counts as quiet.
    quiet: Duration,
    /// What is to be done, in this order.
    outputs: Vec<Output>,
    /// The rows that were taken.
    #[cfg(test)]
    taken: Vec<usize>,
}

impl Machine {
    /// A machine without circuits.
    pub(crate) fn new(quiet: Duration) -> Self {
        Self {
            table: TABLE,
            circuits: HashMap::new(),
            claims: HashMap::new(),
            looks: BTreeSet::new(),
            over: VecDeque::new(),
            last_end: 0,
            last_ticket: 0,
            quiet,
            outputs: Vec::new(),
            #[cfg(test)]
            taken: Vec::new(),
        }
    }

    /// Whether the route of a ticket still counts.
    pub(crate) fn check(&self, ticket: &RouteTicket) -> Result<(), NotObeyed> {
        let up = self.circuits.get(&ticket.circuit).and_then(|known| known.up.as_ref());
        let mut under_way = up.iter().flat_map(|up| &up.under_way);
        match under_way.find(|route| route.number == ticket.number) {
            Some(route) if route.is_void => Err(NotObeyed::Superseded),
            Some(_) => Ok(()),
            None => Err(NotObeyed::TakenDown),
        }
    }

    /// Whether messages of a circuit that have no next place are a fault.
    pub(crate) fn is_fault(&self, circuit: &str) -> bool {
        let state = self.state(circuit);
        self.table.iter().any(|row| row.state == state && row.event == Event::Stray)
    }

    /// The route of a circuit that is up.
    pub(crate) fn carried(&self, circuit: &str) -> Option<CarriedRoute> {
        self.circuits.get(circuit)?.carried()
    }

    /// The routes of all circuits that are up, or of those of one owner.
    pub(crate) fn all_carried(&self, owner: Option<&str>) -> Vec<CarriedRoute> {
        let all = self.circuits.values().filter_map(KnownCircuit::carried);
        all.filter(|carried| owner.is_none_or(|owner| *carried.owner == *owner)).collect()
    }

    /// The circuits that a controller has made or owned, and that another one owns now.
    pub(crate) fn taken_from(&self, controller: &str) -> Vec<Arc<str>> {
        let is = |it: &Option<ControllerId>| it.as_deref() == Some(controller);
        let taken = self.circuits.iter().filter(|(_, known)| {
            known.up.is_some() && !is(&known.owner) && (is(&known.maker) || is(&known.former))
        });
        taken.map(|(id, _)| Arc::clone(id)).collect()
    }

    /// The time at which the next [`Input::Tick`] is to come.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        let look = self.looks.first().map(|(at, _)| *at);
        let forget = self.over.front().map(|(at, ..)| *at + KEPT + SWEEP);
        [look, forget].into_iter().flatten().min()
    }

    /// Takes an input, and says what follows from it.
    pub(crate) fn step(&mut self, now: Instant, input: Input<'_>) -> Vec<Output> {
        match input {
            Input::Route { from, route, takes_new } => self.on_route(now, from, route, takes_new),
            Input::Unroute { from, unroute } => self.on_unroute(now, from, unroute),
            Input::Claim { from, claim } => self.on_claim(now, from, claim),
            Input::Done(ticket) => self.settle(now, ticket, true),
            Input::Failed(ticket) => self.settle(now, ticket, false),
            Input::Unanswered(RouteTicket { circuit, number }) => {
                let up = self.circuits.get(circuit).and_then(|known| known.up.as_ref());
                if up.is_some_and(|up| up.last_set == Some(*number)) {
                    self.event(now, circuit, Happened::new(Event::Unanswered));
                }
            }
            Input::EndGone { circuit, asked, end, attempt } => {
                let newest = self.circuits.get(circuit).and_then(|known| known.newest);
                // Nobody waits for an end that a newer attempt has replaced.
                if attempt.is_none_or(|attempt| newest.is_none_or(|newest| attempt >= newest)) {
                    let gone = Happened::new(Event::EndGone);
                    let gone = Happened { from: Some(asked), end: Some(end), attempt, ..gone };
                    self.event(now, circuit, gone);
                }
            }
            Input::Idle(circuits) => self.on_idle(now, &circuits),
            Input::NotBegun(circuits) => {
                circuits.iter().for_each(|id| self.lacks_end(now, id, Role::Initiator));
            }
            Input::Stray(circuits) => {
                circuits.iter().for_each(|id| self.event(now, id, Happened::new(Event::Stray)));
            }
            Input::Looked { circuit, sight } => self.on_looked(now, circuit, sight),
            Input::Tick => {
                while let Some((at, _)) = self.looks.first()
                    && *at <= now
                    && let Some((_, circuit)) = self.looks.pop_first()
                {
                    self.event(now, &circuit, Happened::new(Event::Due));
                }
            }
        }
        self.forget(now);
        std::mem::take(&mut self.outputs)
    }

    fn state(&self, circuit: &str) -> State {
        self.circuits.get(circuit).map_or(State::Unknown, |known| known.state)
    }

    /// Takes note of a command. The owner may command anything, another controller with a higher term only. False if the
    /// command is refused.
    fn obeys(&mut self, now: Instant, from: &ControllerId, circuit: &str, term: u64) -> bool {
        let Some(known) = self.circuits.get_mut(circuit) else { return true };
        match known.owner.clone() {
            Some(owner) if !known.may_be_commanded(from, term) => {
                let sender = from.clone();
                self.outputs.push(Output::Refuse(NotObeyed::NotOwner { owner, sender }));
                return false;
            }
            Some(owner) if owner != *from => {
                let claimed = Happened::new(Event::Claimed);
                self.event(now, circuit, Happened { from: Some(from), term, ..claimed });
            }
            _ => known.term = known.term.max(term),
        }
        true
    }

    fn on_route(&mut self, now: Instant, from: &ControllerId, route: &Route, takes_new: bool) {
        let (circuit, term) = (route.circuit_id.as_str(), route.term);
        if route.forwards.len() > MAX_WAYS {
            let why = NotObeyed::TooManyWays { count: route.forwards.len(), most: MAX_WAYS };
            return self.outputs.push(Output::Refuse(why));
        }
        if !self.obeys(now, from, circuit, term) {
            return;
        }
        let known = self.circuits.get(circuit);
        if !takes_new && known.is_none_or(|known| known.up.is_none()) {
            return self.outputs.push(Output::Refuse(NotObeyed::Stopping));
        }
        let newest = known.and_then(|known| known.newest);
        let event = match Some(route.attempt).cmp(&newest) {
            _ if route.is_reroute() => Event::Reroute,
            std::cmp::Ordering::Greater => Event::NewAttempt,
            std::cmp::Ordering::Equal => Event::SameAttempt,
            std::cmp::Ordering::Less => Event::OldAttempt,
        };
        let route = Some(ways::for_reports(route));
        let happened = Happened { from: Some(from), term, route, ..Happened::new(event) };
        self.event(now, circuit, happened);
    }

    fn on_unroute(&mut self, now: Instant, from: &ControllerId, unroute: &Unroute) {
        let circuit = &unroute.circuit_id;
        if self.obeys(now, from, circuit, unroute.term) {
            let event = if unroute.now { Event::Unrouted } else { Event::Left };
            self.event(now, circuit, Happened::new(event));
        }
    }

    /// The routes of a circuit that is only being set up are void then: its former owner sets it up once more, or is gone.
    fn on_claim(&mut self, now: Instant, from: &ControllerId, claim: &ClaimCircuits) {
        let of = claim.controller.as_str();
        if of != &**from && (self.claims.len() < MOST_CLAIMED || self.claims.contains_key(of)) {
            let term = self.claims.entry(of.to_owned()).or_default();
            *term = claim.term.max(*term);
        }
        let claimed = self.circuits.iter().filter(|(id, known)| {
            known.is_claimed(id, from, claim) && known.may_be_commanded(from, claim.term)
        });
        let claimed: Vec<Arc<str>> = claimed.map(|(id, _)| Arc::clone(id)).collect();
        let (mut carried, mut taken) = (Vec::new(), HashMap::<_, Vec<_>>::new());
        for id in claimed {
            let former = self.circuits.get(&id).and_then(|known| known.owner.clone());
            let former = former.filter(|former| former != from);
            let is_new = former.is_some();
            self.obeys(now, from, &id, claim.term);
            if let Some(former) = former {
                taken.entry(former).or_default().push(Arc::clone(&id));
            }
            if (is_new || !claim.changed_only) && self.state(&id) == State::Routed {
                carried.push(id);
            }
        }
        self.outputs.push(Output::Carried(carried));
        let taken = taken.into_iter().map(|(owner, circuits)| Output::Taken { owner, circuits });
        self.outputs.extend(taken);
    }

    /// Handles the end of a route that was under way.
    fn settle(&mut self, now: Instant, ticket: &RouteTicket, is_done: bool) {
        let Some(known) = self.circuits.get_mut(&ticket.circuit) else { return };
        let Some(up) = known.up.as_mut() else { return };
        let at = up.under_way.iter().position(|route| route.number == ticket.number);
        let Some(at) = at else { return };
        let UnderWay { route, is_void, .. } = up.under_way.remove(at);
        let is_last = up.under_way.is_empty();
        if is_done && !is_void {
            up.last_set = Some(ticket.number);
            let done = Happened::new(Event::Done);
            self.event(now, &ticket.circuit, Happened { route: Some(route), ..done });
        } else if is_last {
            let event = match known.was {
                Some(State::Remembered) => Event::RevivalFailed,
                Some(State::Ended) => Event::ReturnFailed,
                _ => Event::LastFailed,
            };
            self.event(now, &ticket.circuit, Happened::new(event));
        }
    }

    /// An owner may stop between the report of an end and its unroutes, and adopts the circuit when it is back. So the
    /// end is reported again while the circuit is idle.
    fn on_idle(&mut self, now: Instant, circuits: &[IdleCircuit]) {
        for idle in circuits {
            let happened = Happened { time: idle.time, ..Happened::new(Event::Idle) };
            self.event(now, &idle.circuit, happened);
        }
        for idle in circuits {
            idle.gone.iter().for_each(|end| self.lacks_end(now, &idle.circuit, *end));
        }
    }

    /// An end is not there to which the route of a circuit leads.
    fn lacks_end(&mut self, now: Instant, circuit: &str, end: Role) {
        let known = self.circuits.get(circuit).filter(|known| known.state == State::Routed);
        let Some(known) = known else { return };
        let gone = Happened { attempt: known.newest, ..Happened::new(Event::EndGone) };
        self.event(now, circuit, Happened { end: Some(end), ..gone });
    }

    fn on_looked(&mut self, now: Instant, circuit: &str, sight: Sight) {
        let known = self.circuits.get_mut(circuit).and_then(|known| known.up.as_mut());
        let Some(leaving) = known.and_then(|up| up.leaving.as_mut()) else { return };
        let happened = match leaving.judge(now, sight, self.quiet) {
            Some(time) => Happened { time, ..Happened::new(Event::NotOver) },
            None => Happened::new(Event::Over),
        };
        self.event(now, circuit, happened);
    }

    /// Forgets the circuits whose time is over, and the oldest ones of too many.
    fn forget(&mut self, now: Instant) {
        while let Some((at, ..)) = self.over.front()
            && (now.saturating_duration_since(*at) >= KEPT || self.over.len() > MOST)
            && let Some((_, number, circuit)) = self.over.pop_front()
        {
            // It may have come back, and may have ended again.
            if self.circuits.get(&circuit).is_some_and(|known| known.ended == Some(number)) {
                self.event(now, &circuit, Happened::new(Event::Forgotten));
            }
        }
    }

    /// The transition from a state by an event.
    fn transition(&mut self, state: State, event: Event) -> Option<Row> {
        let at = self.table.iter().position(|row| row.state == state && row.event == event)?;
        #[cfg(test)]
        self.taken.push(at);
        Some(self.table[at])
    }

    /// An event of a circuit.
    fn event(&mut self, now: Instant, circuit: &str, mut happened: Happened<'_>) {
        let Some(row) = self.transition(self.state(circuit), happened.event) else { return };
        let known = self.circuits.remove_entry(circuit);
        let (id, mut known) = known.unwrap_or_else(|| (circuit.into(), KnownCircuit::UNKNOWN));
        if row.next == State::Routing && known.up.is_none() {
            known.was = Some(known.state);
        }
        known.state = row.next;
        for action in row.actions {
            self.act(now, &id, &mut known, *action, &mut happened);
        }
        if row.next != State::Unknown {
            self.circuits.insert(id, known);
        }
    }

    fn act(
        &mut self,
        now: Instant,
        id: &Arc<str>,
        known: &mut KnownCircuit,
        action: Action,
        happened: &mut Happened<'_>,
    ) {
        let circuit = Arc::clone(id);
        match action {
            Action::Own => {
                let owner = happened.from.cloned();
                let least = owner.as_deref().and_then(|owner| self.claims.get(owner)).copied();
                known.term = happened.term.max(least.unwrap_or_default());
                known.maker = known.maker.take().or_else(|| owner.clone());
                known.former = std::mem::replace(&mut known.owner, owner);
            }
            Action::Make => {
                (known.up, known.ended) = (Some(Box::default()), None);
                let by = known.owner.clone();
                self.outputs.extend(by.map(|by| Output::Make { circuit, by }));
            }
            Action::Join => {
                let (Some(route), Some(up)) = (happened.route.take(), &mut known.up) else {
                    return;
                };
                if !route.is_reroute() {
                    known.newest = Some(route.attempt);
                }
                self.last_ticket += 1;
                let number = self.last_ticket;
                up.under_way.push(UnderWay { number, route, is_void: false });
                self.outputs.push(Output::Begin(RouteTicket { circuit, number }));
            }
            Action::Void => {
                let routes = known.up.iter_mut().flat_map(|up| &mut up.under_way);
                routes.for_each(|route| route.is_void = true);
            }
            Action::Clear => {
                known.up.iter_mut().for_each(|up| (up.route, up.last_set) = (None, None));
                self.outputs.push(Output::Clear(circuit));
            }
            Action::RefuseOld => self.outputs.push(Output::Refuse(NotObeyed::Superseded)),
            Action::RefuseOver => self.outputs.push(Output::Refuse(NotObeyed::Over)),
            Action::Keep => {
                let (Some(route), Some(up)) = (happened.route.take(), &mut known.up) else {
                    return;
                };
                ways::keep(&mut up.route, route);
                known.was = None;
            }
            Action::GiveUp => {
                let routes = known.up.iter_mut().flat_map(|up| up.under_way.drain(..));
                self.outputs.extend(routes.map(|route| Output::GiveUp(route.number)));
            }
            Action::TakeDown => {
                let look = known.up.take().and_then(|up| up.look);
                look.iter().for_each(|at| _ = self.looks.remove(&(*at, Arc::clone(id))));
                self.outputs.push(Output::TakeDown(circuit));
            }
            Action::Remember => {
                self.last_end += 1;
                known.ended = Some(self.last_end);
                self.over.push_back((now, self.last_end, circuit));
            }
            Action::Leave => {
                known.up.iter_mut().for_each(|up| up.leaving = Some(Leaving::new(now)));
                self.outputs.push(Output::Look { circuit, is_first: true });
            }
            Action::Look => self.outputs.push(Output::Look { circuit, is_first: false }),
            Action::Wait => {
                let Some(up) = &mut known.up else { return };
                let at = now + happened.time;
                let former = up.look.replace(at);
                former.iter().for_each(|at| _ = self.looks.remove(&(*at, Arc::clone(id))));
                self.looks.insert((at, circuit));
            }
            Action::ReportEnd => {
                let owner = known.owner.as_ref().or(happened.from).cloned();
                let reported = owner.zip(happened.end);
                let attempt = happened.attempt;
                let report = |(owner, end)| Output::ReportEnd { owner, circuit, end, attempt };
                self.outputs.extend(reported.map(report));
            }
            Action::ReportIdle => {
                let Some(of) = known.owner.clone() else { return };
                let entry = (circuit.to_string(), happened.time);
                let same = |output: &&mut Output| matches!(output, Output::ReportIdle { owner, .. } if *owner == of);
                match self.outputs.iter_mut().find(same) {
                    Some(Output::ReportIdle { circuits, .. }) => circuits.push(entry),
                    _ => self.outputs.push(Output::ReportIdle { owner: of, circuits: vec![entry] }),
                }
            }
            Action::ReportFault => {
                let (of, entry) = (known.owner.clone(), circuit.to_string());
                let same = |output: &&mut Output| matches!(output, Output::ReportFaults { owner, .. } if *owner == of);
                match self.outputs.iter_mut().find(same) {
                    Some(Output::ReportFaults { circuits, .. }) => circuits.push(entry),
                    _ => {
                        self.outputs.push(Output::ReportFaults { owner: of, circuits: vec![entry] })
                    }
                }
            }
        }
    }
}
