//! Authenticators (docs/protocol/auth.md 7; docs/protocol/management-api.md 7.7): one per method
//! and identity.

use std::sync::Arc;

use weft_auth::credentials::{check_password, credential, hash};
use weft_auth::password::Hashed;
use weft_auth::third_party_ca;
use weft_contract::resource::authenticator as contract;
use weft_contract::resource::authenticator::{
    AuthenticatorBody, AuthenticatorDetail, ReEnrollBody, RequestExtendBody, method,
};
use weft_contract::resource::identity::COLLECTION as IDENTITIES;
use weft_contract::{Api, ErrorCode, Kind as ContractKind, Verb};
use weft_identity::{Certificate, RequiredKeyUsage, TrustBundle, Verify};
use weft_kernel::call::HandlerRow;
use weft_kernel::decision::Decision;
use weft_kernel::view::View;
use weft_kernel::{Call, Caller, Failure, Reply, Result, convert};
use weft_model::entity::{
    Authenticator, Ca, CertCredential, Enrollment, EnrollmentMethod, Identity, IdentityType,
    UpdbCredential,
};
use weft_model::filter::{Index, Value};
use weft_model::{ColdField, Id, Kind};

use crate::Controller;
use crate::domain::context::Context;
use crate::domain::fields::{Fields as _, fields};
use crate::domain::resource::{ListedRecords, Readable, Resource, require};
use crate::domain::symbols::at;
use crate::domain::values::Show as _;

/// The resource.
pub(crate) struct Authenticators;

/// Prepared values of an authenticator.
#[derive(Default)]
pub(crate) struct Prepared {
    /// The hash of the password in the body, and the password itself, which the auth policy judges.
    password: Option<(Hashed, String)>,
    /// The certificate in the body, and the third-party CA that issued it.
    certificate: Option<(Certificate, Option<Id>)>,
    /// The method of a new authenticator.
    method: Option<String>,
}

fn cert<T>(it: &Authenticator, get: impl Fn(&CertCredential) -> T) -> Option<T> {
    it.cert.as_ref().map(get)
}

fn flag<'a>(it: &Authenticator, get: impl Fn(&CertCredential) -> bool) -> Value<'a> {
    cert(it, get).map_or(Value::Null, Value::Bool)
}

fields! {
    Authenticators of Authenticator, set by AuthenticatorBody, shown as AuthenticatorDetail,
    searched as "authenticators";

    tags;
    search Column::one("method", Type::String, |_, it| Value::text(it.method())).public();
    identity_id { kept, merged, shown, searched as "identity" indexed Index::Link(0) }
    search Column::one("certFingerprint", Type::String, |_, it| {
        it.cert.as_ref().map_or(Value::Null, |cert| Value::text(&cert.fingerprint))
    })
    .public()
    .indexed(Index::Unique(0));
    search Column::one("certPem", Type::String, |context, it| {
        let pem = it.cert.as_ref().map(|cert| cert_pem(context, it, cert));
        pem.map_or(Value::Null, |pem| Value::Text(pem.into()))
    })
    .public();
    search Column::one("updbUsername", Type::String, |_, it| {
        it.updb.as_ref().map_or(Value::Null, |updb| Value::text(&updb.username))
    })
    .public()
    .indexed(Index::Unique(1));
    search Column::one("isIssuedByNetwork", Type::Bool, |_, it| flag(it, |c| c.is_issued_by_network))
        .public();
    search Column::one("isExtendRequested", Type::Bool, |_, it| flag(it, |c| c.is_extend_requested))
        .public();
    search Column::one("isKeyRollRequested", Type::Bool, |_, it| flag(it, |c| c.is_key_roll_requested))
        .public();
    search Column::one("extendRequestedAt", Type::Time, |_, it| {
        cert(it, |cert| cert.extend_requested_at).flatten().map_or(Value::Null, at)
    })
    .public();
    search Column::one("publicKeyPrint", Type::String, |_, it| {
        it.cert.as_ref().map_or(Value::Null, |cert| Value::text(&cert.public_key_print))
    })
    .public();
    search Column::one("lastAuthResolvedToRoot", Type::Bool, |_, it| {
        flag(it, |c| c.last_auth_resolved_to_root)
    })
    .public();
    search Column::one("lastExtendRolledKeys", Type::Bool, |_, it| {
        flag(it, |c| c.last_extend_rolled_keys)
    })
    .public();
    search Column::one("isLocked", Type::Bool, |context, it| {
        Value::Bool(lock(context, it).is_some())
    })
    .public();
    updb { kept, merged }
    cert { kept, merged }
    read cert_pem, identity_id, method, password, username;
    show identity by |context, it| {
        convert::mention::<Identity>(context.view(), IDENTITIES, &it.identity_id)
    };
    show method by |_, it| it.method().to_owned();
    show username by |_, it| it.updb.as_ref().map(|it| it.username.to_string()).unwrap_or_default();
    show is_locked by |context, it| lock(context, it).is_some();
    show locked_at by |context, it| lock(context, it).and_then(|lock| lock.locked_at).show();
    show locked_by by |context, it| {
        lock(context, it).map(|lock| lock.locked_by.show()).unwrap_or_default()
    };
    show locked_until by |context, it| lock(context, it).and_then(|lock| lock.locked_until).show();
    show cert_pem, extend_requested_at, fingerprint, is_extend_requested elsewhere;
    show is_issued_by_network, is_key_roll_requested, last_auth_resolved_to_root elsewhere;
    show last_extend_rolled_keys elsewhere;
}

