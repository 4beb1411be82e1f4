//! The caller's own authenticators: read, change the password, extend the certificate
//! (docs/protocol/auth.md 7.5, 12).

use std::sync::Arc;

use weft_auth::credentials::{check_password, credential, hash};
use weft_auth::current::login_of;
use weft_auth::enroll::issue::issue;
use weft_auth::lockout::wrong_password;
use weft_auth::login::{attempt_for, certificate, certificate_refused};
use weft_auth::password::Hashed;
use weft_auth::sessions::{keep_certificate, key_print};
use weft_contract::resource::authenticator::{
    ExtendBody, ExtendVerifyBody, ExtendedCerts, OwnAuthenticatorBody,
};
use weft_contract::{Api, ErrorCode, Verb};
use weft_identity::{Certificate, CertificateRequest, Leaf, RequiredKeyUsage, Verify};
use weft_kernel::call::HandlerRow;
use weft_kernel::clock::system_time;
use weft_kernel::view::View;
use weft_kernel::{Call, Reply, Result, convert, list};
use weft_model::entity::{Authenticator, CertCredential, Identity};
use weft_model::filter::Selection;
use weft_model::{Id, Meter};

use crate::domain::collection;
use crate::domain::context::Context;
use crate::domain::fields::Fields as _;
use crate::domain::resource::Readable as _;
use crate::domain::resources::authenticator::{Authenticators, of_identity, set_password, shown};
use crate::{Caller, Controller, Failure};

/// The operations, the same in both APIs.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[
    (Api::Management, "listCurrentIdentityAuthenticators", &list_own),
    (Api::Client, "listCurrentIdentityAuthenticators", &list_own),
    (Api::Management, "detailCurrentIdentityAuthenticator", &detail),
    (Api::Client, "detailCurrentIdentityAuthenticator", &detail),
    (Api::Management, "updateCurrentIdentityAuthenticator", &replace),
    (Api::Client, "updateCurrentIdentityAuthenticator", &replace),
    (Api::Management, "patchCurrentIdentityAuthenticator", &patch),
    (Api::Client, "patchCurrentIdentityAuthenticator", &patch),
    (Api::Management, "extendCurrentIdentityAuthenticator", &extend),
    (Api::Client, "extendCurrentIdentityAuthenticator", &extend),
    (Api::Management, "extendVerifyCurrentIdentityAuthenticator", &extend_verify),
    (Api::Client, "extendVerifyCurrentIdentityAuthenticator", &extend_verify),
];

/// An authenticator of the caller; those of other identities are not found.
fn own(controller: &Controller, caller: &Caller, id: &str) -> Result<Arc<Authenticator>> {
    let login = login_of(caller)?;
    let snapshot = controller.kernel().snapshot();
    let found = View::of(&snapshot).get::<Authenticator>(id).cloned();
    found
        .filter(|it| it.identity_id == login.identity.as_str())
        .ok_or_else(|| Failure::not_found("authenticator", id))
}

/// An authenticator of the caller that is to be extended; those of other identities fail with 401,
/// as in the original.
fn own_to_extend(controller: &Controller, caller: &Caller, id: &str) -> Result<Arc<Authenticator>> {
    own(controller, caller, id).map_err(|failure| {
        let snapshot = controller.kernel().snapshot();
        match View::of(&snapshot).get::<Authenticator>(id) {
            Some(_) => Failure::unauthorized("the authenticator belongs to another identity"),
            None => failure,
        }
    })
}

async fn list_own(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let identity = login_of(&caller)?.identity.clone();
    let context = controller.context(&caller);
    let count = of_identity(context.view(), &identity).len();
    let list = move |context: &Context, caller: &Caller, of: &Selection, meter: &Meter| {
        let mut found = of_identity(context.view(), &identity);
        found.sort_unstable_by(|a, b| a.base.id.cmp(&b.base.id));
        let found = found.into_iter();
        let listed = collection::select::<Authenticators>(context, caller, of, found, meter)?;
        list::reply(&listed, Authenticators::SYMBOLS, meter, |it| {
            Ok(Authenticators::detail(context, it))
        })
    };
    collection::in_turn::<Authenticators>(context, caller, call, count, list).await
}

async fn detail(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let found = own(&controller, &caller, call.id(0))?;
    Reply::detail(&shown(&controller.context(&caller), &found))
}

async fn replace(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    change(controller, caller, call, Verb::Replace).await
}

async fn patch(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    change(controller, caller, call, Verb::Patch).await
}

