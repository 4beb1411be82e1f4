//! The links of this router, and the dials that are due (docs/protocol/data-plane.md 4). Pure: time and
//! random numbers are arguments.
//!
//! A *target* is a link that this router wants to dial: there is one for each pair of a dialer here and
//! a listener there that share a group. Its id stays the same over all dials, which the *iteration*
//! counts. Of two links with one key both routers keep the same one: the one with the smaller id.

mod choice;
mod target;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, Instant},
};

use weft_wire::link::key;

use self::choice::TakenLink;
use crate::seam::{ControllerId, LinkListener, Peer, PeerState};

pub(crate) use self::{
    choice::{Candidate, Verdict},
    target::{Dial, Dialer, Place, Status, Target},
};

/// A link that was open for this long is dialed again at once when it closes.
const STEADY: Duration = Duration::from_secs(30);
/// The wait after the second of several links that closed sooner; each further wait is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// Longest of these waits: circuits wait 5 s for a link that comes back.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// The time after the end of a link in which failed dials are repeated after these short waits,
/// because the circuits of the link wait for it.
const AWAITED: Duration = Duration::from_secs(5);
/// How long a router without a connection and without a link is remembered.
const FORGET: Duration = Duration::from_secs(48 * 3600);
/// Most listeners of one router that are used. Controllers of weft name no more either.
const MAX_LISTENERS: usize = 16;
/// Most routers that are remembered.
const MAX_PEERS: usize = 100_000;
/// The reason for closing a link whose target was removed during the dial.
const REMOVED: &str =
    "the router, or its listener or dialer for this link, was removed during the dial";
/// The reason for closing a link whose address the peer gave up during the dial.
const GIVEN_UP: &str = "the peer gave up the dialed address during the dial";

#[derive(Debug)]
struct Known {
    version: String,
    /// The prints of its keys, and the controller that named them last.
    keys: Option<(ControllerId, Vec<String>)>,
    /// The controllers that said last that the peer is connected to them. A controller that is lost has said
    /// nothing else.
    healthy_at: HashSet<ControllerId>,
    /// The time of the peer's last connection to a controller; `None` while it is connected.
    gone_since: Option<Instant>,
    targets: HashSet<String>,
    /// The peer's listeners, as controllers reported them last.
    listeners: Vec<LinkListener>,
}

impl Known {
    /// Takes the keys that a controller names, and returns true if they are others than before. A controller that names
    /// none, like those of OpenZiti, does not replace what a connected one says.
    fn has_other_keys(&mut self, from: &ControllerId, named: &[String]) -> bool {
        let stays =
            self.keys.as_ref().is_some_and(|(by, _)| by != from && self.healthy_at.contains(by));
        if named.is_empty() && stays {
            return false;
        }
        let new = (!named.is_empty()).then(|| (from.clone(), named.to_vec()));
        let former = std::mem::replace(&mut self.keys, new);
        let before = former.as_ref().map(|(_, keys)| keys.as_slice()).unwrap_or_default();
        before != named
    }

    /// True if the peer is connected to a controller.
    fn is_healthy(&self) -> bool {
        !self.healthy_at.is_empty()
    }
}

/// What follows from reports of a controller about routers.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// The numbers of links that are to be closed.
    pub(crate) closing: Vec<u64>,
    /// Routers of which other keys are named than before.
    pub(crate) other_keys: Vec<String>,
}

/// The links, targets and routers that are known.
#[derive(Debug)]
pub(crate) struct Registry {
    own: String,
    dialers: Vec<Dialer>,
    peers: HashMap<String, Known>,
    targets: HashMap<String, Target>,
    /// Targets by the time of their next dial.
    due: BTreeMap<(Instant, String), ()>,
    live: HashMap<String, TakenLink>,
}

impl Registry {
    /// An empty registry, for the router `own`.
    pub(crate) fn new(own: &str, dialers: Vec<Dialer>) -> Self {
        Self {
            own: own.to_owned(),
            dialers,
            peers: HashMap::new(),
            targets: HashMap::new(),
            due: BTreeMap::new(),
            live: HashMap::new(),
        }
    }

