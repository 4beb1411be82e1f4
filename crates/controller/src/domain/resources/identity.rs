//! Identities (docs/protocol/management-api.md 7.1).

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use weft_contract::resource::auth_policy::COLLECTION as AUTH_POLICIES;
use weft_contract::resource::ca::COLLECTION as CAS;
use weft_contract::resource::identity as contract;
use weft_contract::resource::identity::{
    IdentityAuthenticators, IdentityBody, IdentityCert, IdentityDetail, IdentityEnrollment,
    IdentityEnrollments, IdentityPassword, IdentityType as TypeWord,
};
use weft_contract::{
    Action, EntityRef, ErrorCode, Kind as ContractKind, Permission, Subject, Verb,
};
use weft_kernel::decision::Decision;
use weft_kernel::view::View;
use weft_kernel::{Caller, Failure, convert};
use weft_model::entity::{
    AuthPolicy, Authenticator, Ca, Enrollment, EnrollmentMethod, Identity, IdentityType, Mfa,
};
use weft_model::filter::{Index, Table, Type, Value};
use weft_model::{Id, Timestamp};

use crate::Controller;
use crate::domain::context::Context;
use crate::domain::resource::{Readable, Resource, Shown, detail_base};
use crate::domain::symbols::{each, maybe, symbols};

/// The resource.
pub(crate) struct Identities;

/// What is ready before an identity is decided.
pub(crate) struct Prepared {
    /// The enrollment that a new identity asks for.
    enrollment: Option<Enrollment>,
    verb: Verb,
}

static SYMBOLS: Table<Context, Identity> = symbols!("identities", Identity {
    Column::one("name", Type::String, |_, it| Value::text(&it.name)).public(),
    Column::set("roleAttributes", Type::String, |_, it, visit| each(&it.role_attributes, visit))
        .public(),
    Column::one("externalId", Type::String, |_, it| maybe(&it.external_id))
        .public()
        .indexed(Index::Unique(0)),
    Column::one("type", Type::String, |_, it| Value::text(it.identity_type.as_str())).public(),
    Column::one("authPolicyId", Type::String, |_, it| Value::text(it.auth_policy_id.as_str()))
        .public()
        .indexed(Index::Link(0)),
    Column::one("isAdmin", Type::Bool, |_, it| Value::Bool(it.is_admin)).public(),
    Column::one("isDefaultAdmin", Type::Bool, |_, it| Value::Bool(it.is_default_admin)).public(),
});

impl Readable for Identities {
    type Record = Identity;
    type Detail = IdentityDetail;

    const KIND: &'static ContractKind = &contract::KIND;
    const SYMBOLS: &'static Table<Context, Identity> = &SYMBOLS;

    fn shown(_caller: &Caller) -> Shown {
        Shown::All
    }

    fn detail(context: &Context, record: &Identity) -> IdentityDetail {
        let view = context.view();
        let id = record.base.id.as_str();
        let mut base = detail_base::<Self>(&record.base);
        let policy = convert::mention::<AuthPolicy>(view, AUTH_POLICIES, &record.auth_policy_id);
        if let Some(link) = policy.links.get("self") {
            base.links.insert("auth-policies".into(), link.clone());
        }
        let sessions = context.sessions().about_identity(id);
        let status = context.online().identity(id, context.now());
        let type_id = record.identity_type.as_str();
        IdentityDetail {
            base,
            app_data: convert::json(&record.app_data),
            auth_policy: policy,
            auth_policy_id: record.auth_policy_id.to_string(),
            authenticators: authenticators(view, id),
            default_hosting_cost: record.default_hosting_cost,
            default_hosting_precedence: convert::precedence(record.default_hosting_precedence),
            disabled: record.is_disabled(context.now()),
            disabled_at: record.disabled_at.map(convert::time),
            disabled_until: record.disabled_until.map(convert::time),
            edge_router_connection_status: status,
            enrollment: enrollments(context, id),
            env_info: sessions.env_info,
            external_id: record.external_id.as_deref().map(str::to_owned),
            has_api_session: sessions.logged_in,
            has_edge_router_connection: status == contract::ConnectionStatus::Online,
            interfaces: Vec::new(),
            is_admin: record.is_admin,
            is_default_admin: record.is_default_admin,
            is_mfa_enabled: view
                .unique::<Mfa>(Mfa::IDENTITY, id)
                .is_some_and(|mfa| mfa.is_verified),
            name: record.name.to_string(),
            permissions: (!record.permissions.is_empty())
                .then(|| convert::strings(&record.permissions)),
            role_attributes: convert::strings(&record.role_attributes),
            sdk_info: sessions.sdk_info,
            service_hosting_costs: record
                .service_hosting_costs
                .iter()
                .map(|(service, cost)| (service.to_string(), *cost))
                .collect(),
            service_hosting_precedences: record
                .service_hosting_precedences
                .iter()
                .map(|(service, each)| (service.to_string(), convert::precedence(*each)))
                .collect(),
            r#type: EntityRef::new(contract::TYPE_COLLECTION, type_id, type_id),
            type_id: type_id.to_owned(),
        }
    }
}

