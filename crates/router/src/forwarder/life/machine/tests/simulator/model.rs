//! What a router has to do, told without states: as facts about each circuit, and rules for each input.

use std::collections::BTreeMap;

use super::*;

/// What is true of a circuit that is known.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) owner: ControllerId,
    pub(super) maker: ControllerId,
    pub(super) term: u64,
    pub(super) newest: Option<u32>,
    pub(super) up: Option<Carried>,
    /// When it was over, and whether it has ended for good.
    pub(super) past: Option<(Instant, bool)>,
    /// Whether it had ended for good before its routes were begun anew, until one of them is in effect.
    pub(super) was: Option<bool>,
}

/// What is true of a circuit in the tables.
#[derive(Clone, Debug, Default)]
pub(super) struct Carried {
    /// The ways of the routes that are in effect, by source; none before the first one is.
    pub(super) ways: Option<BTreeMap<String, String>>,
    pub(super) under_way: BTreeMap<u64, Commanded>,
    pub(super) left: Option<Left>,
    /// The ticket of the route that was set up last.
    last_set: Option<u64>,
}

/// A route under way.
#[derive(Clone, Debug)]
pub(super) struct Commanded {
    pub(super) is_reroute: bool,
    pub(super) way: (String, String),
    pub(super) counts: bool,
}

/// A circuit that its owner has ended, and that stays for a while.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    pub(super) since: Instant,
    fewest: u64,
    shrunk: Instant,
}

/// All that is true.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) circuits: BTreeMap<String, Facts>,
    /// When circuits are to be looked at, as the machine has said.
    pub(super) looks: BTreeMap<String, Instant>,
    pub(super) tickets: u64,
    /// The highest terms with which circuits of controllers were claimed.
    claims: BTreeMap<String, u64>,
}

impl Model {
    /// What the machine is to do.
    pub(super) fn expect(&mut self, now: Instant, input: &Input<'_>) -> Vec<Output> {
        let mut outputs = Vec::new();
        match input {
            Input::Route { from, route, takes_new } => {
                self.route(now, from, route, *takes_new, &mut outputs);
            }
            Input::Unroute { from, unroute } => self.unroute(now, from, unroute, &mut outputs),
            Input::Claim { from, claim } => self.claim(from, claim, &mut outputs),
            Input::Done(ticket) => self.settled(now, ticket, true, &mut outputs),
            Input::Failed(ticket) => self.settled(now, ticket, false, &mut outputs),
            Input::Unanswered(RouteTicket { circuit, number }) => {
                let known = self.circuits.get_mut(&**circuit).filter(|known| known.is_carried());
                let is_last = |known: &&mut Facts| {
                    known.up.as_ref().is_some_and(|up| up.last_set == Some(*number))
                };
                if let Some(known) = known.filter(is_last) {
                    known.take_down(now, false, circuit, &mut outputs);
                }
            }
            Input::EndGone { circuit, asked, end, attempt } => {
                let known = self.circuits.get(*circuit);
                let owner = known.map_or(*asked, |known| &known.owner);
                let (owner, circuit) = (owner.clone(), (*circuit).into());
                let (end, attempt) = (*end, *attempt);
                let is_old = attempt.is_some() && attempt < known.and_then(|known| known.newest);
                let report = Output::ReportEnd { owner, circuit, end, attempt };
                outputs.extend((!is_old).then_some(report));
            }
            Input::Idle(circuits) => {
                for IdleCircuit { circuit, time, gone } in circuits {
                    let known = self.circuits.get(&**circuit).filter(|known| known.is_carried());
                    let Some(known) = known else { continue };
                    let (owner, attempt) = (known.owner.clone(), known.newest);
                    let circuits = vec![(circuit.to_string(), *time)];
                    outputs.push(Output::ReportIdle { owner: owner.clone(), circuits });
                    let circuit = Arc::clone(circuit);
                    let report = |end| Output::ReportEnd { owner, circuit, end, attempt };
                    outputs.extend(gone.map(report));
                }
            }
            Input::NotBegun(circuits) => {
                for circuit in *circuits {
                    let known = self.circuits.get(&**circuit).filter(|known| known.is_carried());
                    let Some(known) = known else { continue };
                    let (owner, attempt) = (known.owner.clone(), known.newest);
                    let (circuit, end) = (Arc::clone(circuit), Role::Initiator);
                    outputs.push(Output::ReportEnd { owner, circuit, end, attempt });
                }
            }
            Input::Stray(circuits) => {
                for circuit in *circuits {
                    let known = self.circuits.get(&**circuit);
                    let is_reported =
                        |up: &Option<Carried>| up.as_ref().is_some_and(|up| up.left.is_none());
                    if known.is_none_or(|known| is_reported(&known.up)) {
                        let owner = known.map(|known| known.owner.clone());
                        let circuits = vec![circuit.to_string()];
                        outputs.push(Output::ReportFaults { owner, circuits });
                    }
                }
            }
            Input::Looked { circuit, sight } => {
                if let Some(known) = self.circuits.get_mut(*circuit)
                    && known.is_over(now, sight)
                {
                    known.take_down(now, true, circuit, &mut outputs);
                }
            }
            Input::Tick => {
                let due: Vec<String> = {
                    let due = self.looks.iter().filter(|(_, at)| **at <= now);
                    due.map(|(circuit, _)| circuit.clone()).collect()
                };
                for circuit in due {
                    self.looks.remove(&circuit);
                    let up = self.circuits.get(&circuit).and_then(|known| known.up.as_ref());
                    if up.is_some_and(|up| up.left.is_some()) {
                        let circuit = circuit.as_str().into();
                        outputs.push(Output::Look { circuit, is_first: false });
                    }
                }
            }
        }
        let is_forgotten = |known: &Facts| {
            known.past.is_some_and(|(at, _)| now.saturating_duration_since(at) >= KEPT)
        };
        self.circuits.retain(|_, known| !is_forgotten(known));
        let is_up =
            |circuit: &str| self.circuits.get(circuit).is_some_and(|known| known.up.is_some());
        self.looks.retain(|circuit, _| is_up(circuit));
        outputs
    }

