//! Routers, hosts, and the circuit that is dialed among them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weft_model::Base;
use weft_model::entity::Terminator;
use weft_paths::path::Path;

use super::*;
use crate::clock;
use crate::dice::Dice;

/// The time for the answers to an attempt.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The router of the dialer.
const DIALER: &str = "r0";

/// A message that a router has not read.
#[derive(Debug, Clone)]
enum Mail {
    /// The route of an attempt under this id, and when it was sent.
    Route {
        circuit: u32,
        attempt: u32,
    },
    Unroute {
        circuit: u32,
    },
}

/// What a router does with a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Good,
    /// It takes no new circuits.
    Full,
    /// It refuses for another reason.
    Refusing,
    /// It answers late, after the time of the attempt.
    Silent,
    /// It is not connected.
    Gone,
}

#[derive(Debug)]
struct Router {
    manner: Manner,
    /// Its routes: the attempt of each circuit.
    routes: BTreeMap<u32, u32>,
    mail: VecDeque<Mail>,
}

pub(super) struct World {
    dice: Dice,
    shows: bool,
    start: Instant,
    now: Instant,
    terms: DialTerms,
    dial: Dial,
    routers: BTreeMap<Id, Router>,
    terminators: Vec<Arc<Terminator>>,
    /// Hosts without room for another circuit in the making.
    full_hosts: BTreeSet<Id>,
    /// The present id of the circuit, and the number of ids.
    circuit: u32,
    ids: u32,
    /// Routes that the routers of the present attempt are asked for.
    asked: Option<(u32, u32)>,
    deadline: Instant,
    /// Answers that have arrived.
    answers: VecDeque<(Id, Result<PeerData, RouteError>)>,
    /// Whether the circuit has ended while it was made.
    has_ended: bool,
    /// The path of the circuit in the table.
    entered: Option<Vec<Id>>,
    told: Vec<(u32, u32)>,
    /// A router that was unrouted without a route.
    surplus: Option<Id>,
    /// The circuits of which each router was to be sent a route.
    sent: BTreeSet<(Id, u32)>,
    failures: u32,
    /// Terminators at whose routers an attempt failed.
    failed_at: BTreeSet<Id>,
}

type Played<T = ()> = Result<T, String>;

/// The data that a host sends for an attempt.
fn data_of(attempt: u32) -> PeerData {
    PeerData::from([(attempt, bytes::Bytes::from_static(b"host"))])
}

/// Some way to treat routes.
fn manner(dice: &mut Dice) -> Manner {
    match dice.below(10) {
        0 | 1 => Manner::Full,
        2 => Manner::Refusing,
        3 => Manner::Silent,
        4 => Manner::Gone,
        _ => Manner::Good,
    }
}

impl World {
    /// Plays a seed. Returns the rows that were taken.
    pub(super) fn play(seed: u64, table: &'static [Row], shows: bool) -> Played<BTreeSet<usize>> {
        let mut world = Self::new(seed, table, shows);
        let made = world.run()?;
        world.check_end(made)?;
        Ok(world.dial.taken.iter().copied().collect())
    }

    fn new(seed: u64, table: &'static [Row], shows: bool) -> Self {
        let mut dice = Dice(seed);
        let count = 2 + dice.below(5);
        let start = clock::now();
        let router = |dice: &mut Dice| Router {
            manner: manner(dice),
            routes: BTreeMap::new(),
            mail: VecDeque::new(),
        };
        let routers =
            (0..count).map(|at| (Id::new(&format!("r{at}")), router(&mut dice))).collect();
        let hosts = 1 + dice.below(3);
        let terminators = (0..dice.below(4)).map(|at| {
            let base = Base::new(Id::new(&format!("t{at}")), weft_model::Timestamp(0));
            let router_id = Id::new(&format!("r{}", dice.below(count)));
            let host_id = Id::new(&format!("host{}", dice.below(hosts)));
            let service_id = Id::new("mail");
            Arc::new(Terminator { base, router_id, host_id, service_id, ..Terminator::default() })
        });
        let terminators = terminators.collect();
        let full_hosts =
            (0..hosts).filter(|_| dice.once_in(4)).map(|at| Id::new(&format!("host{at}")));
        let full_hosts = full_hosts.collect();
        let terms = DialTerms {
            attempts: 1 + dice.below(3) as u32,
            timeout: TIMEOUT,
            has_fixed_id: dice.once_in(3),
        };
        let mut dial = Dial::new(terms, start);
        dial.table = table;
        Self {
            dice,
            shows,
            start,
            now: start,
            terms,
            dial,
            routers,
            terminators,
            full_hosts,
            circuit: 1,
            ids: 1,
            asked: None,
            deadline: start,
            answers: VecDeque::new(),
            has_ended: false,
            entered: None,
            told: Vec::new(),
            surplus: None,
            sent: BTreeSet::new(),
            failures: 0,
            failed_at: BTreeSet::new(),
        }
    }

