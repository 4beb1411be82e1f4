//! Controllers: what they know of routers and links, and what they tell, late and in order.

use super::world::World;
use super::{Happening, *};
use crate::seam::{LinkListener, PeerState};

/// The controllers of a network. The second one names no keys, as those of OpenZiti.
pub(super) const COUNT: usize = 2;

impl World {
    /// A controller that this node is connected to.
    pub(super) fn online(&self, node: usize) -> Option<usize> {
        (0..COUNT).find(|controller| self.nodes[node].online[*controller])
    }

    /// True if the network has this router with this key.
    pub(super) fn knows(&self, router: &str, key: &str) -> bool {
        let is_it = |node: &world::Node| node.name == router && node.is_member && node.key == key;
        self.nodes.iter().any(is_it)
    }

    /// The answer of a controller about a router.
    pub(super) fn answer(&mut self, to: usize, router: String, leaf: String) -> Result<(), String> {
        if self.knows(&router, &leaf) {
            self.nodes[to].removed.remove(&router);
            return self.step(to, Input::Confirmed { router, leaf });
        }
        let now = self.now;
        let machine = self.nodes[to].machine.as_mut();
        let unasked = machine.map(|machine| machine.confirmed.awaited(now)).unwrap_or_default();
        let waited = unasked.contains(&(router.clone(), leaf.clone()));
        let (of, shown) = (router.clone(), leaf.clone());
        self.step(to, Input::Refused { router, leaf, reason: "unknown".into() })?;
        if waited { self.check_refused(to, &of, &shown) } else { Ok(()) }
    }

    /// Asks a controller about the routers that a node has accepted without an answer.
    pub(super) fn confirm(&mut self, node: usize) -> Result<(), String> {
        let (now, is_online) = (self.now, self.online(node).is_some());
        let Some(machine) = self.nodes[node].machine.as_mut() else { return Ok(()) };
        let mut unasked = machine.confirmed.awaited(now);
        unasked.sort();
        if !is_online {
            if !unasked.is_empty() {
                self.after(Duration::from_secs(10), Happening::Confirm(node));
            }
            return Ok(());
        }
        for (router, leaf) in unasked {
            self.answer(node, router, leaf)?;
        }
        Ok(())
    }

    /// Connects a node to a controller, or cuts it off.
    pub(super) fn set_online(&mut self, node: usize, controller: usize, is_online: bool) {
        if std::mem::replace(&mut self.nodes[node].online[controller], is_online) == is_online {
            return;
        }
        self.tell_of(node);
        if is_online {
            self.after(Duration::from_millis(100), Happening::Confirm(node));
            for other in 0..self.nodes.len() {
                self.tell(controller, node, other);
            }
        }
    }

    /// Every controller tells every router of this one.
    pub(super) fn tell_of(&mut self, subject: usize) {
        for controller in 0..COUNT {
            for to in 0..self.nodes.len() {
                self.tell(controller, to, subject);
            }
        }
    }

    /// A controller tells a router of another one.
    pub(super) fn tell(&mut self, controller: usize, to: usize, subject: usize) {
        if to == subject || !self.nodes[to].online[controller] || self.is_over {
            return;
        }
        let node = &self.nodes[subject];
        let state = match (node.is_member, node.online[controller] && node.is_up) {
            (false, _) => PeerState::Removed,
            (true, true) => PeerState::Healthy,
            (true, false) => PeerState::Unhealthy,
        };
        let listener = |address: &String| LinkListener {
            address: address.clone(),
            protocol: "tls".into(),
            groups: vec!["default".into()],
            local_binding: String::new(),
        };
        let is_healthy = state == PeerState::Healthy;
        let names = is_healthy && controller == 0;
        let news = PeerReport {
            id: node.name.clone(),
            version: "v2.1.0".into(),
            state,
            listeners: node.advertised.iter().filter(|_| is_healthy).map(listener).collect(),
            keys: names.then(|| node.key.clone()).into_iter().collect(),
        };
        self.send_news(controller, to, news);
    }

    /// Sends news, which arrive after those that were sent before.
    pub(super) fn send_news(&mut self, controller: usize, to: usize, news: PeerReport) {
        let late = if self.dice.once_in(10) { 5_000 } else { 100 };
        let late = self.dice.millis(1..late);
        let arrives = (self.now + late).max(self.nodes[to].last_news[controller]);
        self.nodes[to].last_news[controller] = arrives;
        let epoch = self.nodes[to].epoch;
        self.after(arrives - self.now, Happening::News(controller, to, epoch, news));
    }

    pub(super) fn news(
        &mut self,
        controller: usize,
        to: usize,
        news: PeerReport,
    ) -> Result<(), String> {
        if !self.nodes[to].online[controller] && !self.is_over {
            return Ok(());
        }
        let now = self.now;
        if let Some(original) = &mut self.nodes[to].original {
            let deeds = original.news(&news, now, &mut self.dice);
            return self.carry_out_deeds(to, deeds);
        }
        let heard = &mut self.nodes[to].heard;
        match news.state {
            PeerState::Healthy => _ = heard.insert((controller, news.id.clone())),
            PeerState::Unhealthy => _ = heard.remove(&(controller, news.id.clone())),
            PeerState::Removed => {
                heard.retain(|(_, known)| *known != news.id);
                self.nodes[to].removed.insert(news.id.clone());
            }
        }
        let from: ControllerId = format!("controller {controller}").into();
        let is_removed = news.state == PeerState::Removed;
        let id = news.id.clone();
        let is_back = self.is_back(to, &from, &news);
        self.step(to, Input::News { from, news: vec![news] })?;
        self.check_news(to, &id, is_removed, is_back)
    }

    /// A router has reported a link that it dialed.
    pub(super) fn reported_up(&mut self, facts: &Facts, by: usize) {
        if self.online(by).is_some() {
            let ends = [self.nodes[by].name.clone(), facts.peer.clone()];
            self.known_links.insert(facts.id.clone(), (facts.iteration, ends));
        }
    }

    /// A router has reported the end of a link: the controller tells the router at the other end.
    pub(super) fn reported_ended(&mut self, id: &str, iteration: u32, by: usize) {
        if self.online(by).is_none() {
            return;
        }
        let Some((known, ends)) = self.known_links.get(id).cloned() else { return };
        if iteration != 0 && iteration < known {
            return;
        }
        self.known_links.remove(id);
        let other = ends.into_iter().find(|end| *end != self.nodes[by].name);
        let Some(to) = self.nodes.iter().position(|node| Some(&node.name) == other.as_ref()) else {
            return;
        };
        if self.online(to).is_some() {
            let (late, epoch) = (self.delay(), self.nodes[to].epoch);
            self.after(late, Happening::Fault(to, epoch, id.to_owned(), iteration));
        }
    }
}
