//! Routers of any kind, under both of their paths (docs/protocol/management-api.md 7.5). The
//! collection holds every router; only those without edge that were made here are changed here.

use std::collections::BTreeMap;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use weft_contract::resource::router as contract;
use weft_contract::resource::router::{RouterBody, RouterDetail};
use weft_contract::{Action, Api, ErrorCode, Kind as ContractKind, Subject, Verb};
use weft_kernel::call::Handler;
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure, convert};
use weft_model::Id;
use weft_model::entity::{ConfigTarget, CtrlListener, Enrollment, EnrollmentMethod, Router};
use weft_model::filter::{Table, Type, Value};

use super::config_type::check_configs;
use super::edge_router::{connected, delete_tunneler, outstanding};
use crate::Controller;
use crate::domain::context::Context;
use crate::domain::resource::{self, Readable, Resource, detail_base};
use crate::domain::symbols::{each, maybe, symbols};

/// The resource.
pub(crate) struct Routers;

pub(super) static SYMBOLS: Table<Context, Router> = symbols!("routers", Router {
    Column::one("name", Type::String, |_, it| Value::text(&it.name)).public(),
    Column::one("fingerprint", Type::String, |_, it| maybe(&it.fingerprint)).public(),
    Column::one("cost", Type::Int, |_, it| Value::Int(it.cost.into())).public(),
    Column::one("noTraversal", Type::Bool, |_, it| Value::Bool(it.no_traversal)).public(),
    Column::one("disabled", Type::Bool, |_, it| Value::Bool(it.disabled)).public(),
    Column::one("isVerified", Type::Bool, |_, it| Value::Bool(it.is_verified)).public(),
    Column::one("isOnline", Type::Bool, connected).public(),
    Column::one("connected", Type::Bool, connected).public(),
    Column::set("configs", Type::String, |_, it, visit| each(&it.configs, visit)).public(),
});

impl Readable for Routers {
    type Record = Router;
    type Detail = RouterDetail;

    const KIND: &'static ContractKind = &contract::KIND;
    const SYMBOLS: &'static Table<Context, Router> = &SYMBOLS;

    fn detail(context: &Context, record: &Router) -> RouterDetail {
        let facts = context.online().router(record.base.id.as_str());
        let enrollment = match record.is_verified {
            true => None,
            false => outstanding(context.view(), &record.base.id),
        };
        let ticket = enrollment.filter(|it| may_enroll(context, it));
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        RouterDetail {
            base: detail_base::<Self>(&record.base),
            configs: convert::ids(&record.configs),
            cost: record.cost,
            ctrl_chan_listeners: listeners(record),
            disabled: record.disabled,
            enrollment_created_at: enrollment.map(|it| convert::time(it.base.created_at)),
            enrollment_expires_at: enrollment.map(|it| convert::time(it.expires_at)),
            enrollment_jwt: ticket.map(|it| context.jwt(it)),
            enrollment_token: ticket.map(|it| it.token.to_string()),
            fingerprint: record.fingerprint.as_deref().map(str::to_owned),
            interfaces: facts.as_ref().map(|it| it.interfaces.clone()).unwrap_or_default(),
            is_online: facts.is_some(),
            is_verified: record.is_verified,
            name: record.name.to_string(),
            no_traversal: record.no_traversal,
            unverified_cert_pem: text(&record.unverified_cert_pem),
            unverified_fingerprint: record.unverified_fingerprint.as_deref().map(str::to_owned),
        }
    }
}

/// Addresses where controllers may reach a router, with their groups, as bodies write them.
pub(super) fn listeners(record: &Router) -> BTreeMap<String, Vec<String>> {
    let listeners = record.ctrl_chan_listeners.iter();
    listeners.map(|(address, listener)| (address.clone(), listener.groups.clone())).collect()
}

/// The same out of a body.
pub(super) fn from_listeners(
    listeners: &BTreeMap<String, Vec<String>>,
) -> BTreeMap<String, CtrlListener> {
    let listeners = listeners.iter();
    let kept = |(address, groups): (&String, &Vec<String>)| {
        (address.clone(), CtrlListener { groups: groups.clone() })
    };
    listeners.map(kept).collect()
}

/// Whether the caller may have what enrolls a router: who only reads could become the router, and
/// who becomes the router becomes its identity.
pub(super) fn may_enroll(context: &Context, ticket: &Enrollment) -> bool {
    let may = |action| context.caller().is_granted(Subject::Router, action);
    let is_granted = may(Action::Create) || may(Action::Update);
    is_granted && super::enrollment::is_visible(context.caller(), context.view(), ticket)
}

/// Takes over what a router proves itself by; no body says it.
pub(super) fn keep_certificate(current: &Router, fresh: &mut Router) {
    fresh.fingerprint.clone_from(&current.fingerprint);
    fresh.cert_pem.clone_from(&current.cert_pem);
    fresh.is_verified = current.is_verified;
    fresh.unverified_cert_pem.clone_from(&current.unverified_cert_pem);
    fresh.unverified_fingerprint.clone_from(&current.unverified_fingerprint);
}

impl Resource for Routers {
    type Body = RouterBody;
    /// The enrollment of a new router.
    type Prepared = Option<Enrollment>;

    fn prepare<'a>(
        controller: &'a Controller,
        _caller: &'a Caller,
        _body: &'a RouterBody,
        verb: Verb,
        id: &'a Id,
    ) -> BoxFuture<'a, Result<Self::Prepared, Failure>> {
        async move {
            Ok((verb == Verb::Create).then(|| Enrollment {
                router_id: Some(id.clone()),
                ..controller.new_enrollment(EnrollmentMethod::Trott)
            }))
        }
        .boxed()
    }

    fn keep(current: &Router, fresh: &mut Router) {
        keep_certificate(current, fresh);
    }

    fn merge(
        record: &mut Router,
        body: &RouterBody,
        _prepared: &Self::Prepared,
        _verb: Verb,
    ) -> Result<(), Failure> {
        if let Some(name) = &body.name {
            record.name = name.as_str().into();
        }
        if let Some(cost) = body.cost {
            record.cost = cost;
        }
        if let Some(disabled) = body.disabled {
            record.disabled = disabled;
        }
        if let Some(no_traversal) = body.no_traversal {
            record.no_traversal = no_traversal;
        }
        if let Some(configs) = &body.configs {
            record.configs = convert::id_set("configs", configs)?;
        }
        if let Some(listeners) = &body.ctrl_chan_listeners {
            record.ctrl_chan_listeners = from_listeners(listeners);
        }
        if let Some(tags) = &body.tags {
            record.base.tags = convert::from_tags(tags);
        }
        Ok(())
    }

    fn validate(
        decision: &mut Decision<'_>,
        before: Option<&Router>,
        after: &mut Router,
        prepared: &Self::Prepared,
    ) -> Result<(), Failure> {
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

    fn on_delete(decision: &mut Decision<'_>, record: &Router) -> Result<(), Failure> {
        match record.is_tunneler_enabled {
            true => delete_tunneler(decision, &record.base.id),
            false => Ok(()),
        }
    }
}

/// The operations under the other path.
pub(crate) const HANDLERS: &[(Api, &str, Handler<Controller>)] = &[
    (Api::Management, "listRouters", resource::list::<Routers>),
    (Api::Management, "createRouter", resource::create::<Routers>),
    (Api::Management, "detailRouter", resource::detail::<Routers>),
    (Api::Management, "updateRouter", resource::replace::<Routers>),
    (Api::Management, "patchRouter", resource::patch::<Routers>),
    (Api::Management, "deleteRouter", resource::delete::<Routers>),
];
