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
use crate::domain::resource::Readable;

/// A row of [`HANDLERS`].
const fn list(
    id: &'static str,
    handler: Handler<Controller>,
) -> (Api, &'static str, Handler<Controller>) {
    (Api::Management, id, handler)
}

/// Answers with the entities of kind `C` that belong to the parent, of kind `P`, that the call
/// names.
fn nested<P: Readable, C: Readable>(
    controller: Controller,
    caller: Caller,
    call: Call,
    members: collection::Members<P::Record>,
) -> Answer {
    collection::nested::<P, C>(controller, caller, call, members).boxed()
}

/// The nested lists of the management API.
pub(crate) const HANDLERS: &[(Api, &str, Handler<Controller>)] = &[
    list("getIdentityAuthenticators", |controller, caller, call| {
        nested::<Identities, Authenticators>(controller, caller, call, |context, parent, _| {
            Ok(referring::<Authenticator>(context, 0, &parent.base.id))
        })
    }),
    list("getIdentityEnrollments", |controller, caller, call| {
        nested::<Identities, Enrollments>(controller, caller, call, |context, parent, _| {
            Ok(referring::<Enrollment>(context, 0, &parent.base.id))
        })
    }),
    list("listIdentitysEdgeRouterPolicies", |controller, caller, call| {
        nested::<Identities, EdgeRouterPolicies>(controller, caller, call, |context, parent, _| {
            Ok(holding::<EdgeRouterPolicy>(context, EdgeRouterPolicy::IDENTITIES, &parent.base.id))
        })
    }),
    list("listIdentityServicePolicies", |controller, caller, call| {
        nested::<Identities, ServicePolicies>(controller, caller, call, |context, parent, _| {
            Ok(holding::<ServicePolicy>(context, ServicePolicy::IDENTITIES, &parent.base.id))
        })
    }),
    list("listIdentityEdgeRouters", |controller, caller, call| {
        nested::<Identities, EdgeRouters>(controller, caller, call, |context, parent, _| {
            let snapshot = context.snapshot();
            Ok(snapshot.routers_of_identity(&parent.base.id))
        })
    }),
    list("listIdentityServices", |controller, caller, call| {
        nested::<Identities, Services>(controller, caller, call, |context, parent, query| {
            let snapshot = context.snapshot();
            by_type(query, |of| snapshot.services_of(&parent.base.id, of))
        })
    }),
    list("listConfigServices", |controller, caller, call| {
        nested::<Configs, Services>(controller, caller, call, config::services)
    }),
    list("listConfigsForConfigType", |controller, caller, call| {
        nested::<ConfigTypes, Configs>(controller, caller, call, config::of_type)
    }),
    list("listEdgeRouterEdgeRouterPolicies", |controller, caller, call| {
        nested::<EdgeRouters, EdgeRouterPolicies>(controller, caller, call, |context, parent, _| {
            let side = EdgeRouterPolicy::EDGE_ROUTERS;
            Ok(holding::<EdgeRouterPolicy>(context, side, &parent.base.id))
        })
    }),
    list("listEdgeRouterServiceEdgeRouterPolicies", |controller, caller, call| {
        nested::<EdgeRouters, ServiceEdgeRouterPolicies>(
            controller,
            caller,
            call,
            |context, parent, _| {
                let side = ServiceEdgeRouterPolicy::EDGE_ROUTERS;
                Ok(holding::<ServiceEdgeRouterPolicy>(context, side, &parent.base.id))
            },
        )
    }),
    list("listEdgeRouterServicePolicies", |controller, caller, call| {
        nested::<EdgeRouters, ServicePolicies>(controller, caller, call, |context, parent, _| {
            Ok(policies_over_router(context, &parent.base.id))
        })
    }),
    list("listEdgeRouterIdentities", |controller, caller, call| {
        nested::<EdgeRouters, Identities>(controller, caller, call, |context, parent, _| {
            let snapshot = context.snapshot();
            Ok(snapshot.identities_of_router(&parent.base.id))
        })
    }),
    list("listEdgeRouterServices", |controller, caller, call| {
        nested::<EdgeRouters, Services>(controller, caller, call, |context, parent, _| {
            let snapshot = context.snapshot();
            Ok(snapshot.services_of_router(&parent.base.id))
        })
    }),
    list("listEdgeRouterPolicyEdgeRouters", |controller, caller, call| {
        nested::<EdgeRouterPolicies, EdgeRouters>(controller, caller, call, |context, parent, _| {
            Ok(members(context, parent, EdgeRouterPolicy::EDGE_ROUTERS))
        })
    }),
    list("listEdgeRouterPolicyIdentities", |controller, caller, call| {
        nested::<EdgeRouterPolicies, Identities>(controller, caller, call, |context, parent, _| {
            Ok(members(context, parent, EdgeRouterPolicy::IDENTITIES))
        })
    }),
    list("listServiceEdgeRouterPolicyEdgeRouters", |controller, caller, call| {
        nested::<ServiceEdgeRouterPolicies, EdgeRouters>(
            controller,
            caller,
            call,
            |context, parent, _| {
                Ok(members(context, parent, ServiceEdgeRouterPolicy::EDGE_ROUTERS))
            },
        )
    }),
    list("listServiceEdgeRouterPolicyServices", |controller, caller, call| {
        nested::<ServiceEdgeRouterPolicies, Services>(
            controller,
            caller,
            call,
            |context, parent, _| Ok(members(context, parent, ServiceEdgeRouterPolicy::SERVICES)),
        )
    }),
    list("listServicePolicyIdentities", |controller, caller, call| {
        nested::<ServicePolicies, Identities>(controller, caller, call, |context, parent, _| {
            Ok(members(context, parent, ServicePolicy::IDENTITIES))
        })
    }),
    list("listServicePolicyPostureChecks", |controller, caller, call| {
        nested::<ServicePolicies, PostureChecks>(controller, caller, call, |context, parent, _| {
            Ok(members(context, parent, ServicePolicy::POSTURE_CHECKS))
        })
    }),
    list("listServicePolicyServices", |controller, caller, call| {
        nested::<ServicePolicies, Services>(controller, caller, call, |context, parent, _| {
            Ok(members(context, parent, ServicePolicy::SERVICES))
        })
    }),
    list("listServiceConfig", |controller, caller, call| {
        nested::<Services, Configs>(controller, caller, call, |context, parent, _| {
            let configs = parent.configs.iter();
            Ok(configs.filter_map(|id| context.snapshot().ordinal_of::<Config>(id)).collect())
        })
    }),
    list("listServiceEdgeRouters", |controller, caller, call| {
        nested::<Services, EdgeRouters>(controller, caller, call, |context, parent, _| {
            let snapshot = context.snapshot();
            Ok(snapshot.routers_of_service(&parent.base.id))
        })
    }),
    list("listServiceIdentities", |controller, caller, call| {
        nested::<Services, Identities>(controller, caller, call, |context, parent, query| {
            let snapshot = context.snapshot();
            by_type(query, |of| snapshot.identities_of(&parent.base.id, of))
        })
    }),
    list("listServiceServiceEdgeRouterPolicies", |controller, caller, call| {
        nested::<Services, ServiceEdgeRouterPolicies>(
            controller,
            caller,
            call,
            |context, parent, _| {
                let side = ServiceEdgeRouterPolicy::SERVICES;
                Ok(holding::<ServiceEdgeRouterPolicy>(context, side, &parent.base.id))
            },
        )
    }),
    list("listServiceServicePolicies", |controller, caller, call| {
        nested::<Services, ServicePolicies>(controller, caller, call, |context, parent, _| {
            Ok(holding::<ServicePolicy>(context, ServicePolicy::SERVICES, &parent.base.id))
        })
    }),
    list("listServiceTerminators", |controller, caller, call| {
        nested::<Services, Terminators>(controller, caller, call, |context, parent, _| {
            Ok(referring::<Terminator>(context, Terminator::SERVICE, &parent.base.id))
        })
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

/// The service policies of the type in `policyType`, Dial or Bind; of both types if it is absent.
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
