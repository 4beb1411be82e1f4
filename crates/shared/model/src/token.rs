//! Claims of the tokens that controllers sign, and the rules about them, as functions of claims and
//! time. Signatures are verified elsewhere (docs/protocol/auth.md 15.6;
//! docs/protocol/edge-control-plane.md 11).

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::choice::Choice as _;
use crate::entity::{PolicyType, Revocation, RevocationType};

/// The audience of tokens.
pub const AUDIENCE: &str = "openziti";
/// The audience of tokens for older login clients.
pub const LEGACY_AUDIENCE: &str = "native";

/// Purpose of a token: the claim `z_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TokenKind {
    /// Proves an API session.
    #[serde(rename = "a")]
    Access,
    /// Gets the next access token.
    #[serde(rename = "r")]
    Refresh,
    /// Proves a service session.
    #[serde(rename = "s")]
    Service,
    /// Proves that a one-time code was given.
    #[serde(rename = "t")]
    Totp,
}

/// The reason for which claims are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// `exp` has passed.
    #[error("the token has expired")]
    Expired,
    /// `nbf` has not been reached.
    #[error("the token is not valid yet")]
    NotYet,
    /// The token has another purpose.
    #[error("the token is of another kind")]
    Kind,
    /// The token has another audience.
    #[error("the token has another audience")]
    Audience,
    /// The token, its identity or its API session was revoked.
    #[error("the token was revoked")]
    Revoked,
    /// The token belongs to another API session.
    #[error("the token belongs to another session")]
    Session,
    /// The token belongs to another identity.
    #[error("the token belongs to another identity")]
    Identity,
    /// The token is for the other type of service session.
    #[error("the token is not for {0}")]
    Action(PolicyType),
}

/// The claims of an access or refresh token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AccessClaims {
    /// Issuer: the address that the client connected to.
    pub iss: String,
    /// The identity.
    pub sub: String,
    /// Audience.
    #[serde(deserialize_with = "one_or_many")]
    pub aud: Vec<String>,
    /// Expiry, in seconds since 1970.
    pub exp: i64,
    /// Time of issue, in seconds since 1970.
    pub iat: i64,
    /// Beginning of the validity, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbf: Option<i64>,
    /// Time of the login, in seconds since 1970; kept through refreshes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub auth_time: i64,
    /// Id of the token.
    #[serde(default)]
    pub jti: String,
    /// Login methods: `password`, `cert`, `ext-jwt`, `totp`, `ejs:<signer>`.
    #[serde(default, deserialize_with = "null_or_list")]
    pub amr: Vec<String>,
    /// The login client.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub client_id: String,
    /// Scopes that the client asked for.
    #[serde(default, deserialize_with = "null_or_list")]
    pub scopes: Vec<String>,
    /// The API session.
    #[serde(default)]
    pub z_asid: String,
    /// Purpose of the token.
    pub z_t: TokenKind,
    /// External id of the identity.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub z_eid: String,
    /// True if the identity is an administrator.
    #[serde(default, skip_serializing_if = "is_default")]
    pub z_ia: bool,
    /// Ids of the config types that the client wants.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_or_list")]
    pub z_ct: Vec<String>,
    /// The login client, the same as `client_id`.
    #[serde(default)]
    pub z_aid: String,
    /// Fingerprints of client certificates, one of which the bearer must hold; empty or null: no
    /// certificate is needed.
    #[serde(default)]
    pub z_cfs: Option<Vec<String>>,
    /// Fingerprint of the login's certificate.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub z_acf: String,
    /// The client's report of its SDK.
    #[serde(default)]
    pub z_sdk: Option<serde_json::Value>,
    /// The client's report of its machine.
    #[serde(default)]
    pub z_env: Option<serde_json::Value>,
    /// Address of the client, host and port.
    #[serde(default)]
    pub z_ra: String,
    /// True if the certificate can be extended.
    #[serde(default)]
    pub z_ice: bool,
    /// True if expired client certificates are accepted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub z_cae: bool,
    /// The authenticator.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub z_authid: String,
    /// True if an administrator asked for an extension of the certificate.
    #[serde(default)]
    pub z_cer: bool,
    /// True if the extension needs a new key.
    #[serde(default)]
    pub z_ckrr: bool,
    /// True if the client sent an incomplete chain.
    #[serde(default)]
    pub z_iccc: bool,
    /// Number of the refresh token that this token is, or came with. Only weft's tokens have it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub z_rn: u64,
}

/// The claims of a service token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceClaims {
    /// Issuer: the controller.
    pub iss: String,
    /// The service.
    pub sub: String,
    /// Audience.
    #[serde(deserialize_with = "one_or_many")]
    pub aud: Vec<String>,
    /// Expiry, in seconds since 1970.
    pub exp: i64,
    /// Time of issue, in seconds since 1970.
    pub iat: i64,
    /// The service session.
    #[serde(default)]
    pub jti: String,
    /// The API session.
    pub z_asid: String,
    /// The identity.
    #[serde(default)]
    pub z_iid: String,
    /// Purpose of the token.
    pub z_t: TokenKind,
    /// `Dial` or `Bind`.
    #[serde(default)]
    pub z_st: String,
    /// True if the controller stores the session.
    #[serde(default)]
    pub z_leg: bool,
}

