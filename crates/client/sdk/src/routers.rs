//! The routers of an endpoint, and their states.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weft_channel::PeerInfo;
use weft_contract::resource::edge_router::EdgeRouterCommon;
use weft_identity::ExpectedRouter;
use weft_wire::Address;

use crate::channel::RouterChannel;

/// The longest wait for the data of closed connections to be sent.
pub(crate) const DRAIN_LIMIT: Duration = Duration::from_secs(30);
/// Most routers of one endpoint.
const MAX_ROUTERS: usize = 1024;

/// The routers of an endpoint, by name.
#[derive(Debug, Default)]
pub(crate) struct Routers {
    slots: Mutex<HashMap<String, Arc<Slot>>>,
    /// Counts connects, disconnects, and routers that were forgotten.
    changes: watch::Sender<u64>,
}

/// Where a router is, and who proves to be it there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RouterLocation {
    pub(crate) address: Address,
    /// The router, if the controller tells its id; otherwise any server of the network may answer for its host.
    pub(crate) expected: Option<ExpectedRouter>,
}

/// One router.
#[derive(Debug)]
pub(crate) struct Slot {
    name: String,
    location: watch::Sender<RouterLocation>,
    state: watch::Sender<State>,
    /// The round trip of the last probe, in microseconds.
    rtt: AtomicU64,
    cancel: CancellationToken,
    changes: watch::Sender<u64>,
    /// The dials and listeners that wait for the router.
    waiting: watch::Sender<usize>,
}

/// A dial or a listener that waits for a router, which is dialed soon as long as the value exists.
#[derive(Debug)]
pub(crate) struct Waiting(Arc<Slot>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.send_modify(|count| *count = count.saturating_sub(1));
    }
}

#[derive(Debug, Clone, Default)]
struct State {
    channel: Option<Arc<RouterChannel>>,
    /// The reason, while there is no channel.
    problem: Option<Arc<str>>,
    /// True once the router's task has ended.
    left: bool,
}

impl Routers {
    /// The entry of the router of this name, at this place from now on, and whether it is new;
    /// `None` if there are too many, or the endpoint is closed.
    pub(crate) fn slot(
        &self,
        name: &str,
        location: RouterLocation,
        endpoint: &CancellationToken,
    ) -> Option<(Arc<Slot>, bool)> {
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.get(name) {
            slot.location.send_replace(location);
            return Some((Arc::clone(slot), false));
        }
        if slots.len() >= MAX_ROUTERS || endpoint.is_cancelled() {
            return None;
        }
        let slot = Arc::new(Slot::new(name, location, endpoint, self.changes.clone()));
        slots.insert(name.to_owned(), Arc::clone(&slot));
        Some((slot, true))
    }

    /// The entry of the router of this name, if there is one.
    pub(crate) fn known(&self, name: &str) -> Option<Arc<Slot>> {
        self.slots.lock().get(name).cloned()
    }

    /// Changes whenever a router connects, disconnects or is forgotten.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// True if another router than this one is connected.
    pub(crate) fn has_other(&self, than: &Slot) -> bool {
        let slots = self.slots.lock();
        slots.values().any(|slot| !std::ptr::eq(&**slot, than) && slot.channel().is_some())
    }

    /// Waits until no other router than this one is connected.
    pub(crate) async fn no_other(&self, than: &Slot) {
        let mut changes = self.changes();
        while self.has_other(than) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// The names of connected routers.
    pub(crate) fn connected(&self) -> Vec<String> {
        let slots = self.slots.lock();
        let connected = slots.values().filter(|slot| slot.channel().is_some());
        let mut names: Vec<String> = connected.map(|slot| slot.name.clone()).collect();
        names.sort();
        names
    }

    /// The reasons why the other routers are not connected.
    pub(crate) fn problems(&self) -> String {
        let slots = self.slots.lock();
        let lost = slots.values().filter(|slot| slot.channel().is_none());
        let problems: Vec<String> = lost.map(|slot| slot.problem()).collect();
        problems.join("; ")
    }

    /// The names of the routers that are not connected.
    pub(crate) fn lost(&self) -> HashSet<String> {
        let slots = self.slots.lock();
        let lost = slots.values().filter(|slot| slot.channel().is_none());
        lost.map(|slot| slot.name.clone()).collect()
    }

    /// Removes routers that are neither in the list nor connected.
    pub(crate) fn forget_unlisted(&self, listed: &[EdgeRouterCommon]) {
        self.slots.lock().retain(|name, slot| {
            let keep = slot.channel().is_some() || listed.iter().any(|router| router.name == *name);
            if !keep {
                slot.cancel.cancel();
                slot.tell();
            }
            keep
        });
    }

    /// Waits until all connections to routers are closed.
    pub(crate) async fn left(&self, limit: Duration) {
        let slots: Vec<_> = self.slots.lock().values().cloned().collect();
        let all = future::join_all(slots.iter().map(|slot| async move {
            let _ = slot.state.subscribe().wait_for(|state| state.left).await;
        }));
        let _ = tokio::time::timeout(limit, all).await;
    }
}

impl Slot {
    fn new(
        name: &str,
        location: RouterLocation,
        endpoint: &CancellationToken,
        changes: watch::Sender<u64>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            location: watch::Sender::new(location),
            state: watch::Sender::default(),
            rtt: AtomicU64::new(u64::MAX),
            cancel: endpoint.child_token(),
            changes,
            waiting: watch::Sender::default(),
        }
    }

