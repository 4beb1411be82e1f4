//! Routers, links, and the circuit that is moved among them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::*;
use crate::circuits::sample;
use crate::dice::Dice;
use crate::routes;

/// Rounds in which anything happens, and quiet ones after them.
const ROUNDS: usize = 14;
const QUIET: usize = 4;
const ROUTERS: usize = 7;

/// Something on its way to a router.
#[derive(Debug, Clone)]
enum Mail {
    Route(Vec<Forward>),
    Unroute,
}

/// A router: the ways of the circuit, if it knows the circuit, and what it has not read yet.
#[derive(Debug, Default)]
struct Router {
    ways: Option<BTreeMap<String, String>>,
    mail: VecDeque<Mail>,
    /// Whether it has connected anew since the circuit arrived on its path.
    has_restarted: bool,
}

#[derive(Debug)]
struct Link {
    id: String,
    ends: [usize; 2],
    is_up: bool,
}

pub(super) struct World {
    dice: Dice,
    shows: bool,
    is_quiet: bool,
    routers: Vec<Router>,
    links: Vec<Link>,
    /// The circuit in the table; none once it has ended.
    circuit: Option<Circuit>,
    /// Whether the circuit waits for its next move, and what that has to know.
    waits: bool,
    sends_again: bool,
    known: Option<KnownRoutes>,
    /// What routers have reported of a circuit that is known in part.
    reported: Vec<(Id, Route)>,
    /// Routers that the circuit has left.
    left: BTreeSet<usize>,
    /// Whether a router on the path has lost its ways.
    is_torn: bool,
    /// The routers from which payloads of the dialer enter each link, on the paths that routers may know.
    directions: BTreeMap<String, BTreeSet<usize>>,
    taken: BTreeSet<usize>,
}

fn id(router: usize) -> Id {
    Id::new(&format!("r{router}"))
}

fn number(router: &Id) -> usize {
    router.as_str()[1..].parse().unwrap()
}

type Played<T = ()> = Result<T, String>;

impl World {
    /// Plays a seed. Returns the rows that were taken.
    pub(super) fn play(seed: u64, table: &'static [Row], shows: bool) -> Played<BTreeSet<usize>> {
        let mut world = Self::new(seed, shows);
        for round in 0..ROUNDS + QUIET {
            world.is_quiet = round >= ROUNDS;
            world.trouble();
            world.one_move(table)?;
            world.leave();
            world.read_some()?;
            if world.circuit.is_none() {
                break;
            }
        }
        world.check_end()?;
        Ok(world.taken)
    }

    fn new(seed: u64, shows: bool) -> Self {
        let mut dice = Dice(seed);
        let count = 2 + dice.below(ROUTERS - 1);
        let mut links = Vec::new();
        for from in 0..count {
            for to in from + 1..count {
                let parallel = match (to == from + 1, dice.below(6)) {
                    (_, 5) => 2,
                    (false, 0..3) => 0,
                    _ => 1,
                };
                links.extend((0..parallel).map(|number| Link {
                    id: format!("{from}-{to}.{number}"),
                    ends: [from, to],
                    is_up: true,
                }));
            }
        }
        let mut world = Self {
            dice,
            shows,
            is_quiet: false,
            routers: (0..count).map(|_| Router::default()).collect(),
            links,
            circuit: None,
            waits: false,
            sends_again: false,
            known: None,
            reported: Vec::new(),
            left: BTreeSet::new(),
            is_torn: false,
            directions: BTreeMap::new(),
            taken: BTreeSet::new(),
        };
        let path = world.find(&[]).unwrap_or_default();
        let is_whole = !world.dice.once_in(6);
        let circuit = Circuit { path, is_whole, ..sample("c", &[], &[]) };
        for (router, hops) in routes::hops(&circuit.path, &circuit.ingress, &circuit.egress) {
            let ways = hops.iter().map(|hop| (hop.from.to_owned(), hop.to.to_owned()));
            world.routers[number(router)].ways = Some(ways.collect());
            let forwards = hops.map(Forward::from).to_vec();
            world.reported.push((router.clone(), Route { forwards, ..Route::default() }));
        }
        world.note_directions(&circuit.path);
        world.circuit = Some(circuit);
        world
    }

