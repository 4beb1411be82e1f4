//! Controllers and their mail, the tables of the router, and the routes under way.

use std::collections::BTreeMap;

use weft_wire::ctrl::route::Forward;

use super::model::Model;
use super::*;
use crate::dice::Dice;

/// How long the troubles last, and the quiet after them.
const TROUBLES: Duration = Duration::from_secs(1_500);
const CALM: Duration = Duration::from_secs(1_400);
const CIRCUITS: usize = 3;
/// The last of them is of the original.
const CONTROLLERS: [&str; 3] = ["a", "b", "original"];

/// Fails with a text unless this holds.
macro_rules! holds {
    ($what:expr, $($text:tt)*) => {
        if !$what {
            return Err(format!($($text)*));
        }
    };
}

/// What is on its way.
#[derive(Clone, Debug)]
enum Mail {
    Route {
        from: ControllerId,
        route: Route,
    },
    Unroute {
        from: ControllerId,
        unroute: Unroute,
    },
    /// A route under way is over.
    Over {
        ticket: RouteTicket,
        is_done: bool,
    },
}

/// A circuit in the tables of the router.
#[derive(Debug)]
struct Table {
    /// The routes of these tickets are set.
    set: Vec<u64>,
    heard: Instant,
    waiting: u64,
    /// How likely it is that a message comes, or that one that waits is taken: once in so many looks.
    steadiness: usize,
    /// Whether an end on this router is there; none on a router between the ends.
    end: Option<bool>,
}

pub(super) struct World {
    dice: Dice,
    shows: bool,
    start: Instant,
    now: Instant,
    machine: Machine,
    model: Model,
    tables: BTreeMap<String, Table>,
    mail: BTreeMap<(Instant, u64), Mail>,
    sent: u64,
    /// Routes that were set up lately.
    set: VecDeque<RouteTicket>,
    /// The attempts of each circuit.
    attempts: BTreeMap<String, u32>,
    is_calm: bool,
    takes_new: bool,
}

fn controller(number: usize) -> ControllerId {
    CONTROLLERS[number].into()
}

impl World {
    pub(super) fn new(seed: u64, table: &'static [Row], shows: bool) -> Self {
        let now = Instant::now();
        Self {
            dice: Dice(seed),
            shows,
            start: now,
            now,
            machine: Machine { table, ..Machine::new(QUIET) },
            model: Model::default(),
            tables: BTreeMap::new(),
            mail: BTreeMap::new(),
            sent: 0,
            set: VecDeque::new(),
            attempts: BTreeMap::new(),
            is_calm: false,
            takes_new: true,
        }
    }

    pub(super) fn age(&self) -> Duration {
        self.now - self.start
    }

    pub(super) fn rows_taken(&self) -> BTreeSet<usize> {
        self.machine.taken.iter().copied().collect()
    }

    pub(super) fn play(&mut self) -> Result<(), String> {
        self.pass(TROUBLES)?;
        self.is_calm = true;
        self.pass(CALM)?;
        // Controllers have ended what they were told of, and nobody has commanded anything for long.
        holds!(self.tables.is_empty(), "tables stay: {:?}", self.tables);
        let Machine { circuits, looks, over, .. } = &self.machine;
        holds!(circuits.is_empty(), "circuits are known: {circuits:?}");
        holds!(looks.is_empty() && over.is_empty(), "{looks:?} {over:?}");
        holds!(self.machine.next_wake().is_none(), "the machine wakes for nothing");
        Ok(())
    }

    /// Lets time pass: mail arrives, the machine is woken when it wants to be, and things happen.
    fn pass(&mut self, time: Duration) -> Result<(), String> {
        let end = self.now + time;
        while self.now < end {
            if self.is_calm {
                self.end_all()?;
            } else {
                self.trouble()?;
            }
            let next = self.now + self.dice.millis(0..2_000);
            loop {
                let mail = self.mail.first_key_value().map(|((at, _), _)| *at);
                let wake = self.machine.next_wake();
                let Some(at) = mail.into_iter().chain(wake).min().filter(|at| *at <= next) else {
                    break;
                };
                self.now = self.now.max(at);
                match self.mail.first_entry().filter(|mail| mail.key().0 <= at) {
                    Some(mail) => {
                        let mail = mail.remove();
                        self.arrive(mail)?;
                    }
                    None => self.step(Input::Tick)?,
                }
            }
            self.now = next;
        }
        Ok(())
    }

    fn send(&mut self, within: u64, mail: Mail) {
        self.sent += 1;
        let at = self.now + self.dice.millis(0..within.max(1));
        self.mail.insert((at, self.sent), mail);
    }

    fn any_circuit(&mut self) -> String {
        format!("c{}", self.dice.below(CIRCUITS))
    }

