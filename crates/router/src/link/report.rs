//! Descriptions of the links, for controllers and inspections.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::machine::Target;
use super::{Links, LiveLink};
use crate::seam::LinkReport;

impl Links {
    /// The links that this router dialed, for reports to controllers. Duplicates are left out: they will
    /// be closed.
    pub(crate) fn reports(&self) -> Vec<LinkReport> {
        let current: Vec<_> = self.core.lock().machine.current_links().cloned().collect();
        let dialed = current.iter().filter(|live| live.is_dialed());
        dialed.map(|live| live.report()).collect()
    }

    /// All links, whichever side dialed them.
    pub(crate) fn all_reports(&self) -> Vec<LinkReport> {
        self.all().iter().map(|live| live.report()).collect()
    }

    /// The routers at both ends of each link: the one that dialed, and the one that was dialed.
    pub(crate) fn ends(&self) -> HashMap<String, (String, String)> {
        let own = || self.options.router_id.clone();
        let all = self.all();
        let ends = all.iter().map(|live| {
            let peer = live.link.peer.to_string();
            let ends = if live.is_dialed() { (own(), peer) } else { (peer, own()) };
            (live.link.id.to_string(), ends)
        });
        ends.collect()
    }

    /// The state of all links, for inspection (docs/protocol/data-plane.md 12).
    pub(crate) fn inspect(&self) -> Value {
        let links: Vec<_> = self.all().iter().map(|live| self.described(live)).collect();
        let core = self.core.lock();
        let destinations = core.machine.peers().map(|(id, version, healthy)| {
            let states: Vec<_> = core.machine.targets_of(id).map(described_target).collect();
            json!({"id": id, "version": version, "healthy": healthy, "linkStates": states})
        });
        let destinations: Vec<_> = destinations.collect();
        drop(core);
        json!({"links": links, "destinations": destinations, "refused": self.refused.seen(), "errors": null})
    }

    /// The state of the links with these ids, by id.
    pub(crate) fn inspect_some(&self, ids: &HashSet<&str>) -> Map<String, Value> {
        let is_asked = |live: &&Arc<LiveLink>| ids.contains(&*live.link.id);
        let all = self.all();
        let asked = all.iter().filter(is_asked);
        asked.map(|live| (live.link.id.to_string(), self.described(live))).collect()
    }

    fn described(&self, live: &LiveLink) -> Value {
        let connections = live.connections();
        let mut underlays: HashMap<&str, u32> = HashMap::new();
        connections.iter().for_each(|one| *underlays.entry(&one.kind).or_default() += 1);
        let listed = connections
            .iter()
            .map(|one| json!({"Type": one.kind, "Source": one.local, "Dest": one.remote}));
        json!({
            "id": &*live.link.id, "iteration": live.link.iteration, "key": live.facts.key,
            "split": underlays.contains_key("ack"), "protocol": live.protocol,
            "dialAddress": live.address(), "dest": &*live.link.peer, "dialed": live.is_dialed(),
            "underlays": underlays, "connections": listed.collect::<Vec<_>>(),
            "connStateIteration": live.report().state,
            "circuits": self.forwarder.circuits_over(&live.link.id),
            "foreignMessages": live.foreign.seen(),
        })
    }
}

/// The state of a link that is wanted.
fn described_target((key, target): (&String, &Target)) -> Value {
    let listener = target.listener();
    json!({
        "id": target.link, "key": key, "status": target.status(),
        "dialAttempts": target.iteration, "connectedCount": target.connected,
        "retryDelay": format!("{:?}", target.delay), "targetAddress": listener.address,
        "targetGroups": listener.groups, "targetBinding": listener.local_binding,
    })
}