    fn note(&self, text: impl FnOnce() -> String) {
        if self.shows {
            println!("{}", text());
        }
    }

    /// A path from the first router to the last one over links that are up, the shortest for random lengths of links.
    fn find(&mut self, avoided: &[Id]) -> Option<Path> {
        let last = self.routers.len() - 1;
        let lengths: Vec<usize> = self.links.iter().map(|_| 1 + self.dice.below(9)).collect();
        let mut before: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
        let mut open = BTreeSet::from([(0, 0, None)]);
        let mut done = BTreeSet::new();
        while let Some((distance, at, from)) = open.pop_first() {
            if !done.insert(at) {
                continue;
            }
            before.extend(from.map(|from| (at, from)));
            for (number, link) in self.links.iter().enumerate().filter(|(_, link)| link.is_up) {
                let Some(end) = link.ends.iter().position(|end| *end == at) else { continue };
                let next = link.ends[1 - end];
                if !avoided.contains(&id(next)) {
                    open.insert((distance + lengths[number], next, Some((at, number))));
                }
            }
        }
        let (mut nodes, mut links, mut at) = (vec![id(last)], Vec::new(), last);
        while at != 0 {
            let (from, link) = before.get(&at)?;
            nodes.push(id(*from));
            links.push(self.links[*link].id.clone());
            at = *from;
        }
        nodes.reverse();
        links.reverse();
        Some(Path { nodes, links, cost: 0 })
    }

    fn note_directions(&mut self, path: &Path) {
        for (link, from) in path.links.iter().zip(&path.nodes) {
            self.directions.entry(link.clone()).or_default().insert(number(from));
        }
    }

    fn is_up(&self, link: &str) -> bool {
        self.links.iter().any(|it| it.id == link && it.is_up)
    }

    /// Links break and come back, and a router between the ends restarts.
    fn trouble(&mut self) {
        for at in 0..self.links.len() {
            let is_up = match self.is_quiet {
                true => true,
                false if self.links[at].is_up => !self.dice.once_in(8),
                false => self.dice.once_in(2),
            };
            self.links[at].is_up = is_up;
        }
        if self.is_quiet || self.routers.len() < 3 {
            return;
        }
        if self.dice.once_in(6) {
            // It has only connected again, and may have restarted for all that is known.
            let at = self.dice.below(self.routers.len());
            self.routers[at].has_restarted = true;
        }
        if !self.dice.once_in(8) {
            return;
        }
        let at = 1 + self.dice.below(self.routers.len() - 2);
        self.note(|| format!("r{at} restarts"));
        self.routers[at] = Router { has_restarted: true, ..Router::default() };
        let is_on = self.circuit.as_ref().is_some_and(|it| it.path.nodes.contains(&id(at)));
        self.is_torn |= is_on || self.known.is_some();
        self.sends_again |= is_on;
    }

    fn one_move(&mut self, table: &'static [Row]) -> Played {
        let Some(circuit) = &self.circuit else { return Ok(()) };
        let works = circuit.path.links.iter().all(|link| self.is_up(link));
        let is_broken = !works || !circuit.is_whole;
        let only_if_cheaper = !(is_broken || self.waits || self.sends_again);
        let wish = MoveTerms { is_urgent: true, sends_again: self.sends_again, only_if_cheaper };
        let known = self.known.take();
        let was_changed = wish.sends_again || known.is_some();
        let mut it = Move { table, ..Move::new(wish, known) };
        let mut input = self.look(&mut it, wish);
        let mut has_told_changed = false;
        for _ in 0..20 {
            self.note(|| format!("{input:?}"));
            let output = it.step(input);
            self.note(|| format!("    {output:?}"));
            self.taken.extend(&it.taken);
            input = match output {
                Output::Find => self.look(&mut it, wish),
                Output::Tell(step) => {
                    has_told_changed |= it.state == State::Switch;
                    self.tell(&mut it, step)?
                }
                Output::Put(path) => {
                    let circuit = self.circuit.take();
                    let whole =
                        |circuit: Circuit| Circuit { is_whole: true, ..circuit.moved(path) };
                    self.circuit = circuit.map(whole);
                    self.reported.iter().for_each(|(router, route)| it.note_route(router, route));
                    Input::Put
                }
                Output::Over(ending, beside) => {
                    let is_changed = was_changed || has_told_changed;
                    self.check_ending(&it, ending, only_if_cheaper && !is_changed)?;
                    return self.end(it, ending, beside);
                }
            };
        }
        Err("the move does not end".into())
    }

