//! What breaks, and when it is repaired. Every event leaves a path between the ends, over routers and links
//! that nothing has happened to, or that the controller has reported as repaired. Of several controllers and of the
//! members of their etcd, one each may be broken at a time.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rand::RngExt as _;
use rand::rngs::StdRng;

use super::bed::{Bed, EAST, PAIRS, ROUTERS, WEST};
use super::controllers::CLUSTER;
use super::wires::State;

/// Routers that the ends do not use.
const BETWEEN: [usize; 3] = [1, 3, 4];
/// Most broken parts at the same time. In a cluster, controllers and members of etcd do not count. A part counts until the
/// controller has reported its repair.
const AT_ONCE: usize = 3;
/// Longest interruption of a router at an end, in milliseconds: no path is left meanwhile.
const AT_END: u64 = 2_000;
/// Time after the repair of a part in which the controller is not asked about it: the controller may not have
/// noticed yet that the part was broken.
const UNKNOWN: Duration = Duration::from_secs(1);
/// The same for a member of etcd, which has to catch up before another one may break.
const CATCHING_UP: Duration = Duration::from_secs(5);

/// A part of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Controller(usize),
    /// A member of etcd.
    Etcd(usize),
    Router(usize),
    /// A pair of routers.
    Pair(usize),
    /// The connection of a router to the only controller. Data goes on over the router.
    Control(usize),
}

/// What repairs a part.
#[derive(Clone, Copy, Debug)]
enum Repair {
    /// The process is started.
    Start,
    /// The process continues.
    Continue,
    /// The wires carry everything again.
    Wires,
    /// Nothing has to be done.
    None,
}

/// A broken part.
#[derive(Debug)]
struct Broken {
    part: Part,
    repair: Option<Repair>,
    at: Instant,
}

/// The events of a run.
pub(super) struct Chaos {
    pub(super) bed: Bed,
    random: StdRng,
    /// Longest interruption, in milliseconds.
    longest: u64,
    broken: Vec<Broken>,
    begun: Instant,
    asked: Instant,
    pub(super) count: usize,
}

impl Chaos {
    /// Interruptions last up to `longest` milliseconds.
    pub(super) fn new(bed: Bed, random: StdRng, longest: u64) -> Self {
        let now = Instant::now();
        Self { bed, random, longest, broken: Vec::new(), begun: now, asked: now, count: 0 }
    }

    /// Prints what happened, and when.
    pub(super) fn say(&self, what: &str) {
        println!("{:8.3} s  {what}", self.begun.elapsed().as_secs_f64());
    }

    /// Repairs what is due, and breaks something if a path is left without it.
    pub(super) async fn step(&mut self) {
        self.repair(Instant::now());
        self.learn().await;
        let is_data = |one: &&Broken| !matches!(one.part, Part::Controller(_) | Part::Etcd(_));
        let broken = match self.bed.etcd.is_empty() {
            true => self.broken.len(),
            false => self.broken.iter().filter(is_data).count(),
        };
        if broken < AT_ONCE {
            self.break_something();
        }
    }

    /// Repairs everything, and waits until the network is whole.
    pub(super) async fn end(&mut self, limit: Duration) {
        let far = Instant::now() + Duration::from_secs(3600);
        self.repair(far);
        self.say("everything is repaired");
        self.bed.log_in().await;
        self.bed.whole(limit).await;
        self.say("every link is there again");
        self.broken.clear();
    }

    fn repair(&mut self, now: Instant) {
        for at in 0..self.broken.len() {
            let Broken { part, repair, at: due } = self.broken[at];
            if due > now {
                continue;
            }
            let Some(repair) = repair else { continue };
            self.broken[at].repair = None;
            let unknown = if matches!(part, Part::Etcd(_)) { CATCHING_UP } else { UNKNOWN };
            self.broken[at].at = Instant::now() + unknown;
            match (part, repair) {
                (Part::Controller(one), Repair::Start) => self.bed.start_controller(one),
                (Part::Controller(one), Repair::Wires) => {
                    self.bed.controllers[one].set(State::default(), State::default());
                }
                (Part::Etcd(member), Repair::Start) => self.bed.etcd[member].run(),
                (Part::Etcd(member), _) => self.bed.etcd[member].signal("CONT"),
                (Part::Router(router), Repair::Start) => self.bed.start_router(router),
                (Part::Controller(one), _) => {
                    self.bed.controllers[one].program.as_ref().unwrap().signal("CONT");
                }
                (Part::Router(router), _) => {
                    self.bed.routers[router].program.as_ref().unwrap().signal("CONT");
                }
                (Part::Pair(pair), Repair::Wires) => self.bed.wires[pair].set(State::default()),
                (Part::Control(router), Repair::Wires) => {
                    self.bed.routers[router].control.set(State::default());
                }
                (Part::Pair(_) | Part::Control(_), _) => continue,
            }
            self.say(&format!("{} is repaired", name(part)));
        }
    }

