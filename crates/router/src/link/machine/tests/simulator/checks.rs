//! What holds after each step, when a node has carried out everything, when all is quiet, and in the end.

use super::wires::{Conn, Side};
use super::world::World;
use super::*;
use crate::seam::PeerState;

/// Fails with a text unless this holds.
macro_rules! holds {
    ($what:expr, $($text:tt)*) => {
        if !$what {
            return Err(format!($($text)*));
        }
    };
}

fn waits(state: State) -> bool {
    matches!(state, State::Pending | State::DialFailed | State::LinkFailed)
}

impl World {
    /// After each step: the tables of a machine agree, and are within their limits.
    pub(super) fn check_tables(&self, at: usize) -> Result<(), String> {
        let node = &self.nodes[at];
        let Some(machine) = &node.machine else { return Ok(()) };
        let mut dials = node.outstanding.clone();
        dials.extend(machine.outputs.iter().filter_map(|output| match output {
            Output::Dial(dial) => Some((dial.link.clone(), dial.iteration)),
            _ => None,
        }));
        holds!(machine.dialing == dials.len(), "r{at}: dials are miscounted");
        holds!(machine.dialing <= node.limits.0, "r{at}: too many dials");
        for (key, target) in &machine.targets {
            let is_wanted = machine.targets_of(&target.peer).any(|(known, _)| known == key);
            holds!(is_wanted, "r{at}: a target that nobody wants: {target:?}");
            let has_link = machine.by_key.contains_key(key);
            holds!(target.due.is_some() == waits(target.state), "r{at}: due or not: {target:?}");
            holds!((target.state == State::Connected) == has_link, "r{at}: connected: {target:?}");
            let is_fresh = target.state != State::Connected || target.delay.is_zero();
            holds!(is_fresh, "r{at}: a connected target waits: {target:?}");
            if let Some(due) = target.due {
                let is_late = due > self.now + LONGEST_WAIT && node.limits.0 > 3;
                let is_awaited = target.state == State::DialFailed && target.is_awaited(self.now);
                holds!(!(is_late && is_awaited), "r{at}: circuits wait for it: {target:?}");
                holds!(machine.due.contains(&(due, key.clone())), "r{at}: not due: {target:?}");
            }
            let is_dialed = dials.contains(&(target.link.clone(), target.iteration));
            holds!(is_dialed || target.state != State::Dialing, "r{at}: not dialed: {target:?}");
            let is_known = !matches!(target.state, State::Gone | State::Candidate);
            holds!(is_known, "r{at}: a target in no state: {target:?}");
        }
        for (peer, known) in &machine.peers {
            let is_heard = node.heard.iter().any(|(_, heard)| heard == peer);
            holds!(is_heard == known.is_healthy(), "r{at}: {peer} is healthy: {is_heard}");
            let count = machine.targets_of(peer).count();
            holds!(count == known.targets.len(), "r{at}: a target of {peer} is missing");
        }
        let due = machine.targets.values().filter(|target| target.due.is_some()).count();
        holds!(due == machine.due.len(), "r{at}: too much is due");
        self.check_links(at, machine)
    }

    fn check_links(&self, at: usize, machine: &Machine<Conn>) -> Result<(), String> {
        for (number, open) in &machine.links {
            let facts = open.handle.facts();
            let has_key = machine.by_key.get(&facts.key) == Some(number);
            let has_deadline = machine.deadlines.iter().any(|(_, of)| of == number);
            match open.state {
                State::Established => holds!(has_key, "r{at}: without its key: {facts:?}"),
                State::Duplicate => holds!(has_deadline && !has_key, "r{at}: stays: {facts:?}"),
                State::Closing => {}
                _ => return Err(format!("r{at}: a link in no state: {open:?}")),
            }
            let of_peer = machine.by_peer.get(&facts.peer);
            holds!(of_peer.is_some_and(|all| all.contains(number)), "r{at}: of nobody: {facts:?}");
            let has_id = machine.by_id.get(&facts.id) == Some(number);
            holds!(has_id || open.state == State::Closing, "r{at}: without its id: {facts:?}");
        }
        let of_peers: usize = machine.by_peer.values().map(BTreeSet::len).sum();
        holds!(of_peers == machine.links.len(), "r{at}: links of peers that are gone");
        for number in machine.by_key.values().chain(machine.by_id.values()) {
            holds!(machine.links.contains_key(number), "r{at}: link {number} is gone");
        }
        for (_, number) in &machine.deadlines {
            holds!(
                machine.links.contains_key(number),
                "r{at}: deadline of {number}, which is gone"
            );
        }
        let most = machine.by_peer.values().map(BTreeSet::len).max().unwrap_or_default();
        holds!(most <= 64 + 8, "r{at}: {most} links of one router");
        Ok(())
    }

