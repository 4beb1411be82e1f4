//! Steps that all ways of enrolling share: tickets are used up, requests are read, certificates
//! issued.

use std::sync::Arc;
use std::time::SystemTime;

use weft_contract::{Cause, ErrorCode};
use weft_identity::{Certificate, CertificateRequest, KeyPurpose, Leaf, SpiffeId, to_pem};
use weft_kernel::clock::system_time;
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure, Result};
use weft_model::entity::{Authenticator, Enrollment, Identity, Router};
use weft_model::{Base, Id, Kind};

use crate::credentials::credential;
use crate::handle::Auth;
use crate::router_certificate;

/// Uses up a ticket; refused if it was used or changed since it was read, or if its identity or
/// router is disabled.
pub(crate) fn take(decision: &mut Decision<'_>, enrollment: &Enrollment) -> Result<()> {
    let current = decision.tip().get::<Enrollment>(&enrollment.base.id);
    if current.is_none_or(|current| current.token != enrollment.token) {
        return Err(ErrorCode::InvalidEnrollmentToken.into());
    }
    let identity = enrollment.identity_id.as_ref();
    let identity = identity.and_then(|id| decision.tip().get::<Identity>(id));
    if identity.is_some_and(|identity| identity.is_disabled(decision.now())) {
        let reason = "the identity is disabled";
        return Err(Failure::because(ErrorCode::InvalidEnrollmentNotAllowed, reason));
    }
    decision.delete(Kind::Enrollment, &enrollment.base.id)
}

/// Parses a certificate signing request.
pub fn parse_csr(text: &str) -> Result<CertificateRequest> {
    CertificateRequest::from_pem(text)
        .map_err(|error| Failure::because(ErrorCode::CouldNotProcessCsr, error.to_string()))
}

/// Issues a certificate of the edge signer, with its chain in PEM, in turn with other callers.
pub async fn issue(auth: &Auth, caller: &Caller, leaf: Leaf) -> Result<(Certificate, String)> {
    auth.may_sign()?;
    let keys = auth.keys();
    let signer = Arc::clone(&keys);
    let sign = move |_: &Auth| {
        let refused = |error: weft_identity::Error| {
            Failure::because(ErrorCode::CouldNotProcessCsr, error.to_string())
        };
        signer.authority.issue(&leaf).map_err(refused)
    };
    let issued = auth.sign_in_turn(caller, keys.authority.key().algorithm(), sign).await?;
    let chain = to_pem(keys.bundle.chain_of(&issued).iter());
    Ok((issued, chain))
}

/// Issues a certificate of the network for an identity, with its chain in PEM.
pub(crate) async fn certificate(
    auth: &Auth,
    caller: &Caller,
    identity: &Id,
    csr: &str,
) -> Result<(Authenticator, String)> {
    let request = parse_csr(csr)?;
    let name = SpiffeId::identity(&auth.keys().trust_domain, identity.as_str());
    let now: SystemTime = system_time(auth.kernel().now());
    let (issued, chain) = issue(auth, caller, Leaf::for_identity(&request, &name, now)).await?;
    let authenticator = Authenticator {
        base: Base::new(auth.kernel().ids().entity(), auth.kernel().now()),
        identity_id: identity.clone(),
        updb: None,
        cert: Some(credential(&issued, &chain, true)),
    };
    Ok((authenticator, chain))
}

/// The client certificate of a router. An edge router requests its id as common name. A router
/// without edge may not know its id, and gets it in any case (docs/protocol/auth.md 2.4).
pub fn client_leaf(
    auth: &Auth,
    request: &CertificateRequest,
    id: &Id,
    is_edge: bool,
    now: SystemTime,
) -> Result<Leaf> {
    if is_edge && request.common_name() != Some(id.as_str()) {
        let reason = format!("the common name of the request must be the id of the router, {id}");
        let cause = Cause::error(ErrorCode::EdgeRouterEnrollCommonNameInvalid, reason);
        return Err(Failure::new(ErrorCode::CouldNotProcessCsr).with_cause(cause));
    }
    router_certificate::leaf(auth, request, id.as_str(), KeyPurpose::Client, now)
}

/// Refuses a disabled router.
pub fn check_enabled(router: &Router) -> Result<()> {
    if router.disabled {
        let reason = "the router is disabled";
        return Err(Failure::because(ErrorCode::InvalidEnrollmentNotAllowed, reason));
    }
    Ok(())
}
