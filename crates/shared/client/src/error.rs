//! Errors of calls to a controller.

use std::path::PathBuf;
use std::time::Duration;

use weft_contract::ErrorBody;
use weft_contract::operation::PathError;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed. The text of an error does not repeat its source: [`chain`] has both.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not the address of a controller.
    #[error(
        "`{given}` is not the address of a controller ({reason}); give host:port or https://host:port"
    )]
    Address {
        /// The text that was given as an address.
        given: String,
        /// The problem.
        reason: String,
    },
    /// The controller was not reached, or the connection broke.
    #[error("cannot {action} {url}")]
    Connection {
        /// The step that failed.
        action: &'static str,
        /// The URL.
        url: String,
        /// The problem, in words.
        source: std::io::Error,
        /// True if the deadline passed.
        timeout: bool,
    },
    /// The answer is larger than [`MAX_ANSWER`](crate::MAX_ANSWER).
    #[error("the answer of {url} is larger than {limit} bytes")]
    TooLarge {
        /// The URL.
        url: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// The answer is not of the documented form.
    #[error("{url} answered {status} with something unexpected: {reason}")]
    Answer {
        /// The URL.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The problem.
        reason: String,
    },
    /// The controller refused.
    #[error(transparent)]
    Api(#[from] Box<ApiError>),
    /// An id cannot be part of a path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A body cannot be written as JSON.
    #[error("the request cannot be written: {0}")]
    Request(String),
    /// The name of a login is not allowed.
    #[error(
        "a login cannot be called `{0}`: letters, digits, `-`, `_` and `.`, at most 64, and no \
         `.` in front"
    )]
    LoginName(String),
    /// Keys, certificates or TLS.
    #[error(transparent)]
    Identity(#[from] weft_identity::Error),
    /// An enrollment token cannot be used, for this reason.
    #[error("the enrollment token cannot be used: {0}")]
    Token(String),
    /// The secret of a second factor cannot be used, for this reason.
    #[error("the secret of the second factor (TOTP) cannot be used: {0}")]
    TotpSecret(String),
    /// The controller demands a second factor, which was not given.
    #[error(transparent)]
    SecondFactor(FactorProblem),
    /// The provider of the controller, or that of a company, refused a request of OpenID Connect.
    #[error(transparent)]
    Provider(Box<ProviderError>),
    /// There is no token of the identity provider to log in with.
    #[error("there is no token of the identity provider: {reason}")]
    NoToken {
        /// The reason.
        reason: String,
        /// True if there may be one later, although nobody does anything.
        may_pass: bool,
    },
    /// A file with a saved login or a secret cannot be used.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
}

impl Error {
    /// The controller's answer, if it refused.
    #[must_use]
    pub fn api(&self) -> Option<&ApiError> {
        match self {
            Self::Api(error) => Some(error),
            _ => None,
        }
    }

    /// HTTP status of the controller's answer, if it refused.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Api(error) => Some(error.status),
            Self::Answer { status, .. } => Some(*status),
            Self::Provider(refusal) => Some(refusal.status),
            _ => None,
        }
    }

    /// True if the session has ended, or has no right to the operation.
    #[must_use]
    pub fn is_unauthorized(&self) -> bool {
        match self {
            Self::Provider(refusal) => refusal.status == 401 || refusal.error == INVALID_GRANT,
            _ => self.status() == Some(401),
        }
    }

    /// True if the entity does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// True if another controller, or this one later, may succeed.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Connection { .. } => true,
            Self::NoToken { may_pass, .. } => *may_pass,
            Self::Provider(refusal) if refusal.error == TEMPORARILY_UNAVAILABLE => true,
            _ => self.status().is_some_and(|status| status == 429 || status >= 500),
        }
    }
}

/// Why a second factor was not given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FactorProblem {
    /// There is no code to give.
    #[error(
        "the controller asks for a code of the identity's second factor (TOTP), and none was given"
    )]
    NoCode,
    /// The controller refused the codes.
    #[error(
        "the controller refused the code of the second factor: a code is good once, and for about a \
         minute"
    )]
    Refused,
    /// The identity has set up no second factor yet.
    #[error(
        "the controller demands a second factor (TOTP) that the identity has not set up yet: \
         `weft second-factor` does it"
    )]
    NotSetUp,
    /// The controller asks for a token of an external JWT signer beside the login, and this program has no source of
    /// such tokens.
    #[error(
        "the controller asks for a token of the external JWT signer `{signer}` as second factor, and this program has no \
         source of such tokens; give it one: `--second-token {signer}=FILE` of `weft login`, `weft dial`, `weft host` and \
         `weft tunnel`, or `second_factor_tokens` of the SDK"
    )]
    NoTokenSource {
        /// The name of the signer; its id if the controller does not tell the name.
        signer: String,
    },
    /// The controller asks for a token of an external JWT signer beside the login, and refused the one that was given.
    #[error(
        "the controller refused the token of the external JWT signer `{signer}`, which it asks for as second factor: the token \
         has to name the identity that logs in, and must not have ended; `weft signer test` says claim by claim what is wrong"
    )]
    TokenRefused {
        /// The name of the signer; its id if the controller does not tell the name.
        signer: String,
    },
    /// The controller demands a factor that this program cannot give.
    #[error(
        "the controller demands a second factor of the kind {0}, which this program cannot give"
    )]
    Unsupported(String),
}

/// The refusal of a code or token that is not good, or not any more.
const INVALID_GRANT: &str = "invalid_grant";
/// The refusal of a provider that has no room.
const TEMPORARILY_UNAVAILABLE: &str = "temporarily_unavailable";

/// A refusal in the words of OAuth (RFC 6749 5.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderError {
    /// The HTTP status.
    pub status: u16,
    /// The error, such as `invalid_grant`.
    pub error: String,
    /// The text for people, if there is one.
    pub description: Option<String>,
}

impl std::fmt::Display for ProviderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.description {
            None => f.write_str(&self.error),
            Some(text) => write!(f, "{text} ({})", self.error),
        }
    }
}

impl std::error::Error for ProviderError {}

/// A refusal of the controller.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// The HTTP status.
    pub status: u16,
    /// Code, message and cause.
    pub body: ErrorBody,
    /// The wait before another try that the controller asks for.
    pub retry_after: Option<Duration>,
    /// What the controller asks for in place of the refused session or token (`WWW-Authenticate`).
    pub challenge: Option<String>,
}

impl ApiError {
    /// The code, as the controller spelled it.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.body.code
    }

    /// Whether the session is good, and lacks a token of an external signer that has to come with each request.
    #[must_use]
    pub fn lacks_second_token(&self) -> bool {
        self.challenge.as_deref().is_some_and(|challenge| challenge.contains(SECOND_TOKEN))
    }
}

/// The realm of a challenge for a token of an external signer beside the session (docs/protocol/auth.md 1.5).
const SECOND_TOKEN: &str = "openziti-secondary-ext-jwt";

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The message of a code is the same for many causes: the cause says more.
        let cause = self.body.cause.as_ref().map(|cause| cause.summary());
        let cause = cause.as_deref().or(self.body.cause_message.as_deref());
        let text = cause.filter(|cause| !cause.is_empty()).unwrap_or(&self.body.message);
        write!(f, "{text} ({} {})", self.status, self.body.code)
    }
}

impl std::error::Error for ApiError {}

/// An error and its causes in one line. A cause whose text an error repeats is left out.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let part = source.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        next = source.source();
    }
    text
}