async fn change(controller: Controller, caller: Caller, call: Call, verb: Verb) -> Result<Reply> {
    let current = own(&controller, &caller, call.id(0))?;
    let body: OwnAuthenticatorBody = call.decode(verb)?;
    let Some(updb) = &current.updb else {
        return Err(Failure::because(
            ErrorCode::CanNotUpdateAuthenticator,
            "only authenticators of the method updb have a password",
        )
        .with_status(400));
    };
    let stored = Hashed { password: updb.password.clone(), salt: updb.salt.clone() };
    let given = body.current_password.as_ref().map(|it| it.expose()).unwrap_or_default();
    let attempt = attempt_for(controller.auth(), &caller, &updb.username).await?;
    let is_right = match controller.auth().hasher().verify(given, Some(&stored)).await {
        Ok(is_right) => is_right,
        Err(error) => {
            attempt.neither();
            return Err(error.into());
        }
    };
    if !is_right {
        wrong_password(controller.auth(), &caller, &current).await;
    }
    // Wrong guesses that ran at the same time may have locked the password: then even the right
    // one is refused.
    let (snapshot, now) = (controller.kernel().snapshot(), controller.kernel().now());
    let locked = snapshot.get::<Authenticator>(&current.base.id);
    let locked = locked.and_then(|it| it.updb.as_ref()).is_none_or(|it| it.is_locked(now));
    let identity = snapshot.get::<Identity>(&current.identity_id);
    let is_out = locked || identity.is_none_or(|identity| identity.is_disabled(now));
    if !is_right || is_out {
        let reason = "the current password is wrong";
        let code = ErrorCode::Unauthorized;
        return Err(Failure::coded_field(code, "currentPassword", reason, ""));
    }
    attempt.right();
    controller.auth().lockouts().right(&current.base.id);
    let password = match &body.password {
        Some(password) => Some(hash(controller.auth(), password.expose()).await?),
        None => None,
    };
    let expected = password.as_ref().map(|(hashed, _)| hashed.clone());
    if let Some(hashed) = &expected {
        let (snapshot, now) = (controller.kernel().snapshot(), controller.kernel().now());
        let id = &current.base.id;
        controller.auth().sessions().expect_password(&caller, &snapshot, id, hashed, now).await;
    }
    let decided = controller
        .kernel()
        .decide(&caller, move |decision| {
            let found = decision.tip().get::<Authenticator>(&current.base.id);
            if found != Some(&current) {
                // The authenticator changed since its password was checked, so the password may
                // not be the current one.
                return Err(certificate_refused("the authenticator was changed meanwhile"));
            }
            let mut record = (*current).clone();
            let identity = decision.require::<Identity>("identityId", &record.identity_id)?;
            if let Some((_, password)) = &password {
                check_password(decision.tip(), identity, password)?;
            }
            let username = body.username.as_ref().map(|name| name.as_str());
            set_password(&mut record, username, password.as_ref())?;
            if let Some(tags) = &body.tags {
                record.base.tags = convert::from_tags(tags);
            }
            if record == *current {
                return Ok(());
            }
            record.base.updated_at = decision.now();
            decision.put_checked(record)
        })
        .await;
    if let (Err(failure), Some(hashed)) = (&decided, &expected)
        // A change with an unknown outcome may still count.
        && failure.code() != ErrorCode::OutcomeUnknown
    {
        controller.auth().sessions().forget_password(&caller, hashed, controller.kernel().now());
    }
    decided?;
    Reply::empty()
}

/// The certificate of an authenticator, if it is one that the network issued and can extend.
fn extendable(authenticator: &Authenticator) -> Result<&CertCredential> {
    let cert = authenticator.cert.as_ref().filter(|cert| cert.is_issued_by_network);
    cert.ok_or_else(|| {
        Failure::because(
            ErrorCode::CanNotUpdateAuthenticator,
            "only certificates issued by the network can be extended",
        )
    })
}

/// Refuses a certificate that is not the current one of an authenticator that can be extended.
fn check_shown(authenticator: &Authenticator, shown: &str) -> Result<()> {
    if extendable(authenticator)?.fingerprint.as_ref() == shown {
        return Ok(());
    }
    Err(certificate_refused("the connection was made with another certificate"))
}

/// Refuses a certificate that is not the issued one that waits to be confirmed.
fn check_waiting(current: &CertCredential, given: &str) -> Result<()> {
    match &**current.unverified_fingerprint {
        waiting if !waiting.is_empty() && waiting == given => Ok(()),
        _ => Err(ErrorCode::InvalidClientCert.into()),
    }
}