/// The claims of a token that proves a one-time code (docs/protocol/auth.md 11.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TotpClaims {
    /// Issuer: the controller.
    pub iss: String,
    /// The identity.
    pub sub: String,
    /// Audience.
    #[serde(deserialize_with = "one_or_many")]
    pub aud: Vec<String>,
    /// Time at which the code was given, in seconds since 1970.
    pub iat: i64,
    /// Expiry, in seconds since 1970; none in tokens of older controllers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exp: Option<i64>,
    /// Id of the token.
    #[serde(default)]
    pub jti: String,
    /// The API session.
    pub z_asid: String,
    /// Purpose of the token.
    pub z_t: TokenKind,
}

impl AccessClaims {
    /// Checks purpose, audience and times.
    pub fn check(&self, kind: TokenKind, now: Timestamp) -> Result<(), ClaimError> {
        check(self.z_t, kind, &self.aud)?;
        check_times(self.exp, self.nbf, now)
    }

    /// True if the token was revoked. `find` returns the revocation with an id.
    pub fn is_revoked<'a>(&self, find: impl Fn(&str) -> Option<&'a Revocation>) -> bool {
        is_revoked(&self.jti, &self.z_asid, &self.sub, self.iat, find)
    }
}

impl ServiceClaims {
    /// Checks purpose, audience and times, and that the token belongs to the session, identity and
    /// action that it is used for. Tokens of older controllers name no identity.
    pub fn check(
        &self,
        session: &str,
        identity: &str,
        action: PolicyType,
        now: Timestamp,
    ) -> Result<(), ClaimError> {
        check(self.z_t, TokenKind::Service, &self.aud)?;
        check_times(self.exp, None, now)?;
        if self.z_asid != session {
            return Err(ClaimError::Session);
        }
        if !self.z_iid.is_empty() && self.z_iid != identity {
            return Err(ClaimError::Identity);
        }
        if self.z_st != action.as_str() {
            return Err(ClaimError::Action(action));
        }
        Ok(())
    }

    /// True if the token was revoked. `find` returns the revocation with an id.
    pub fn is_revoked<'a>(&self, find: impl Fn(&str) -> Option<&'a Revocation>) -> bool {
        is_revoked(&self.jti, &self.z_asid, &self.z_iid, self.iat, find)
    }
}

impl TotpClaims {
    /// Checks purpose and audience, and that the token belongs to the session.
    pub fn check(&self, session: &str) -> Result<Timestamp, ClaimError> {
        check(self.z_t, TokenKind::Totp, &self.aud)?;
        if self.z_asid != session {
            return Err(ClaimError::Session);
        }
        Ok(Timestamp::from_secs(self.iat))
    }
}

fn check(found: TokenKind, wanted: TokenKind, audience: &[String]) -> Result<(), ClaimError> {
    if found != wanted {
        return Err(ClaimError::Kind);
    }
    match audience.iter().any(|one| one == AUDIENCE || one == LEGACY_AUDIENCE) {
        true => Ok(()),
        false => Err(ClaimError::Audience),
    }
}

/// Checks that `now` is from `nbf` to before `exp`, without leeway.
fn check_times(exp: i64, nbf: Option<i64>, now: Timestamp) -> Result<(), ClaimError> {
    if now >= Timestamp::from_secs(exp) {
        return Err(ClaimError::Expired);
    }
    if nbf.is_some_and(|nbf| now < Timestamp::from_secs(nbf)) {
        return Err(ClaimError::NotYet);
    }
    Ok(())
}

/// True if a revocation of any of the three types covers a token. A revocation has the id of the
/// thing that it revokes, so that each type is looked up by its own id.
fn is_revoked<'a>(
    jti: &str,
    session: &str,
    identity: &str,
    iat: i64,
    find: impl Fn(&str) -> Option<&'a Revocation>,
) -> bool {
    let of = |id: &str, wanted: RevocationType| {
        let found = if id.is_empty() { None } else { find(id) };
        found.filter(|revocation| revocation.revocation_type == wanted)
    };
    of(jti, RevocationType::Jti).is_some()
        || of(session, RevocationType::ApiSession).is_some()
        || of(identity, RevocationType::Identity).is_some_and(|it| covers_issue(it, iat))
}

/// True if the revocation of an identity covers a token issued at `iat` (in seconds). A token
/// issued in the second of the revocation is covered, because it may have been issued before.
fn covers_issue(revocation: &Revocation, iat: i64) -> bool {
    revocation.issued_before.is_none_or(|before| iat <= before.secs())
}

