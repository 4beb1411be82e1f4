//! The links of this router, and the dials that are due (docs/protocol/data-plane.md 4). Pure: time and
//! random numbers are arguments.
//!
//! A *target* is a link that this router wants to dial: there is one for each pair of a dialer here and
//! a listener there that share a group. Its id stays the same over all dials, which the *iteration*
//! counts. Of two links with one key both routers keep the same one: the one with the smaller id.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, Instant},
};

use weft_config::router::Backoff;
use weft_wire::link::key;

use crate::seam::{LinkListener, Peer, PeerState};

/// A link that has been preferred to this many others gives way to the next one: the peer does not know
/// it.
const MAX_REJECTED: u32 = 5;
/// A link that was open for this long is dialed again at once when it closes.
const STEADY: Duration = Duration::from_secs(30);
/// The wait after the second of several links that closed sooner; each further wait is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// Longest such wait: circuits wait 5 s for a link that comes back.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// How long a router without a connection and without a link is remembered.
const FORGET: Duration = Duration::from_secs(48 * 3600);
/// Most listeners of one router that are used.
const MAX_LISTENERS: usize = 64;
/// Most routers that are remembered.
const MAX_PEERS: usize = 100_000;

/// A dialer of links.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    /// The dialer's name in the key of links; empty means `default`.
    pub(crate) binding: String,
    /// The dialer's groups: listeners of one of them are dialed.
    pub(crate) groups: Vec<String>,
    /// Waits while the peer is connected to a controller.
    pub(crate) healthy: Backoff,
    /// Waits while the peer is not connected to a controller.
    pub(crate) unhealthy: Backoff,
}

/// A dial that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dial {
    /// Key of the link.
    pub(crate) key: String,
    /// Id of the link.
    pub(crate) link: String,
    /// Number of the dial, from 1.
    pub(crate) iteration: u32,
    /// The router to dial.
    pub(crate) peer: String,
    /// The router's release, as controllers report it.
    pub(crate) version: String,
    /// The address of its listener.
    pub(crate) address: String,
    /// The protocol of its listener.
    pub(crate) protocol: String,
    /// The number of the dialer.
    pub(crate) dialer: usize,
}

/// The state of a target (docs/protocol/data-plane.md 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// The target waits for its first dial.
    Pending,
    /// A dial is under way.
    Dialing,
    /// The last dial failed.
    DialFailed,
    /// The link has closed.
    LinkFailed,
    /// The link is open.
    Established,
}

impl Status {
    /// The state's name in inspections.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Dialing => "dialing",
            Self::DialFailed => "dialFailed",
            Self::LinkFailed => "linkFailed",
            Self::Established => "established",
        }
    }
}

/// A link that this router wants to dial, or has dialed.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) link: String,
    pub(crate) peer: String,
    pub(crate) address: String,
    pub(crate) protocol: String,
    pub(crate) groups: Vec<String>,
    pub(crate) listener_binding: String,
    pub(crate) dialer: usize,
    pub(crate) status: Status,
    pub(crate) iteration: u32,
    pub(crate) connected: u32,
    pub(crate) delay: Duration,
    /// How many of its last links closed soon.
    pub(crate) short: u32,
    /// The time of its next dial; `None` while the link is open or being dialed.
    pub(crate) due: Option<Instant>,
}

/// A link that was opened.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// A number that is unique in this process.
    pub(crate) number: u64,
    pub(crate) key: String,
    pub(crate) id: String,
    pub(crate) iteration: u32,
    /// True if this router dialed it.
    pub(crate) dialed: bool,
    /// The time at which it was opened.
    pub(crate) since: Instant,
}

/// The decision on an opened link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The link is taken.
    Taken,
    /// The link takes the place of another one, which is closed after a while.
    Replaces { number: u64, id: String, iteration: u32, close_after: Duration },
    /// Another link stays. This one is closed after a while, so that a peer that decides otherwise has
    /// time.
    Refused { close_after: Duration },
}

