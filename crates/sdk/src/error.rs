//! Errors of dials, binds and connections.

use std::io;
use std::sync::Arc;
use std::time::Duration;
use weft_client::FactorProblem;
use weft_wire::edge::{ErrorCode, RetryHint, StateClosed};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The identity cannot be used.
    #[error("the identity cannot be used: {0}")]
    Identity(Arc<weft_identity::Error>),
    /// No controller accepted the identity.
    #[error("not logged in: {0}")]
    NotLoggedIn(Arc<weft_client::Error>),
    /// The controller demands a second factor of the identity, which was not given: see
    /// [`ContextBuilder::second_factor`](crate::ContextBuilder::second_factor).
    #[error("not logged in: {0}")]
    SecondFactor(FactorProblem),
    /// The controller was not reached, or refused a request.
    #[error("the controller: {0}")]
    Controller(Arc<weft_client::Error>),
    /// The identity has no service of this name: the service does not exist, or no policy allows
    /// it.
    #[error(
        "there is no service `{service}` that this identity may use; check its service policies"
    )]
    ServiceUnknown {
        /// The name of the service.
        service: String,
    },
    /// The identity may use the service, but not in this way.
    #[error("this identity may not {action} `{service}`; check its service policies")]
    NotPermitted {
        /// The name of the service.
        service: String,
        /// `dial` or `bind`.
        action: &'static str,
    },
    /// This device does not pass the posture checks of the service.
    #[error("this device does not pass the posture checks of `{service}`: {reason}")]
    Posture {
        /// The name of the service.
        service: String,
        /// The answer of the controller, which names the service policies.
        reason: String,
    },
    /// No host offers the service now.
    #[error("`{service}` has no host now: {message}")]
    NoTerminators {
        /// The name of the service.
        service: String,
        /// The text of the router.
        message: String,
    },
    /// No edge router serves the service, or none of these can be reached.
    #[error("no edge router for `{service}`: {reason}")]
    NoEdgeRouters {
        /// The name of the service.
        service: String,
        /// Why no edge router can be used.
        reason: String,
    },
    /// The router, the controller or the host refused.
    #[error("`{service}` was refused: {refusal}")]
    Refused {
        /// The name of the service.
        service: String,
        /// The refusal, with the text of its sender.
        refusal: Refusal,
    },
    /// The service requires encryption and the peer does not support it, or made a mistake.
    #[error("end-to-end encryption of `{service}` failed: {problem}")]
    Encryption {
        /// The name of the service.
        service: String,
        /// The problem.
        problem: String,
    },
    /// The service demands that both ends prove who they are, and one of them has not.
    #[error("`{service}` demands that both ends prove who they are: {problem}")]
    Unproved {
        /// The name of the service.
        service: String,
        /// The problem.
        problem: String,
    },
    /// The call took too long.
    #[error("{action} took longer than {} s{}", limit.as_secs_f32(), because(last))]
    Timeout {
        /// The call that took too long, such as ``dialing `web` ``.
        action: String,
        /// The time limit.
        limit: Duration,
        /// The last error meanwhile, if any.
        last: Option<Box<Error>>,
    },
    /// The context, the listener or the router's channel is closed.
    #[error("closed: {0}")]
    Closed(String),
}

fn because(last: &Option<Box<Error>>) -> String {
    last.as_ref().map(|error| format!(" ({error})")).unwrap_or_default()
}

impl Error {
    /// The code of a router's refusal, if the error is one.
    #[must_use]
    pub fn code(&self) -> Option<u32> {
        match self {
            Self::Refused { refusal, .. } => Some(refusal.code),
            _ => None,
        }
    }

    /// True if the same call cannot succeed before an operator changes something.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::Identity(_)
            | Self::SecondFactor(_)
            | Self::ServiceUnknown { .. }
            | Self::NotPermitted { .. } => true,
            Self::Refused { refusal, .. } => refusal.is_final(),
            Self::NotLoggedIn(error) => !error.is_temporary(),
            _ => false,
        }
    }

    /// True if the same call may succeed soon although nobody changes anything: no controller or router was
    /// reached, or the connection to a router broke.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::NotLoggedIn(error) | Self::Controller(error) => error.is_temporary(),
            Self::NoEdgeRouters { .. } => true,
            Self::Timeout { last, .. } => last
                .as_ref()
                .is_none_or(|last| matches!(**last, Self::Closed(_)) || last.is_temporary()),
            _ => false,
        }
    }

    /// True if a login waits for a person: for a code of the second factor, or for a token of the identity provider.
    pub(crate) fn is_of_person(&self) -> bool {
        match self {
            Self::SecondFactor(_) => true,
            Self::NotLoggedIn(error) => matches!(**error, weft_client::Error::NoToken { .. }),
            _ => false,
        }
    }

    /// The error of a login.
    pub(crate) fn of_login(error: weft_client::Error) -> Self {
        match error {
            weft_client::Error::SecondFactor(problem) => Self::SecondFactor(problem),
            other => Self::NotLoggedIn(Arc::new(other)),
        }
    }

    /// The error of a service whose posture checks ask for a code of the second factor. The device may pass
    /// later.
    pub(crate) fn for_posture(self, service: &str) -> Self {
        match self {
            Self::SecondFactor(problem) => {
                Self::Posture { service: service.to_owned(), reason: problem.to_string() }
            }
            other => other,
        }
    }

    pub(crate) fn of_failure(service: &str, failure: Failure) -> Self {
        let service = service.to_owned();
        match failure {
            Failure::Channel(reason) => Self::Closed(reason),
            Failure::Refused(refusal) if refusal.is_no_terminators() => {
                Self::NoTerminators { service, message: refusal.message }
            }
            Failure::Refused(refusal) => Self::Refused { service, refusal },
        }
    }
}

