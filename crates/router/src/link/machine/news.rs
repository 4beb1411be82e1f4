//! The reports of controllers about other routers, and the links that follow from them.

use std::collections::BTreeMap;
use std::time::Duration;

use weft_wire::link::key;

use super::table::Event;
use super::target::Route;
use super::{Dialer, Handle, KnownPeer, Machine, Reason, Target};
use crate::seam::{ControllerId, PeerReport, PeerState};

/// How long a router without a connection and without a link is remembered.
pub(super) const FORGET: Duration = Duration::from_secs(48 * 3600);
/// Most listeners of one router that are used. Controllers of weft name no more either.
pub(super) const MAX_LISTENERS: usize = 16;
/// Most routers that are remembered.
const MAX_PEERS: usize = 100_000;

impl<L: Handle> Machine<L> {
    /// Takes the reports of a controller about other routers.
    pub(super) fn on_news(&mut self, from: &ControllerId, news: &[PeerReport]) {
        for peer in news {
            match peer.state {
                _ if peer.id == self.own => {}
                PeerState::Healthy => self.on_healthy(from, peer),
                PeerState::Unhealthy => {
                    let Some(known) = self.peers.get_mut(&peer.id) else { continue };
                    known.healthy_at.remove(from);
                    if !known.is_healthy() {
                        known.gone_since.get_or_insert(self.now);
                    }
                }
                PeerState::Removed => {
                    self.forget_peer(&peer.id);
                    // Its earlier confirmation is not valid any more.
                    self.confirmed.forget(&peer.id, self.now);
                    for number in self.numbers_with(&peer.id) {
                        self.must_close(number, Reason::PeerChanged);
                    }
                }
            }
        }
    }

    fn on_healthy(&mut self, from: &ControllerId, news: &PeerReport) {
        if !self.peers.contains_key(&news.id) && self.peers.len() >= MAX_PEERS {
            return;
        }
        let known = self.peers.entry(news.id.clone()).or_default();
        let has_other_keys = known.replace_keys(from, &news.keys);
        let is_back = !known.is_healthy() || has_other_keys;
        known.healthy_at.insert(from.clone());
        known.gone_since = None;
        known.version.clone_from(&news.version);
        known.listeners = news.listeners.iter().take(MAX_LISTENERS).cloned().collect();
        self.want_all(&news.id, is_back, true);
        if has_other_keys {
            for number in self.numbers_with(&news.id) {
                self.check_keys(number);
            }
        }
    }

    /// Changes the dialers. Open links stay, also links that no dialer wants any more.
    pub(super) fn set_dialers(&mut self, dialers: Vec<Dialer>) {
        self.dialers = dialers;
        let peers: Vec<String> = self.peers.keys().cloned().collect();
        for peer in peers {
            self.want_all(&peer, true, false);
        }
    }

    /// Follows the listeners of a router: each pair with a dialer of a common group is wanted. Pairs with one
    /// key make one target. `closes` says that links which lead elsewhere are closed.
    fn want_all(&mut self, peer: &str, is_back: bool, closes: bool) {
        let Some(known) = self.peers.get_mut(peer) else { return };
        let former = std::mem::take(&mut known.targets);
        let mut wanted: BTreeMap<String, Vec<Route>> = BTreeMap::new();
        for listener in &known.listeners {
            for (dialer, own) in self.dialers.iter().enumerate() {
                if !own.groups.iter().any(|group| listener.groups.contains(group)) {
                    continue;
                }
                let binding = &listener.local_binding;
                let routes =
                    wanted.entry(key(&own.binding, &listener.protocol, peer, binding)).or_default();
                if routes.iter().all(|route| route.listener.address != listener.address) {
                    routes.push(Route { listener: listener.clone(), dialer });
                }
            }
        }
        known.targets = wanted.keys().cloned().collect();
        let mut elsewhere = Vec::new();
        for key in former.into_iter().filter(|key| !wanted.contains_key(key)) {
            self.target_event(&key, Event::Unwanted);
            elsewhere.push(key);
        }
        for (key, routes) in wanted {
            if self.want(&key, peer, routes, is_back) {
                elsewhere.push(key);
            }
        }
        for key in elsewhere.iter().filter(|_| closes) {
            let current = self.by_key.get(key).copied();
            let link = current.and_then(|number| self.links.get(&number));
            let facts = link.map(|link| link.handle.facts()).filter(|it| it.dialed.is_some());
            if let Some(number) = facts.map(|facts| facts.number) {
                self.must_close(number, Reason::PeerChanged);
            }
        }
    }

    /// Adds or changes a target. True if it led to another address before.
    fn want(&mut self, key: &str, peer: &str, routes: Vec<Route>, is_back: bool) -> bool {
        if let Some(target) = self.targets.get_mut(key) {
            let is_moved = target.lead_over(routes);
            if is_back || is_moved {
                self.target_event(key, Event::Retry);
            }
            return is_moved;
        }
        if let Some(target) = Target::new(self.random.link_id(), peer, routes, self.now) {
            self.targets.insert(key.to_owned(), target);
            let has_link = self.by_key.contains_key(key);
            let event = if has_link { Event::WantedWithLink } else { Event::Wanted };
            self.target_event(key, event);
        }
        false
    }

    fn forget_peer(&mut self, peer: &str) {
        let known = self.peers.remove(peer);
        for key in known.map(|known| known.targets).unwrap_or_default() {
            self.target_event(&key, Event::Unwanted);
        }
    }

    /// Forgets routers that have been gone for long and have no link.
    pub(super) fn sweep(&mut self) {
        let by_peer = &self.by_peer;
        let is_over = |(id, known): &(&String, &KnownPeer)| {
            let long = known.gone_since.is_some_and(|since| self.now - since >= FORGET);
            long && !by_peer.contains_key(*id)
        };
        let over = self.peers.iter().filter(is_over);
        let over: Vec<String> = over.map(|(id, _)| id.clone()).collect();
        over.iter().for_each(|id| self.forget_peer(id));
    }

    /// Every target of a router, with its key.
    pub(in crate::link) fn targets_of(
        &self,
        peer: &str,
    ) -> impl Iterator<Item = (&String, &Target)> {
        let keys = self.peers.get(peer).into_iter().flat_map(|known| &known.targets);
        keys.filter_map(|key| self.targets.get_key_value(key))
    }

    /// Every known router: id, release, and whether it is connected to a controller.
    pub(in crate::link) fn peers(&self) -> impl Iterator<Item = (&str, &str, bool)> {
        self.peers.iter().map(|(id, known)| (id.as_str(), &*known.version, known.is_healthy()))
    }
}