    /// What the driver finds out before it asks routers.
    fn look(&mut self, it: &mut Move, wish: MoveTerms) -> Input {
        let troubled = !self.is_quiet;
        let mut happens = |calls| troubled && self.dice.once_in(calls);
        let [ends, lacks_ends, stays, is_early] = [200, 150, 3, 3].map(&mut happens);
        let [changes, is_late] = [5, 8].map(&mut happens);
        let [is_full, is_silent, is_gone] = [10, 12, 12].map(&mut happens);
        let failed = |obstacle| Input::Failed { obstacle, is_early };
        if ends {
            self.circuit = None;
        }
        if changes {
            let at = self.dice.below(self.links.len());
            self.links[at].is_up = !self.links[at].is_up;
        }
        let Some(circuit) = &self.circuit else { return Input::Ended };
        if lacks_ends {
            return failed(Obstacle::NoEnds);
        }
        let circuit = circuit.moved(circuit.path.clone());
        // A link may be back only after the look at the present path.
        let works =
            !is_late && circuit.is_whole && circuit.path.links.iter().all(|link| self.is_up(link));
        let may_stay = works && !it.has_changed();
        if may_stay && (!wish.only_if_cheaper || stays) {
            return Input::Stays;
        }
        let avoided = it.avoided().to_vec();
        let found = self.find(&avoided);
        let again = if it.may_try_again() { self.find(&[]) } else { None };
        let Some(path) = found.or(again) else { return failed(Obstacle::NoPath) };
        let routers = &self.routers;
        let is_certain = |router: &Id| !wish.sends_again && !routers[number(router)].has_restarted;
        if circuit.is_whole {
            it.note_path(&circuit, is_certain);
        }
        for (router, route) in self.reported.iter().filter(|_| !circuit.is_whole) {
            it.note_route(router, route);
        }
        let steps = it.steps(&circuit, &path);
        let asked: Vec<Id> = steps.routers().into_iter().cloned().collect();
        let (first, last) = (id(0), id(self.routers.len() - 1));
        let end = asked.iter().find(|router| **router == first || **router == last);
        let between = asked.iter().find(|router| **router != first && **router != last);
        match (asked.first(), end, between) {
            (Some(router), ..) if is_full && it.is_first() => {
                failed(Obstacle::Full(router.clone()))
            }
            (_, Some(end), _) if is_silent => failed(Obstacle::SilentEnd(end.clone())),
            (_, _, Some(router)) if is_gone => {
                it.tried.clone_from(&path);
                failed(Obstacle::at(router, RouteOutcome::Gone, ""))
            }
            _ => {
                self.note_directions(&path);
                Input::Planned(path, steps)
            }
        }
    }

