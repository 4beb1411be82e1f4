//! The controller's tables, and all that is on its way between them and the routers.

use std::collections::BTreeMap;

use super::routers::{KnownCircuit, Mail, Played, PlayedConnection, PlayedLink, link, links};
use super::*;
use crate::dice::Dice;

pub(super) const CHURN: Duration = Duration::from_secs(20);
const REPORT_TIME: Duration = Duration::from_secs(3);
/// How long the troubles last, and the quiet after them.
const TROUBLES: Duration = Duration::from_secs(900);
const QUIET: Duration = Duration::from_secs(900);
pub(super) const ROUTERS: usize = 3;
/// How long it takes at most to handle a part of a report, in milliseconds.
const HANDLING: u64 = 700;
/// Most circuits of a router.
const CIRCUITS: usize = 4;

pub(super) struct World {
    dice: Dice,
    shows: bool,
    start: Instant,
    pub(super) now: Instant,
    pub(super) machine: Machine,
    pub(super) routers: Vec<Played>,
    pub(super) true_links: BTreeMap<String, PlayedLink>,
    pub(super) connections: BTreeMap<u64, PlayedConnection>,
    last_connection: u64,
    last_circuit: u64,
    /// The table of connected routers.
    pub(super) registered: BTreeMap<usize, u64>,
    /// The connections that count as online for others.
    pub(super) online: BTreeMap<usize, u64>,
    /// The routers of which others were told that they are connected.
    pub(super) told: BTreeSet<usize>,
    pub(super) links: BTreeMap<String, Arc<Link>>,
    pub(super) circuits: BTreeMap<String, KnownCircuit>,
    /// Circuits that have ended: none of them is adopted.
    ended: BTreeSet<String>,
    pub(super) mail: BTreeMap<(Instant, u64), Mail>,
    sent: u64,
    /// When the last news of links arrive over each connection.
    news: BTreeMap<u64, Instant>,
    pub(super) is_quiet: bool,
    steadiness: usize,
}

impl World {
    pub(super) fn new(seed: u64, table: &'static [Row], shows: bool) -> Self {
        let now = Instant::now();
        let mut dice = Dice(seed);
        let steadiness = [2, 6, 20][dice.below(3)];
        let mut router = |at: usize| Played {
            id: Id::new(&format!("r{at}")),
            is_weft: dice.once_in(2),
            lists_links: !dice.once_in(3),
            may_carry: true,
            answers: true,
            ..Played::default()
        };
        let routers = (0..ROUTERS).map(&mut router).collect();
        Self {
            dice,
            shows,
            start: now,
            now,
            machine: Machine { table, ..Machine::new(CHURN, REPORT_TIME) },
            routers,
            true_links: links(ROUTERS),
            connections: BTreeMap::new(),
            last_connection: 0,
            last_circuit: 0,
            registered: BTreeMap::new(),
            online: BTreeMap::new(),
            told: BTreeSet::new(),
            links: BTreeMap::new(),
            circuits: BTreeMap::new(),
            ended: BTreeSet::new(),
            mail: BTreeMap::new(),
            sent: 0,
            news: BTreeMap::new(),
            is_quiet: false,
            steadiness,
        }
    }

    pub(super) fn age(&self) -> Duration {
        self.now - self.start
    }

    pub(super) fn play(&mut self) -> Result<(), String> {
        self.pass(TROUBLES)?;
        self.is_quiet = true;
        self.routers.iter_mut().for_each(|it| (it.may_carry, it.answers) = (true, true));
        // Perhaps one router stays unheard.
        let from = self.dice.below(2);
        if from == 1 {
            self.close(0);
        }
        for router in from..ROUTERS {
            while self.open(router).is_none() {
                self.pass(CHURN)?;
                self.connect(router, false)?;
            }
        }
        self.pass(QUIET)?;
        self.check_quiet()?;
        self.stop()
    }

