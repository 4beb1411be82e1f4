//! Identities (docs/protocol/management-api.md 7.1).

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_contract::entity::PrecedenceWord;
use weft_contract::resource::auth_policy::COLLECTION as AUTH_POLICIES;
use weft_contract::resource::ca::COLLECTION as CAS;
use weft_contract::resource::identity::{
    IdentityAuthenticators, IdentityBody, IdentityCert, IdentityDetail, IdentityEnrollment,
    IdentityEnrollments, IdentityPassword, IdentityType as TypeWord,
};
use weft_contract::resource::{identity as contract, identity_type};
use weft_contract::{
    Action, EntityRef, ErrorCode, Kind as ContractKind, Permission, Subject, Verb,
};
use weft_kernel::decision::Decision;
use weft_kernel::view::View;
use weft_kernel::{Caller, Failure, Result, convert};
use weft_model::entity::{
    AuthPolicy, Authenticator, Ca, Enrollment, EnrollmentMethod, Identity, IdentityType, Mfa,
    Precedence,
};
use weft_model::filter::Index;
use weft_model::{Choice as _, Id, Sparse, Timestamp};

use crate::Controller;
use crate::domain::context::Context;
use crate::domain::fields::{Fields as _, fields};
use crate::domain::resource::{ListedRecords, Readable, Resource};
use crate::domain::values::{Show as _, choice, word};

/// The resource.
pub(crate) struct Identities;

/// Prepared values of an identity.
#[derive(Default)]
pub(crate) struct Prepared {
    /// The enrollment that a new identity asks for.
    enrollment: Option<Enrollment>,
    /// Whether the operation is a patch.
    is_patch: bool,
}

fields! {
    Identities of Identity, set by IdentityBody, shown as IdentityDetail, searched as "identities";

    tags;
    name { set, shown, searched }
    role_attributes { set, shown, searched }
    external_id { set, shown, searched indexed Index::Unique(0) }
    identity_type { kept, merged, shown as type_id by ToString::to_string, searched as "type" }
    auth_policy_id { merged, shown, searched indexed Index::Link(0) }
    is_admin { set, shown, searched }
    is_default_admin { kept, shown, searched }
    default_hosting_precedence { set by choice, shown by word }
    default_hosting_cost { set, shown }
    service_hosting_precedences { set by precedences, shown by precedence_words }
    service_hosting_costs { set, shown }
    app_data { set, shown }
    disabled_at { kept, shown }
    disabled_until { kept, shown }
    service_configs { kept }
    enrolled_by { kept }
    permissions { set by permissions_of, shown by if_any }
    read auth_policy_id, enrollment, identity_type;
    show r#type by |_, it| {
        let word = it.identity_type.as_str();
        EntityRef::new(identity_type::COLLECTION, word, word)
    };
    show auth_policy by |context, it| {
        convert::mention::<AuthPolicy>(context.view(), AUTH_POLICIES, &it.auth_policy_id)
    };
    show authenticators by |context, it| authenticators(context.view(), it.base.id.as_str());
    show enrollment by |context, it| enrollments(context, it.base.id.as_str());
    show disabled by |context, it| it.is_disabled(context.now());
    show is_mfa_enabled by |context, it| {
        let mfa = context.view().unique::<Mfa>(Mfa::IDENTITY, it.base.id.as_str());
        mfa.is_some_and(|mfa| mfa.is_verified)
    };
    show edge_router_connection_status, has_edge_router_connection elsewhere;
    show env_info, has_api_session, interfaces, sdk_info elsewhere;
    search Column::one("isLocked", Type::Bool, |context, it| {
        Value::Bool(super::authenticator::lock_of(context, it.base.id.as_str()).is_some())
    })
    .public();
    show is_locked, locked_at, locked_by, locked_until elsewhere;
}

impl Readable for Identities {
    const KIND: &'static ContractKind = &contract::KIND;

    fn shown(_caller: &Caller) -> ListedRecords {
        ListedRecords::All
    }

    fn detail(context: &Context, record: &Identity) -> IdentityDetail {
        let id = record.base.id.as_str();
        let sessions = context.sessions().about_identity(id);
        let status = context.online().identity(id, context.now());
        let lock = super::authenticator::lock_of(context, id);
        let mut detail = IdentityDetail {
            edge_router_connection_status: status,
            env_info: sessions.env_info,
            has_api_session: sessions.logged_in,
            has_edge_router_connection: status == contract::ConnectionStatus::Online,
            is_locked: lock.is_some(),
            locked_at: lock.and_then(|lock| lock.locked_at).show(),
            locked_by: lock.map(|lock| lock.locked_by.show()).unwrap_or_default(),
            locked_until: lock.and_then(|lock| lock.locked_until).show(),
            sdk_info: sessions.sdk_info,
            ..Self::show(context, record)
        };
        if let Some(link) = detail.auth_policy.links.get("self") {
            detail.base.links.insert("auth-policies".into(), link.clone());
        }
        detail
    }
}

impl Resource for Identities {
    type Prepared = Prepared;

    async fn prepare(
        controller: &Controller,
        caller: &Caller,
        body: &IdentityBody,
        verb: Verb,
        id: &Id,
    ) -> Result<Prepared> {
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
        Ok(Prepared { enrollment, is_patch: verb == Verb::Patch })
    }

