//! Enrollments: create, read, refresh and delete (docs/protocol/auth.md 4.3;
//! docs/protocol/management-api.md 7.7). [`weft_auth::enroll`] implements their use.

use weft_contract::resource::edge_router::COLLECTION as EDGE_ROUTERS;
use weft_contract::resource::enrollment as contract;
pub(crate) use weft_contract::resource::enrollment::COLLECTION;
use weft_contract::resource::enrollment::{EnrollmentBody, EnrollmentDetail, RefreshBody};
use weft_contract::resource::identity::COLLECTION as IDENTITIES;
use weft_contract::{Action, Api, EntityRef, ErrorCode, Kind as ContractKind, Subject, Verb};
use weft_kernel::call::HandlerRow;
use weft_kernel::decision::Decision;
use weft_kernel::view::View;
use weft_kernel::{Call, Caller, Failure, Reply, Result, convert, rank};
use weft_model::entity::{Ca, Enrollment, EnrollmentMethod, Identity, IdentityType, Router};
use weft_model::filter::{Index, Value};
use weft_model::{Choice as _, Id};

use crate::Controller;
use crate::domain::context::Context;
use crate::domain::fields::{Fields as _, fields};
use crate::domain::resource::{ListedRecords, Readable, Resource, require};

/// The resource.
pub(crate) struct Enrollments;

fields! {
    Enrollments of Enrollment, set by EnrollmentBody, shown as EnrollmentDetail,
    searched as "enrollments";

    method { merged, shown by ToString::to_string, searched }
    identity_id { merged, shown, searched as "identity" indexed Index::Link(0) }
    router_id { merged }
    search Column::one("edgeRouter", Type::String, |context, it| router(context, it, true))
        .public();
    search Column::one("transitRouter", Type::String, |context, it| router(context, it, false))
        .public();
    ca_id { merged, shown, searched indexed Index::Link(2) }
    expires_at { merged, shown, searched }
    token { merged }
    jwt { merged }
    username { merged, shown }
    read ca_id, expires_at, identity_id, method, username;
    show token by |context, it| match is_told(context.caller(), context.view(), it) {
        true => it.token.to_string(),
        false => String::new(),
    };
    show jwt by |context, it| match is_told(context.caller(), context.view(), it) {
        true => context.jwt(it),
        false => String::new(),
    };
    show ca by |context, it| {
        it.ca_id.as_ref().map(|id| convert::mention::<Ca>(context.view(), "cas", id))
    };
    show identity by |context, it| it.identity_id.as_ref().map(|id| {
        let name = context.view().get::<Identity>(id.as_str()).map(|it| it.name.to_string());
        EntityRef::short(IDENTITIES, id.as_str(), &name.unwrap_or_default())
    });
    show edge_router, edge_router_id, transit_router, transit_router_id elsewhere;
}

/// The id of the enrollment's router, if it is an edge router, or if it is none.
fn router<'r>(context: &Context, enrollment: &'r Enrollment, is_edge: bool) -> Value<'r> {
    let of_kind = |id: &&Id| {
        let router = context.view().get::<Router>(id.as_str());
        router.is_none_or(|router| router.is_edge) == is_edge
    };
    let found = enrollment.router_id.as_ref().filter(of_kind);
    found.map_or(Value::Null, |id| Value::text(id.as_str()))
}

impl Readable for Enrollments {
    const KIND: &'static ContractKind = &contract::KIND;

    fn shown(caller: &Caller) -> ListedRecords {
        if caller.is_admin() { ListedRecords::All } else { ListedRecords::Some }
    }

    fn is_visible(caller: &Caller, view: View<'_>, record: &Enrollment) -> bool {
        is_visible(caller, view, record)
    }

    fn detail(context: &Context, record: &Enrollment) -> EnrollmentDetail {
        let view = context.view();
        let router = record.router_id.as_ref().map(|id| {
            let found = view.get::<Router>(id.as_str());
            let name = found.map(|router| router.name.to_string()).unwrap_or_default();
            (EntityRef::new(EDGE_ROUTERS, id.as_str(), &name), found.is_none_or(|r| r.is_edge))
        });
        let (edge, transit) = match router {
            Some((router, true)) => (Some(router), None),
            Some((router, false)) => (None, Some(router)),
            None => (None, None),
        };
        let id_of = |router: &Option<EntityRef>| {
            router.as_ref().map(|router| router.id.clone()).unwrap_or_default()
        };
        EnrollmentDetail {
            edge_router_id: id_of(&edge),
            edge_router: edge,
            transit_router_id: id_of(&transit),
            transit_router: transit,
            ..Self::show(context, record)
        }
    }
}

/// Whether a caller may see an enrollment. Its holder could become the identity (or the router's
/// identity), so callers do not see enrollments of identities with more rights than their own
/// (docs/protocol/management-api.md 4).
pub(crate) fn is_visible(caller: &Caller, view: View<'_>, record: &Enrollment) -> bool {
    let whose = [&record.identity_id, &record.router_id].into_iter().flatten();
    let mut identities = whose.filter_map(|id| view.get::<Identity>(id.as_str()));
    !identities.any(|identity| rank::may_more(caller, identity))
}

/// Whether a caller that may see an enrollment is told its token. The permissions for enrollments are for
/// those of identities: the tickets of routers are for callers that may create or change routers.
fn is_told(caller: &Caller, view: View<'_>, record: &Enrollment) -> bool {
    record.router_id.is_none() || may_enroll(caller, view, record)
}

impl Resource for Enrollments {
    /// The token and the times of a new enrollment.
    type Prepared = Enrollment;