    /// Takes the report of a controller about a router. Returns the numbers of links that are to be closed.
    /// `new_id` makes ids of links.
    pub(crate) fn peer(
        &mut self,
        from: &ControllerId,
        news: &Peer,
        now: Instant,
        mut new_id: impl FnMut() -> String,
    ) -> Vec<u64> {
        if news.id == self.own {
            return Vec::new();
        }
        match news.state {
            PeerState::Healthy => self.healthy(from, news, now, &mut new_id),
            PeerState::Unhealthy => {
                if let Some(known) = self.peers.get_mut(&news.id) {
                    known.healthy_at.remove(from);
                    if !known.is_healthy() {
                        known.gone_since.get_or_insert(now);
                    }
                }
                Vec::new()
            }
            PeerState::Removed => {
                let known = self.peers.remove(&news.id);
                let keys = known.map(|known| known.targets).unwrap_or_default();
                let mut closing: Vec<u64> =
                    keys.into_iter().filter_map(|key| self.drop_target(&key)).collect();
                let of_peer = format!(":{}->", news.id);
                let others = self.live.iter().filter(|(key, _)| key.contains(&of_peer));
                closing.extend(others.map(|(_, live)| live.link.number));
                closing
            }
        }
    }

    /// The prints of the keys that a controller names of a router.
    pub(crate) fn keys_of(&self, peer: &str) -> Option<&[String]> {
        self.peers.get(peer)?.keys.as_ref().map(|(_, keys)| keys.as_slice())
    }

    fn healthy(
        &mut self,
        from: &ControllerId,
        news: &Peer,
        now: Instant,
        new_id: &mut impl FnMut() -> String,
    ) -> Vec<u64> {
        if !self.peers.contains_key(&news.id) && self.peers.len() >= MAX_PEERS {
            return Vec::new();
        }
        let known = self.peers.entry(news.id.clone()).or_insert_with(|| Known {
            version: String::new(),
            keys: None,
            healthy_at: HashSet::new(),
            gone_since: None,
            targets: HashSet::new(),
            listeners: Vec::new(),
        });
        let is_back = !known.is_healthy() | known.has_other_keys(from, &news.keys);
        known.healthy_at.insert(from.clone());
        known.gone_since = None;
        known.version.clone_from(&news.version);
        known.listeners = news.listeners.iter().take(MAX_LISTENERS).cloned().collect();
        self.want_all(&news.id, is_back, now, new_id)
    }

    /// Changes the dialers. Open links stay, also links that no dialer wants any more.
    pub(crate) fn set_dialers(
        &mut self,
        dialers: Vec<Dialer>,
        now: Instant,
        mut new_id: impl FnMut() -> String,
    ) {
        self.dialers = dialers;
        let peers: Vec<String> = self.peers.keys().cloned().collect();
        for peer in peers {
            self.want_all(&peer, true, now, &mut new_id);
        }
    }

    /// Adds the targets for a router, from each pair of a dialer and a listener. Pairs with one key make
    /// one target. Returns the numbers of links that are to be closed.
    fn want_all(
        &mut self,
        peer: &str,
        is_back: bool,
        now: Instant,
        new_id: &mut impl FnMut() -> String,
    ) -> Vec<u64> {
        let Some(known) = self.peers.get_mut(peer) else { return Vec::new() };
        let former = std::mem::take(&mut known.targets);
        let mut wanted: BTreeMap<String, Vec<Place>> = BTreeMap::new();
        for listener in &known.listeners {
            for (dialer, own) in self.dialers.iter().enumerate() {
                if !own.groups.iter().any(|group| listener.groups.contains(group)) {
                    continue;
                }
                let binding = &listener.local_binding;
                let places =
                    wanted.entry(key(&own.binding, &listener.protocol, peer, binding)).or_default();
                if places.iter().all(|place| place.listener.address != listener.address) {
                    places.push(Place { listener: listener.clone(), dialer });
                }
            }
        }
        known.targets = wanted.keys().cloned().collect();
        let mut closing = Vec::new();
        for key in former.iter().filter(|key| !wanted.contains_key(*key)) {
            closing.extend(self.drop_target(key));
        }
        for (key, places) in wanted {
            closing.extend(self.want(&key, peer, places, is_back, now, new_id));
        }
        closing
    }

    /// Adds a target. Returns the number of its former link, if that leads to another address.
    fn want(
        &mut self,
        key: &str,
        peer: &str,
        places: Vec<Place>,
        is_back: bool,
        now: Instant,
        new_id: &mut impl FnMut() -> String,
    ) -> Option<u64> {
        let live = self.live.get(key).map(|live| (live.link.number, live.link.dialed.is_some()));
        let Some(target) = self.targets.get_mut(key) else {
            let target = Target::new(new_id(), peer, places, live.is_some())?;
            self.targets.insert(key.to_owned(), target);
            if live.is_none() {
                self.dial_at(key, now);
            }
            return None;
        };
        let moved = target.lead_to(places);
        let waits =
            matches!(target.status, Status::DialFailed | Status::LinkFailed | Status::Pending);
        if waits && (is_back || moved) {
            target.delay = Duration::ZERO;
            self.dial_at(key, now);
        }
        live.filter(|(_, is_dialed)| moved && *is_dialed).map(|(number, _)| number)
    }

