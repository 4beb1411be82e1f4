//! What holds after each step, and what holds when all is quiet.

use std::collections::BTreeMap;

use super::routers::{Kind, TableCircuit, index};
use super::world::{RETURN, World};
use super::*;
use crate::adoption::machine::checks::{LOOK, LOOK_AT_LATEST};
use crate::adoption::machine::limits::Share;

/// Fails with a text unless this holds.
macro_rules! holds {
    ($what:expr, $($text:tt)*) => {
        if !$what {
            return Err(format!($($text)*));
        }
    };
}

/// What the machine knew before a router named a circuit.
pub(super) struct Before {
    state: State,
    /// The routers that had named the circuit.
    routers: Vec<Id>,
    /// Whether the router says nothing new, or the circuit has too many routers.
    is_idle: bool,
    /// Whether too many circuits are known in part for another one.
    is_full: bool,
    is_member: bool,
}

impl Before {
    /// Whether the circuit has too many routers for another one.
    pub(super) fn has_too_many(&self) -> bool {
        self.is_idle && !self.is_member
    }
}

fn circuit_of(output: &Output) -> &str {
    match output {
        Output::Put(circuit, _)
        | Output::Unroute { circuit, .. }
        | Output::Leave { circuit, .. }
        | Output::Refuse { circuit, .. }
        | Output::Remove(circuit)
        | Output::Look(circuit)
        | Output::Move(circuit, _) => circuit,
        Output::Complete(_) => "",
    }
}

fn unroutes(outputs: &[Output], router: &Id) -> bool {
    outputs.iter().any(|it| match it {
        Output::Unroute { router: it, .. } | Output::Leave { router: it, .. } => it == router,
        _ => false,
    })
}

impl World {
    fn is_early(&self) -> bool {
        self.age() < RETURN
    }

    pub(super) fn before_naming(&self, router: &Id, route: &Route) -> Before {
        let known = self.machine.circuits.get(&*route.circuit_id);
        let pieces = known.map(|known| &known.pieces);
        let limits = self.machine.limits;
        let has_room = |pieces: &BTreeMap<Id, Route>| pieces.len() < limits.nodes;
        let is_idle = pieces.is_some_and(|pieces| match pieces.contains_key(router) {
            true => route.forwards.is_empty(),
            false => !has_room(pieces),
        });
        let begun = self.machine.shares.of(router).begun;
        let is_full = self.machine.in_part() >= limits.circuits || begun >= limits.begun;
        let routers = pieces.map(|pieces| pieces.keys().cloned().collect()).unwrap_or_default();
        let is_member = pieces.is_some_and(|pieces| pieces.contains_key(router));
        Before {
            is_member,
            state: self.machine.state(&route.circuit_id),
            routers,
            is_idle,
            is_full,
        }
    }

