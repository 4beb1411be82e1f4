//! The use of each role attribute: the entities that bear it and the policies that name it
//! (docs/protocol/management-api.md 6). Policies of kinds that the caller may not read are left out, with the
//! attributes that only they name. Sort and paging come from the filter text only, not from other query
//! parameters.

use std::collections::{BTreeMap, BTreeSet};

use futures::FutureExt as _;
use roaring::RoaringBitmap;
use weft_contract::Api;
use weft_contract::resource::role_attribute::{RoleAttributeUsage, RoleAttributeUsers};
use weft_kernel::call::{HandlerRow, OperationHandler, ReplyFuture};
use weft_kernel::{Call, Caller, Failure, Reply, Result, gate, list};
use weft_model::entity::{
    EdgeRouterPolicy, Identity, OfKind as _, PostureCheck, Record, Router, Service,
    ServiceEdgeRouterPolicy, ServicePolicy,
};
use weft_model::filter::{PageRules, Selection};
use weft_model::{Ended, Kind, Meter, Part, Snapshot};

use super::attributes::SYMBOLS;
use crate::Controller;

/// A kind of entity that bears attributes, and the sides of policies that select it. It handles the list of its attributes.
#[derive(Clone, Copy)]
struct Bearer {
    key: &'static str,
    kind: Kind,
    sides: &'static [Side],
}

/// One side of a kind of policy.
struct Side {
    key: &'static str,
    kind: Kind,
    /// The number of the side.
    side: usize,
    /// Collects the attributes that policies name on this side.
    named: fn(&Snapshot, usize, &mut BTreeSet<String>, &Meter) -> Result<(), Ended>,
    /// The policies that name an attribute on this side.
    naming: fn(&Snapshot, usize, &str) -> std::sync::Arc<RoaringBitmap>,
}

impl Side {
    const fn new<P: Record>(key: &'static str, side: usize) -> Self {
        let naming = |snapshot: &Snapshot, side: usize, attribute: &str| {
            snapshot.naming_attribute::<P>(side, attribute)
        };
        Self { key, kind: P::KIND, side, named: named::<P>, naming }
    }
}

fn named<P: Record>(
    snapshot: &Snapshot,
    side: usize,
    found: &mut BTreeSet<String>,
    meter: &Meter,
) -> Result<(), Ended> {
    for policy in snapshot.list::<P>() {
        let Some((roles, _)) = policy.side(side) else { continue };
        meter.take(Part::Rows, 1 + roles.attributes.len() as u64)?;
        for attribute in &roles.attributes {
            if !found.contains(&**attribute) {
                found.insert(attribute.to_string());
            }
        }
    }
    Ok(())
}

const EDGE_ROUTERS: Bearer = Bearer {
    key: "edgeRouters",
    kind: Router::KIND,
    sides: &[
        Side::new::<EdgeRouterPolicy>("edgeRouterPolicies", EdgeRouterPolicy::EDGE_ROUTERS),
        Side::new::<ServiceEdgeRouterPolicy>(
            "serviceEdgeRouterPolicies",
            ServiceEdgeRouterPolicy::EDGE_ROUTERS,
        ),
    ],
};
const IDENTITIES: Bearer = Bearer {
    key: "identities",
    kind: Identity::KIND,
    sides: &[
        Side::new::<ServicePolicy>("servicePolicies", ServicePolicy::IDENTITIES),
        Side::new::<EdgeRouterPolicy>("edgeRouterPolicies", EdgeRouterPolicy::IDENTITIES),
    ],
};
const SERVICES: Bearer = Bearer {
    key: "services",
    kind: Service::KIND,
    sides: &[
        Side::new::<ServicePolicy>("servicePolicies", ServicePolicy::SERVICES),
        Side::new::<ServiceEdgeRouterPolicy>(
            "serviceEdgeRouterPolicies",
            ServiceEdgeRouterPolicy::SERVICES,
        ),
    ],
};
const POSTURE_CHECKS: Bearer = Bearer {
    key: "postureChecks",
    kind: PostureCheck::KIND,
    sides: &[Side::new::<ServicePolicy>("servicePolicies", ServicePolicy::POSTURE_CHECKS)],
};

