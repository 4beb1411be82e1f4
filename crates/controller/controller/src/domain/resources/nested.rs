//! Lists below an entity: other entities that belong to it by reference or by policy.

use roaring::RoaringBitmap;
use weft_contract::Api;
use weft_contract::entity::DialBind;
use weft_contract::resource::identity::policy_type;
use weft_kernel::call::HandlerRow;
use weft_kernel::{Call, Caller, Failure, QueryParameters, Reply, Result};
use weft_model::entity::{
    Config, EdgeRouterPolicy, OfKind as _, PolicyType, Record, ServiceEdgeRouterPolicy,
    ServicePolicy,
};
use weft_model::{Ended, Kind};

use super::authenticator::Authenticators;
use super::config::Configs;
use super::config_type::ConfigTypes;
use super::edge_router::EdgeRouters;
use super::enrollment::Enrollments;
use super::fabric;
use super::identity::Identities;
use super::policies::{EdgeRouterPolicies, ServiceEdgeRouterPolicies, ServicePolicies};
use super::posture_check::PostureChecks;
use super::service::Services;
use super::terminator::Terminators;
use crate::Controller;
use crate::domain::collection::nested;
use crate::domain::resource::Readable;

/// The nested lists.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[
    (Api::Management, "getIdentityAuthenticators", &referring::<Identities, Authenticators>),
    (Api::Management, "getIdentityEnrollments", &referring::<Identities, Enrollments>),
    (
        Api::Management,
        "listIdentitysEdgeRouterPolicies",
        &selecting::<Identities, EdgeRouterPolicies>,
    ),
    (Api::Management, "listIdentityServicePolicies", &selecting::<Identities, ServicePolicies>),
    (
        Api::Management,
        "listIdentityEdgeRouters",
        &reached::<Identities, EdgeRouterPolicy, EdgeRouters>,
    ),
    (Api::Management, "listIdentityServices", &granted::<Identities, Services>),
    (Api::Management, "listConfigServices", &referring::<Configs, Services>),
    (Api::Management, "listConfigsForConfigType", &referring::<ConfigTypes, Configs>),
    (
        Api::Management,
        "listEdgeRouterEdgeRouterPolicies",
        &selecting::<EdgeRouters, EdgeRouterPolicies>,
    ),
    (
        Api::Management,
        "listEdgeRouterServiceEdgeRouterPolicies",
        &selecting::<EdgeRouters, ServiceEdgeRouterPolicies>,
    ),
    (Api::Management, "listEdgeRouterServicePolicies", &policies_over_router),
    (
        Api::Management,
        "listEdgeRouterIdentities",
        &reached::<EdgeRouters, EdgeRouterPolicy, Identities>,
    ),
    (
        Api::Management,
        "listEdgeRouterServices",
        &reached::<EdgeRouters, ServiceEdgeRouterPolicy, Services>,
    ),
    (
        Api::Management,
        "listEdgeRouterPolicyEdgeRouters",
        &selected::<EdgeRouterPolicies, EdgeRouters>,
    ),
    (
        Api::Management,
        "listEdgeRouterPolicyIdentities",
        &selected::<EdgeRouterPolicies, Identities>,
    ),
    (
        Api::Management,
        "listServiceEdgeRouterPolicyEdgeRouters",
        &selected::<ServiceEdgeRouterPolicies, EdgeRouters>,
    ),
    (
        Api::Management,
        "listServiceEdgeRouterPolicyServices",
        &selected::<ServiceEdgeRouterPolicies, Services>,
    ),
    (Api::Management, "listServicePolicyIdentities", &selected::<ServicePolicies, Identities>),
    (
        Api::Management,
        "listServicePolicyPostureChecks",
        &selected::<ServicePolicies, PostureChecks>,
    ),
    (Api::Management, "listServicePolicyServices", &selected::<ServicePolicies, Services>),
    (Api::Management, "listServiceConfig", &configs_of_service),
    (
        Api::Management,
        "listServiceEdgeRouters",
        &reached::<Services, ServiceEdgeRouterPolicy, EdgeRouters>,
    ),
    (Api::Management, "listServiceIdentities", &granted::<Services, Identities>),
    (
        Api::Management,
        "listServiceServiceEdgeRouterPolicies",
        &selecting::<Services, ServiceEdgeRouterPolicies>,
    ),
    (Api::Management, "listServiceServicePolicies", &selecting::<Services, ServicePolicies>),
    (Api::Management, "listServiceTerminators", &referring::<Services, Terminators>),
    (
        Api::Fabric,
        "listRouterTerminators",
        &referring::<fabric::router::Routers, fabric::terminator::Terminators>,
    ),
    (
        Api::Fabric,
        "listServiceTerminators",
        &referring::<fabric::service::Services, fabric::terminator::Terminators>,
    ),
];

/// The number of the reference by which entities of kind `T` name entities of kind `To`: the first
/// of them. For a policy, it is also the number of the side that selects these.
const fn link<T: Record, To: Record>() -> usize {
    let mut number = 0;
    while T::LINKS[number].to.code() != To::KIND.code() {
        number += 1;
    }
    number
}