impl Resource for Identities {
    type Body = IdentityBody;
    type Prepared = Prepared;

    fn prepare<'a>(
        controller: &'a Controller,
        caller: &'a Caller,
        body: &'a IdentityBody,
        verb: Verb,
        id: &'a Id,
    ) -> BoxFuture<'a, Result<Prepared, Failure>> {
        async move {
            if verb == Verb::Replace && !caller.is_admin() {
                return Err(Failure::unauthorized("only administrators may replace identities"));
            }
            if let Some(field) = privileged(body, verb).filter(|_| !caller.is_admin()) {
                let reason = format!("only administrators may set {field} of an identity");
                return Err(Failure::unauthorized(reason));
            }
            let enrollment = match (&body.enrollment, verb) {
                (Some(wanted), Verb::Create) => enrollment(controller, wanted, id)?,
                _ => None,
            };
            Ok(Prepared { enrollment, verb })
        }
        .boxed()
    }

    fn guard(decision: &Decision<'_>, current: &Identity) -> Result<(), Failure> {
        decision.guard(current)
    }

    fn keep(current: &Identity, fresh: &mut Identity) {
        fresh.is_default_admin = current.is_default_admin;
        fresh.service_configs.clone_from(&current.service_configs);
        fresh.disabled_at = current.disabled_at;
        fresh.disabled_until = current.disabled_until;
        fresh.identity_type = current.identity_type;
    }

    fn merge(
        record: &mut Identity,
        body: &IdentityBody,
        _prepared: &Prepared,
        verb: Verb,
    ) -> Result<(), Failure> {
        if let Some(name) = &body.name {
            record.name = name.as_str().into();
        }
        if let Some(word) = body.identity_type {
            record.identity_type = match word {
                // A router's identity stays one; nobody else becomes one.
                TypeWord::Router if verb == Verb::Create => IdentityType::Default,
                _ => IdentityType::parse(word.as_str()).unwrap_or_default(),
            };
        }
        if let Some(is_admin) = body.is_admin {
            record.is_admin = is_admin;
        }
        match body.auth_policy_id.as_deref().map(str::trim) {
            Some("") => record.auth_policy_id = Id::new(AuthPolicy::DEFAULT_ID),
            Some(id) => record.auth_policy_id = convert::id_field("authPolicyId", id)?,
            None if record.auth_policy_id.is_empty() => {
                record.auth_policy_id = Id::new(AuthPolicy::DEFAULT_ID);
            }
            None => {}
        }
        if let Some(external) = body.external_id.as_deref().map(str::trim) {
            record.external_id = (!external.is_empty()).then(|| external.into());
        }
        if let Some(attributes) = &body.role_attributes {
            record.role_attributes = convert::attributes(attributes)?;
        }
        if let Some(cost) = body.default_hosting_cost {
            record.default_hosting_cost = cost;
        }
        if let Some(precedence) = body.default_hosting_precedence {
            record.default_hosting_precedence = convert::from_precedence(precedence);
        }
        if let Some(costs) = &body.service_hosting_costs {
            record.service_hosting_costs =
                convert::id_keys("serviceHostingCosts", costs, |cost| cost)?.into();
        }
        if let Some(map) = &body.service_hosting_precedences {
            record.service_hosting_precedences =
                convert::id_keys("serviceHostingPrecedences", map, convert::from_precedence)?
                    .into();
        }
        if let Some(data) = &body.app_data {
            record.app_data = data.clone().into();
        }
        if let Some(tags) = &body.tags {
            record.base.tags = convert::from_tags(tags);
        }
        if let Some(permissions) = &body.permissions {
            record.permissions = permissions_of(permissions)?.into();
        }
        Ok(())
    }

    fn validate(
        decision: &mut Decision<'_>,
        before: Option<&Identity>,
        after: &mut Identity,
        prepared: &Prepared,
    ) -> Result<(), Failure> {
        match before {
            Some(before) if before.identity_type == IdentityType::Router => {
                if before.name != after.name {
                    let reason = "the identity of a router is renamed with the router";
                    return Err(Failure::field("name", reason, &*after.name));
                }
                if prepared.verb == Verb::Patch && after.identity_type != before.identity_type {
                    let reason = "the identity of a router keeps its type";
                    return Err(Failure::field("typeId", reason, after.identity_type.as_str()));
                }
                after.identity_type = IdentityType::Router;
            }
            Some(_) if after.identity_type == IdentityType::Router => {
                let reason = "identities of routers are made with the router";
                return Err(Failure::field("typeId", reason, "Router"));
            }
            _ => {}
        }
        decision.require::<AuthPolicy>("authPolicyId", &after.auth_policy_id)?;
        decision.require_services("serviceHostingCosts", after.service_hosting_costs.keys())?;
        decision.require_services(
            "serviceHostingPrecedences",
            after.service_hosting_precedences.keys(),
        )?;
        if let Some(enrollment) = &prepared.enrollment {
            super::enrollment::check_ca(decision, enrollment)?;
            decision.put_later(enrollment.clone());
        }
        Ok(())
    }

    fn on_delete(decision: &mut Decision<'_>, record: &Identity) -> Result<(), Failure> {
        if record.is_default_admin {
            return Err(Failure::because(
                ErrorCode::EntityCanNotBeDeleted,
                "the default admin cannot be deleted",
            ));
        }
        if record.identity_type == IdentityType::Router {
            return Err(Failure::because(
                ErrorCode::EntityCanNotBeDeleted,
                "the identity of a router is deleted with the router",
            ));
        }
        // Its tokens are refused from now on, though nobody is left to ask for it.
        decision.put(super::identity_state::revocation(decision, &record.base.id));
        Ok(())
    }
}

