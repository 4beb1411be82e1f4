//! The standing of terminators, as a state machine: it has no I/O, lock, clock or randomness.
//!
//! ```text
//!  router connects, is lost ─────┐                             ┌──> question to a router
//!  terminator made, reported ────┼──> Machine::step ──> Output ┼──> removal of terminators
//!  answer, refused dial, tick ───┘          │                  └──> end of circuits
//!                                         table
//! ```
//!
//! One [`Machine::step`] takes an [`Input`] and decides all that follows from it, by the [`table`] of transitions. The
//! driver ([`Network`](crate::network::Network)) carries the [`Output`]s out after it has let go of the lock. A removal
//! is therefore judged a second time where it is decided, by [`Machine::may_remove`].

mod messages;
mod reports;
mod table;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;
use weft_model::{Id, Timestamp};

pub(crate) use self::messages::{Answer, Denied, Due, Input, Output, Removal};
use self::reports::Reports;
use self::table::{Action, Event, Row, State, TABLE};

/// How long a router has to answer before it is asked again.
const ANSWER_TIME: Duration = Duration::from_secs(180);
/// Most terminators that wait for their removal because their hosts have lost the right to host. A dial that meets more
/// of them avoids them as well; they are noted by a later dial.
const MAX_LAPSED: usize = 10_000;

/// A router that is connected.
#[derive(Debug)]
struct HostRouter {
    state: State,
    /// Since when it is in this state.
    since: Instant,
    /// The number of its connection.
    number: u64,
    /// Its terminators that are not settled.
    terminators: HashMap<Id, Open>,
}

/// A terminator that is not settled.
#[derive(Debug, Clone, Copy)]
struct Open {
    state: State,
    /// Only what was asked or denied under this number counts.
    number: u64,
    /// When the terminator was made about which the router was asked, or which was dialed.
    made: Timestamp,
}

/// An event of a terminator.
struct Happened<'a> {
    terminator: &'a Id,
    event: Event,
    /// The number of what it answers; 0 if it answers nothing, or whatever was asked.
    number: u64,
    /// When the terminator was made, if the event says it.
    made: Option<Timestamp>,
}

impl<'a> Happened<'a> {
    fn new(terminator: &'a Id, event: Event) -> Self {
        Self { terminator, event, number: 0, made: None }
    }
}

/// What is known of routers, of their terminators, and of the rights of hosts.
#[derive(Debug)]
pub(crate) struct Machine {
    table: &'static [Row],
    routers: HashMap<Id, HostRouter>,
    /// The states of lost rights by terminator, each with the time of its loss.
    rights: HashMap<Id, (State, Instant)>,
    reports: Reports,
    last_number: u64,
    /// How long a router has to remove a terminator whose host has lost its right.
    unfounded_life: Duration,
    /// What is to be done, in this order.
    outputs: Vec<Output>,
    /// The rows that were taken.
    #[cfg(test)]
    taken: Vec<usize>,
}

impl Machine {
    /// A machine without routers.
    pub(crate) fn new(unfounded_life: Duration) -> Self {
        Self {
            table: TABLE,
            routers: HashMap::new(),
            rights: HashMap::new(),
            reports: Reports::default(),
            last_number: 0,
            unfounded_life,
            outputs: Vec::new(),
            #[cfg(test)]
            taken: Vec::new(),
        }
    }

    /// The last number so far. A dial keeps it for [`Input::DialDenied`].
    pub(crate) fn last_number(&self) -> u64 {
        self.last_number
    }

    /// True if a terminator of an [`Output::Remove`] has not been doubted since.
    pub(crate) fn may_remove(&self, router: &Id, denied: &Denied) -> bool {
        let known = self.routers.get(router);
        let open = known.and_then(|known| known.terminators.get(&denied.terminator));
        open.is_some_and(|open| {
            matches!(open.state, State::Denied | State::DialDenied) && open.number == denied.number
        })
    }

