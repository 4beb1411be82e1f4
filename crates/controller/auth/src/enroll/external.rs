//! Enrollment with a token of an external signer, which makes a new identity (docs/protocol/auth.md
//! 13.6). With a signing request the new identity gets a certificate; without one it logs in with
//! tokens of the signer.

use std::sync::Arc;

use serde_json::Value;
use weft_contract::resource::enrollment::EnrollmentCerts;
use weft_contract::{Api, ErrorCode, headers};
use weft_kernel::{Call, Caller, Failure, Reply, Result, convert};
use weft_model::entity::{AuthPolicy, ExtJwtSigner, Identity};
use weft_model::{Base, Id, Snapshot};

use crate::enroll::issue::certificate;
use crate::external_token::{self, External};
use crate::handle::Auth;
use crate::{this_controller, token_login};

fn refused(reason: impl Into<String>) -> Failure {
    Failure::because(ErrorCode::InvalidEnrollmentToken, reason)
}

fn not_allowed(reason: &str) -> Failure {
    Failure::because(ErrorCode::InvalidEnrollmentNotAllowed, reason)
}

/// The first valid token of a request.
async fn find(auth: &Auth, caller: &Caller, call: &Call) -> Result<External> {
    let from = caller.origin.remote.map(|remote| remote.ip());
    token_login::check_source(auth, from)?;
    let named = call.header(headers::TOKEN_ISSUER).filter(|id| !id.is_empty()).map(Id::new);
    let mut reason = "send a token as `Authorization: Bearer ...`".to_owned();
    for token in call.bearers().take(headers::MAX_BEARERS) {
        match external_token::verify(auth, named.as_ref(), token, from).await {
            Ok(found) => {
                auth.wrong_tokens().note_right(from);
                return Ok(found);
            }
            Err(error) => {
                auth.refusals().write_token(caller, "an enrollment", &error);
                auth.wrong_tokens().note(&caller.origin, token, &error);
                reason = error.public();
            }
        }
    }
    Err(refused(reason))
}

/// The role attributes in a token: none, one, or a list.
fn attributes(token: &External) -> Result<Vec<Arc<str>>> {
    let selector = &token.signer.enroll_attribute_claims_selector;
    let claim = if selector.is_empty() { None } else { token.claim(selector) };
    let wrong = || refused(format!("the claim {selector} is no text and no list of texts"));
    let texts = match claim {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(many)) => {
            let texts = many.iter().map(|it| it.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<_>>>().ok_or_else(wrong)?
        }
        Some(_) => return Err(wrong()),
    };
    convert::attributes(&texts)
}

/// Checks that a signer, and the auth policy of its identities, allow this way of enrolling.
fn check_allowed(
    signer: Option<&Arc<ExtJwtSigner>>,
    policy: Option<&Arc<AuthPolicy>>,
    to_certificate: bool,
) -> Result<()> {
    let signer = signer.filter(|signer| signer.enabled);
    let signer = signer.ok_or_else(|| refused("no such signer is enabled"))?;
    let (is_enabled, may_log_in) = match to_certificate {
        true => (signer.enroll_to_cert_enabled, policy.is_some_and(|it| it.cert.allowed)),
        false => (signer.enroll_to_token_enabled, policy.is_some_and(|it| it.ext_jwt.allowed)),
    };
    if !is_enabled {
        return Err(not_allowed("the signer does not allow to enroll this way"));
    }
    if !may_log_in {
        return Err(not_allowed("the policy of new identities does not allow to log in this way"));
    }
    Ok(())
}

/// Makes an identity for a token.
pub(super) async fn by_token(
    auth: &Auth,
    caller: &Caller,
    call: &Call,
    csr: Option<String>,
) -> Result<Reply> {
    let csr = csr.filter(|csr| !csr.trim().is_empty());
    let token = find(auth, caller, call).await?;
    let signer = &token.signer;
    let name = token.text(&signer.enroll_name_claims_selector);
    let name = name.ok_or_else(|| refused("the token has no claim with the name"))?;
    let claim = token.name().ok_or_else(|| refused("the token has no claim with the id"))?;
    let policy = signer.enroll_auth_policy_id.clone();
    let identity = Identity {
        base: Base::new(auth.kernel().ids().entity(), auth.kernel().now()),
        name: name.into(),
        external_id: Some(claim.into()),
        auth_policy_id: policy.unwrap_or_else(|| Id::new(AuthPolicy::DEFAULT_ID)),
        role_attributes: attributes(&token)?,
        enrolled_by: Some(signer.base.id.clone()),
        ..Identity::default()
    };
    check_new(&auth.kernel().snapshot(), &identity, &token, csr.is_some())?;
    let issued = match csr {
        Some(csr) => Some(certificate(auth, caller, &identity.base.id, &csr).await?),
        None => None,
    };
    let (authenticator, cert) = issued.unzip();
    auth.kernel()
        .decide(caller, move |decision| {
            let signer = decision.tip().get::<ExtJwtSigner>(&token.signer.base.id);
            if signer.is_none_or(|now| **now != *token.signer) {
                return Err(refused("the signer of the token was changed meanwhile; try again"));
            }
            check_new(decision.tip(), &identity, &token, authenticator.is_some())?;
            if let Some(authenticator) = &authenticator {
                decision.put_later(authenticator.clone());
            }
            decision.put_checked(identity.clone())
        })
        .await?;
    let ca = cert.as_ref().map(|_| auth.keys().bundle.to_pem());
    Reply::detail(&EnrollmentCerts {
        cert: cert.unwrap_or_default(),
        ca: ca.unwrap_or_default(),
        controllers: this_controller::all(auth, Api::Client),
        ..EnrollmentCerts::default()
    })
}

/// Checks that the identity may be made; called in prepare and in decide.
fn check_new(
    snapshot: &Snapshot,
    identity: &Identity,
    token: &External,
    to_certificate: bool,
) -> Result<()> {
    let external = identity.external_id.as_deref().unwrap_or_default();
    if snapshot.by_unique::<Identity>(Identity::EXTERNAL_ID, external).is_some() {
        return Err(ErrorCode::EnrollmentIdentityAlreadyEnrolled.into());
    }
    let signer = snapshot.get::<ExtJwtSigner>(&token.signer.base.id);
    let policy = snapshot.get::<AuthPolicy>(&identity.auth_policy_id);
    check_allowed(signer, policy, to_certificate)
}
