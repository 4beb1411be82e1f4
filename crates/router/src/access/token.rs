//! The tokens that routers read: access tokens of API sessions, and service session tokens
//! (docs/protocol/edge-control-plane.md 11.2, 11.5). Only the claims that a router uses are read;
//! other claims of other controllers may have any form.

use std::time::SystemTime;

use serde::Deserialize;
use serde::de::IgnoredAny;
use weft_identity::token::{Expect, TokenError, peek};
use weft_model::token::{AUDIENCE, LEGACY_AUDIENCE, TokenKind};

use super::keys::Keys;

/// The beginning of every signed token; any other token is opaque.
const SIGNED: &[u8] = b"ey";
/// Audiences of access tokens.
const ACCESS_AUDIENCES: [&str; 2] = [AUDIENCE, LEGACY_AUDIENCE];
/// Audience of service session tokens.
const SERVICE_AUDIENCES: [&str; 1] = [AUDIENCE];

/// True for a signed token.
pub(crate) fn is_signed(token: &[u8]) -> bool {
    token.starts_with(SIGNED)
}

/// Claims of an access token.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct AccessClaims {
    /// Id of the identity.
    pub(crate) sub: String,
    /// Id of the token.
    #[serde(default)]
    pub(crate) jti: String,
    /// Id of the API session.
    pub(crate) z_asid: String,
    /// Fingerprints of the certificates that the token may be used with.
    #[serde(default)]
    pub(crate) z_cfs: Option<Vec<String>>,
    /// True if these certificates may have expired.
    #[serde(default)]
    pub(crate) z_cae: bool,
    /// Kind of the token.
    z_t: TokenKind,
    /// Time of issue, in seconds since 1970.
    #[serde(default)]
    pub(crate) iat: f64,
    /// Time of expiry, in seconds since 1970.
    #[serde(default)]
    pub(crate) exp: f64,
    /// Name of the key that signed the token; no claim, but from its header.
    #[serde(skip)]
    pub(crate) kid: String,
}

/// Claims of a service session token.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ServiceClaims {
    /// Id of the service.
    pub(crate) sub: String,
    /// Id of the service session.
    #[serde(default)]
    pub(crate) jti: String,
    /// Id of the API session.
    #[serde(default)]
    pub(crate) z_asid: String,
    /// Id of the identity; old controllers leave it out.
    #[serde(default)]
    pub(crate) z_iid: String,
    /// Kind of the token.
    z_t: TokenKind,
    /// `Dial` or `Bind`.
    #[serde(default)]
    pub(crate) z_st: String,
}

/// Reads an access token.
pub(crate) fn access(
    keys: &Keys,
    token: &str,
    now: SystemTime,
) -> Result<AccessClaims, TokenError> {
    let expect = Expect { audience: &ACCESS_AUDIENCES, ..Expect::unexpired(now) };
    let claims: AccessClaims = keys.tokens.verify(token, &expect)?;
    of_kind(claims.z_t, TokenKind::Access)?;
    let (header, _) = peek::<IgnoredAny>(token)?;
    Ok(AccessClaims { kid: header.kid.unwrap_or_default(), ..claims })
}

/// Reads a service session token.
pub(crate) fn service(
    keys: &Keys,
    token: &str,
    now: SystemTime,
) -> Result<ServiceClaims, TokenError> {
    let expect = Expect { audience: &SERVICE_AUDIENCES, ..Expect::unexpired(now) };
    let claims: ServiceClaims = keys.tokens.verify(token, &expect)?;
    of_kind(claims.z_t, TokenKind::Service)?;
    Ok(claims)
}

fn of_kind(found: TokenKind, wanted: TokenKind) -> Result<(), TokenError> {
    if found == wanted {
        return Ok(());
    }
    Err(TokenError::Claims(format!("a token of kind {found:?}, not {wanted:?}")))
}
