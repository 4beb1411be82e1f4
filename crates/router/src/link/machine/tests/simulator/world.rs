//! The routers, the wires between them, and what happens when.

use std::collections::BTreeMap;

use super::original::{Deed, Original, SCAN};
use super::wires::{Conn, End, Side, Wire};
use super::*;
use crate::dice::Dice;

/// What happens at a time. The `u32` is the start of the node that it belongs to.
#[derive(Debug)]
pub(super) enum Happening {
    /// A node carries out its next output.
    CarryOut(usize, u32),
    Tick(usize, u32),
    Scan(usize),
    DialTimeout(usize),
    Hello(usize),
    Verified(usize),
    Opened(End),
    CloseEnd(End),
    Hangup(End),
    Confirm(usize),
    News(usize, usize, u32, PeerReport),
    Fault(usize, u32, String, u32),
    Trouble,
    Online(usize, usize),
    Heal(usize, usize),
    Join(usize),
    Dialers(usize),
    Restart(usize),
    Opens(usize),
}

/// A router.
pub(super) struct Node {
    pub(super) index: usize,
    pub(super) name: String,
    /// The machine of a router of weft.
    pub(super) machine: Option<Machine<Conn>>,
    /// The stand-in for a router of OpenZiti.
    pub(super) original: Option<Original>,
    pub(super) limits: (usize, usize),
    pub(super) is_busy: bool,
    /// How often the router has started.
    pub(super) epoch: u32,
    pub(super) is_up: bool,
    /// True while the network has the router.
    pub(super) is_member: bool,
    pub(super) key: String,
    pub(super) listens: Vec<String>,
    pub(super) advertised: Vec<String>,
    pub(super) online: [bool; controllers::COUNT],
    pub(super) last_news: [Instant; controllers::COUNT],
    /// The dials that were not answered yet: links and iterations.
    pub(super) outstanding: BTreeSet<(String, u32)>,
    wake: Option<Instant>,
    /// The reported links that have not been reported ended, by id.
    pub(super) reported: BTreeMap<String, u64>,
    pub(super) up: BTreeSet<u64>,
    pub(super) ended: BTreeSet<u64>,
    /// The links that circuits may take, by id.
    pub(super) published: BTreeMap<String, u64>,
    pub(super) offered: Vec<End>,
    /// True while the router closes every link that others open.
    pub(super) closes_all: bool,
    /// The controllers that named a router connected last, and that router.
    pub(super) heard: BTreeSet<(usize, String)>,
    /// The routers that were removed since a controller confirmed them.
    pub(super) removed: BTreeSet<String>,
    /// The dials of the last second, by key.
    pub(super) dials: BTreeMap<String, Vec<Instant>>,
    /// The ids that the forwarder has refused.
    pub(super) refused_ids: BTreeSet<String>,
}

/// Everything.
pub(super) struct World {
    pub(super) dice: Dice,
    pub(super) start: Instant,
    pub(super) now: Instant,
    table: &'static [Row],
    shows: bool,
    queue: BTreeMap<(Instant, u64), Happening>,
    events: u64,
    numbers: u64,
    pub(super) nodes: Vec<Node>,
    pub(super) wires: Vec<Wire>,
    /// Who has sent the hellos of wires that nobody holds.
    pub(super) senders: BTreeMap<usize, usize>,
    pub(super) cuts: BTreeSet<(usize, usize)>,
    /// The links that controllers know, with the routers at their ends.
    pub(super) known_links: BTreeMap<String, (u32, [String; 2])>,
    taken: BTreeSet<usize>,
    /// The reasons for which links were refused or closed.
    pub(super) reasons: BTreeSet<String>,
    /// True once there are no troubles any more.
    pub(super) is_quiet: bool,
    /// True once all routers are removed.
    pub(super) is_over: bool,
}

pub(super) fn dialers() -> Vec<Dialer> {
    let backoff = |min, max, factor| Backoff {
        min: Duration::from_secs(min),
        max: Duration::from_secs(max),
        factor,
    };
    vec![Dialer {
        binding: String::new(),
        groups: vec!["default".into()],
        healthy: backoff(1, 30, 1.5),
        unhealthy: backoff(2, 60, 3.0),
    }]
}

