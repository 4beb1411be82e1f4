//! Renewal of the router's certificates before they expire, over the control channel
//! (docs/protocol/edge-control-plane.md 17.3).
//!
//! ```text
//! router                                  controller
//!   | EnrollmentExtendRouterRequest          |
//!   |--------------------------------------->|
//!   |                EnrollmentCertsResponse |   (not a reply)
//!   |<---------------------------------------|
//!   | EnrollmentExtendRouterVerifyRequest    |
//!   |--------------------------------------->|
//!   |                     ExtendVerifyResult |
//!   |<---------------------------------------|
//! ```
//!
//! The files are written and the identity is loaded again after that. The keys stay the same.

pub(super) mod pending;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::sync::oneshot;
use weft_channel::clock::time_of_day;
use weft_identity::{Certificate, CertificateRequest, KeyedChain, Location};
use weft_wire::{
    ProtoBody,
    edge_ctrl::{
        EnrollmentCertsResponse, EnrollmentExtendRouterRequest,
        EnrollmentExtendRouterVerifyRequest, ExtendVerifyResult,
    },
};

use super::shared::Core;
use crate::controllers::Controller;

/// How long before they expire certificates are renewed.
const BEFORE_END: Duration = Duration::from_secs(7 * 24 * 3600);
/// The interval at which the time of expiry is checked: clocks jump, and files are replaced.
const LOOK: Duration = Duration::from_secs(3600);
/// How long the controller may take to issue certificates.
const ISSUE_TIMEOUT: Duration = Duration::from_secs(35);
/// How long the controller may take to confirm.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(30);
/// Wait after a failure.
const RETRY: Duration = Duration::from_secs(300);

#[derive(Debug, thiserror::Error)]
enum RenewalError {
    #[error("no controller is connected")]
    NoController,
    #[error("the identity has no {0} certificate")]
    Incomplete(&'static str),
    #[error("the certificate has expired; enroll the router again")]
    TooLate,
    #[error("the controller issued no certificates in time")]
    NotIssued,
    #[error("the controller does not confirm the new certificate: {0}")]
    NotConfirmed(String),
    #[error(transparent)]
    Identity(#[from] weft_identity::Error),
}

/// Renews certificates until cancelled.
pub(crate) async fn run(core: Arc<Core>) {
    if core.renewal.names.is_none() {
        tracing::warn!(
            "certificates are not renewed: the section `edge.csr` (or `csr`) is missing"
        );
        return;
    }
    if !in_files(&core) {
        tracing::warn!(
            "certificates are not renewed: `cert`, `server_cert` and `key` of the identity have \
             to be files"
        );
        return;
    }
    loop {
        let now = time_of_day();
        let due = due(&core).map_or(LOOK, |due| due.duration_since(now).unwrap_or_default());
        if !due.is_zero() {
            tokio::time::sleep(due.min(LOOK)).await;
            continue;
        }
        match renew(&core).await {
            Ok(()) => tracing::info!("certificates renewed"),
            Err(problem) => {
                tracing::error!(%problem, "certificates not renewed");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

fn in_files(core: &Core) -> bool {
    let section = core.identity.section();
    [&section.cert, &section.server_cert]
        .into_iter()
        .all(|value| matches!(Location::parse(value), Ok(Location::File(_))) && !value.is_empty())
}

/// The time at which the first of the two certificates has to be renewed.
fn due(core: &Core) -> Option<SystemTime> {
    let identity = core.identity.current();
    let ends = identity.client().into_iter().chain(identity.servers().first());
    let end = ends.map(|chain| chain.leaf().not_after()).min()?;
    end.checked_sub(BEFORE_END)
}

async fn renew(core: &Core) -> Result<(), RenewalError> {
    let identity = core.identity.current();
    let client = identity.client().ok_or(RenewalError::Incomplete("client"))?;
    let server = identity.servers().first().ok_or(RenewalError::Incomplete("server"))?;
    if client.leaf().not_after() <= time_of_day() {
        return Err(RenewalError::TooLate);
    }
    let controller = controller(core).await.ok_or(RenewalError::NoController)?;
    let sans = core.renewal.names.as_ref().map(|names| names.sans.as_slice()).unwrap_or_default();
    let subject = client.leaf().subject_der();
    let request = EnrollmentExtendRouterRequest {
        client_cert_csr: CertificateRequest::renew_pem(client.key(), subject, sans)?,
        server_cert_csr: CertificateRequest::renew_pem(server.key(), subject, sans)?,
        require_verification: true,
    };
    let certs = issued(core, &controller, &request).await?;
    for (pem, former) in [(&certs.client_cert_pem, client), (&certs.server_cert_pem, server)] {
        KeyedChain::new(Certificate::from_pem(pem.as_bytes())?, former.key().clone())?;
    }
    confirm(&controller, &certs).await?;
    core.identity.save_certificates(Some(&certs.client_cert_pem), Some(&certs.server_cert_pem))?;
    Ok(())
}

/// The controller to ask, once one is connected.
async fn controller(core: &Core) -> Option<Arc<Controller>> {
    let mut changes = core.controllers.changes();
    loop {
        changes.mark_unchanged();
        if let Some(controller) = core.controllers.for_changes() {
            return Some(controller);
        }
        changes.changed().await.ok()?;
    }
}

async fn issued(
    core: &Core,
    controller: &Controller,
    request: &EnrollmentExtendRouterRequest,
) -> Result<EnrollmentCertsResponse, RenewalError> {
    let (sender, receiver) = oneshot::channel();
    *core.renewal.waiting.lock() = Some(sender);
    let sent = controller.channel.send(request.to_message()).await;
    sent.map_err(|_| RenewalError::NoController)?;
    match tokio::time::timeout(ISSUE_TIMEOUT, receiver).await {
        Ok(Ok(certs)) => Ok(certs),
        _ => Err(RenewalError::NotIssued),
    }
}

async fn confirm(
    controller: &Controller,
    certs: &EnrollmentCertsResponse,
) -> Result<(), RenewalError> {
    let verify =
        EnrollmentExtendRouterVerifyRequest { client_cert_pem: certs.client_cert_pem.clone() };
    let reply = controller.channel.request(verify.to_message(), CONFIRM_TIMEOUT).await;
    let reply = reply.map_err(|problem| RenewalError::NotConfirmed(problem.to_string()))?;
    let result = ExtendVerifyResult::from_message(&reply);
    let result = result.map_err(|problem| RenewalError::NotConfirmed(problem.to_string()))?;
    if result.code.is_empty() {
        return Ok(());
    }
    Err(RenewalError::NotConfirmed(format!("{} ({})", result.message, result.code)))
}
