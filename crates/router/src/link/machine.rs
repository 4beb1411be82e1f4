//! The life of links at this router, as a state machine: it has no I/O, lock, clock or randomness.
//!
//! ```text
//!  Input ──> Machine::step ──> Output, Output, ...
//!              news: targets of a router ──┐
//!              dials: times of dials       ├──> table: the next state, and what to do
//!              links: taken, refused ──────┘
//! ```
//!
//! One [`Machine::step`] takes an [`Input`] and decides everything that follows from it, by the
//! [`table`] of transitions. The driver ([`Links`](super::Links)) carries out the [`Output`]s in their
//! order. Nothing can therefore come between the choice of a link, its publication, and its report to
//! controllers.

mod confirmed;
mod dials;
mod link;
mod links;
mod messages;
mod news;
mod peer;
mod table;
mod target;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use self::confirmed::Confirmed;
use self::link::OpenLink;
pub(super) use self::link::{Facts, Handle};
pub(super) use self::messages::{Input, Output, Random, Reason};
use self::peer::KnownPeer;
use self::table::{Event, Row, State, TABLE};
pub(super) use self::target::{Dial, Dialer, Target};

/// The interval of the search for routers that can be forgotten.
const SWEEP: Duration = Duration::from_secs(60);

/// Removes the first entry whose time has come.
fn pop_due<T: Ord>(times: &mut BTreeSet<(Instant, T)>, now: Instant) -> Option<T> {
    if times.first()?.0 > now {
        return None;
    }
    times.pop_first().map(|(_, entry)| entry)
}

/// All targets and links of a router, and what is known of the other routers.
pub(super) struct Machine<L> {
    /// The id of this router.
    own: String,
    table: &'static [Row],
    /// The most dials at the same time, and the most that wait for their turn.
    limits: (usize, usize),
    dialers: Vec<Dialer>,
    peers: BTreeMap<String, KnownPeer>,
    /// Targets by key.
    targets: HashMap<String, Target>,
    /// The times of dials, with the keys of their targets.
    due: BTreeSet<(Instant, String)>,
    /// The number of dials under way.
    pub(super) dialing: usize,
    links: BTreeMap<u64, OpenLink<L>>,
    /// The link that has each key.
    by_key: HashMap<String, u64>,
    /// The link that was opened last with each id.
    by_id: HashMap<String, u64>,
    /// The links with each router.
    by_peer: HashMap<String, BTreeSet<u64>>,
    /// The times at which duplicates close.
    deadlines: BTreeSet<(Instant, u64)>,
    pub(super) confirmed: Confirmed,
    next_sweep: Instant,
    is_shutting_down: bool,
    /// The time of this step.
    now: Instant,
    random: Box<dyn Random>,
    /// What is to be done, in this order.
    outputs: VecDeque<Output<L>>,
    /// The rows that were taken.
    #[cfg(test)]
    taken: Vec<usize>,
}

impl<L: Handle> Machine<L> {
    /// A machine without links, for the router `own`.
    pub(super) fn new(
        own: &str,
        dialers: Vec<Dialer>,
        limits: (usize, usize),
        now: Instant,
        random: Box<dyn Random>,
    ) -> Self {
        Self {
            own: own.to_owned(),
            table: TABLE,
            limits,
            dialers,
            peers: BTreeMap::new(),
            targets: HashMap::new(),
            due: BTreeSet::new(),
            dialing: 0,
            links: BTreeMap::new(),
            by_key: HashMap::new(),
            by_id: HashMap::new(),
            by_peer: HashMap::new(),
            deadlines: BTreeSet::new(),
            confirmed: Confirmed::default(),
            next_sweep: now + SWEEP,
            is_shutting_down: false,
            now,
            random,
            outputs: VecDeque::new(),
            #[cfg(test)]
            taken: Vec::new(),
        }
    }

    /// Takes an input. What follows from it is added to the outputs.
    pub(super) fn step(&mut self, now: Instant, input: Input<L>) {
        self.now = now;
        match input {
            Input::News { from, news } => self.on_news(&from, &news),
            Input::Dialers(dialers) => self.set_dialers(dialers),
            Input::Opened { link, is_free } => self.on_opened(link, is_free),
            Input::DialFailed(dial) => {
                self.dialing = self.dialing.saturating_sub(1);
                let latest = (dial.link.as_str(), dial.iteration);
                self.end_dial(&dial.key, latest, &dial.address, Event::DialFailed);
            }
            Input::Closed(number) => self.link_event(number, Event::Closed, None),
            Input::Fault { id, iteration } => self.on_fault(&id, iteration),
            Input::Confirmed { router, leaf } => self.confirmed.note(&router, &leaf, now),
            Input::Refused { router, leaf, reason } => self.on_refused(&router, &leaf, &reason),
            Input::ShutDown => self.shut_down(),
            Input::Tick => {}
        }
        self.advance();
    }

    /// The next output to carry out.
    pub(super) fn next_output(&mut self) -> Option<Output<L>> {
        self.outputs.pop_front()
    }

    /// The time at which the next [`Input::Tick`] is to come.
    pub(super) fn next_wake(&self) -> Instant {
        let may_dial = self.dialing < self.limits.0 && !self.is_shutting_down;
        let due = self.due.first().filter(|_| may_dial).map(|(at, _)| *at);
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        [due, deadline].into_iter().flatten().fold(self.next_sweep, Instant::min)
    }

    /// Does what is due.
    fn advance(&mut self) {
        if self.now >= self.next_sweep {
            self.next_sweep = self.now + SWEEP;
            self.sweep();
        }
        while let Some(number) = pop_due(&mut self.deadlines, self.now) {
            self.link_event(number, Event::Expired, Some(Reason::Superseded));
        }
        if self.is_shutting_down {
            return;
        }
        self.bound_queue();
        while self.dialing < self.limits.0
            && let Some(key) = pop_due(&mut self.due, self.now)
        {
            self.target_event(&key, Event::Due);
        }
    }

    /// The transition from a state by an event.
    fn transition(&mut self, state: State, event: Event) -> Option<Row> {
        let at = self.table.iter().position(|row| row.state == state && row.event == event)?;
        #[cfg(test)]
        self.taken.push(at);
        Some(self.table[at])
    }

    /// An event of the target with this key.
    fn target_event(&mut self, key: &str, event: Event) {
        let Some(state) = self.targets.get(key).map(|target| target.state) else { return };
        let Some(row) = self.transition(state, event) else { return };
        self.targets.get_mut(key).into_iter().for_each(|target| target.state = row.next);
        row.actions.iter().for_each(|action| self.act_on_target(key, *action));
        if row.next == State::Gone {
            self.targets.remove(key);
        }
    }

    /// An event of the link with this number. `reason` is that of a refusal or of an end.
    fn link_event(&mut self, number: u64, event: Event, reason: Option<Reason>) {
        let Some(state) = self.links.get(&number).map(|link| link.state) else { return };
        let Some(row) = self.transition(state, event) else { return };
        let Some(open) = self.links.get_mut(&number) else { return };
        open.state = row.next;
        let link = open.handle.clone();
        row.actions.iter().for_each(|action| self.act_on_link(&link, *action, reason.as_ref()));
        if row.next == State::Gone {
            self.links.remove(&number);
        }
    }
}
