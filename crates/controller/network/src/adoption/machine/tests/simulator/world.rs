//! The controller's table and moves, and all that is on its way between them and the routers.

use std::collections::BTreeMap;

use weft_paths::path::Path;
use weft_wire::ctrl::route::Forward;

use super::routers::{
    Kind, Mail, Played, PlayedLink, TableCircuit, id, index, leads_to, links, routes,
};
use super::*;
use crate::dice::Dice;

pub(super) const RETURN: Duration = Duration::from_secs(75);
/// How long the troubles last, and the quiet after them.
const TROUBLES: Duration = Duration::from_secs(120);
const QUIET: Duration = Duration::from_secs(120);
pub(super) const ROUTERS: usize = 4;
const CIRCUITS: usize = 10;

pub(super) struct World {
    dice: Dice,
    shows: bool,
    start: Instant,
    pub(super) now: Instant,
    pub(super) machine: Machine,
    pub(super) routers: Vec<Played>,
    pub(super) links: BTreeMap<String, PlayedLink>,
    last_connection: u64,
    /// The paths over which circuits go as far as both ends send over the same one.
    pub(super) paths: BTreeMap<String, Path>,
    pub(super) table: BTreeMap<String, TableCircuit>,
    /// Most circuits in the table.
    most: usize,
    pub(super) ended: BTreeSet<String>,
    /// Circuits that are being moved, looked at or removed.
    pub(super) moving: BTreeSet<String>,
    pub(super) looking: BTreeSet<String>,
    pub(super) removing: BTreeSet<String>,
    /// Circuits whose routers are to be sent their routes again.
    pub(super) sends_again: BTreeSet<String>,
    /// Since when the path of a circuit is due without a look.
    pub(super) due_since: BTreeMap<String, Instant>,
    /// Circuits that were once beyond a limit, or about which a router has lied.
    pub(super) exempt: BTreeSet<String>,
    mail: BTreeMap<(Instant, u64), Mail>,
    sent: u64,
    pub(super) is_quiet: bool,
    lies: bool,
}

impl World {
    pub(super) fn new(seed: u64, table: &'static [Row], shows: bool) -> Self {
        let now = Instant::now();
        let mut dice = Dice(seed);
        let mut machine = Machine { table, ..Machine::new(now, RETURN) };
        if dice.once_in(4) {
            let limits = Limits { circuits: 8, begun: 4, bytes: 400, route: 100, ..machine.limits };
            machine.limits = Limits { nodes: 3, at_router: 6, ..limits };
        }
        let most = if dice.once_in(6) { 5 } else { 100 };
        let mut router = |_| Played {
            kind: [
                Kind::Weft,
                Kind::Weft,
                Kind::Weft,
                Kind::Original,
                Kind::Original,
                Kind::Silent,
            ][dice.below(6)],
            connection: None,
            has_told: false,
            incarnation: 0,
            routes: BTreeMap::new(),
        };
        let routers = (0..ROUTERS).map(&mut router).collect();
        let lies = dice.once_in(3);
        let mut world = Self {
            dice,
            shows,
            start: now,
            now,
            machine,
            routers,
            links: links(ROUTERS),
            last_connection: 0,
            paths: BTreeMap::new(),
            table: BTreeMap::new(),
            most,
            ended: BTreeSet::new(),
            moving: BTreeSet::new(),
            looking: BTreeSet::new(),
            removing: BTreeSet::new(),
            sends_again: BTreeSet::new(),
            due_since: BTreeMap::new(),
            exempt: BTreeSet::new(),
            mail: BTreeMap::new(),
            sent: 0,
            is_quiet: false,
            lies,
        };
        (0..CIRCUITS).for_each(|number| world.make(&format!("c{number}")));
        world
    }

    pub(super) fn age(&self) -> Duration {
        self.now - self.start
    }

    /// A path between two routers, over others.
    fn any_path(&mut self, first: usize, last: usize) -> Path {
        let mut nodes = vec![first];
        let mut others: Vec<usize> =
            (0..ROUTERS).filter(|it| ![first, last].contains(it)).collect();
        for _ in 0..self.dice.below(others.len() + 1) {
            nodes.push(others.swap_remove(self.dice.below(others.len())));
        }
        if first != last {
            nodes.push(last);
        } else {
            nodes.truncate(1);
        }
        let link = |pair: &[usize]| format!("l{}{}", pair[0].min(pair[1]), pair[0].max(pair[1]));
        let links = nodes.windows(2).map(link).collect();
        Path { nodes: nodes.into_iter().map(id).collect(), links, cost: 0 }
    }

