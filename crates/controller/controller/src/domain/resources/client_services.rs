//! The lists that clients get: their services, the routers and terminators of these, and their own
//! edge routers (docs/protocol/auth.md 17.4, 17.6). Administrators get the services that policies
//! give them, like every other identity.

use std::sync::Arc;

use roaring::RoaringBitmap;
use weft_auth::current::login_of;
use weft_auth::posture::viewer::Viewer;
use weft_auth::wanted_configs::WantedConfigs;
use weft_contract::entity::DialBind;
use weft_contract::resource::config::CONFIG_COLLECTION as CONFIGS;
use weft_contract::resource::edge_router::{COLLECTION as ROUTERS, OwnEdgeRouterDetail};
use weft_contract::resource::service::{COLLECTION as SERVICES, ServiceDetail, ServiceEdgeRouters};
use weft_contract::resource::terminator::{COLLECTION as TERMINATORS, TerminatorClientDetail};
use weft_contract::{Api, headers};
use weft_kernel::call::HandlerRow;
use weft_kernel::{Call, Reply, Result, convert, gate, list};
use weft_model::entity::{Identity, PolicyType, Router, Service, Terminator};
use weft_model::filter::Selection;
use weft_model::{Id, Kind, Meter};

use crate::domain::collection;
use crate::domain::context::Context;
use crate::domain::fields::Fields as _;
use crate::domain::resources::edge_router::EdgeRouters;
use crate::domain::resources::known_routers::{common, routers_between};
use crate::domain::resources::service::{Services, permissions, shown, wanted_configs};
use crate::domain::resources::terminator::Terminators;
use crate::{Caller, Controller, Failure};

/// The operations.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[
    (Api::Client, "listServices", &list_services),
    (Api::Client, "detailService", &detail_service),
    (Api::Client, "listServiceEdgeRouters", &service_routers),
    (Api::Client, "listServiceTerminators", &service_terminators),
    (Api::Client, "getCurrentIdentityEdgeRouters", &own_routers),
    (Api::Management, "listServices", &list_as),
];

/// The services an identity may dial or host.
fn services_of(context: &Context, identity: &str) -> RoaringBitmap {
    let (snapshot, id) = (context.snapshot(), Id::new(identity));
    snapshot.services_of(&id, PolicyType::Dial) | snapshot.services_of(&id, PolicyType::Bind)
}

/// A service as this identity sees it.
fn detail_for(
    context: &Context,
    viewer: &Viewer,
    wanted: &WantedConfigs,
    service: &Service,
) -> ServiceDetail {
    let view = context.view();
    let record = view.get::<Identity>(viewer.identity.as_str()).map(|identity| &**identity);
    shown(context, service, viewer, wanted.data(view, record, service))
}

async fn list_services(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let identity = login_of(&caller)?.identity.clone();
    let context = controller.context(&caller);
    let found = services_of(&context, &identity);
    let wanted = wanted_configs(&context, &call.query);
    seen_by(None, Some(found), wanted, context, caller, call).await
}

/// The management list: every service, or with `asIdentity` the services of an identity. Callers that may read
/// configs get those that the query or their session asks for; to others the member `config` is empty, because the
/// permission to read services does not include the data of configs (docs/protocol/management-api.md 7.2).
async fn list_as(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let context = controller.context(&caller);
    let as_identity = match call.query.get("asIdentity").filter(|text| !text.is_empty()) {
        Some(text) if caller.is_admin() => {
            let found = context.snapshot().by_id_or_name::<Identity>(text);
            let found = found.ok_or_else(|| Failure::not_found("identity", text))?;
            Some(found.base.id.clone())
        }
        Some(_) => {
            let reason = "asIdentity is for administrators";
            return Err(Failure::unauthorized(reason));
        }
        None => None,
    };
    let (seen_as, found) = match &as_identity {
        Some(identity) => (
            Some(Viewer::new(context.controller().auth(), identity, None)),
            Some(services_of(&context, identity.as_str())),
        ),
        None => (None, None),
    };
    let wanted = match gate::reads(&caller, CONFIGS) {
        true => wanted_configs(&context, &call.query),
        false => WantedConfigs::default(),
    };
    seen_by(seen_as, found, wanted, context, caller, call).await
}

/// A page of all services, or of these services, with the wanted configs, as a viewer sees them; without a viewer,
/// as the caller does.
async fn seen_by(
    viewer: Option<Viewer>,
    services: Option<RoaringBitmap>,
    wanted: WantedConfigs,
    context: Context,
    caller: Caller,
    call: Call,
) -> Result<Reply> {
    let roles = list::role_filter(&call.query)?.map(|(roles, semantic)| {
        context.snapshot().with_roles(weft_model::Kind::Service, &roles, semantic)
    });
    let within = match (services, roles) {
        (Some(services), Some(roles)) => Some(services & roles),
        (services, roles) => services.or(roles),
    };
    let detail = move |context: &Context, service: &Service| {
        let viewer = viewer.as_ref().unwrap_or_else(|| context.viewer());
        detail_for(context, viewer, &wanted, service)
    };
    collection::search::<Services, _>(context, caller, call, within, detail).await
}

