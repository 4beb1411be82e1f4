//! Lists below an entity: other entities that belong to it by reference or by policy.

use futures::FutureExt as _;
use roaring::RoaringBitmap;
use weft_contract::Api;
use weft_contract::entity::DialBind;
use weft_contract::resource::identity::policy_type;
use weft_kernel::call::{OperationHandler, ReplyFuture};
use weft_kernel::{Call, Caller, Failure, QueryParameters};
use weft_model::entity::{
    Authenticator, Config, EdgeRouterPolicy, Enrollment, PolicyType, Record,
    ServiceEdgeRouterPolicy, ServicePolicy, Terminator,
};
use weft_model::{Ended, Id, Kind, Meter};

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
    handler: OperationHandler<Controller>,
) -> (Api, &'static str, OperationHandler<Controller>) {
    (Api::Management, id, handler)
}

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

/// The nested lists of the management API.
pub(crate) const HANDLERS: &[(Api, &str, OperationHandler<Controller>)] = &[
    list("getIdentityAuthenticators", |controller, caller, call| {
        nested::<Identities, Authenticators>(controller, caller, call, |context, parent, _, _| {
            Ok(referring::<Authenticator>(context, 0, &parent.base.id))
        })
    }),
    list("getIdentityEnrollments", |controller, caller, call| {
        nested::<Identities, Enrollments>(controller, caller, call, |context, parent, _, _| {
            Ok(referring::<Enrollment>(context, 0, &parent.base.id))
        })
    }),
    list("listIdentitysEdgeRouterPolicies", |controller, caller, call| {
        nested::<Identities, EdgeRouterPolicies>(
            controller,
            caller,
            call,
            |context, parent, _, meter| {
                holding::<EdgeRouterPolicy>(
                    context,
                    EdgeRouterPolicy::IDENTITIES,
                    &parent.base.id,
                    meter,
                )
            },
        )
    }),
    list("listIdentityServicePolicies", |controller, caller, call| {
        nested::<Identities, ServicePolicies>(
            controller,
            caller,
            call,
            |context, parent, _, meter| {
                holding::<ServicePolicy>(context, ServicePolicy::IDENTITIES, &parent.base.id, meter)
            },
        )
    }),
    list("listIdentityEdgeRouters", |controller, caller, call| {
        nested::<Identities, EdgeRouters>(controller, caller, call, |context, parent, _, meter| {
            let (from, to) = (EdgeRouterPolicy::IDENTITIES, EdgeRouterPolicy::EDGE_ROUTERS);
            reach::<EdgeRouterPolicy>(context, from, &parent.base.id, to, meter)
        })
    }),
    list("listIdentityServices", |controller, caller, call| {
        nested::<Identities, Services>(controller, caller, call, |context, parent, query, meter| {
            let (from, to) = (ServicePolicy::IDENTITIES, ServicePolicy::SERVICES);
            let from = (from, &parent.base.id);
            by_type(query, |of| context.snapshot().counted_grants(from, to, of, meter))
        })
    }),
    list("listConfigServices", |controller, caller, call| {
        nested::<Configs, Services>(controller, caller, call, config::services)
    }),
    list("listConfigsForConfigType", |controller, caller, call| {
        nested::<ConfigTypes, Configs>(controller, caller, call, config::of_type)
    }),
    list("listEdgeRouterEdgeRouterPolicies", |controller, caller, call| {
        nested::<EdgeRouters, EdgeRouterPolicies>(
            controller,
            caller,
            call,
            |context, parent, _, meter| {
                let side = EdgeRouterPolicy::EDGE_ROUTERS;
                holding::<EdgeRouterPolicy>(context, side, &parent.base.id, meter)
            },
        )
    }),
    list("listEdgeRouterServiceEdgeRouterPolicies", |controller, caller, call| {
        nested::<EdgeRouters, ServiceEdgeRouterPolicies>(
            controller,
            caller,
            call,
            |context, parent, _, meter| {
                let side = ServiceEdgeRouterPolicy::EDGE_ROUTERS;
                holding::<ServiceEdgeRouterPolicy>(context, side, &parent.base.id, meter)
            },
        )
    }),
    list("listEdgeRouterServicePolicies", |controller, caller, call| {
        nested::<EdgeRouters, ServicePolicies>(
            controller,
            caller,
            call,
            |context, parent, _, meter| policies_over_router(context, &parent.base.id, meter),
        )
    }),
    list("listEdgeRouterIdentities", |controller, caller, call| {
        nested::<EdgeRouters, Identities>(controller, caller, call, |context, parent, _, meter| {
            let (from, to) = (EdgeRouterPolicy::EDGE_ROUTERS, EdgeRouterPolicy::IDENTITIES);
            reach::<EdgeRouterPolicy>(context, from, &parent.base.id, to, meter)
        })
    }),
    list("listEdgeRouterServices", |controller, caller, call| {
        nested::<EdgeRouters, Services>(controller, caller, call, |context, parent, _, meter| {
            let (from, to) =
                (ServiceEdgeRouterPolicy::EDGE_ROUTERS, ServiceEdgeRouterPolicy::SERVICES);
            reach::<ServiceEdgeRouterPolicy>(context, from, &parent.base.id, to, meter)
        })
    }),
    list("listEdgeRouterPolicyEdgeRouters", |controller, caller, call| {
        nested::<EdgeRouterPolicies, EdgeRouters>(
            controller,
            caller,
            call,
            |context, parent, _, meter| {
                members(context, parent, EdgeRouterPolicy::EDGE_ROUTERS, meter)
            },
        )
    }),
    list("listEdgeRouterPolicyIdentities", |controller, caller, call| {
        nested::<EdgeRouterPolicies, Identities>(
            controller,
            caller,
            call,
            |context, parent, _, meter| {
                members(context, parent, EdgeRouterPolicy::IDENTITIES, meter)
            },
        )
    }),
    list("listServiceEdgeRouterPolicyEdgeRouters", |controller, caller, call| {
        nested::<ServiceEdgeRouterPolicies, EdgeRouters>(
            controller,
            caller,
            call,
            |context, parent, _, meter| {
                members(context, parent, ServiceEdgeRouterPolicy::EDGE_ROUTERS, meter)
            },
        )
    }),
    list("listServiceEdgeRouterPolicyServices", |controller, caller, call| {
        nested::<ServiceEdgeRouterPolicies, Services>(
            controller,
            caller,
            call,
            |context, parent, _, meter| {
                members(context, parent, ServiceEdgeRouterPolicy::SERVICES, meter)
            },
        )
    }),
    list("listServicePolicyIdentities", |controller, caller, call| {
        nested::<ServicePolicies, Identities>(
            controller,
            caller,
            call,
            |context, parent, _, meter| members(context, parent, ServicePolicy::IDENTITIES, meter),
        )
    }),
    list("listServicePolicyPostureChecks", |controller, caller, call| {
        nested::<ServicePolicies, PostureChecks>(
            controller,
            caller,
            call,
            |context, parent, _, meter| {
                members(context, parent, ServicePolicy::POSTURE_CHECKS, meter)
            },
        )
    }),
    list("listServicePolicyServices", |controller, caller, call| {
        nested::<ServicePolicies, Services>(
            controller,
            caller,
            call,
            |context, parent, _, meter| members(context, parent, ServicePolicy::SERVICES, meter),
        )
    }),
    list("listServiceConfig", |controller, caller, call| {
        nested::<Services, Configs>(controller, caller, call, |context, parent, _, _| {
            let configs = parent.configs.iter();
            Ok(configs.filter_map(|id| context.snapshot().ordinal_of::<Config>(id)).collect())
        })
    }),
    list("listServiceEdgeRouters", |controller, caller, call| {
        nested::<Services, EdgeRouters>(controller, caller, call, |context, parent, _, meter| {
            let (from, to) =
                (ServiceEdgeRouterPolicy::SERVICES, ServiceEdgeRouterPolicy::EDGE_ROUTERS);
            reach::<ServiceEdgeRouterPolicy>(context, from, &parent.base.id, to, meter)
        })
    }),
    list("listServiceIdentities", |controller, caller, call| {
        nested::<Services, Identities>(controller, caller, call, |context, parent, query, meter| {
            let (from, to) = (ServicePolicy::SERVICES, ServicePolicy::IDENTITIES);
            let from = (from, &parent.base.id);
            by_type(query, |of| context.snapshot().counted_grants(from, to, of, meter))
        })
    }),
    list("listServiceServiceEdgeRouterPolicies", |controller, caller, call| {
        nested::<Services, ServiceEdgeRouterPolicies>(
            controller,
            caller,
            call,
            |context, parent, _, meter| {
                let side = ServiceEdgeRouterPolicy::SERVICES;
                holding::<ServiceEdgeRouterPolicy>(context, side, &parent.base.id, meter)
            },
        )
    }),
    list("listServiceServicePolicies", |controller, caller, call| {
        nested::<Services, ServicePolicies>(
            controller,
            caller,
            call,
            |context, parent, _, meter| {
                holding::<ServicePolicy>(context, ServicePolicy::SERVICES, &parent.base.id, meter)
            },
        )
    }),
    list("listServiceTerminators", |controller, caller, call| {
        nested::<Services, Terminators>(controller, caller, call, |context, parent, _, _| {
            Ok(referring::<Terminator>(context, Terminator::SERVICE, &parent.base.id))
        })
    }),
];