    pub(super) fn check_named(
        &self,
        router: &Id,
        route: &Route,
        standing: Standing,
        before: &Before,
        outputs: &[Output],
    ) -> Result<(), String> {
        let circuit = &*route.circuit_id;
        let is_about_it = |output: &Output| {
            let is_answer = match output {
                Output::Put(..) | Output::Unroute { .. } | Output::Leave { .. } => true,
                output => matches!(output, Output::Refuse { .. }),
            };
            is_answer && circuit_of(output) == circuit
        };
        holds!(outputs.iter().all(is_about_it), "{router} names {circuit}: {outputs:?}");
        let is_open = matches!(before.state, State::Unknown | State::Part | State::Ends);
        let unroute = [Output::Unroute { router: router.clone(), circuit: circuit.into() }];
        let at_router = match standing {
            Standing::Wanted => {
                holds!(outputs.is_empty(), "{circuit} is wanted: {outputs:?}");
                return Ok(());
            }
            Standing::Open { at_router } if is_open => at_router,
            _ => {
                holds!(outputs == unroute, "{circuit} is not wanted at {router}: {outputs:?}");
                return Ok(());
            }
        };
        let limits = self.machine.limits;
        let is_new = before.state == State::Unknown;
        if before.is_idle {
            holds!(outputs.is_empty(), "no news of {circuit}: {outputs:?}");
            return Ok(());
        }
        let why = outputs.iter().find_map(|output| match output {
            Output::Refuse { why, .. } => Some(*why),
            _ => None,
        });
        let is_too_long = prost::Message::encoded_len(route) > limits.route;
        let is_just = match why {
            Some(Excess::AtRouter) => is_new && at_router >= limits.at_router,
            Some(Excess::InPart) => is_new && before.is_full,
            Some(Excess::Route) => is_too_long,
            Some(Excess::Bytes) => limits.bytes < 1_000,
            None => !is_too_long && !(is_new && (before.is_full || at_router >= limits.at_router)),
        };
        holds!(is_just, "{circuit} of {router}: refused {why:?}");
        if why.is_some() {
            return Ok(());
        }
        let is_put = outputs.iter().any(|it| matches!(it, Output::Put(..)));
        holds!(is_put, "{circuit} of {router} is not put: {outputs:?}");
        let Some(known) = self.table.get(circuit) else { return Ok(()) };
        let adopted = &self.machine.circuits[circuit];
        let has_piece = adopted.pieces.contains_key(router);
        holds!(has_piece || known.is_whole, "{circuit} is put without {router}");
        let is_delayed =
            adopted.check.due.is_some_and(|(at, latest)| at == latest.min(self.now + LOOK));
        holds!(is_delayed, "{circuit} is looked at too early: {adopted:?}");
        let mut beside = before.routers.iter().chain([router]);
        let is_told = |it: &Id| unroutes(outputs, it) != known.path.nodes.contains(it);
        holds!(!known.is_whole || beside.all(is_told), "{circuit} beside its path: {outputs:?}");
        Ok(())
    }

    pub(super) fn check_not_carried(
        &self,
        router: &Id,
        circuit: &str,
        outputs: &[Output],
    ) -> Result<(), String> {
        holds!(outputs.iter().all(|it| circuit_of(it) == circuit), "{circuit}: {outputs:?}");
        let Some(known) = self.machine.circuits.get(circuit) else { return Ok(()) };
        let is_gone = known.state == State::Torn || !known.pieces.contains_key(router);
        holds!(is_gone, "{router} does not carry {circuit}: {known:?}");
        let is_off = !self.table[circuit].path.nodes.contains(router);
        holds!(is_off || known.state == State::Torn, "{circuit} still goes over {router}");
        Ok(())
    }

    pub(super) fn check_put(&self, circuit: &str) -> Result<(), String> {
        let is_over = self.ended.contains(circuit) || circuit.starts_with("own");
        holds!(!is_over, "{circuit} is over and adopted");
        Ok(())
    }

    /// A circuit is given up.
    pub(super) fn check_torn(&self, circuit: &str) -> Result<(), String> {
        let has_ends = [DestType::Start, DestType::End].map(|kind| self.has_end(circuit, kind));
        let is_wrong = has_ends == [true; 2] && self.is_early() && !self.exempt.contains(circuit);
        holds!(!is_wrong, "{circuit} is removed, and its ends may be named");
        Ok(())
    }

    pub(super) fn check_looked(
        &self,
        circuit: &str,
        (was_looking, state, sends_again): (bool, State, bool),
        (works, has_path): (bool, bool),
        outputs: &[Output],
    ) -> Result<(), String> {
        let why = match state == State::Whole && !sends_again {
            true => MoveReason::Broken,
            false => MoveReason::Lost,
        };
        let moves = match state {
            _ if !was_looking => false,
            State::Whole if works => sends_again,
            State::Whole | State::Ends => has_path || !self.is_early(),
            _ => false,
        };
        let expected = Output::Move(circuit.into(), why);
        let is_removed = was_looking && state == State::Part && !outputs.is_empty();
        match outputs {
            [Output::Remove(it)] if is_removed => holds!(**it == *circuit, "{it} is removed"),
            [output] => holds!(moves && *output == expected, "a look at {circuit}: {outputs:?}"),
            _ => holds!(outputs.is_empty() && !moves, "a look at {circuit}: {outputs:?}"),
        }
        Ok(())
    }

