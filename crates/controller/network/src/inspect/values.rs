//! Values that this controller provides for inspections (docs/protocol/operations.md 3).
//!
//! The controller cannot show call stacks (`stackdump`); in their place it lists its threads with their
//! processor time.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use weft_contract::{Timestamp as TimeWord, Word as _};
use weft_model::entity::{Router, Terminator};
use weft_model::{Id, Kind};
use weft_paths::costs::CostParts;

use super::super::routers::LiveRouter;
use crate::full::LimitedResource;
use crate::network::Network;

/// Terminators listed at most: the list takes 80 MB of memory then.
const MAX_TERMINATORS: usize = 100_000;

impl Network {
    /// The value of this name; none if it is unknown.
    pub(super) fn own_value(&self, name: &str) -> Option<Value> {
        Some(match name.to_lowercase().as_str() {
            "connected-routers" => self.connected_routers(),
            "terminator-costs" => self.terminator_costs(),
            "refused-reports" => self.refused_reports(),
            "identity-connection-statuses" => self.identity_connections(),
            "data-model-index" | "router-data-model-index" => {
                let snapshot = self.0.kernel.snapshot();
                json!({
                    "timeline": snapshot.timeline().to_string(),
                    "index": snapshot.revision().0,
                })
            }
            "config" => Some(self.0.kernel.settings().shown.clone()).filter(|it| !it.is_null())?,
            "stackdump" => Value::String(weft_agent::threads(&own_runtime())),
            "metrics" | "metrics:json" => {
                let kernel = &self.0.kernel;
                let now = TimeWord::from_millis(kernel.now().0);
                self.metric_events(&kernel.settings().id, now, &self.own_report())
            }
            "metrics:prometheus" => {
                self.metric_text(&self.0.kernel.settings().id, &self.own_report())
            }
            other => self.0.shows.lock().get(other)?(),
        })
    }

    fn connected_routers(&self) -> Value {
        let snapshot = self.0.kernel.snapshot();
        let mut routers = self.0.routers.all();
        routers.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        let shown = routers.iter().map(|live| {
            let name = snapshot.get::<Router>(&live.id).map(|router| router.name.to_string());
            json!({
                "id": live.id.as_str(),
                "name": name.unwrap_or_default(),
                "version": live.version.version,
                "connectTime": TimeWord::from_millis(live.connected_at.0),
                "underlays": underlays(live),
            })
        });
        Value::Array(shown.collect())
    }

    fn terminator_costs(&self) -> Value {
        let snapshot = self.0.kernel.snapshot();
        let all = snapshot.list::<Terminator>().map(|terminator| &terminator.base.id);
        shown_costs(all.map(|id| (id, self.0.costs.parts(id))).collect(), MAX_TERMINATORS)
    }

    /// The counts of refused reports, by router.
    fn refused_reports(&self) -> Value {
        let routers = self.0.misreports.all().into_iter().map(|(router, reports)| {
            let reports = reports.into_iter().map(|(name, times)| (name.to_owned(), times.into()));
            json!({"routerId": router.as_str(), "reports": reports.collect::<Map<_, _>>()})
        });
        json!({"routers": routers.collect::<Vec<_>>()})
    }

    fn identity_connections(&self) -> Value {
        let now = self.0.kernel.now();
        let mut connections = Map::new();
        for (identity, routers, status) in self.0.kernel.online().connections(now) {
            let routers = routers.into_iter().map(|router| {
                let shown = json!({"router_id": router.as_str(), "closed": false});
                (router.to_string(), shown)
            });
            let shown = json!({
                "connected_routers": routers.collect::<Map<_, _>>(),
                "last_reported_state": status.as_str(),
            });
            connections.insert(identity.to_string(), shown);
        }
        json!({"connections": connections})
    }

