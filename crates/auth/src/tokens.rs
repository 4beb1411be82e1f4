//! Tokens that the controller signs with its root identity
//! (docs/protocol/edge-control-plane.md 11.5). What they say, and the rules about it, are in
//! [`weft_model::token`].

use serde::Serialize;
use weft_identity::token::{Expect, TokenError, TokenSigner};
use weft_kernel::Failure;
use weft_kernel::clock::system_time;
use weft_model::Timestamp;
use weft_model::token::{AUDIENCE, LEGACY_AUDIENCE, ServiceClaims};

use super::signing::aside;
use crate::handle::Auth;

impl Auth {
    /// Who signs service tokens: the edge API address (docs/protocol/auth.md 15.6).
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

    /// Reads a service token that this controller signed. What it says is still to be checked.
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