/// The member of a body that only administrators may send, if it has one
/// (docs/protocol/management-api.md 4). A new identity to which nothing is granted is like any
/// other.
fn privileged(body: &IdentityBody, verb: Verb) -> Option<&'static str> {
    let is_new = verb == Verb::Create;
    let grants = body.permissions.as_ref().is_some_and(|it| !is_new || !it.is_empty());
    let raises = body.is_admin.is_some_and(|is_admin| is_admin || verb == Verb::Patch);
    match (grants, raises) {
        (true, _) => Some("permissions"),
        (_, true) => Some("isAdmin"),
        _ => None,
    }
}

/// The enrollment that a create body asks for: the first of ott, ottca, updb that is set.
fn enrollment(
    controller: &Controller,
    wanted: &contract::IdentityEnrollmentBody,
    identity: &Id,
) -> Result<Option<Enrollment>, Failure> {
    let set = |text: &Option<String>| {
        text.as_deref().map(str::trim).filter(|t| !t.is_empty()).map(str::to_owned)
    };
    let mut enrollment = match (wanted.ott, set(&wanted.ottca), set(&wanted.updb)) {
        (Some(true), _, _) => controller.new_enrollment(EnrollmentMethod::Ott),
        (_, Some(ca), _) => Enrollment {
            ca_id: Some(convert::id_field("caId", &ca)?),
            ..controller.new_enrollment(EnrollmentMethod::Ottca)
        },
        (_, _, Some(username)) => Enrollment {
            username: Some(convert::username("enrollment.updb", &username)?),
            ..controller.new_enrollment(EnrollmentMethod::Updb)
        },
        _ => return Ok(None),
    };
    enrollment.identity_id = Some(identity.clone());
    Ok(Some(enrollment))
}