    fn stop(&mut self) -> Result<(), String> {
        self.step(Input::Stop)?;
        for router in 0..ROUTERS {
            let before = self.registered.get(&router).copied();
            self.connect(router, false)?;
            if self.registered.get(&router).copied() != before {
                return Err("a router connects to a controller that stops".into());
            }
        }
        (0..ROUTERS).for_each(|router| self.close(router));
        self.pass(Duration::from_secs(200))?;
        self.check_empty()
    }

    /// Lets time pass: mail arrives, what is due comes, and in the troubles things happen.
    fn pass(&mut self, time: Duration) -> Result<(), String> {
        let end = self.now + time;
        while self.now < end {
            if !self.is_quiet {
                self.trouble()?;
            }
            let next = self.now + self.dice.millis(4_000);
            loop {
                let mail = self.mail.first_key_value().map(|((at, _), _)| *at);
                let due = self.machine.next_due();
                let first = mail.into_iter().chain(due).min();
                let Some(at) = first.filter(|at| *at <= next) else { break };
                self.now = self.now.max(at);
                match mail.filter(|mail| *mail <= at).and_then(|_| self.mail.pop_first()) {
                    Some((_, mail)) => self.arrive(mail)?,
                    None => self.step(Input::Tick)?,
                }
            }
            self.now = next;
        }
        Ok(())
    }

    fn send(&mut self, within: u64, mail: Mail) {
        self.send_after(0, within, mail);
    }

    fn send_after(&mut self, millis: u64, within: u64, mail: Mail) {
        self.sent += 1;
        let at = self.now + Duration::from_millis(millis) + self.dice.millis(within);
        self.mail.insert((at, self.sent), mail);
    }

    /// Sends news of links over a connection, which keeps their order.
    fn tell(&mut self, connection: u64, within: u64, mail: Mail) {
        let at = self.now + self.dice.millis(within);
        let last = self.news.entry(connection).or_insert(at);
        *last = at.max(*last);
        self.sent += 1;
        self.mail.insert((*last, self.sent), mail);
    }

    fn trouble(&mut self) -> Result<(), String> {
        let router = self.dice.below(ROUTERS);
        let is_steady = !self.dice.once_in(self.steadiness);
        match self.dice.below(16) {
            0..=2 if is_steady && self.open(router).is_some() => {}
            0 | 1 => {
                let is_dialed = self.dice.once_in(3);
                self.connect(router, is_dialed)?;
            }
            2 => self.close(router),
            3 if !is_steady => {
                // It restarts.
                self.close(router);
                self.routers[router].circuits.clear();
            }
            4 if !is_steady => {
                let may_carry = !self.routers[router].may_carry;
                self.routers[router].may_carry = may_carry;
                if !may_carry {
                    let id = self.routers[router].id.clone();
                    self.step(Input::ShutOut(&id))?;
                    self.check_shut_out(router)?;
                    self.close(router);
                }
            }
            5 => self.routers[router].answers = !self.dice.once_in(3),
            6..=8 => self.circuit(router),
            9 | 10 => self.circuit_ends(router),
            11..=15 => self.link_changes(),
            _ => {}
        }
        Ok(())
    }

    /// The open connection of a router.
    pub(super) fn open(&self, router: usize) -> Option<Connection> {
        let mut open = self.connections.iter().rev();
        let open = open.find(|(_, it)| it.router == router && !it.is_closed);
        open.map(|(number, _)| self.connection(router, *number))
    }

    fn connection(&self, router: usize, number: u64) -> Connection {
        Connection { router: self.routers[router].id.clone(), number }
    }

    fn is_open(&self, of: &Connection) -> bool {
        self.connections.get(&of.number).is_some_and(|it| !it.is_closed)
    }

    pub(super) fn index(&self, router: &Id) -> usize {
        self.routers.iter().position(|played| played.id == *router).unwrap()
    }

    fn registered_answers(&self, router: usize) -> Option<bool> {
        let number = self.registered.get(&router)?;
        (!self.connections[number].is_closed).then_some(self.routers[router].answers)
    }

