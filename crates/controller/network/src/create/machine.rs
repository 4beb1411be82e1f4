//! One dial, as a state machine: it has no I/O, lock, clock or randomness.
//!
//! ```text
//!  terminator and path ─────┐                   ┌──> search for a terminator and a path
//!  answers of routers ──────┼──> Dial::step ────┼──> routes for routers, another id, a pause
//!  end of the circuit ──────┤        │          ├──> circuit for the table of circuits
//!  end of the time ─────────┘      table        └──> end of the dial
//! ```
//!
//! The driver ([`create`](super)) carries out the [`Output`] of one [`Dial::step`], and its result is the next input,
//! until the dial is over. Which terminator is best, and what failures say about it, is outside of the machine.

mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_model::Id;
use weft_wire::PeerData;
use weft_wire::ctrl::{RouteError, RouteErrorCode};

use self::table::{Action, Event, Row, State, TABLE};
use super::chosen::{AvoidedTargets, DialTarget};
use crate::failure::FailureCause;

/// Attempts of one dial that do not count, because a router between the ends or a host took no new circuits.
const DETOURS: u32 = 4;
/// The time that a router at an end or a host, which takes no new circuits, is given before it is asked again.
const PAUSE: Duration = Duration::from_millis(500);

/// What a dial is bound to.
#[derive(Debug, Clone, Copy)]
pub(super) struct DialTerms {
    /// The number of attempts that count.
    pub(super) attempts: u32,
    /// The time for the answers to one attempt.
    pub(super) timeout: Duration,
    /// Whether all attempts have one id, because the router of the dialer chose it.
    pub(super) has_fixed_id: bool,
}

/// Why there is no circuit, or why an attempt has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) cause: FailureCause,
    pub(super) text: String,
}

/// What happens in a dial.
#[derive(Debug)]
pub(super) enum Input {
    /// A terminator and a path were chosen.
    Chosen(Arc<DialTarget>),
    /// There is no terminator, or no path to any.
    NotChosen(Failure),
    /// The host has no place for another circuit in the making, or another dialer has taken this one.
    HostFull,
    /// The route of a router could not be sent.
    Unsent(Id, String),
    /// A router has set up its route. The router of the host sends the data of the host.
    Set(Id, PeerData),
    /// A router has refused its route.
    Refused(Id, RouteError),
    /// The time for the answers to an attempt, or the pause, is over.
    Due,
    /// Whether the circuit has another id.
    Renamed(bool),
    /// The circuit is in the table of circuits.
    Entered,
    /// The circuit has ended.
    Ended,
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// Choose a terminator and a path, other than [`Dial::avoided`].
    Choose,
    /// Let this time pass.
    Pause(Duration),
    /// Tell the routers on the path of [`Dial::target`] their routes, as the attempt of this number, after
    /// [`Dial::routes_are_sent`].
    Tell(u32),
    /// Wait for an answer.
    Listen,
    /// Give the circuit another id, and unroute it at the routers of the former one.
    Rename,
    /// Put the circuit into the table, with this data of the host, and unroute it at the routers of former attempts.
    Enter(PeerData),
    /// End the dial with a circuit.
    Finish,
    /// End the dial without a circuit, and unroute it at all routers. `is_repeated`: more than one attempt has failed.
    Fail { is_repeated: bool },
}

/// A dial.
#[derive(Debug)]
pub(super) struct Dial {
    table: &'static [Row],
    state: State,
    terms: DialTerms,
    started: Instant,
    /// Attempts that have failed and count, and those that do not count.
    failed: u32,
    detours: u32,
    /// What the present attempt leads to.
    target: Option<Arc<DialTarget>>,
    /// The routers of the present attempt that have not answered.
    missing: Vec<Id>,
    /// The data of the host.
    peer_data: PeerData,
    /// Routers that may have a route under the present id, each with the first attempt that told it.
    told: Vec<(Id, u32)>,
    /// Terminators and routers that failed.
    avoided: AvoidedTargets,
    /// Why the last attempt failed, until it is taken.
    failure: Option<Failure>,
    /// The rows that were taken.
    #[cfg(test)]
    taken: Vec<usize>,
}

