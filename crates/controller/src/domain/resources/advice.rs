//! Policy advice: whether and why an identity may use a service
//! (docs/protocol/management-api.md 7.1).

use futures::FutureExt as _;
use weft_contract::resource::edge_router::COLLECTION as ROUTERS;
use weft_contract::resource::identity::{COLLECTION as IDENTITIES, PolicyAdvice, RouterRef};
use weft_contract::resource::posture_check::COLLECTION as POSTURE_CHECKS;
use weft_contract::resource::service::COLLECTION as SERVICES;
use weft_contract::{Api, EntityRef};
use weft_kernel::call::{Answer, Handler};
use weft_kernel::{Call, Caller, Reply, gate};
use weft_model::entity::Router;

use super::identity::Identities;
use super::service::Services;
use crate::Controller;
use crate::domain::resource::require;

/// The operation.
pub(crate) const HANDLERS: &[(Api, &str, Handler<Controller>)] =
    &[(Api::Management, "getIdentityPolicyAdvice", advice)];

fn advice(controller: Controller, caller: Caller, call: Call) -> Answer {
    async move {
        let context = controller.context(&caller);
        let view = context.view();
        let identity = require::<Identities>(view, call.id(0))?;
        let service = require::<Services>(view, call.id(1))?;
        let (identity_id, service_id) = (&identity.base.id, &service.base.id);
        let advice = view.snapshot().advice(identity_id, service_id);
        let may_see = gate::reads(&caller, IDENTITIES) && gate::reads(&caller, POSTURE_CHECKS);
        let posture =
            may_see.then(|| controller.judge_posture(view.snapshot(), identity_id, service_id));
        let routers = view.snapshot().entities::<Router>(&advice.common_routers);
        let common_routers = routers.map(|router| {
            let id = router.base.id.as_str();
            RouterRef {
                entity: EntityRef::new(ROUTERS, id, &router.name),
                is_online: context.online().is_online(id),
            }
        });
        Reply::detail(&PolicyAdvice {
            common_routers: common_routers.collect(),
            identity: EntityRef::new(IDENTITIES, identity.base.id.as_str(), &identity.name),
            identity_id: identity.base.id.to_string(),
            identity_router_count: advice.identity_routers.len() as i64,
            is_bind_allowed: advice.is_bind_allowed,
            is_dial_allowed: advice.is_dial_allowed,
            posture,
            service: EntityRef::new(SERVICES, service.base.id.as_str(), &service.name),
            service_id: service.base.id.to_string(),
            service_router_count: advice.service_routers.len() as i64,
        })
    }
    .boxed()
}
