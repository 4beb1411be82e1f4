//! The troubles of a network, and their end.

use super::controllers::COUNT;
use super::wires::{End, NOBODY, Side, Wire};
use super::world::{World, dialers};
use super::{Happening, *};
use crate::seam::PeerState;

impl World {
    fn some_node(&mut self) -> usize {
        let count = self.nodes.len();
        self.dice.below(count)
    }

    /// One trouble, and the time of the next one.
    pub(super) fn trouble(&mut self) -> Result<(), String> {
        if self.is_quiet {
            return Ok(());
        }
        let pause = self.dice.millis(100..9_000);
        self.after(pause, Happening::Trouble);
        let (node, other) = (self.some_node(), self.some_node());
        let long = self.dice.millis(500..50_000);
        match self.dice.below(15) {
            0 | 1 if node != other => {
                self.cuts.insert((node.min(other), node.max(other)));
                self.after(long, Happening::Heal(node, other));
            }
            2..=4 => self.break_wire(),
            5 | 6 => {
                let controller = self.dice.below(COUNT);
                let both = self.dice.once_in(2);
                for controller in (0..COUNT).filter(|it| both || *it == controller) {
                    self.set_online(node, controller, false);
                    self.after(long, Happening::Online(node, controller));
                }
            }
            7 => {
                self.nodes[node].key = format!("key {node} {}", self.dice.below(1_000));
                self.tell_of(node);
            }
            8 => self.move_listener(node),
            9 => {
                let is_off = self.dice.once_in(2);
                self.nodes[node].is_member = false;
                self.tell_of(node);
                self.after(if is_off { long } else { long / 20 }, Happening::Join(node));
            }
            10 => {
                self.after(long, Happening::Dialers(node));
                return self.step(node, Input::Dialers(Vec::new()));
            }
            11 => {
                self.after(Duration::from_secs(3), Happening::Restart(node));
                if self.dice.once_in(2) {
                    return self.step(node, Input::ShutDown);
                }
            }
            12 => return self.lie(node),
            13 => {
                let open = |wire: &Wire| {
                    matches!(wire.sides[1], Side::Started(_)) && wire.nodes[0] != NOBODY
                };
                let open: Vec<_> =
                    (0..self.wires.len()).filter(|at| open(&self.wires[*at])).collect();
                if !open.is_empty() {
                    let wire = open[self.dice.below(open.len())];
                    self.repeat(wire);
                }
            }
            _ => {
                self.nodes[node].closes_all = true;
                self.after(long, Happening::Opens(node));
                self.break_wire();
            }
        }
        Ok(())
    }

    /// Both ends of an open wire learn that it is broken.
    fn break_wire(&mut self) {
        let is_open = |wire: &Wire| wire.sides.iter().any(|side| *side != Side::Closed);
        let open: Vec<_> = (0..self.wires.len()).filter(|at| is_open(&self.wires[*at])).collect();
        if open.is_empty() {
            return;
        }
        let wire = open[self.dice.below(open.len())];
        for end in 0..2 {
            let late = self.delay();
            self.after(late, Happening::Hangup((wire, end)));
        }
    }

    fn move_listener(&mut self, node: usize) {
        let port = self.dice.below(5);
        let (open, dead) = (format!("r{node}:{port}"), format!("r{node}:dead{port}"));
        let usual = vec![open.clone()];
        self.nodes[node].listens.clone_from(&usual);
        self.nodes[node].advertised = match self.dice.below(5) {
            0 => Vec::new(),
            1 => vec![dead, open],
            2 => vec![open, dead],
            _ => usual,
        };
        self.tell_of(node);
    }

    /// A router that lies opens many links, or one with the id of another router's link.
    fn lie(&mut self, at: usize) -> Result<(), String> {
        let Some(machine) = &self.nodes[at].machine else { return Ok(()) };
        let stolen = machine.links().map(|link| link.facts().id.clone()).max();
        let count = if self.dice.once_in(4) { 70 } else { 1 };
        for number in 0..count {
            let id = stolen.clone().filter(|_| count == 1);
            let facts = Facts {
                number: self.number(),
                key: format!("{number}->tls:liar->default"),
                id: id.unwrap_or_else(|| self.dice.link_id()),
                peer: "liar".into(),
                iteration: 1,
                dialed: None,
                leaf: Some("liar".into()),
            };
            let wire = self.wires.len();
            let epoch = self.nodes[at].epoch;
            let dial = Dial {
                key: String::new(),
                link: facts.id.clone(),
                iteration: 1,
                peer: String::new(),
                version: String::new(),
                keys: Vec::new(),
                address: String::new(),
                protocol: String::new(),
                dialer: 0,
            };
            self.wires.push(Wire {
                nodes: [NOBODY, at],
                epochs: [0, epoch],
                sides: [Side::Started(0), Side::Greeting],
                is_dead: [false; 2],
                shown: [String::new(), String::new()],
                dial,
            });
            let ends = self.dice.millis(100..30_000);
            self.after(ends, Happening::CloseEnd((wire, 0)));
            let end: End = (wire, 1);
            self.offer(end, facts, "liar")?;
        }
        Ok(())
    }

    /// A trouble has had its time.
    pub(super) fn end_trouble(&mut self, of: Happening) -> Result<(), String> {
        match of {
            Happening::Heal(one, other) => {
                self.cuts.remove(&(one.min(other), one.max(other)));
            }
            Happening::Online(node, controller) => self.set_online(node, controller, true),
            Happening::Join(node) => {
                self.nodes[node].is_member = true;
                self.tell_of(node);
            }
            Happening::Dialers(node) => return self.step(node, Input::Dialers(dialers())),
            Happening::Restart(node) => self.restart(node),
            Happening::Opens(node) => self.nodes[node].closes_all = false,
            _ => {}
        }
        Ok(())
    }

    /// Ends all troubles.
    pub(super) fn heal(&mut self) -> Result<(), String> {
        self.is_quiet = true;
        self.cuts.clear();
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            (node.is_member, node.closes_all) = (true, false);
            // A network whose controllers name dead addresses comes to rest, too.
            if node.advertised.is_empty() {
                node.advertised.clone_from(&node.listens);
            }
            if node.original.is_some() || self.nodes.iter().any(|node| node.original.is_some()) {
                let node = &mut self.nodes[index];
                node.advertised.clone_from(&node.listens);
            }
            if self.nodes[index].machine.as_ref().is_some_and(|machine| machine.is_shutting_down) {
                self.restart(index);
            }
            for controller in 0..COUNT {
                self.set_online(index, controller, true);
            }
            self.step(index, Input::Dialers(dialers()))?;
        }
        (0..self.nodes.len()).for_each(|index| self.tell_of(index));
        Ok(())
    }

    /// All routers hear that all others were removed.
    pub(super) fn remove_all(&mut self) {
        self.is_over = true;
        self.nodes.iter_mut().for_each(|node| node.is_member = false);
        for to in 0..self.nodes.len() {
            for subject in (0..self.nodes.len()).filter(|subject| *subject != to) {
                let news = PeerReport {
                    id: self.nodes[subject].name.clone(),
                    version: String::new(),
                    state: PeerState::Removed,
                    listeners: Vec::new(),
                    keys: Vec::new(),
                };
                self.send_news(0, to, news);
            }
        }
    }
}