impl World {
    pub(super) fn new(seed: u64, table: &'static [Row], shows: bool) -> Self {
        let start = Instant::now();
        let mut world = Self {
            dice: Dice(seed.wrapping_mul(0x2545_f491_4f6c_dd1d)),
            start,
            now: start,
            table,
            shows,
            queue: BTreeMap::new(),
            events: 0,
            numbers: 0,
            nodes: Vec::new(),
            wires: Vec::new(),
            senders: BTreeMap::new(),
            cuts: BTreeSet::new(),
            known_links: BTreeMap::new(),
            taken: BTreeSet::new(),
            reasons: BTreeSet::new(),
            is_quiet: false,
            is_over: false,
        };
        for index in 0..2 + world.dice.below(3) {
            world.add_node(index);
        }
        for index in 0..world.nodes.len() {
            world.tell_of(index);
        }
        world
    }

    fn add_node(&mut self, index: usize) {
        let is_weft = index == 0 || !self.dice.once_in(4);
        let workers = if self.dice.once_in(2) { 1 } else { 8 };
        let queue = self.dice.below(3);
        self.nodes.push(Node {
            index,
            name: format!("r{index}"),
            machine: None,
            original: (!is_weft).then(Original::default),
            limits: (workers, queue),
            is_busy: false,
            epoch: 0,
            is_up: false,
            is_member: true,
            key: format!("key {index}"),
            listens: vec![format!("r{index}:1")],
            advertised: vec![format!("r{index}:1")],
            online: [true; controllers::COUNT],
            last_news: [self.now; controllers::COUNT],
            outstanding: BTreeSet::new(),
            wake: None,
            reported: BTreeMap::new(),
            up: BTreeSet::new(),
            ended: BTreeSet::new(),
            published: BTreeMap::new(),
            offered: Vec::new(),
            closes_all: false,
            heard: BTreeSet::new(),
            removed: BTreeSet::new(),
            dials: BTreeMap::new(),
            refused_ids: BTreeSet::new(),
        });
        self.boot(index);
    }

    /// Starts a router.
    fn boot(&mut self, index: usize) {
        let (now, table) = (self.now, self.table);
        let random = Box::new(self.dice.split());
        let node = &mut self.nodes[index];
        node.is_up = true;
        match &mut node.original {
            Some(original) => {
                *original = Original::default();
                self.after(SCAN, Happening::Scan(index));
            }
            None => {
                let mut machine = Machine::new(&node.name, dialers(), node.limits, now, random);
                machine.table = table;
                node.machine = Some(machine);
                self.arm(index);
            }
        }
    }

    /// Ends a router without a word, and starts it again.
    pub(super) fn restart(&mut self, index: usize) {
        self.note_rows(index);
        let node = &mut self.nodes[index];
        node.epoch += 1;
        node.offered.clear();
        (node.is_busy, node.outstanding, node.wake) = (false, BTreeSet::new(), None);
        (node.reported, node.published) = (BTreeMap::new(), BTreeMap::new());
        (node.heard, node.dials) = (BTreeSet::new(), BTreeMap::new());
        node.removed = BTreeSet::new();
        for wire in 0..self.wires.len() {
            for end in 0..2 {
                let (is_here, side) =
                    (self.wires[wire].nodes[end] == index, &mut self.wires[wire].sides[end]);
                if is_here && std::mem::replace(side, Side::Closed) != Side::Closed {
                    let late = self.dice.millis(1..40_000);
                    self.after(late, Happening::Hangup((wire, 1 - end)));
                }
            }
        }
        self.boot(index);
        self.tell_of(index);
        for controller in 0..controllers::COUNT {
            for other in 0..self.nodes.len() {
                self.tell(controller, index, other);
            }
        }
    }

    pub(super) fn after(&mut self, time: Duration, happening: Happening) {
        self.events += 1;
        self.queue.insert((self.now + time, self.events), happening);
    }

    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(super) fn is_cut(&self, one: usize, other: usize) -> bool {
        self.cuts.contains(&(one.min(other), one.max(other)))
    }

