//! The refusal of an operation: an error code of the API, and a cause. All rules of the controller
//! return this; the API crate only adds the envelope.

use std::borrow::Cow;
use std::time::Duration;

use weft_contract::{Cause, ErrorBody, ErrorCode, Word as _};
use weft_model::{Ended, Part};

/// The time after which a change that was not made is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The result of an operation, or of a part of it.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// The refusal of an operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure(Box<Inner>);

#[derive(Debug, Clone, PartialEq)]
struct Inner {
    code: ErrorCode,
    status: u16,
    message: Option<String>,
    cause: Option<Cause>,
    challenges: Vec<Cow<'static, str>>,
    retry_after: Option<Duration>,
}

/// One item of `WWW-Authenticate` (docs/protocol/auth.md 1.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Challenge {
    /// The request has no token: both kinds are asked for.
    Missing,
    /// The session token is unknown.
    InvalidSession,
    /// The access token is invalid.
    InvalidBearer,
    /// The access token has expired.
    ExpiredBearer,
}

impl Challenge {
    /// The text of the item.
    pub fn text(self) -> &'static str {
        match self {
            Self::Missing => {
                "zt-session realm=\"zt-session\" error=\"missing\" \
                 error_description=\"no matching token was provided\",\
                 Bearer realm=\"openziti-oidc\" error=\"missing\" \
                 error_description=\"no matching token was provided\""
            }
            Self::InvalidSession => {
                "zt-session realm=\"zt-session\" error=\"invalid\" \
                 error_description=\"token is invalid\""
            }
            Self::InvalidBearer => {
                "Bearer realm=\"openziti-oidc\" error=\"invalid\" \
                 error_description=\"token is invalid\""
            }
            Self::ExpiredBearer => {
                "Bearer realm=\"openziti-oidc\" error=\"expired\" \
                 error_description=\"token expired\""
            }
        }
    }
}

/// Why an operation ended before it was done, and what its caller can do.
impl From<Ended> for Failure {
    fn from(ended: Ended) -> Self {
        let Ended::TooMuch(_, part) = ended else {
            return if ended == Ended::Stopping { Self::stopping() } else { Self::timed_out() };
        };
        let (code, field, remedy) = match part {
            Part::Tests | Part::Index => (
                ErrorCode::InvalidFilter,
                "filter",
                "use fewer conditions, or =, in and anyOf(...) =, which indexes answer",
            ),
            Part::Order => (
                ErrorCode::InvalidSortIdentifier,
                "sort",
                "sort by id, name or createdAt, or use a filter that fewer entities match",
            ),
            Part::Rows => (ErrorCode::InvalidPagination, "limit", "ask for smaller pages"),
            Part::Plan => (
                ErrorCode::CouldNotValidate,
                "network",
                "send it in several documents, each with what the next ones refer to; nothing was changed",
            ),
            Part::Policies => (
                ErrorCode::CouldNotValidate,
                "id",
                "fewer policies that name #all or few attributes need less",
            ),
        };
        Self::coded_field(code, field, format!("{ended}: {remedy}"), "")
    }
}

impl Failure {
    /// A failure with this code and its own message.
    pub fn new(code: ErrorCode) -> Self {
        Self(Box::new(Inner {
            code,
            status: code.status(),
            message: None,
            cause: None,
            challenges: Vec::new(),
            retry_after: (code.status() == 429).then_some(Duration::from_secs(1)),
        }))
    }

    /// A failure with this text as its cause.
    pub fn because(code: ErrorCode, text: impl Into<String>) -> Self {
        Self::new(code).with_cause(Cause::error(ErrorCode::Unhandled, text))
    }

    /// The time limit of a request is over, and nothing was changed: 503 `TIMEOUT`.
    pub fn timed_out() -> Self {
        let text = "the time of the request was over before anything was changed: try again, or ask for less";
        Self::because(ErrorCode::Timeout, text)
    }

    /// 503: the controller stops, and nothing was changed.
    pub fn stopping() -> Self {
        Self::unwritable(
            "the controller stops, and nothing was changed: ask another one, or try again later",
        )
    }

    /// A field with an invalid value: 400 `COULD_NOT_VALIDATE`.
    pub fn field(field: &str, reason: impl Into<String>, value: impl Into<String>) -> Self {
        Self::new(ErrorCode::CouldNotValidate).with_cause(Cause::field(field, reason, value))
    }