    fn claim(&mut self, from: &ControllerId, claim: &ClaimCircuits, outputs: &mut Vec<Output>) {
        let of = &claim.controller;
        let is_own = **from == **of;
        if !is_own {
            let known = self.claims.entry(of.clone()).or_default();
            *known = claim.term.max(*known);
        }
        let is_of = |(id, known): &(&String, &Facts)| {
            let is_up = known.up.as_ref().is_some_and(|up| up.left.is_none());
            let is_tagged = !claim.tag.is_empty() && id.starts_with(&claim.tag);
            let is_owned = *known.owner == **of && !is_own;
            let is_spared = claim.spared.iter().any(|tag| id.starts_with(tag));
            is_up && (is_tagged || ((is_owned || *known.maker == **of) && !is_spared))
        };
        let named = self.circuits.iter().filter(is_of);
        let named: Vec<_> = named.map(|(id, known)| (id.clone(), known.owner.clone())).collect();
        for (id, owner) in named {
            if self.obeys(from, &id, claim.term).is_err() {
                continue;
            }
            let circuits = vec![id.as_str().into()];
            let is_new = owner != *from;
            if is_new {
                outputs.push(Output::Taken { owner, circuits: circuits.clone() });
            }
            if (is_new || !claim.changed_only) && self.circuits[&id].is_carried() {
                outputs.push(Output::Carried(circuits));
            }
        }
    }

    /// The lowest term of what a controller begins to own.
    fn least(&self, owner: &ControllerId) -> u64 {
        self.claims.get(&**owner).copied().unwrap_or_default()
    }

    /// Whether the sender of a command is obeyed. A higher term makes it the owner: nothing that was commanded before has
    /// an effect any more, and a circuit that was ended may go on.
    fn obeys(&mut self, from: &ControllerId, circuit: &str, term: u64) -> Result<(), NotObeyed> {
        let least = self.least(from);
        let Some(known) = self.circuits.get_mut(circuit) else { return Ok(()) };
        if known.owner == *from {
            known.term = known.term.max(term);
            return Ok(());
        }
        if term <= known.term {
            let (owner, sender) = (known.owner.clone(), from.clone());
            return Err(NotObeyed::NotOwner { owner, sender });
        }
        (known.owner, known.term) = (from.clone(), term.max(least));
        if let Some(up) = &mut known.up {
            up.under_way.values_mut().for_each(|route| route.counts = false);
            up.left = None;
        }
        known.past = known.past.map(|(at, _)| (at, false));
        Ok(())
    }

    fn route(
        &mut self,
        _: Instant,
        from: &ControllerId,
        route: &Route,
        takes_new: bool,
        outputs: &mut Vec<Output>,
    ) {
        let id = route.circuit_id.as_str();
        if route.forwards.len() > MAX_WAYS {
            let why = NotObeyed::TooManyWays { count: route.forwards.len(), most: MAX_WAYS };
            return outputs.push(Output::Refuse(why));
        }
        if let Err(why) = self.obeys(from, id, route.term) {
            return outputs.push(Output::Refuse(why));
        }
        let known = self.circuits.get(id);
        let (up, past) =
            (known.and_then(|known| known.up.as_ref()), known.and_then(|known| known.past));
        let newest = known.and_then(|known| known.newest);
        let attempt = (!route.is_reroute()).then_some(route.attempt);
        let is_over = past.is_some_and(|(_, for_good)| for_good);
        let has_left = up.is_some_and(|up| up.left.is_some());
        let why = if up.is_none() && !takes_new {
            Some(NotObeyed::Stopping)
        } else if attempt.is_some() && attempt < newest {
            Some(NotObeyed::Superseded)
        } else if (is_over && (attempt.is_none() || attempt == newest))
            || (has_left && attempt.is_some() && attempt == newest)
        {
            Some(NotObeyed::Over)
        } else {
            None
        };
        if let Some(why) = why {
            return outputs.push(Output::Refuse(why));
        }
        if up.is_none() {
            outputs.push(Output::Make { circuit: id.into(), by: from.clone() });
        }
        let least = self.least(from);
        let known = self.circuits.entry(id.to_owned()).or_insert_with(|| Facts {
            owner: from.clone(),
            maker: from.clone(),
            term: route.term.max(least),
            newest: None,
            up: None,
            past: None,
            was: None,
        });
        known.was = known.past.take().map(|(_, for_good)| for_good).or(known.was);
        let is_further = known.up.is_some() && attempt.is_some() && attempt > newest;
        let up = known.up.get_or_insert_default();
        if is_further {
            outputs.push(Output::Clear(id.into()));
            (up.ways, up.left, up.last_set) = (None, None, None);
            up.under_way.values_mut().for_each(|route| route.counts = false);
        }
        known.newest = attempt.or(newest);
        self.tickets += 1;
        let way = &route.forwards[0];
        let way = (way.src_address.clone(), way.dst_address.clone());
        let commanded = Commanded { is_reroute: route.is_reroute(), way, counts: true };
        up.under_way.insert(self.tickets, commanded);
        outputs.push(Output::Begin(RouteTicket { circuit: id.into(), number: self.tickets }));
    }