    fn trouble(&mut self) -> Result<(), String> {
        let id = self.any_circuit();
        match self.dice.below(20) {
            0..=5 => self.command_route(&id),
            6 | 7 => self.command_unroute(&id),
            8..=10 => self.traffic(&id),
            11 | 12 => self.end_event(&id)?,
            13 => {
                self.idle(Duration::from_secs(60))?;
                self.step(Input::NotBegun(&[id.as_str().into(), "invented".into()]))?;
            }
            14 | 15 => {
                let strays = [id.as_str().into(), "invented".into()];
                self.step(Input::Stray(&strays))?;
            }
            16 if self.dice.once_in(3) && !self.set.is_empty() => {
                let late = self.dice.below(self.set.len());
                if let Some(ticket) = self.set.remove(late) {
                    self.step(Input::Unanswered(&ticket))?;
                }
            }
            17 if self.dice.once_in(10) => self.takes_new = !self.takes_new,
            // A while without commands, so that what is over may be forgotten.
            18 if self.dice.once_in(8) => {
                for _ in 0..30 {
                    self.now += self.dice.millis(0..2_000);
                    self.wake()?;
                }
            }
            19 if self.dice.once_in(2) => {
                let (from, term) = self.commander(&id);
                let tag = ["", "c", &id][self.dice.below(3)].to_owned();
                let controller = CONTROLLERS[self.dice.below(CONTROLLERS.len())].to_owned();
                let changed_only = self.dice.once_in(2);
                let spared = if self.dice.once_in(2) { vec!["c1".to_owned()] } else { vec![] };
                let claim = ClaimCircuits { controller, tag, term, changed_only, spared };
                self.step(Input::Claim { from: &from, claim: &claim })?;
            }
            _ => {}
        }
        Ok(())
    }

    fn wake(&mut self) -> Result<(), String> {
        while self.machine.next_wake().is_some_and(|at| at <= self.now) {
            self.step(Input::Tick)?;
        }
        Ok(())
    }

    /// A controller and its term: mostly those of the owner, or of one that takes the circuit over; sometimes of one
    /// that knows less.
    fn commander(&mut self, id: &str) -> (ControllerId, u64) {
        let known = self.model.circuits.get(id).map(|known| (known.owner.clone(), known.term));
        let other = controller(self.dice.below(CONTROLLERS.len()));
        let (from, term) = match (known, self.dice.below(10)) {
            (Some((owner, term)), 0..=6) => (owner, term),
            (Some((_, term)), 7) => (other, term + 1),
            (Some((_, term)), 8) => (other, term),
            _ => (other, self.dice.below(3) as u64),
        };
        let knows_terms = *from != *CONTROLLERS[2];
        (from, if knows_terms { term } else { 0 })
    }

    fn command_route(&mut self, id: &str) {
        let (from, term) = self.commander(id);
        let known = self.attempts.get(id).copied();
        let attempt = match (known, self.dice.below(6)) {
            (None, _) => 0,
            (Some(_), 0..=2) => REROUTE_ATTEMPT,
            (Some(last), 3) => last,
            (Some(last), 4) => last.saturating_sub(1),
            (Some(last), _) => last + 1,
        };
        let last = self.attempts.entry(id.to_owned()).or_default();
        if attempt != REROUTE_ATTEMPT {
            *last = attempt.max(*last);
        }
        self.sent += 1;
        let way = Forward {
            src_address: format!("from {}", self.dice.below(3)),
            dst_address: format!("to {}", self.sent),
            ..Forward::default()
        };
        let count = if self.dice.once_in(20) { MAX_WAYS + 1 } else { 1 };
        let route = Route { forwards: vec![way; count], ..super::route(id, attempt, term) };
        self.send_twice(Mail::Route { from, route });
    }

    fn command_unroute(&mut self, id: &str) {
        let (from, term) = self.commander(id);
        let now = self.dice.once_in(2);
        let unroute = Unroute { circuit_id: id.to_owned(), now, term };
        self.send_twice(Mail::Unroute { from, unroute });
    }

    /// Most commands come soon, some late, and some twice.
    fn send_twice(&mut self, mail: Mail) {
        if self.dice.once_in(10) {
            self.send(20_000, mail.clone());
        }
        let within = if self.dice.once_in(8) { 15_000 } else { 200 };
        self.send(within, mail);
    }

    fn traffic(&mut self, id: &str) {
        let (waiting, steadiness) = (self.dice.below(40) as u64, [1, 4, 1_000][self.dice.below(3)]);
        let Some(table) = self.tables.get_mut(id) else { return };
        (table.heard, table.waiting, table.steadiness) = (self.now, waiting, steadiness);
    }