/// Lists the entities of kind `C` that refer to the parent.
async fn referring<P: Readable, C: Readable>(
    controller: Controller,
    caller: Caller,
    call: Call,
) -> Result<Reply> {
    nested::<P, C>(controller, caller, call, |context, parent, _, _| {
        let link = const { link::<C::Record, P::Record>() };
        Ok(context.snapshot().table(C::Record::KIND).referrers(link, parent.id()))
    })
    .await
}

/// Lists the policies of kind `C` that select the parent.
async fn selecting<P: Readable, C: Readable>(
    controller: Controller,
    caller: Caller,
    call: Call,
) -> Result<Reply> {
    nested::<P, C>(controller, caller, call, |context, parent, _, meter| {
        let side = const { link::<C::Record, P::Record>() };
        Ok(context.snapshot().counted_holding::<C::Record>(side, parent.id(), meter)?)
    })
    .await
}

/// Lists the entities of kind `C` that the parent, a policy, selects.
async fn selected<P: Readable, C: Readable>(
    controller: Controller,
    caller: Caller,
    call: Call,
) -> Result<Reply> {
    nested::<P, C>(controller, caller, call, |context, parent, _, meter| {
        let (kind, snapshot) = (P::Record::KIND, context.snapshot());
        let Some(ordinal) = snapshot.ordinal_of::<P::Record>(parent.id()) else {
            return Ok(RoaringBitmap::new());
        };
        let side = const { link::<P::Record, C::Record>() };
        Ok((*snapshot.counted_members(kind, ordinal, side, meter)?).clone())
    })
    .await
}

/// Lists the entities of kind `C` that policies of kind `By` select together with the parent.
async fn reached<P: Readable, By: Record, C: Readable>(
    controller: Controller,
    caller: Caller,
    call: Call,
) -> Result<Reply> {
    nested::<P, C>(controller, caller, call, |context, parent, _, meter| {
        let (from, to) = const { (link::<By, P::Record>(), link::<By, C::Record>()) };
        Ok(context.snapshot().counted_reach::<By>(from, parent.id(), to, meter)?)
    })
    .await
}

/// Lists the identities that may use the parent, a service, or the services that the parent, an identity, may use: by service
/// policies of the type that the query asks for.
async fn granted<P: Readable, C: Readable>(
    controller: Controller,
    caller: Caller,
    call: Call,
) -> Result<Reply> {
    nested::<P, C>(controller, caller, call, |context, parent, query, meter| {
        let from = const { link::<ServicePolicy, P::Record>() };
        let to = const { link::<ServicePolicy, C::Record>() };
        let from = (from, parent.id());
        by_type(query, |of| context.snapshot().counted_grants(from, to, of, meter))
    })
    .await
}

/// Lists the configs that a service carries.
async fn configs_of_service(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    nested::<Services, Configs>(controller, caller, call, |context, parent, _, _| {
        let configs = parent.configs.iter();
        Ok(configs.filter_map(|id| context.snapshot().ordinal_of::<Config>(id)).collect())
    })
    .await
}

/// The service policies of the type in `policyType`, Dial or Bind; of both types if it is absent.
fn by_type(
    query: &QueryParameters,
    of: impl Fn(PolicyType) -> Result<RoaringBitmap, Ended>,
) -> Result<RoaringBitmap> {
    match query.get("policyType") {
        None | Some("") => Ok(of(PolicyType::Dial)? | of(PolicyType::Bind)?),
        Some(text) => match policy_type(text) {
            Some(DialBind::Dial) => Ok(of(PolicyType::Dial)?),
            Some(DialBind::Bind) => Ok(of(PolicyType::Bind)?),
            _ => Err(Failure::field("policyType", "must be dial or bind", text)),
        },
    }
}

/// Lists the service policies that let an identity of the parent, a router, use a service over it.
async fn policies_over_router(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    nested::<EdgeRouters, ServicePolicies>(controller, caller, call, |context, router, _, meter| {
        let (snapshot, router) = (context.snapshot(), router.id());
        let (from, to) = (EdgeRouterPolicy::EDGE_ROUTERS, EdgeRouterPolicy::IDENTITIES);
        let identities = snapshot.counted_reach::<EdgeRouterPolicy>(from, router, to, meter)?;
        let (from, to) = (ServiceEdgeRouterPolicy::EDGE_ROUTERS, ServiceEdgeRouterPolicy::SERVICES);
        let services =
            snapshot.counted_reach::<ServiceEdgeRouterPolicy>(from, router, to, meter)?;
        let meets = |ordinal: u32, side: usize, with: &RoaringBitmap| {
            let members = snapshot.counted_members(Kind::ServicePolicy, ordinal, side, meter)?;
            Ok::<_, Ended>(!members.is_disjoint(with))
        };
        let mut found = RoaringBitmap::new();
        for ordinal in snapshot.table(Kind::ServicePolicy).live().iter() {
            if meets(ordinal, ServicePolicy::IDENTITIES, &identities)?
                && meets(ordinal, ServicePolicy::SERVICES, &services)?
            {
                found.insert(ordinal);
            }
        }
        Ok(found)
    })
    .await
}
