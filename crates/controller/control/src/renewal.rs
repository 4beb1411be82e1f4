//! Renews certificates of routers over their control channel (docs/protocol/edge-control-plane.md
//! 17.3).
//!
//! Both certificates are accepted until the router shows the new one, with or without a
//! confirmation: a router that is cut off at any step is never locked out. A certificate for another
//! key replaces the old one at the confirmation, or at once if the router confirms nothing
//! ([`router_certificates`]).

use std::sync::Arc;
use std::time::SystemTime;

use weft_auth::enroll::issue::issue;
use weft_auth::router_certificates::{self, CertificateExchange};
use weft_auth::{Auth, router_certificate};
use weft_channel::Lane;
use weft_identity::{Certificate, CertificateRequest, KeyPurpose, Leaf};
use weft_kernel::clock::system_time;
use weft_kernel::{Caller, Failure, Result};
use weft_model::Id;
use weft_model::entity::Router;
use weft_wire::edge_ctrl::{
    self, EnrollmentCertsResponse, EnrollmentExtendRouterRequest,
    EnrollmentExtendRouterVerifyRequest, ExtendVerifyResult,
};
use weft_wire::{Message, ProtoBody, WireError};

use super::session::RouterSession;

/// Why a certificate was not renewed.
#[derive(Debug, thiserror::Error)]
enum NotRenewed {
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("request for the {0} certificate: {1}")]
    Request(&'static str, weft_identity::Error),
    #[error("the request is for {0:?}, not for this router")]
    Name(Option<String>),
    #[error("the certificate that this connection was made with counts no more")]
    Replaced,
    #[error("the router renews its certificates too often")]
    TooOften,
    #[error("{0}")]
    Failure(#[from] Failure),
}

/// Handles a request in a task.
pub fn spawn(session: &Arc<RouterSession>, message: &Message) {
    let Some(room) = session.making.take() else { return };
    let (session, message) = (Arc::clone(session), message.clone());
    session.plane.network.clone().spawn(async move {
        if message.content_type == edge_ctrl::content_type::EXTEND_VERIFY {
            on_verify(&session, &message).await;
        } else {
            match renew(&session, &message).await {
                Ok(()) => {}
                Err(NotRenewed::Wire(problem)) => session.not_understood(&message, &problem),
                // Without an answer, the router tries again later.
                Err(problem @ NotRenewed::TooOften) => {
                    tracing::debug!(router = %session.router.id, %problem, "a request for certificates gets no answer");
                }
                Err(problem) => {
                    tracing::warn!(router = %session.router.id, %problem, "the certificates of a router were not renewed; the router tries again");
                }
            }
        }
        drop(room);
    });
}

async fn renew(session: &RouterSession, message: &Message) -> Result<(), NotRenewed> {
    let request = EnrollmentExtendRouterRequest::from_message(message)?;
    let auth = &session.plane.auth;
    let now = system_time(auth.kernel().now());
    let (id, shown) = (&session.router.id, session.router.shown());
    let own = id.as_str();
    let client = leaf(auth, own, &request.client_cert_csr, KeyPurpose::Client, now)?;
    let server = leaf(auth, own, &request.server_cert_csr, KeyPurpose::Server, now)?;
    let _in_work = auth.renewals().begin(id).await.map_err(|_| NotRenewed::TooOften)?;
    router_certificates::check_way_back(auth, id)?;
    let router = Caller::router(id, "renew certificates");
    // First, because the exchange may be the end of the old certificate.
    let (_, server) = issue(auth, &router, server).await?;
    let is_confirmed = request.require_verification;
    let exchange = CertificateExchange { id, shown, wanted: client, is_confirmed };
    // The connection stays, even when only the new certificate counts.
    let rely = |new: &str| session.router.renewed(new);
    let given = router_certificates::exchange(auth, &router, exchange, rely).await?;
    let given = given.ok_or(NotRenewed::Replaced)?;
    let certificates = EnrollmentCertsResponse {
        client_cert_pem: given.pem,
        server_cert_pem: server,
        ca_certs_pem: String::new(),
    };
    session.send(Lane::Default, certificates.to_message());
    Ok(())
}

/// The certificate that a router requests, to be issued.
fn leaf(
    auth: &Auth,
    id: &str,
    request: &str,
    purpose: KeyPurpose,
    now: SystemTime,
) -> Result<Leaf, NotRenewed> {
    let what = if purpose == KeyPurpose::Server { "server" } else { "client" };
    let failed = |problem| NotRenewed::Request(what, problem);
    let request = CertificateRequest::from_pem(request).map_err(failed)?;
    if purpose == KeyPurpose::Client && request.common_name() != Some(id) {
        return Err(NotRenewed::Name(request.common_name().map(str::to_owned)));
    }
    Ok(router_certificate::leaf(auth, &request, id, purpose, now)?)
}

fn not_verified(code: &str, text: String) -> ExtendVerifyResult {
    ExtendVerifyResult { code: code.to_owned(), message: text, cause: String::new() }
}

async fn on_verify(session: &RouterSession, message: &Message) {
    let request = EnrollmentExtendRouterVerifyRequest::from_message(message);
    let result = match &request {
        Ok(request) => verify(session, request).await,
        Err(problem) => not_verified("COULD_NOT_UNMARSHAL", problem.to_string()),
    };
    session.answer(Lane::Default, message, result.to_message());
    if let Err(problem) = request {
        session.not_understood(message, &problem);
    }
}

/// Handles a router's confirmation of its new certificate. It becomes the current one when it is
/// shown; if it is for another key, at once.
async fn verify(
    session: &RouterSession,
    request: &EnrollmentExtendRouterVerifyRequest,
) -> ExtendVerifyResult {
    let no = not_verified;
    if request.client_cert_pem.trim().is_empty() {
        return no("MISSING_CLIENT_PEM", "the certificate is missing".to_owned());
    }
    let Some(mut router) = session.entity() else {
        return no("ROUTER_NOT_FOUND", "the router does not exist".to_owned());
    };
    let shown = match Certificate::from_pem(request.client_cert_pem.as_bytes()) {
        Ok(chain) => chain.into_iter().next(),
        Err(problem) => return no("INVALID_CLIENT_PEM", problem.to_string()),
    };
    let shown = shown.as_ref().map(Certificate::fingerprint);
    if let Some(new) = shown.filter(|_| router_certificates::waits_for_another_key(&router))
        && router.unverified_fingerprint.as_deref() == Some(new)
    {
        let (auth, why) = (&session.plane.auth, "confirmation of a certificate for another key");
        if let Err(problem) = use_new(auth, &session.router.id, new, why).await {
            return no("VERIFY_ERROR", problem.to_string());
        }
        router = session.entity().unwrap_or(router);
    }
    match router.unverified_fingerprint.as_deref() {
        Some(new) if shown == Some(new) => ExtendVerifyResult::default(),
        // The answer to an earlier confirmation was lost, and the router has shown the certificate
        // meanwhile.
        _ if shown.is_some() && shown == router.fingerprint.as_deref() => {
            ExtendVerifyResult::default()
        }
        Some(_) => no("VERIFY_ERROR", "this is not the certificate that was issued".to_owned()),
        None => no("INVALID_ROUTER_STATE", "no certificate waits to be confirmed".to_owned()),
    }
}

/// Makes a certificate that a router has shown its only one.
pub(crate) async fn confirm_seen(auth: Auth, id: Id, leaf: Certificate) {
    match use_new(&auth, &id, leaf.fingerprint(), "use of a new certificate").await {
        Ok(()) => tracing::info!(router = %id, "the router uses its new certificate"),
        Err(problem) => {
            tracing::warn!(router = %id, %problem, "the use of a router's new certificate was not stored; both stay valid")
        }
    }
}

/// Makes the issued certificate with a fingerprint the only one of a router.
async fn use_new(auth: &Auth, id: &Id, new: &str, why: &'static str) -> Result<()> {
    let (router, id, new) = (Caller::router(id, why), id.clone(), new.to_owned());
    let decided = auth.kernel().decide(&router, move |decision| {
        let Some(router) = decision.tip().get::<Router>(&id) else { return Ok(()) };
        let mut router = (**router).clone();
        if !router_certificates::use_waiting(&mut router, &new) {
            return Ok(());
        }
        router.base.updated_at = decision.now();
        decision.put(router);
        Ok(())
    });
    decided.await.map(drop)
}
