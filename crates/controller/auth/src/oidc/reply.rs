//! The answers of the OpenID Connect provider: JSON, pages, redirects and errors.

use serde_json::{Value, json};
use weft_kernel::Failure;
use weft_oidc::login::{LoginRefused, Missing};
use weft_oidc::login_form::{AUTH_REQUEST_ID, FormError, TOTP_REQUIRED};
use weft_oidc::problem::OidcError;
use weft_oidc::token_request::NO_STORE;

/// The media type of JSON.
const JSON: &str = "application/json";

/// An answer of the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcReply {
    /// The HTTP status.
    pub status: u16,
    /// The headers beside those that every answer has.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl OidcReply {
    pub(super) fn new(status: u16, media: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type", media.to_owned())];
        Self { status, headers, body: body.into() }
    }

    /// JSON that no cache keeps.
    pub(super) fn json(status: u16, body: impl Into<Vec<u8>>) -> Self {
        let mut reply = Self::new(status, JSON, body);
        reply.headers.extend(NO_STORE.map(|(name, value)| (name, value.to_owned())));
        reply
    }

    /// JSON that caches may keep, such as the key set.
    pub(super) fn public(body: impl Into<Vec<u8>>) -> Self {
        Self::new(200, JSON, body)
    }

    pub(super) fn text(status: u16, text: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", text)
    }

    /// A redirect, which no cache keeps.
    pub(super) fn redirect(to: String) -> Self {
        let headers = vec![("location", to), ("cache-control", "no-store".to_owned())];
        Self { status: 302, headers, body: Vec::new() }
    }

    /// Whether it is a page for people.
    pub(super) fn is_page(&self) -> bool {
        self.headers
            .iter()
            .any(|(name, value)| *name == "content-type" && value.starts_with("text/html"))
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The answer to a request with this login.
    pub(super) fn of_login(self, id: &str) -> Self {
        self.with(AUTH_REQUEST_ID, id)
    }

    /// What a login still needs.
    pub(super) fn missing(missing: &Missing, body: String) -> Self {
        let reply = Self::json(200, body);
        match missing.totp {
            Some(_) => reply.with(TOTP_REQUIRED, "true"),
            None => reply,
        }
    }

    /// An error of OAuth.
    pub(super) fn problem(problem: &OidcError) -> Self {
        Self::json(problem.status(), problem.body())
    }

    /// An error of the API, without the envelope that other APIs have (docs/protocol/auth.md 15.4).
    pub(super) fn failure(failure: &Failure) -> Self {
        let error = serde_json::to_value(failure.body("")).unwrap_or_default();
        let mut shown = json!({ "code": error["code"], "message": error["message"] });
        if !error["cause"].is_null() {
            shown["cause"] = error["cause"].clone();
        }
        let reply = Self::json(failure.status(), shown.to_string());
        match failure.retry_after() {
            Some(wait) => reply.with("retry-after", wait.as_secs().max(1).to_string()),
            None => reply,
        }
    }

    /// An error with a code of its own.
    pub(super) fn coded(status: u16, code: &str, message: &str) -> Self {
        Self::json(status, json!({ "code": code, "message": message }).to_string())
    }

    /// A body that cannot be read.
    pub(super) fn form(error: &FormError) -> Self {
        Self::coded(error.status(), error.code(), &error.to_string())
    }

    /// A step of a login that is refused.
    pub(super) fn refused(refused: LoginRefused) -> Self {
        let code = match refused {
            LoginRefused::OtherIdentity => "INVALID_AUTH",
            LoginRefused::NotWanted | LoginRefused::NotEnrolling => "COULD_NOT_VALIDATE",
            LoginRefused::Unknown | LoginRefused::Elsewhere | LoginRefused::NoPrimary => {
                "UNAUTHORIZED"
            }
        };
        Self::coded(refused.status(), code, &refused.to_string())
    }
}

/// The value of a serialisable answer.
pub(super) fn body_of(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}