/// The operations.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[
    (Api::Management, "listEdgeRouterRoleAttributeUsage", &EDGE_ROUTERS),
    (Api::Management, "listIdentityRoleAttributeUsage", &IDENTITIES),
    (Api::Management, "listServiceRoleAttributeUsage", &SERVICES),
    (Api::Management, "listPostureCheckRoleAttributeUsage", &POSTURE_CHECKS),
];

impl OperationHandler<Controller> for Bearer {
    fn run(&self, controller: Controller, caller: Caller, call: Call) -> ReplyFuture {
        answer(controller, caller, call, *self).boxed()
    }
}

async fn answer(
    controller: Controller,
    caller: Caller,
    call: Call,
    bearer: Bearer,
) -> Result<Reply> {
    let snapshot = controller.kernel().snapshot();
    let policies: usize = bearer.sides.iter().map(|side| snapshot.table(side.kind).len()).sum();
    let bearers = snapshot.table(bearer.kind).count_attributes();
    let selection = list::selection(&caller, &call.query, &SYMBOLS, &PageRules::ATTRIBUTES)?;
    let with_ids = match call.query.get("withIds") {
        None | Some("" | "false") => false,
        Some("true") => true,
        Some(other) => return Err(Failure::field("withIds", "must be true or false", other)),
    };
    let effort = match with_ids {
        true => u64::MAX,
        false => selection.effort_of(policies + bearers),
    };
    let request = controller.kernel().scans().asked_by(&caller);
    let page = move |meter: &Meter| page(&snapshot, &caller, &bearer, with_ids, &selection, meter);
    request.counted(effort, page).await
}

fn page(
    snapshot: &Snapshot,
    caller: &Caller,
    bearer: &Bearer,
    with_ids: bool,
    selection: &Selection,
    meter: &Meter,
) -> Result<Reply> {
    let table = snapshot.table(bearer.kind);
    let mut names: BTreeSet<String> =
        table.attributes().map(|(attribute, _)| attribute.to_string()).collect();
    let sides = bearer.sides.iter().filter(|it| gate::reads(caller, it.kind.collection()));
    let sides: Vec<&Side> = sides.collect();
    for side in &sides {
        (side.named)(snapshot, side.side, &mut names, meter)?;
    }
    let names: Vec<String> = names.into_iter().collect();
    let users = |kind, ordinals: &RoaringBitmap| -> Result<_> {
        meter.take(Part::Rows, if with_ids { 4 * ordinals.len() } else { 1 })?;
        Ok(users(snapshot, kind, ordinals, with_ids))
    };
    let none = RoaringBitmap::new();
    let rows = names.iter().map(|name| SYMBOLS.row(&(), name));
    list::answer(selection, &SYMBOLS, rows, meter, |name| {
        let own = table.bearers(name).map_or(&none, |own| &**own);
        let mut usage = BTreeMap::from([(bearer.key.to_owned(), users(bearer.kind, own)?)]);
        for side in &sides {
            let naming = (side.naming)(snapshot, side.side, name);
            usage.insert(side.key.to_owned(), users(side.kind, &naming)?);
        }
        Ok(RoleAttributeUsage { role_attribute: name.clone(), usage })
    })
}

fn users(
    snapshot: &Snapshot,
    kind: Kind,
    ordinals: &RoaringBitmap,
    with_ids: bool,
) -> RoleAttributeUsers {
    let ids = with_ids.then(|| {
        let table = snapshot.table(kind);
        let entities = ordinals.iter().filter_map(|ordinal| table.at(ordinal));
        let mut ids: Vec<String> = entities.map(|entity| entity.id().to_string()).collect();
        ids.sort_unstable();
        ids
    });
    RoleAttributeUsers { count: i64::try_from(ordinals.len()).unwrap_or(i64::MAX), ids }
}