/// The entities whose reference number `link` names `target`.
fn referring<T: Record>(context: &Context, link: usize, target: &Id) -> RoaringBitmap {
    context.snapshot().table(T::KIND).referrers(link, target)
}

/// The entities on side `to` of the policies of kind `P` that select the entity on side `from`.
fn reach<P: Record>(
    context: &Context,
    from: usize,
    id: &Id,
    to: usize,
    meter: &Meter,
) -> Result<RoaringBitmap, Failure> {
    Ok(context.snapshot().counted_reach::<P>(from, id, to, meter)?)
}

/// The policies whose side selects an entity.
fn holding<P: Record>(
    context: &Context,
    side: usize,
    id: &Id,
    meter: &Meter,
) -> Result<RoaringBitmap, Failure> {
    Ok(context.snapshot().counted_holding::<P>(side, id, meter)?)
}

/// The entities that a side of a policy selects.
fn members<P: Record>(
    context: &Context,
    policy: &P,
    side: usize,
    meter: &Meter,
) -> Result<RoaringBitmap, Failure> {
    let snapshot = context.snapshot();
    let Some(ordinal) = snapshot.ordinal_of::<P>(policy.id()) else {
        return Ok(RoaringBitmap::new());
    };
    Ok((*snapshot.counted_members(P::KIND, ordinal, side, meter)?).clone())
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
    router: &Id,
    meter: &Meter,
) -> Result<RoaringBitmap, Failure> {
    let snapshot = context.snapshot();
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