/// Reads `aud`: one string or a list of strings.
fn one_or_many<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Audience {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Audience::deserialize(from)? {
        Audience::One(one) => vec![one],
        Audience::Many(many) => many,
    })
}

/// Reads a list; the original writes null for an empty one.
fn null_or_list<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Base, Id};

    /// The example of docs/protocol/auth.md 20.8, with fingerprints filled in.
    const EXAMPLE: &str = r#"{"iss":"https://ctrl.example:1280/oidc","sub":"Wq3sd0pRk",
        "aud":["openziti"],"exp":1769862600,"iat":1769860800,"nbf":1769860800,
        "auth_time":1769860799,"jti":"5b0c7a86-2f3f-4a7c-8f7e-6a2b1c0d9e8f",
        "client_id":"openziti","amr":["cert"],"scopes":["openid","offline_access"],
        "z_asid":"0f5f5d0e-6a5c-4f4d-9d0f-3f0c8a1b2c3d","z_aid":"openziti","z_t":"a",
        "z_cfs":["9c1e0d"],"z_acf":"9c1e0d","z_sdk":{"type":"ziti-sdk-c"},
        "z_env":{"os":"Linux"},"z_ra":"192.0.2.10:51514","z_ice":true,"z_cae":true,
        "z_authid":"aB3dE5fG7","z_cer":false,"z_ckrr":false,"z_iccc":false}"#;

    fn example() -> AccessClaims {
        serde_json::from_str(EXAMPLE).unwrap()
    }

    #[test]
    fn access_claims_are_read_and_written_as_documented() {
        let claims = example();
        let written = serde_json::to_value(&claims).unwrap();
        assert_eq!(written, serde_json::from_str::<serde_json::Value>(EXAMPLE).unwrap());
        let bare = r#"{"iss":"i","sub":"s","aud":"native","exp":9,"iat":1,"z_t":"r",
            "amr":null,"scopes":null,"z_ct":null,"z_cfs":null}"#;
        let bare: AccessClaims = serde_json::from_str(bare).unwrap();
        assert_eq!(bare.check(TokenKind::Refresh, Timestamp::from_secs(1)), Ok(()));
    }

    #[test]
    fn kind_audience_and_times_are_checked() {
        let claims = example();
        let at = Timestamp::from_secs;
        assert_eq!(claims.check(TokenKind::Access, at(1_769_860_800)), Ok(()));
        assert_eq!(claims.check(TokenKind::Refresh, at(1_769_860_800)), Err(ClaimError::Kind));
        assert_eq!(claims.check(TokenKind::Access, at(1_769_860_799)), Err(ClaimError::NotYet));
        assert_eq!(claims.check(TokenKind::Access, at(1_769_862_600)), Err(ClaimError::Expired));
        let other = AccessClaims { aud: vec!["x".into()], ..claims };
        assert_eq!(other.check(TokenKind::Access, at(1_769_860_800)), Err(ClaimError::Audience));
    }

    #[test]
    fn each_kind_of_revocation_covers_its_tokens() {
        let claims = example();
        let revoked = |id: &str, revocation_type, before: Option<i64>| {
            let revocation = Revocation {
                base: Base::new(Id::new(id), Timestamp(0)),
                revocation_type,
                expires_at: Timestamp(i64::MAX),
                issued_before: before.map(Timestamp::from_secs),
                ..Revocation::default()
            };
            claims.is_revoked(|wanted| (revocation.base.id == *wanted).then_some(&revocation))
        };
        assert!(revoked(&claims.jti, RevocationType::Jti, None));
        assert!(revoked(&claims.z_asid, RevocationType::ApiSession, None));
        assert!(!revoked(&claims.z_asid, RevocationType::Jti, None));
        assert!(revoked(&claims.sub, RevocationType::Identity, None));
        assert!(revoked(&claims.sub, RevocationType::Identity, Some(claims.iat)));
        assert!(!revoked(&claims.sub, RevocationType::Identity, Some(claims.iat - 1)));
        assert!(!revoked("other", RevocationType::Identity, None));
    }

    #[test]
    fn service_tokens_belong_to_session_identity_and_action() {
        let claims = ServiceClaims {
            iss: "i".into(),
            sub: "service".into(),
            aud: vec![AUDIENCE.into()],
            exp: 10,
            iat: 1,
            jti: "session".into(),
            z_asid: "login".into(),
            z_iid: "ann".into(),
            z_t: TokenKind::Service,
            z_st: "Dial".into(),
            z_leg: false,
        };
        let now = Timestamp::from_secs(5);
        let check = |session, identity, action| claims.check(session, identity, action, now);
        assert_eq!(check("login", "ann", PolicyType::Dial), Ok(()));
        assert_eq!(check("other", "ann", PolicyType::Dial), Err(ClaimError::Session));
        assert_eq!(check("login", "bob", PolicyType::Dial), Err(ClaimError::Identity));
        let bind = check("login", "ann", PolicyType::Bind);
        assert_eq!(bind, Err(ClaimError::Action(PolicyType::Bind)));
    }
}
