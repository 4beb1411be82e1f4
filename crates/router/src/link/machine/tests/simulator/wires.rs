//! Wires: each carries one dial and the link that it opens.

use super::world::World;
use super::{Happening, *};

/// One end of a wire: its number, and 0 for the dialer or 1 for the router that was dialed.
pub(super) type End = (usize, usize);

/// The node of wires that no router holds.
pub(super) const NOBODY: usize = usize::MAX;

/// The state of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Hellos are under way.
    Greeting,
    /// The router was told of the link and has not decided.
    Offered(u64),
    /// The router has refused the link and closes it later.
    Refused,
    /// The channel runs.
    Started(u64),
    Closed,
}

/// A wire between two nodes.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) nodes: [usize; 2],
    /// The starts of the nodes that this wire belongs to.
    pub(super) epochs: [u32; 2],
    pub(super) sides: [Side; 2],
    /// True for an end whose other end has closed.
    pub(super) is_dead: [bool; 2],
    /// The keys that the nodes have shown to each other.
    pub(super) shown: [String; 2],
    pub(super) dial: Dial,
}

/// A link as the machine of a router holds it.
#[derive(Clone, Debug)]
pub(super) struct Conn(pub(super) Rc<Facts>, pub(super) End, pub(super) Rc<str>);

impl Handle for Conn {
    fn facts(&self) -> &Facts {
        &self.0
    }

    fn prove(&self, keys: &[String]) -> Result<(), String> {
        if keys.iter().any(|key| **key == *self.2) { Ok(()) } else { Err("another key".into()) }
    }
}

impl World {
    /// Dials for a node. The dial is answered within 5 s.
    pub(super) fn dial(&mut self, from: usize, dial: Dial) {
        self.nodes[from].outstanding.insert((dial.link.clone(), dial.iteration));
        let listens = |node: &&world::Node| node.listens.contains(&dial.address) && node.is_up;
        let to = self.nodes.iter().find(listens).map(|node| node.index);
        let wire = self.wires.len();
        let keys = to.map_or_else(String::new, |to| self.nodes[to].key.clone());
        let is_cut = to.is_some_and(|to| self.is_cut(from, to)) || dial.address.contains("dead");
        let is_other = !dial.keys.is_empty() && !dial.keys.contains(&keys);
        let epoch = |node: usize| self.nodes.get(node).map_or(0, |node| node.epoch);
        let target = to.unwrap_or(NOBODY);
        self.wires.push(Wire {
            nodes: [from, target],
            epochs: [epoch(from), epoch(target)],
            sides: [Side::Greeting; 2],
            is_dead: [false; 2],
            shown: [self.nodes[from].key.clone(), keys],
            dial,
        });
        self.after(Duration::from_secs(5), Happening::DialTimeout(wire));
        if is_cut {
            return;
        }
        let late = self.delay();
        if to.is_none() || is_other {
            self.after(late, Happening::DialTimeout(wire));
        } else {
            self.after(late, Happening::Hello(wire));
        }
    }

    /// The time on a wire: short, and sometimes long.
    pub(super) fn delay(&mut self) -> Duration {
        let long = self.dice.once_in(12);
        self.dice.millis(if long { 200..4_000 } else { 1..60 })
    }

    /// True if this end is still that of the same start of its node.
    pub(super) fn is_of_today(&self, (wire, end): End) -> bool {
        let wire = &self.wires[wire];
        let node = self.nodes.get(wire.nodes[end]);
        node.is_some_and(|node| node.epoch == wire.epochs[end] && node.is_up)
    }

    pub(super) fn dial_timeout(&mut self, wire: usize) -> Result<(), String> {
        if self.wires[wire].sides[0] != Side::Greeting {
            return Ok(());
        }
        self.close((wire, 0))?;
        let (from, dial) = (self.wires[wire].nodes[0], self.wires[wire].dial.clone());
        if !self.is_of_today((wire, 0)) {
            return Ok(());
        }
        self.nodes[from].outstanding.remove(&(dial.link.clone(), dial.iteration));
        let (now, chance) = (self.now, self.dice.fraction());
        if let Some(original) = &mut self.nodes[from].original {
            original.dial_failed(&dial.key, &dial.link, now, chance);
            return Ok(());
        }
        self.step(from, Input::DialFailed(dial))
    }

    /// The hello arrives: the node asks a controller about the dialer.
    pub(super) fn hello(&mut self, wire: usize) -> Result<(), String> {
        let [from, to] = self.wires[wire].nodes;
        if !self.is_of_today((wire, 1)) || self.is_cut(from, to) {
            return Ok(());
        }
        let late = self.delay();
        let asked = self.online(to).is_some();
        if asked {
            self.after(late, Happening::Verified(wire));
            return Ok(());
        }
        // No controller can be asked.
        let (peer, leaf) = (self.nodes[from].name.clone(), self.wires[wire].shown[0].clone());
        let now = self.now;
        let machine = self.nodes[to].machine.as_mut();
        if machine.is_some_and(|machine| machine.confirmed.accept_unasked(&peer, &leaf, now)) {
            self.after(Duration::from_millis(50), Happening::Confirm(to));
            self.admit(wire);
            return Ok(());
        }
        self.close((wire, 1))
    }

    pub(super) fn verified(&mut self, wire: usize) -> Result<(), String> {
        let [from, to] = self.wires[wire].nodes;
        if !self.is_of_today((wire, 1)) {
            return Ok(());
        }
        let (peer, leaf) = (self.nodes[from].name.clone(), self.wires[wire].shown[0].clone());
        let is_known = self.knows(&peer, &leaf);
        if self.nodes[to].machine.is_some() {
            self.answer(to, peer, leaf)?;
        }
        if is_known {
            self.admit(wire);
            return Ok(());
        }
        self.close((wire, 1))
    }

