//! Edge routers (docs/protocol/management-api.md 7.5). A router with a tunneler has an identity and
//! a system policy of the same id, made, renamed and deleted with it.

use std::sync::Arc;

use weft_contract::resource::edge_router as contract;
use weft_contract::resource::edge_router::{EdgeRouterBody, EdgeRouterDetail, VersionInfo};
use weft_contract::{Api, Kind as ContractKind, Verb};
use weft_kernel::call::HandlerRow;
use weft_kernel::decision::Decision;
use weft_kernel::view::View;
use weft_kernel::{Call, Caller, Reply, Result, convert};
use weft_model::entity::{
    AuthPolicy, ConfigTarget, EdgeRouterPolicy, Enrollment, EnrollmentMethod, Identity,
    IdentityType, Router,
};
use weft_model::filter::{Index, Value};
use weft_model::{Base, Id, Kind, Roles, Semantic};

use super::config_type::check_configs;
use super::enrollment::may_enroll;
use super::router::if_any;
use crate::Controller;
use crate::domain::context::Context;
use crate::domain::fields::{Fields as _, fields};
use crate::domain::resource::{ListedRecords, Readable, Resource, require};
use crate::domain::resources::known_routers::common;

/// The resource of edge routers in the management API.
pub(crate) struct EdgeRouters;

/// Whether a router is connected. Filters know it under the name of the detail, and under the names
/// that filters of the original use.
pub(super) fn connected<'r>(context: &'r Context, router: &'r Router) -> Value<'r> {
    Value::Bool(context.is_online(&router.base.id))
}

fields! {
    EdgeRouters of Router, set by EdgeRouterBody, shown as EdgeRouterDetail,
    searched as "edge-routers";

    tags;
    name { set, shown, searched }
    fingerprint { kept, shown, searched indexed Index::Unique(0) }
    cost { set, shown, searched }
    no_traversal { set, shown, searched }
    disabled { set, shown, searched }
    is_verified { kept, shown, searched }
    is_tunneler_enabled { set, shown, searched }
    search Column::one("isOnline", Type::Bool, connected).public();
    search Column::one("online", Type::Bool, connected).public();
    search Column::one("connected", Type::Bool, connected).public();
    role_attributes { set, shown, searched }
    configs { set, shown, searched indexed Index::Link(0) }
    app_data { set, shown }
    ctrl_chan_listeners { set, shown }
    is_edge { kept, merged }
    is_fabric_only { kept }
    cert_pem { kept, shown by if_any }
    unverified_cert_pem { kept, shown by if_any }
    unverified_fingerprint { kept, shown }
    show enrollment_created_at, enrollment_expires_at elsewhere;
    show enrollment_jwt, enrollment_token elsewhere;
    show capabilities, hostname, interfaces, is_online, supported_protocols elsewhere;
    show sync_status, version_info elsewhere;
}

impl Readable for EdgeRouters {
    const KIND: &'static ContractKind = &contract::KIND;

    fn shown(_caller: &Caller) -> ListedRecords {
        ListedRecords::Eligible
    }

    fn belongs(record: &Router) -> bool {
        record.is_edge
    }

    fn detail(context: &Context, record: &Router) -> EdgeRouterDetail {
        let common = common(context.online(), record);
        let facts = context.online().router(record.base.id.as_str());
        let enrollment = match record.is_verified {
            true => None,
            false => outstanding(context.view(), &record.base.id),
        };
        let ticket = enrollment.filter(|it| may_enroll(context.caller(), context.view(), it));
        EdgeRouterDetail {
            capabilities: common.capabilities,
            enrollment_created_at: enrollment.map(|it| convert::time(it.base.created_at)),
            enrollment_expires_at: enrollment.map(|it| convert::time(it.expires_at)),
            enrollment_jwt: ticket.map(|it| context.jwt(it)),
            enrollment_token: ticket.map(|it| it.token.to_string()),
            hostname: common.hostname,
            interfaces: facts.as_ref().map(|it| it.interfaces.to_vec()).unwrap_or_default().into(),
            is_online: facts.is_some(),
            supported_protocols: common.supported_protocols,
            sync_status: common.sync_status,
            version_info: facts.as_ref().map(|facts| VersionInfo {
                arch: facts.version.arch.clone(),
                build_date: facts.version.build_date.clone(),
                os: facts.version.os.clone(),
                revision: facts.version.revision.clone(),
                version: facts.version.version.clone(),
            }),
            ..Self::show(context, record)
        }
    }
}

impl Resource for EdgeRouters {
    /// The enrollment of a new router.
    type Prepared = Option<Enrollment>;

