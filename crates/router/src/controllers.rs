//! The controllers that this router is connected to, and the choice of one to ask.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use weft_channel::{ChannelHandle, Lane, RequestError};
use weft_wire::{Capabilities, Message, Version, WireError, content_type, controller_capability};

use crate::seam::ControllerId;

/// How long a channel may take to close.
const GIVE_WAY: Duration = Duration::from_secs(2);

/// A controller with an open control channel.
#[derive(Clone)]
pub(crate) struct Controller {
    /// The id that the controller gave in its hello.
    pub(crate) id: ControllerId,
    /// The control channel.
    pub(crate) channel: ChannelHandle,
    /// The capabilities that the controller announced.
    pub(crate) capabilities: Capabilities,
    /// The controller's release; `None` if it gave none.
    pub(crate) version: Option<Version>,
    /// The address that was dialed; if the controller dialed this router, the address that it came from.
    pub(crate) address: String,
    /// When the last ping of a dial was over, and whether it was answered.
    pub(crate) last_ping: Arc<tokio::sync::Mutex<Option<(Instant, bool)>>>,
}

impl Controller {
    /// True if this router dialed the controller.
    pub(crate) fn was_dialed(&self) -> bool {
        self.channel.peer().dialed
    }

    /// True if the controller answers a ping in this time. Callers that ask at once share a ping.
    pub(crate) async fn answers(&self, within: Duration) -> bool {
        let mut last = self.last_ping.lock().await;
        if let Some((at, answered)) = *last
            && at.elapsed() < within
        {
            return answered;
        }
        let ping = Message::new(content_type::PING, "dial");
        let answered = match self.channel.request_on(Lane::High, ping, within).await {
            // With too many requests under way none more is sent.
            Ok(_) | Err(RequestError::TooMany) => true,
            Err(_) => false,
        };
        *last = Some((Instant::now(), answered));
        answered
    }

    /// True if the controller is one of weft, by a capability that no other has.
    pub(crate) fn is_of_weft(&self) -> bool {
        self.capabilities.has(controller_capability::ADOPTS_CIRCUITS)
    }

    /// True if the controller states who the router's own tunneler is as an end of connections.
    pub(crate) fn states_ends(&self) -> bool {
        self.capabilities.has(controller_capability::STATES_ENDS)
    }

    /// True if the controller takes revisions that other controllers have told.
    pub(crate) fn takes_indexes(&self) -> bool {
        self.capabilities.has(controller_capability::TAKES_INDEXES)
    }

    /// Logs that a message of the controller did not follow its encoding, and closes the channel.
    pub(crate) fn not_understood(&self, message: &Message, problem: &WireError) {
        let content_type = message.content_type;
        let closes = problem.is_malformed();
        tracing::warn!(
            controller = %self.id, content_type, %problem, closes,
            "message of a controller not understood"
        );
        if closes {
            self.channel.close(format!("malformed message: {problem}"));
        }
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Controller").field(&self.id).finish()
    }
}

/// All controllers with an open control channel.
#[derive(Debug)]
pub(crate) struct Controllers {
    connected: RwLock<BTreeMap<ControllerId, Arc<Controller>>>,
    leader: Mutex<Option<ControllerId>>,
    /// A controller whose last heartbeat was unanswered for longer is asked only if no other one is
    /// left.
    unresponsive_after: Duration,
    /// Counts of connects and disconnects.
    changes: watch::Sender<u64>,
    /// Hosts and ports of all controllers of the network, connected or not.
    addresses: watch::Sender<Vec<(String, u16)>>,
}

impl Controllers {
    /// No controllers yet.
    pub(crate) fn new(unresponsive_after: Duration) -> Self {
        Self {
            connected: RwLock::default(),
            leader: Mutex::default(),
            unresponsive_after,
            changes: watch::Sender::new(0),
            addresses: watch::Sender::default(),
        }
    }

    /// Hosts and ports of all controllers of the network, and every change of them.
    pub(crate) fn addresses(&self) -> watch::Receiver<Vec<(String, u16)>> {
        self.addresses.subscribe()
    }