    /// Both nodes learn of the link, in any order. Sometimes the hello comes twice.
    fn admit(&mut self, wire: usize) {
        for end in [1, 0] {
            let late = self.delay();
            self.after(late, Happening::Opened((wire, end)));
        }
        if self.dice.once_in(25) {
            self.repeat(wire);
        }
    }

    /// Opens the same link over another wire, whose first end nobody holds for long.
    pub(super) fn repeat(&mut self, of: usize) {
        let Wire { nodes: [_, to], epochs, shown, dial, .. } = &self.wires[of];
        let copy = Wire {
            nodes: [NOBODY, *to],
            epochs: *epochs,
            sides: [Side::Started(0), Side::Greeting],
            is_dead: [false; 2],
            shown: shown.clone(),
            dial: dial.clone(),
        };
        let from = self.wires[of].nodes[0];
        self.wires.push(copy);
        let wire = self.wires.len() - 1;
        self.senders.insert(wire, from);
        let (late, ends) = (self.delay(), self.dice.millis(100..20_000));
        self.after(late, Happening::Opened((wire, 1)));
        self.after(late + ends, Happening::CloseEnd((wire, 0)));
    }

    pub(super) fn opened(&mut self, end: End) -> Result<(), String> {
        let wire = &self.wires[end.0];
        if wire.sides[end.1] != Side::Greeting || !self.is_of_today(end) {
            return Ok(());
        }
        let (at, other) = (wire.nodes[end.1], wire.nodes[1 - end.1]);
        let other = self.senders.get(&end.0).copied().unwrap_or(other);
        let dial = wire.dial.clone();
        let peer = self.nodes[other].name.clone();
        let shown = wire.shown[1 - end.1].clone();
        let is_dialed = end.1 == 0;
        let facts = Facts {
            number: self.number(),
            key: if is_dialed { dial.key } else { format!("default->tls:{peer}->default") },
            id: dial.link,
            peer,
            iteration: dial.iteration,
            dialed: is_dialed.then_some(dial.address),
            leaf: (!is_dialed).then(|| shown.clone()),
        };
        if is_dialed {
            self.nodes[at].outstanding.remove(&(facts.id.clone(), facts.iteration));
        }
        self.offer(end, facts, &shown)
    }

    /// Tells a node of an opened link.
    pub(super) fn offer(&mut self, end: End, facts: Facts, shown: &str) -> Result<(), String> {
        let (at, now) = (self.wires[end.0].nodes[end.1], self.now);
        self.wires[end.0].sides[end.1] = Side::Offered(facts.number);
        if let Some(original) = &mut self.nodes[at].original {
            self.wires[end.0].sides[end.1] = Side::Started(facts.number);
            let mut deeds = original.opened(facts.clone(), end, now);
            if self.wires[end.0].is_dead[end.1] {
                deeds.push(original::Deed::Close(end));
            } else if facts.dialed.is_some() {
                self.reported_up(&facts, at);
            }
            return self.carry_out_deeds(at, deeds);
        }
        let is_free = !self.dice.once_in(80);
        let wanted = self.is_wanted(at, &facts);
        let before = self.connections(at, &facts.key);
        let link = Conn(Rc::new(facts.clone()), end, shown.into());
        self.step(at, Input::Opened { link, is_free })?;
        let Some(machine) = &self.nodes[at].machine else { return Ok(()) };
        let taken = machine.links.contains_key(&facts.number);
        if taken && !(wanted && is_free) {
            return Err(format!("a link is taken that must not be: {facts:?}"));
        }
        let connections = before.map(|before| before + u32::from(taken));
        if connections != self.connections(at, &facts.key) {
            return Err(format!("a connection is not counted: {facts:?}"));
        }
        Ok(())
    }

    /// The number of connections of a target.
    fn connections(&self, at: usize, key: &str) -> Option<u32> {
        let machine = self.nodes[at].machine.as_ref();
        machine.and_then(|machine| machine.targets.get(key)).map(|target| target.connected)
    }

    /// Closes this end of a wire. The other end learns of it, late if the path is cut.
    pub(super) fn close(&mut self, end: End) -> Result<(), String> {
        let wire = &mut self.wires[end.0];
        let former = std::mem::replace(&mut wire.sides[end.1], Side::Closed);
        if former == Side::Closed {
            return Ok(());
        }
        let [from, to] = wire.nodes;
        let late = match from != NOBODY && to != NOBODY && self.is_cut(from, to) {
            true => self.dice.millis(5_000..60_000),
            false => self.delay(),
        };
        self.after(late, Happening::Hangup((end.0, 1 - end.1)));
        if !self.is_of_today(end) {
            return Ok(());
        }
        let (at, now) = (self.wires[end.0].nodes[end.1], self.now);
        if let Some(original) = &mut self.nodes[at].original {
            let deeds = original.closed(end, now);
            return self.carry_out_deeds(at, deeds);
        }
        if let Side::Started(number) = former {
            return self.step(at, Input::Closed(number));
        }
        Ok(())
    }

    /// An end learns that the other one has closed.
    pub(super) fn hangup(&mut self, end: End) -> Result<(), String> {
        self.wires[end.0].is_dead[end.1] = true;
        match self.wires[end.0].sides[end.1] {
            Side::Started(_) => self.close(end),
            Side::Greeting if end.1 == 0 => self.dial_timeout(end.0),
            // The end of a link that is not read yet is noticed once it is read.
            _ => Ok(()),
        }
    }
}