impl Readable for Authenticators {
    const KIND: &'static ContractKind = &contract::KIND;

    fn shown(_caller: &Caller) -> ListedRecords {
        ListedRecords::All
    }

    fn detail(context: &Context, record: &Authenticator) -> AuthenticatorDetail {
        shown(context, record)
    }
}

/// The certificate, read from the store.
fn cert_pem(context: &Context, record: &Authenticator, cert: &CertCredential) -> String {
    match cert.cert_pem.is_empty() {
        true => context.cold_text(Kind::Authenticator, &record.base.id, ColdField::CertPem),
        false => cert.cert_pem.clone(),
    }
}

/// The password of an authenticator while it is locked.
fn lock<'a>(context: &Context, it: &'a Authenticator) -> Option<&'a UpdbCredential> {
    it.updb.as_deref().filter(|updb| updb.is_locked(context.now()))
}

/// The password of an identity while it is locked.
pub(crate) fn lock_of<'c>(context: &'c Context, identity: &str) -> Option<&'c UpdbCredential> {
    of_identity(context.view(), identity).into_iter().find_map(|own| lock(context, own))
}

/// An authenticator as the APIs show it, without its hash.
pub(crate) fn shown(context: &Context, record: &Authenticator) -> AuthenticatorDetail {
    let mut detail = Authenticators::show(context, record);
    if let Some(link) = detail.identity.links.get("self") {
        detail.base.links.insert("identities".into(), link.clone());
    }
    let Some(cert) = &record.cert else { return detail };
    AuthenticatorDetail {
        cert_pem: cert_pem(context, record, cert),
        extend_requested_at: cert.extend_requested_at.show(),
        fingerprint: cert.fingerprint.show(),
        is_extend_requested: cert.is_extend_requested,
        is_issued_by_network: cert.is_issued_by_network,
        is_key_roll_requested: cert.is_key_roll_requested,
        last_auth_resolved_to_root: cert.last_auth_resolved_to_root,
        last_extend_rolled_keys: cert.last_extend_rolled_keys,
        ..detail
    }
}

impl Resource for Authenticators {
    type Prepared = Prepared;

    async fn prepare(
        controller: &Controller,
        caller: &Caller,
        body: &AuthenticatorBody,
        verb: Verb,
        id: &Id,
    ) -> Result<Prepared> {
        let password = match &body.password {
            Some(password) => Some(hash(controller.auth(), password.expose()).await?),
            None => None,
        };
        if let Some((hashed, _)) = password.as_ref().filter(|_| verb != Verb::Create) {
            let (snapshot, now) = (controller.kernel().snapshot(), controller.kernel().now());
            controller.auth().sessions().expect_password(caller, &snapshot, id, hashed, now).await;
        }
        let certificate = match (&body.cert_pem, verb) {
            (Some(pem), Verb::Create) => Some(one_certificate(controller, pem)?),
            _ => None,
        };
        let method = (verb == Verb::Create).then(|| body.method.clone()).flatten();
        Ok(Prepared { password, certificate, method })
    }