    /// Takes an input, and says what follows from it.
    pub(crate) fn step(&mut self, now: Instant, input: Input<'_>) -> Vec<Output> {
        match input {
            Input::Connected(router) => self.router_event(now, router, Event::Connected),
            Input::Lost(router) => self.router_event(now, router, Event::Lost),
            Input::Doubted { router, terminators, at_once } => {
                let event = if at_once { Event::DoubtedNow } else { Event::Doubted };
                let all = terminators.iter().map(|id| Happened::new(id, event));
                self.terminator_events(router, all);
            }
            Input::Reported { router, terminator } => {
                self.last_number += 1;
                self.reports.note(terminator, self.last_number);
                self.terminator_event(router, Happened::new(terminator, Event::Doubted));
            }
            Input::Answered { router, answers } => {
                self.router_event(now, router, Event::Answered);
                let all = answers.iter().map(|answer| {
                    let event = if answer.is_hosted { Event::Confirmed } else { Event::Denied };
                    Happened { number: answer.number, ..Happened::new(&answer.terminator, event) }
                });
                self.terminator_events(router, all);
            }
            Input::DialDenied { router, terminator, since, made } => {
                let connected = self.routers.get(router).map_or(0, |known| known.number);
                let is_old = connected > since || self.reports.has_after(since, terminator);
                let event = if is_old { Event::DoubtedNow } else { Event::DialDenied };
                let happened = Happened { made: Some(made), ..Happened::new(terminator, event) };
                self.terminator_event(router, happened);
            }
            Input::Ask { router, due } => self.ask(now, router, due),
            Input::Tick => {
                let open = self.routers.iter().filter(|(_, known)| !known.terminators.is_empty());
                self.outputs.extend(open.map(|(router, _)| Output::AskNow(router.clone())));
            }
            Input::Removed { router, terminators, all } => {
                let event = if all { Event::Removed } else { Event::NotRemoved };
                let all = terminators.iter().map(|denied| Happened {
                    number: denied.number,
                    ..Happened::new(&denied.terminator, event)
                });
                self.terminator_events(router, all);
            }
            Input::PassedOver(id) => self.right_event(now, id, Event::PassedOver),
            Input::Expire => self.expire(now),
            Input::Withdrawn { terminator, is_removed } => {
                let event = if is_removed { Event::Removed } else { Event::NotRemoved };
                self.right_event(now, terminator, event);
            }
        }
        std::mem::take(&mut self.outputs)
    }

    /// Asks a router about what is due, unless it has a question to answer.
    fn ask(&mut self, now: Instant, router: &Id, due: &dyn Fn(&Id) -> Due) {
        let Some(known) = self.routers.get(router) else { return };
        if known.state == State::Waiting {
            if now.saturating_duration_since(known.since) < ANSWER_TIME {
                return;
            }
            self.router_event(now, router, Event::Overdue);
        }
        let Some(mut open) = self.take_open(router) else { return };
        open.retain(|id, open| {
            let happened = match due(id) {
                Due::Now(made) => Happened { made: Some(made), ..Happened::new(id, Event::Due) },
                Due::Later => return true,
                Due::Never => Happened::new(id, Event::Absent),
            };
            *open = self.apply(router, *open, happened);
            open.state != State::Settled
        });
        self.put_open(router, open);
        if !self.outputs.is_empty() {
            self.router_event(now, router, Event::QuestionSent);
        }
    }

    fn expire(&mut self, now: Instant) {
        let life = self.unfounded_life;
        let is_over = |at: &Instant| now.saturating_duration_since(*at) >= life;
        let over = self.rights.iter().filter(|(_, (_, at))| is_over(at));
        let over: Vec<Id> = over.map(|(id, _)| id.clone()).collect();
        over.iter().for_each(|id| self.right_event(now, id, Event::Expired));
    }

    /// The transition from a state by an event.
    fn transition(&mut self, state: State, event: Event) -> Option<Row> {
        let at = self.table.iter().position(|row| row.state == state && row.event == event)?;
        #[cfg(test)]
        self.taken.push(at);
        #[cfg(feature = "testing")]
        crate::coverage::count("standing", self.table, at, |row| (row.state, row.event));
        Some(self.table[at])
    }

    /// An event of a router.
    fn router_event(&mut self, now: Instant, router: &Id, event: Event) {
        let state = self.routers.get(router).map_or(State::Away, |known| known.state);
        let Some(row) = self.transition(state, event) else { return };
        let number = self.numbered(row);
        if row.next == State::Away {
            self.routers.remove(router);
            return;
        }
        let known = self.routers.entry_ref(router).or_insert_with(|| HostRouter {
            state,
            since: now,
            number: 0,
            terminators: HashMap::new(),
        });
        (known.state, known.since) = (row.next, now);
        known.number = number.unwrap_or(known.number);
    }