    /// An end opens or closes.
    fn end_event(&mut self, id: &str) -> Result<(), String> {
        let asked = controller(self.dice.below(CONTROLLERS.len()));
        let end = if self.dice.once_in(2) { Role::Initiator } else { Role::Terminator };
        let was_there = self.tables.get(id).is_some_and(|table| table.end == Some(true));
        let opens = !was_there && self.dice.once_in(2);
        self.tables.get_mut(id).into_iter().for_each(|table| table.end = Some(opens));
        match opens {
            true => Ok(()),
            false => {
                let attempt = self.attempts.get(id).copied().filter(|_| self.dice.once_in(2));
                let attempt = attempt.map(|last| last.saturating_sub(self.dice.below(2) as u32));
                self.step(Input::EndGone { circuit: id, asked: &asked, end, attempt })
            }
        }
    }

    fn idle(&mut self, time: Duration) -> Result<(), String> {
        let gone = |table: &Table| (table.end == Some(false)).then_some(Role::Initiator);
        let idle = |(id, table): (&String, &Table)| IdleCircuit {
            circuit: id.as_str().into(),
            time,
            gone: gone(table),
        };
        let circuits = self.tables.iter().map(idle).collect();
        self.step(Input::Idle(circuits))
    }

    /// All is quiet: owners end what they are told of.
    fn end_all(&mut self) -> Result<(), String> {
        if !self.dice.once_in(10) {
            return Ok(());
        }
        let carried = self.machine.all_carried(None);
        for of in carried {
            let now = self.dice.once_in(2);
            let circuit_id = of.route.circuit_id.clone();
            let unroute = Unroute { circuit_id, now, term: of.term };
            let mail = Mail::Unroute { from: of.owner.clone(), unroute };
            self.send(200, mail);
        }
        Ok(())
    }

    fn arrive(&mut self, mail: Mail) -> Result<(), String> {
        match mail {
            Mail::Route { from, route } => {
                let takes_new = self.takes_new;
                self.step(Input::Route { from: &from, route: &route, takes_new })
            }
            Mail::Unroute { from, unroute } => {
                self.step(Input::Unroute { from: &from, unroute: &unroute })
            }
            Mail::Over { ticket, is_done } => {
                let (checked, expected) = (self.machine.check(&ticket), self.model.check(&ticket));
                holds!(checked == expected, "{ticket:?} is {checked:?}, not {expected:?}");
                if checked.is_ok() && is_done {
                    let table = self.tables.get_mut(&*ticket.circuit);
                    let Some(table) = table else { return Err(format!("no table: {ticket:?}")) };
                    table.set.push(ticket.number);
                    table.end.get_or_insert(true);
                    self.set.push_back(ticket.clone());
                    self.set.drain(..self.set.len().saturating_sub(2 * CIRCUITS));
                    return self.step(Input::Done(&ticket));
                }
                self.step(Input::Failed(&ticket))
            }
        }
    }

    /// Gives the machine an input, compares what follows with the model, and carries it out.
    fn step(&mut self, input: Input<'_>) -> Result<(), String> {
        let text = if self.shows { format!("{input:?}") } else { String::new() };
        let looked = match &input {
            Input::Looked { circuit, .. } => Some((*circuit).to_owned()),
            _ => None,
        };
        let mut expected = self.model.expect(self.now, &input);
        let outputs = self.machine.step(self.now, input);
        if self.shows {
            println!("{:?} {text}: {outputs:?}", self.age());
        }
        if let Some(circuit) = looked {
            self.note_look(&circuit)?;
        }
        let sorted = |outputs: &[Output]| {
            let mut all: Vec<String> = outputs.iter().flat_map(single).collect();
            all.sort();
            all
        };
        let (found, wanted) = (sorted(&outputs), sorted(&expected));
        holds!(found == wanted, "{text} does {found:?} instead of {wanted:?}");
        expected.clear();
        for output in outputs {
            self.carry_out(output)?;
        }
        self.compare()
    }

    /// A circuit that stays is looked at again, soon enough to notice that it is quiet.
    fn note_look(&mut self, circuit: &str) -> Result<(), String> {
        let up = self.model.circuits.get(circuit).and_then(|known| known.up.as_ref());
        if up.is_none_or(|up| up.left.is_none()) {
            return Ok(());
        }
        let looks = self.machine.looks.iter().filter(|(_, id)| **id == *circuit);
        let looks: Vec<Instant> = looks.map(|(at, _)| *at).collect();
        let [at] = looks[..] else { return Err(format!("{circuit} is looked at at {looks:?}")) };
        holds!(at > self.now && at <= self.now + QUIET, "{circuit} is looked at too late");
        self.model.looks.insert(circuit.to_owned(), at);
        Ok(())
    }