/// Names of permissions, sorted; unknown ones are refused.
fn permissions_of(names: &[String]) -> Result<Vec<Arc<str>>, Failure> {
    let wrong: Vec<_> =
        names.iter().filter(|name| Permission::parse(name).is_none()).cloned().collect();
    if !wrong.is_empty() {
        let wrong = wrong.join(", ");
        let reason = format!("invalid permissions '{wrong}'");
        return Err(Failure::field("permissions", reason, wrong));
    }
    let mut names: Vec<Arc<str>> = names.iter().map(|name| name.as_str().into()).collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// What an identity can log in with.
fn authenticators(view: View<'_>, identity: &str) -> IdentityAuthenticators {
    let mut found = IdentityAuthenticators::default();
    for authenticator in view.referring::<Authenticator>(0, identity) {
        let id = authenticator.base.id.to_string();
        if let Some(cert) = &authenticator.cert {
            found.cert = Some(IdentityCert { fingerprint: cert.fingerprint.to_string(), id });
        } else if let Some(updb) = &authenticator.updb {
            found.updb = Some(IdentityPassword { id, username: updb.username.to_string() });
        }
    }
    found
}

/// Its outstanding enrollments. Who may not read enrollments of an administrator does not see
/// them here either; the tickets are for those who may read enrollments or make identities with
/// them (docs/protocol/management-api.md 4).
fn enrollments(context: &Context, identity: &str) -> IdentityEnrollments {
    let mut found = IdentityEnrollments::default();
    let has_tickets = context.caller().may(Subject::Enrollment, Action::Read)
        || context.caller().is_granted(Subject::Identity, Action::Create);
    let ticket = |text: &dyn Fn() -> String| if has_tickets { text() } else { String::new() };
    for enrollment in context.view().referring::<Enrollment>(0, identity) {
        if !super::enrollment::is_visible(context.caller(), context.view(), enrollment) {
            continue;
        }
        let shown = IdentityEnrollment {
            ca: enrollment.ca_id.as_ref().map(|id| convert::mention::<Ca>(context.view(), CAS, id)),
            ca_id: enrollment.ca_id.as_ref().map(Id::to_string),
            expires_at: convert::time(enrollment.expires_at),
            id: enrollment.base.id.to_string(),
            jwt: ticket(&|| context.jwt(enrollment)),
            token: ticket(&|| enrollment.token.to_string()),
        };
        match enrollment.method {
            EnrollmentMethod::Ott => found.ott = Some(shown),
            EnrollmentMethod::Ottca => found.ottca = Some(shown),
            EnrollmentMethod::Updb => found.updb = Some(shown),
            EnrollmentMethod::Erott | EnrollmentMethod::Trott => {}
        }
    }
    found
}

/// Disables an identity from now on; 0 minutes and fewer are "until it is enabled".
pub(crate) fn disabled(record: &Identity, minutes: i64, now: Timestamp) -> Identity {
    let mut record = record.clone();
    record.disabled_at = Some(now);
    let span = u64::try_from(minutes).unwrap_or(0).saturating_mul(60);
    record.disabled_until = (span > 0).then(|| now.plus(std::time::Duration::from_secs(span)));
    record.base.updated_at = now;
    record
}