    fn connect(&mut self, router: usize, is_dialed: bool) -> Result<(), String> {
        self.last_connection += 1;
        let connection = self.connection(router, self.last_connection);
        let since = self.now;
        let played = PlayedConnection { router, since, is_dialed, is_closed: false };
        let is_refused = self.expects_refusal(router, is_dialed);
        let is_stopping = self.machine.is_stopping;
        self.connections.insert(connection.number, played);
        let Played { lists_links, may_carry, is_weft, .. } = self.routers[router];
        let registered_answers = self.registered_answers(router);
        let connection = &connection;
        let newcomer =
            Newcomer { connection, is_dialed, lists_links, may_carry, registered_answers };
        let outputs = self.step_of(Input::Connected(newcomer))?;
        let refused = outputs.iter().any(|it| matches!(it, Output::Refuse(_)));
        if refused != (is_refused || is_stopping) {
            return Err(format!("refused: {refused}, to be refused: {is_refused}"));
        }
        if refused {
            self.connections.remove(&connection.number);
            return self.check_tables();
        }
        self.check_connected(router, connection.number)?;
        if !may_carry {
            self.close(router);
        }
        let all: Vec<String> = self.routers[router].circuits.iter().cloned().collect();
        if is_weft {
            let parts = self.parts(&all);
            let of = connection.clone();
            self.send(6_000, Mail::Parts { of, source: Source::Report, parts });
        }
        self.report_links(connection, true);
        Ok(())
    }

    fn parts(&mut self, all: &[String]) -> Vec<Vec<String>> {
        let size = 1 + self.dice.below(CIRCUITS);
        let mut parts: Vec<Vec<String>> = all.chunks(size).map(<[String]>::to_vec).collect();
        if parts.is_empty() || self.dice.once_in(4) {
            parts.push(Vec::new());
        }
        parts
    }

    fn report_links(&mut self, of: &Connection, is_first: bool) {
        let router = self.index(&of.router);
        let own = self.true_links.iter().filter(|(_, it)| it.source == router && it.is_up);
        let links = own.map(|(id, it)| (id.clone(), it.iteration)).collect();
        let of = of.clone();
        self.tell(of.number, 200, Mail::LinkReport { of, is_first, links });
    }

    pub(super) fn close(&mut self, router: usize) {
        if let Some(of) = self.open(router) {
            self.close_connection(&of);
        }
    }

    fn close_connection(&mut self, of: &Connection) {
        self.connections.entry(of.number).and_modify(|it| it.is_closed = true);
        self.send(3_000, Mail::Ended(of.clone()));
    }

    fn circuit(&mut self, router: usize) {
        let is_full = self.routers[router].circuits.len() >= CIRCUITS;
        if self.registered.contains_key(&router) && self.open(router).is_some() && !is_full {
            self.last_circuit += 1;
            let id = format!("c{}", self.last_circuit);
            self.routers[router].circuits.insert(id.clone());
            // Perhaps it is a circuit of an earlier run.
            if !self.dice.once_in(4) {
                self.circuits.insert(id, KnownCircuit { router, since: self.now });
            }
        }
    }

    fn circuit_ends(&mut self, router: usize) {
        let circuits: Vec<String> = self.routers[router].circuits.iter().cloned().collect();
        let Some(id) = circuits.get(self.dice.below(CIRCUITS)) else { return };
        self.routers[router].circuits.remove(id);
        let Some(of) = self.open(router) else { return };
        // A report that follows does not name it, and what the router has sent before is handled before.
        for mail in self.mail.values_mut() {
            if let Mail::Parts { of: it, source: Source::Report, parts } = mail
                && *it == of
            {
                parts.iter_mut().for_each(|part| part.retain(|named| named != id));
            }
        }
        self.send_after(HANDLING, 50, Mail::CircuitFault(of, id.clone()));
    }