    /// Asks the controllers which parts work again.
    async fn learn(&mut self) {
        let is_over = |one: &Broken| one.repair.is_none() && one.at <= Instant::now();
        if !self.broken.iter().any(is_over) || self.asked.elapsed() < Duration::from_millis(300) {
            return;
        }
        self.asked = Instant::now();
        let (mut linked, mut heard) = ([true; PAIRS.len()], BTreeSet::new());
        for at in 0..self.bed.controllers.len() {
            let is_broken = |one: &Broken| one.part == Part::Controller(at) && one.repair.is_some();
            if self.broken.iter().any(is_broken) {
                continue;
            }
            let Ok(said) = self.bed.linked(at).await else { continue };
            heard.insert(at);
            linked.iter_mut().zip(said).for_each(|(all, said)| *all &= said);
        }
        if heard.is_empty() {
            return;
        }
        let broken: BTreeSet<Part> =
            self.broken.iter().filter(|one| !is_over(one)).map(|one| one.part).collect();
        let works = |part: Part| match part {
            Part::Controller(at) => heard.contains(&at),
            Part::Etcd(_) => true,
            Part::Pair(pair) => {
                let (one, other) = PAIRS[pair];
                let has_router = [one, other].iter().all(|at| !is_away(&broken, *at));
                linked[pair] || !has_router
            }
            Part::Router(router) | Part::Control(router) => (0..PAIRS.len()).all(|pair| {
                let (one, other) = PAIRS[pair];
                let of_others = broken.contains(&Part::Pair(pair))
                    || is_away(&broken, one)
                    || is_away(&broken, other);
                ![one, other].contains(&router) || linked[pair] || of_others
            }),
        };
        self.broken.retain(|one| !is_over(one) || !works(one.part));
    }

    fn breaks(&self, part: Part) -> bool {
        self.broken.iter().any(|one| one.part == part)
    }

    /// True if the ends have a path without this part and without what is broken. While the controller does not hear
    /// an end, no circuit of that end can be moved, so that nothing else may break.
    fn leaves_a_path(&self, part: Part) -> bool {
        let ends = [WEST, EAST].map(Part::Control);
        if ends.contains(&part) || ends.iter().any(|end| self.breaks(*end)) {
            return self.broken.is_empty();
        }
        let is_gone = |one: Part| one == part || self.breaks(one);
        let mut reached = BTreeSet::from([WEST]);
        for _ in 0..ROUTERS {
            for (pair, (one, other)) in PAIRS.into_iter().enumerate() {
                for (from, to) in [(one, other), (other, one)] {
                    let leads = reached.contains(&from)
                        && !is_gone(Part::Pair(pair))
                        && !is_gone(Part::Control(to))
                        && !is_gone(Part::Router(to));
                    if leads {
                        reached.insert(to);
                    }
                }
            }
        }
        reached.contains(&EAST)
    }

    /// A part, chosen at random.
    fn some_part(&mut self) -> Part {
        let random = &mut self.random;
        let kinds = if self.bed.etcd.is_empty() { 23 } else { 28 };
        match random.random_range(0..kinds) {
            25.. => Part::Etcd(random.random_range(0..CLUSTER)),
            20..25 if kinds > 23 => Part::Controller(random.random_range(0..CLUSTER)),
            20..25 => Part::Control(random.random_range(0..ROUTERS)),
            0..2 => Part::Controller(random.random_range(0..self.bed.controllers.len())),
            2 => Part::Router([WEST, EAST][random.random_range(0..2)]),
            3..9 => Part::Router(BETWEEN[random.random_range(0..BETWEEN.len())]),
            _ => Part::Pair(random.random_range(0..PAIRS.len())),
        }
    }

    fn break_something(&mut self) {
        let part = self.some_part();
        let random = &mut self.random;
        let kind = random.random_range(0..10);
        let time = self.some_time();
        let pick = self.random.random_range(0..100);
        let is_end = part == Part::Router(WEST) || part == Part::Router(EAST);
        let is_alone = self.broken.is_empty();
        let is_of_its_kind =
            |one: &Broken| std::mem::discriminant(&one.part) == std::mem::discriminant(&part);
        let may_break = match part {
            // One of each at a time.
            Part::Controller(_) | Part::Etcd(_) => !self.broken.iter().any(is_of_its_kind),
            _ if is_end => is_alone,
            _ => self.leaves_a_path(part),
        };
        if self.breaks(part) || !may_break {
            return;
        }
        let (what, repair, time) = match part {
            Part::Controller(at) => self.break_controller(at, kind, time),
            Part::Etcd(member) => self.break_etcd(member, kind, time),
            Part::Router(router) if is_end => {
                self.bed.routers[router].program.as_ref().unwrap().signal("STOP");
                ("is stopped by SIGSTOP", Repair::Continue, time % AT_END)
            }
            Part::Router(router) if kind < 6 => {
                self.bed.routers[router].program.take().unwrap().kill();
                ("is killed", Repair::Start, time)
            }
            Part::Router(router) => {
                self.bed.routers[router].program.as_ref().unwrap().signal("STOP");
                ("is stopped by SIGSTOP", Repair::Continue, time)
            }
            Part::Pair(pair) => self.break_wires(pair, kind, time, pick),
            Part::Control(router) => self.break_control(router, kind, time),
        };
        self.say(&format!("{} {what} for {time} ms", name(part)));
        let at = Instant::now() + Duration::from_millis(time);
        self.broken.push(Broken { part, repair: Some(repair), at });
        self.count += 1;
    }

