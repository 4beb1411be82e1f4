//! Tokens that the controller signs with its root identity (protocol: edge-control-plane 11.5).

use serde::{Deserialize, Serialize};
use weft_identity::token::{self, Expect, TokenError, TokenSigner};
use weft_model::Timestamp;

use crate::clock::system_time;
use crate::{Controller, Failure};

/// Audience of the tokens that routers accept.
pub const AUDIENCE: &str = "openziti";
/// The same in older login clients.
pub const AUDIENCE_NATIVE: &str = "native";
/// `z_t` of access tokens.
pub const ACCESS: &str = "a";
/// `z_t` of service tokens.
pub const SERVICE: &str = "s";

/// What a service token says (protocol: edge-control-plane 11.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceClaims {
    /// The controller.
    pub iss: String,
    /// Id of the service.
    pub sub: String,
    /// [`AUDIENCE`].
    pub aud: Vec<String>,
    /// Issued, in seconds since 1970.
    pub iat: i64,
    /// Ends, in seconds since 1970.
    pub exp: i64,
    /// Id of the service session.
    pub jti: String,
    /// Id of the API session.
    pub z_asid: String,
    /// Id of the identity.
    pub z_iid: String,
    /// [`SERVICE`].
    pub z_t: String,
    /// `Dial` or `Bind`.
    pub z_st: String,
    /// Whether a stored session stands behind it.
    #[serde(default)]
    pub z_leg: bool,
}

impl Controller {
    /// Who signs service tokens: the edge API address (protocol: auth 15.6).
    pub(crate) fn issuer(&self) -> String {
        format!("https://{}", self.settings().addresses.api)
    }

    /// Signs with the root identity.
    pub(crate) fn sign(&self, claims: &impl Serialize) -> Result<String, Failure> {
        TokenSigner::new(&self.settings().keys.session)
            .and_then(|signer| signer.sign(claims))
            .map_err(|error| Failure::unhandled(format!("a token could not be signed: {error}")))
    }

    /// Reads a service token that this controller signed.
    pub(crate) fn read_service_token(
        &self,
        text: &str,
        now: Timestamp,
    ) -> Result<ServiceClaims, TokenError> {
        let leaf = self.settings().keys.session.leaf();
        let expect = Expect {
            now: system_time(now),
            issuer: None,
            audience: &[AUDIENCE, AUDIENCE_NATIVE],
            require_expiry: true,
        };
        let key = |kid: &str| {
            (kid == leaf.fingerprint()).then(|| leaf.public_key().ok().cloned()).flatten()
        };
        let claims: ServiceClaims = token::verify(text, key, &expect)?;
        if claims.z_t != SERVICE {
            return Err(TokenError::Claims("not a service token".into()));
        }
        Ok(claims)
    }
}