    fn link_changes(&mut self) {
        let at = self.dice.below(self.true_links.len());
        let Some((id, known)) = self.true_links.iter_mut().nth(at) else { return };
        let (id, source, destination) = (id.clone(), known.source, known.destination);
        known.is_up = !known.is_up;
        if known.is_up {
            known.iteration += 1;
            if let Some(of) = self.open(source) {
                self.report_links(&of, false);
            }
            return;
        }
        let iteration = known.iteration;
        for end in [source, destination] {
            let reports = end == source || self.routers[end].is_weft;
            if let Some(of) = self.open(end).filter(|_| reports) {
                self.tell(of.number, 50, Mail::LinkFault(of, id.clone(), iteration));
            }
        }
    }

    /// Gives the machine an input, and carries out what follows from it.
    pub(super) fn step(&mut self, input: Input<'_>) -> Result<(), String> {
        self.step_of(input)?;
        self.check_tables()
    }

    /// The same, without checks. Returns what followed.
    fn step_of(&mut self, input: Input<'_>) -> Result<Vec<Output>, String> {
        let outputs = self.machine.step(self.now, input);
        if self.shows {
            println!("{:?} {outputs:?}", self.age());
        }
        outputs.iter().try_for_each(|output| self.carry_out(output))?;
        Ok(outputs)
    }

    fn carry_out(&mut self, output: &Output) -> Result<(), String> {
        match output {
            Output::Refuse(_) | Output::Expect(_) | Output::Take | Output::LookForGaps => {}
            Output::Register(of) => {
                let router = self.index(&of.router);
                self.registered.insert(router, of.number);
            }
            Output::Close(of) => self.close_connection(of),
            Output::Unregister(of) => _ = self.registered.remove(&self.index(&of.router)),
            Output::Come(of) => {
                let router = self.index(&of.router);
                self.online.insert(router, of.number);
                if !self.told.insert(router) {
                    return Err(format!("{} has connected twice", of.router));
                }
            }
            Output::Leave(router) => {
                if !self.told.remove(&self.index(router)) {
                    return Err(format!("{router} was lost twice"));
                }
                let ends = self.links.values().filter(|link| link.has_end(router.as_str()));
                let neighbours: Vec<Id> =
                    ends.map(|link| link.other_end(router.as_str()).clone()).collect();
                self.step_of(Input::Doubted(&neighbours))?;
            }
            Output::GoOffline(of) => _ = self.online.remove(&self.index(&of.router)),
            Output::DropDialed(router) => self.links.retain(|_, link| link.source != *router),
            Output::ShutOut(router) => {
                let at = self.index(router);
                self.links.retain(|_, link| !link.has_end(router.as_str()));
                let ended = self.circuits.extract_if(.., |_, it| it.router == at);
                self.ended.extend(ended.map(|(id, _)| id));
            }
            Output::AskCircuits(of) => self.send(500, Mail::CircuitsQuestion(of.clone())),
            Output::NotCarried(of, circuits) => {
                let since = self.connections[&of.number].since;
                for id in circuits {
                    if self.circuits.get(id).is_some_and(|it| it.since < since) {
                        self.end(id);
                    }
                }
            }
            Output::JudgeLinks(of, dialers) => {
                self.send(100, Mail::Judge(of.clone(), dialers.clone()));
            }
            Output::AskLinks(of) => {
                let (at, doubtful) = (self.now, self.doubtful(&of.router));
                self.send(1_000, Mail::LinksQuestion(of.clone(), at, doubtful));
            }
            Output::DropLink(link) => {
                if self.links.get(&link.id).is_some_and(|it| it.iteration == link.iteration) {
                    self.link_broke(&link.id)?;
                }
            }
            Output::Restore(link) => {
                self.links.entry(link.id.clone()).or_insert_with(|| Arc::clone(link));
            }
        }
        Ok(())
    }

    fn end(&mut self, circuit: &str) {
        self.circuits.remove(circuit);
        self.ended.insert(circuit.to_owned());
    }

    pub(super) fn doubtful(&self, router: &Id) -> Vec<Arc<Link>> {
        let is_doubtful = |link: &&Arc<Link>| {
            let other = self.index(link.other_end(router.as_str()));
            link.has_end(router.as_str()) && !self.registered.contains_key(&other)
        };
        self.links.values().filter(is_doubtful).cloned().collect()
    }