    /// A field with an invalid value, with the code `INVALID_FIELD` where clients of the original
    /// expect it.
    pub fn invalid_field(field: &str, reason: impl Into<String>, value: impl Into<String>) -> Self {
        Self::coded_field(ErrorCode::InvalidField, field, reason, value)
    }

    /// A field with an invalid value, with the code of its rule.
    pub fn coded_field(
        code: ErrorCode,
        field: &str,
        reason: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        Self::new(code).with_cause(Cause::field(field, reason, value))
    }

    /// 404: the entity in the path does not exist.
    pub fn not_found(entity: &str, id: &str) -> Self {
        Self::because(ErrorCode::NotFound, format!("{entity} with id {id} not found"))
    }

    /// 401: the caller lacks a permission.
    pub fn unauthorized(reason: impl Into<String>) -> Self {
        Self::because(ErrorCode::Unauthorized, reason)
    }

    /// 500: an unexpected error.
    pub fn unhandled(text: impl Into<String>) -> Self {
        Self::because(ErrorCode::Unhandled, text)
    }

    /// 503: the change was not made, because the controller cannot write (the disk is full) or is
    /// stopping.
    pub fn unwritable(text: impl Into<String>) -> Self {
        let mut failure = Self::because(ErrorCode::ClusterNoLeader, text);
        // The message of the code speaks of a cluster, which does not fit.
        failure.0.message = Some(ErrorCode::Unhandled.message().to_owned());
        failure.with_retry_after(RETRY)
    }

    /// 409: other entities refer to the entity. `field` is their member with the reference, `ids`
    /// are the ids of those that may be named.
    pub fn referenced(entity: &str, field: &str, by: &str, ids: &[String]) -> Self {
        let ids = ids.join(", ");
        let named = if ids.is_empty() { String::new() } else { format!(": [{ids}]") };
        let reason = format!("entity type {entity} referenced by {by}{named}");
        Self::coded_field(ErrorCode::CanNotDeleteReferencedEntity, field, reason, ids)
    }

    /// Adds a cause.
    #[must_use]
    pub fn with_cause(mut self, cause: Cause) -> Self {
        self.0.cause = Some(cause);
        self
    }

    /// Sets another status than that of the code.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.0.status = status;
        self
    }

    /// Adds a time after which to try again.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.0.retry_after = Some(wait);
        self
    }

    /// Adds an item of `WWW-Authenticate`.
    #[must_use]
    pub fn with_challenge(mut self, challenge: Challenge) -> Self {
        self.0.challenges.push(challenge.text().into());
        self
    }

    /// Adds an item of `WWW-Authenticate` that names signers.
    #[must_use]
    pub fn with_challenge_text(mut self, text: String) -> Self {
        self.0.challenges.push(text.into());
        self
    }

    /// The code on the wire.
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.0.status
    }

    /// The cause, if there is one.
    pub fn cause(&self) -> Option<&Cause> {
        self.0.cause.as_ref()
    }

    /// The name of the invalid field, if the failure concerns one.
    pub fn field_name(&self) -> Option<&str> {
        self.cause()?.field.as_deref()
    }

    /// The value of `WWW-Authenticate`, if it has one.
    pub fn challenge(&self) -> Option<String> {
        let items = &self.0.challenges;
        (!items.is_empty()).then(|| items.join(","))
    }

    /// When to try again, for 429.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// The body of the answer.
    pub fn body(&self, request_id: &str) -> ErrorBody {
        let mut body = ErrorBody::new(self.0.code, request_id);
        if let Some(message) = &self.0.message {
            body.message.clone_from(message);
        }
        match &self.0.cause {
            Some(cause) => body.because(cause.clone()),
            None => body,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.code.as_str())?;
        let Some(cause) = &self.0.cause else { return Ok(()) };
        if let Some(field) = &cause.field {
            write!(f, ": field {field}")?;
        }
        if let Some(reason) = cause.reason.as_ref().or(cause.message.as_ref()) {
            write!(f, ": {reason}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

impl From<ErrorCode> for Failure {
    fn from(code: ErrorCode) -> Self {
        Self::new(code)
    }
}