    fn say(&self, what: std::fmt::Arguments<'_>) {
        if self.shows {
            println!("{:>6} ms  {what}", (self.now - self.start).as_millis());
        }
    }

    /// Plays the dial to its end: whether the circuit is made.
    fn run(&mut self) -> Played<bool> {
        let mut output = Output::Choose;
        for _ in 0..200 {
            self.say(format_args!("{output:?}"));
            let input = match output {
                Output::Choose => self.choose()?,
                Output::Pause(time) => {
                    self.now += time;
                    // Whoever had no room may have some now.
                    let (dice, full) = (&mut self.dice, &mut self.full_hosts);
                    if dice.once_in(8) {
                        self.terminators.clear();
                    }
                    full.retain(|_| dice.once_in(3));
                    for router in self.routers.values_mut() {
                        if router.manner == Manner::Full && dice.once_in(2) {
                            router.manner = Manner::Good;
                        }
                    }
                    Input::Due
                }
                Output::Tell(attempt) => self.tell(attempt)?,
                Output::Listen => self.listen()?,
                Output::Rename => Input::Renamed(self.rename()),
                Output::Enter(data) => self.enter(&data)?,
                Output::Finish => return Ok(true),
                Output::Fail { is_repeated } => {
                    if is_repeated != (self.failures > 1) {
                        return Err(format!("{} attempts failed: {is_repeated}", self.failures));
                    }
                    self.unroute_all_but(&[]);
                    return Ok(false);
                }
            };
            self.say(format_args!("    {input:?}"));
            let (failed, detours) = (self.dial.failed, self.dial.detours);
            output = self.dial.step(input, self.now);
            self.failures += self.dial.failed - failed;
            let is_over = matches!(output, Output::Finish | Output::Fail { .. });
            if is_over != (self.dial.state == State::Over) {
                return Err(format!("{output:?} in {:?}", self.dial.state));
            }
            let has_failed = self.dial.failed + self.dial.detours > failed + detours;
            match self.dial.take_failure() {
                None if has_failed => return Err("a failure has no reason".into()),
                Some(_) => self.end_attempt(),
                None => {}
            }
        }
        Err("the dial does not end".into())
    }

    fn end_attempt(&mut self) {
        self.asked = None;
        self.answers.clear();
        let dice = &mut self.dice;
        for router in self.routers.values_mut() {
            if dice.once_in(6) {
                router.manner = manner(dice);
            }
        }
    }

    /// Chooses a terminator as the controller does: one that was not tried if there is one.
    fn choose(&mut self) -> Played<Input> {
        let avoided = self.dial.avoided();
        let mut good: Vec<_> = self.terminators.iter().filter(|it| !avoided.has(it)).collect();
        if good.iter().any(|it| self.failed_at.contains(&it.base.id)) {
            return Err("a terminator at which an attempt failed is not avoided".into());
        }
        if good.is_empty() {
            good = self.terminators.iter().collect();
        }
        let Some(terminator) = good.get(self.dice.below(good.len())).copied().cloned() else {
            let (cause, text) = (FailureCause::NoTerminators, String::new());
            return Ok(Input::NotChosen(Failure { cause, text }));
        };
        let mut nodes = vec![Id::new(DIALER)];
        let between: Vec<Id> = self.routers.keys().cloned().collect();
        if terminator.router_id.as_str() != DIALER {
            let fits = |it: &&Id| it.as_str() != DIALER && **it != terminator.router_id;
            let fits: Vec<&Id> = between.iter().filter(fits).collect();
            if let Some(transit) = fits.get(self.dice.below(fits.len() + 1)) {
                nodes.push((*transit).clone());
            }
            nodes.push(terminator.router_id.clone());
        }
        let path = Path { nodes, ..Path::default() };
        Ok(Input::Chosen(Arc::new(DialTarget { terminator, path, is_counted: true, number: 0 })))
    }

