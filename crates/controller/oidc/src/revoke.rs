//! `/oidc/revoke` and `/oidc/oauth/revoke` (RFC 7009): what a client gives back.
//!
//! Whatever the token is, the answer is 200, so that nobody learns which tokens are good. Only a token whose signature is
//! this network's has an effect.

use weft_model::token::{AccessClaims, TokenKind};

use crate::client::Client;
use crate::params::Params;
use crate::problem::OidcError;
use crate::token_request::{MAX_TOKEN, client, form};

/// A request.
#[derive(Clone, PartialEq, Eq)]
pub struct RevokeRequest {
    /// The client.
    pub client: Client,
    /// The token.
    pub token: String,
}

/// What is to be revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revoked {
    /// Nothing.
    Nothing,
    /// The token with this `jti`: an access token.
    Token(String),
    /// The session with this id: that of a refresh token.
    Session(String),
}

impl RevokeRequest {
    /// Reads a request. `token_type_hint` is ignored, as a token says itself what it is.
    pub fn read(
        content_type: Option<&str>,
        body: &[u8],
        authorization: Option<&str>,
    ) -> Result<Self, OidcError> {
        let params = Params::read("", form(content_type, body)?)?;
        let client = client(&params, authorization)?;
        Ok(Self { client, token: params.required("token", MAX_TOKEN)?.to_owned() })
    }

    /// What the request revokes. `claims` are those of the token, if its signature is this network's, whether or not it
    /// has expired.
    #[must_use]
    pub fn revoked(&self, claims: Option<&AccessClaims>) -> Revoked {
        let Some(claims) = claims.filter(|claims| claims.client_id == self.client.id()) else {
            return Revoked::Nothing;
        };
        match claims.z_t {
            TokenKind::Refresh if !claims.z_asid.is_empty() => {
                Revoked::Session(claims.z_asid.clone())
            }
            TokenKind::Access if !claims.jti.is_empty() => Revoked::Token(claims.jti.clone()),
            _ => Revoked::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FORM: Option<&str> = Some("application/x-www-form-urlencoded");

    fn claims(kind: &str, client: &str) -> AccessClaims {
        let claims = json!({"iss": "i", "sub": "s", "aud": [client], "exp": 2, "iat": 1, "jti": "j",
            "z_asid": "session", "client_id": client, "z_t": kind});
        serde_json::from_value(claims).unwrap()
    }

    #[test]
    fn a_client_revokes_its_own_tokens() {
        let body = b"token=t&token_type_hint=refresh_token&client_id=openziti";
        let request = RevokeRequest::read(FORM, body, None).unwrap();
        assert_eq!(request.token, "t");
        for (kind, client, wanted) in [
            ("r", "openziti", Revoked::Session("session".into())),
            ("a", "openziti", Revoked::Token("j".into())),
            ("s", "openziti", Revoked::Nothing),
            ("t", "openziti", Revoked::Nothing),
            ("r", "native", Revoked::Nothing),
            ("a", "native", Revoked::Nothing),
        ] {
            assert_eq!(request.revoked(Some(&claims(kind, client))), wanted, "{kind} {client}");
        }
        assert_eq!(request.revoked(None), Revoked::Nothing);
    }

    #[test]
    fn bad_requests_are_told() {
        let read = |body: &str| RevokeRequest::read(FORM, body.as_bytes(), None).map(drop);
        assert_eq!(read("client_id=openziti").unwrap_err().code.word(), "invalid_request");
        assert_eq!(read("token=t&client_id=x").unwrap_err().code.word(), "invalid_client");
        assert_eq!(
            read("token=t&token=u&client_id=native").unwrap_err().code.word(),
            "invalid_request"
        );
        assert!(RevokeRequest::read(FORM, b"token=t", Some("Basic bmF0aXZlOg==")).is_ok());
    }
}