/// Issues a new certificate to the holder of the current one. It counts once the holder confirms
/// that it arrived (docs/protocol/auth.md 12.1).
async fn extend(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let body: ExtendBody = call.decode(Verb::Create)?;
    let authenticator = own_to_extend(&controller, &caller, call.id(0))?;
    let leaf = caller.leaf().filter(|leaf| !leaf.is_ca());
    let leaf = leaf.ok_or_else(|| certificate_refused("a client certificate is needed"))?;
    check_shown(&authenticator, leaf.fingerprint())?;
    // Somebody else may have a key that an administrator wants to see replaced.
    if !extendable(&authenticator)?.is_key_roll_requested {
        controller.auth().check_way_back(Some(leaf), ErrorCode::CanNotUpdateAuthenticator)?;
    }
    let keys = controller.auth().keys();
    let now = system_time(controller.kernel().now());
    let how =
        Verify { usage: RequiredKeyUsage::Client, ignore_leaf_validity: true, intermediates: &[] };
    keys.bundle
        .verify_leaf(leaf, how, now)
        .map_err(|error| certificate_refused(&error.to_string()))?;
    let refused = |error: weft_identity::Error| {
        Failure::because(ErrorCode::CouldNotProcessCsr, error.to_string())
    };
    let csr = body.client_cert_csr.unwrap_or_default();
    let request = CertificateRequest::from_pem(&csr).map_err(refused)?;
    let shown = leaf.fingerprint().to_owned();
    let leaf = Leaf::renewed(&request, leaf, now);
    let (issued, pem) = issue(controller.auth(), &caller, leaf).await?;
    let (id, kept) = (authenticator.base.id.clone(), pem.clone());
    let fingerprint = issued.fingerprint().to_owned();
    controller
        .kernel()
        .decide(&caller, move |decision| {
            let mut record = (**decision.require::<Authenticator>("id", &id)?).clone();
            // Another certificate may have replaced the shown one since the first check.
            check_shown(&record, &shown)?;
            if let Some(cert) = &mut record.cert {
                cert.unverified_cert_pem = kept.clone().into();
                cert.unverified_fingerprint = fingerprint.clone().into();
            }
            record.base.updated_at = decision.now();
            decision.put(record);
            Ok(())
        })
        .await?;
    Reply::detail(&ExtendedCerts { ca: keys.bundle.to_pem(), client_cert: pem })
}

/// Confirms that the new certificate arrived: it replaces the old one (docs/protocol/auth.md 12.2). If
/// it is for another key, sessions that began with the old one end, except the caller's.
async fn extend_verify(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let body: ExtendVerifyBody = call.decode(Verb::Create)?;
    let authenticator = own_to_extend(&controller, &caller, call.id(0))?;
    let old = extendable(&authenticator)?;
    let pem = body.client_cert.unwrap_or_default();
    let parsed = Certificate::from_pem(pem.as_bytes()).unwrap_or_default();
    let given = parsed.into_iter().next();
    let given = given.ok_or_else(|| Failure::from(ErrorCode::InvalidClientCert))?;
    check_waiting(old, given.fingerprint())?;
    let key = key_print(&credential(&given, "", true).public_key_print);
    let (snapshot, now) = (controller.kernel().snapshot(), controller.kernel().now());
    let (id, fingerprint) = (authenticator.base.id.clone(), given.fingerprint().to_owned());
    controller.auth().sessions().expect(&caller, &snapshot, &id, Arc::clone(&key), now).await;
    let issued = given.clone();
    let decided = controller
        .kernel()
        .decide(&caller, move |decision| {
            let mut record = (**decision.require::<Authenticator>("id", &id)?).clone();
            let Some(old) = record.cert.take() else {
                return Err(ErrorCode::CanNotUpdateAuthenticator.into());
            };
            check_waiting(&old, &fingerprint)?;
            let new = credential(&issued, &old.unverified_cert_pem, true);
            record.cert = Some(CertCredential {
                last_extend_rolled_keys: new.public_key_print != old.public_key_print,
                last_auth_resolved_to_root: old.last_auth_resolved_to_root,
                ..new
            });
            record.base.updated_at = decision.now();
            decision.put(record);
            Ok(())
        })
        .await;
    if let Err(failure) = &decided
        // A change with an unknown outcome may still count.
        && failure.code() != ErrorCode::OutcomeUnknown
    {
        controller.auth().sessions().forget_expected(&caller, &key, controller.kernel().now());
    }
    decided?;
    let now = controller.kernel().now();
    let login = login_of(&caller)?;
    let old = authenticator.cert.as_ref().map(|cert| cert.fingerprint.clone());
    let kept = certificate(controller.auth(), &given, now);
    let session = Id::new(&login.session.id);
    if let Some(old) = &old {
        controller.auth().sessions().replaced_certificate(&session, Arc::clone(old));
    }
    controller.auth().sessions().change(&session, now, |session| {
        session.certificates.retain(|own| Some(&own.fingerprint) != old.as_ref());
        keep_certificate(session, kept, now);
    });
    Reply::empty()
}
