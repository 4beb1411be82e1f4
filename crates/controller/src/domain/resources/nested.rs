//! Lists below an entity: other entities that belong to it by reference or by policy.

use futures::FutureExt as _;
use roaring::RoaringBitmap;
use weft_contract::Api;
use weft_contract::entity::DialBind;
use weft_contract::resource::identity::policy_type;
use weft_kernel::call::{Answer, Handler};
use weft_kernel::{Call, Caller, Failure, Query};
use weft_model::entity::{
    Authenticator, Config, EdgeRouterPolicy, Enrollment, PolicyType, Record,
    ServiceEdgeRouterPolicy, ServicePolicy, Terminator,
};
use weft_model::{Id, Kind};

use super::authenticator::Authenticators;
use super::config::{self, Configs};
use super::config_type::ConfigTypes;
use super::edge_router::EdgeRouters;
use super::enrollment::Enrollments;
use super::identity::Identities;
use super::policies::{EdgeRouterPolicies, ServiceEdgeRouterPolicies, ServicePolicies};
use super::posture_check::PostureChecks;
use super::service::Services;
use super::terminator::Terminators;
use crate::Controller;
use crate::domain::collection;
use crate::domain::context::Context;

/// A row of the table below: `P` is the kind of the parent, `C` that of the members.
macro_rules! nested {
    ($id:literal, $parent:ident => $child:ident, $members:expr) => {
        (Api::Management, $id, {
            fn handler(controller: Controller, caller: Caller, call: Call) -> Answer {
                collection::nested::<$parent, $child>(controller, caller, call, $members).boxed()
            }
            handler
        })
    };
}

/// The nested lists of the management API.
pub(crate) const HANDLERS: &[(Api, &str, Handler<Controller>)] = &[
    nested!("getIdentityAuthenticators", Identities => Authenticators, |context, parent, _| {
        Ok(referring::<Authenticator>(context, 0, &parent.base.id))
    }),
    nested!("getIdentityEnrollments", Identities => Enrollments, |context, parent, _| {
        Ok(referring::<Enrollment>(context, 0, &parent.base.id))
    }),
    nested!("listIdentitysEdgeRouterPolicies", Identities => EdgeRouterPolicies,
    |context, parent, _| {
        Ok(holding::<EdgeRouterPolicy>(context, EdgeRouterPolicy::IDENTITIES, &parent.base.id))
    }),
    nested!("listIdentityServicePolicies", Identities => ServicePolicies, |context, parent, _| {
        Ok(holding::<ServicePolicy>(context, ServicePolicy::IDENTITIES, &parent.base.id))
    }),
    nested!("listIdentityEdgeRouters", Identities => EdgeRouters, |context, parent, _| {
        let snapshot = context.snapshot();
        Ok(snapshot.routers_of_identity(&parent.base.id))
    }),
    nested!("listIdentityServices", Identities => Services, |context, parent, query| {
        let snapshot = context.snapshot();
        by_type(query, |of| snapshot.services_of(&parent.base.id, of))
    }),
    nested!("listConfigServices", Configs => Services, config::services),
    nested!("listConfigsForConfigType", ConfigTypes => Configs, config::of_type),
    nested!("listEdgeRouterEdgeRouterPolicies", EdgeRouters => EdgeRouterPolicies,
    |context, parent, _| {
        let side = EdgeRouterPolicy::EDGE_ROUTERS;
        Ok(holding::<EdgeRouterPolicy>(context, side, &parent.base.id))
    }),
    nested!("listEdgeRouterServiceEdgeRouterPolicies", EdgeRouters => ServiceEdgeRouterPolicies,
    |context, parent, _| {
        let side = ServiceEdgeRouterPolicy::EDGE_ROUTERS;
        Ok(holding::<ServiceEdgeRouterPolicy>(context, side, &parent.base.id))
    }),
    nested!("listEdgeRouterServicePolicies", EdgeRouters => ServicePolicies,
        |context, parent, _| Ok(policies_over_router(context, &parent.base.id))),
    nested!("listEdgeRouterIdentities", EdgeRouters => Identities, |context, parent, _| {
        let snapshot = context.snapshot();
        Ok(snapshot.identities_of_router(&parent.base.id))
    }),
    nested!("listEdgeRouterServices", EdgeRouters => Services, |context, parent, _| {
        let snapshot = context.snapshot();
        Ok(snapshot.services_of_router(&parent.base.id))
    }),
    nested!("listEdgeRouterPolicyEdgeRouters", EdgeRouterPolicies => EdgeRouters,
        |context, parent, _| Ok(members(context, parent, EdgeRouterPolicy::EDGE_ROUTERS))),
    nested!("listEdgeRouterPolicyIdentities", EdgeRouterPolicies => Identities,
        |context, parent, _| Ok(members(context, parent, EdgeRouterPolicy::IDENTITIES))),
    nested!("listServiceEdgeRouterPolicyEdgeRouters", ServiceEdgeRouterPolicies => EdgeRouters,
        |context, parent, _| Ok(members(context, parent, ServiceEdgeRouterPolicy::EDGE_ROUTERS))),
    nested!("listServiceEdgeRouterPolicyServices", ServiceEdgeRouterPolicies => Services,
        |context, parent, _| Ok(members(context, parent, ServiceEdgeRouterPolicy::SERVICES))),
    nested!("listServicePolicyIdentities", ServicePolicies => Identities,
        |context, parent, _| Ok(members(context, parent, ServicePolicy::IDENTITIES))),
    nested!("listServicePolicyPostureChecks", ServicePolicies => PostureChecks,
        |context, parent, _| Ok(members(context, parent, ServicePolicy::POSTURE_CHECKS))),
    nested!("listServicePolicyServices", ServicePolicies => Services,
        |context, parent, _| Ok(members(context, parent, ServicePolicy::SERVICES))),
    nested!("listServiceConfig", Services => Configs, |context, parent, _| {
        let configs = parent.configs.iter();
        Ok(configs.filter_map(|id| context.snapshot().ordinal_of::<Config>(id)).collect())
    }),
    nested!("listServiceEdgeRouters", Services => EdgeRouters, |context, parent, _| {
        let snapshot = context.snapshot();
        Ok(snapshot.routers_of_service(&parent.base.id))
    }),
    nested!("listServiceIdentities", Services => Identities, |context, parent, query| {
        let snapshot = context.snapshot();
        by_type(query, |of| snapshot.identities_of(&parent.base.id, of))
    }),
    nested!("listServiceServiceEdgeRouterPolicies", Services => ServiceEdgeRouterPolicies,
    |context, parent, _| {
        let side = ServiceEdgeRouterPolicy::SERVICES;
        Ok(holding::<ServiceEdgeRouterPolicy>(context, side, &parent.base.id))
    }),
    nested!("listServiceServicePolicies", Services => ServicePolicies, |context, parent, _| {
        Ok(holding::<ServicePolicy>(context, ServicePolicy::SERVICES, &parent.base.id))
    }),
    nested!("listServiceTerminators", Services => Terminators, |context, parent, _| {
        Ok(referring::<Terminator>(context, Terminator::SERVICE, &parent.base.id))
    }),
];