    fn tell(&mut self, attempt: u32) -> Played<Input> {
        let Some(target) = self.dial.target().cloned() else { return Err("no target".into()) };
        if self.told.contains(&(self.circuit, attempt)) {
            return Err("two attempts of a circuit have one number".into());
        }
        self.told.push((self.circuit, attempt));
        if self.has_ended || self.dice.once_in(40) {
            self.has_ended = true;
            return Ok(Input::Ended);
        }
        if self.full_hosts.contains(&target.terminator.host_id) {
            return Ok(Input::HostFull);
        }
        self.dial.routes_are_sent();
        self.deadline = self.now + TIMEOUT;
        self.asked = Some((self.circuit, attempt));
        let mut unsent = None;
        for node in &target.path.nodes {
            let Some(router) = self.routers.get_mut(node) else { continue };
            if router.manner == Manner::Gone {
                unsent = Some(node.clone());
            }
            self.sent.insert((node.clone(), self.circuit));
            // What was not sent in time may be sent later.
            if router.manner != Manner::Gone || self.dice.once_in(2) {
                router.mail.push_back(Mail::Route { circuit: self.circuit, attempt });
            }
        }
        match unsent {
            Some(router) => {
                self.note_failure_at(&router);
                Ok(Input::Unsent(router, "not connected".into()))
            }
            None => self.listen(),
        }
    }

    fn note_failure_at(&mut self, router: &Id) {
        let target = self.dial.target().filter(|target| target.terminator.router_id == *router);
        self.failed_at.extend(target.map(|target| target.terminator.base.id.clone()));
    }

    fn listen(&mut self) -> Played<Input> {
        loop {
            if self.dice.once_in(60) {
                self.has_ended = true;
                return Ok(Input::Ended);
            }
            if self.dice.once_in(60) {
                return Ok(Input::HostFull);
            }
            if let Some((router, answer)) = self.answers.pop_front() {
                if !self.dial.missing().contains(&router) {
                    return Err(format!("{router} has answered before"));
                }
                return Ok(match answer {
                    Ok(data) => Input::Set(router, data),
                    Err(error) => {
                        self.note_failure_at(&router);
                        Input::Refused(router, error)
                    }
                });
            }
            self.now += self.dice.millis(400);
            if self.now >= self.deadline {
                self.now = self.deadline;
                let silent = self.dial.missing().first().cloned();
                silent.iter().for_each(|router| self.note_failure_at(router));
                return Ok(Input::Due);
            }
            self.read_some(false);
        }
    }

    /// Routers read some of their messages; `all`: all of them read everything.
    fn read_some(&mut self, all: bool) {
        let ids: Vec<Id> = self.routers.keys().cloned().collect();
        for id in ids {
            let is_silent = self.routers[&id].manner == Manner::Silent;
            if !all && (is_silent || self.dice.once_in(2)) {
                continue;
            }
            while let Some(mail) = self.routers.get_mut(&id).and_then(|it| it.mail.pop_front()) {
                self.read(&id, mail);
                if !all && self.dice.once_in(2) {
                    break;
                }
            }
        }
    }

