//! Inspections of this router by controllers (docs/protocol/control-plane.md 18).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use weft_channel::Lane;
use weft_channel::clock::time_of_day;
use weft_wire::ctrl::inspect_response::InspectValue;
use weft_wire::ctrl::{InspectRequest, InspectResponse, Route};
use weft_wire::{Message, ProtoBody};

use super::shared::Core;
use super::terminators::table::{Phase, Seen};
use crate::controllers::Controller;
use crate::seam::ControllerId;

/// Most values in one request.
pub(super) const MAX_VALUES: usize = 64;
/// Begins the name of the value of one circuit; the id follows.
const OF_CIRCUIT: &str = "circuit:";

/// Answers a request for inner values; unknown names are left out.
pub(crate) fn on_request(core: &Arc<Core>, from: &Arc<Controller>, message: Message) {
    let (core, from) = (core.clone(), from.clone());
    core.clone().spawn_side(async move {
        let request = match InspectRequest::from_message(&message) {
            Ok(request) => request,
            Err(problem) => return from.not_understood(&message, &problem),
        };
        let asked = request.requested_values.into_iter().take(MAX_VALUES);
        let values = asked.filter_map(|name| {
            let value = value(&core, &name)?.to_string();
            Some(InspectValue { name, value })
        });
        let response =
            InspectResponse { success: true, errors: Vec::new(), values: values.collect() };
        let reply = response.to_message().in_reply_to(&message);
        if let Err(problem) = from.channel.send_on(Lane::Low, reply).await {
            tracing::debug!(controller = %from.id, %problem, "inspection not answered");
        }
    });
}

/// The value that is asked for. Upper and lower case count only in ids.
pub(super) fn value(core: &Core, asked: &str) -> Option<Value> {
    let name = asked.to_ascii_lowercase();
    Some(match name.as_str() {
        "links" => core.data.get()?.inspect_links(),
        "router-circuits" => circuits(core),
        "router-edge-circuits" => json!({"circuits": core.data.get()?.inspect_sdk_circuits()}),
        "router-sdk-circuits" => json!({"circuits": {}}),
        "sdk-terminators" => terminators(core, false),
        "ert-terminators" => terminators(core, true),
        "router-data-model-index" => {
            let (timeline, index) = core.access.position();
            json!({"timeline": timeline, "index": index})
        }
        "router-controllers" => controllers(core),
        "router-drops" => drops(core)?,
        _ if name.starts_with("metrics") => {
            let report = core.data.get()?.measured();
            weft_metrics::to_json(&core.options.router_id, time_of_day(), &report)
        }
        _ if name.starts_with(OF_CIRCUIT) => return circuit(core, asked.get(OF_CIRCUIT.len()..)?),
        _ => return None,
    })
}

fn drops(core: &Core) -> Option<Value> {
    let dropped = core.data.get()?.dropped();
    Some(json!({
        "full": dropped.full,
        "repeated": dropped.repeated,
        "malformed": dropped.malformed,
        "noWay": dropped.no_way,
        "foreign": dropped.foreign,
        "stuck": dropped.stuck,
    }))
}

fn circuits(core: &Core) -> Value {
    let all = core.data.get().map(|data| data.routes()).unwrap_or_default();
    let entries: Map<String, Value> = all
        .iter()
        .map(|(owner, route)| (route.circuit_id.clone(), described(owner, route)))
        .collect();
    json!({"circuits": entries})
}

fn circuit(core: &Core, id: &str) -> Option<Value> {
    let data = core.data.get()?;
    let route = data.route_of(id)?;
    let next: HashSet<&str> = route.forwards.iter().map(|one| &*one.dst_address).collect();
    Some(json!({
        "circuitId": route.circuit_id,
        "forwards": forwards(&route),
        "xgressDetails": data.inspect_ends(&route.circuit_id),
        "relatedEntities": {"link": data.inspect_links_of(&next)},
    }))
}

fn described(owner: &ControllerId, route: &Route) -> Value {
    json!({
        "id": route.circuit_id,
        "ctrlId": &**owner,
        "routes": forwards(route),
        "destinations": {},
    })
}

fn forwards(route: &Route) -> Map<String, Value> {
    let forwards = route.forwards.iter();
    forwards.map(|one| (one.src_address.clone(), Value::from(one.dst_address.clone()))).collect()
}

fn terminators(core: &Core, tunnel: bool) -> Value {
    let mut seen = core.terminators.seen();
    seen.retain(|one| one.tunnel == tunnel);
    seen.sort_by(|a, b| a.id.cmp(&b.id));
    let entries: Vec<Value> = seen.iter().map(entry).collect();
    json!({"entries": entries, "errors": []})
}

fn entry(one: &Seen) -> Value {
    let state = match one.phase {
        Phase::Establishing | Phase::Unconfirmed => "establishing",
        Phase::Established => "established",
    };
    json!({
        "key": one.id,
        "id": one.id,
        "state": state,
        "instance": one.instance,
        "cost": one.cost,
        "precedence": one.precedence.name(),
        "operationActive": one.phase == Phase::Establishing,
        "createTime": text(Some(one.created)),
        "lastAttempt": text(one.last_attempt),
    })
}

fn text(time: Option<SystemTime>) -> String {
    let time = time.map(OffsetDateTime::from).and_then(|time| time.format(&Rfc3339).ok());
    time.unwrap_or_default()
}

fn controllers(core: &Core) -> Value {
    let leader = core.controllers.leader();
    let all = core.controllers.all();
    let entries: Map<String, Value> = all
        .iter()
        .map(|one| {
            let liveness = one.channel.liveness();
            let value = json!({
                "controllerId": &*one.id,
                "connected": true,
                "responsive": core.controllers.is_responsive(one),
                "address": one.address,
                "latency": liveness.rtt.map(|rtt| format!("{rtt:?}")).unwrap_or_default(),
                "version": one.version.as_ref().map(ToString::to_string).unwrap_or_default(),
                "timeSinceLastContact": format!("{:?}", liveness.since_response),
                "isLeader": leader.as_ref() == Some(&one.id),
            });
            (one.id.to_string(), value)
        })
        .collect();
    json!({"leaderId": leader.as_deref().unwrap_or_default(), "controllers": entries})
}
