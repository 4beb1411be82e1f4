//! What can go wrong between here and a controller.

use std::path::PathBuf;

use weft_contract::ErrorBody;
use weft_contract::operation::PathError;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A call that did not do what it was for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not the address of a controller.
    #[error(
        "`{given}` is not the address of a controller ({reason}); give host:port or https://host:port"
    )]
    Address {
        /// What was given.
        given: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The controller was not reached, or the connection broke.
    #[error("cannot {action} {url}: {reason}")]
    Connection {
        /// What was tried.
        action: &'static str,
        /// Where.
        url: String,
        /// What happened, causes included.
        reason: String,
        /// Whether it was the deadline.
        timeout: bool,
    },
    /// The answer is larger than any may be.
    #[error("the answer of {url} is larger than {limit} bytes")]
    TooLarge {
        /// Where.
        url: String,
        /// The limit.
        limit: usize,
    },
    /// The answer is not of the documented form.
    #[error("{url} answered {status} with something unexpected: {reason}")]
    Answer {
        /// Where.
        url: String,
        /// The HTTP status.
        status: u16,
        /// What is wrong.
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
    /// Nothing can be saved under such a name.
    #[error(
        "a login cannot be called `{0}`: letters, digits, `-`, `_` and `.`, at most 64, and no \
         `.` in front"
    )]
    LoginName(String),
    /// Keys, certificates or TLS.
    #[error(transparent)]
    Identity(#[from] weft_identity::Error),
    /// An enrollment token cannot be used.
    #[error("the enrollment token cannot be used: {0}")]
    Token(String),
    /// The login is not complete.
    #[error("the controller asks for a second factor ({0}), which this client cannot give")]
    SecondFactor(String),
    /// A file with a saved login.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl Error {
    /// The refusal, if the controller answered with one.
    #[must_use]
    pub fn api(&self) -> Option<&ApiError> {
        match self {
            Self::Api(error) => Some(error),
            _ => None,
        }
    }

    /// The HTTP status of the refusal.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Api(error) => Some(error.status),
            Self::Answer { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// The session is not there or may not do this.
    #[must_use]
    pub fn is_unauthorized(&self) -> bool {
        self.status() == Some(401)
    }

    /// The entity is not there.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// Another controller, or the same one later, may do better.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Connection { .. } => true,
            _ => self.status().is_some_and(|status| status == 429 || status >= 500),
        }
    }
}

/// A refusal of the controller, in its words.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// The HTTP status.
    pub status: u16,
    /// Code, message and cause.
    pub body: ErrorBody,
}

impl ApiError {
    /// The code, as the controller spelled it.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.body.code
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} {})", self.body.message, self.status, self.body.code)?;
        let cause = self.body.cause.as_ref().map(|cause| cause.summary());
        match cause.as_deref().or(self.body.cause_message.as_deref()) {
            Some(cause) if !cause.is_empty() => write!(f, ": {cause}"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for ApiError {}

/// An error and everything behind it, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
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
