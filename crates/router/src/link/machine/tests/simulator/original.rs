//! A stand-in for a router of OpenZiti, by the rules of docs/protocol/data-plane.md 4.

use std::collections::BTreeMap;

use super::wires::End;
use super::*;
use crate::seam::PeerState;

/// The interval at which due dials and closes are looked for.
pub(super) const SCAN: Duration = Duration::from_secs(5);

/// What the router does.
#[derive(Debug)]
pub(super) enum Deed {
    Dial(Dial),
    Close(End),
    Duplicate(String, u32),
    Fault(String, u32),
}

#[derive(Debug)]
struct LinkState {
    id: String,
    peer: String,
    address: String,
    iteration: u32,
    delay: Duration,
    next: Instant,
    is_dialing: bool,
    is_healthy: bool,
}

#[derive(Debug)]
struct Link {
    facts: Facts,
    end: End,
    rejected: u32,
    is_current: bool,
    closes: Option<Instant>,
}

/// The router's links and link states.
#[derive(Debug, Default)]
pub(super) struct Original {
    states: BTreeMap<String, LinkState>,
    links: Vec<Link>,
}

impl Original {
    pub(super) fn news(&mut self, peer: &PeerReport, now: Instant, dice: &mut Dice) -> Vec<Deed> {
        let key = format!("default->tls:{}->default", peer.id);
        match peer.state {
            PeerState::Removed => drop(self.states.remove(&key)),
            PeerState::Unhealthy => {
                self.states.get_mut(&key).into_iter().for_each(|state| state.is_healthy = false);
            }
            PeerState::Healthy => {
                let Some(listener) = peer.listeners.first() else {
                    self.states.remove(&key);
                    let closing = self.links.iter().filter(|it| it.facts.key == key);
                    let closing = closing.filter(|it| it.facts.dialed.is_some());
                    return closing.map(|it| Deed::Close(it.end)).collect();
                };
                let state = self.states.entry(key.clone()).or_insert_with(|| LinkState {
                    id: dice.link_id(),
                    peer: peer.id.clone(),
                    address: listener.address.clone(),
                    iteration: 0,
                    delay: Duration::ZERO,
                    next: now,
                    is_dialing: false,
                    is_healthy: true,
                });
                let is_moved = state.address != listener.address;
                if !std::mem::replace(&mut state.is_healthy, true) || is_moved {
                    (state.delay, state.next) = (Duration::ZERO, now);
                }
                state.address.clone_from(&listener.address);
                if is_moved {
                    let closing = self.links.iter().filter(|it| it.facts.key == key);
                    let closing = closing.filter(|it| it.facts.dialed.is_some());
                    return closing.map(|it| Deed::Close(it.end)).collect();
                }
            }
        }
        Vec::new()
    }

    pub(super) fn scan(&mut self, now: Instant) -> Vec<Deed> {
        let closing = self.links.iter().filter(|it| it.closes.is_some_and(|at| at <= now));
        let mut deeds: Vec<Deed> = closing.map(|it| Deed::Close(it.end)).collect();
        for (key, state) in &mut self.states {
            let is_open = self.links.iter().any(|it| it.is_current && it.facts.key == *key);
            if is_open || state.is_dialing || state.next > now {
                continue;
            }
            state.is_dialing = true;
            state.iteration += 1;
            deeds.push(Deed::Dial(Dial {
                key: key.clone(),
                link: state.id.clone(),
                iteration: state.iteration,
                peer: state.peer.clone(),
                version: String::new(),
                keys: Vec::new(),
                address: state.address.clone(),
                protocol: "tls".into(),
                dialer: 0,
            }));
        }
        deeds
    }

    pub(super) fn dial_failed(&mut self, key: &str, id: &str, now: Instant, chance: f64) {
        let Some(state) = self.states.get_mut(key).filter(|state| state.id == id) else { return };
        state.is_dialing = false;
        let delay = state.delay.mul_f64((1.5 + chance - 0.5).max(1.0));
        state.delay = delay.clamp(Duration::from_secs(1), Duration::from_secs(30));
        state.next = now + state.delay;
    }

    pub(super) fn opened(&mut self, facts: Facts, end: End, now: Instant) -> Vec<Deed> {
        if facts.dialed.is_some()
            && let Some(state) = self.states.get_mut(&facts.key)
        {
            (state.is_dialing, state.delay) = (false, Duration::ZERO);
        }
        let is_dialed = facts.dialed.is_some();
        let current = self.links.iter_mut().find(|it| it.is_current && it.facts.key == facts.key);
        let mut new = Link { facts, end, rejected: 0, is_current: true, closes: None };
        let mut deeds = Vec::new();
        if let Some(current) = current {
            if current.facts.id < new.facts.id && current.rejected < 5 {
                current.rejected += 1;
                new.is_current = false;
                let keep = if is_dialed { 0 } else { 30 };
                new.closes = Some(now + Duration::from_secs(keep));
            } else {
                current.is_current = false;
                let keep = if current.facts.dialed.is_some() { 60 } else { 75 };
                current.closes = Some(now + Duration::from_secs(keep));
                deeds.push(Deed::Duplicate(current.facts.id.clone(), current.facts.iteration));
            }
        }
        if is_dialed && !new.is_current {
            deeds.push(Deed::Close(end));
        }
        self.links.push(new);
        deeds
    }

    pub(super) fn closed(&mut self, end: End, now: Instant) -> Vec<Deed> {
        let Some(at) = self.links.iter().position(|it| it.end == end) else { return Vec::new() };
        let link = self.links.remove(at);
        let is_back = self.links.iter().any(|it| it.is_current && it.facts.id == link.facts.id);
        if link.is_current
            && let Some(state) = self.states.get_mut(&link.facts.key)
        {
            (state.delay, state.next) = (Duration::ZERO, now);
        }
        let fault = Deed::Fault(link.facts.id, link.facts.iteration);
        if is_back { Vec::new() } else { vec![fault] }
    }

    /// A controller reports that a link broke.
    pub(super) fn faulted(&self, id: &str, iteration: u32) -> Vec<Deed> {
        let of_id = self.links.iter().filter(|it| it.facts.id == id);
        let broken = of_id.filter(|it| iteration == 0 || iteration >= it.facts.iteration);
        broken.map(|it| Deed::Close(it.end)).collect()
    }

    /// The ids of the links with a router, and whether each has its key.
    pub(super) fn links_with(&self, peer: &str) -> Vec<(String, bool)> {
        let links = self.links.iter().filter(|it| it.facts.peer == peer);
        links.map(|it| (it.facts.id.clone(), it.is_current)).collect()
    }
}