    /// Sends routes, in any order. Of the routers behind the first one that fails nobody knows anything.
    fn tell(&mut self, it: &mut Move, step: Step) -> Played<Input> {
        let mut step = step;
        let turn = self.dice.below(step.len().max(1));
        step.rotate_left(turn);
        let mut obstacle = None;
        for (router, forwards) in step {
            let at = number(&router);
            self.routers[at].mail.push_back(Mail::Route(forwards.clone()));
            let is_end = at == 0 || at + 1 == self.routers.len();
            let lacks_link = forwards
                .iter()
                .any(|way| self.links.iter().any(|link| link.id == way.dst_address && !link.is_up));
            let fate = if self.is_quiet { 99 } else { self.dice.below(24) };
            let outcome = match fate {
                // It has not read it yet.
                0 => RouteOutcome::Silence,
                // It has, and its answer was lost.
                1 | 2 => {
                    self.read_all(at)?;
                    [RouteOutcome::Silence, RouteOutcome::Gone][fate - 1]
                }
                3 | 4 => {
                    // It, or its channel, has dropped it.
                    self.routers[at].mail.pop_back();
                    self.read_all(at)?;
                    [RouteOutcome::Gone, RouteOutcome::Refused][fate - 3]
                }
                5 => {
                    self.routers[at].mail.pop_back();
                    RouteOutcome::Busy
                }
                _ if lacks_link => {
                    self.routers[at].mail.pop_back();
                    RouteOutcome::NoLink
                }
                _ => {
                    self.read_all(at)?;
                    RouteOutcome::Done
                }
            };
            obstacle = match (obstacle, outcome) {
                (None, RouteOutcome::Done) => {
                    it.confirmed(&router, &forwards);
                    None
                }
                (None, RouteOutcome::Silence) if is_end => Some(Obstacle::SilentEnd(router)),
                (None, outcome) => Some(Obstacle::at(&router, outcome, "")),
                (obstacle, _) => obstacle,
            };
        }
        let is_early = self.dice.once_in(3);
        Ok(obstacle.map_or(Input::Answered, |obstacle| Input::Failed { obstacle, is_early }))
    }

    fn end(&mut self, mut it: Move, ending: Ending, beside: Beside) -> Played {
        let path = self.circuit.as_ref().map(|it| it.path.clone()).unwrap_or_default();
        let beside_it = it.beside(&path);
        let has_changed = it.has_changed();
        match beside {
            _ if self.circuit.is_none() => self.unroute(&beside_it),
            Beside::Unroute => self.unroute(&beside_it),
            Beside::Leave => self.left.extend(beside_it.iter().map(number)),
            Beside::Keep => self.known = it.take_known(),
        }
        match ending {
            Ending::Arrived | Ending::Kept => self.waits = false,
            Ending::Removed | Ending::Ended => {
                // Whoever removes a circuit tells the routers of its path, and those of an unfinished move.
                let known = self.known.take();
                let kept = known.map(|it| it.beside(&path)).unwrap_or_default();
                self.unroute(&kept);
                let left: Vec<Id> = std::mem::take(&mut self.left).into_iter().map(id).collect();
                self.unroute(&left);
                self.circuit = None;
                self.unroute(&path.nodes);
                let all: Vec<Id> = (0..self.routers.len()).map(id).collect();
                // A circuit that ends during its move leaves its path to those who ended it.
                self.unroute(if ending == Ending::Ended { &all } else { &[] });
            }
            _ => (self.waits, self.sends_again) = (true, self.sends_again | has_changed),
        }
        if ending == Ending::Arrived && has_changed {
            self.sends_again = false;
            self.is_torn = false;
            self.routers.iter_mut().for_each(|router| router.has_restarted = false);
        }
        Ok(())
    }

    fn unroute(&mut self, routers: &[Id]) {
        for router in routers {
            self.routers[number(router)].mail.push_back(Mail::Unroute);
        }
    }

    /// The driver takes a circuit down at routers that it has left, unless it waits for its next move.
    fn leave(&mut self) {
        let Some(circuit) = self.circuit.as_ref().filter(|_| !self.waits) else { return };
        let path = circuit.path.clone();
        let left = std::mem::take(&mut self.left).into_iter().map(id);
        let left: Vec<Id> = left.filter(|router| !path.nodes.contains(router)).collect();
        self.unroute(&left);
        if self.routers.iter().all(|router| router.mail.is_empty()) {
            self.directions.clear();
        }
        self.note_directions(&path);
    }

    /// Routers read what has come to them, or do so later.
    fn read_some(&mut self) -> Played {
        for at in 0..self.routers.len() {
            if self.is_quiet || self.dice.once_in(2) {
                self.read_all(at)?;
            }
        }
        Ok(())
    }