    /// A node has carried out everything: wires, reports and the forwarder's table are as its machine has it.
    pub(super) fn check_settled(&mut self, at: usize) -> Result<(), String> {
        for end in std::mem::take(&mut self.nodes[at].offered) {
            let side = self.wires[end.0].sides[end.1];
            holds!(!matches!(side, Side::Offered(_)), "r{at}: {end:?} hears nothing");
        }
        let node = &self.nodes[at];
        let Some(machine) = &node.machine else { return Ok(()) };
        for (number, open) in &machine.links {
            let Conn(facts, end, _) = &open.handle;
            let side = self.wires[end.0].sides[end.1];
            holds!(side == Side::Started(*number), "r{at}: {side:?} is {open:?}");
            holds!(open.state != State::Closing, "r{at}: does not close: {facts:?}");
            let keys = machine.peers.get(&facts.peer).and_then(|known| known.keys());
            let is_proven = keys.is_none_or(|keys| open.handle.prove(keys).is_ok());
            let is_dialed = facts.dialed.is_some();
            holds!(is_proven || !is_dialed, "r{at}: shows another key: {open:?}");
        }
        let is_shut = machine.is_shutting_down;
        holds!(!is_shut || machine.links.is_empty(), "r{at}: links after the shutdown");
        let current = machine.by_key.values().map(|number| machine.links[number].handle.facts());
        let current: Vec<_> = current.map(|facts| (facts.id.clone(), facts.number)).collect();
        let reported: Vec<_> = node.reported.clone().into_iter().collect();
        let sorted = BTreeSet::from_iter(current.clone());
        holds!(
            sorted == reported.iter().cloned().collect(),
            "r{at}: reported {reported:?}, has {current:?}"
        );
        let published: Vec<_> = node.published.clone().into_iter().collect();
        let mut by_id: Vec<_> = machine.by_id.clone().into_iter().collect();
        by_id.sort();
        holds!(published == by_id, "r{at}: published {published:?}, has {by_id:?}");
        Ok(())
    }

    /// A router begins a dial. It dials no other router without a pause.
    pub(super) fn check_dial(&mut self, at: usize, dial: &Dial) -> Result<(), String> {
        let now = self.now;
        let dials = self.nodes[at].dials.entry(dial.key.clone()).or_default();
        dials.retain(|begun| now - *begun < Duration::from_secs(1));
        dials.push(now);
        holds!(dials.len() <= 12, "r{at}: {} dials within a second", dials.len());
        Ok(())
    }

    /// True if this router wants a link that was opened.
    pub(super) fn is_wanted(&self, at: usize, facts: &Facts) -> bool {
        let Some(machine) = &self.nodes[at].machine else { return true };
        let leaf = facts.leaf.as_deref().unwrap_or_default();
        let is_refused = machine.confirmed.was_refused(&facts.peer, leaf);
        let of_peer = machine.by_peer.get(&facts.peer).map_or(0, BTreeSet::len);
        let same_id =
            machine.by_id.get(&facts.id).map(|number| machine.links[number].handle.facts());
        if machine.is_shutting_down || same_id.is_some_and(|other| other.peer != facts.peer) {
            return false;
        }
        let Some(address) = &facts.dialed else {
            let is_removed = self.nodes[at].removed.contains(&facts.peer);
            return !is_refused && !is_removed && of_peer < 64;
        };
        let target = machine.targets.get(&facts.key);
        target.is_some_and(|target| target.link == facts.id && target.leads_to(address))
    }

    /// True if these news are a reason to dial the router at once.
    pub(super) fn is_back(&self, to: usize, from: &ControllerId, news: &PeerReport) -> bool {
        let machine = self.nodes[to].machine.as_ref();
        let known = machine.and_then(|machine| machine.peers.get(&news.id));
        let Some(known) = known.filter(|_| news.state == PeerState::Healthy) else { return false };
        let keys = known.keys().is_some_and(|keys| !news.keys.is_empty() && keys != news.keys);
        let _ = from;
        !known.is_healthy() || keys
    }

    /// After news of a router: its targets are dialed if it is back, and a removed one has no links.
    pub(super) fn check_news(
        &self,
        at: usize,
        peer: &str,
        is_removed: bool,
        is_back: bool,
    ) -> Result<(), String> {
        let node = &self.nodes[at];
        let Some(machine) = &node.machine else { return Ok(()) };
        let room = machine.limits.0 - machine.dialing + machine.limits.1;
        let due = machine.due.iter().filter(|(at, _)| *at <= self.now).count();
        for (_, target) in machine.targets_of(peer).filter(|(_, it)| is_back && waits(it.state)) {
            let is_due = target.due.is_some_and(|due| due <= self.now);
            holds!(is_due || due >= room, "r{at}: is back and not dialed: {target:?}");
        }
        for open in machine.links.values().filter(|open| open.handle.facts().peer == peer) {
            let is_closing = open.state == State::Closing;
            holds!(is_closing || !is_removed, "r{at}: was removed and has {open:?}");
        }
        let is_known = machine.peers.contains_key(peer);
        holds!(!(is_removed && is_known), "r{at}: was removed and is known: {peer}");
        Ok(())
    }