    /// A link is removed from the table by the word of a router.
    fn link_broke(&mut self, id: &str) -> Result<(), String> {
        let Some(link) = self.links.remove(id) else { return Ok(()) };
        let source = self.index(&link.source);
        if self.routers[source].may_carry {
            self.step_of(Input::LinkBroke(&link))?;
            self.check_broke(&link.destination, id)?;
        }
        Ok(())
    }

    /// True if a router answers a question that has come to it.
    fn is_answered(&mut self, of: &Connection) -> bool {
        self.is_open(of) && (self.is_quiet || !self.dice.once_in(3))
    }

    fn arrive(&mut self, mail: Mail) -> Result<(), String> {
        if self.shows {
            println!("{:?} {mail:?}", self.age());
        }
        match mail {
            Mail::Ended(of) => self.ended(&of)?,
            Mail::Parts { of, source, parts } => self.part(of, source, parts)?,
            Mail::Handled { of, source, expected, parts } => {
                self.handled(&of, source, expected, parts)?;
            }
            Mail::CircuitsQuestion(of) => {
                let circuits = self.routers[self.index(&of.router)].circuits.clone();
                let parts = self.parts(&circuits.into_iter().collect::<Vec<_>>());
                match self.is_answered(&of) {
                    true => self.send(2_000, Mail::Parts { of, source: Source::Answer, parts }),
                    false => self.send(60_000, Mail::CircuitsUnanswered(of)),
                }
            }
            Mail::CircuitsUnanswered(of) => self.step(Input::CircuitsUnanswered(&of))?,
            Mail::CircuitFault(of, id) => match self.circuits.contains_key(&id) {
                _ if !self.is_open(&of) => {}
                true => self.end(&id),
                false => self.step(Input::CircuitEnded(&of, &id))?,
            },
            Mail::LinkReport { of, is_first, links } => self.link_report(&of, is_first, links),
            Mail::LinkFault(of, id, iteration) => match self.links.get(&id) {
                _ if !self.is_open(&of) => {}
                Some(known) if known.iteration <= iteration => {
                    self.link_broke(&id)?;
                    self.check_tables()?;
                }
                Some(_) => {}
                None => {
                    self.step(Input::BrokeAgain(&of.router, &id))?;
                    self.check_broke(&of.router, &id)?;
                }
            },
            Mail::Judge(of, dialers) => {
                let has_doubtful = !self.doubtful(&of.router).is_empty();
                let is_unheard = |dialer: &Id| {
                    let dialer = self.index(dialer);
                    !self.registered.contains_key(&dialer) || !self.routers[dialer].answers
                };
                let has_unheard_dialer = dialers.iter().any(is_unheard);
                let (connection, was_judged) = (&of, self.links_are(&of, State::Judged));
                self.step(Input::Judged { connection, has_doubtful, has_unheard_dialer })?;
                self.check_judged(connection, was_judged && has_unheard_dialer)?;
            }
            Mail::LinksQuestion(of, at, doubtful) => {
                let router = self.index(&of.router);
                let is_up =
                    |it: &PlayedLink| it.is_up && (it.source == router || it.destination == router);
                let up = self.true_links.iter().filter(|(_, it)| is_up(it));
                let links = up.map(|(id, _)| id.clone()).collect();
                match self.is_answered(&of) {
                    true => self.send(1_000, Mail::LinksAnswer(of, at, doubtful, links)),
                    false => self.send(10_000, Mail::LinksUnanswered(of)),
                }
            }
            Mail::LinksAnswer(connection, asked_at, doubtful, links) => {
                let (connection, doubtful, links) = (&connection, &doubtful, &links);
                let broken = self.asked(connection, asked_at);
                self.step(Input::LinksListed { connection, asked_at, doubtful, links })?;
                self.check_listed(asked_at, &broken, links)?;
            }
            Mail::LinksUnanswered(of) => self.step(Input::LinksUnanswered(&of))?,
        }
        Ok(())
    }

