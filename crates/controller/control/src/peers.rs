//! Collects news for routers about each other and about this controller
//! (docs/protocol/control-plane.md 8, 17).
//!
//! Only the ids of changed routers are kept. Their states are looked up when the news are sent, so
//! that no router gets outdated news.

use std::collections::BTreeSet;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use weft_channel::Lane;
use weft_model::Id;
use weft_model::entity::ControllerMember;
use weft_network::routers::LiveRouter;
use weft_wire::ProtoBody as _;
use weft_wire::ctrl::{
    CtrlDetail, CtrlEndpoint, SETTING_NEW_CTRL_ADDRESS, Settings, UpdateCtrlAddresses,
};

use crate::plane::Plane;

/// The interval at which news that could not be sent are sent again.
pub(crate) const RETRY: Duration = Duration::from_secs(30);
/// How long news are collected: routers connect in crowds, and each one would be a message to all
/// others.
pub(crate) const GATHERING: Duration = Duration::from_millis(20);

/// News about routers that were not sent yet.
#[derive(Debug, Default)]
pub struct Peers {
    news: Mutex<News>,
    pub(crate) wake: Notify,
}

#[derive(Debug, Default)]
struct News {
    /// Routers that all routers are told about.
    all: BTreeSet<Id>,
    /// For a router, the other routers that only this one is told about.
    of: HashMap<Id, BTreeSet<Id>>,
}

/// The news to send now.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Telling {
    /// The routers with news for all.
    pub(crate) all: BTreeSet<Id>,
    /// The routers that are told about exactly those routers.
    pub(crate) alike: Vec<Id>,
    /// Every other router that is told news, with the routers that it is told about.
    pub(crate) own: HashMap<Id, BTreeSet<Id>>,
}

impl Peers {
    /// Notes that a router changed: it connected, disconnected, was deleted, or listens for links
    /// elsewhere.
    pub fn changed(&self, router: &Id) {
        self.news.lock().all.insert(router.clone());
        self.wake.notify_one();
    }

    /// Notes a router that has connected: it is told about the others and the controllers, and the
    /// others about it.
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

    /// Tells a router the addresses of all controllers, and whether this one leads them. The index of a controller that is
    /// alone is the time of its start, so that another address after a restart counts; several have an index in the
    /// model.
    pub(crate) fn tell_controllers(&self, plane: &Plane, router: &LiveRouter) {
        let own = CtrlDetail {
            id: plane.auth.kernel().settings().id.clone(),
            endpoints: endpoints(&plane.options.advertise),
        };
        if own.endpoints.is_empty() {
            return;
        }
        let snapshot = plane.auth.kernel().snapshot();
        let others = plane.auth.other_members(&snapshot).map(|member| CtrlDetail {
            id: member.base.id.to_string(),
            endpoints: endpoints(&member.ctrl_addresses),
        });
        let others = others.filter(|other| !other.endpoints.is_empty());
        let started = plane.auth.kernel().started().0.unsigned_abs().max(1);
        let update = UpdateCtrlAddresses {
            // No addresses: old routers would close a connection that they dialed under another
            // spelling.
            addresses: Vec::new(),
            // A controller that is alone may have what is left of a network that had several.
            index: match (ControllerMember::newest_list(&snapshot), plane.auth.is_member()) {
                (Some(newest), true) => newest,
                (newest, _) => {
                    newest.map_or(started, |newest| started.max(newest.saturating_add(1)))
                }
            },
            is_leader: plane.auth.is_leader(),
            controllers: std::iter::once(own).chain(others).collect(),
        };
        plane.network.tell(router.id.as_str(), Lane::Default, update.to_message());
    }

    /// Drops the news for a disconnected router, unless it has connected again: when it connects it
    /// is told everything.
    pub fn forget(&self, router: &Id, is_back: impl FnOnce() -> bool) {
        let mut news = self.news.lock();
        if !is_back() {
            news.of.remove(router);
        }
    }

    /// Takes the news to send. The connected routers are listed after the news for all were taken:
    /// a router that connects later finds those changes in the network. Without news for all, only
    /// the routers with news of their own are listed.
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

fn endpoints(addresses: &[String]) -> Vec<CtrlEndpoint> {
    let endpoint = |address: &String| CtrlEndpoint { address: address.clone(), groups: Vec::new() };
    addresses.iter().map(endpoint).collect()
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

        // No router is told about itself; one with news of its own is told both at once.
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
