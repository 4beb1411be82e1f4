//! Errors of OAuth 2.0 and their answers (docs/protocol/auth.md 15.5).

use serde_json::json;

/// The word of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum OidcErrorCode {
    /// The request is malformed.
    InvalidRequest,
    /// Nobody knows the client, or it authenticates in a way that it does not have.
    InvalidClient,
    /// The code, refresh token or device code is not, or no longer, good.
    InvalidGrant,
    /// The client may not do this.
    UnauthorizedClient,
    /// The type of grant does not exist here.
    UnsupportedGrantType,
    /// The type of response does not exist here.
    UnsupportedResponseType,
    /// The scope is larger than what was granted.
    InvalidScope,
    /// The audience is not one of this network.
    InvalidTarget,
    /// Somebody refused, or a proof is missing.
    AccessDenied,
    /// The login is not finished.
    InteractionRequired,
    /// Nobody is logged in, and the request forbids to ask.
    LoginRequired,
    /// The parameter `request` does not exist here.
    RequestNotSupported,
    /// The parameter `request_uri` does not exist here.
    RequestUriNotSupported,
    /// The parameter `registration` does not exist here.
    RegistrationNotSupported,
    /// Nobody has agreed to a device code yet.
    AuthorizationPending,
    /// A device asks too often.
    SlowDown,
    /// A device code is too old.
    ExpiredToken,
    /// Something failed here.
    ServerError,
    /// There is no room at the moment.
    TemporarilyUnavailable,
}

impl OidcErrorCode {
    /// The word itself.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// An error and its description. The description never has a text of the request in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {description}", .code.word())]
pub struct OidcError {
    /// The word.
    pub code: OidcErrorCode,
    /// What was wrong and what helps, for people.
    pub description: String,
}

impl OidcError {
    /// An error with its description.
    #[must_use]
    pub fn new(code: OidcErrorCode, description: impl Into<String>) -> Self {
        Self { code, description: description.into() }
    }

    /// The status of an answer that tells the error directly: 400, except for faults of the controller. Clients that
    /// are refused get 400, too, as from the original.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self.code {
            OidcErrorCode::ServerError => 500,
            OidcErrorCode::TemporarilyUnavailable => 503,
            _ => 400,
        }
    }

    /// The body of that answer, JSON.
    #[must_use]
    pub fn body(&self) -> String {
        json!({"error": self.code.word(), "error_description": self.shown()}).to_string()
    }

    /// The description in the characters that RFC 6749 allows for it.
    #[must_use]
    pub fn shown(&self) -> String {
        let allowed = |c: char| matches!(c, ' '..='~') && c != '"' && c != '\\';
        self.description.chars().map(|c| if allowed(c) { c } else { ' ' }).collect()
    }
}

/// `invalid_request` with a description.
pub(crate) fn invalid(description: impl Into<String>) -> OidcError {
    OidcError::new(OidcErrorCode::InvalidRequest, description)
}

/// `invalid_grant` with a description.
pub(crate) fn bad_grant(description: impl Into<String>) -> OidcError {
    OidcError::new(OidcErrorCode::InvalidGrant, description)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_json_with_their_status() {
        let problem = OidcError::new(OidcErrorCode::InvalidGrant, "a \"quoted\" näme");
        assert_eq!(problem.status(), 400);
        assert_eq!(
            problem.body(),
            r#"{"error":"invalid_grant","error_description":"a  quoted  n me"}"#
        );
        assert_eq!(OidcError::new(OidcErrorCode::ServerError, "").status(), 500);
        assert_eq!(OidcError::new(OidcErrorCode::InvalidClient, "").status(), 400);
    }
}
