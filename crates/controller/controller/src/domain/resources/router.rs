//! Routers of any kind, under both of their paths (docs/protocol/management-api.md 7.5). The
//! collection lists every router. It changes only routers without edge that it made.

use weft_contract::resource::router as contract;
use weft_contract::resource::router::{RouterBody, RouterDetail};
use weft_contract::{Api, ErrorCode, Kind as ContractKind, Verb};
use weft_kernel::call::HandlerRow;
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure, Result, convert};
use weft_model::Id;
use weft_model::entity::{ConfigTarget, Enrollment, EnrollmentMethod, Router};

use super::config_type::check_configs;
use super::edge_router::{EdgeRouters, connected, outstanding};
use super::enrollment::may_enroll;
use crate::Controller;
use crate::domain::context::Context;
use crate::domain::fields::{Fields as _, fields};
use crate::domain::resource::{self, Readable, Resource};

/// The resource.
pub(crate) struct Routers;

fields! {
    Routers of Router, set by RouterBody, shown as RouterDetail, searched as "routers";

    tags;
    name { set, shown, searched }
    fingerprint { kept, shown, searched }
    cost { set, shown, searched }
    no_traversal { set, shown, searched }
    disabled { set, shown, searched }
    is_verified { kept, shown, searched }
    search Column::one("isOnline", Type::Bool, connected).public();
    search Column::one("connected", Type::Bool, connected).public();
    configs { set, shown, searched }
    ctrl_chan_listeners { set, shown }
    is_edge { kept }
    is_fabric_only { kept }
    is_tunneler_enabled { kept }
    role_attributes { kept }
    app_data { kept }
    cert_pem { kept }
    unverified_cert_pem { kept, shown by if_any }
    unverified_fingerprint { kept, shown }
    show enrollment_created_at, enrollment_expires_at elsewhere;
    show enrollment_jwt, enrollment_token elsewhere;
    show interfaces, is_online elsewhere;
}

impl Readable for Routers {
    const KIND: &'static ContractKind = &contract::KIND;

    fn detail(context: &Context, record: &Router) -> RouterDetail {
        let facts = context.online().router(record.base.id.as_str());
        let enrollment = match record.is_verified {
            true => None,
            false => outstanding(context.view(), &record.base.id),
        };
        let ticket = enrollment.filter(|it| may_enroll(context.caller(), context.view(), it));
        RouterDetail {
            enrollment_created_at: enrollment.map(|it| convert::time(it.base.created_at)),
            enrollment_expires_at: enrollment.map(|it| convert::time(it.expires_at)),
            enrollment_jwt: ticket.map(|it| context.jwt(it)),
            enrollment_token: ticket.map(|it| it.token.to_string()),
            interfaces: facts.as_ref().map(|it| it.interfaces.to_vec()).unwrap_or_default().into(),
            is_online: facts.is_some(),
            ..Self::show(context, record)
        }
    }
}

/// A text; none if it is empty.
pub(super) fn if_any(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl Resource for Routers {
    /// The enrollment of a new router.
    type Prepared = Option<Enrollment>;

    async fn prepare(
        controller: &Controller,
        _caller: &Caller,
        _body: &RouterBody,
        verb: Verb,
        id: &Id,
    ) -> Result<Self::Prepared> {
        Ok((verb == Verb::Create).then(|| Enrollment {
            router_id: Some(id.clone()),
            ..controller.kernel().new_enrollment(EnrollmentMethod::Trott)
        }))
    }

    fn validate(
        decision: &mut Decision<'_>,
        before: Option<&Router>,
        after: &mut Router,
        prepared: &Self::Prepared,
    ) -> Result<()> {
        if before.is_some_and(|before| before.is_edge || before.is_fabric_only) {
            let reason = "the router is changed by the API that made it: `/edge-routers` for edge \
                          routers, the fabric API for its own";
            return Err(Failure::because(ErrorCode::CanNotUpdateRouter, reason));
        }
        if before.is_none_or(|before| before.configs != after.configs) {
            check_configs(decision, ConfigTarget::Router, &after.configs)?;
        }
        if let Some(enrollment) = prepared {
            decision.put_later(enrollment.clone());
        }
        Ok(())
    }

    fn on_delete(decision: &mut Decision<'_>, record: &Router) -> Result<()> {
        EdgeRouters::on_delete(decision, record)
    }
}

/// The operations under the other path.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[
    (Api::Management, "listRouters", &resource::list::<Routers>),
    (Api::Management, "createRouter", &resource::create::<Routers>),
    (Api::Management, "detailRouter", &resource::detail::<Routers>),
    (Api::Management, "updateRouter", &resource::replace::<Routers>),
    (Api::Management, "patchRouter", &resource::patch::<Routers>),
    (Api::Management, "deleteRouter", &resource::delete::<Routers>),
];
