//! Policy advice: whether and why an identity may use a service
//! (docs/protocol/management-api.md 7.1).

use roaring::RoaringBitmap;
use weft_contract::resource::edge_router::COLLECTION as ROUTERS;
use weft_contract::resource::identity::{COLLECTION as IDENTITIES, PolicyAdvice, RouterRef};
use weft_contract::resource::posture_check::COLLECTION as POSTURE_CHECKS;
use weft_contract::resource::service::COLLECTION as SERVICES;
use weft_contract::{Api, EntityRef};
use weft_kernel::call::HandlerRow;
use weft_kernel::{Call, Caller, Reply, Result, gate};
use weft_model::entity::Router;
use weft_model::filter::ROW;
use weft_model::{Kind, Meter, Part};

use super::identity::Identities;
use super::service::Services;
use crate::Controller;
use crate::domain::context::Context;
use crate::domain::resource::require;

/// The operation.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] =
    &[(Api::Management, "getIdentityPolicyAdvice", &advice)];

/// Units of the posture of an identity for a service.
const POSTURE: u64 = 256;

async fn advice(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let context = controller.context(&caller);
    let (identity, service) = (call.id(0).to_owned(), call.id(1).to_owned());
    require::<Identities>(context.view(), &identity)?;
    require::<Services>(context.view(), &service)?;
    let snapshot = context.snapshot();
    let routers = snapshot.table(Kind::Router).len() as u64;
    let effort = snapshot.effort_of_advice() + routers * ROW + POSTURE;
    let request = controller.kernel().scans().asked_by(&caller);
    let told =
        move |meter: &Meter| Reply::detail(&told(&context, &caller, [&identity, &service], meter)?);
    request.counted(effort, told).await
}

/// The advice, with what the caller may read: without the permission to read identities no name of one, and without
/// the one to read routers none of these, nor how many there are.
fn told(
    context: &Context,
    caller: &Caller,
    [identity, service]: [&str; 2],
    meter: &Meter,
) -> Result<PolicyAdvice> {
    let (view, controller) = (context.view(), context.controller());
    let identity = require::<Identities>(view, identity)?;
    let service = require::<Services>(view, service)?;
    let (identity_id, service_id) = (&identity.base.id, &service.base.id);
    let advice = view.snapshot().advice(identity_id, service_id, meter)?;
    let reads = |collection| gate::reads(caller, collection);
    meter.take(Part::Policies, POSTURE)?;
    let posture = (reads(IDENTITIES) && reads(POSTURE_CHECKS))
        .then(|| controller.auth().judge_posture(view.snapshot(), identity_id, service_id));
    let [common, of_identity, of_service] = match reads(ROUTERS) {
        true => [advice.common_routers, advice.identity_routers, advice.service_routers],
        false => [(); 3].map(|()| RoaringBitmap::new()),
    };
    meter.take(Part::Rows, common.len() * ROW)?;
    let common_routers = view.snapshot().entities::<Router>(&common).map(|router| {
        let id = router.base.id.as_str();
        RouterRef {
            entity: EntityRef::new(ROUTERS, id, &router.name),
            is_online: context.online().is_online(id),
        }
    });
    let name = if reads(IDENTITIES) { &*identity.name } else { "" };
    Ok(PolicyAdvice {
        common_routers: common_routers.collect(),
        identity: EntityRef::new(IDENTITIES, identity_id.as_str(), name),
        identity_id: identity_id.to_string(),
        identity_router_count: of_identity.len() as i64,
        is_bind_allowed: advice.is_bind_allowed,
        is_dial_allowed: advice.is_dial_allowed,
        posture,
        service: EntityRef::new(SERVICES, service_id.as_str(), &service.name),
        service_id: service_id.to_string(),
        service_router_count: of_service.len() as i64,
    })
}