    fn note_rows(&mut self, index: usize) {
        let machine = self.nodes[index].machine.iter_mut();
        self.taken.extend(machine.flat_map(|machine| std::mem::take(&mut machine.taken)));
    }

    pub(super) fn rows_taken(&mut self) -> BTreeSet<usize> {
        (0..self.nodes.len()).for_each(|index| self.note_rows(index));
        std::mem::take(&mut self.taken)
    }

    /// Troubles, quiet, and the removal of all routers.
    pub(super) fn play(&mut self) -> Result<(), String> {
        let troubles = self.dice.millis(100_000..500_000);
        self.after(Duration::from_millis(500), Happening::Trouble);
        self.run(self.now + troubles)?;
        self.heal()?;
        self.run(self.now + Duration::from_secs(900))?;
        self.check_quiet()?;
        self.remove_all();
        self.run(self.now + Duration::from_secs(200))?;
        self.check_empty()
    }

    fn run(&mut self, until: Instant) -> Result<(), String> {
        while let Some(next) = self.queue.first_entry()
            && next.key().0 <= until
        {
            self.now = next.key().0;
            let happening = next.remove();
            if self.shows {
                println!("{:?} {happening:?}", self.now - self.start);
            }
            self.happen(happening)?;
        }
        self.now = until;
        Ok(())
    }

    fn happen(&mut self, happening: Happening) -> Result<(), String> {
        let is_now = |world: &Self, node: usize, epoch| world.nodes[node].epoch == epoch;
        match happening {
            Happening::CarryOut(at, epoch) if is_now(self, at, epoch) => self.carry_out(at),
            Happening::Tick(at, epoch) if is_now(self, at, epoch) => {
                if self.nodes[at].wake.is_none_or(|wake| wake > self.now) {
                    return Ok(());
                }
                self.nodes[at].wake = None;
                self.step(at, Input::Tick)
            }
            Happening::News(from, to, epoch, news) if is_now(self, to, epoch) => {
                self.news(from, to, news)
            }
            Happening::Fault(to, epoch, id, iteration) if is_now(self, to, epoch) => {
                if let Some(original) = &self.nodes[to].original {
                    let deeds = original.faulted(&id, iteration);
                    return self.carry_out_deeds(to, deeds);
                }
                self.step(to, Input::Fault { id, iteration })
            }
            Happening::CarryOut(..)
            | Happening::Tick(..)
            | Happening::News(..)
            | Happening::Fault(..) => Ok(()),
            Happening::Scan(at) => {
                self.after(SCAN, Happening::Scan(at));
                let now = self.now;
                let original = self.nodes[at].original.as_mut();
                let deeds = original.map(|original| original.scan(now)).unwrap_or_default();
                self.carry_out_deeds(at, deeds)
            }
            Happening::DialTimeout(wire) => self.dial_timeout(wire),
            Happening::Hello(wire) => self.hello(wire),
            Happening::Verified(wire) => self.verified(wire),
            Happening::Opened(end) => self.opened(end),
            Happening::CloseEnd(end) => self.close(end),
            Happening::Hangup(end) => self.hangup(end),
            Happening::Confirm(node) => self.confirm(node),
            Happening::Trouble => self.trouble(),
            other => self.end_trouble(other),
        }
    }

    /// Gives the machine of a node an input.
    pub(super) fn step(&mut self, at: usize, input: Input<Conn>) -> Result<(), String> {
        if self.shows {
            println!("    r{at} <- {input:?}");
        }
        if let Input::Opened { link, .. } = &input {
            self.nodes[at].offered.push(link.1);
        }
        let node = &mut self.nodes[at];
        let Some(machine) = &mut node.machine else { return Ok(()) };
        machine.step(self.now, input);
        let (is_idle, epoch) = (machine.outputs.is_empty(), node.epoch);
        if !is_idle && !std::mem::replace(&mut node.is_busy, true) {
            self.after(Duration::ZERO, Happening::CarryOut(at, epoch));
        }
        self.arm(at);
        self.check_tables(at)?;
        if self.nodes[at].is_busy { Ok(()) } else { self.check_settled(at) }
    }

