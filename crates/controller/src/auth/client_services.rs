//! What a client may see of the network: its services, their routers and terminators, its own
//! routers (docs/protocol/auth.md 17.4, 17.6). There is no exception for administrators.

use std::sync::Arc;

use futures::FutureExt as _;
use roaring::RoaringBitmap;
use weft_contract::entity::DialBind;
use weft_contract::resource::edge_router::{COLLECTION as ROUTERS, OwnEdgeRouterDetail};
use weft_contract::resource::service::{COLLECTION as SERVICES, ServiceDetail, ServiceEdgeRouters};
use weft_contract::resource::terminator::{COLLECTION as TERMINATORS, TerminatorClientDetail};
use weft_contract::{Action, Api, Subject};
use weft_model::Id;
use weft_model::entity::{Identity, PolicyType, Router, Service, Terminator};

use super::current::login_of;
use super::posture::Viewer;
use crate::domain::call::{Answer, Call, Handler, Reply};
use crate::domain::convert;
use crate::domain::list;
use crate::domain::resources::edge_router::{EdgeRouters, common};
use crate::domain::resources::service::{Services, WantedConfigs, permissions, shown};
use crate::domain::resources::terminator::Terminators;
use crate::domain::view::Context;
use crate::{Caller, Controller, Failure};

/// The operations.
pub(crate) const HANDLERS: &[(Api, &str, Handler)] = &[
    (Api::Client, "listServices", list_services),
    (Api::Client, "detailService", detail_service),
    (Api::Client, "listServiceEdgeRouters", service_routers),
    (Api::Client, "listServiceTerminators", service_terminators),
    (Api::Client, "getCurrentIdentityEdgeRouters", own_routers),
    (Api::Management, "listServices", list_as),
];

/// The services an identity may dial or host.
fn services_of(context: &Context, identity: &str) -> RoaringBitmap {
    let (snapshot, id) = (context.snapshot(), Id::new(identity));
    snapshot.services_of(&id, PolicyType::Dial) | snapshot.services_of(&id, PolicyType::Bind)
}

/// A service as this viewer sees it.
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

fn list_services(controller: Controller, caller: Caller, call: Call) -> Answer {
    async move {
        let identity = login_of(&caller)?.identity.clone();
        let context = controller.context(&caller);
        let found = services_of(&context, &identity);
        let viewer = Viewer::of_caller(&context);
        seen_by(viewer, Some(found), context, caller, call).await
    }
    .boxed()
}

/// The management list: every service, or with `asIdentity` those of an identity, with the
/// configs that are asked for.
fn list_as(controller: Controller, caller: Caller, call: Call) -> Answer {
    async move {
        let context = controller.context(&caller);
        let as_identity = match call.query.get("asIdentity").filter(|text| !text.is_empty()) {
            Some(text) if caller.may(Subject::Identity, Action::Read) => {
                let found = context.snapshot().by_id_or_name::<Identity>(text);
                let found = found.ok_or_else(|| Failure::not_found("identity", text))?;
                Some(found.base.id.clone())
            }
            Some(_) => return Err(Failure::unauthorized("asIdentity needs identity.read")),
            None => None,
        };
        let (viewer, found) = match &as_identity {
            Some(identity) => (
                Viewer::new(context.controller(), identity, None),
                Some(services_of(&context, identity.as_str())),
            ),
            None => (Viewer::of_caller(&context), None),
        };
        seen_by(viewer, found, context, caller, call).await
    }
    .boxed()
}

/// A page of all services, or of these, as somebody sees them.
async fn seen_by(
    viewer: Viewer,
    services: Option<RoaringBitmap>,
    context: Context,
    caller: Caller,
    call: Call,
) -> Result<Reply, Failure> {
    let roles = list::role_filter(&call.query)?.map(|(roles, semantic)| {
        context.snapshot().with_roles(weft_model::Kind::Service, &roles, semantic)
    });
    let within = match (services, roles) {
        (Some(services), Some(roles)) => Some(services & roles),
        (services, roles) => services.or(roles),
    };
    let wanted = WantedConfigs::of_request(&context, &call.query);
    let detail =
        move |context: &Context, service: &Service| detail_for(context, &viewer, &wanted, service);
    list::search::<Services, _>(context, caller, call, within, detail).await
}

