//! Service sessions for administrators (docs/protocol/management-api.md 7.8). Clients use
//! [`crate::domain::resources::service_session`].

use std::sync::Arc;

use weft_contract::resource::service_policy::COLLECTION as SERVICE_POLICIES;
use weft_contract::resource::service_session::{SessionManagementDetail, SessionRoutePath};
use weft_contract::{Api, EntityRef};
use weft_kernel::call::HandlerRow;
use weft_kernel::{Call, Caller, Reply, Result, rank};
use weft_model::entity::ServiceSession;
use weft_model::filter::Symbols;

use crate::Controller;
use crate::domain::context::Context;
use crate::domain::live::{self, InMemoryKind};
use crate::domain::resources::service_session::{self, SYMBOLS};

/// The resource.
pub(crate) struct Sessions;

impl InMemoryKind for Sessions {
    type Record = ServiceSession;
    type Detail = SessionManagementDetail;

    const NAME: &'static str = "session";
    const SYMBOLS: &'static Symbols<Context, ServiceSession> = &SYMBOLS;

    fn count(context: &Context) -> usize {
        context.sessions().count_services()
    }

    fn all(context: &Context) -> Vec<Arc<ServiceSession>> {
        context.sessions().all_services()
    }

    fn find(context: &Context, id: &str) -> Option<Arc<ServiceSession>> {
        context.sessions().service(id)
    }

    fn detail(context: &Context, record: &ServiceSession) -> Result<SessionManagementDetail> {
        let token = match context.caller().is_admin() {
            true => context.controller().auth().service_token(record)?,
            false => String::new(),
        };
        let session = service_session::shown(context, record, token);
        Ok(SessionManagementDetail { session, service_policies: policies(context, record) })
    }
}

/// The policies that grant a session.
fn policies(context: &Context, session: &ServiceSession) -> Vec<EntityRef> {
    let between =
        context.snapshot().service_policies_between(&session.identity_id, &session.service_id);
    let granting =
        between.into_iter().filter(|(_, policy)| policy.policy_type == session.session_type);
    let named = granting
        .map(|(_, policy)| EntityRef::new(SERVICE_POLICIES, policy.base.id.as_str(), &policy.name));
    named.collect()
}

/// The operations.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[
    (Api::Management, "listSessions", &live::list::<Sessions>),
    (Api::Management, "detailSession", &live::detail::<Sessions>),
    (Api::Management, "deleteSession", &delete),
    (Api::Management, "detailSessionRoutePath", &route_path),
];

/// Ends a session; routers end its circuits.
async fn delete(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let context = controller.context(&caller);
    let session = live::require::<Sessions>(&context, call.id(0))?;
    rank::guard_owner(&caller, context.snapshot(), &session.identity_id)?;
    let sessions = controller.auth().sessions();
    sessions.remove_services(std::slice::from_ref(&session.base.id));
    sessions.kept().await?;
    Reply::empty()
}

/// The routers of the first circuit of a session.
async fn route_path(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let context = controller.context(&caller);
    let session = live::require::<Sessions>(&context, call.id(0))?;
    let id = session.base.id.as_str();
    let circuits = controller.network().map(|network| network.circuits().of_client(id));
    let first = circuits
        .unwrap_or_default()
        .into_iter()
        .min_by(|one, other| (one.created_at, &one.id).cmp(&(other.created_at, &other.id)));
    let nodes = first.iter().flat_map(|circuit| &circuit.path.nodes);
    Reply::detail(&SessionRoutePath { route_path: nodes.map(ToString::to_string).collect() })
}