    /// A circuit that the earlier run has made and perhaps moved.
    fn make(&mut self, circuit: &str) {
        let (first, last) = (self.dice.below(ROUTERS), self.dice.below(ROUTERS));
        let path = self.any_path(first, last);
        self.set_up(circuit, &path);
        match self.dice.below(6) {
            0 => {
                // Routers of its former path have kept it.
                let other = self.any_path(first, last);
                for (router, route) in routes(circuit, &other) {
                    self.routers[router].routes.entry(circuit.to_owned()).or_insert(route);
                }
            }
            1 => {
                // One end sends over another path.
                let other = self.any_path(first, last);
                let (router, mut route) = routes(circuit, &other).remove(0);
                let own = &self.routers[router].routes[circuit];
                route.forwards.extend(own.forwards.get(1).cloned());
                if route.forwards[0] != own.forwards[0] {
                    self.routers[router].routes.insert(circuit.to_owned(), route);
                    self.paths.remove(circuit);
                }
            }
            2 => {
                // A router has lost it.
                let router = index(&path.nodes[self.dice.below(path.nodes.len())]);
                self.routers[router].routes.remove(circuit);
                self.paths.remove(circuit);
            }
            _ => {}
        }
    }

    fn set_up(&mut self, circuit: &str, path: &Path) {
        for (router, route) in routes(circuit, path) {
            self.routers[router].routes.insert(circuit.to_owned(), route);
        }
        self.paths.insert(circuit.to_owned(), path.clone());
    }

    pub(super) fn play(&mut self) -> Result<(), String> {
        for router in 0..ROUTERS {
            if !self.dice.once_in(3) {
                self.connect(router)?;
            }
        }
        self.pass(TROUBLES)?;
        self.is_quiet = true;
        let dead = self.dice.below(2 * self.links.len());
        let all: Vec<String> = self.links.keys().cloned().collect();
        for (at, link) in all.iter().enumerate() {
            self.set_link(link, at != dead)?;
        }
        for router in 0..ROUTERS {
            self.connect(router)?;
            self.pass(Duration::from_secs(2))?;
        }
        self.pass(QUIET)?;
        self.check_quiet()?;
        self.end_all()
    }

    fn end_all(&mut self) -> Result<(), String> {
        (0..ROUTERS).for_each(|router| self.disconnect(router));
        let all: Vec<String> = self.table.keys().cloned().collect();
        all.iter().try_for_each(|circuit| self.remove(circuit))?;
        self.pass(Duration::from_secs(40))?;
        self.check_empty()
    }

