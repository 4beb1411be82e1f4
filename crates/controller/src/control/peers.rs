//! What routers hear of each other and of this controller (protocol: control-plane 8, 17).
//!
//! Kept is only *who* changed, for whom; what is said is looked up when it is sent, so that a
//! router never hears something that is over.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use weft_channel::{Lane, SendError};
use weft_model::Id;
use weft_model::entity::Router;
use weft_wire::ProtoBody as _;
use weft_wire::ctrl::{
    CtrlDetail, CtrlEndpoint, PeerState, PeerStateChange, PeerStateChanges,
    SETTING_NEW_CTRL_ADDRESS, Settings, UpdateCtrlAddresses,
};

use super::Plane;
use crate::network::routers::LiveRouter;

/// How often news that could not be sent is sent again.
const RETRY: Duration = Duration::from_secs(30);

/// News about routers.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    news: Mutex<News>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct News {
    /// For everybody.
    all: BTreeSet<Id>,
    /// For one router.
    of: HashMap<Id, BTreeSet<Id>>,
}

impl Peers {
    /// Something about a router changed: it came, went, was deleted, or takes links elsewhere.
    pub(crate) fn changed(&self, router: &Id) {
        self.news.lock().all.insert(router.clone());
        self.wake.notify_one();
    }

    /// A router is new here: it hears of the others and of the controllers, the others of it.
    pub(crate) fn introduce(&self, plane: &Plane, router: &LiveRouter) {
        let others = plane.network.routers().all();
        let others = others.iter().map(|other| other.id.clone());
        self.news.lock().of.insert(router.id.clone(), others.collect());
        self.changed(&router.id);
        self.tell_controllers(plane, router);
        if let Some(address) = &plane.options.new_listener {
            let address = address.clone().into_bytes().into();
            let settings = Settings { data: [(SETTING_NEW_CTRL_ADDRESS, address)].into() };
            plane.network.tell(router.id.as_str(), Lane::Default, settings.to_message());
        }
    }

    /// Tells a router where this controller is, which is alone and leads. The index is when the
    /// controller started, so that another address after a restart counts.
    pub(crate) fn tell_controllers(&self, plane: &Plane, router: &LiveRouter) {
        let addresses = plane.options.advertise.iter();
        let endpoints: Vec<CtrlEndpoint> = addresses
            .map(|address| CtrlEndpoint { address: address.clone(), groups: Vec::new() })
            .collect();
        if endpoints.is_empty() {
            return;
        }
        let id = plane.controller.settings().id.clone();
        let update = UpdateCtrlAddresses {
            // Old routers would drop a connection that they dialed under another spelling.
            addresses: Vec::new(),
            index: plane.controller.started().0.unsigned_abs().max(1),
            is_leader: true,
            controllers: vec![CtrlDetail { id, endpoints }],
        };
        plane.network.tell(router.id.as_str(), Lane::Default, update.to_message());
    }

    /// A router is gone, unless it is back by now: what it did not hear yet it hears when it is
    /// introduced again.
    pub(crate) fn forget(&self, router: &Id, is_back: impl FnOnce() -> bool) {
        let mut news = self.news.lock();
        if !is_back() {
            news.of.remove(router);
        }
    }

    /// Who is to hear of whom. Who is connected is looked up after the news for everybody were
    /// taken: a router that comes later finds them in the network when it is introduced.
    fn take(&self, connected: impl FnOnce() -> Vec<Id>) -> HashMap<Id, BTreeSet<Id>> {
        let mut news = self.news.lock();
        let all = std::mem::take(&mut news.all);
        connected()
            .into_iter()
            .filter_map(|router| {
                let mut changed = news.of.remove(&router).unwrap_or_default();
                changed.extend(all.iter().cloned());
                changed.remove(&router);
                (!changed.is_empty()).then_some((router, changed))
            })
            .collect()
    }

    fn put_back(&self, router: &Id, changed: BTreeSet<Id>) {
        self.news.lock().of.entry(router.clone()).or_default().extend(changed);
    }
}

impl Plane {
    /// Sends the news, on every change and now and then.
    pub(crate) async fn tell_peers(self: Arc<Self>) {
        loop {
            let _ = tokio::time::timeout(RETRY, self.peers.wake.notified()).await;
            let routers = self.network.routers();
            let connected = || routers.all().iter().map(|router| router.id.clone()).collect();
            for (router, changed) in self.peers.take(connected) {
                let changes = changed.iter().map(|id| self.state_of(id)).collect();
                let message = PeerStateChanges { changes }.to_message();
                let Some(live) = routers.get(router.as_str()) else { continue };
                match live.channel.try_send(message) {
                    // Whose channel is closed is introduced again when it comes back.
                    Ok(()) | Err(SendError::Closed(_)) => {}
                    Err(problem) => {
                        tracing::debug!(%router, %problem, "news about routers not sent yet");
                        self.peers.put_back(&router, changed);
                    }
                }
            }
        }
    }

    /// How a router is at this moment.
    fn state_of(&self, id: &Id) -> PeerStateChange {
        let change = |state: PeerState| PeerStateChange {
            id: id.to_string(),
            state: state.into(),
            ..PeerStateChange::default()
        };
        match self.network.routers().get(id.as_str()) {
            Some(live) => PeerStateChange {
                version: live.version.version.clone(),
                listeners: live.listeners(),
                ..change(PeerState::Healthy)
            },
            None if self.controller.snapshot().get::<Router>(id).is_some() => {
                change(PeerState::Unhealthy)
            }
            None => change(PeerState::Removed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ids: &[&str]) -> BTreeSet<Id> {
        ids.iter().map(|id| Id::new(id)).collect()
    }

    #[test]
    fn news_for_a_router_that_is_not_listed_yet_wait() {
        let peers = Peers::default();
        let (r1, r2) = (Id::new("r1"), Id::new("r2"));
        peers.put_back(&r2, set(&["r1"]));
        peers.changed(&r2);
        let told = peers.take(|| vec![r1.clone()]);
        assert_eq!(told, [(r1.clone(), set(&["r2"]))].into());
        let told = peers.take(|| vec![r1.clone(), r2.clone()]);
        assert_eq!(told, [(r2.clone(), set(&["r1"]))].into());
        assert!(peers.take(|| vec![r1.clone(), r2.clone()]).is_empty());

        peers.put_back(&r2, set(&["r1"]));
        peers.forget(&r2, || true);
        assert_eq!(peers.take(|| vec![r2.clone()]).len(), 1);
        peers.put_back(&r2, set(&["r1"]));
        peers.forget(&r2, || false);
        assert!(peers.take(|| vec![r1, r2]).is_empty());
    }
}
