//! Descriptions of the links, for controllers and inspections.

use std::collections::HashMap;

use super::{Links, registry::Target};
use crate::seam::LinkReport;

impl Links {
    /// The links that this router dialed, for reports to controllers.
    pub(crate) fn reports(&self) -> Vec<LinkReport> {
        let dialed: Vec<_> =
            self.live.lock().values().filter(|live| live.dialed).cloned().collect();
        let registry = self.registry.lock();
        // A link whose place another link took is left out: it will be closed.
        let stand = dialed.iter().filter(|live| registry.is_live(&live.key, live.number));
        stand.map(|live| live.report()).collect()
    }

    /// All links, whichever side dialed them.
    pub(crate) fn all_reports(&self) -> Vec<LinkReport> {
        let all: Vec<_> = self.live.lock().values().cloned().collect();
        all.iter().map(|live| live.report()).collect()
    }

    /// The routers at both ends of each link: the one that dialed, and the one that was dialed.
    pub(crate) fn ends(&self) -> HashMap<String, (String, String)> {
        let own = || self.options.router_id.clone();
        let all = self.live.lock();
        let ends = all.values().map(|live| {
            let peer = live.link.peer.to_string();
            let ends = if live.dialed { (own(), peer) } else { (peer, own()) };
            (live.link.id.to_string(), ends)
        });
        ends.collect()
    }

    /// The state of all links, for inspection (docs/protocol/data-plane.md 12).
    pub(crate) fn inspect(&self) -> serde_json::Value {
        let live: Vec<_> = self.live.lock().values().cloned().collect();
        let links = live.iter().map(|live| {
            let connections = live.connections();
            let mut underlays: HashMap<&str, u32> = HashMap::new();
            connections.iter().for_each(|one| *underlays.entry(&one.kind).or_default() += 1);
            let listed = connections.iter().map(|one| {
                serde_json::json!({"Type": one.kind, "Source": one.local, "Dest": one.remote})
            });
            serde_json::json!({
                "id": &*live.link.id, "iteration": live.iteration, "key": live.key,
                "split": underlays.contains_key("ack"), "protocol": live.protocol,
                "dialAddress": live.address, "dest": &*live.link.peer, "dialed": live.dialed,
                "underlays": underlays, "connections": listed.collect::<Vec<_>>(),
                "connStateIteration": live.report().state,
                "circuits": self.forwarder.circuits_over(&live.link.id),
                "foreignMessages": live.foreign.seen(),
            })
        });
        let links: Vec<_> = links.collect();
        let registry = self.registry.lock();
        let states_of = |peer: &str| {
            let of_peer = registry.targets().filter(|(_, target)| target.peer == peer);
            let state = |(key, target): (&String, &Target)| {
                let place = &target.place().listener;
                serde_json::json!({
                    "id": target.link, "key": key, "status": target.status.word(),
                    "dialAttempts": target.iteration, "connectedCount": target.connected,
                    "retryDelay": format!("{:?}", target.delay), "targetAddress": place.address,
                    "targetGroups": place.groups, "targetBinding": place.local_binding,
                })
            };
            of_peer.map(state).collect::<Vec<_>>()
        };
        let destinations = registry.peers().map(|(id, version, healthy)| {
            serde_json::json!({"id": id, "version": version, "healthy": healthy, "linkStates": states_of(id)})
        });
        let destinations: Vec<_> = destinations.collect();
        serde_json::json!({"links": links, "destinations": destinations, "refused": self.refused.seen(), "errors": null})
    }
}