/// A service that the caller may dial or host.
fn permitted(context: &Context, caller: &Caller, id: &str) -> Result<Arc<Service>> {
    let login = login_of(caller)?;
    let service = context.view().get::<Service>(id).filter(|service| !service.is_fabric_only);
    let permitted = service.filter(|service| {
        permissions(context.view(), &login.identity, &service.base.id) != [DialBind::Invalid]
    });
    permitted.cloned().ok_or_else(|| Failure::not_found("service", id))
}

async fn detail_service(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let context = controller.context(&caller);
    let service = permitted(&context, &caller, call.id(0))?;
    let wanted = wanted_configs(&context, &call.query);
    Reply::detail(&detail_for(&context, context.viewer(), &wanted, &service))
}

async fn service_routers(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let context = controller.context(&caller);
    // A client asks in this way whether its service session still holds.
    if let Some(token) = call.header(headers::SESSION_TOKEN).filter(|it| !it.is_empty()) {
        controller.auth().own_service_session(&login_of(&caller)?.session.id, token)?;
    }
    let service = permitted(&context, &caller, call.id(0))?;
    let identity = &login_of(&caller)?.identity;
    let routers = routers_between(context.snapshot(), context.online(), identity, &service.base.id);
    let edge_routers = routers.iter().map(|router| common(context.online(), router)).collect();
    Reply::detail(&ServiceEdgeRouters { edge_routers })
}

async fn service_terminators(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let context = controller.context(&caller);
    let service = permitted(&context, &caller, call.id(0))?.base.id.clone();
    let count = context.view().referring::<Terminator>(Terminator::SERVICE, service.as_str());
    let count = count.len();
    let list = move |context: &Context, caller: &Caller, of: &Selection, meter: &Meter| {
        terminators_of(context, caller, of, &service, meter)
    };
    collection::in_turn::<Terminators>(context, caller, call, count, list).await
}

fn terminators_of(
    context: &Context,
    caller: &Caller,
    selection: &Selection,
    service: &Id,
    meter: &Meter,
) -> Result<Reply> {
    let mut found = context.view().referring::<Terminator>(Terminator::SERVICE, service.as_str());
    found.sort_unstable_by(|a, b| a.base.id.cmp(&b.base.id));
    let listed =
        collection::select::<Terminators>(context, caller, selection, found.into_iter(), meter)?;
    list::reply(&listed, Terminators::SYMBOLS, meter, |it| {
        Ok(TerminatorClientDetail {
            base: convert::base(TERMINATORS, &it.base, &[]),
            identity: it.instance_id.to_string(),
            router_id: it.router_id.to_string(),
            service: convert::mention::<Service>(context.view(), SERVICES, &it.service_id),
            service_id: it.service_id.to_string(),
        })
    })
}

/// The routers that the caller may connect to. An administrator may connect to every verified
/// router.
async fn own_routers(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let context = controller.context(&caller);
    let login = login_of(&caller)?;
    let snapshot = context.snapshot();
    let candidates = match login.is_admin {
        true => snapshot.table(Kind::Router).len(),
        false => snapshot.routers_of_identity(&Id::new(&login.identity)).len() as usize,
    };
    collection::in_turn::<EdgeRouters>(context, caller, call, candidates, routers_of_caller).await
}

fn routers_of_caller(
    context: &Context,
    caller: &Caller,
    selection: &Selection,
    meter: &Meter,
) -> Result<Reply> {
    let snapshot = context.snapshot();
    let login = login_of(caller)?;
    let mut found: Vec<&Arc<Router>> = match login.is_admin {
        true => snapshot.list::<Router>().filter(|it| it.is_verified).collect(),
        false => {
            let ordinals = snapshot.routers_of_identity(&Id::new(&login.identity));
            let routers = ordinals.iter().filter_map(|ordinal| snapshot.at::<Router>(ordinal));
            routers.filter(|it| it.is_verified).collect()
        }
    };
    found.sort_unstable_by(|a, b| a.base.id.cmp(&b.base.id));
    let listed =
        collection::select::<EdgeRouters>(context, caller, selection, found.into_iter(), meter)?;
    list::reply(&listed, EdgeRouters::SYMBOLS, meter, |it| {
        let mut router = common(context.online(), it);
        router.hostname.clear();
        let base = convert::base(ROUTERS, &it.base, &["edge-router-policies"]);
        Ok(OwnEdgeRouterDetail { base, router })
    })
}