    fn break_controller(&mut self, at: usize, kind: u32, time: u64) -> (&'static str, Repair, u64) {
        let is_single = self.bed.etcd.is_empty();
        let controller = &mut self.bed.controllers[at];
        let (whole, cut) = (State::default(), State { is_refusing: true, ..State::default() });
        let held = State { is_refusing: false, holds_there: true, holds_back: true };
        let (control, etcd, what) = match kind {
            5 if !is_single => (held, whole, "is held up before routers and controllers"),
            6 if !is_single => (cut, whole, "is cut off from routers and controllers"),
            7 if !is_single => (whole, held, "is held up before etcd"),
            8 if !is_single => (whole, cut, "is cut off from etcd"),
            9 if !is_single => (cut, cut, "is cut off from routers, controllers and etcd"),
            _ if kind < if is_single { 6 } else { 3 } => {
                controller.program.take().unwrap().kill();
                return ("is killed", Repair::Start, time);
            }
            _ => {
                controller.program.as_ref().unwrap().signal("STOP");
                return ("is stopped by SIGSTOP", Repair::Continue, time);
            }
        };
        controller.set(control, etcd);
        (what, Repair::Wires, time)
    }

    fn break_etcd(&mut self, member: usize, kind: u32, time: u64) -> (&'static str, Repair, u64) {
        let member = &mut self.bed.etcd[member];
        if kind < 5 {
            member.kill();
            return ("is killed", Repair::Start, time);
        }
        member.signal("STOP");
        ("is stopped by SIGSTOP", Repair::Continue, time)
    }

    fn break_control(&self, router: usize, kind: u32, time: u64) -> (&'static str, Repair, u64) {
        let wires = &self.bed.routers[router].control;
        if kind < 5 {
            wires.set(State { is_refusing: true, ..State::default() });
            wires.cut();
            return ("is cut", Repair::Wires, time);
        }
        wires.set(State { is_refusing: false, holds_there: true, holds_back: true });
        ("is held up", Repair::Wires, time)
    }

    fn break_wires(
        &self,
        pair: usize,
        kind: u32,
        time: u64,
        pick: usize,
    ) -> (&'static str, Repair, u64) {
        let wires = &self.bed.wires[pair];
        let held = |holds_there, holds_back| State { is_refusing: false, holds_there, holds_back };
        match kind {
            0..2 => {
                wires.cut_one(pick);
                ("loses a connection", Repair::None, 0)
            }
            2..4 => {
                wires.cut();
                ("loses all connections", Repair::None, 0)
            }
            4..7 => {
                wires.set(State { is_refusing: true, ..State::default() });
                wires.cut();
                ("is cut", Repair::Wires, time)
            }
            7 => {
                wires.set(held(true, false));
                ("is held up in one direction", Repair::Wires, time)
            }
            8 => {
                wires.set(held(false, true));
                ("is held up in the other direction", Repair::Wires, time)
            }
            _ => {
                wires.set(held(true, true));
                ("is held up in both directions", Repair::Wires, time)
            }
        }
    }

    /// A time between 0.2 s and the longest one; short ones are more frequent.
    fn some_time(&mut self) -> u64 {
        let part: f64 = self.random.random_range(0.0..1.0);
        200 + (part.powi(3) * (self.longest - 200) as f64) as u64
    }

    /// The pause before the next step.
    pub(super) fn pause(&mut self) -> Duration {
        Duration::from_millis(self.random.random_range(50..600))
    }
}

/// Whether a router, or its connection to the controller, is broken.
fn is_away(broken: &BTreeSet<Part>, router: usize) -> bool {
    broken.contains(&Part::Router(router)) || broken.contains(&Part::Control(router))
}

fn name(part: Part) -> String {
    match part {
        Part::Controller(at) => format!("controller {}", at + 1),
        Part::Etcd(member) => format!("member {} of etcd", member + 1),
        Part::Router(router) => format!("router {}", router + 1),
        Part::Pair(pair) => {
            let (one, other) = PAIRS[pair];
            format!("the link of routers {} and {}", one + 1, other + 1)
        }
        Part::Control(router) => format!("the control connection of router {}", router + 1),
    }
}
