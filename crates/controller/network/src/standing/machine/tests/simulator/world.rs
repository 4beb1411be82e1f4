//! Routers, their terminators, the controller's model, and all that is on its way between them.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::dice::Dice;

/// The age at which a terminator may be asked about.
const AGE: i64 = 5_000;
/// The interval of ticks.
const TICK: Duration = Duration::from_secs(30);
/// How long the troubles last, and the quiet after them.
const TROUBLES: Duration = Duration::from_secs(1_200);
const QUIET: Duration = Duration::from_secs(600);
const ROUTERS: usize = 2;
/// Most terminators of a router.
const TERMINATORS: usize = 3;

/// A router.
#[derive(Debug, Default)]
pub(super) struct Played {
    pub(super) id: Id,
    /// The number of its connection while it is connected.
    pub(super) connection: Option<u64>,
    /// The terminators that it hosts.
    pub(super) hosts: BTreeSet<Id>,
    /// When the question was sent that it has not answered.
    pub(super) asked: Option<Instant>,
}

/// A terminator of the model.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) router: usize,
    pub(super) made: Timestamp,
    pub(super) may_host: bool,
    /// The turn in which its router has reported it last.
    pub(super) heard: u64,
}

/// That a router does not host a terminator, as an answer to a question or a dial of this turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said {
    pub(super) asked: u64,
    pub(super) connection: u64,
}

/// What is on its way.
#[derive(Debug, Clone)]
pub(super) enum Mail {
    Connected { router: usize, connection: u64 },
    Question { router: usize, terminators: Vec<(Id, u64)>, said: Said },
    Answer { router: usize, answers: Vec<(Id, bool, u64)>, said: Said },
    Report { router: usize, terminator: Id },
    Closed { terminator: Id },
    Made { router: usize, terminator: Id },
    Remove(Removal),
    Withdraw(Vec<Id>),
    Dial { terminator: Id, router: usize, since: u64, made: Timestamp, said: Said },
}

pub(super) struct World {
    pub(super) dice: Dice,
    shows: bool,
    start: Instant,
    pub(super) now: Instant,
    /// The number of inputs so far.
    pub(super) turn: u64,
    connections: u64,
    pub(super) machine: Machine,
    pub(super) routers: Vec<Played>,
    pub(super) model: BTreeMap<Id, Stored>,
    pub(super) mail: BTreeMap<(Instant, u64), Mail>,
    sent: u64,
    pub(super) said: BTreeMap<Id, Vec<Said>>,
    /// The turns of the latest repeated reports.
    pub(super) reported: BTreeMap<Id, u64>,
    /// Whether a [`Mail::Withdraw`] is being carried out.
    pub(super) is_withdrawing: bool,
    is_quiet: bool,
    /// The terminators of a router.
    terminators: usize,
    /// The higher, the longer connections last.
    steadiness: usize,
}

impl World {
    pub(super) fn new(seed: u64, table: &'static [Row], shows: bool) -> Self {
        let now = Instant::now();
        let mut dice = Dice(seed);
        let (terminators, steadiness) = (1 + dice.below(TERMINATORS), [1, 5, 25][dice.below(3)]);
        let router = |at: usize| Played { id: Id::new(&format!("r{at}")), ..Played::default() };
        Self {
            dice,
            shows,
            start: now,
            now,
            turn: 0,
            connections: 0,
            machine: Machine { table, ..Machine::new(LIFE) },
            routers: (0..ROUTERS).map(router).collect(),
            model: BTreeMap::new(),
            mail: BTreeMap::new(),
            sent: 0,
            said: BTreeMap::new(),
            reported: BTreeMap::new(),
            is_withdrawing: false,
            is_quiet: false,
            terminators,
            steadiness,
        }
    }

    pub(super) fn age(&self) -> Duration {
        self.now - self.start
    }

    pub(super) fn rows_taken(&self) -> BTreeSet<usize> {
        self.machine.taken.iter().copied().collect()
    }

    pub(super) fn time(&self) -> Timestamp {
        Timestamp(1 + self.age().as_millis() as i64)
    }