    /// Takes the open terminators of a router; none if the router is away.
    fn take_open(&mut self, router: &Id) -> Option<HashMap<Id, Open>> {
        self.routers.get_mut(router).map(|known| std::mem::take(&mut known.terminators))
    }

    fn put_open(&mut self, router: &Id, open: HashMap<Id, Open>) {
        if let Some(known) = self.routers.get_mut(router) {
            known.terminators = open;
        }
    }

    fn terminator_event(&mut self, router: &Id, happened: Happened<'_>) {
        self.terminator_events(router, std::iter::once(happened));
    }

    /// Events of terminators of a router. Nothing is noted of a router that is away: it is asked about all of its
    /// terminators when it connects.
    fn terminator_events<'a>(&mut self, router: &Id, all: impl Iterator<Item = Happened<'a>>) {
        let Some(mut open) = self.take_open(router) else { return };
        for happened in all {
            match open.entry_ref(happened.terminator) {
                EntryRef::Occupied(mut entry) => {
                    let next = self.apply(router, *entry.get(), happened);
                    match next.state {
                        State::Settled => _ = entry.remove(),
                        _ => *entry.get_mut() = next,
                    }
                }
                EntryRef::Vacant(entry) => {
                    let settled = Open { state: State::Settled, number: 0, made: Timestamp(0) };
                    let next = self.apply(router, settled, happened);
                    if next.state != State::Settled {
                        entry.insert(next);
                    }
                }
            }
        }
        self.put_open(router, open);
    }

    /// What becomes of a terminator by an event.
    fn apply(&mut self, router: &Id, mut open: Open, happened: Happened<'_>) -> Open {
        let Happened { terminator, event, number, made } = happened;
        if number != 0 && number != open.number {
            // It answers a doubt of before.
            return open;
        }
        let Some(row) = self.transition(open.state, event) else { return open };
        open.state = row.next;
        open.number = self.numbered(row).unwrap_or(open.number);
        open.made = made.unwrap_or(open.made);
        for action in row.actions {
            self.act_on_terminator(router, terminator, open, *action);
        }
        open
    }

    /// An event of the right of a terminator's host.
    fn right_event(&mut self, now: Instant, id: &Id, event: Event) {
        let state = self.rights.get(id).map_or(State::Granted, |(state, _)| *state);
        if state == State::Granted && self.rights.len() >= MAX_LAPSED {
            return;
        }
        let Some(row) = self.transition(state, event) else { return };
        for action in row.actions {
            match (action, self.outputs.last_mut()) {
                (Action::Withdraw, Some(Output::Withdraw(ids))) => ids.push(id.clone()),
                (Action::Withdraw, _) => self.outputs.push(Output::Withdraw(vec![id.clone()])),
                (Action::EndCircuits, _) => self.outputs.push(Output::EndCircuits(id.clone())),
                _ => {}
            }
        }
        if row.next == State::Granted {
            self.rights.remove(id);
        } else {
            self.rights.entry_ref(id).or_insert((row.next, now)).0 = row.next;
        }
    }

    /// The next number, if a transition gives one.
    fn numbered(&mut self, row: Row) -> Option<u64> {
        let is_numbered = row.actions.contains(&Action::Number);
        self.last_number += u64::from(is_numbered);
        is_numbered.then_some(self.last_number)
    }

    fn act_on_terminator(&mut self, router: &Id, id: &Id, open: Open, action: Action) {
        let Open { number, made, .. } = open;
        let denied = || Denied { terminator: id.clone(), number, made };
        match (action, self.outputs.last_mut()) {
            (Action::AskNow, None) => self.outputs.push(Output::AskNow(router.clone())),
            (Action::Ask, Some(Output::Ask { terminators, .. })) => {
                terminators.push((id.clone(), number));
            }
            (Action::Ask, _) => {
                let (router, terminators) = (router.clone(), vec![(id.clone(), number)]);
                self.outputs.push(Output::Ask { router, terminators });
            }
            (Action::Remove, Some(Output::Remove(removal))) => removal.terminators.push(denied()),
            (Action::Remove, _) => {
                let (router, terminators) = (router.clone(), vec![denied()]);
                self.outputs.push(Output::Remove(Removal { router, terminators }));
            }
            _ => {}
        }
    }
}
