//! What routers hear of each other and of this controller (docs/protocol/control-plane.md 8, 17).
//!
//! Kept is only *who* changed, for whom; what is said is looked up when it is sent, so that a
//! router never hears something that is over.

use std::collections::BTreeSet;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use weft_channel::Lane;
use weft_model::Id;
use weft_network::routers::LiveRouter;
use weft_wire::ProtoBody as _;
use weft_wire::ctrl::{
    CtrlDetail, CtrlEndpoint, SETTING_NEW_CTRL_ADDRESS, Settings, UpdateCtrlAddresses,
};

use crate::plane::Plane;

/// How often news that could not be sent is sent again.
pub(crate) const RETRY: Duration = Duration::from_secs(30);
/// How long news wait for more: routers come in crowds, and each would be told to all others by
/// itself.
pub(crate) const GATHERING: Duration = Duration::from_millis(20);

/// News about routers.
#[derive(Debug, Default)]
pub struct Peers {
    news: Mutex<News>,
    pub(crate) wake: Notify,
}

#[derive(Debug, Default)]
struct News {
    /// For everybody.
    all: BTreeSet<Id>,
    /// For one router.
    of: HashMap<Id, BTreeSet<Id>>,
}

/// What is to be told now.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Telling {
    /// Who changed, for everybody.
    pub(crate) all: BTreeSet<Id>,
    /// Who hears just that.
    pub(crate) alike: Vec<Id>,
    /// Who hears something else.
    pub(crate) own: HashMap<Id, BTreeSet<Id>>,
}

impl Peers {
    /// Something about a router changed: it came, went, was deleted, or takes links elsewhere.
    pub fn changed(&self, router: &Id) {
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
        let id = plane.auth.settings().id.clone();
        let update = UpdateCtrlAddresses {
            // Old routers would drop a connection that they dialed under another spelling.
            addresses: Vec::new(),
            index: plane.auth.started().0.unsigned_abs().max(1),
            is_leader: true,
            controllers: vec![CtrlDetail { id, endpoints }],
        };
        plane.network.tell(router.id.as_str(), Lane::Default, update.to_message());
    }

    /// A router is gone, unless it is back by now: what it did not hear yet it hears when it is
    /// introduced again.
    pub fn forget(&self, router: &Id, is_back: impl FnOnce() -> bool) {
        let mut news = self.news.lock();
        if !is_back() {
            news.of.remove(router);
        }
    }

    /// Who is to hear of whom. Who is connected is looked up after the news for everybody were
    /// taken: a router that comes later finds them in the network when it is introduced. Without
    /// news for everybody only those are looked at for whom there are some.
    pub(crate) fn take(&self, connected: impl FnOnce() -> Vec<Id>) -> Telling {
        let mut news = self.news.lock();
        let all = std::mem::take(&mut news.all);
        let listed = connected();
        if all.is_empty() {
            let own =
                listed.into_iter().filter_map(|router| news.of.remove_entry(&router)).collect();
            return Telling { all, alike: Vec::new(), own };
        }
        let (mut alike, mut own) = (Vec::new(), HashMap::new());
        for router in listed {
            let known = news.of.remove(&router);
            if known.is_none() && !all.contains(&router) {
                alike.push(router);
                continue;
            }
            let mut changed = known.unwrap_or_default();
            changed.extend(all.iter().cloned());
            changed.remove(&router);
            if !changed.is_empty() {
                own.insert(router, changed);
            }
        }
        Telling { all, alike, own }
    }

    pub(crate) fn put_back(&self, router: &Id, changed: BTreeSet<Id>) {
        self.news.lock().of.entry(router.clone()).or_default().extend(changed);
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
        let (r1, r2, r3) = (Id::new("r1"), Id::new("r2"), Id::new("r3"));
        let own = |of: &[(&Id, &[&str])]| {
            let own = of.iter().map(|(router, ids)| ((*router).clone(), set(ids))).collect();
            Telling { own, ..Telling::default() }
        };
        peers.put_back(&r2, set(&["r1"]));
        peers.changed(&r2);
        let told = peers.take(|| vec![r1.clone()]);
        let all = Telling { all: set(&["r2"]), alike: vec![r1.clone()], ..Telling::default() };
        assert_eq!(told, all);
        let told = peers.take(|| vec![r1.clone(), r2.clone()]);
        assert_eq!(told, own(&[(&r2, &["r1"])]));
        assert_eq!(peers.take(|| vec![r1.clone(), r2.clone()]), Telling::default());

        // Nobody hears of itself; one with news of its own hears both at once.
        peers.put_back(&r3, set(&["r1"]));
        peers.changed(&r2);
        let told = peers.take(|| vec![r1.clone(), r2.clone(), r3.clone()]);
        let expected =
            Telling { alike: vec![r1.clone()], all: set(&["r2"]), ..own(&[(&r3, &["r1", "r2"])]) };
        assert_eq!(told, expected);

        peers.put_back(&r2, set(&["r1"]));
        peers.forget(&r2, || true);
        assert_eq!(peers.take(|| vec![r2.clone()]).own.len(), 1);
        peers.put_back(&r2, set(&["r1"]));
        peers.forget(&r2, || false);
        assert_eq!(peers.take(|| vec![r1, r2]), Telling::default());
    }
}
