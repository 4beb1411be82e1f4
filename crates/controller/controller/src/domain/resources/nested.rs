//! Lists below an entity: other entities that belong to it by reference or by policy.

use futures::FutureExt as _;
use roaring::RoaringBitmap;
use weft_contract::Api;
use weft_contract::entity::DialBind;
use weft_contract::resource::identity::policy_type;
use weft_kernel::call::{OperationHandler, ReplyFuture};
use weft_kernel::{Call, Caller, Failure, QueryParameters};
use weft_model::entity::{
    Config, EdgeRouterPolicy, OfKind as _, PolicyType, Record, Router, ServiceEdgeRouterPolicy,
    ServicePolicy,
};
use weft_model::{Ended, Kind, Meter};

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
use crate::domain::collection;
use crate::domain::context::Context;
use crate::domain::resource::Readable;

/// API, operation and handler.
type Row = (Api, &'static str, OperationHandler<Controller>);

/// The nested lists.
pub(crate) const HANDLERS: &[Row] = &[
    referring::<Identities, Authenticators>(Api::Management, "getIdentityAuthenticators"),
    referring::<Identities, Enrollments>(Api::Management, "getIdentityEnrollments"),
    selecting::<Identities, EdgeRouterPolicies>("listIdentitysEdgeRouterPolicies"),
    selecting::<Identities, ServicePolicies>("listIdentityServicePolicies"),
    reached::<Identities, EdgeRouterPolicy, EdgeRouters>("listIdentityEdgeRouters"),
    granted::<Identities, Services>("listIdentityServices"),
    referring::<Configs, Services>(Api::Management, "listConfigServices"),
    referring::<ConfigTypes, Configs>(Api::Management, "listConfigsForConfigType"),
    selecting::<EdgeRouters, EdgeRouterPolicies>("listEdgeRouterEdgeRouterPolicies"),
    selecting::<EdgeRouters, ServiceEdgeRouterPolicies>("listEdgeRouterServiceEdgeRouterPolicies"),
    (Api::Management, "listEdgeRouterServicePolicies", |controller, caller, call| {
        nested::<EdgeRouters, ServicePolicies>(controller, caller, call, policies_over_router)
    }),
    reached::<EdgeRouters, EdgeRouterPolicy, Identities>("listEdgeRouterIdentities"),
    reached::<EdgeRouters, ServiceEdgeRouterPolicy, Services>("listEdgeRouterServices"),
    selected::<EdgeRouterPolicies, EdgeRouters>("listEdgeRouterPolicyEdgeRouters"),
    selected::<EdgeRouterPolicies, Identities>("listEdgeRouterPolicyIdentities"),
    selected::<ServiceEdgeRouterPolicies, EdgeRouters>("listServiceEdgeRouterPolicyEdgeRouters"),
    selected::<ServiceEdgeRouterPolicies, Services>("listServiceEdgeRouterPolicyServices"),
    selected::<ServicePolicies, Identities>("listServicePolicyIdentities"),
    selected::<ServicePolicies, PostureChecks>("listServicePolicyPostureChecks"),
    selected::<ServicePolicies, Services>("listServicePolicyServices"),
    (Api::Management, "listServiceConfig", |controller, caller, call| {
        nested::<Services, Configs>(controller, caller, call, |context, parent, _, _| {
            let configs = parent.configs.iter();
            Ok(configs.filter_map(|id| context.snapshot().ordinal_of::<Config>(id)).collect())
        })
    }),
    reached::<Services, ServiceEdgeRouterPolicy, EdgeRouters>("listServiceEdgeRouters"),
    granted::<Services, Identities>("listServiceIdentities"),
    selecting::<Services, ServiceEdgeRouterPolicies>("listServiceServiceEdgeRouterPolicies"),
    selecting::<Services, ServicePolicies>("listServiceServicePolicies"),
    referring::<Services, Terminators>(Api::Management, "listServiceTerminators"),
    referring::<fabric::router::Routers, fabric::terminator::Terminators>(
        Api::Fabric,
        "listRouterTerminators",
    ),
    referring::<fabric::service::Services, fabric::terminator::Terminators>(
        Api::Fabric,
        "listServiceTerminators",
    ),
];

/// Answers with the entities of kind `C` that belong to the parent, of kind `P`, that the call
/// names.
fn nested<P: Readable, C: Readable>(
    controller: Controller,
    caller: Caller,
    call: Call,
    members: collection::Members<P::Record>,
) -> ReplyFuture {
    collection::nested::<P, C>(controller, caller, call, members).boxed()
}

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
const fn referring<P: Readable, C: Readable>(api: Api, id: &'static str) -> Row {
    (api, id, |controller, caller, call| {
        nested::<P, C>(controller, caller, call, |context, parent, _, _| {
            let link = const { link::<C::Record, P::Record>() };
            Ok(context.snapshot().table(C::Record::KIND).referrers(link, parent.id()))
        })
    })
}

/// Lists the policies of kind `C` that select the parent.
const fn selecting<P: Readable, C: Readable>(id: &'static str) -> Row {
    (Api::Management, id, |controller, caller, call| {
        nested::<P, C>(controller, caller, call, |context, parent, _, meter| {
            let side = const { link::<C::Record, P::Record>() };
            Ok(context.snapshot().counted_holding::<C::Record>(side, parent.id(), meter)?)
        })
    })
}

/// Lists the entities of kind `C` that the parent, a policy, selects.
const fn selected<P: Readable, C: Readable>(id: &'static str) -> Row {
    (Api::Management, id, |controller, caller, call| {
        nested::<P, C>(controller, caller, call, |context, parent, _, meter| {
            let (kind, snapshot) = (P::Record::KIND, context.snapshot());
            let Some(ordinal) = snapshot.ordinal_of::<P::Record>(parent.id()) else {
                return Ok(RoaringBitmap::new());
            };
            let side = const { link::<P::Record, C::Record>() };
            Ok((*snapshot.counted_members(kind, ordinal, side, meter)?).clone())
        })
    })
}

/// Lists the entities of kind `C` that policies of kind `By` select together with the parent.
const fn reached<P: Readable, By: Record, C: Readable>(id: &'static str) -> Row {
    (Api::Management, id, |controller, caller, call| {
        nested::<P, C>(controller, caller, call, |context, parent, _, meter| {
            let (from, to) = const { (link::<By, P::Record>(), link::<By, C::Record>()) };
            Ok(context.snapshot().counted_reach::<By>(from, parent.id(), to, meter)?)
        })
    })
}

/// Lists the identities for a service, or the services for an identity, between which there is a service policy of the type
/// that the query asks for.
const fn granted<P: Readable, C: Readable>(id: &'static str) -> Row {
    (Api::Management, id, |controller, caller, call| {
        nested::<P, C>(controller, caller, call, |context, parent, query, meter| {
            let from = const { link::<ServicePolicy, P::Record>() };
            let to = const { link::<ServicePolicy, C::Record>() };
            let from = (from, parent.id());
            by_type(query, |of| context.snapshot().counted_grants(from, to, of, meter))
        })
    })
}

/// The service policies of the type in `policyType`, Dial or Bind; of both types if it is absent.
fn by_type(
    query: &QueryParameters,
    of: impl Fn(PolicyType) -> Result<RoaringBitmap, Ended>,
) -> Result<RoaringBitmap, Failure> {
    match query.get("policyType") {
        None | Some("") => Ok(of(PolicyType::Dial)? | of(PolicyType::Bind)?),
        Some(text) => match policy_type(text) {
            Some(DialBind::Dial) => Ok(of(PolicyType::Dial)?),
            Some(DialBind::Bind) => Ok(of(PolicyType::Bind)?),
            _ => Err(Failure::field("policyType", "must be dial or bind", text)),
        },
    }
}

/// The service policies that let an identity of this router use a service over it.
fn policies_over_router(
    context: &Context,
    router: &Router,
    _query: &QueryParameters,
    meter: &Meter,
) -> Result<RoaringBitmap, Failure> {
    let (snapshot, router) = (context.snapshot(), router.id());
    let (from, to) = (EdgeRouterPolicy::EDGE_ROUTERS, EdgeRouterPolicy::IDENTITIES);
    let identities = snapshot.counted_reach::<EdgeRouterPolicy>(from, router, to, meter)?;
    let (from, to) = (ServiceEdgeRouterPolicy::EDGE_ROUTERS, ServiceEdgeRouterPolicy::SERVICES);
    let services = snapshot.counted_reach::<ServiceEdgeRouterPolicy>(from, router, to, meter)?;
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
}