    fn merge(
        record: &mut Authenticator,
        body: &AuthenticatorBody,
        prepared: &Prepared,
        verb: Verb,
    ) -> Result<()> {
        Self::set(record, body, verb)?;
        let username = body.username.as_ref().map(|name| name.as_str());
        if verb != Verb::Create {
            return set_password(record, username, prepared.password.as_ref());
        }
        record.identity_id =
            convert::id_field("identityId", body.identity_id.as_deref().unwrap_or_default())?;
        match prepared.method.as_deref() {
            Some(method::UPDB) => {
                let required = |field| Failure::field(field, format!("{field} is required"), "");
                let username = username.ok_or_else(|| required("username"))?;
                let (hashed, _) = prepared.password.as_ref().ok_or_else(|| required("password"))?;
                record.updb = Some(Box::new(UpdbCredential {
                    username: username.into(),
                    password: hashed.password.clone(),
                    salt: hashed.salt.clone(),
                    ..UpdbCredential::default()
                }));
            }
            Some(method::CERT) => {
                let certificate = prepared.certificate.as_ref();
                let (certificate, ca_id) = certificate
                    .ok_or_else(|| Failure::field("certPem", "certPem is required", ""))?;
                let credential = credential(certificate, &certificate.to_pem(), false);
                record.cert = Some(CertCredential { ca_id: ca_id.clone(), ..credential });
            }
            other => {
                let reason = "method must be updb or cert";
                return Err(Failure::field("method", reason, other.unwrap_or_default()));
            }
        }
        Ok(())
    }

    fn validate(
        decision: &mut Decision<'_>,
        before: Option<&Authenticator>,
        after: &mut Authenticator,
        prepared: &Prepared,
    ) -> Result<()> {
        let identity = decision.require::<Identity>("identityId", &after.identity_id)?;
        if let Some((_, password)) = &prepared.password {
            check_password(decision.tip(), identity, password)?;
        }
        if before.is_some() {
            return Ok(());
        }
        if identity.identity_type == IdentityType::Router {
            let reason = "identities of routers cannot have authenticators";
            return Err(Failure::field("identityId", reason, after.identity_id.as_str()));
        }
        let same = decision
            .tip()
            .referring::<Authenticator>(0, &after.identity_id)
            .any(|other| other.method() == after.method());
        if same {
            return Err(Failure::coded_field(
                ErrorCode::MaxAuthenticatorMethodsReached,
                "method",
                "the identity has an authenticator of this method",
                after.method(),
            )
            .with_status(400));
        }
        Ok(())
    }
}

/// Changes name and password of an authenticator with a password; refuses authenticators with a
/// certificate.
pub(crate) fn set_password(
    record: &mut Authenticator,
    username: Option<&str>,
    password: Option<&(Hashed, String)>,
) -> Result<()> {
    let Some(updb) = &mut record.updb else {
        if username.is_none() && password.is_none() {
            return Ok(());
        }
        return Err(Failure::because(
            ErrorCode::CanNotUpdateAuthenticator,
            "only authenticators of the method updb have a name and password",
        )
        .with_status(400));
    };
    if let Some(username) = username {
        updb.username = username.into();
    }
    if let Some((hashed, _)) = password {
        updb.password.clone_from(&hashed.password);
        updb.salt.clone_from(&hashed.salt);
        updb.unlock();
    }
    Ok(())
}