    fn guard(decision: &Decision<'_>, current: &Identity) -> Result<()> {
        decision.guard(current)
    }

    fn merge(
        record: &mut Identity,
        body: &IdentityBody,
        _prepared: &Prepared,
        verb: Verb,
    ) -> Result<()> {
        Self::set(record, body, verb)?;
        if let Some(word) = body.identity_type {
            record.identity_type = match word {
                // The identity of a router keeps its type, and no other identity gets that type.
                TypeWord::Router if verb == Verb::Create => IdentityType::Default,
                _ => convert::choice(word),
            };
        }
        match body.auth_policy_id.as_deref().map(str::trim) {
            Some("") => record.auth_policy_id = Id::new(AuthPolicy::DEFAULT_ID),
            Some(id) => record.auth_policy_id = convert::id_field("authPolicyId", id)?,
            None if record.auth_policy_id.is_empty() => {
                record.auth_policy_id = Id::new(AuthPolicy::DEFAULT_ID);
            }
            None => {}
        }
        Ok(())
    }

    fn validate(
        decision: &mut Decision<'_>,
        before: Option<&Identity>,
        after: &mut Identity,
        prepared: &Prepared,
    ) -> Result<()> {
        match before {
            Some(before) if before.identity_type == IdentityType::Router => {
                if before.name != after.name {
                    let reason = "the identity of a router is renamed with the router";
                    return Err(Failure::field("name", reason, &*after.name));
                }
                if prepared.is_patch && after.identity_type != before.identity_type {
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
        // An external id that a person has set counts for every signer and authority.
        if before.is_some_and(|before| before.external_id != after.external_id) {
            after.enrolled_by = None;
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

    fn on_delete(decision: &mut Decision<'_>, record: &Identity) -> Result<()> {
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
        // A revocation for the tokens of the identity: they stay refused when the identity is gone.
        decision.put(super::identity_state::revocation(decision, &record.base.id));
        Ok(())
    }
}

/// The first member of a body that only administrators may send (docs/protocol/management-api.md
/// 4). A new identity with an empty list of permissions needs no administrator.
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
) -> Result<Option<Enrollment>> {
    let set = |text: &Option<String>| {
        text.as_deref().map(str::trim).filter(|t| !t.is_empty()).map(str::to_owned)
    };
    let mut enrollment = match (wanted.ott, set(&wanted.ottca), set(&wanted.updb)) {
        (Some(true), _, _) => controller.kernel().new_enrollment(EnrollmentMethod::Ott),
        (_, Some(ca), _) => Enrollment {
            ca_id: Some(convert::id_field("caId", &ca)?),
            ..controller.kernel().new_enrollment(EnrollmentMethod::Ottca)
        },
        (_, _, Some(username)) => Enrollment {
            username: Some(convert::username("enrollment.updb", &username)?),
            ..controller.kernel().new_enrollment(EnrollmentMethod::Updb)
        },
        _ => return Ok(None),
    };
    enrollment.identity_id = Some(identity.clone());
    Ok(Some(enrollment))
}

/// Names of permissions, sorted; unknown ones are refused.
fn permissions_of(names: &[String]) -> Result<Sparse<Vec<Arc<str>>>> {
    let wrong: Vec<_> =
        names.iter().filter(|name| Permission::parse(name).is_none()).cloned().collect();
    if !wrong.is_empty() {
        let wrong = wrong.join(", ");
        let reason =
            format!("invalid permissions '{wrong}'; there are {}", Permission::all_in_words());
        return Err(Failure::field("permissions", reason, wrong));
    }
    let mut names: Vec<Arc<str>> = names.iter().map(|name| name.as_str().into()).collect();
    names.sort_unstable();
    names.dedup();
    Ok(names.into())
}

/// The precedences of an identity's terminators, by the ids of services.
fn precedences(
    words: &BTreeMap<String, PrecedenceWord>,
) -> Result<Sparse<BTreeMap<Id, Precedence>>> {
    let entry = |(service, word): (&String, &PrecedenceWord)| {
        let service = convert::id_field("serviceHostingPrecedences", service)?;
        Ok((service, convert::choice(*word)))
    };
    words.iter().map(entry).collect()
}

fn precedence_words(
    precedences: &Sparse<BTreeMap<Id, Precedence>>,
) -> BTreeMap<String, PrecedenceWord> {
    precedences.iter().map(|(service, it)| (service.to_string(), convert::word(*it))).collect()
}

/// The permissions; none if the list is empty.
fn if_any(permissions: &Sparse<Vec<Arc<str>>>) -> Option<Vec<String>> {
    (!permissions.is_empty()).then(|| permissions.show())
}

/// The authenticators of an identity.
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

/// The unused enrollments of an identity. A caller that may not read enrollments of an
/// administrator does not see them here either. Tickets are shown to callers that may read
/// enrollments or create identities with them (docs/protocol/management-api.md 4).
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

/// An identity, disabled from now on for some minutes; 0 and negative numbers mean until it is
/// enabled.
pub(crate) fn disabled(record: &Identity, minutes: i64, now: Timestamp) -> Identity {
    let mut record = record.clone();
    record.disabled_at = Some(now);
    let span = u64::try_from(minutes).unwrap_or(0).saturating_mul(60);
    record.disabled_until = (span > 0).then(|| now.plus(std::time::Duration::from_secs(span)));
    record.base.updated_at = now;
    record
}