    /// A controller has refused a router that was accepted without an answer: its links close.
    pub(super) fn check_refused(&self, at: usize, router: &str, leaf: &str) -> Result<(), String> {
        let all = self.nodes[at].machine.iter().flat_map(|machine| machine.links.values());
        let mut open = all.filter(|open| open.state != State::Closing);
        let is_of = |facts: &Facts| facts.peer == router && facts.leaf.as_deref() == Some(leaf);
        let is_open = open.any(|open| is_of(open.handle.facts()));
        holds!(!is_open, "r{at}: {router} was refused and has a link");
        Ok(())
    }

    pub(super) fn on_up(&mut self, at: usize, facts: &Facts) -> Result<(), String> {
        let node = &mut self.nodes[at];
        holds!(!node.ended.contains(&facts.number), "r{at}: reported after its end: {facts:?}");
        holds!(node.up.insert(facts.number), "r{at}: reported twice: {facts:?}");
        node.reported.insert(facts.id.clone(), facts.number);
        if facts.dialed.is_some() {
            self.reported_up(facts, at);
        }
        Ok(())
    }

    pub(super) fn on_ended(&mut self, at: usize, facts: &Facts) {
        let reported = &mut self.nodes[at].reported;
        if reported.get(&facts.id) == Some(&facts.number) {
            reported.remove(&facts.id);
        }
        self.reported_ended(&facts.id, facts.iteration, at);
    }

    pub(super) fn on_fault(&mut self, at: usize, facts: &Facts) -> Result<(), String> {
        let node = &mut self.nodes[at];
        holds!(node.up.contains(&facts.number), "r{at}: ended before it is reported: {facts:?}");
        holds!(node.ended.insert(facts.number), "r{at}: ended twice: {facts:?}");
        let is_refused = node.refused_ids.contains(&facts.id);
        let is_back = node.published.contains_key(&facts.id) && !is_refused;
        holds!(!is_back, "r{at}: is there again and ends: {facts:?}");
        self.on_ended(at, facts);
        Ok(())
    }

    /// A link was withdrawn: its end is reported next, unless the link is there again.
    pub(super) fn check_withdrawn(&self, at: usize, facts: &Facts) -> Result<(), String> {
        let node = &self.nodes[at];
        let next = node.machine.as_ref().and_then(|machine| machine.outputs.front());
        let is_next = matches!(next, Some(Output::Fault(link)) if link.0.number == facts.number);
        let is_back =
            node.published.contains_key(&facts.id) || node.refused_ids.contains(&facts.id);
        holds!(is_next || is_back, "r{at}: ends without a report: {facts:?}");
        Ok(())
    }

    /// The links of one node with another one: their ids, and whether they have their keys.
    fn links_between(&self, one: usize, other: usize) -> Vec<(String, bool)> {
        let (node, peer) = (&self.nodes[one], &self.nodes[other].name);
        if let Some(original) = &node.original {
            return original.links_with(peer);
        }
        let all = node.machine.iter().flat_map(|machine| machine.links.values());
        let with_peer = all.filter(|open| open.handle.facts().peer == *peer);
        let link = |open: &OpenLink<Conn>| {
            (open.handle.facts().id.clone(), open.state == State::Established)
        };
        with_peer.map(link).collect()
    }

    /// Each two routers have one link, and both have the same one.
    pub(super) fn check_quiet(&self) -> Result<(), String> {
        for one in 0..self.nodes.len() {
            for other in (0..self.nodes.len()).filter(|other| *other != one) {
                let (here, there) =
                    (self.links_between(one, other), self.links_between(other, one));
                let is_one = matches!(here.as_slice(), [(_, true)]);
                holds!(is_one && here == there, "r{one} and r{other}: {here:?} and {there:?}");
            }
        }
        Ok(())
    }

    /// Nothing is left.
    pub(super) fn check_empty(&self) -> Result<(), String> {
        for (at, node) in self.nodes.iter().enumerate() {
            let Some(machine) = &node.machine else { continue };
            let tables = [
                machine.peers.len(),
                machine.targets.len(),
                machine.due.len(),
                machine.dialing,
                machine.links.len(),
                machine.by_key.len(),
                machine.by_id.len(),
                machine.by_peer.len(),
                machine.deadlines.len(),
                node.reported.len(),
                node.published.len(),
            ];
            holds!(tables.iter().all(|len| *len == 0), "r{at} keeps {tables:?}");
        }
        Ok(())
    }
}