    /// Removes a target. Returns the number of its link, if this router dialed it.
    fn drop_target(&mut self, key: &str) -> Option<u64> {
        let target = self.targets.remove(key)?;
        if let Some(at) = target.due {
            self.due.remove(&(at, key.to_owned()));
        }
        self.live.get(key).filter(|live| live.link.dialed.is_some()).map(|live| live.link.number)
    }

    fn dial_at(&mut self, key: &str, at: Instant) {
        let Some(target) = self.targets.get_mut(key) else { return };
        if let Some(former) = target.due.replace(at) {
            self.due.remove(&(former, key.to_owned()));
        }
        self.due.insert((at, key.to_owned()), ());
    }

    /// The time of the next dial.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.first_key_value().map(|((at, _), ())| *at)
    }

    /// Begins a dial that is due.
    pub(crate) fn begin_dial(&mut self, now: Instant) -> Option<Dial> {
        loop {
            let (at, key) = self.due.first_key_value().map(|(entry, ())| entry.clone())?;
            if at > now {
                return None;
            }
            self.due.remove(&(at, key.clone()));
            let Some(target) = self.targets.get_mut(&key) else { continue };
            target.due = None;
            if self.live.contains_key(&key) {
                target.status = Status::Established;
                continue;
            }
            target.status = Status::Dialing;
            target.iteration += 1;
            let place = target.place();
            let known = self.peers.get(&target.peer);
            let version = known.map(|known| known.version.clone()).unwrap_or_default();
            let keys = known.and_then(|known| known.keys.as_ref()).map(|(_, keys)| keys.clone());
            let keys = keys.unwrap_or_default();
            return Some(Dial {
                link: target.link.clone(),
                iteration: target.iteration,
                peer: target.peer.clone(),
                version,
                keys,
                address: place.listener.address.clone(),
                protocol: place.listener.protocol.clone(),
                dialer: place.dialer,
                key,
            });
        }
    }

    /// Keeps at most `most` dials due. The others wait as if they had failed. `chance` gives
    /// numbers between 0 and 1.
    pub(crate) fn bound_queue(&mut self, most: usize, now: Instant, chance: impl Fn() -> f64) {
        let due = self.due.keys().take_while(|(at, _)| *at <= now);
        let beyond: Vec<String> = due.skip(most).map(|(_, key)| key.clone()).collect();
        for key in beyond {
            let Some(target) = self.targets.get_mut(&key) else { continue };
            let healthy = self.peers.get(&target.peer).is_some_and(Known::is_healthy);
            let Some(dialer) = self.dialers.get(target.place().dialer) else { continue };
            target.delay = dialer.wait_after(target.delay, healthy, chance());
            let at = now + target.delay;
            tracing::debug!(link = %target.link, "too many links wait to be dialed; this link is dialed later");
            self.dial_at(&key, at);
        }
    }

    /// A dial has failed and is tried again after a wait. `chance` is between 0 and 1.
    pub(crate) fn failed(&mut self, dial: &Dial, was_duplicate: bool, now: Instant, chance: f64) {
        let healthy = self.peers.get(&dial.peer).is_some_and(Known::is_healthy);
        let Some(target) = self.targets.get_mut(&dial.key) else { return };
        let is_latest = target.link == dial.link && target.iteration == dial.iteration;
        if !is_latest || target.status != Status::Dialing {
            return;
        }
        target.status = Status::DialFailed;
        if target.place().listener.address != dial.address {
            // The peer gave up the address meanwhile. The address that took its place was not tried
            // yet.
            target.delay = Duration::ZERO;
            return self.dial_at(&dial.key, now);
        }
        let Some(dialer) = self.dialers.get(target.place().dialer) else { return };
        let is_awaited =
            target.lost.is_some_and(|lost| now.saturating_duration_since(lost) < AWAITED);
        target.delay = match is_awaited {
            true => {
                let twice = (2 * target.delay).mul_f64(0.75 + chance.clamp(0.0, 1.0) / 2.0);
                twice.clamp(FIRST_WAIT, LONGEST_WAIT)
            }
            false => dialer.wait_after(target.delay, healthy, chance),
        };
        if !was_duplicate {
            target.next_place();
        }
        // The peer of a link that has just been lost may not have noticed its end yet; circuits wait.
        let extra = if was_duplicate && !is_awaited {
            Duration::from_secs(1) + Duration::from_secs(3).mul_f64(chance.clamp(0.0, 1.0))
        } else {
            Duration::ZERO
        };
        let at = now + target.delay + extra;
        self.dial_at(&dial.key, at);
    }

    /// Decides on a link that was opened.
    pub(crate) fn register(&mut self, link: Candidate) -> Verdict {
        if let Some(address) = &link.dialed
            && let Some(why) = self.unwanted(&link.key, &link.id, address)
        {
            return Verdict::Unwanted(why);
        }
        let verdict = match self.live.get_mut(&link.key) {
            None => Verdict::Taken,
            Some(live) => live.or(&link),
        };
        if let Verdict::Refused { .. } = verdict {
            return verdict;
        }
        if let Some(target) = self.targets.get_mut(&link.key) {
            target.status = Status::Established;
            target.connected += 1;
            target.delay = Duration::ZERO;
            target.lost = None;
            if let Some(address) = &link.dialed {
                target.reached(address);
            }
            if let Some(at) = target.due.take() {
                self.due.remove(&(at, link.key.clone()));
            }
        }
        self.live.insert(link.key.clone(), TakenLink::new(link));
        verdict
    }

    /// The reason why this router does not want a link that it dialed at this address, if there is
    /// a reason: peers and dialers may change while a dial is under way.
    pub(crate) fn unwanted(&self, key: &str, id: &str, address: &str) -> Option<&'static str> {
        match self.targets.get(key) {
            Some(target) if target.link != id => Some(REMOVED),
            Some(target) if !target.leads_to(address) => Some(GIVEN_UP),
            Some(_) => None,
            None => Some(REMOVED),
        }
    }

    /// True if this is the link that was taken for the key.
    pub(crate) fn is_live(&self, key: &str, number: u64) -> bool {
        self.live.get(key).is_some_and(|live| live.link.number == number)
    }

    /// Notes that a link has closed. Its target is dialed again at once, unless the former link had closed
    /// soon, too: a peer that accepts links and closes them is dialed with a pause.
    pub(crate) fn closed(&mut self, key: &str, number: u64, now: Instant) {
        if self.live.get(key).is_none_or(|live| live.link.number != number) {
            return;
        }
        let Some(ended) = self.live.remove(key) else { return };
        let lasted = now.saturating_duration_since(ended.link.since);
        if let Some(target) = self.targets.get_mut(key)
            && target.status != Status::Dialing
        {
            target.status = Status::LinkFailed;
            target.lost = Some(now);
            target.short = if lasted < STEADY { target.short.saturating_add(1) } else { 0 };
            target.delay = match target.short {
                0 | 1 => Duration::ZERO,
                short => (FIRST_WAIT * (1 << (short - 2).min(10))).min(LONGEST_WAIT),
            };
            let at = now + target.delay;
            self.dial_at(key, at);
        }
    }

    /// Forgets routers that have been gone for long and have no link.
    pub(crate) fn sweep(&mut self, now: Instant) {
        let live = &self.live;
        let is_over = |known: &Known| {
            let long = known.gone_since.is_some_and(|since| now.duration_since(since) >= FORGET);
            long && !known.targets.iter().any(|key| live.contains_key(key))
        };
        let over: Vec<String> = self
            .peers
            .iter()
            .filter(|(_, known)| is_over(known))
            .map(|(id, _)| id.clone())
            .collect();
        for id in over {
            for key in self.peers.remove(&id).map(|known| known.targets).unwrap_or_default() {
                self.drop_target(&key);
            }
        }
    }

    /// Every target with its key, for inspection.
    #[cfg(test)]
    pub(crate) fn targets(&self) -> impl Iterator<Item = (&String, &Target)> {
        self.targets.iter()
    }

    pub(crate) fn targets_of(&self, peer: &str) -> impl Iterator<Item = (&String, &Target)> {
        let keys = self.peers.get(peer).into_iter().flat_map(|known| &known.targets);
        keys.filter_map(move |key| self.targets.get_key_value(key))
    }

    /// Every known router: id, release, and whether it is connected to a controller.
    pub(crate) fn peers(&self) -> impl Iterator<Item = (&str, &str, bool)> {
        self.peers.iter().map(|(id, known)| (id.as_str(), &*known.version, known.is_healthy()))
    }
}