    pub(super) fn check_stranded(&self, circuit: &str, outputs: &[Output]) -> Result<(), String> {
        holds!(outputs.is_empty(), "{circuit} waits: {outputs:?}");
        let known = self.machine.circuits.get(circuit);
        let is_sound =
            known.is_none_or(|it| (it.state == State::Torn) != (it.check.state == State::Due));
        holds!(is_sound, "{circuit} waits without a look");
        Ok(())
    }

    pub(super) fn check_completed(
        &self,
        circuit: &str,
        before: &TableCircuit,
        pieces: &BTreeMap<Id, Route>,
    ) -> Result<(), String> {
        let known = &self.machine.circuits[circuit];
        holds!(known.state == State::Whole, "{circuit} has moved and is not whole");
        let is_there = |router: &Id| before.is_whole || pieces.contains_key(router);
        holds!(before.path.nodes.iter().all(is_there), "{circuit} was named by {pieces:?}");
        Ok(())
    }

    pub(super) fn check_not_completed(&self, circuit: &str) -> Result<(), String> {
        holds!(self.removing.contains(circuit), "{circuit} is not moved");
        Ok(())
    }

    pub(super) fn check_ended(&self, circuit: &str, outputs: &[Output]) -> Result<(), String> {
        holds!(outputs.is_empty(), "{circuit} has ended: {outputs:?}");
        holds!(!self.machine.circuits.contains_key(circuit), "{circuit} has ended and is known");
        Ok(())
    }

    /// The controller's table and the machine's have the same circuits.
    pub(super) fn check_tables(&mut self) -> Result<(), String> {
        let known: BTreeSet<&str> = self.machine.circuits.keys().map(|id| &**id).collect();
        let table: BTreeSet<&str> = self.table.keys().map(|id| &**id).collect();
        holds!(known == table, "known are {known:?}, in the table {table:?}");
        for (circuit, known) in &self.machine.circuits {
            let put = &self.table[&**circuit];
            let state = match (put.is_whole, put.has_ends) {
                (true, _) => State::Whole,
                (false, true) => State::Ends,
                (false, false) => State::Part,
            };
            let is_torn = known.state == State::Torn;
            holds!(is_torn == self.removing.contains(&**circuit), "{circuit} is torn: {is_torn}");
            holds!(is_torn || known.state == state, "{circuit}: {known:?} is {put:?}");
            let is_whole = known.state == State::Whole;
            holds!(is_whole == known.pieces.is_empty(), "the pieces of {circuit}: {known:?}");
            let nodes: BTreeSet<&Id> = put.path.nodes.iter().collect();
            let named: BTreeSet<&Id> = known.pieces.keys().collect();
            let has_more = is_torn || is_whole || self.exempt.contains(&**circuit);
            holds!(has_more || nodes == named, "{circuit}: {known:?} is {put:?}");
            self.check_whole(circuit, known)?;
            self.check_path(circuit, known)?;
        }
        self.check_due()?;
        self.check_shares()
    }

    /// A circuit of which each router has named its present route is whole.
    fn check_whole(&self, circuit: &str, known: &AdoptedCircuit) -> Result<(), String> {
        let Some(path) = self.paths.get(circuit) else { return Ok(()) };
        let is_there = |router: &Id| {
            let route = self.routers[index(router)].routes.get(circuit);
            route.is_some() && known.pieces.get(router) == route
        };
        let is_known = path.nodes.iter().all(is_there) && !self.exempt.contains(circuit);
        holds!(!is_known || known.state == State::Torn, "{circuit} is not whole: {known:?}");
        Ok(())
    }

    /// A look comes while a circuit is known in part, and its routers may return.
    fn check_path(&self, circuit: &str, known: &AdoptedCircuit) -> Result<(), String> {
        let check = &known.check;
        let is_sound = match check.state {
            State::Calm => match known.state {
                State::Part => false,
                State::Ends => self.moving.contains(circuit),
                _ => true,
            },
            State::Due => check.due.is_some(),
            State::Looking => self.looking.contains(circuit),
            State::Resting => known.state == State::Part && !self.is_early(),
            _ => false,
        };
        holds!(is_sound, "no look at {circuit}: {known:?}");
        let sends_again = self.sends_again.contains(circuit) && known.state != State::Torn;
        holds!(check.sends_again == sends_again, "routes of {circuit}: {check:?}");
        Ok(())
    }