    /// Lets time pass: mail arrives, what is due comes, and in the troubles things happen.
    fn pass(&mut self, time: Duration) -> Result<(), String> {
        let end = self.now + time;
        while self.now < end {
            if !self.is_quiet {
                self.trouble()?;
            }
            let next = self.now + self.dice.millis(3_000);
            loop {
                let mail = self.mail.first_key_value().map(|((at, _), _)| *at);
                let due = self.machine.next_due();
                let first = mail.into_iter().chain(due).min();
                let Some(at) = first.filter(|at| *at <= next) else { break };
                self.now = self.now.max(at);
                match mail.filter(|mail| *mail <= at).and_then(|_| self.mail.pop_first()) {
                    Some((_, mail)) => self.arrive(mail)?,
                    None => _ = self.step(Input::Tick)?,
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

    fn trouble(&mut self) -> Result<(), String> {
        let router = self.dice.below(ROUTERS);
        match self.dice.below(24) {
            0..=5 if self.routers[router].connection.is_none() => self.connect(router)?,
            0 if self.dice.once_in(4) => self.connect(router)?,
            6 if self.dice.once_in(2) => self.disconnect(router),
            7 if self.dice.once_in(4) => {
                self.disconnect(router);
                self.routers[router].routes.clear();
                self.routers[router].incarnation += 1;
            }
            8..=11 => {
                let link = self.links.keys().nth(self.dice.below(self.links.len())).cloned();
                let is_up = !self.dice.once_in(3);
                link.map_or(Ok(()), |link| self.set_link(&link, is_up))?;
            }
            12..=15 => {
                if let Some((circuit, of)) = self.carried(router) {
                    self.send(300, Mail::Confirmation(of, circuit));
                }
            }
            16 | 17 if self.dice.once_in(2) => self.circuit_ends(router),
            18..=21 => self.reports_wrongly(),
            _ => {}
        }
        Ok(())
    }

    /// Some circuit that a connected router has.
    fn carried(&mut self, router: usize) -> Option<(String, (usize, u64))> {
        let (number, _) = self.routers[router].connection?;
        let routes = &self.routers[router].routes;
        let circuit = routes.keys().nth(self.dice.below(routes.len()))?;
        Some((circuit.clone(), (router, number)))
    }

    /// An end of a circuit is gone, and its router reports that if it is connected.
    fn circuit_ends(&mut self, router: usize) {
        let routes = &self.routers[router].routes;
        let ends = routes.iter().filter(|(_, route)| is_end(route));
        let ends: Vec<String> = ends.map(|(circuit, _)| circuit.clone()).collect();
        let Some(circuit) = ends.get(self.dice.below(CIRCUITS)).cloned() else { return };
        self.routers[router].routes.remove(&circuit);
        if let Some((number, _)) = self.routers[router].connection {
            for mail in self.mail.values_mut() {
                if let Mail::Parts { of, parts, .. } = mail
                    && *of == (router, number)
                {
                    parts.iter_mut().for_each(|part| part.retain(|it| it.circuit_id != circuit));
                }
            }
            self.send(50, Mail::End((router, number), circuit));
        }
    }

    /// A router reports circuits of this run, circuits that have ended, or ends that it does not have.
    fn reports_wrongly(&mut self) {
        let may_report = |it: &Played| it.kind != Kind::Silent && !it.has_told;
        let mut routers = self.routers.iter().enumerate();
        let found =
            routers.find_map(|(at, it)| Some((at, it.connection.filter(|_| may_report(it))?)));
        let Some((router, (number, _))) = found else { return };
        let with_ends = self.table.iter().find(|(_, it)| it.has_ends && !it.is_whole);
        let with_ends = with_ends.map(|(circuit, _)| circuit.clone());
        let circuit = match self.dice.below(4) {
            0 => "own1".to_owned(),
            1 => self.ended.iter().next().cloned().unwrap_or_default(),
            2 if self.lies => with_ends.unwrap_or_default(),
            _ if self.lies => format!("c{}", self.dice.below(CIRCUITS)),
            _ => return,
        };
        if circuit.is_empty() {
            return;
        }
        self.exempt.insert(circuit.clone());
        let (first, last) = (router, self.dice.below(ROUTERS));
        let path = self.any_path(first, last);
        let part = routes(&circuit, &path).into_iter().take(1).map(|(_, route)| route).collect();
        self.send(100, Mail::Stray((router, number), part));
    }

    pub(super) fn set_link(&mut self, link: &str, is_up: bool) -> Result<(), String> {
        let dialer = self.links[link].ends[0];
        let is_heard = self.routers[dialer].connection.is_some();
        let Some(known) = self.links.get_mut(link) else { return Ok(()) };
        let was_known = known.is_known;
        known.is_up = is_up;
        known.is_known = is_up && (was_known || is_heard);
        if was_known && !is_up {
            let over = self.table.iter().filter(|(_, it)| it.is_whole && it.path.has_link(link));
            let over: Vec<String> = over.map(|(circuit, _)| circuit.clone()).collect();
            over.iter().for_each(|circuit| self.begin_move(circuit, MoveReason::Broken));
            self.step(Input::News)?;
        }
        Ok(())
    }

    fn connect(&mut self, router: usize) -> Result<(), String> {
        self.disconnect(router);
        self.last_connection += 1;
        let (number, now) = (self.last_connection, self.now);
        let played = &mut self.routers[router];
        (played.connection, played.has_told) = (Some((number, now)), false);
        match played.kind {
            Kind::Weft => self.report(router, number, 300),
            Kind::Original => self.send_after(3_000, 1, Mail::Question(router, number)),
            Kind::Silent => {
                let circuits: Vec<String> = played.routes.keys().cloned().collect();
                for circuit in circuits {
                    self.send(60_000, Mail::Confirmation((router, number), circuit));
                }
            }
        }
        for link in self.links.values_mut().filter(|link| link.ends[0] == router) {
            link.is_known = link.is_up;
        }
        Ok(())
    }

    fn disconnect(&mut self, router: usize) {
        self.routers[router].connection = None;
        self.routers[router].has_told = false;
    }

    /// A router names the circuits that it has now, in parts.
    fn report(&mut self, router: usize, number: u64, within: u64) {
        let mut parts = vec![Vec::new()];
        let mut routes: Vec<Route> = self.routers[router].routes.values().cloned().collect();
        if self.routers[router].kind == Kind::Original {
            // It does not tell a link that is away from an end that has closed.
            let is_there =
                |way: &Forward| self.links.get(&way.dst_address).is_none_or(|it| it.is_up);
            routes.iter_mut().for_each(|route| route.forwards.retain(is_there));
        }
        for route in routes {
            if self.dice.once_in(3) {
                parts.push(Vec::new());
            }
            parts.last_mut().unwrap().push(route.clone());
            if self.dice.once_in(8) {
                parts.last_mut().unwrap().push(route);
            }
        }
        self.send(within, Mail::Parts { of: (router, number), parts, expected: None });
    }

    pub(super) fn since(&self, (router, number): (usize, u64)) -> Option<Instant> {
        let (open, since) = self.routers[router].connection?;
        (open == number).then_some(since)
    }

    fn arrive(&mut self, mail: Mail) -> Result<(), String> {
        if self.shows {
            println!("{:?} {mail:?}", self.age());
        }
        match mail {
            Mail::Question(router, number) if self.since((router, number)).is_some() => {
                match self.is_quiet || !self.dice.once_in(3) {
                    true => self.report(router, number, 2_000),
                    false => self.send_after(3_000, 1, Mail::Question(router, number)),
                }
            }
            Mail::Question(..) => {}
            Mail::Parts { of, parts, expected } => self.part(of, parts, expected)?,
            Mail::Stray(of, part) => {
                let counts = self.since(of).is_some() && !self.routers[of.0].has_told;
                for route in part.into_iter().filter(|_| counts) {
                    self.name(of.0, route, false)?;
                }
            }
            Mail::Confirmation(of, circuit) => {
                if self.since(of).is_none() {
                    return Ok(());
                }
                let route = Route { circuit_id: circuit.clone(), ..Route::default() };
                let known = self.table.get(&circuit);
                if known.is_none_or(|it| !it.path.nodes.contains(&id(of.0))) {
                    let has_told = self.routers[of.0].has_told;
                    self.name(of.0, route, has_told)?;
                }
                if self.routers[of.0].routes.contains_key(&circuit) {
                    self.send_after(30_000, 30_000, Mail::Confirmation(of, circuit));
                }
            }
            Mail::End(of, circuit) => {
                let Some(known) = self.table.get(&circuit) else { return Ok(()) };
                let has_told = self.routers[of.0].has_told;
                let counts = known.path.nodes.contains(&id(of.0)) || (!known.is_whole && !has_told);
                if counts && self.since(of).is_some() {
                    self.remove(&circuit)?;
                }
            }
            Mail::Look(circuit) => {
                self.looking.remove(&*circuit);
                if self.table.contains_key(&*circuit) {
                    self.look(&circuit)?;
                }
            }
            Mail::Remove(circuit) => {
                self.removing.remove(&*circuit);
                self.remove(&circuit)?;
            }
            Mail::Left(router, circuit) => {
                let known = self.table.get(&*circuit);
                if self.moving.contains(&*circuit) {
                    self.send_after(2_000, 100, Mail::Left(router, circuit));
                } else if known.is_none_or(|it| !it.path.nodes.contains(&router)) {
                    self.routers[index(&router)].routes.remove(&*circuit);
                }
            }
            Mail::Plan(circuit, why) => self.plan(circuit, why)?,
            Mail::Settle(circuit, path, incarnations, was_whole) => {
                self.settle(circuit, path, &incarnations, was_whole)?;
            }
        }
        Ok(())
    }

    fn part(
        &mut self,
        of: (usize, u64),
        mut parts: Vec<Vec<Route>>,
        expected: Option<BTreeSet<String>>,
    ) -> Result<(), String> {
        let Some(since) = self.since(of).filter(|_| !self.routers[of.0].has_told) else {
            return Ok(());
        };
        let router = id(of.0);
        let has_to_name = |it: &TableCircuit| {
            let is_at_end = it.has_ends
                && [it.path.nodes.first(), it.path.nodes.last()].contains(&Some(&router));
            let at = if is_at_end { it.made_at } else { it.routed_at };
            it.path.nodes.contains(&router) && at < since
        };
        let mut expected = expected.unwrap_or_else(|| {
            let known = self.table.iter().filter(|(_, it)| has_to_name(it));
            known.map(|(circuit, _)| circuit.clone()).collect()
        });
        for route in parts.remove(0) {
            expected.remove(&route.circuit_id);
            self.name(of.0, route, false)?;
        }
        if !parts.is_empty() {
            self.send(2_000, Mail::Parts { of, parts, expected: Some(expected) });
            return Ok(());
        }
        self.routers[of.0].has_told = true;
        for circuit in expected {
            self.not_carried(&router, &circuit)?;
        }
        self.step(Input::News)?;
        Ok(())
    }

    fn not_carried(&mut self, router: &Id, circuit: &str) -> Result<(), String> {
        let Some(known) = self.table.get(circuit) else { return Ok(()) };
        let ends = [known.path.nodes.first(), known.path.nodes.last()];
        match ends.contains(&Some(router)) {
            _ if !known.path.nodes.contains(router) => {}
            _ if !known.is_whole => {
                if known.path.nodes.len() == 1 {
                    // Nobody is known any more who carries it.
                    self.exempt.insert(circuit.to_owned());
                }
                let outputs = self.step(Input::NotCarried { router, circuit })?;
                self.check_not_carried(router, circuit, &outputs)?;
            }
            true => self.remove(circuit)?,
            false => self.begin_move(circuit, MoveReason::Lost),
        }
        Ok(())
    }

    /// A router names a circuit.
    fn name(&mut self, router: usize, route: Route, has_told: bool) -> Result<(), String> {
        let (router, circuit) = (id(router), route.circuit_id.clone());
        let at_router = self.table.values().filter(|it| it.path.nodes.contains(&router)).count();
        let standing = match self.table.get(&circuit) {
            Some(known) if known.is_whole && known.path.nodes.contains(&router) => Standing::Wanted,
            Some(known) if known.is_whole => Standing::Unwanted,
            _ if circuit.starts_with("own") || self.ended.contains(&circuit) => Standing::Unwanted,
            _ if has_told => Standing::Unwanted,
            _ => Standing::Open { at_router },
        };
        let before = self.before_naming(&router, &route);
        if before.has_too_many() {
            self.exempt.insert(circuit.clone());
        }
        let named = Input::Named { router: &router, route: route.clone(), standing };
        let outputs = self.step(named)?;
        self.check_named(&router, &route, standing, &before, &outputs)
    }

    fn look(&mut self, circuit: &Arc<str>) -> Result<(), String> {
        let known = self.table[&**circuit].clone();
        let works = known.is_whole && self.is_usable(&known.path);
        let has_path = !works && known.has_ends && self.find_path(&known.path).is_some();
        let links: BTreeMap<String, [usize; 2]> = self
            .links
            .iter()
            .filter(|(_, it)| it.is_known)
            .map(|(id, link)| (id.clone(), link.ends))
            .collect();
        let told: Vec<bool> = self.routers.iter().map(|it| it.has_told).collect();
        let far_end = |router: &Id, link: &str| {
            let ends = links.get(link)?;
            let next = ends[usize::from(ends[0] == index(router))];
            Some(id(next))
        };
        let awaits_reports = || told.contains(&false);
        let was_looking = self.machine.circuits[circuit].check.state == State::Looking;
        let state = self.machine.state(circuit);
        let sends_again = self.sends_again.contains(&**circuit);
        let has_told = |router: &Id| told[index(router)];
        let (far_end, has_told, awaits_reports) = (&far_end, &has_told, &awaits_reports);
        let sight = Sight { works, has_path, far_end, has_told, awaits_reports };
        let outputs = self.step(Input::Looked { circuit, sight })?;
        self.check_looked(circuit, (was_looking, state, sends_again), (works, has_path), &outputs)
    }

    pub(super) fn is_usable(&self, path: &Path) -> bool {
        path.links.iter().all(|link| self.links[link].is_known)
    }

    /// The shortest path between the ends of another one, over known links and connected routers.
    fn find_path(&self, path: &Path) -> Option<Path> {
        let (first, last) = (path.nodes.first()?, path.nodes.last()?);
        let is_heard = |router: &Id| self.routers[index(router)].connection.is_some();
        let mut open = vec![Path { nodes: vec![first.clone()], links: Vec::new(), cost: 0 }];
        if !is_heard(first) || !is_heard(last) {
            return None;
        }
        while !open.is_empty() {
            if let Some(found) = open.iter().find(|path| path.nodes.last() == Some(last)) {
                return Some(found.clone());
            }
            let longer = open.iter().flat_map(|path| {
                let at = index(path.nodes.last().unwrap());
                let links =
                    self.links.iter().filter(move |(_, it)| it.is_known && it.ends.contains(&at));
                links.filter_map(move |(link, known)| {
                    let next = id(known.ends[usize::from(known.ends[0] == at)]);
                    let mut path = path.clone();
                    let is_new = !path.nodes.contains(&next) && is_heard(&next);
                    path.nodes.push(next);
                    path.links.push(link.clone());
                    is_new.then_some(path)
                })
            });
            open = longer.collect();
        }
        None
    }

    pub(super) fn begin_move(&mut self, circuit: &str, why: MoveReason) {
        if self.moving.insert(circuit.to_owned()) {
            self.send(1_000, Mail::Plan(circuit.to_owned(), why));
        }
    }

    fn plan(&mut self, circuit: String, why: MoveReason) -> Result<(), String> {
        let Some(known) = self.table.get(&circuit).cloned() else {
            self.moving.remove(&circuit);
            return Ok(());
        };
        if known.is_whole && self.is_usable(&known.path) && why != MoveReason::Lost {
            self.moving.remove(&circuit);
            return Ok(());
        }
        match self.find_path(&known.path).filter(|_| known.has_ends) {
            Some(path) => {
                let incarnations = self.incarnations(&path);
                self.send(6_000, Mail::Settle(circuit, path, incarnations, known.is_whole));
                Ok(())
            }
            None => self.cannot_move(circuit, why),
        }
    }

    fn incarnations(&self, path: &Path) -> Vec<u32> {
        path.nodes.iter().map(|router| self.routers[index(router)].incarnation).collect()
    }

    fn cannot_move(&mut self, circuit: String, why: MoveReason) -> Result<(), String> {
        let is_over = self.now >= self.start + RETURN;
        if is_over && (self.is_quiet || self.dice.once_in(2)) {
            self.send_after(1_000, 4_000, Mail::Plan(circuit, why));
            return Ok(());
        }
        self.moving.remove(&circuit);
        if is_over {
            return self.remove(&circuit);
        }
        let sends_again = self.dice.once_in(2);
        if sends_again && self.machine.circuits.contains_key(&*circuit) {
            self.sends_again.insert(circuit.clone());
        }
        let outputs = self.step(Input::Stranded { circuit: &circuit, sends_again })?;
        self.check_stranded(&circuit, &outputs)
    }

    fn settle(
        &mut self,
        circuit: String,
        path: Path,
        incarnations: &[u32],
        was_whole: bool,
    ) -> Result<(), String> {
        let Some(known) = self.table.get(&circuit).cloned() else {
            self.moving.remove(&circuit);
            return Ok(());
        };
        let is_heard = |router: &Id| self.routers[index(router)].connection.is_some();
        if incarnations != self.incarnations(&path) || !path.nodes.iter().all(is_heard) {
            return self.cannot_move(circuit, MoveReason::Lost);
        }
        self.moving.remove(&circuit);
        let mut beside = known.path.nodes.clone();
        if !was_whole {
            let bytes = circuit.len() + path.nodes.len();
            let mut outputs = self.step(Input::Moved { circuit: &circuit, bytes })?;
            let Some(Output::Complete(pieces)) = outputs.pop() else {
                return self.check_not_completed(&circuit);
            };
            self.check_completed(&circuit, &known, &pieces)?;
            beside.extend(pieces.into_keys());
        }
        let now = self.now;
        let moved = TableCircuit { path: path.clone(), is_whole: true, routed_at: now, ..known };
        self.table.insert(circuit.clone(), moved);
        self.set_up(&circuit, &path);
        for router in beside.iter().filter(|router| !path.nodes.contains(router)) {
            self.routers[index(router)].routes.remove(&circuit);
        }
        if !self.is_usable(&path) {
            self.begin_move(&circuit, MoveReason::Broken);
        }
        self.check_tables()
    }

    /// Takes a circuit out of the table, and down at its routers that are connected.
    pub(super) fn remove(&mut self, circuit: &str) -> Result<(), String> {
        let Some(known) = self.table.remove(circuit) else { return Ok(()) };
        self.ended.insert(circuit.to_owned());
        for router in &known.path.nodes {
            let played = &mut self.routers[index(router)];
            if played.connection.is_some() {
                played.routes.remove(circuit);
            }
        }
        let outputs = self.step(Input::Ended(circuit))?;
        self.check_ended(circuit, &outputs)
    }

    /// Gives the machine an input, and carries out what follows from it.
    pub(super) fn step(&mut self, input: Input<'_>) -> Result<Vec<Output>, String> {
        let outputs = self.machine.step(self.now, input);
        if self.shows && !outputs.is_empty() {
            println!("{:?} {outputs:?}", self.age());
        }
        for output in &outputs {
            self.carry_out(output)?;
        }
        let completes = outputs.iter().any(|output| matches!(output, Output::Complete(_)));
        if !completes {
            self.check_tables()?;
        }
        Ok(outputs)
    }

    fn carry_out(&mut self, output: &Output) -> Result<(), String> {
        match output {
            Output::Put(circuit, assembled) => {
                self.check_put(circuit)?;
                if !self.table.contains_key(&**circuit) && self.table.len() >= self.most {
                    self.exempt.insert(circuit.to_string());
                    let outputs = self.machine.step(self.now, Input::Ended(circuit));
                    return self.check_ended(circuit, &outputs);
                }
                let (path, is_whole) = (assembled.path.clone(), assembled.is_whole);
                let has_ends = assembled.has_ends();
                let (made_at, routed_at) = (self.start, self.start);
                let put = TableCircuit { path, is_whole, has_ends, made_at, routed_at };
                self.table.insert(circuit.to_string(), put);
            }
            Output::Unroute { router, circuit } => {
                let known = self.table.get(&**circuit);
                let is_on = known.is_some_and(|it| it.path.nodes.contains(router));
                if !is_on && !self.moving.contains(&**circuit) {
                    self.routers[index(router)].routes.remove(&**circuit);
                }
            }
            Output::Leave { router, circuit } => {
                self.send_after(2_000, 100, Mail::Left(router.clone(), Arc::clone(circuit)));
            }
            Output::Refuse { circuit, .. } => _ = self.exempt.insert(circuit.to_string()),
            Output::Complete(_) => {}
            Output::Remove(circuit) => {
                self.check_torn(circuit)?;
                self.removing.insert(circuit.to_string());
                self.send(3_000, Mail::Remove(Arc::clone(circuit)));
            }
            Output::Look(circuit) => {
                self.looking.insert(circuit.to_string());
                self.send(100, Mail::Look(Arc::clone(circuit)));
            }
            Output::Move(circuit, why) => {
                self.sends_again.remove(&**circuit);
                self.begin_move(circuit, *why);
            }
        }
        Ok(())
    }

    /// Whether some router has this end of a circuit.
    pub(super) fn has_end(&self, circuit: &str, kind: DestType) -> bool {
        let mut routes = self.routers.iter().filter_map(|it| it.routes.get(circuit));
        routes.any(|route| leads_to(route, kind))
    }
}