/// Reads exactly one certificate that the CA bundle or a verified third-party CA issued and whose
/// validity has begun (docs/protocol/auth.md 7.1).
fn one_certificate(controller: &Controller, pem: &str) -> Result<(Certificate, Option<Id>)> {
    let parsed = Certificate::from_pem(pem.as_bytes()).unwrap_or_default();
    let [certificate] = parsed.as_slice() else {
        return Err(Failure::coded_field(
            ErrorCode::CouldNotParsePemBlock,
            "certPem",
            "must hold exactly one certificate",
            "",
        ));
    };
    let how = Verify { usage: RequiredKeyUsage::Any, ..Verify::default() };
    let bundle = controller.auth().keys().bundle.clone();
    let leads_to =
        |trusted: &TrustBundle| trusted.verify_leaf(certificate, how, certificate.not_before());
    let Err(error) = leads_to(&bundle) else { return Ok((certificate.clone(), None)) };
    let snapshot = controller.kernel().snapshot();
    let mut verified = snapshot.list::<Ca>().filter(|ca| ca.is_verified);
    let issuer =
        verified.find(|ca| leads_to(&TrustBundle::new(third_party_ca::counting(ca))).is_ok());
    match issuer {
        Some(ca) => Ok((certificate.clone(), Some(ca.base.id.clone()))),
        None => Err(Failure::field(
            "certPem",
            format!("no known CA issued the certificate: {error}"),
            "",
        )),
    }
}

/// The actions on authenticators.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[
    (Api::Management, "reEnrollAuthenticator", &re_enroll),
    (Api::Management, "requestExtendAuthenticator", &request_extend),
];

/// Turns an authenticator back into an enrollment, in place of one of the same method that is open
/// (docs/protocol/auth.md 7.6).
async fn re_enroll(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let body: ReEnrollBody = call.decode(Verb::Create)?;
    let expires_at = convert::from_time(body.expires_at.unwrap_or_default());
    if expires_at <= controller.kernel().now() {
        return Err(Failure::field("expiresAt", "must be in the future", expires_at.to_string()));
    }
    let enrollment =
        Enrollment { expires_at, ..controller.kernel().new_enrollment(EnrollmentMethod::Ott) };
    let answer = Reply::created(super::enrollment::COLLECTION, enrollment.base.id.as_str());
    let id = call.id(0).to_owned();
    controller
        .kernel()
        .decide(&caller, move |decision| {
            let record = Arc::clone(require::<Authenticators>(decision.view(), &id)?);
            let ca_id = record.cert.as_ref().and_then(|cert| cert.ca_id.clone());
            let enrollment = Enrollment {
                method: match (&record.updb, &ca_id) {
                    (Some(_), _) => EnrollmentMethod::Updb,
                    (None, Some(_)) => EnrollmentMethod::Ottca,
                    (None, None) => EnrollmentMethod::Ott,
                },
                username: record.updb.as_ref().map(|updb| updb.username.clone()),
                identity_id: Some(record.identity_id.clone()),
                ca_id,
                ..enrollment.clone()
            };
            let own = decision.tip().referring::<Enrollment>(0, &record.identity_id);
            let former = own.filter(|own| own.method == enrollment.method);
            let former: Vec<Id> = former.map(|own| own.base.id.clone()).collect();
            for id in &former {
                decision.delete(Kind::Enrollment, id)?;
            }
            decision.put(enrollment);
            decision.delete(Kind::Authenticator, &record.base.id)
        })
        .await?;
    answer
}

async fn request_extend(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let body: RequestExtendBody = call.decode_optional(Verb::Create)?;
    let roll = body.roll_keys.unwrap_or(false);
    let id = call.id(0).to_owned();
    controller
        .kernel()
        .decide(&caller, move |decision| {
            let mut record = (**require::<Authenticators>(decision.view(), &id)?).clone();
            let now = decision.now();
            let Some(cert) = record.cert.as_mut().filter(|cert| cert.is_issued_by_network) else {
                let reason = "only certificates issued by the network can be extended";
                return Err(Failure::unauthorized(reason));
            };
            cert.is_extend_requested = true;
            cert.is_key_roll_requested = roll;
            cert.extend_requested_at = Some(now);
            record.base.updated_at = now;
            decision.put(record);
            Ok(())
        })
        .await?;
    Reply::empty()
}

/// The authenticators of an identity, in the order they were made.
pub(crate) fn of_identity<'v>(view: View<'v>, identity: &str) -> Vec<&'v Arc<Authenticator>> {
    view.referring::<Authenticator>(0, identity)
}
