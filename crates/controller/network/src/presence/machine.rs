//! The presence of routers, as a state machine: it has no I/O, lock, clock or randomness.
//!
//! ```text
//!  connections and their ends ──┐                             ┌──> table of routers, channels, events
//!  parts of reports, answers ───┼──> Machine::step ──> Output ┼──> questions about circuits and links
//!  links that broke, ticks ─────┘          │                  └──> circuits and links that are lost or back
//!                                        table
//! ```
//!
//! One [`Machine::step`] takes an [`Input`] and decides all that follows from it, by the [`table`] of transitions. The
//! driver (`presence`) carries the [`Output`]s out. What belongs to a connection names it, so that what comes
//! late from a connection that was replaced changes nothing.

mod broken;
mod messages;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::{HashMap, HashSet};
use weft_model::Id;
use weft_paths::links::Link;

use self::broken::{Broken, BrokenLink};
pub(crate) use self::messages::{Connection, Input, Newcomer, Output, Source};
use self::table::{Action, Event, Row, State, TABLE};
use crate::routers::{AlreadyConnected, NotConnected};

/// Most circuits whose end is remembered for a router that was not asked yet which circuits it carries.
const MOST_ENDED: usize = 10_000;
/// Questions about circuits without an answer after which a router is asked seldom.
const FAILURES: u32 = 5;
/// The interval at which it is asked from then on.
const SELDOM: Duration = Duration::from_secs(300);
/// How long a router has for the next part of its report. Then it is asked.
const REST: Duration = Duration::from_secs(60);
/// The interval of questions about links with routers that are not heard, and the time until the first one: a router
/// that has just gone down takes its links along within this time.
const CHECK: Duration = Duration::from_secs(5);
/// The time within which most links that break are back. Whoever is asked earlier has not said that they are gone.
const REDIALED: Duration = Duration::from_secs(2);
/// How long a router is asked whether a link that broke is back: no circuit waits longer for it.
const RETURN: Duration = Duration::from_secs(60);

/// What waits for its time, at a router.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Circuits,
    Links,
    /// A link that broke, by its id.
    Link(String),
}

/// The circuits or the links of a router.
#[derive(Debug)]
struct Part {
    state: State,
    /// When the next event is due.
    due: Option<Instant>,
}

/// A router that is connected.
#[derive(Debug)]
struct OnlineRouter {
    connection: Connection,
    since: Instant,
    is_dialed: bool,
    circuits: Part,
    links: Part,
    /// Questions about circuits that it has not answered.
    failures: u32,
    /// Whether it reports its circuits, and all its links that break, by itself, as routers of weft do.
    reports_by_itself: bool,
    /// Whether it has said which links it has since it connected.
    has_listed_links: bool,
    /// The circuits that it has to name and has not named.
    missing: HashSet<String>,
    /// Circuits whose end it reported before it was known which circuits it carries.
    ended: HashSet<String>,
}

/// What is known of the presence of routers.
#[derive(Debug)]
pub(crate) struct Machine {
    table: &'static [Row],
    routers: HashMap<Id, OnlineRouter>,
    broken: Broken,
    /// What is due when.
    due: BTreeSet<(Instant, Id, Subject)>,
    is_stopping: bool,
    churn_limit: Duration,
    report_time: Duration,
    /// What is to be done, in this order.
    outputs: Vec<Output>,
    /// The rows that were taken.
    #[cfg(test)]
    taken: BTreeSet<usize>,
}

impl Machine {
    /// A machine without routers. Within `churn_limit` after a router connected, a further connection is refused; it has
    /// `report_time` to report its circuits before it is asked.
    pub(crate) fn new(churn_limit: Duration, report_time: Duration) -> Self {
        Self {
            table: TABLE,
            routers: HashMap::new(),
            broken: Broken::default(),
            due: BTreeSet::new(),
            is_stopping: false,
            churn_limit,
            report_time,
            outputs: Vec::new(),
            #[cfg(test)]
            taken: BTreeSet::new(),
        }
    }