    fn read_all(&mut self, at: usize) -> Played {
        while let Some(mail) = self.routers[at].mail.pop_front() {
            self.note(|| format!("    r{at} reads {mail:?}"));
            match mail {
                Mail::Unroute => self.routers[at].ways = None,
                Mail::Route(forwards) => {
                    let ways = self.routers[at].ways.get_or_insert_default();
                    ways.extend(forwards.into_iter().map(|way| (way.src_address, way.dst_address)));
                }
            }
            self.check_payloads()?;
        }
        Ok(())
    }

    /// Payloads pass in both directions: no link is down, no ways were lost in a restart, and no two paths that routers
    /// may know use a link in opposite directions, in which case payloads may be sent back and have to be repeated.
    fn check_payloads(&self) -> Played {
        let is_fair = self.links.iter().all(|link| link.is_up)
            && !self.is_torn
            && self.directions.values().all(|from| from.len() == 1);
        if !is_fair || self.circuit.is_none() {
            return Ok(());
        }
        for (first, from, to) in [(0, "I", "E"), (self.routers.len() - 1, "E", "I")] {
            let (mut at, mut address) = (first, from.to_owned());
            for _ in 0..=self.routers.len() {
                let next = self.routers[at].ways.as_ref().and_then(|ways| ways.get(&address));
                let Some(next) = next else {
                    return Err(format!("r{at} does not know where payloads from {address} go"));
                };
                address.clone_from(next);
                let Some(link) = self.links.iter().find(|link| link.id == address) else { break };
                at = if link.ends[0] == at { link.ends[1] } else { link.ends[0] };
            }
            if address != to {
                return Err(format!("payloads from {from} come to {address}"));
            }
        }
        Ok(())
    }

    /// A circuit is tried twice, waits for that which it lacks, keeps a path that works, and ends for a refusal alone.
    fn check_ending(&self, it: &Move, ending: Ending, is_free: bool) -> Played {
        let is_right = match (ending, it.obstacle()) {
            (_, Some(Obstacle::Router { .. })) if it.tries < TRIES && ending != Ending::Arrived => {
                false
            }
            (Ending::Arrived | Ending::Ended, _) => true,
            (Ending::Kept, Some(_)) => is_free,
            (_, Some(Obstacle::Full(_))) => ending == Ending::Parked,
            (Ending::Parked, _) => false,
            _ if is_free => false,
            (_, Some(Obstacle::SilentEnd(_))) => ending == Ending::Resting,
            (Ending::Awaiting, Some(Obstacle::NoPath | Obstacle::NoEnds)) => true,
            (_, Some(Obstacle::NoEnds)) => ending == Ending::Removed,
            (_, Some(Obstacle::NoPath)) if it.avoided.is_empty() => ending == Ending::Stranded,
            (_, Some(Obstacle::NoPath)) => ending == Ending::Failed,
            (_, Some(Obstacle::Router { outcome: RouteOutcome::Refused, .. })) => {
                ending == Ending::Removed
            }
            (_, Some(Obstacle::Router { .. })) => ending == Ending::Failed,
            (_, None) => false,
        };
        match is_right {
            true => Ok(()),
            false => Err(format!("{ending:?} after {:?}", it.obstacle())),
        }
    }

    /// When all is quiet, the routers of the path, and no others, know the circuit.
    fn check_end(&mut self) -> Played {
        self.leave();
        for at in 0..self.routers.len() {
            self.read_all(at)?;
        }
        let path = self.circuit.as_ref().map(|it| it.path.clone()).unwrap_or_default();
        if self.circuit.is_some() && (self.waits || self.known.is_some()) {
            return Err("the circuit has not arrived".into());
        }
        for at in 0..self.routers.len() {
            let (is_on, knows) = (path.nodes.contains(&id(at)), self.routers[at].ways.is_some());
            if is_on != knows {
                return Err(format!("r{at} knows the circuit: {knows}; on its path: {is_on}"));
            }
        }
        self.is_torn = false;
        self.check_payloads()
    }
}