    /// Begins to wait for the router.
    pub(crate) fn wanted(self: &Arc<Self>) -> Waiting {
        self.waiting.send_modify(|count| *count = count.saturating_add(1));
        Waiting(Arc::clone(self))
    }

    /// Waits until a dial or a listener waits for the router.
    pub(crate) async fn until_wanted(&self) {
        // The sender is in this slot.
        let _ = self.waiting.subscribe().wait_for(|count| *count > 0).await;
    }

    /// The name of the router.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The channel, if it is up.
    pub(crate) fn channel(&self) -> Option<Arc<RouterChannel>> {
        let channel = self.state.borrow().channel.clone();
        channel.filter(|channel| !channel.handle().is_closed())
    }

    /// Waits for the channel; `None` once the router's task has ended.
    pub(crate) async fn connected(&self) -> Option<Arc<RouterChannel>> {
        let is_up = |state: &State| {
            state.left || state.channel.as_ref().is_some_and(|up| !up.handle().is_closed())
        };
        let mut state = self.state.subscribe();
        let state = state.wait_for(is_up).await.ok()?;
        state.channel.clone().filter(|_| !state.left)
    }

    /// The place of the router.
    pub(crate) fn location(&self) -> RouterLocation {
        self.location.borrow().clone()
    }

    /// Waits until the router has another place than this one.
    pub(crate) async fn moved_from(&self, location: &RouterLocation) {
        // The sender is in this slot.
        let _ = self.location.subscribe().wait_for(|now| now != location).await;
    }

    /// Waits until the controller says of the router what this peer, connected as the router, does not prove: that it
    /// has other keys or another id. Returns what is wrong.
    pub(crate) async fn contradicted(&self, peer: &PeerInfo) -> String {
        let mut locations = self.location.subscribe();
        loop {
            let location = locations.borrow_and_update().clone();
            let proved = location.expected.map(|router| router.prove(&peer.certificates));
            if let Some(Err(problem)) = proved {
                return format!("the router has changed: {problem}");
            }
            // The sender is in this slot.
            let _ = locations.changed().await;
        }
    }

    /// The round trip of the last probe, in microseconds.
    pub(crate) fn rtt(&self) -> u64 {
        self.rtt.load(Ordering::Relaxed)
    }