    fn unroute(
        &mut self,
        now: Instant,
        from: &ControllerId,
        unroute: &Unroute,
        outputs: &mut Vec<Output>,
    ) {
        let id = unroute.circuit_id.as_str();
        if let Err(why) = self.obeys(from, id, unroute.term) {
            return outputs.push(Output::Refuse(why));
        }
        let Some(known) = self.circuits.get_mut(id) else { return };
        let Some(up) = &mut known.up else {
            known.past = known.past.map(|(at, for_good)| (at, for_good || !unroute.now));
            return;
        };
        match (unroute.now, up.left, &up.ways) {
            (true, left, _) => known.take_down(now, left.is_some(), id, outputs),
            (false, Some(_), _) => {}
            (false, None, None) => known.take_down(now, true, id, outputs),
            (false, None, Some(_)) => {
                up.left = Some(Left { since: now, fewest: u64::MAX, shrunk: now });
                let stopped = std::mem::take(&mut up.under_way);
                outputs.extend(stopped.into_keys().map(Output::GiveUp));
                outputs.push(Output::Look { circuit: id.into(), is_first: true });
            }
        }
    }

    fn settled(
        &mut self,
        now: Instant,
        ticket: &RouteTicket,
        is_done: bool,
        outputs: &mut Vec<Output>,
    ) {
        let Some(known) = self.circuits.get_mut(&*ticket.circuit) else { return };
        let Some(up) = &mut known.up else { return };
        let Some(route) = up.under_way.remove(&ticket.number) else { return };
        if is_done && route.counts {
            up.last_set = Some(ticket.number);
            let ways = up.ways.get_or_insert_default();
            if !route.is_reroute {
                ways.clear();
            }
            ways.insert(route.way.0, route.way.1);
            known.was = None;
        } else if up.under_way.is_empty() && up.ways.is_none() {
            outputs.push(Output::TakeDown(Arc::clone(&ticket.circuit)));
            known.up = None;
            match known.was.take() {
                // It is remembered again, with its owner, term and newest attempt.
                Some(for_good) => known.past = Some((now, for_good)),
                None => _ = self.circuits.remove(&*ticket.circuit),
            }
        }
    }

    /// Whether a route under way has an effect.
    pub(super) fn check(&self, ticket: &RouteTicket) -> Result<(), NotObeyed> {
        let up = self.circuits.get(&*ticket.circuit).and_then(|known| known.up.as_ref());
        match up.and_then(|up| up.under_way.get(&ticket.number)) {
            Some(route) if route.counts => Ok(()),
            Some(_) => Err(NotObeyed::Superseded),
            None => Err(NotObeyed::TakenDown),
        }
    }
}

impl Facts {
    /// Whether controllers are told of the circuit.
    pub(super) fn is_carried(&self) -> bool {
        self.up.as_ref().is_some_and(|up| up.left.is_none() && up.ways.is_some())
    }

    fn take_down(&mut self, now: Instant, for_good: bool, id: &str, outputs: &mut Vec<Output>) {
        let stopped = self.up.take().map(|up| up.under_way).unwrap_or_default();
        outputs.extend(stopped.into_keys().map(Output::GiveUp));
        outputs.push(Output::TakeDown(id.into()));
        self.past = Some((now, for_good));
    }

    /// Whether a circuit that has left has waited for long enough.
    fn is_over(&mut self, now: Instant, sight: &Sight) -> bool {
        let Some(left) = self.up.as_mut().and_then(|up| up.left.as_mut()) else { return false };
        if sight.waiting < left.fewest {
            (left.fewest, left.shrunk) = (sight.waiting, now);
        }
        let (age, stands) = (now - left.since, now - left.shrunk);
        let is_calm = if sight.waiting > 0 { stands } else { age } >= QUIET;
        sight.is_done
            || (is_calm && sight.unheard >= QUIET)
            || stands >= Duration::from_secs(60)
            || age >= Duration::from_secs(600)
    }
}