    pub(super) fn play(&mut self) -> Result<(), String> {
        self.pass(TROUBLES)?;
        self.is_quiet = true;
        for router in 0..ROUTERS {
            if self.routers[router].connection.is_none() {
                self.connect(router)?;
            }
        }
        self.pass(QUIET)?;
        self.check_open_questions()?;
        // A router may have lost a terminator after it was asked about it.
        match self.dice.once_in(2) {
            true => (0..ROUTERS).try_for_each(|router| self.connect(router))?,
            false => {
                let all: Vec<Id> = self.model.keys().cloned().collect();
                all.iter().try_for_each(|id| self.dial(id))?;
            }
        }
        self.pass(QUIET)?;
        self.check_open_questions()?;
        self.check_quiet()
    }

    /// Lets time pass: mail arrives, the driver's clocks tick, and in the troubles things happen.
    fn pass(&mut self, time: Duration) -> Result<(), String> {
        let end = self.now + time;
        let mut tick = self.now + TICK;
        while self.now < end {
            if !self.is_quiet {
                self.trouble()?;
            }
            let next = self.now + self.dice.millis(4_000);
            while let Some(mail) = self.mail.first_entry().filter(|mail| mail.key().0 <= next) {
                self.now = self.now.max(mail.key().0);
                let mail = mail.remove();
                self.arrive(mail)?;
            }
            self.now = next;
            if self.now >= tick {
                tick = self.now + TICK;
                self.step(Input::Tick)?;
                self.step(Input::Expire)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, within: u64, mail: Mail) {
        self.sent += 1;
        let at = self.now + self.dice.millis(within);
        self.mail.insert((at, self.sent), mail);
    }

    fn trouble(&mut self) -> Result<(), String> {
        let router = self.dice.below(ROUTERS);
        let number = self.dice.below(self.terminators);
        let id = Id::new(&format!("{}t{number}", self.routers[router].id));
        let is_steady = !self.dice.once_in(self.steadiness);
        let is_connected = self.routers[router].connection.is_some();
        match self.dice.below(14) {
            0..=2 if is_steady && is_connected => {}
            0 => self.connect(router)?,
            1 if self.dice.once_in(2) => self.lose(router)?,
            2 => {
                self.lose(router)?;
                self.routers[router].hosts.clear();
            }
            3..=6 => self.host(router, &id),
            7 => {
                self.routers[router].hosts.remove(&id);
                if self.dice.once_in(3) {
                    self.send(500, Mail::Closed { terminator: id });
                }
            }
            8..=10 => self.dial(&id)?,
            11 => {
                let may_host = self.dice.once_in(2);
                self.model.get_mut(&id).into_iter().for_each(|one| one.may_host = may_host);
            }
            12 if self.dice.once_in(4) => self.doubt_all(router)?,
            _ => {}
        }
        Ok(())
    }

    fn host(&mut self, router: usize, id: &Id) {
        self.routers[router].hosts.insert(id.clone());
        if self.routers[router].connection.is_some() {
            self.send(3_000, Mail::Report { router, terminator: id.clone() });
        }
    }

    fn connect(&mut self, router: usize) -> Result<(), String> {
        if self.routers[router].connection.is_some() {
            self.lose(router)?;
        }
        self.connections += 1;
        let connection = self.connections;
        self.routers[router].connection = Some(connection);
        let id = self.routers[router].id.clone();
        self.step(Input::Connected(&id))?;
        self.send(200, Mail::Connected { router, connection });
        // The router reports what it hosts, as after each connect.
        for id in self.routers[router].hosts.clone() {
            self.send(9_000, Mail::Report { router, terminator: id });
        }
        Ok(())
    }

    fn lose(&mut self, router: usize) -> Result<(), String> {
        if self.routers[router].connection.take().is_some() {
            self.routers[router].asked = None;
            let id = self.routers[router].id.clone();
            self.step(Input::Lost(&id))?;
        }
        Ok(())
    }

    /// The router is to be asked about all of its terminators.
    fn doubt_all(&mut self, router: usize) -> Result<(), String> {
        let own = self.model.iter().filter(|(_, one)| one.router == router);
        let terminators: Vec<Id> = own.map(|(id, _)| id.clone()).collect();
        let id = self.routers[router].id.clone();
        self.step(Input::Doubted { router: &id, terminators: &terminators, at_once: true })
    }

    /// A dial chooses a terminator.
    fn dial(&mut self, id: &Id) -> Result<(), String> {
        let Some(stored) = self.model.get(id).cloned() else { return Ok(()) };
        if !stored.may_host {
            return self.step(Input::PassedOver(id));
        }
        let (router, made) = (stored.router, stored.made);
        if let Some(connection) = self.routers[router].connection {
            let said = Said { asked: self.turn, connection };
            let (terminator, since) = (id.clone(), self.machine.last_number());
            self.send(2_000, Mail::Dial { terminator, router, since, made, said });
        }
        Ok(())
    }

    fn ask(&mut self, router: &Id) -> Result<(), String> {
        let (model, now) = (self.model.clone(), self.time());
        let at = self.routers.iter().position(|played| played.id == *router);
        let due = move |id: &Id| match model.get(id).filter(|one| Some(one.router) == at) {
            Some(one) if now.0 - one.made.0 < AGE => Due::Later,
            Some(one) => Due::Now(one.made),
            None => Due::Never,
        };
        self.step(Input::Ask { router, due: &due })
    }

    /// Gives the machine an input, checks what follows from it, and carries it out.
    pub(super) fn step(&mut self, input: Input<'_>) -> Result<(), String> {
        self.turn += 1;
        let expected = self.expect(&input);
        if let Input::Answered { router, .. } = &input {
            let answered = self.routers.iter_mut().filter(|played| played.id == **router);
            answered.for_each(|played| played.asked = None);
        }
        if let Input::Ask { router, .. } = &input {
            let (router, now) = (self.index(router), self.now);
            self.routers[router].asked.take_if(|asked| now - *asked >= ANSWER_TIME);
        }
        let mut outputs = self.machine.step(self.now, input);
        for output in &mut outputs {
            match output {
                Output::Ask { terminators, .. } => terminators.sort(),
                Output::Withdraw(ids) => ids.sort(),
                Output::Remove(removal) => {
                    removal.terminators.sort_by_key(|denied| denied.terminator.clone());
                }
                Output::AskNow(_) | Output::EndCircuits(_) => {}
            }
        }
        outputs.sort_by_key(|output| format!("{output:?}"));
        if self.shows {
            println!("{:?} {expected:?}: {outputs:?}", self.age());
        }
        self.check(&expected, &outputs)?;
        for output in outputs {
            self.carry_out(output)?;
        }
        self.check_tables()
    }

    fn carry_out(&mut self, output: Output) -> Result<(), String> {
        match output {
            Output::AskNow(router) => self.ask(&router)?,
            Output::Ask { router, terminators } => {
                let router = self.index(&router);
                let connection = self.routers[router].connection.unwrap_or_default();
                self.routers[router].asked = Some(self.now);
                let said = Said { asked: self.turn, connection };
                // A full channel loses the question.
                if self.is_quiet || !self.dice.once_in(8) {
                    self.send(2_000, Mail::Question { router, terminators, said });
                }
            }
            Output::Remove(removal) => self.send(3_000, Mail::Remove(removal)),
            Output::Withdraw(ids) => self.send(3_000, Mail::Withdraw(ids)),
            Output::EndCircuits(_) => {}
        }
        Ok(())
    }

    pub(super) fn index(&self, router: &Id) -> usize {
        self.routers.iter().position(|played| played.id == *router).unwrap()
    }

    fn arrive(&mut self, mail: Mail) -> Result<(), String> {
        if self.shows {
            println!("{:?} {mail:?}", self.age());
        }
        match mail {
            Mail::Connected { router, connection } => {
                if self.routers[router].connection == Some(connection) {
                    self.doubt_all(router)?;
                }
            }
            Mail::Question { router, terminators, said } => {
                if self.routers[router].connection == Some(said.connection) {
                    self.answer(router, &terminators, said);
                }
            }
            Mail::Answer { router, answers, said } => self.answered(router, &answers, said)?,
            Mail::Report { router, terminator } => self.report(router, &terminator)?,
            Mail::Closed { terminator } => {
                let played = &self.routers[self.model.get(&terminator).map_or(0, |it| it.router)];
                if !played.hosts.contains(&terminator) {
                    self.model.remove(&terminator);
                }
            }
            Mail::Made { router, terminator } => {
                let id = self.routers[router].id.clone();
                let terminators = std::slice::from_ref(&terminator);
                self.step(Input::Doubted { router: &id, terminators, at_once: false })?;
            }
            Mail::Remove(removal) => self.remove(&removal)?,
            Mail::Withdraw(ids) => self.withdraw(&ids)?,
            Mail::Dial { terminator, router, since, made, said } => {
                if !self.routers[router].hosts.contains(&terminator) {
                    self.said.entry(terminator.clone()).or_default().push(said);
                    let (id, terminator) = (self.routers[router].id.clone(), &terminator);
                    self.step(Input::DialDenied { router: &id, terminator, since, made })?;
                }
            }
        }
        Ok(())
    }

    /// A router answers, in part perhaps, or never.
    fn answer(&mut self, router: usize, terminators: &[(Id, u64)], said: Said) {
        if !self.is_quiet && self.dice.once_in(8) {
            return;
        }
        let is_old = self.dice.once_in(8);
        let mut answers = Vec::new();
        for (id, number) in terminators {
            if self.is_quiet || !self.dice.once_in(6) {
                let number = if is_old { 0 } else { *number };
                answers.push((id.clone(), self.routers[router].hosts.contains(id), number));
            }
        }
        // Some answers are so late that the router is asked again meanwhile.
        let is_late = !self.is_quiet && !is_old && self.dice.once_in(10);
        self.send(if is_late { 400_000 } else { 2_000 }, Mail::Answer { router, answers, said });
    }

    fn answered(
        &mut self,
        router: usize,
        told: &[(Id, bool, u64)],
        said: Said,
    ) -> Result<(), String> {
        let has_numbers = told.iter().all(|(.., number)| *number != 0);
        // An answer may be handled after its connection was replaced.
        if !has_numbers && self.routers[router].connection != Some(said.connection) {
            return Ok(());
        }
        let answer = |(id, is_hosted, number): &(Id, bool, u64)| Answer {
            terminator: id.clone(),
            is_hosted: *is_hosted,
            number: *number,
        };
        let answers: Vec<Answer> = told.iter().map(answer).collect();
        for (id, ..) in told.iter().filter(|(_, is_hosted, _)| !is_hosted) {
            self.said.entry(id.clone()).or_default().push(said);
        }
        let id = self.routers[router].id.clone();
        self.step(Input::Answered { router: &id, answers: &answers })
    }

    fn report(&mut self, router: usize, id: &Id) -> Result<(), String> {
        if self.model.contains_key(id) {
            let router = self.routers[router].id.clone();
            self.reported.insert(id.clone(), self.turn + 1);
            self.step(Input::Reported { router: &router, terminator: id })?;
        } else {
            let (made, heard) = (self.time(), self.turn);
            let stored = Stored { router, made, may_host: true, heard };
            self.model.insert(id.clone(), stored);
            self.send(1_000, Mail::Made { router, terminator: id.clone() });
        }
        let turn = self.turn;
        self.model.get_mut(id).into_iter().for_each(|stored| stored.heard = turn);
        Ok(())
    }

    fn remove(&mut self, removal: &Removal) -> Result<(), String> {
        let is_written = self.is_quiet || !self.dice.once_in(6);
        let mut all = is_written;
        for denied in &removal.terminators {
            let stored = self.model.get(&denied.terminator);
            let is_same = stored.is_some_and(|stored| stored.made == denied.made);
            let may_remove = is_same && self.machine.may_remove(&removal.router, denied);
            all &= may_remove;
            if is_written && may_remove {
                self.check_removal(denied)?;
                self.model.remove(&denied.terminator);
            }
        }
        let (router, terminators) = (&removal.router, removal.terminators.as_slice());
        self.step(Input::Removed { router, terminators, all })
    }

    fn withdraw(&mut self, ids: &[Id]) -> Result<(), String> {
        let is_written = self.is_quiet || !self.dice.once_in(6);
        self.is_withdrawing = true;
        for terminator in ids {
            if is_written && self.model.get(terminator).is_some_and(|stored| !stored.may_host) {
                self.model.remove(terminator);
            }
            let is_removed = is_written && !self.model.contains_key(terminator);
            self.step(Input::Withdrawn { terminator, is_removed })?;
        }
        self.is_withdrawing = false;
        Ok(())
    }
}