    /// Notes the round trip of a probe.
    pub(crate) fn set_rtt(&self, rtt: Duration) {
        let rtt = u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX);
        self.rtt.store(rtt, Ordering::Relaxed);
    }

    /// Notes that the channel is open.
    pub(crate) fn up(&self, channel: &Arc<RouterChannel>) {
        self.state.send_modify(|state| {
            state.channel = Some(Arc::clone(channel));
            state.problem = None;
        });
        self.tell();
    }

    /// Notes that the channel is closed.
    pub(crate) fn down(&self, reason: String) {
        self.state.send_modify(|state| {
            state.channel = None;
            state.problem = Some(reason.into());
        });
        self.tell();
    }

    fn tell(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Notes that no channel could be opened.
    pub(crate) fn not_connected(&self, problem: String) {
        self.state.send_modify(|state| state.problem = Some(problem.into()));
    }

    /// Notes that the router's task has ended.
    pub(crate) fn left(&self) {
        self.state.send_modify(|state| state.left = true);
    }

    /// Waits until the router is not needed any more.
    pub(crate) async fn dropped(&self) {
        self.cancel.cancelled().await;
    }

    /// True if the router is not needed any more.
    pub(crate) fn is_dropped(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Why the router is not connected.
    pub(crate) fn problem(&self) -> String {
        let problem = self.state.borrow().problem.clone();
        let problem = problem.as_deref().unwrap_or("still connecting").to_owned();
        format!("{}: {problem}", self.name)
    }
}

/// The first of these routers that connects; `None` once the tasks of all have ended. The task of a
/// router ends when the controller does not list it any more, which says nothing about the others.
pub(crate) async fn first_connected(slots: &[Arc<Slot>]) -> Option<Arc<RouterChannel>> {
    let connected =
        slots.iter().map(|slot| Box::pin(async move { slot.connected().await.ok_or(()) }));
    future::select_ok(connected).await.ok().map(|(channel, _)| channel)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use futures::FutureExt as _;
    use weft_identity::{
        Authority, AuthoritySpec, KeyAlgorithm, KeyPurpose, Leaf, PrivateKey, SubjectName,
    };

    use super::*;

    fn location(port: u16) -> RouterLocation {
        let address = format!("tls:router.example:{port}").parse().unwrap();
        RouterLocation { address, expected: Some(ExpectedRouter::new("r1", [])) }
    }

    fn slot(name: &str) -> Arc<Slot> {
        Arc::new(Slot::new(
            name,
            location(3022),
            &CancellationToken::new(),
            watch::Sender::default(),
        ))
    }

    #[tokio::test]
    async fn a_router_that_is_left_does_not_end_the_wait_for_others() {
        let slots = [slot("er1"), slot("er2")];
        let mut first = Box::pin(first_connected(&slots));
        assert!(first.as_mut().now_or_never().is_none(), "both are being connected to");
        slots[0].left();
        assert!(first.as_mut().now_or_never().is_none(), "one still is");
        slots[1].left();
        assert!(matches!(first.now_or_never(), Some(None)), "there is none to wait for");
    }

    #[tokio::test]
    async fn whoever_uses_a_router_is_told_that_it_was_forgotten_or_has_moved() {
        let (routers, endpoint) = (Routers::default(), CancellationToken::new());
        let (slot, _) = routers.slot("er1", location(3022), &endpoint).unwrap();
        let here = slot.location();
        let mut moved = Box::pin(slot.moved_from(&here));
        routers.slot("er1", location(3022), &endpoint).unwrap();
        assert!(moved.as_mut().now_or_never().is_none());
        routers.slot("er1", location(3023), &endpoint).unwrap();
        assert!(moved.now_or_never().is_some());

        let mut changes = routers.changes();
        assert!(changes.changed().now_or_never().is_none() && routers.known("er1").is_some());
        routers.forget_unlisted(&[]);
        assert!(changes.changed().now_or_never().is_some() && slot.is_dropped());
        assert!(routers.known("er1").is_none());
    }

    #[tokio::test]
    async fn whoever_uses_a_router_is_told_that_it_has_other_keys() {
        let now = SystemTime::now();
        let authority = Authority::make_root(&AuthoritySpec::new("root"), now).unwrap();
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let subject = SubjectName::common_name("r1");
        let leaf =
            Leaf::for_key(key.public(), &subject, Vec::new(), KeyPurpose::Server, now).unwrap();
        let address = "127.0.0.1:3022".parse().unwrap();
        let peer = PeerInfo {
            certificates: vec![authority.issue(&leaf).unwrap().der().clone()],
            remote: address,
            local: address,
            id: Some("r1".into()),
            headers: weft_wire::Headers::new(),
            dialed: true,
        };
        let (routers, endpoint) = (Routers::default(), CancellationToken::new());
        let (slot, _) = routers.slot("er1", location(3022), &endpoint).unwrap();
        let mut other = Box::pin(slot.contradicted(&peer));
        let is_at = |keys: Vec<String>| {
            let expected = Some(ExpectedRouter::new("r1", keys));
            routers.slot("er1", RouterLocation { expected, ..location(3022) }, &endpoint).unwrap();
        };
        let print = key.public().print();
        for keys in [vec![], vec![print.clone()], vec!["0".repeat(64), print]] {
            is_at(keys);
            assert!(other.as_mut().now_or_never().is_none());
        }
        is_at(vec!["0".repeat(64)]);
        let problem = other.now_or_never().unwrap();
        assert!(problem.contains("does not know the key"), "{problem}");
    }

    #[tokio::test]
    async fn a_router_is_wanted_as_long_as_something_waits_for_it() {
        let slot = slot("er1");
        assert!(slot.until_wanted().now_or_never().is_none());
        let (one, other) = (slot.wanted(), slot.wanted());
        drop(one);
        assert!(slot.until_wanted().now_or_never().is_some());
        drop(other);
        assert!(slot.until_wanted().now_or_never().is_none());
    }
}
