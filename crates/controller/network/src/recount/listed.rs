//! The circuits of a router in the form of its inspections, made into routes. Pure.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use weft_wire::StringMap;
use weft_wire::ctrl::route::Forward;
use weft_wire::ctrl::{DestType, Route};

/// The inspection that lists all circuits of a router.
pub(super) const CIRCUITS: &str = "router-circuits";
/// The inspection that lists the ends of circuits in SDKs with flow control of their own.
pub(super) const EDGE_CIRCUITS: &str = "router-edge-circuits";
/// The kind of an address that is an end in the router itself.
const IN_ROUTER: &str = "xgress";
/// The kind of an address that is an end in an SDK.
const IN_SDK: &str = "xg-edge-fwd";
/// The kind of an address that the router does not know any more. A router keeps the entries that lead to a closed end
/// until it is told to take the circuit down.
const MISSING: &str = "missing";
/// The role of the end of a dialer.
const INITIATOR: &str = "Initiator";

/// The inspection of one circuit.
pub(super) fn inspection(circuit: &str) -> String {
    format!("circuit:{circuit}")
}

/// The answer to [`CIRCUITS`].
#[derive(Debug, Default, Deserialize)]
pub(super) struct Listed {
    #[serde(default)]
    circuits: BTreeMap<String, ListedCircuit>,
}

/// A circuit: its ways from one address to another, and the kinds of the addresses.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListedCircuit {
    pub(super) id: String,
    #[serde(default)]
    ctrl_id: String,
    #[serde(default)]
    routes: BTreeMap<String, String>,
    #[serde(default)]
    destinations: HashMap<String, String>,
}

/// The answer to [`EDGE_CIRCUITS`].
#[derive(Debug, Default, Deserialize)]
pub(super) struct ListedEnds {
    #[serde(default)]
    circuits: HashMap<String, ListedEnd>,
}

/// An end of a circuit.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListedEnd {
    #[serde(default)]
    circuit_id: String,
    #[serde(default)]
    address: String,
    #[serde(default)]
    originator: String,
    #[serde(default)]
    tags: Option<StringMap>,
}

/// The answer to the inspection of one circuit.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CircuitDetail {
    #[serde(default)]
    xgress_details: Option<HashMap<String, ListedEnd>>,
}

/// Which of the two ends of its circuit each address is, and the tags of circuits.
#[derive(Debug, Default)]
pub(super) struct EndRoles {
    ends: HashMap<String, DestType>,
    tags: HashMap<String, StringMap>,
}

impl EndRoles {
    fn insert(&mut self, end: ListedEnd) {
        let is_start = end.originator.eq_ignore_ascii_case(INITIATOR);
        let kind = if is_start { DestType::Start } else { DestType::End };
        self.ends.insert(end.address, kind);
        if let Some(tags) = end.tags.filter(|tags| !tags.is_empty()) {
            self.tags.insert(end.circuit_id, tags);
        }
    }

    pub(super) fn extend(&mut self, described: CircuitDetail) {
        described.xgress_details.into_iter().flatten().for_each(|(_, end)| self.insert(end));
    }
}

impl From<ListedEnds> for EndRoles {
    fn from(ends: ListedEnds) -> Self {
        let mut roles = Self::default();
        ends.circuits.into_values().for_each(|end| roles.insert(end));
        roles
    }
}

impl Listed {
    /// The circuits that are wanted, by the controller that has made them, which is empty if none is named, and the id.
    pub(super) fn wanted(self, is_wanted: &dyn Fn(&str, &str) -> bool) -> Vec<ListedCircuit> {
        let is_wanted = |circuit: &ListedCircuit| is_wanted(&circuit.ctrl_id, &circuit.id);
        self.circuits.into_values().filter(is_wanted).collect()
    }
}

impl ListedCircuit {
    fn kind(&self, address: &str) -> &str {
        self.destinations.get(address).map_or("", String::as_str)
    }

    /// Whether the circuit begins or ends in the router itself.
    pub(super) fn has_end_in_router(&self) -> bool {
        self.routes.values().any(|to| self.kind(to) == IN_ROUTER)
    }

    /// Whether an address of the circuit leads to nothing: a link that broke, or an end that has closed.
    fn lacks(&self, address: &str) -> bool {
        self.kind(address) == MISSING
    }