impl Dial {
    /// A dial whose first step is to choose a terminator and a path.
    pub(super) fn new(terms: DialTerms, now: Instant) -> Self {
        Self {
            table: TABLE,
            state: State::Choosing,
            terms,
            started: now,
            failed: 0,
            detours: 0,
            target: None,
            missing: Vec::new(),
            peer_data: PeerData::new(),
            told: Vec::new(),
            avoided: AvoidedTargets::default(),
            failure: None,
            #[cfg(test)]
            taken: Vec::new(),
        }
    }

    /// The time at which the dial began.
    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// The terminators and routers at which attempts have failed.
    pub(super) fn avoided(&self) -> &AvoidedTargets {
        &self.avoided
    }

    /// What the present attempt leads to.
    pub(super) fn target(&self) -> Option<&Arc<DialTarget>> {
        self.target.as_ref()
    }

    /// The routers of the present attempt that have not answered.
    pub(super) fn missing(&self) -> &[Id] {
        &self.missing
    }

    /// The number of the present attempt, from 0.
    pub(super) fn attempt(&self) -> u32 {
        self.failed + self.detours
    }

    /// Takes the reason why the last attempt failed.
    pub(super) fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    /// Takes the routers that may have a route under the present id of the circuit, except those in `kept`.
    pub(super) fn take_told(&mut self, kept: &[Id]) -> Vec<Id> {
        let told = std::mem::take(&mut self.told);
        let (kept, taken): (Vec<_>, Vec<_>) =
            told.into_iter().partition(|(router, _)| kept.contains(router));
        self.told = kept;
        taken.into_iter().map(|(router, _)| router).collect()
    }

    /// Notes that the routes of the present attempt are being sent.
    pub(super) fn routes_are_sent(&mut self) {
        let attempt = self.attempt();
        for router in &self.missing {
            if self.told.iter().all(|(told, _)| told != router) {
                self.told.push((router.clone(), attempt));
            }
        }
    }

    /// Takes an input, and says what follows from it.
    pub(super) fn step(&mut self, input: Input, now: Instant) -> Output {
        let event = self.event(input, now);
        let row = self.table.iter().position(|row| row.state == self.state && row.event == event);
        let Some(at) = row else { return self.fail() };
        #[cfg(test)]
        self.taken.push(at);
        #[cfg(feature = "testing")]
        crate::coverage::count("dials", self.table, at, |row| (row.state, row.event));
        let Row { next, action, .. } = self.table[at];
        self.state = next;
        match action {
            Action::Choose => Output::Choose,
            Action::Pause => Output::Pause(PAUSE),
            Action::Tell => self.tell(),
            Action::Listen => Output::Listen,
            Action::Rename => Output::Rename,
            Action::Enter => Output::Enter(std::mem::take(&mut self.peer_data)),
            Action::Finish => Output::Finish,
            Action::Fail => self.fail(),
        }
    }

    fn fail(&self) -> Output {
        Output::Fail { is_repeated: self.failed > 1 }
    }

    fn tell(&mut self) -> Output {
        let nodes = self.target.iter().flat_map(|target| &target.path.nodes);
        self.missing = nodes.cloned().collect();
        Output::Tell(self.attempt())
    }