    fn read(&mut self, id: &Id, mail: Mail) {
        let Some(router) = self.routers.get_mut(id) else { return };
        let (circuit, attempt) = match mail {
            Mail::Route { circuit, attempt } => (circuit, attempt),
            Mail::Unroute { circuit } => {
                router.routes.remove(&circuit);
                return;
            }
        };
        let code = match router.manner {
            Manner::Full => Some(RouteErrorCode::ResourcesNotAvailable),
            Manner::Refusing => Some(RouteErrorCode::ConnectionRefused),
            _ => None,
        };
        let answer = match code {
            Some(code) => Err(RouteError { code, text: String::new() }),
            None => {
                router.routes.insert(circuit, attempt);
                Ok(data_of(attempt))
            }
        };
        self.say(format_args!("        {id} answers {circuit}/{attempt}: {}", answer.is_ok()));
        let is_asked = self.dial.missing().contains(id);
        if self.asked == Some((circuit, attempt)) && is_asked {
            self.answers.push_back((id.clone(), answer));
            return;
        }
        // A late answer. The router of the present attempt replaces its route, and others are told to forget it.
        let is_on = self.entered.as_ref().is_some_and(|path| path.contains(id));
        let is_present = circuit == self.circuit && (is_asked || is_on);
        if answer.is_ok() && !is_present {
            self.unroute(id, circuit);
        }
    }

    fn unroute(&mut self, router: &Id, circuit: u32) {
        let Some(router) = self.routers.get_mut(router) else { return };
        router.mail.push_back(Mail::Unroute { circuit });
    }

    fn unroute_all_but(&mut self, kept: &[Id]) {
        for router in self.dial.take_told(kept) {
            if !self.sent.contains(&(router.clone(), self.circuit)) {
                self.surplus.get_or_insert(router.clone());
            }
            self.unroute(&router, self.circuit);
        }
    }

    fn rename(&mut self) -> bool {
        if self.dice.once_in(20) {
            return false;
        }
        self.unroute_all_but(&[]);
        self.ids += 1;
        self.circuit = self.ids;
        true
    }

    fn enter(&mut self, data: &PeerData) -> Played<Input> {
        let Some(target) = self.dial.target().cloned() else { return Err("no target".into()) };
        let attempt = self.asked.map(|(_, attempt)| attempt).unwrap_or_default();
        let nodes = &target.path.nodes;
        let has_route = |node: &Id| self.routers[node].routes.get(&self.circuit) == Some(&attempt);
        if !nodes.iter().all(has_route) {
            return Err("a router of the path has no route".into());
        }
        if *data != data_of(attempt) {
            return Err(format!("the data of attempt {attempt} are {data:?}"));
        }
        self.unroute_all_but(nodes);
        self.end_attempt();
        if self.has_ended || self.dice.once_in(10) {
            return Ok(Input::Ended);
        }
        self.entered = Some(nodes.clone());
        Ok(Input::Entered)
    }

    /// When all routers have read everything, they have the routes of the circuit and no others.
    fn check_end(&mut self, made: bool) -> Played {
        if made != self.entered.is_some() {
            return Err(format!("made: {made}, in the table: {:?}", self.entered));
        }
        // Attempts that count last as long as the time limit each; the others begin within that time.
        let most = (self.terms.attempts + 1) * TIMEOUT + PAUSE;
        if self.now - self.start > most {
            return Err("the dial took too long".into());
        }
        if self.failures > self.terms.attempts || self.dial.detours > DETOURS {
            return Err("too many attempts".into());
        }
        if !made && !self.has_ended && self.dial.failed == 0 && !self.terminators.is_empty() {
            let was_lost =
                self.dial.taken.last().is_some_and(|row| TABLE[*row].event == Event::Ended);
            if !was_lost {
                return Err("a dial ends before an attempt has failed".into());
            }
        }
        if self.terms.has_fixed_id && self.ids > 1 {
            return Err("the circuit has another id than its router chose".into());
        }
        if let Some(router) = &self.surplus {
            return Err(format!("{router} is unrouted, and was to be sent no route"));
        }
        self.read_some(true);
        for (id, router) in &self.routers {
            let should = self.entered.as_ref().is_some_and(|path| path.contains(id));
            let expected: Vec<u32> = should.then_some(self.circuit).into_iter().collect();
            let has: Vec<u32> = router.routes.keys().copied().collect();
            if has != expected {
                return Err(format!("{id} has routes of {has:?}, not of {expected:?}"));
            }
        }
        Ok(())
    }
}