    fn ended(&mut self, connection: &Connection) -> Result<(), String> {
        let router = self.index(&connection.router);
        let may_carry = self.routers[router].may_carry;
        let is_registered = self.registered.get(&router) == Some(&connection.number);
        let outputs = self.step_of(Input::Ended { connection, may_carry })?;
        self.connections.remove(&connection.number);
        if is_registered == outputs.is_empty() {
            return Err(format!("the end of {connection:?}: {outputs:?}"));
        }
        if is_registered && !may_carry {
            self.check_shut_out(router)?;
        }
        self.check_tables()
    }

    fn part(
        &mut self,
        of: Connection,
        source: Source,
        parts: Vec<Vec<String>>,
    ) -> Result<(), String> {
        // What a connection said before it ended is read.
        if !self.connections.contains_key(&of.number) {
            return Ok(());
        }
        let outputs = self.step_of(Input::Part(&of, source))?;
        if !outputs.contains(&Output::Take) {
            return self.check_not_taken(&of, source);
        }
        if !self.is_named_by(&of, source) {
            return Err(format!("{of:?} does not name circuits"));
        }
        let router = self.index(&of.router);
        let since = self.connections[&of.number].since;
        let is_expected =
            |it: &(&String, &KnownCircuit)| it.1.router == router && it.1.since < since;
        let expected = outputs
            .iter()
            .any(|it| matches!(it, Output::Expect(_)))
            .then(|| self.circuits.iter().filter(is_expected).map(|(id, _)| id.clone()).collect());
        self.send(HANDLING, Mail::Handled { of, source, expected, parts });
        self.check_tables()
    }

    fn handled(
        &mut self,
        connection: &Connection,
        source: Source,
        expected: Option<HashSet<String>>,
        mut parts: Vec<Vec<String>>,
    ) -> Result<(), String> {
        if let Some(expected) = expected {
            self.step_of(Input::Expected(connection, source, expected))?;
        }
        let circuits = parts.remove(0);
        let router = self.index(&connection.router);
        // A part is handled at once, so that no other connection takes the place meanwhile.
        let is_registered = self.registered.get(&router) == Some(&connection.number);
        for id in circuits.iter().filter(|_| is_registered) {
            let has_ended = source == Source::Answer && self.machine.has_ended(connection, id);
            if !has_ended && !self.ended.contains(id) {
                let known = KnownCircuit { router, since: self.now };
                self.circuits.entry(id.clone()).or_insert(known);
            }
        }
        let is_last = parts.is_empty();
        let is_over = is_last && self.is_named_by(connection, source);
        let circuits = circuits.as_slice();
        let outputs = self.step_of(Input::Named { connection, source, circuits, is_last })?;
        if outputs.contains(&Output::LookForGaps) != is_over {
            return Err(format!("gaps after the end of a report: {outputs:?}"));
        }
        let is_cut = source == Source::Report && !self.is_quiet && self.dice.once_in(4);
        if !is_last && !is_cut {
            self.send(2_000, Mail::Parts { of: connection.clone(), source, parts });
        }
        self.check_tables()
    }

    fn link_report(&mut self, of: &Connection, is_first: bool, reported: Vec<(String, u32)>) {
        let router = self.index(&of.router);
        if self.registered.get(&router) != Some(&of.number) {
            return;
        }
        if is_first && self.routers[router].lists_links {
            let has = |id: &String| reported.iter().any(|(own, _)| own == id);
            self.links.retain(|id, link| link.source != of.router || has(id));
        }
        for (id, iteration) in reported {
            let destination = self.true_links[&id].destination;
            let destination = &self.routers[destination];
            let known = self.links.get(&id).map_or(0, |it| it.iteration);
            if known < iteration && destination.may_carry {
                let new = link(&id, &of.router, &destination.id, iteration);
                self.links.insert(id, new);
            }
        }
    }
}