    fn carry_out(&mut self, output: Output) -> Result<(), String> {
        match output {
            Output::Make { circuit, .. } => {
                let end = if self.dice.once_in(2) { None } else { Some(true) };
                let (set, heard) = (Vec::new(), self.now);
                let table = Table { set, heard, waiting: 0, steadiness: 4, end };
                let former = self.tables.insert(circuit.to_string(), table);
                holds!(former.is_none(), "{circuit} is made twice");
            }
            Output::Begin(ticket) => {
                let is_done = !self.dice.once_in(4);
                let within = if self.dice.once_in(2) { 1 } else { 25_000 };
                self.send(within, Mail::Over { ticket, is_done });
            }
            Output::Clear(circuit) => {
                let table = self.tables.get_mut(&*circuit);
                table.into_iter().for_each(|table| table.set.clear());
            }
            Output::TakeDown(circuit) => {
                holds!(self.tables.remove(&*circuit).is_some(), "{circuit} is not there");
            }
            Output::GiveUp(number) => {
                let of = |mail: &&mut Mail| matches!(mail, Mail::Over { ticket, .. } if ticket.number == number);
                let stopped = self.mail.values_mut().find(of);
                stopped.into_iter().for_each(|mail| {
                    if let Mail::Over { is_done, .. } = mail {
                        *is_done = false;
                    }
                });
            }
            Output::Look { circuit, .. } => {
                let sight = self.sight(&circuit);
                self.step(Input::Looked { circuit: &circuit, sight })?;
            }
            Output::Refuse(_)
            | Output::Carried(_)
            | Output::Taken { .. }
            | Output::ReportEnd { .. }
            | Output::ReportIdle { .. }
            | Output::ReportFaults { .. } => {}
        }
        Ok(())
    }

    fn sight(&mut self, circuit: &str) -> Sight {
        let (now, dice) = (self.now, &mut self.dice);
        let Some(table) = self.tables.get_mut(circuit) else {
            return Sight { is_done: true, waiting: 0, unheard: Duration::ZERO };
        };
        if dice.once_in(table.steadiness) {
            table.heard = now;
            table.waiting = table.waiting.saturating_sub(dice.below(3) as u64);
        }
        let is_done = table.end == Some(false) && table.waiting == 0;
        Sight { is_done, waiting: table.waiting, unheard: now - table.heard }
    }

    /// What the machine knows, and what is in the tables, is true.
    fn compare(&self) -> Result<(), String> {
        let known: Vec<&str> = self.model.circuits.keys().map(String::as_str).collect();
        let mut found: Vec<&str> = self.machine.circuits.keys().map(|id| &**id).collect();
        found.sort_unstable();
        holds!(found == known, "{found:?} are known instead of {known:?}");
        for (id, facts) in &self.model.circuits {
            let machine = &self.machine.circuits[id.as_str()];
            let is = (machine.owner.as_ref(), machine.term, machine.newest);
            let wanted = (Some(&facts.owner), facts.term, facts.newest);
            holds!(is == wanted, "{id} has {is:?} instead of {wanted:?}");
            holds!(self.tables.contains_key(id) == facts.up.is_some(), "the table of {id}");
            // What a controller is told that comes back.
            let carried = self.machine.carried(id);
            let ways = carried.iter().flat_map(|of| &of.route.forwards);
            let ways: BTreeMap<String, String> =
                ways.map(|way| (way.src_address.clone(), way.dst_address.clone())).collect();
            let told = facts.up.as_ref().filter(|_| facts.is_carried());
            let wanted = told.and_then(|up| up.ways.clone());
            holds!(carried.map(|_| ways) == wanted, "{id} is told otherwise than {wanted:?}");
            let age = facts.up.as_ref().and_then(|up| up.left).map(|left| self.now - left.since);
            let most = Duration::from_secs(605);
            holds!(age.is_none_or(|age| age <= most), "{id} has left since {age:?}");
        }
        holds!(self.tables.len() <= known.len(), "{:?}", self.tables);
        for id in (0..CIRCUITS).map(|number| format!("c{number}")).chain(["invented".into()]) {
            let known = self.model.circuits.get(&id);
            let is_fault =
                known.is_none_or(|known| known.up.as_ref().is_some_and(|up| up.left.is_none()));
            holds!(self.machine.is_fault(&id) == is_fault, "faults of {id}");
        }
        Ok(())
    }
}

/// Reports about several circuits, as one for each.
fn single(output: &Output) -> Vec<String> {
    match output {
        Output::ReportIdle { owner, circuits } => {
            circuits.iter().map(|circuit| format!("idle {owner} {circuit:?}")).collect()
        }
        Output::ReportFaults { owner, circuits } => {
            circuits.iter().map(|circuit| format!("fault {owner:?} {circuit}")).collect()
        }
        Output::Carried(circuits) => {
            circuits.iter().map(|circuit| format!("carried {circuit}")).collect()
        }
        Output::Taken { owner, circuits } => {
            circuits.iter().map(|circuit| format!("taken {circuit} from {owner}")).collect()
        }
        output => vec![format!("{output:?}")],
    }
}