/// A service that the caller may dial or host.
fn permitted(context: &Context, caller: &Caller, id: &str) -> Result<Arc<Service>, Failure> {
    let login = login_of(caller)?;
    let service = context.view().get::<Service>(id).filter(|service| !service.is_fabric_only);
    let permitted = service.filter(|service| {
        permissions(context.view(), &login.identity, &service.base.id) != [DialBind::Invalid]
    });
    permitted.cloned().ok_or_else(|| Failure::not_found("service", id))
}

fn detail_service(controller: Controller, caller: Caller, call: Call) -> Answer {
    async move {
        let context = controller.context(&caller);
        let service = permitted(&context, &caller, call.id(0))?;
        let wanted = WantedConfigs::of_request(&context, &call.query);
        let viewer = Viewer::of_caller(&context);
        Reply::detail(&detail_for(&context, &viewer, &wanted, &service))
    }
    .boxed()
}

/// The routers that policies give an identity for a service, those that are connected first, then
/// ordered by id. Clients are told of the others too: they may come back while a session lasts.
pub(crate) fn routers_between(context: &Context, identity: &str, service: &Id) -> Vec<Arc<Router>> {
    in_order(context, &context.snapshot().routers_between(&Id::new(identity), service))
}

/// The routers with these ordinals, as clients are told of them.
pub(crate) fn in_order(context: &Context, ordinals: &RoaringBitmap) -> Vec<Arc<Router>> {
    let mut found: Vec<_> = context.snapshot().entities::<Router>(ordinals).cloned().collect();
    let online = context.online().among(found.iter().map(|it| &it.base.id));
    found.sort_by_cached_key(|it| (!online.contains(&it.base.id), it.base.id.clone()));
    found
}

fn service_routers(controller: Controller, caller: Caller, call: Call) -> Answer {
    async move {
        let context = controller.context(&caller);
        let service = permitted(&context, &caller, call.id(0))?;
        let identity = &login_of(&caller)?.identity;
        let routers = routers_between(&context, identity, &service.base.id);
        let edge_routers = routers.iter().map(|router| common(&context, router)).collect();
        Reply::detail(&ServiceEdgeRouters { edge_routers })
    }
    .boxed()
}

fn service_terminators(controller: Controller, caller: Caller, call: Call) -> Answer {
    async move {
        let context = controller.context(&caller);
        let service = permitted(&context, &caller, call.id(0))?;
        let link = Terminator::SERVICE;
        let mut found = context.view().referring::<Terminator>(link, service.base.id.as_str());
        found.sort_unstable_by(|a, b| a.base.id.cmp(&b.base.id));
        let listed =
            list::select::<Terminators>(&context, &caller, &call.query, found.into_iter())?;
        let details: Vec<_> = listed
            .rows
            .iter()
            .map(|row| {
                let it = row.record();
                TerminatorClientDetail {
                    base: convert::base(TERMINATORS, &it.base, &[]),
                    identity: it.instance_id.to_string(),
                    router_id: it.router_id.to_string(),
                    service: convert::mention::<Service>(context.view(), SERVICES, &it.service_id),
                    service_id: it.service_id.to_string(),
                }
            })
            .collect();
        list::reply::<Terminators>(&listed, &details)
    }
    .boxed()
}

/// The routers the caller may connect to: an administrator may connect to every verified one.
fn own_routers(controller: Controller, caller: Caller, call: Call) -> Answer {
    async move {
        let context = controller.context(&caller);
        let snapshot = context.snapshot();
        let login = login_of(&caller)?;
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
            list::select::<EdgeRouters>(&context, &caller, &call.query, found.into_iter())?;
        let details: Vec<_> = listed
            .rows
            .iter()
            .map(|row| {
                let mut router = common(&context, row.record());
                router.hostname.clear();
                let base = convert::base(ROUTERS, &row.record().base, &["edge-router-policies"]);
                OwnEdgeRouterDetail { base, router }
            })
            .collect();
        list::reply::<EdgeRouters>(&listed, &details)
    }
    .boxed()
}
