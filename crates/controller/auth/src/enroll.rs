//! Enrollment: a one-time ticket becomes a certificate or a password
//! (docs/protocol/auth.md 5; docs/protocol/edge-control-plane.md 17.1).
//!
//! Certificates are issued and passwords hashed before the operation is decided. The decision
//! checks that the enrollment still exists and deletes it in the same change set, so that a ticket
//! works once.

mod external;
pub mod issue;
pub mod proof;
mod third_party;

use std::sync::Arc;

use weft_contract::resource::enrollment::{
    EnrollBody, EnrollOttBody, EnrollOttCaBody, EnrollRouterBody, EnrollTokenBody, EnrollUpdbBody,
    EnrollmentCerts, method,
};
use weft_contract::{Api, ErrorCode, Verb, headers};
use weft_identity::KeyPurpose;
use weft_kernel::call::HandlerRow;
use weft_kernel::clock::system_time;
use weft_kernel::{Call, Caller, Failure, Reply, Result};
use weft_model::entity::{
    Authenticator, Enrollment, EnrollmentMethod, Identity, Router, UpdbCredential,
};
use weft_model::{Base, Choice as _};

use crate::credentials::{check_password, hash};
use crate::enroll::issue::{certificate, check_enabled, client_leaf, issue, parse_csr, take};
use crate::handle::Auth;
use crate::{router_certificate, this_controller};

/// The operations.
pub const HANDLERS: &[HandlerRow<Auth>] = &[
    (Api::Client, "enroll", &enroll),
    (Api::Client, "enrollOtt", &enroll_ott),
    (Api::Client, "enrollErOtt", &enroll_router),
    (Api::Client, "enrollOttCa", &enroll_ott_ca),
    (Api::Client, "enrollCa", &enroll_ca),
    (Api::Client, "enrollUpdb", &enroll_updb),
    (Api::Client, "enrollToken", &enroll_token),
];

/// The contents of an enrollment request, from either form of the body.
#[derive(Default)]
struct Sent {
    client_csr: Option<String>,
    router_csr: Option<String>,
    server_csr: Option<String>,
    password: Option<String>,
}

/// Handles `POST /enroll`: the method is in the query or follows from the ticket
/// (docs/protocol/auth.md 5.2, 5.3).
async fn enroll(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    let token = call.query.get("token").unwrap_or_default().to_owned();
    let wanted = call.query.get("method").filter(|word| !word.is_empty()).map(str::to_owned);
    match wanted.as_deref() {
        Some(method::CA) => return enroll_by_certificate(&auth, &caller, &call).await,
        Some(method::TOKEN) => {
            let csr = read(&call)?.client_csr;
            return external::by_token(&auth, &caller, &call, csr).await;
        }
        _ => {}
    }
    let sent = read(&call)?;
    complete(&auth, &caller, &token, wanted.as_deref(), sent).await
}

/// Enrolls by a certificate of a known CA alone; the body may contain a name.
async fn enroll_by_certificate(auth: &Auth, caller: &Caller, call: &Call) -> Result<Reply> {
    let name = match call.media.as_deref() {
        Some(headers::JSON) => call.decode_optional::<EnrollBody>(Verb::Create)?.name,
        _ => None,
    };
    third_party::by_certificate(auth, caller, name).await
}

async fn enroll_ca(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    enroll_by_certificate(&auth, &caller, &call).await
}

async fn enroll_ott_ca(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    let body: EnrollOttCaBody = call.decode(Verb::Create)?;
    let token = body.token.unwrap_or_default();
    complete(&auth, &caller, &token, Some(method::OTT_CA), Sent::default()).await
}

async fn enroll_updb(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    let body: EnrollUpdbBody = call.decode(Verb::Create)?;
    let password = body.password.map(|password| password.expose().to_owned());
    let token = call.query.get("token").unwrap_or_default().to_owned();
    let sent = Sent { password, ..Sent::default() };
    complete(&auth, &caller, &token, Some(method::UPDB), sent).await
}

async fn enroll_token(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    let csr = match call.media.as_deref() {
        None | Some(headers::JSON) => {
            call.decode_optional::<EnrollTokenBody>(Verb::Create)?.client_csr
        }
        Some(_) => read(&call)?.client_csr,
    };
    external::by_token(&auth, &caller, &call, csr).await
}

fn read(call: &Call) -> Result<Sent> {
    match call.media.as_deref() {
        Some(media) if headers::RAW_ENROLL_TYPES.contains(&media) => {
            let text = std::str::from_utf8(&call.body).map_err(|_| {
                Failure::because(ErrorCode::MissingOrInvalidCsr, "the body is not PEM")
            })?;
            let csr = (!text.trim().is_empty()).then(|| text.to_owned());
            Ok(Sent { client_csr: csr, ..Sent::default() })
        }
        Some(headers::JSON) => {
            let body: EnrollBody = call.decode_optional(Verb::Create)?;
            Ok(Sent {
                client_csr: body.client_csr,
                router_csr: body.cert_csr,
                server_csr: body.server_cert_csr,
                password: body.password.map(|password| password.expose().to_owned()),
            })
        }
        _ => Err(Failure::because(
            ErrorCode::InvalidContentType,
            "send application/json, or a request as application/x-pem-file or text/plain",
        )),
    }
}

async fn enroll_ott(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    let body: EnrollOttBody = call.decode(Verb::Create)?;
    let sent = Sent { client_csr: body.client_csr, ..Sent::default() };
    let token = body.token.unwrap_or_default();
    complete(&auth, &caller, &token, Some(method::OTT), sent).await
}