    /// Sets the time of the machine's next tick.
    fn arm(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let Some(machine) = &node.machine else { return };
        let next = machine.next_wake().max(self.now);
        if node.wake.is_none_or(|wake| next < wake) {
            node.wake = Some(next);
            let epoch = node.epoch;
            self.after(next - self.now, Happening::Tick(at, epoch));
        }
    }

    /// A node carries out one output. Inputs may come before the next one.
    fn carry_out(&mut self, at: usize) -> Result<(), String> {
        let machine = self.nodes[at].machine.as_mut();
        let output = machine.and_then(Machine::next_output);
        if self.shows {
            println!("    r{at} -> {output:?}");
        }
        if let Some(output) = output {
            self.act(at, output)?;
        }
        let machine = self.nodes[at].machine.as_ref();
        if machine.is_none_or(|machine| machine.outputs.is_empty()) {
            self.nodes[at].is_busy = false;
            return self.check_settled(at);
        }
        let late = match self.dice.below(60) {
            0 => 300,
            1..9 => 2,
            _ => 0,
        };
        let epoch = self.nodes[at].epoch;
        self.after(Duration::from_millis(late), Happening::CarryOut(at, epoch));
        Ok(())
    }

    fn act(&mut self, at: usize, output: Output<Conn>) -> Result<(), String> {
        if let Output::Reject(_, reason) | Output::Close(_, reason) = &output {
            let name = format!("{reason:?}");
            let end = name.find(|letter: char| !letter.is_alphabetic()).unwrap_or(name.len());
            self.reasons.insert(name[..end].to_owned());
        }
        match output {
            Output::Dial(dial) => {
                self.check_dial(at, &dial)?;
                self.dial(at, dial);
            }
            Output::Reject(Conn(_, end, _), reason) => {
                self.wires[end.0].sides[end.1] = Side::Refused;
                match reason {
                    Reason::OtherKept { keep_for } => {
                        self.after(keep_for, Happening::CloseEnd(end));
                    }
                    _ => return self.close(end),
                }
            }
            Output::Open(Conn(facts, end, _)) => {
                self.wires[end.0].sides[end.1] = Side::Started(facts.number);
                if self.dice.once_in(100) {
                    // An end of a circuit has this address since a moment.
                    self.nodes[at].refused_ids.insert(facts.id.clone());
                    return self.close(end);
                }
                self.nodes[at].published.insert(facts.id.clone(), facts.number);
                let closes = end.1 == 1 && self.nodes[at].closes_all;
                if self.wires[end.0].is_dead[end.1] || closes {
                    self.after(Duration::from_millis(1), Happening::CloseEnd(end));
                }
            }
            Output::Close(Conn(_, end, _), _) => return self.close(end),
            Output::Withdraw(Conn(facts, ..)) => {
                let published = &mut self.nodes[at].published;
                if published.get(&facts.id) == Some(&facts.number) {
                    published.remove(&facts.id);
                }
                return self.check_withdrawn(at, &facts);
            }
            Output::AskControllers => self.after(Duration::from_millis(50), Happening::Confirm(at)),
            Output::Up(Conn(facts, ..)) => return self.on_up(at, &facts),
            Output::Duplicate(Conn(facts, ..)) => self.on_ended(at, &facts),
            Output::Fault(Conn(facts, ..)) => return self.on_fault(at, &facts),
        }
        Ok(())
    }

    pub(super) fn carry_out_deeds(&mut self, at: usize, deeds: Vec<Deed>) -> Result<(), String> {
        for deed in deeds {
            match deed {
                Deed::Dial(dial) => self.dial(at, dial),
                Deed::Close(end) => self.close(end)?,
                Deed::Duplicate(id, iteration) | Deed::Fault(id, iteration) => {
                    self.reported_ended(&id, iteration, at);
                }
            }
        }
        Ok(())
    }
}