    /// Counters, by name.
    pub(crate) fn counted(&self) -> Vec<(&'static str, u64)> {
        let snapshot = self.0.kernel.snapshot();
        let entities = |kind: Kind| snapshot.table(kind).len() as u64;
        let sessions = self.0.logins.counts();
        let (names, refused) = self.0.reported.counts();
        let store = &self.0.kernel.settings().store;
        let (standing, written) = (store.standing(), store.counts());
        let alive = store.alive().map(|alive| alive.borrow().controllers.len());
        vec![
            ("weft.api_sessions", sessions.api_sessions),
            ("weft.api_sessions.to_end", sessions.to_end),
            ("weft.api_sessions.ended_together", sessions.ended_together),
            ("weft.api_sessions.to_revoke", sessions.to_revoke),
            ("weft.api_sessions.to_revoke_singly", sessions.to_revoke_singly),
            ("weft.sessions", sessions.service_sessions),
            ("weft.circuits", self.circuits().len() as u64),
            ("weft.circuits.waiting_for_a_move", self.waiting_moves() as u64),
            ("weft.circuits.waiting_for_a_path", self.without_path() as u64),
            ("weft.circuits.refused", self.0.full.count(LimitedResource::Circuits)),
            ("weft.terminators.refused", self.0.full.count(LimitedResource::Terminators)),
            ("weft.links", self.links().len() as u64),
            ("weft.routers.connected", self.0.routers.all().len() as u64),
            ("weft.routers.refused_reports", self.0.misreports.total()),
            ("weft.metrics.names", names),
            ("weft.metrics.refused", refused),
            ("weft.metrics.left_out", self.0.texts.left_out()),
            ("weft.metrics.not_measured", self.0.kernel.measures().refused()),
            ("weft.model.identities", entities(Kind::Identity)),
            ("weft.model.routers", entities(Kind::Router)),
            ("weft.model.services", entities(Kind::Service)),
            ("weft.model.terminators", entities(Kind::Terminator)),
            ("weft.model.revision", snapshot.revision().0),
            ("weft.cluster.controllers", alive.unwrap_or(1) as u64),
            ("weft.cluster.writable", u64::from(standing.obstacle.is_none())),
            ("weft.cluster.lag", standing.lag),
            ("weft.cluster.writes", written.appends),
            ("weft.cluster.write_micros", written.append_micros),
            ("weft.cluster.conflicts", written.conflicts),
            ("weft.cluster.failures", written.failures),
        ]
    }
}

/// The costs of terminators. Of more than `most`, those with the highest costs are listed, and the
/// others are counted.
fn shown_costs(mut costs: Vec<(&Id, CostParts)>, most: usize) -> Value {
    let left_out = costs.len().saturating_sub(most);
    if left_out > 0 {
        costs.sort_unstable_by_key(|(_, parts)| std::cmp::Reverse(parts.total));
        costs.truncate(most);
        costs.sort_unstable_by_key(|(id, _)| *id);
    }
    let shown = costs.into_iter().map(|(id, parts)| {
        json!({
            "terminatorId": id.as_str(),
            "circuitCount": parts.circuits,
            "failureCost": parts.failures,
            "currentCost": parts.total,
        })
    });
    let mut value = json!({"terminators": shown.collect::<Vec<_>>()});
    if left_out > 0 {
        value["leftOut"] = left_out.into();
    }
    value
}

/// The runtime that this is called on.
fn own_runtime() -> Vec<tokio::runtime::Handle> {
    tokio::runtime::Handle::try_current().into_iter().collect()
}

/// Number of connections of each type in a channel.
fn underlays(live: &LiveRouter) -> BTreeMap<String, u32> {
    let mut count = BTreeMap::new();
    for underlay in live.channel.underlays() {
        *count.entry(underlay.kind).or_default() += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_terminators_the_costly_ones_are_listed() {
        let ids = ["a", "b", "c", "d"].map(Id::new);
        let costs = |count: usize| {
            let parts = [3, 9, 0, 5].map(|total| CostParts { total, ..CostParts::default() });
            shown_costs(ids.iter().zip(parts).take(count).collect(), 3)
        };
        let ids = |value: &Value| {
            let listed = value["terminators"].as_array().unwrap().iter();
            listed.map(|it| it["terminatorId"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            (ids(&costs(3)), costs(3).get("leftOut")),
            (["a", "b", "c"].map(Into::into).into(), None)
        );
        assert_eq!(
            (ids(&costs(4)), &costs(4)["leftOut"]),
            (["a", "b", "d"].map(Into::into).into(), &json!(1))
        );
    }
}