async fn enroll_router(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    let body: EnrollRouterBody = call.decode(Verb::Create)?;
    let sent = Sent { router_csr: body.client_csr, server_csr: body.server_csr, ..Sent::default() };
    let token = body.token.unwrap_or_default();
    complete(&auth, &caller, &token, Some(method::EDGE_ROUTER), sent).await
}

/// Finds the ticket and enrolls by its method.
async fn complete(
    auth: &Auth,
    caller: &Caller,
    token: &str,
    wanted: Option<&str>,
    sent: Sent,
) -> Result<Reply> {
    let snapshot = auth.kernel().snapshot();
    let enrollment = snapshot.enrollment_by_token(token).cloned();
    let enrollment = enrollment.ok_or_else(|| Failure::from(ErrorCode::InvalidEnrollmentToken))?;
    if wanted.is_some_and(|word| word != enrollment.method.as_str()) {
        return Err(ErrorCode::InvalidEnrollMethod.into());
    }
    if enrollment.expires_at <= auth.kernel().now() {
        return Err(ErrorCode::EnrollmentExpired.into());
    }
    match enrollment.method {
        EnrollmentMethod::Ott => ott(auth, caller, enrollment, sent).await,
        EnrollmentMethod::Updb => updb(auth, caller, enrollment, sent).await,
        EnrollmentMethod::Erott | EnrollmentMethod::Trott => {
            router(auth, caller, enrollment, sent).await
        }
        EnrollmentMethod::Ottca => third_party::by_ticket(auth, caller, enrollment).await,
    }
}

/// Enrolls an identity, which gets a certificate of the network.
async fn ott(
    auth: &Auth,
    caller: &Caller,
    enrollment: Arc<Enrollment>,
    sent: Sent,
) -> Result<Reply> {
    let identity = enrollment.identity_id.clone().unwrap_or_default();
    let csr = sent.client_csr.unwrap_or_default();
    let (authenticator, chain) = certificate(auth, caller, &identity, &csr).await?;
    auth.kernel()
        .decide(caller, move |decision| {
            take(decision, &enrollment)?;
            decision.put(authenticator.clone());
            Ok(())
        })
        .await?;
    Reply::detail(&EnrollmentCerts {
        cert: chain,
        controllers: this_controller::all(auth, Api::Client),
        ..EnrollmentCerts::default()
    })
}

/// Enrolls an identity with a name and a password; the name is the one in the ticket.
async fn updb(
    auth: &Auth,
    caller: &Caller,
    enrollment: Arc<Enrollment>,
    sent: Sent,
) -> Result<Reply> {
    let password = sent.password;
    let password =
        password.ok_or_else(|| Failure::field("password", "password is required", ""))?;
    let (hashed, _) = hash(auth, &password).await?;
    let identity_id = enrollment.identity_id.clone().unwrap_or_default();
    let username = enrollment.username.clone().unwrap_or_default();
    let authenticator = Authenticator {
        base: Base::new(auth.kernel().ids().entity(), auth.kernel().now()),
        identity_id,
        updb: Some(Box::new(UpdbCredential {
            username: username.clone(),
            password: hashed.password,
            salt: hashed.salt,
            ..UpdbCredential::default()
        })),
        cert: None,
    };
    auth.kernel()
        .decide(caller, move |decision| {
            take(decision, &enrollment)?;
            let id = &authenticator.identity_id;
            let identity = decision.require::<Identity>("identityId", id)?;
            check_password(decision.tip(), identity, &password)?;
            decision.put(authenticator.clone());
            Ok(())
        })
        .await?;
    Reply::detail(&EnrollmentCerts {
        username: username.to_string(),
        controllers: this_controller::all(auth, Api::Client),
        ..EnrollmentCerts::default()
    })
}

/// Enrolls a router, which gets a client and a server certificate.
async fn router(
    auth: &Auth,
    caller: &Caller,
    enrollment: Arc<Enrollment>,
    sent: Sent,
) -> Result<Reply> {
    let id = enrollment.router_id.clone().unwrap_or_default();
    let is_edge = enrollment.method != EnrollmentMethod::Trott;
    let (client, server) =
        (sent.router_csr.unwrap_or_default(), sent.server_csr.unwrap_or_default());
    for (what, csr) in [("server", &server), ("client", &client)] {
        if is_edge && csr.trim().is_empty() {
            let reason = format!("the request for the {what} certificate is missing");
            return Err(Failure::because(ErrorCode::MissingOrInvalidCsr, reason));
        }
    }
    let (client, server) = (parse_csr(&client)?, parse_csr(&server)?);
    let now = system_time(auth.kernel().now());
    let server = router_certificate::leaf(auth, &server, id.as_str(), KeyPurpose::Server, now)?;
    let client = client_leaf(auth, &client, &id, is_edge, now)?;
    let (issued, cert) = issue(auth, caller, client).await?;
    let (_, server_cert) = issue(auth, caller, server).await?;
    let kept = cert.clone();
    auth.kernel()
        .decide(caller, move |decision| {
            take(decision, &enrollment)?;
            let current = decision.tip().get::<Router>(&id);
            let mut router = current
                .map(|router| (**router).clone())
                .ok_or_else(|| Failure::from(ErrorCode::InvalidEnrollmentToken))?;
            check_enabled(&router)?;
            router.fingerprint = Some(issued.fingerprint().into());
            router.cert_pem.clone_from(&kept);
            router.unverified_fingerprint = None;
            router.unverified_cert_pem.clear();
            router.is_verified = true;
            router.base.updated_at = decision.now();
            decision.put(router);
            Ok(())
        })
        .await?;
    let ca = auth.keys().bundle.to_pem();
    Reply::detail(&EnrollmentCerts { ca, cert, server_cert, ..EnrollmentCerts::default() })
}