    /// Whether a way leads to an address, and the address to something. A list without ways is no proof of the contrary.
    pub(super) fn leads_to(&self, address: &str) -> bool {
        let has_way = self.routes.is_empty() || self.routes.values().any(|to| to == address);
        has_way && !self.lacks(address)
    }

    /// The route, without ways that lead to nothing.
    pub(super) fn route(self, roles: &EndRoles) -> Route {
        let kind = |to: &str| match self.kind(to) {
            IN_ROUTER | IN_SDK => roles.ends.get(to).copied().unwrap_or(DestType::End),
            _ => DestType::Link,
        };
        let ways = self.routes.iter().filter(|(_, to)| !self.lacks(to));
        let forwards = ways.map(|(from, to)| Forward {
            src_address: from.clone(),
            dst_address: to.clone(),
            dst_type: kind(to).into(),
        });
        let forwards = forwards.collect();
        let tags = roles.tags.get(&self.id).cloned().unwrap_or_default();
        Route { circuit_id: self.id, forwards, tags, ..Route::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(route: &Route) -> Vec<(&str, &str, DestType)> {
        let ways = route.forwards.iter();
        ways.map(|it| (&*it.src_address, &*it.dst_address, it.dst_type())).collect()
    }

    #[test]
    fn lists_of_another_make_become_routes() {
        // As a router of OpenZiti 2.0.3 answers, shortened.
        let listed = r#"{"circuits":{
            "c1":{"id":"c1","timeSinceActivity":"1.2s","ctrlId":"ctrl1","routes":{"A":"l1","l1":"A"},
                  "destinations":{"A":"xg-edge-fwd","l1":"link"}},
            "c2":{"id":"c2","timeSinceActivity":"0s","ctrlId":"ctrl1","routes":{"B":"l2","l2":"B"},
                  "destinations":{"B":"xgress","l2":"missing"}},
            "c3":{"id":"c3","timeSinceActivity":"0s","ctrlId":"other","routes":{},"destinations":{}},
            "c4":{"id":"c4","timeSinceActivity":"0s","ctrlId":"ctrl1","routes":{"l1":"l2","l2":"l1"},
                  "destinations":{"l1":"link","l2":"link"}}}}"#;
        let listed: Listed = serde_json::from_str(listed).unwrap();
        let circuits = listed.wanted(&|maker, _| maker == "ctrl1");
        let in_router = circuits.iter().map(ListedCircuit::has_end_in_router);
        assert_eq!(in_router.collect::<Vec<_>>(), [false, true, false]);
        let leads_to = |at: usize, address: &str| circuits[at].leads_to(address);
        assert!(leads_to(0, "A") && leads_to(1, "B") && !leads_to(1, "l2") && !leads_to(2, "C"));
        let ends = r#"{"circuits":{"c1/A":{"channelConnId":"x","circuitId":"c1","originator":"Terminator",
            "address":"A","ctrlId":"ctrl1","tags":{"serviceId":"s1"}}}}"#;
        let mut roles = EndRoles::from(serde_json::from_str::<ListedEnds>(ends).unwrap());
        let described = r#"{"circuitId":"c2","forwards":{},"xgressDetails":{"B":{"address":"B",
            "originator":"Initiator","sendBufferDetail":null}},"relatedEntities":{}}"#;
        roles.extend(serde_json::from_str(described).unwrap());
        let routes: Vec<Route> = circuits.into_iter().map(|it| it.route(&roles)).collect();
        assert_eq!(ways(&routes[0]), [("A", "l1", DestType::Link), ("l1", "A", DestType::End)]);
        assert_eq!(routes[0].tags.get("serviceId").map(String::as_str), Some("s1"));
        assert_eq!(ways(&routes[1]), [("l2", "B", DestType::Start)], "its link has broken");
        assert_eq!(ways(&routes[2]), [("l1", "l2", DestType::Link), ("l2", "l1", DestType::Link)]);
    }

    #[test]
    fn what_a_list_leaves_out_is_empty() {
        for text in ["{}", r#"{"circuits":{}}"#] {
            assert!(serde_json::from_str::<Listed>(text).unwrap().circuits.is_empty());
            assert!(serde_json::from_str::<ListedEnds>(text).unwrap().circuits.is_empty());
        }
        let none = serde_json::from_str::<CircuitDetail>(r#"{"xgressDetails":null}"#).unwrap();
        assert!(none.xgress_details.is_none());
    }
}