    /// Sets the hosts and ports of all controllers of the network.
    pub(crate) fn set_addresses(&self, addresses: Vec<(String, u16)>) {
        self.addresses.send_if_modified(|before| {
            let other = *before != addresses;
            *before = addresses;
            other
        });
    }

    /// Adds a controller; false if a controller of this id is connected already.
    pub(crate) fn add(&self, controller: Arc<Controller>) -> bool {
        {
            let mut connected = self.connected.write();
            let open = |known: &Arc<Controller>| !known.channel.is_closed();
            if connected.get(&controller.id).is_some_and(open) {
                return false;
            }
            connected.insert(controller.id.clone(), controller);
        }
        self.changes.send_modify(|count| *count += 1);
        true
    }

    /// Closes the channel by which this controller dialed the router, and waits until the channel is
    /// gone, for 2 s at most. The channel has to go because the controller has answered a dial of this
    /// router, and a controller never replaces a channel by one that the controller dialed.
    pub(crate) async fn give_way(&self, id: &str) {
        let mut changes = self.changes();
        let Some(here) = self.get(id).filter(|one| !one.was_dialed()) else { return };
        here.channel.close("this router has dialed the controller itself");
        let is_there = || self.connected.read().contains_key(id);
        let gone = async { while is_there() && changes.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(GIVE_WAY, gone).await;
    }

    /// Removes a controller whose channel has closed; false if another channel took its place.
    pub(crate) fn remove(&self, controller: &Controller) -> bool {
        {
            let mut connected = self.connected.write();
            let known = connected.get(&controller.id);
            if !known.is_some_and(|known| known.channel.same_channel(&controller.channel)) {
                return false;
            }
            connected.remove(&controller.id);
        }
        self.changes.send_modify(|count| *count += 1);
        true
    }

    /// The controller of an id, if it is connected.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<Controller>> {
        self.connected.read().get(id).filter(|known| !known.channel.is_closed()).cloned()
    }

    /// Every connected controller.
    pub(crate) fn all(&self) -> Vec<Arc<Controller>> {
        let connected = self.connected.read();
        connected.values().filter(|known| !known.channel.is_closed()).cloned().collect()
    }

    /// The controller for requests that any controller can answer: the responsive one with the shortest
    /// round trip (docs/protocol/control-plane.md 4).
    pub(crate) fn any(&self) -> Option<Arc<Controller>> {
        self.all().into_iter().min_by_key(|one| {
            let rtt = one.channel.liveness().rtt.unwrap_or(Duration::from_millis(1));
            (!self.is_responsive(one), rtt)
        })
    }

    /// The number of connected controllers.
    pub(crate) fn count(&self) -> usize {
        self.connected.read().len()
    }

    /// As [`Self::any`], but for one controller. None if no other one is responsive.
    pub(crate) fn any_but(&self, id: &str) -> Option<Arc<Controller>> {
        let others = self.all().into_iter().filter(|one| &*one.id != id && self.is_responsive(one));
        others.min_by_key(|one| one.channel.liveness().rtt.unwrap_or(Duration::from_millis(1)))
    }

    /// The controller for requests that change the network: the leader while it is responsive, else any.
    pub(crate) fn for_changes(&self) -> Option<Arc<Controller>> {
        let leader = self.leader().and_then(|id| self.get(&id));
        leader.filter(|leader| self.is_responsive(leader)).or_else(|| self.any())
    }

    /// True if the controller answers heartbeats in time.
    pub(crate) fn is_responsive(&self, controller: &Controller) -> bool {
        let liveness = controller.channel.liveness();
        let late = |time: Option<Duration>| time.is_some_and(|time| time > self.unresponsive_after);
        !controller.channel.is_closed() && !late(liveness.rtt) && !late(liveness.outstanding)
    }

    /// The leader, if it is known.
    pub(crate) fn leader(&self) -> Option<ControllerId> {
        self.leader.lock().clone()
    }

    /// Notes that a controller said that it is the leader.
    pub(crate) fn set_leader(&self, id: ControllerId) {
        let mut leader = self.leader.lock();
        if leader.as_ref() != Some(&id) {
            tracing::info!(controller = %id, "the controller is the leader");
            *leader = Some(id);
        }
    }

    /// Changes whenever a controller connects or disconnects.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