    fn event(&mut self, input: Input, now: Instant) -> Event {
        match input {
            Input::Chosen(target) => self.chosen(target, now),
            Input::NotChosen(failure) => {
                (self.target, self.failure) = (None, Some(failure));
                Event::NotChosen
            }
            Input::Set(router, data) => self.set(&router, data),
            Input::HostFull => self.host_full(now),
            Input::Unsent(router, why) => {
                self.failed_at(&router, FailureCause::RouterResponseTimeout, &why, now)
            }
            Input::Refused(router, RouteError { code, text }) => {
                // An earlier attempt under this id may have left a route there.
                let attempt = self.attempt();
                self.told.retain(|(told, first)| *told != router || *first != attempt);
                self.failed_at(&router, FailureCause::Router(code), &text, now)
            }
            Input::Due if self.state == State::Pausing => Event::Due,
            Input::Due => self.late(now),
            Input::Renamed(true) => Event::Renamed,
            Input::Renamed(false) => Event::NotRenamed,
            Input::Entered => Event::Entered,
            Input::Ended => {
                let cause = FailureCause::Router(RouteErrorCode::Generic);
                let text = "the circuit ended while it was made".to_owned();
                self.failure = Some(Failure { cause, text });
                Event::Ended
            }
        }
    }

    /// The event of a choice. A dial pauses once before an attempt, if its time allows it.
    fn chosen(&mut self, target: Arc<DialTarget>, now: Instant) -> Event {
        let has_time = self.age(now) + PAUSE < self.terms.timeout;
        let pauses = has_time && self.state == State::Choosing && self.avoided.is_busy(&target);
        self.target = Some(target);
        if pauses { Event::Busy } else { Event::Chosen }
    }

    fn set(&mut self, router: &Id, data: PeerData) -> Event {
        self.missing.retain(|missing| missing != router);
        if self.target.as_ref().is_some_and(|target| target.terminator.router_id == *router) {
            self.peer_data = data;
        }
        if self.missing.is_empty() { Event::Complete } else { Event::Set }
    }

    /// The failure of an attempt that has no place among the circuits in the making to its host.
    fn host_full(&mut self, now: Instant) -> Event {
        let Some(target) = &self.target else { return Event::Exhausted };
        let is_detour = self.avoided.note_full(&target.terminator);
        let router = target.terminator.router_id.clone();
        let why = "too many dials wait for an answer of the host";
        self.failed(&router, FailureCause::TooMany, why, is_detour, now)
    }

    fn late(&mut self, now: Instant) -> Event {
        let Some(router) = self.missing.first().cloned() else { return Event::Exhausted };
        let cause = FailureCause::RouterResponseTimeout;
        self.avoid(&router, cause);
        self.failed(&router, cause, "no answer in time", false, now)
    }

    /// The failure of an attempt at a router that has refused its route, or could not be sent it in time.
    fn failed_at(&mut self, router: &Id, cause: FailureCause, why: &str, now: Instant) -> Event {
        let is_detour = self.avoid(router, cause);
        self.failed(router, cause, why, is_detour, now)
    }

    /// Notes that the present attempt failed at a router. True if it is between the ends, and takes no new circuits, which
    /// was not known.
    fn avoid(&mut self, router: &Id, cause: FailureCause) -> bool {
        let is_busy = cause == FailureCause::Router(RouteErrorCode::ResourcesNotAvailable);
        let target = self.target.as_ref();
        target.is_some_and(|target| self.avoided.note(target, router, is_busy)) && is_busy
    }

    /// The event of a failure of the present attempt. A detour does not count, as often and as long as the dial has time
    /// for detours.
    fn failed(
        &mut self,
        router: &Id,
        cause: FailureCause,
        why: &str,
        is_detour: bool,
        now: Instant,
    ) -> Event {
        let service = self.target.as_ref().map(|target| target.terminator.service_id.as_str());
        let service = service.unwrap_or_default();
        let text = format!("error creating route for [s/{service}] on [r/{router}] ({why})");
        self.failure = Some(Failure { cause, text });
        if is_detour && self.detours < DETOURS && self.age(now) < self.terms.timeout {
            self.detours += 1;
        } else {
            self.failed += 1;
        }
        match self.terms {
            DialTerms { attempts, .. } if self.failed >= attempts => Event::Exhausted,
            DialTerms { has_fixed_id: true, .. } => Event::Again,
            _ => Event::Anew,
        }
    }

    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started)
    }
}