    async fn prepare(
        controller: &Controller,
        _caller: &Caller,
        body: &EnrollmentBody,
        _verb: Verb,
        _id: &Id,
    ) -> Result<Enrollment> {
        let word = body.method.as_deref().unwrap_or_default();
        let method = EnrollmentMethod::parse(word)
            .filter(|_| contract::method::FOR_IDENTITIES.contains(&word))
            .ok_or_else(|| {
                let all = contract::method::FOR_IDENTITIES.join(", ");
                Failure::field("method", format!("must be one of {all}"), word)
            })?;
        let expires_at = convert::from_time(body.expires_at.unwrap_or_default());
        if expires_at <= controller.kernel().now() {
            let reason = "must be in the future";
            return Err(Failure::invalid_field("expiresAt", reason, expires_at.to_string()));
        }
        Ok(Enrollment { expires_at, ..controller.kernel().new_enrollment(method) })
    }

    fn merge(
        record: &mut Enrollment,
        body: &EnrollmentBody,
        prepared: &Enrollment,
        _verb: Verb,
    ) -> Result<()> {
        let set = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        *record = Enrollment { base: record.base.clone(), ..prepared.clone() };
        let identity = body.identity_id.as_deref().unwrap_or_default();
        record.identity_id = Some(convert::id_field("identityId", identity)?);
        let required =
            |field: &str| Failure::invalid_field(field, format!("{field} is required"), "");
        match record.method {
            EnrollmentMethod::Ottca => {
                let ca = set(&body.ca_id).ok_or_else(|| required("caId"))?;
                record.ca_id = Some(convert::id_field("caId", &ca)?);
            }
            EnrollmentMethod::Updb => {
                let username = set(&body.username).ok_or_else(|| required("username"))?;
                record.username = Some(convert::username("username", &username)?);
            }
            _ => {}
        }
        Ok(())
    }

    fn validate(
        decision: &mut Decision<'_>,
        _before: Option<&Enrollment>,
        after: &mut Enrollment,
        _prepared: &Enrollment,
    ) -> Result<()> {
        let id = after.identity_id.clone().unwrap_or_default();
        let identity = decision.tip().get::<Identity>(&id).ok_or_else(|| {
            Failure::invalid_field("identityId", "names no identity", id.as_str())
        })?;
        if identity.identity_type == IdentityType::Router {
            let reason = "identities of routers cannot be enrolled";
            return Err(Failure::field("identityId", reason, id.as_str()));
        }
        guard(decision, after)?;
        check_ca(decision, after)?;
        check_outstanding(decision, after)
    }

    fn guard(decision: &Decision<'_>, current: &Enrollment) -> Result<()> {
        guard(decision, current)
    }
}

fn guard(decision: &Decision<'_>, record: &Enrollment) -> Result<()> {
    if is_visible(decision.caller(), decision.view(), record) {
        return Ok(());
    }
    Err(Failure::unauthorized("the enrollment is for an identity with more rights than the caller"))
}

/// Checks that the CA of a ticket is verified.
pub(crate) fn check_ca(decision: &Decision<'_>, enrollment: &Enrollment) -> Result<()> {
    let Some(ca) = &enrollment.ca_id else { return Ok(()) };
    let known = decision.tip().get::<Ca>(ca);
    let known = known.ok_or_else(|| Failure::invalid_field("caId", "names no CA", ca.as_str()))?;
    if known.is_verified {
        return Ok(());
    }
    Err(Failure::because(ErrorCode::EnrollmentCaNotValid, "the CA is not verified"))
}

/// Checks that an identity has at most one unused enrollment of each method.
fn check_outstanding(decision: &Decision<'_>, enrollment: &Enrollment) -> Result<()> {
    let identity = enrollment.identity_id.clone().unwrap_or_default();
    let mut others = decision.tip().referring::<Enrollment>(0, &identity);
    if others.any(|other| other.method == enrollment.method) {
        let word = enrollment.method.as_str();
        let reason = format!("the identity has an outstanding enrollment of method {word}");
        return Err(Failure::coded_field(ErrorCode::EnrollmentExists, "method", reason, word));
    }
    Ok(())
}

/// The actions on enrollments.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] =
    &[(Api::Management, "refreshEnrollment", &refresh)];

/// Gives an enrollment a new token and a new end; its id stays (docs/protocol/management-api.md 5,
/// notes).
async fn refresh(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let body: RefreshBody = call.decode(Verb::Create)?;
    let expires_at = convert::from_time(body.expires_at.unwrap_or_default());
    if expires_at <= controller.kernel().now() {
        let reason = "must be in the future";
        return Err(Failure::field("expiresAt", reason, expires_at.to_string()));
    }
    let token = controller.kernel().ids().token();
    let id = call.id(0).to_owned();
    let answer = Reply::created(COLLECTION, &id)?.with_status(200);
    controller
        .kernel()
        .decide(&caller, move |decision| {
            let mut record = (**require::<Enrollments>(decision.view(), &id)?).clone();
            guard(decision, &record)?;
            if !is_told(decision.caller(), decision.view(), &record) {
                let reason =
                    "renewing the ticket of a router needs `router.create` or `router.update`";
                return Err(Failure::unauthorized(reason));
            }
            record.token = token.as_str().into();
            record.expires_at = expires_at;
            record.base.updated_at = decision.now();
            decision.put(record);
            Ok(())
        })
        .await?;
    Ok(answer)
}

/// Whether the caller may see the ticket of a router. The ticket's holder becomes the router and
/// its identity, so the permission to read routers is not enough.
pub(super) fn may_enroll(caller: &Caller, view: View<'_>, ticket: &Enrollment) -> bool {
    let may = |action| caller.is_granted(Subject::Router, action);
    let is_granted = may(Action::Create) || may(Action::Update);
    is_granted && is_visible(caller, view, ticket)
}
