//! The claims of the tokens of a session (docs/protocol/auth.md 15.6).

use serde::Serialize;
use weft_kernel::convert;
use weft_model::entity::{ApiSession, AuthPolicy, Authenticator, Identity, TokenLogin};
use weft_model::token::{AccessClaims, TokenKind};
use weft_model::{Snapshot, Timestamp};

/// Seconds between the beginning of a token's validity and its issue: clocks of routers may be behind by this much.
const EARLY: i64 = 60;

/// The claims of an ID token.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct IdClaims {
    pub(crate) iss: String,
    pub(crate) sub: String,
    pub(crate) aud: Vec<String>,
    pub(crate) exp: i64,
    pub(crate) iat: i64,
    pub(crate) auth_time: i64,
    pub(crate) amr: Vec<String>,
    pub(crate) azp: String,
    pub(crate) client_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) nonce: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) at_hash: String,
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) z_eid: String,
    /// The session, so that its end can be asked for with this token.
    pub(crate) z_asid: String,
}

/// The facts that the claims of all tokens of a session are made of.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) session: &'a ApiSession,
    pub(crate) login: &'a TokenLogin,
    /// The scopes of the new tokens.
    pub(crate) scopes: &'a [String],
    pub(crate) identity: &'a Identity,
    pub(crate) now: Timestamp,
}

impl Facts<'_> {
    /// The claims of an access or refresh token with this id and end.
    pub(crate) fn access(&self, kind: TokenKind, jti: &str, end: Timestamp) -> AccessClaims {
        let Self { snapshot, session, login, scopes, identity, now } = self;
        let policy = snapshot.get::<AuthPolicy>(&identity.auth_policy_id);
        let authenticator = snapshot.get::<Authenticator>(&session.authenticator_id);
        let cert = authenticator.and_then(|it| it.cert.as_ref());
        AccessClaims {
            iss: login.issuer.clone(),
            sub: identity.base.id.to_string(),
            aud: vec![login.client.clone()],
            exp: end.secs(),
            iat: now.secs(),
            nbf: Some(now.secs() - EARLY),
            auth_time: login.login_at.secs(),
            jti: jti.to_owned(),
            amr: login.methods.clone(),
            client_id: login.client.clone(),
            scopes: scopes.to_vec(),
            z_asid: session.base.id.to_string(),
            z_t: kind,
            z_eid: identity.external_id.as_deref().unwrap_or_default().to_owned(),
            z_ia: identity.is_admin || identity.is_default_admin,
            z_ct: session.config_types.iter().map(ToString::to_string).collect(),
            z_aid: login.client.clone(),
            z_cfs: Some(fingerprints(login)),
            z_acf: login.login_fingerprint.clone(),
            z_sdk: json(session.sdk_info.as_ref().map(convert::sdk)),
            z_env: json(session.env_info.as_ref().map(convert::env)),
            z_ra: login.remote.clone(),
            z_ice: session.is_cert_extendable,
            z_cae: policy.is_some_and(|policy| policy.cert.allow_expired_certs),
            z_authid: session.authenticator_id.to_string(),
            z_cer: cert.is_some_and(|cert| cert.is_extend_requested),
            z_ckrr: cert.is_some_and(|cert| cert.is_key_roll_requested),
            z_iccc: session.improper_client_cert_chain,
            z_rn: login.refresh_number,
        }
    }

    /// The claims of an ID token with this end; `at_hash` is of the access token that comes with it.
    pub(crate) fn id(&self, end: Timestamp, at_hash: String) -> IdClaims {
        let Self { session, login, identity, now, .. } = self;
        IdClaims {
            iss: login.issuer.clone(),
            sub: identity.base.id.to_string(),
            aud: vec![login.client.clone()],
            exp: end.secs(),
            iat: now.secs(),
            auth_time: login.login_at.secs(),
            amr: login.methods.clone(),
            azp: login.client.clone(),
            client_id: login.client.clone(),
            nonce: login.nonce.clone(),
            at_hash,
            name: identity.name.to_string(),
            z_eid: identity.external_id.as_deref().unwrap_or_default().to_owned(),
            z_asid: session.base.id.to_string(),
        }
    }
}

/// The fingerprints of the certificates whose keys the bearer of a token may prove. Empty: none is asked for.
pub(crate) fn fingerprints(login: &TokenLogin) -> Vec<String> {
    let both = [&login.login_fingerprint, &login.issued_fingerprint];
    both.into_iter().filter(|it| !it.is_empty()).cloned().collect()
}

fn json<T: Serialize>(value: Option<T>) -> Option<serde_json::Value> {
    value.and_then(|value| serde_json::to_value(value).ok())
}