impl From<weft_identity::Error> for Error {
    fn from(error: weft_identity::Error) -> Self {
        Self::Identity(Arc::new(error))
    }
}

impl From<weft_client::Error> for Error {
    fn from(error: weft_client::Error) -> Self {
        match error {
            weft_client::Error::SecondFactor(problem) => Self::SecondFactor(problem),
            other => Self::Controller(Arc::new(other)),
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Timeout { .. } => io::ErrorKind::TimedOut,
            Error::NoTerminators { .. } | Error::Refused { .. } => io::ErrorKind::ConnectionRefused,
            Error::NoEdgeRouters { .. } => io::ErrorKind::HostUnreachable,
            Error::ServiceUnknown { .. } => io::ErrorKind::NotFound,
            Error::NotPermitted { .. }
            | Error::Posture { .. }
            | Error::Unproved { .. }
            | Error::NotLoggedIn(_)
            | Error::SecondFactor(_) => io::ErrorKind::PermissionDenied,
            Error::Closed(_) => io::ErrorKind::NotConnected,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

/// Why a request on a channel failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The router refused.
    Refused(Refusal),
    /// The channel is closed, or has no room.
    Channel(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(refusal) => f.write_str(&refusal.message),
            Self::Channel(reason) => f.write_str(reason),
        }
    }
}

/// A refusal of a router (docs/protocol/sdk.md 6).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Refusal {
    /// The code; 0 if the router sent only a text.
    pub code: u32,
    /// The client's next step: 0 as the client likes, 1 wait and try again, 2 begin again with a new
    /// session, 3 do not try again.
    pub retry_hint: u32,
    /// The text for people.
    pub message: String,
    /// Posture checks that this identity failed.
    pub failing_posture_checks: Vec<String>,
}

impl Refusal {
    pub(crate) fn of(closed: &StateClosed) -> Self {
        let error = closed.error.clone().unwrap_or_default();
        let message = if error.message.is_empty() { closed.reason.clone() } else { error.message };
        Self {
            code: error.code.0,
            retry_hint: error.retry_hint.0,
            message,
            failing_posture_checks: error.failing_posture_check_ids,
        }
    }

    pub(crate) fn plain(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// True if the router does not accept the service session or the API session.
    pub(crate) fn is_stale_session(&self) -> bool {
        let code = ErrorCode(self.code);
        RetryHint(self.retry_hint) == RetryHint::START_OVER
            || [
                ErrorCode::INVALID_API_SESSION,
                ErrorCode::INVALID_SESSION,
                ErrorCode::WRONG_SESSION_TYPE,
                ErrorCode::INVALID_EDGE_ROUTER_FOR_SESSION,
                ErrorCode::INVALID_SERVICE,
                ErrorCode::INVALID_API_SESSION_TYPE,
            ]
            .contains(&code)
            // Some refusals have a text only, such as `Invalid Session`.
            || (code == ErrorCode::NONE && self.message.to_lowercase().contains("session"))
    }

    /// True if the refusal stays until an operator changes something.
    pub(crate) fn is_final(&self) -> bool {
        RetryHint(self.retry_hint) == RetryHint::NOT_RETRIABLE
            || [
                ErrorCode::ACCESS_DENIED,
                ErrorCode::POSTURE_CHECK_FAILED,
                ErrorCode::INVALID_INSTANCE_ID,
            ]
            .contains(&ErrorCode(self.code))
    }

    /// True if the refusal may end without an operator, such as one of a router that a new policy has
    /// not reached yet.
    pub(crate) fn may_pass(&self) -> bool {
        let denials = [ErrorCode::ACCESS_DENIED, ErrorCode::POSTURE_CHECK_FAILED];
        RetryHint(self.retry_hint) != RetryHint::NOT_RETRIABLE
            && (!self.is_final() || denials.contains(&ErrorCode(self.code)))
    }

    fn is_no_terminators(&self) -> bool {
        let text = self.message.to_lowercase();
        text.contains("no terminators") || text.contains("no online terminators")
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        if self.code != 0 {
            write!(f, " (code {})", self.code)?;
        }
        if !self.failing_posture_checks.is_empty() {
            write!(f, "; posture checks: {}", self.failing_posture_checks.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::edge::StructuredError;

    #[test]
    fn refusals_say_what_helps() {
        let refusal = |code: ErrorCode, retry_hint, text: &str| {
            let error = StructuredError { code, retry_hint, ..StructuredError::default() };
            Refusal::of(&StateClosed { error: Some(error), ..StateClosed::new(1, text) })
        };
        let denied = refusal(ErrorCode::ACCESS_DENIED, RetryHint::DEFAULT, "access denied");
        assert!(denied.is_final() && !denied.is_stale_session());
        assert_eq!(denied.to_string(), "access denied (code 14)");
        assert!(refusal(ErrorCode::INTERNAL, RetryHint::START_OVER, "x").is_stale_session());
        assert!(Refusal::plain("Invalid Session").is_stale_session());
        let none = Failure::Refused(Refusal::plain("service web has no terminators"));
        assert!(matches!(Error::of_failure("web", none), Error::NoTerminators { .. }));
    }
}
