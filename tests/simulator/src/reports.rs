//! What routers tell controllers: their links and circuits, and what they answer when they are asked about their inside.

use serde_json::{Map, Value, json};
use weft_wire::ctrl::inspect_response::InspectValue;
use weft_wire::ctrl::route::Forward;
use weft_wire::ctrl::{
    CarriedCircuits, DestType, InspectRequest, InspectResponse, Route, RouterLink, RouterLinks,
};

use crate::mesh::{Held, Kind, Link, World};

/// Most circuits in one part of a report.
const PART: usize = 2;

/// A link as it is reported.
pub(crate) fn router_link(id: &str, link: &Link) -> RouterLink {
    RouterLink {
        id: id.to_owned(),
        dest_router_id: link.peer.clone(),
        link_protocol: "tls".into(),
        dial_address: "tls:127.0.0.1:6000".into(),
        iteration: link.iteration,
        conn_state: None,
    }
}

/// The circuits that a router of weft reports to a controller, in parts.
pub(crate) fn carried_circuits(world: &World, id: &str, to: usize) -> Vec<CarriedCircuits> {
    let Some(node) = world.routers.get(id).filter(|node| node.kind == Kind::Weft) else {
        return Vec::new();
    };
    let held = node.circuits.values().filter(|held| held.owner == to);
    let held = held.filter(|held| !held.is_leaving && !held.ways.is_empty());
    let routes: Vec<Route> = held.map(carried).collect();
    let part = |routes: &[Route]| CarriedCircuits { routes: routes.to_vec(), ..Default::default() };
    let mut parts: Vec<CarriedCircuits> = routes.chunks(PART).map(part).collect();
    match parts.last_mut() {
        Some(last) => last.last = true,
        None => parts.push(CarriedCircuits { last: true, ..Default::default() }),
    }
    parts
}

/// The links that a router has dialed.
pub(crate) fn all_links(world: &World, id: &str) -> RouterLinks {
    let own = world.links.iter().filter(|(_, link)| link.is_up && link.dialer == id);
    let links = own.map(|(id, link)| router_link(id, link)).collect();
    RouterLinks { links, full_refresh: true }
}

fn carried(held: &Held) -> Route {
    let forwards = held.ways.iter().map(|(from, (to, kind))| Forward {
        src_address: from.clone(),
        dst_address: to.clone(),
        dst_type: (*kind).into(),
    });
    Route {
        forwards: forwards.collect(),
        attempt: held.attempt.unwrap_or_default(),
        term: held.term,
        ..held.route.clone()
    }
}

/// The answer to a question about a router's inside, in the form of the original.
pub(crate) fn inspect(world: &World, id: &str, asked: InspectRequest) -> InspectResponse {
    let values = asked.requested_values.into_iter().filter_map(|name| {
        let value = inspected(world, id, &name)?.to_string();
        Some(InspectValue { name, value })
    });
    InspectResponse { success: true, errors: Vec::new(), values: values.collect() }
}

fn inspected(world: &World, id: &str, name: &str) -> Option<Value> {
    let node = world.routers.get(id)?;
    if let Some(circuit) = name.strip_prefix("circuit:") {
        let held = node.circuits.get(circuit)?;
        let starts = held.ways.values().filter(|(_, kind)| *kind == DestType::Start);
        let starts: Vec<&String> = starts.map(|(to, _)| to).collect();
        let ends: Map<String, Value> = held
            .ends
            .keys()
            .map(|address| {
                let originator = if starts.contains(&address) { "Initiator" } else { "Terminator" };
                let end = json!({"circuitId": circuit, "address": address, "originator": originator,
                    "tags": held.route.tags});
                (address.clone(), end)
            })
            .collect();
        return Some(json!({ "xgressDetails": ends }));
    }
    match name {
        "links" => {
            let at = world.links_of(id);
            let up = at.iter().filter(|link| world.links.get(*link).is_some_and(|it| it.is_up));
            Some(json!({ "links": up.map(|id| json!({ "id": id })).collect::<Vec<_>>() }))
        }
        "router-circuits" => {
            let circuits: Map<String, Value> = node
                .circuits
                .iter()
                .map(|(id, held)| (id.clone(), listed(world, id, held)))
                .collect();
            Some(json!({ "circuits": circuits }))
        }
        "router-edge-circuits" => Some(json!({ "circuits": {} })),
        _ => None,
    }
}

fn listed(world: &World, id: &str, held: &Held) -> Value {
    let routes: Map<String, Value> =
        held.ways.iter().map(|(from, (to, _))| (from.clone(), json!(to))).collect();
    let kind = |to: &str, kind: DestType| match kind {
        DestType::Link if world.links.get(to).is_some_and(|link| link.is_up) => "link",
        DestType::Start | DestType::End if held.ends.get(to).copied() == Some(true) => "xgress",
        _ => "missing",
    };
    let destinations: Map<String, Value> =
        held.ways.values().map(|(to, of)| (to.clone(), json!(kind(to, *of)))).collect();
    json!({"id": id, "ctrlId": crate::controller::id(held.owner), "routes": routes, "destinations": destinations})
}