    /// When [`Input::Tick`] is to be given next.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, ..)| *at)
    }

    /// Whether a connected router has named all its circuits.
    pub(crate) fn has_reported(&self, router: &Id) -> bool {
        self.routers.get(router).is_some_and(|known| known.circuits.state == State::Reported)
    }

    /// Whether a router has reported the end of a circuit that was not known.
    pub(crate) fn has_ended(&self, connection: &Connection, circuit: &str) -> bool {
        self.of(connection).is_some_and(|known| known.ended.contains(circuit))
    }

    /// The routers that dialed links of a router that broke.
    pub(crate) fn dialers(&self, router: &Id) -> HashSet<Id> {
        self.broken.dialers(router)
    }

    /// Whether a link of a router that is not heard, which broke, may be back without a report: the router that dialed it
    /// is not connected or `silent`, and nobody has been asked about the link since it broke.
    pub(crate) fn may_have_link(&self, router: &Id, silent: &HashSet<Id>) -> bool {
        let is_unheard =
            |dialer: &Id| !self.routers.contains_key(dialer) || silent.contains(dialer);
        let dialed_by_others = self.broken.at(router).filter(|it| is_unheard(&it.link.source));
        let mut links = self.broken.dialed_by(router).chain(dialed_by_others);
        links.any(|link| link.state == State::Broken)
    }

    /// Why a further connection of a router may not replace the registered one. A connection that this controller dialed
    /// never replaces another: if both sides dial, one connection stays. Such a connection keeps its place while it
    /// answers; otherwise a router that also dials would end it each time.
    pub(crate) fn keeps_place(
        &self,
        now: Instant,
        router: &Id,
        is_dialed: bool,
        registered_answers: Option<bool>,
    ) -> Option<AlreadyConnected> {
        let (known, answers) = self.routers.get(router).zip(registered_answers)?;
        let age = now.saturating_duration_since(known.since);
        let stays = is_dialed || age < self.churn_limit || (known.is_dialed && answers);
        stays.then(|| AlreadyConnected { router: router.clone(), seconds: age.as_secs() })
    }

    /// Takes an input, and says what follows from it.
    pub(crate) fn step(&mut self, now: Instant, input: Input<'_>) -> Vec<Output> {
        match input {
            Input::Connected(newcomer) => self.connected(now, newcomer),
            Input::Ended { connection, may_carry } => {
                if self.of(connection).is_some() {
                    self.router_event(now, connection, Event::Ended);
                    if !may_carry {
                        self.router_event(now, connection, Event::ShutOut);
                    }
                }
            }
            Input::Stop => self.is_stopping = true,
            Input::ShutOut(router) => {
                self.forget_dialed(now, router);
                self.forget_others(now, router);
                let connection = Connection { router: router.clone(), number: 0 };
                self.router_event(now, &connection, Event::ShutOut);
            }
            Input::Part(connection, source) => {
                if let Some(known) = self.of_mut(connection) {
                    known.reports_by_itself |= source == Source::Report;
                }
                let [part, _] = source.events();
                self.event(now, connection, &Subject::Circuits, part);
            }
            Input::Expected(connection, source, circuits) => {
                if let Some(known) = self.of_mut(connection).filter(|it| it.is_named_by(source)) {
                    known.missing = circuits;
                }
            }
            Input::Named { connection, source, circuits, is_last } => {
                if let Some(known) = self.of_mut(connection).filter(|it| it.is_named_by(source)) {
                    circuits.iter().for_each(|id| _ = known.missing.remove(id));
                }
                let [_, complete] = source.events();
                if is_last {
                    self.event(now, connection, &Subject::Circuits, complete);
                }
            }
            Input::CircuitsUnanswered(connection) => {
                if let Some(known) = self.of_mut(connection) {
                    known.failures += 1;
                }
                self.event(now, connection, &Subject::Circuits, Event::Unanswered);
            }
            Input::CircuitEnded(connection, circuit) => {
                let known = self.of_mut(connection);
                if let Some(known) = known.filter(|it| it.circuits.state != State::Reported)
                    && known.ended.len() < MOST_ENDED
                {
                    known.ended.insert(circuit.to_owned());
                }
            }
            Input::Doubted(routers) => routers.iter().for_each(|router| self.doubt(now, router)),
            Input::Judged { connection, has_doubtful, has_unheard_dialer } => {
                let Some(known) = self.of(connection) else { return Vec::new() };
                let reports_faults = known.reports_by_itself && known.has_listed_links;
                let event = match self.broken.at(&connection.router).next() {
                    _ if has_unheard_dialer || (has_doubtful && !reports_faults) => {
                        Event::Uncertain
                    }
                    Some(_) => Event::Awaited,
                    None => Event::Certain,
                };
                self.event(now, connection, &Subject::Links, event);
            }
            Input::LinksListed { connection, asked_at, doubtful, links } => {
                self.links_listed(now, connection, asked_at, doubtful, links);
            }
            Input::LinksUnanswered(connection) => {
                self.event(now, connection, &Subject::Links, Event::Unanswered);
            }
            Input::LinkBroke(link) => self.link_event(now, link, Event::Broke),
            Input::LinkBack(link) => self.link_event(now, link, Event::Over),
            Input::BrokeAgain(router, link) => {
                let link = self.broken.get(router, link).map(|it| Arc::clone(&it.link));
                link.iter().for_each(|link| self.link_event(now, link, Event::Broke));
            }
            Input::Tick => self.tick(now),
        }
        std::mem::take(&mut self.outputs)
    }

    fn connected(&mut self, now: Instant, newcomer: Newcomer<'_>) {
        let Newcomer { connection, is_dialed, registered_answers, .. } = newcomer;
        let router = &connection.router;
        let kept = self.keeps_place(now, router, is_dialed, registered_answers);
        let kept = kept.map(NotConnected::from);
        if let Some(why) = self.is_stopping.then_some(NotConnected::Stopping).or(kept) {
            let row = self.router_transition(router, Event::Refused);
            if row.is_some_and(|row| row.actions.contains(&Action::Refuse)) {
                self.outputs.push(Output::Refuse(why));
            }
            return;
        }
        let former = self.connection_of(router);
        let Some(row) = self.router_transition(router, Event::Connected) else { return };
        self.end_waits(router);
        if row.next == State::Here {
            self.routers.insert(router.clone(), OnlineRouter::new(now, connection, is_dialed));
        }
        for action in row.actions {
            let of = if *action == Action::Close { former.as_ref() } else { Some(connection) };
            of.into_iter().for_each(|of| self.act(now, of, *action));
        }
        if !newcomer.lists_links {
            self.router_event(now, connection, Event::Unlisted);
        }
        if former.is_some() && !newcomer.may_carry {
            self.router_event(now, connection, Event::ShutOut);
        }
        self.forget_dialed(now, router);
    }

    fn links_listed(
        &mut self,
        now: Instant,
        connection: &Connection,
        asked_at: Instant,
        doubtful: &[Arc<Link>],
        links: &HashSet<String>,
    ) {
        let Some(known) = self.of_mut(connection) else { return };
        known.has_listed_links = true;
        let router = &connection.router;
        let gone = doubtful.iter().filter(|link| !links.contains(&link.id));
        let gone = gone.map(|link| Output::DropLink(Arc::clone(link)));
        // The answer says nothing of links that broke later.
        let broken = self.broken.at(router).filter(|it| it.broke_at < asked_at);
        let broken: Vec<(Arc<Link>, Instant)> =
            broken.map(|it| (Arc::clone(&it.link), it.broke_at)).collect();
        for (link, broke_at) in broken {
            if links.contains(&link.id) {
                self.link_event(now, &link, Event::Listed);
            } else if asked_at >= broke_at + REDIALED {
                self.link_event(now, &link, Event::NotListed);
            }
        }
        self.outputs.extend(gone);
        self.event(now, connection, &Subject::Links, Event::Answered);
    }

    fn tick(&mut self, now: Instant) {
        while self.next_due().is_some_and(|at| at <= now) {
            let Some((_, router, subject)) = self.due.pop_first() else { return };
            if let Subject::Link(id) = &subject {
                let link = self.broken.get(&router, id).map(|it| Arc::clone(&it.link));
                link.into_iter().for_each(|link| self.link_event(now, &link, Event::Over));
            } else if let Some(known) = self.routers.get_mut(&router) {
                known.part(&subject).due = None;
                let connection = known.connection.clone();
                self.event(now, &connection, &subject, Event::Due);
            }
        }
    }

    fn connection_of(&self, router: &Id) -> Option<Connection> {
        self.routers.get(router).map(|known| known.connection.clone())
    }

    fn of(&self, connection: &Connection) -> Option<&OnlineRouter> {
        self.routers.get(&connection.router).filter(|known| known.connection == *connection)
    }

    fn of_mut(&mut self, connection: &Connection) -> Option<&mut OnlineRouter> {
        self.routers.get_mut(&connection.router).filter(|known| known.connection == *connection)
    }

    /// The transition from a state by an event.
    fn transition(&mut self, state: State, event: Event) -> Option<Row> {
        let at = self.table.iter().position(|row| row.state == state && row.event == event)?;
        #[cfg(test)]
        self.taken.insert(at);
        #[cfg(feature = "testing")]
        crate::coverage::count("presence", self.table, at, |row| (row.state, row.event));
        Some(self.table[at])
    }

    fn router_transition(&mut self, router: &Id, event: Event) -> Option<Row> {
        let is_here = self.routers.contains_key(router);
        self.transition(if is_here { State::Here } else { State::Away }, event)
    }

    /// An event of a router, other than a connection that counts.
    fn router_event(&mut self, now: Instant, connection: &Connection, event: Event) {
        let router = &connection.router;
        let Some(row) = self.router_transition(router, event) else { return };
        row.actions.iter().for_each(|action| self.act(now, connection, *action));
        if row.next == State::Away {
            self.end_waits(router);
            self.routers.remove(router);
        }
    }

    /// An event of the circuits or links of a router; of no meaning if another connection is registered.
    fn event(&mut self, now: Instant, connection: &Connection, subject: &Subject, event: Event) {
        let Some(known) = self.of_mut(connection) else { return };
        let state = known.part(subject).state;
        let Some(row) = self.transition(state, event) else { return };
        self.wait(connection, subject, None);
        if let Some(known) = self.of_mut(connection) {
            known.part(subject).state = row.next;
        }
        row.actions.iter().for_each(|action| self.act(now, connection, *action));
        if row.next == State::Reported
            && let Some(known) = self.of_mut(connection)
        {
            known.ended = HashSet::new();
        }
    }

    fn doubt(&mut self, now: Instant, router: &Id) {
        if let Some(connection) = self.connection_of(router) {
            self.event(now, &connection, &Subject::Links, Event::Doubted);
        }
    }

    /// An event of a link that broke.
    fn link_event(&mut self, now: Instant, link: &Arc<Link>, event: Event) {
        let router = &link.destination;
        let known = self.broken.get(router, &link.id);
        let (state, broke_at) = known.map_or((State::Known, now), |it| (it.state, it.broke_at));
        if state == State::Known && !self.broken.has_room(&link.source) {
            return;
        }
        let Some(row) = self.transition(state, event) else { return };
        let waits = row.actions.contains(&Action::AwaitReturn);
        let due = |at: Instant| (at + RETURN, router.clone(), Subject::Link(link.id.clone()));
        if waits || row.next == State::Known {
            self.due.remove(&due(broke_at));
        }
        let broke_at = if waits { now } else { broke_at };
        match row.next {
            State::Known => _ = self.broken.remove(link),
            state => self.broken.put(BrokenLink { link: Arc::clone(link), state, broke_at }),
        }
        for action in row.actions {
            match action {
                Action::AwaitReturn => _ = self.due.insert(due(broke_at)),
                Action::Doubt => self.doubt(now, router),
                Action::Restore => self.outputs.push(Output::Restore(Arc::clone(link))),
                _ => {}
            }
        }
    }

    /// Waits no more for links that a router dialed: it says by itself which of them it has, or may have none.
    fn forget_dialed(&mut self, now: Instant, router: &Id) {
        let broken = self.broken.dialed_by(router).map(|it| Arc::clone(&it.link));
        let broken: Vec<Arc<Link>> = broken.collect();
        broken.iter().for_each(|link| self.link_event(now, link, Event::Over));
    }

    /// Waits no more for links that other routers dialed to a router.
    fn forget_others(&mut self, now: Instant, router: &Id) {
        let broken = self.broken.at(router).map(|it| Arc::clone(&it.link));
        let broken: Vec<Arc<Link>> = broken.collect();
        broken.iter().for_each(|link| self.link_event(now, link, Event::Over));
    }

    /// Begins a wait of the circuits or links of a router in the place of what they waited for, or ends it.
    fn wait(&mut self, connection: &Connection, subject: &Subject, until: Option<Instant>) {
        let Some(known) = self.of_mut(connection) else { return };
        let due = |at: Instant| (at, connection.router.clone(), subject.clone());
        let former = std::mem::replace(&mut known.part(subject).due, until);
        former.into_iter().for_each(|at| _ = self.due.remove(&due(at)));
        until.into_iter().for_each(|at| _ = self.due.insert(due(at)));
    }

    fn end_waits(&mut self, router: &Id) {
        if let Some(connection) = self.connection_of(router) {
            self.wait(&connection, &Subject::Circuits, None);
            self.wait(&connection, &Subject::Links, None);
        }
    }

    /// Acts for a router, its circuits or its links.
    fn act(&mut self, now: Instant, connection: &Connection, action: Action) {
        let (of, router) = (connection.clone(), connection.router.clone());
        let wait = |time| Some(now + time);
        let output = match action {
            Action::Register => Output::Register(of),
            Action::Close => Output::Close(of),
            Action::Unregister => Output::Unregister(of),
            Action::Come => Output::Come(of),
            Action::Leave => Output::Leave(router),
            Action::GoOffline => Output::GoOffline(of),
            Action::DropDialed => Output::DropDialed(router),
            Action::ShutOut => Output::ShutOut(router),
            Action::AwaitReport => {
                let failures = self.of(connection).map_or(0, |known| known.failures);
                let time = if failures < FAILURES { self.report_time } else { SELDOM };
                return self.wait(connection, &Subject::Circuits, wait(time));
            }
            Action::AwaitRest => return self.wait(connection, &Subject::Circuits, wait(REST)),
            Action::AwaitCheck => return self.wait(connection, &Subject::Links, wait(CHECK)),
            Action::AskCircuits => Output::AskCircuits(of),
            Action::Expect => Output::Expect(of),
            Action::Take => Output::Take,
            Action::TellMissing => {
                let missing = self.of_mut(connection).map(|it| std::mem::take(&mut it.missing));
                Output::NotCarried(of, missing.unwrap_or_default())
            }
            Action::LookForGaps => Output::LookForGaps,
            Action::JudgeLinks => Output::JudgeLinks(of, self.broken.dialers(&router)),
            Action::AskLinks => Output::AskLinks(of),
            Action::Refuse | Action::AwaitReturn | Action::Doubt | Action::Restore => return,
        };
        self.outputs.push(output);
    }
}

impl Source {
    /// The events of a part and of the last part.
    fn events(self) -> [Event; 2] {
        match self {
            Self::Report => [Event::Part, Event::Complete],
            Self::Answer => [Event::AnswerPart, Event::AnswerComplete],
        }
    }
}

impl OnlineRouter {
    fn new(now: Instant, connection: &Connection, is_dialed: bool) -> Self {
        Self {
            connection: connection.clone(),
            since: now,
            is_dialed,
            circuits: Part { state: State::Unreported, due: None },
            links: Part { state: State::Doubtful, due: None },
            failures: 0,
            reports_by_itself: false,
            has_listed_links: false,
            missing: HashSet::new(),
            ended: HashSet::new(),
        }
    }

    fn part(&mut self, subject: &Subject) -> &mut Part {
        match subject {
            Subject::Circuits => &mut self.circuits,
            Subject::Links | Subject::Link(_) => &mut self.links,
        }
    }

    /// Whether its circuits are named by this source now. A report counts more than an answer.
    fn is_named_by(&self, source: Source) -> bool {
        let state = match source {
            Source::Report => State::Reporting,
            Source::Answer => State::Answering,
        };
        self.circuits.state == state
    }
}
