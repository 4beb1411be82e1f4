//! Tokens that the controller signs (docs/protocol/edge-control-plane.md 11.5).
//! [`weft_model::token`] defines their claims and rules.

use std::cell::Cell;
use std::sync::Arc;

use serde::Serialize;
use weft_identity::token::{Expect, TokenError, TokenSigner};
use weft_kernel::clock::system_time;
use weft_kernel::{Failure, Result};
use weft_model::Timestamp;
use weft_model::token::{AUDIENCE, LEGACY_AUDIENCE, ServiceClaims};

use crate::handle::Auth;
use crate::signing::aside;

impl Auth {
    /// The issuer of service tokens: the edge API address (docs/protocol/auth.md 15.6).
    pub fn issuer(&self) -> String {
        format!("https://{}", self.kernel().settings().addresses.api)
    }

    /// The signer of tokens that routers read.
    pub(crate) fn token_signer(&self) -> Arc<TokenSigner> {
        self.former_signer().unwrap_or_else(|| self.token_keys().signer())
    }

    /// The signer of the former controller, soon after a network was moved here.
    pub(crate) fn former_signer(&self) -> Option<Arc<TokenSigner>> {
        let former = self.0.former_signer.as_ref()?;
        former.signs(self.token_keys(), self.kernel().now())
    }

    /// Signs with the key of tokens that signs now.
    pub fn sign(&self, claims: &impl Serialize) -> Result<String> {
        self.may_sign()?;
        sign_with(&self.token_signer(), claims)
    }

    /// Reads a service token and verifies its signature. Its claims are still to be checked.
    pub fn read_service_token(
        &self,
        text: &str,
        now: Timestamp,
    ) -> Result<ServiceClaims, TokenError> {
        self.service_token_with_key(text, now).map(|(claims, _)| claims)
    }

    /// As [`Self::read_service_token`], with the name of the key that signed it.
    pub(crate) fn service_token_with_key(
        &self,
        text: &str,
        now: Timestamp,
    ) -> Result<(ServiceClaims, String), TokenError> {
        let issuer = self.issuer();
        let expect = Expect {
            now: system_time(now),
            // The keys of several controllers sign for their networks, and each has another address.
            issuer: (!self.is_member()).then_some(&*issuer),
            audience: &[AUDIENCE, LEGACY_AUDIENCE],
            require_expiry: true,
            longest: None,
        };
        let kid = Cell::new(None);
        let key = |named: &str| {
            kid.set(Some(named.to_owned()));
            self.token_key(named)
        };
        let claims = self.0.seen_tokens.verify(text, key, &expect)?;
        Ok((claims, kid.take().unwrap_or_default()))
    }
}

/// Signs claims. A signature with P-256 takes some 30 µs, one with RSA, which former controllers may have, milliseconds.
pub(crate) fn sign_with(signer: &TokenSigner, claims: &impl Serialize) -> Result<String> {
    aside(signer.public().algorithm(), || signer.sign(claims))
        .map_err(|error| Failure::unhandled(format!("a token could not be signed: {error}")))
}