    fn check_due(&mut self) -> Result<(), String> {
        let all = self.machine.circuits.values();
        let count = |state| all.clone().filter(|it| it.check.state == state).count();
        let counts = [State::Due, State::Resting].map(count);
        holds!(self.machine.checks.counts() == counts, "{counts:?} paths are due or rest");
        let is_due = |it: &AdoptedCircuit| it.check.state == State::Due;
        let due: BTreeSet<String> = self
            .machine
            .circuits
            .iter()
            .filter(|(_, it)| is_due(it))
            .map(|(id, _)| id.to_string())
            .collect();
        self.due_since.retain(|circuit, _| due.contains(circuit));
        for circuit in due {
            let since = *self.due_since.entry(circuit.clone()).or_insert(self.now);
            let is_late = self.now > since + LOOK_AT_LATEST;
            holds!(!is_late, "{circuit} is due for too long");
        }
        Ok(())
    }

    fn check_shares(&self) -> Result<(), String> {
        let mut shares: BTreeMap<Id, Share> = BTreeMap::new();
        for known in self.machine.circuits.values() {
            let share = shares.entry(known.first.clone()).or_default();
            share.begun += usize::from(known.state != State::Whole);
            share.bytes += known.bytes;
            for (router, route) in &known.pieces {
                let size = prost::Message::encoded_len(route);
                shares.entry(router.clone()).or_default().bytes += size;
            }
        }
        let counted = self.machine.shares.all();
        let is_same = counted.len() == shares.len()
            && shares.iter().all(|(router, share)| counted.get(router) == Some(share));
        holds!(is_same, "shares {counted:?}, counted anew {shares:?}");
        let limits = self.machine.limits;
        let in_part = shares.values().map(|share| share.begun).sum::<usize>();
        holds!(in_part == self.machine.in_part(), "{in_part} circuits are known in part");
        let is_within = |share: &Share| share.begun <= limits.begun && share.bytes <= limits.bytes;
        holds!(in_part <= limits.circuits, "{in_part} circuits are known in part");
        holds!(shares.values().all(is_within), "shares beyond limits: {shares:?}");
        Ok(())
    }

    pub(super) fn check_quiet(&mut self) -> Result<(), String> {
        self.check_tables()?;
        let is_silent = |it: &super::routers::Played| it.kind == Kind::Silent;
        let any_silent = self.routers.iter().any(is_silent);
        for number in 0..10 {
            let circuit = &*format!("c{number}");
            if self.exempt.contains(circuit) {
                continue;
            }
            let has_ends = [DestType::Start, DestType::End].map(|kind| self.has_end(circuit, kind));
            let known = self.table.get(circuit);
            if self.ended.contains(circuit) {
                let mut has = self.routers.iter().map(|it| it.routes.contains_key(circuit));
                holds!(!has.any(|has| has), "a router still has {circuit}");
            } else if has_ends == [true; 2] {
                holds!(known.is_some(), "{circuit} is not adopted");
            }
            let Some(known) = known else { continue };
            holds!(known.is_whole || any_silent, "{circuit} is known in part: {known:?}");
            if known.is_whole {
                holds!(self.is_usable(&known.path), "{circuit} has a broken path");
                let has = |it: &Id| {
                    self.routers[index(it)].routes.contains_key(circuit)
                        || self.routers[index(it)].kind == Kind::Silent
                };
                holds!(known.path.nodes.iter().all(has), "{circuit} is lost at a router");
            }
        }
        holds!(self.moving.is_empty(), "still moving: {:?}", self.moving);
        Ok(())
    }

    pub(super) fn check_empty(&self) -> Result<(), String> {
        let machine = &self.machine;
        let left = (machine.circuits.len(), machine.shares.all().len(), machine.checks.counts());
        holds!(left == (0, 0, [0, 0]) && machine.in_part() == 0, "left at the end: {left:?}");
        Ok(())
    }
}