/// The entities whose reference number `link` names `target`.
fn referring<T: Record>(context: &Context, link: usize, target: &Id) -> RoaringBitmap {
    context.snapshot().table(T::KIND).referrers(link, target)
}

/// The policies whose side selects an entity.
fn holding<P: Record>(context: &Context, side: usize, id: &Id) -> RoaringBitmap {
    context.snapshot().holding::<P>(side, id)
}

/// The entities that a side of a policy selects.
fn members<P: Record>(context: &Context, policy: &P, side: usize) -> RoaringBitmap {
    let snapshot = context.snapshot();
    let ordinal = snapshot.ordinal_of::<P>(policy.id());
    let members = ordinal.map(|ordinal| snapshot.members(P::KIND, ordinal, side));
    members.map(|members| (*members).clone()).unwrap_or_default()
}

/// The service policies for `policyType`: those for Dial, those for Bind, or both if it is absent.
fn by_type(
    query: &Query,
    of: impl Fn(PolicyType) -> RoaringBitmap,
) -> Result<RoaringBitmap, Failure> {
    match query.get("policyType") {
        None | Some("") => Ok(of(PolicyType::Dial) | of(PolicyType::Bind)),
        Some(text) => match policy_type(text) {
            Some(DialBind::Dial) => Ok(of(PolicyType::Dial)),
            Some(DialBind::Bind) => Ok(of(PolicyType::Bind)),
            _ => Err(Failure::field("policyType", "must be dial or bind", text)),
        },
    }
}

/// The service policies that let an identity of this router use a service over it.
fn policies_over_router(context: &Context, router: &Id) -> RoaringBitmap {
    let snapshot = context.snapshot();
    let identities = snapshot.identities_of_router(router);
    let services = snapshot.services_of_router(router);
    let meets = |ordinal: &u32| {
        let side = |side| snapshot.members(Kind::ServicePolicy, *ordinal, side);
        !side(ServicePolicy::IDENTITIES).is_disjoint(&identities)
            && !side(ServicePolicy::SERVICES).is_disjoint(&services)
    };
    snapshot.table(Kind::ServicePolicy).live().iter().filter(meets).collect()
}
