//! Tokens that the controller signs (docs/protocol/edge-control-plane.md 11.5).
//! [`weft_model::token`] defines their claims and rules.

use serde::Serialize;
use weft_identity::token::{Expect, TokenError, TokenSigner};
use weft_kernel::Failure;
use weft_kernel::clock::system_time;
use weft_model::Timestamp;
use weft_model::token::{AUDIENCE, LEGACY_AUDIENCE, ServiceClaims};

use super::signing::aside;
use crate::handle::Auth;

impl Auth {
    /// The issuer of service tokens: the edge API address (docs/protocol/auth.md 15.6).
    pub fn issuer(&self) -> String {
        format!("https://{}", self.settings().addresses.api)
    }

    /// Signs with the root identity.
    pub fn sign(&self, claims: &impl Serialize) -> Result<String, Failure> {
        let keys = self.keys();
        let key = keys.of_tokens();
        aside(key.key().algorithm(), || TokenSigner::new(key)?.sign(claims))
            .map_err(|error| Failure::unhandled(format!("a token could not be signed: {error}")))
    }

    /// Reads a service token and verifies its signature. Its claims are still to be checked.
    pub fn read_service_token(
        &self,
        text: &str,
        now: Timestamp,
    ) -> Result<ServiceClaims, TokenError> {
        let issuer = self.issuer();
        let expect = Expect {
            now: system_time(now),
            issuer: Some(&issuer),
            audience: &[AUDIENCE, LEGACY_AUDIENCE],
            require_expiry: true,
            longest: None,
        };
        self.0.seen_tokens.verify(text, |kid| self.session_key(kid), &expect)
    }
}
