//! The members of routers that every caller may see.

use std::collections::BTreeMap;
use std::sync::Arc;

use roaring::RoaringBitmap;
use weft_contract::resource::edge_router::EdgeRouterCommon;
use weft_contract::resource::service_session::SessionEdgeRouter;
use weft_kernel::convert;
use weft_kernel::online::Online;
use weft_model::entity::Router;
use weft_model::{Id, Snapshot};

/// Names of capability bits in bit order (docs/protocol/management-api.md 6).
pub(crate) const CAPABILITIES: &[(u32, &str)] = &[
    (1, "MULTI_CHANNEL"),
    (2, "CONNECT_V2"),
    (4, "SERVICE_SUBSCRIPTIONS"),
    (5, "POSTURE_CHECKS"),
    (6, "BIND_SUCCESS"),
];

/// The members of a router that every caller may see.
pub(crate) fn common(online: &Online, record: &Router) -> EdgeRouterCommon {
    let id = record.base.id.as_str();
    let facts = online.router(id);
    let bits = facts.as_ref().map_or(0, |facts| facts.capabilities);
    let capabilities = CAPABILITIES.iter().filter(|(bit, _)| bits & (1 << bit) != 0);
    EdgeRouterCommon {
        app_data: convert::json(&record.app_data),
        capabilities: capabilities.map(|(_, name)| (*name).to_owned()).collect(),
        cost: record.cost,
        disabled: record.disabled,
        hostname: facts.as_ref().map(|it| it.hostname.clone()).unwrap_or_default(),
        is_online: facts.is_some(),
        name: record.name.to_string(),
        no_traversal: record.no_traversal,
        supported_protocols: facts.as_ref().map_or_else(BTreeMap::new, |it| it.protocols.clone()),
        sync_status: online.sync_status(id),
        version: facts.as_ref().map(|it| it.version.version.clone()).unwrap_or_default(),
    }
}

/// A router as clients see it in their service sessions.
pub(crate) fn in_session(online: &Online, record: &Router) -> SessionEdgeRouter {
    let id = record.base.id.as_str();
    let keys = online.router(id).map(|facts| facts.keys.clone());
    SessionEdgeRouter::new(id, keys.unwrap_or_default(), common(online, record))
}

/// The routers that policies give an identity for a service: connected routers first, each group
/// ordered by id. Routers that are not connected are listed too, because they may connect while the
/// session lasts.
pub(crate) fn routers_between(
    snapshot: &Snapshot,
    online: &Online,
    identity: &str,
    service: &Id,
) -> Vec<Arc<Router>> {
    in_order(snapshot, online, &snapshot.routers_between(&Id::new(identity), service))
}

/// The routers with these ordinals, in the order in which clients get them. A router that drains is left out
/// if another one is connected, because it refuses what clients ask of it.
pub(crate) fn in_order(
    snapshot: &Snapshot,
    online: &Online,
    ordinals: &RoaringBitmap,
) -> Vec<Arc<Router>> {
    let mut found: Vec<_> = snapshot.entities::<Router>(ordinals).cloned().collect();
    let connected = online.among(found.iter().map(|it| &it.base.id));
    let draining = online.draining(connected.iter());
    if draining.len() < connected.len() {
        found.retain(|it| !draining.contains(&it.base.id));
    }
    found.sort_by_cached_key(|it| (!connected.contains(&it.base.id), it.base.id.clone()));
    found
}