#[derive(Debug)]
struct Live {
    link: Candidate,
    rejected: u32,
}

#[derive(Debug)]
struct Known {
    version: String,
    healthy: bool,
    /// The time of the peer's last connection to a controller; `None` while it is connected.
    gone_since: Option<Instant>,
    targets: HashSet<String>,
    /// The peer's listeners, as controllers reported them last.
    listeners: Vec<LinkListener>,
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
    live: HashMap<String, Live>,
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

    /// Takes a report about a router. Returns the numbers of links that are to be closed. `new_id` makes
    /// ids of links.
    pub(crate) fn peer(
        &mut self,
        news: &Peer,
        now: Instant,
        mut new_id: impl FnMut() -> String,
    ) -> Vec<u64> {
        if news.id == self.own {
            return Vec::new();
        }
        match news.state {
            PeerState::Healthy => self.healthy(news, now, &mut new_id),
            PeerState::Unhealthy => {
                if let Some(known) = self.peers.get_mut(&news.id) {
                    known.healthy = false;
                    known.gone_since.get_or_insert(now);
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

    fn healthy(
        &mut self,
        news: &Peer,
        now: Instant,
        new_id: &mut impl FnMut() -> String,
    ) -> Vec<u64> {
        if !self.peers.contains_key(&news.id) && self.peers.len() >= MAX_PEERS {
            return Vec::new();
        }
        let known = self.peers.entry(news.id.clone()).or_insert_with(|| Known {
            version: String::new(),
            healthy: false,
            gone_since: None,
            targets: HashSet::new(),
            listeners: Vec::new(),
        });
        let is_back = !std::mem::replace(&mut known.healthy, true);
        known.gone_since = None;
        known.version.clone_from(&news.version);
        known.listeners = news.listeners.iter().take(MAX_LISTENERS).cloned().collect();
        self.want_all(&news.id, is_back, now, new_id)
    }

    /// Changes the dialers. Open links stay, also those that no dialer wants any more.
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

    /// Adds the targets for a router, from each pair of a dialer and a listener. Returns the numbers of
    /// links that are to be closed.
    fn want_all(
        &mut self,
        peer: &str,
        is_back: bool,
        now: Instant,
        new_id: &mut impl FnMut() -> String,
    ) -> Vec<u64> {
        let Some(known) = self.peers.get_mut(peer) else { return Vec::new() };
        let former = std::mem::take(&mut known.targets);
        let listeners = known.listeners.clone();
        let mut wanted = HashSet::new();
        let mut closing = Vec::new();
        for listener in &listeners {
            for at in 0..self.dialers.len() {
                let Some(dialer) = self.dialers.get(at) else { continue };
                if !dialer.groups.iter().any(|group| listener.groups.contains(group)) {
                    continue;
                }
                let binding = &listener.local_binding;
                let key = key(&dialer.binding, &listener.protocol, peer, binding);
                closing.extend(self.want(&key, at, peer, listener, is_back, now, new_id));
                wanted.insert(key);
            }
        }
        for key in former.difference(&wanted) {
            closing.extend(self.drop_target(key));
        }
        if let Some(known) = self.peers.get_mut(peer) {
            known.targets = wanted;
        }
        closing
    }

    /// Adds a target. Returns the number of its former link, if that leads to another address.
    #[allow(clippy::too_many_arguments)] // What makes a target, and nothing else asks for it.
    fn want(
        &mut self,
        key: &str,
        dialer: usize,
        peer: &str,
        listener: &LinkListener,
        is_back: bool,
        now: Instant,
        new_id: &mut impl FnMut() -> String,
    ) -> Option<u64> {
        let live = self.live.get(key).map(|live| (live.link.number, live.link.dialed));
        let Some(target) = self.targets.get_mut(key) else {
            let target = Target {
                link: new_id(),
                peer: peer.to_owned(),
                address: listener.address.clone(),
                protocol: listener.protocol.clone(),
                groups: listener.groups.clone(),
                listener_binding: listener.local_binding.clone(),
                dialer,
                status: if live.is_some() { Status::Established } else { Status::Pending },
                iteration: 0,
                connected: 0,
                delay: Duration::ZERO,
                short: 0,
                due: None,
            };
            self.targets.insert(key.to_owned(), target);
            if live.is_none() {
                self.dial_at(key, now);
            }
            return None;
        };
        target.dialer = dialer;
        target.groups.clone_from(&listener.groups);
        let moved = target.address != listener.address;
        target.address.clone_from(&listener.address);
        let waits =
            matches!(target.status, Status::DialFailed | Status::LinkFailed | Status::Pending);
        if waits && (is_back || moved) {
            target.delay = Duration::ZERO;
            self.dial_at(key, now);
        }
        live.filter(|(_, dialed)| moved && *dialed).map(|(number, _)| number)
    }

    /// Removes a target. Returns the number of its link, if this router dialed it.
    fn drop_target(&mut self, key: &str) -> Option<u64> {
        let target = self.targets.remove(key)?;
        if let Some(at) = target.due {
            self.due.remove(&(at, key.to_owned()));
        }
        self.live.get(key).filter(|live| live.link.dialed).map(|live| live.link.number)
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
            let version = self.peers.get(&target.peer).map(|known| known.version.clone());
            return Some(Dial {
                link: target.link.clone(),
                iteration: target.iteration,
                peer: target.peer.clone(),
                version: version.unwrap_or_default(),
                address: target.address.clone(),
                protocol: target.protocol.clone(),
                dialer: target.dialer,
                key,
            });
        }
    }

    /// Lets the dials that are due beyond `most` wait as if they had failed. `chance` gives numbers
    /// between 0 and 1.
    pub(crate) fn bound_queue(&mut self, most: usize, now: Instant, chance: impl Fn() -> f64) {
        let due = self.due.keys().take_while(|(at, _)| *at <= now);
        let beyond: Vec<String> = due.skip(most).map(|(_, key)| key.clone()).collect();
        for key in beyond {
            let Some(target) = self.targets.get_mut(&key) else { continue };
            let healthy = self.peers.get(&target.peer).is_some_and(|known| known.healthy);
            let Some(dialer) = self.dialers.get(target.dialer) else { continue };
            let backoff = if healthy { &dialer.healthy } else { &dialer.unhealthy };
            target.delay = after(target.delay, backoff, chance());
            let at = now + target.delay;
            tracing::debug!(link = %target.link, "too many links are to be dialed, this one later");
            self.dial_at(&key, at);
        }
    }

    /// A dial has failed and is tried again after a wait. `chance` is between 0 and 1.
    pub(crate) fn failed(&mut self, dial: &Dial, was_duplicate: bool, now: Instant, chance: f64) {
        let healthy = self.peers.get(&dial.peer).is_some_and(|known| known.healthy);
        let Some(target) = self.targets.get_mut(&dial.key) else { return };
        if target.iteration != dial.iteration || target.status != Status::Dialing {
            return;
        }
        target.status = Status::DialFailed;
        let Some(dialer) = self.dialers.get(target.dialer) else { return };
        let backoff = if healthy { &dialer.healthy } else { &dialer.unhealthy };
        target.delay = after(target.delay, backoff, chance);
        let extra = if was_duplicate {
            Duration::from_secs(1) + Duration::from_secs(3).mul_f64(chance.clamp(0.0, 1.0))
        } else {
            Duration::ZERO
        };
        let at = now + target.delay + extra;
        self.dial_at(&dial.key, at);
    }

    /// Decides on a link that was opened.
    pub(crate) fn register(&mut self, link: Candidate) -> Verdict {
        let is_wanted = |target: &Target| target.link == link.id;
        if link.dialed && !self.targets.get(&link.key).is_some_and(is_wanted) {
            // The router was removed while it was dialed.
            return Verdict::Refused { close_after: Duration::ZERO };
        }
        let verdict = match self.live.get_mut(&link.key) {
            None => Verdict::Taken,
            Some(live) if live.link.id < link.id && live.rejected < MAX_REJECTED => {
                live.rejected += 1;
                let wait = if link.dialed { 0 } else { 30 };
                return Verdict::Refused { close_after: Duration::from_secs(wait) };
            }
            Some(live) => Verdict::Replaces {
                number: live.link.number,
                id: live.link.id.clone(),
                iteration: live.link.iteration,
                close_after: Duration::from_secs(if live.link.dialed { 60 } else { 75 }),
            },
        };
        if let Some(target) = self.targets.get_mut(&link.key) {
            target.status = Status::Established;
            target.connected += 1;
            target.delay = Duration::ZERO;
            if let Some(at) = target.due.take() {
                self.due.remove(&(at, link.key.clone()));
            }
        }
        self.live.insert(link.key.clone(), Live { link, rejected: 0 });
        verdict
    }

    /// True if this is the link that was taken for the key.
    pub(crate) fn is_live(&self, key: &str, number: u64) -> bool {
        self.live.get(key).is_some_and(|live| live.link.number == number)
    }

    /// A link has closed: it is dialed again at once, unless the one before it had closed soon, too. A
    /// peer that accepts links and closes them is dialed with a pause.
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
    pub(crate) fn targets(&self) -> impl Iterator<Item = (&String, &Target)> {
        self.targets.iter()
    }

    /// Every known router: id, release, and whether it is connected to a controller.
    pub(crate) fn peers(&self) -> impl Iterator<Item = (&str, &str, bool)> {
        self.peers.iter().map(|(id, known)| (id.as_str(), known.version.as_str(), known.healthy))
    }
}

/// The wait after one of `before`.
fn after(before: Duration, backoff: &Backoff, chance: f64) -> Duration {
    let factor = (backoff.factor + chance.clamp(0.0, 1.0) - 0.5).max(1.0);
    before.mul_f64(factor).clamp(backoff.min, backoff.max.max(backoff.min))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry() -> Registry {
        let dialer = Dialer {
            binding: String::new(),
            groups: vec!["default".into()],
            healthy: Backoff::healthy(),
            unhealthy: Backoff::unhealthy(),
        };
        Registry::new("r1", vec![dialer])
    }

    fn peer(id: &str, state: PeerState) -> Peer {
        let listener = LinkListener {
            address: format!("tls:{id}:6004"),
            protocol: "tls".into(),
            groups: vec!["default".into()],
            local_binding: String::new(),
        };
        Peer { id: id.into(), version: "v2.1.0".into(), state, listeners: vec![listener] }
    }

    fn ids() -> impl FnMut() -> String {
        let mut next = 0;
        move || {
            next += 1;
            format!("m{next}")
        }
    }

    fn link(number: u64, id: &str, dialed: bool) -> Candidate {
        let key = "default->tls:r2->default".to_owned();
        Candidate { number, key, id: id.into(), iteration: 1, dialed, since: Instant::now() }
    }

    /// A registry that dials a link of this id.
    fn dialing(id: &str, now: Instant) -> Registry {
        let mut registry = registry();
        registry.peer(&peer("r2", PeerState::Healthy), now, || id.to_owned());
        registry.begin_dial(now).unwrap();
        registry
    }

    #[test]
    fn other_dialers_want_other_links_and_leave_those_that_stand() {
        let now = Instant::now();
        let mut registry = dialing("A", now);
        let key = link(1, "A", true).key;
        assert_eq!(registry.register(link(1, "A", true)), Verdict::Taken);
        registry.set_dialers(Vec::new(), now, ids());
        assert!(registry.is_live(&key, 1) && registry.next_due().is_none());
        // When the link ends it is not dialed again, until a dialer for it is set.
        registry.closed(&key, 1, now);
        assert!(registry.next_due().is_none());
        registry.set_dialers(self::registry().dialers, now, ids());
        assert_eq!(registry.begin_dial(now).unwrap().key, key);
    }

    #[test]
    fn a_dial_that_ends_after_its_router_was_removed_makes_no_link() {
        let now = Instant::now();
        let mut registry = dialing("A", now);
        registry.peer(&peer("r2", PeerState::Removed), now, ids());
        let refused = Verdict::Refused { close_after: Duration::ZERO };
        assert_eq!(registry.register(link(1, "A", true)), refused);
        // Its successor at the same address has another id.
        registry.peer(&peer("r2", PeerState::Healthy), now, || "B".to_owned());
        assert_eq!(registry.register(link(2, "A", true)), refused);
        assert_eq!(registry.register(link(3, "B", true)), Verdict::Taken);
    }

    #[test]
    fn a_peer_that_closes_every_link_is_not_dialed_without_a_pause() {
        let now = Instant::now();
        let mut registry = dialing("A", now);
        let mut waits = Vec::new();
        for number in 0..12 {
            registry.register(link(number, "A", true));
            let ended = Instant::now();
            registry.closed("default->tls:r2->default", number, ended);
            waits.push(registry.next_due().unwrap() - ended);
            registry.begin_dial(ended + LONGEST_WAIT).unwrap();
        }
        assert_eq!(waits[0], Duration::ZERO, "a link that breaks is back at once");
        assert!(waits.is_sorted() && waits[1] == FIRST_WAIT && waits[11] == LONGEST_WAIT);
        registry.register(link(50, "A", true));
        let later = Instant::now() + STEADY;
        registry.closed("default->tls:r2->default", 50, later);
        assert_eq!(registry.next_due(), Some(later), "it has been steady since");
    }

    #[test]
    fn a_peer_is_dialed_and_again_after_a_growing_wait() {
        let (mut registry, now) = (registry(), Instant::now());
        assert!(registry.peer(&peer("r1", PeerState::Healthy), now, ids()).is_empty());
        assert_eq!(registry.next_due(), None, "oneself is not dialed");
        registry.peer(&peer("r2", PeerState::Healthy), now, ids());
        let dial = registry.begin_dial(now).unwrap();
        assert_eq!(
            (dial.link.as_str(), dial.iteration, dial.key.as_str()),
            ("m1", 1, "default->tls:r2->default")
        );
        assert_eq!(registry.begin_dial(now), None);
        registry.failed(&dial, false, now, 0.5);
        assert_eq!(registry.next_due(), Some(now + Duration::from_secs(5)));
        let dial = registry.begin_dial(now + Duration::from_secs(5)).unwrap();
        assert_eq!((dial.link.as_str(), dial.iteration), ("m1", 2));
        registry.failed(&dial, false, now, 0.5);
        assert_eq!(registry.next_due(), Some(now + Duration::from_millis(7500)));
        // It connects to a controller again: at once.
        registry.peer(&peer("r2", PeerState::Unhealthy), now, ids());
        registry.peer(&peer("r2", PeerState::Healthy), now, ids());
        assert_eq!(registry.next_due(), Some(now));
    }

    #[test]
    fn waits_stay_in_their_bounds() {
        let backoff = Backoff::unhealthy();
        let mut wait = Duration::ZERO;
        for chance in [0.0, 1.0, f64::NAN.max(0.0), 0.3, 1.0] {
            wait = after(wait, &backoff, chance);
            assert!((backoff.min..=backoff.max).contains(&wait), "{wait:?}");
        }
        assert_eq!(wait, backoff.max);
    }

    #[test]
    fn both_ends_keep_the_same_of_two_links() {
        let now = Instant::now();
        // r1 dialed A, r2 dialed B, at the same time: both keep A.
        let (mut one, mut two) = (dialing("A", now), dialing("B", now));
        assert_eq!(one.register(link(1, "A", true)), Verdict::Taken);
        assert_eq!(
            one.register(link(2, "B", false)),
            Verdict::Refused { close_after: Duration::from_secs(30) }
        );
        assert_eq!(two.register(link(1, "B", true)), Verdict::Taken);
        let replaces = two.register(link(2, "A", false));
        let close_after = Duration::from_secs(60);
        assert_eq!(
            replaces,
            Verdict::Replaces { number: 1, id: "B".into(), iteration: 1, close_after }
        );
        // The end of the one that was replaced changes nothing.
        two.closed("default->tls:r2->default", 1, now);
        assert_eq!(
            two.register(link(3, "C", false)),
            Verdict::Refused { close_after: Duration::from_secs(30) }
        );
    }

    #[test]
    fn a_peer_that_insists_wins_in_the_end() {
        let mut registry = registry();
        registry.register(link(1, "A", false));
        for number in 0..5 {
            assert!(matches!(
                registry.register(link(10 + number, "B", false)),
                Verdict::Refused { .. }
            ));
        }
        assert!(matches!(
            registry.register(link(20, "B", false)),
            Verdict::Replaces { number: 1, .. }
        ));
        // The same link anew, in its next iteration.
        assert!(matches!(
            registry.register(link(21, "B", false)),
            Verdict::Replaces { number: 20, .. }
        ));
    }

    #[test]
    fn a_link_that_broke_is_dialed_at_once_and_one_that_came_meanwhile_is_enough() {
        let (mut registry, now) = (registry(), Instant::now());
        registry.peer(&peer("r2", PeerState::Healthy), now, ids());
        let dial = registry.begin_dial(now).unwrap();
        registry.register(link(1, &dial.link, true));
        let later = now + Duration::from_secs(100);
        registry.closed(&dial.key, 1, later);
        assert_eq!(registry.next_due(), Some(later));
        registry.register(link(2, "A", false));
        assert_eq!(registry.next_due(), None);
        assert_eq!(registry.begin_dial(later), None);
    }

    #[test]
    fn removed_peers_lose_their_links_and_long_gone_ones_are_forgotten() {
        let (mut registry, now) = (registry(), Instant::now());
        registry.peer(&peer("r2", PeerState::Healthy), now, ids());
        registry.begin_dial(now).unwrap();
        registry.register(link(1, "A", false));
        assert_eq!(registry.peer(&peer("r2", PeerState::Removed), now, ids()), [1]);
        assert_eq!(registry.targets().count(), 0);

        registry.peer(&peer("r3", PeerState::Healthy), now, ids());
        registry.peer(&peer("r3", PeerState::Unhealthy), now, ids());
        registry.sweep(now + FORGET - Duration::from_secs(1));
        assert_eq!(registry.peers().count(), 1);
        registry.sweep(now + FORGET);
        assert_eq!(
            (registry.peers().count(), registry.targets().count(), registry.next_due()),
            (0, 0, None)
        );
    }

    #[test]
    fn more_dials_than_may_wait_come_later() {
        let (mut registry, now) = (registry(), Instant::now());
        for id in ["r2", "r3", "r4", "r5"] {
            registry.peer(&peer(id, PeerState::Healthy), now, ids());
        }
        registry.bound_queue(3, now, || 0.0);
        let mut begun = 0;
        while registry.begin_dial(now).is_some() {
            begun += 1;
        }
        assert_eq!(begun, 3);
        let later = registry.next_due().unwrap();
        assert!(later > now);
        assert!(registry.begin_dial(later).is_some());
    }

    #[test]
    fn another_address_closes_the_link_to_the_old_one() {
        let (mut registry, now) = (registry(), Instant::now());
        registry.peer(&peer("r2", PeerState::Healthy), now, ids());
        let dial = registry.begin_dial(now).unwrap();
        registry.register(link(7, &dial.link, true));
        let mut moved = peer("r2", PeerState::Healthy);
        moved.listeners[0].address = "tls:elsewhere:6004".into();
        assert_eq!(registry.peer(&moved, now, ids()), [7]);
        registry.closed(&dial.key, 7, now);
        assert_eq!(registry.begin_dial(now).unwrap().address, "tls:elsewhere:6004");
        // No listener at all: there is nothing to dial.
        moved.listeners.clear();
        assert!(registry.peer(&moved, now, ids()).is_empty());
        assert_eq!(registry.targets().count(), 0);
    }
}