    async fn prepare(
        controller: &Controller,
        _caller: &Caller,
        _body: &EdgeRouterBody,
        verb: Verb,
        id: &Id,
    ) -> Result<Self::Prepared> {
        Ok((verb == Verb::Create).then(|| Enrollment {
            router_id: Some(id.clone()),
            ..controller.kernel().new_enrollment(EnrollmentMethod::Erott)
        }))
    }

    fn merge(
        record: &mut Router,
        body: &EdgeRouterBody,
        _prepared: &Self::Prepared,
        verb: Verb,
    ) -> Result<()> {
        record.is_edge = true;
        Self::set(record, body, verb)
    }

    fn validate(
        decision: &mut Decision<'_>,
        before: Option<&Router>,
        after: &mut Router,
        prepared: &Self::Prepared,
    ) -> Result<()> {
        if before.is_none_or(|before| before.configs != after.configs) {
            check_configs(decision, ConfigTarget::Router, &after.configs)?;
        }
        if let Some(enrollment) = prepared {
            decision.put_later(enrollment.clone());
        }
        let had_tunneler = before.is_some_and(|before| before.is_tunneler_enabled);
        match (had_tunneler, after.is_tunneler_enabled) {
            (true, false) => delete_tunneler(decision, &after.base.id),
            (_, true) => put_tunneler(decision, after),
            (false, false) => Ok(()),
        }
    }

    fn on_delete(decision: &mut Decision<'_>, record: &Router) -> Result<()> {
        match record.is_tunneler_enabled {
            true => delete_tunneler(decision, &record.base.id),
            false => Ok(()),
        }
    }
}

/// The enrollment of a router that is not used yet; `None` if the router has none.
pub(crate) fn outstanding<'v>(view: View<'v>, router: &Id) -> Option<&'v Arc<Enrollment>> {
    view.referring::<Enrollment>(1, router.as_str()).into_iter().next()
}

/// Makes the identity and the policy of a router's tunneler if they are missing, and gives them the
/// name of the router.
pub(crate) fn put_tunneler(decision: &mut Decision<'_>, router: &Router) -> Result<()> {
    let id = &router.base.id;
    let view = decision.view();
    let now = decision.now();
    let identity = match view.get::<Identity>(id.as_str()) {
        Some(identity) if identity.name == router.name => None,
        Some(identity) => Some((**identity).clone()),
        None => Some(Identity {
            base: Base::new(id.clone(), now),
            identity_type: IdentityType::Router,
            auth_policy_id: Id::new(AuthPolicy::DEFAULT_ID),
            ..Identity::default()
        }),
    };
    if let Some(mut identity) = identity {
        identity.name = router.name.clone();
        identity.base.updated_at = now;
        decision.put_later(identity);
    }
    if !decision.tip().contains(Kind::EdgeRouterPolicy, id) {
        let own = Roles { ids: vec![id.clone()], ..Roles::default() };
        decision.put_later(EdgeRouterPolicy {
            base: Base { is_system: true, ..Base::new(id.clone(), now) },
            name: format!("edge-router-{id}-system").into(),
            semantic: Semantic::AnyOf,
            identity_roles: own.clone(),
            edge_router_roles: own,
        });
    }
    Ok(())
}

/// Deletes the identity and the policy of a router's tunneler.
fn delete_tunneler(decision: &mut Decision<'_>, id: &Id) -> Result<()> {
    decision.delete_if_there(Kind::EdgeRouterPolicy, id)?;
    decision.delete_if_there(Kind::Identity, id)
}

/// The actions on edge routers.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] =
    &[(Api::Management, "reEnrollEdgeRouter", &re_enroll)];

/// Re-enrolls a router: its certificate is refused from now on, and a new enrollment replaces the
/// old one.
async fn re_enroll(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let id = call.id(0).to_owned();
    let enrollment = Enrollment {
        router_id: Some(Id::new(&id)),
        ..controller.kernel().new_enrollment(EnrollmentMethod::Erott)
    };
    controller
        .kernel()
        .decide(&caller, move |decision| {
            let mut router = (**require::<EdgeRouters>(decision.view(), &id)?).clone();
            for old in decision.view().referring::<Enrollment>(1, &id) {
                decision.delete(Kind::Enrollment, &old.base.id)?;
            }
            router.fingerprint = None;
            router.cert_pem.clear();
            router.unverified_fingerprint = None;
            router.unverified_cert_pem.clear();
            router.is_verified = false;
            router.base.updated_at = decision.now();
            decision.put(router);
            decision.put_later(enrollment.clone());
            Ok(())
        })
        .await?;
    Reply::empty()
}
