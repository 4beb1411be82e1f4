//! Errors of dials, binds and connections.

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use weft_client::FactorProblem;
use weft_wire::edge::{ErrorCode, RetryHint, StateClosed};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
///
/// The text of an error does not repeat its [`source`](std::error::Error::source): who shows it to a person shows the whole
/// chain, as [`chain`](crate::chain) does.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// The identity cannot be used.
    Identity(Arc<weft_identity::Error>),
    /// No controller accepted the identity.
    NotLoggedIn(Arc<weft_client::Error>),
    /// The controller demands a second factor of the identity, which was not given: see
    /// [`EndpointBuilder::second_factor`](crate::EndpointBuilder::second_factor) and
    /// [`EndpointBuilder::second_factor_tokens`](crate::EndpointBuilder::second_factor_tokens).
    SecondFactor(FactorProblem),
    /// The controller was not reached, or refused a request.
    Controller(Arc<weft_client::Error>),
    /// The identity has no service of this name: the service does not exist, or no policy allows
    /// it.
    #[non_exhaustive]
    ServiceUnknown {
        /// The name of the service.
        service: String,
    },
    /// The identity may use the service, but not in this way.
    #[non_exhaustive]
    NotPermitted {
        /// The name of the service.
        service: String,
        /// `dial` or `bind`.
        action: &'static str,
    },
    /// This device does not pass the posture checks of the service.
    #[non_exhaustive]
    Posture {
        /// The name of the service.
        service: String,
        /// The answer of the controller, which names the service policies, or what is wrong with the second factor.
        cause: Box<Error>,
    },
    /// No host offers the service now.
    #[non_exhaustive]
    NoTerminators {
        /// The name of the service.
        service: String,
        /// The answer of the router.
        refusal: Refusal,
    },
    /// No edge router serves the service, or none of these can be reached.
    #[non_exhaustive]
    NoEdgeRouters {
        /// The name of the service.
        service: String,
        /// Why no edge router can be used, router by router.
        reason: String,
        /// The answer of the controller, if that named none.
        cause: Option<Box<Error>>,
    },
    /// The router, the controller or the host refused.
    #[non_exhaustive]
    Refused {
        /// The name of the service.
        service: String,
        /// The refusal, with the text of its sender.
        refusal: Refusal,
    },
    /// The service requires encryption and the peer does not support it, or made a mistake.
    #[non_exhaustive]
    Encryption {
        /// The name of the service.
        service: String,
        /// The problem.
        problem: String,
    },
    /// The service demands that both ends prove who they are, and one of them has not.
    #[non_exhaustive]
    Unproved {
        /// The name of the service.
        service: String,
        /// The problem.
        problem: String,
    },
    /// The call took too long.
    #[non_exhaustive]
    Timeout {
        /// The call that took too long, such as ``dialing `web` ``.
        action: String,
        /// The time limit.
        limit: Duration,
        /// The last error meanwhile, if any.
        last: Option<Box<Error>>,
    },
    /// The endpoint was closed before the other ends had all data that was written.
    #[non_exhaustive]
    Undelivered {
        /// The number of connections with such data.
        connections: usize,
    },
    /// The endpoint, the listener or the router's channel is closed.
    Closed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identity(_) => f.write_str("the identity cannot be used"),
            Self::NotLoggedIn(_) | Self::SecondFactor(_) => f.write_str("not logged in"),
            Self::Controller(_) => f.write_str("a request to the controller failed"),
            Self::ServiceUnknown { service } => write!(
                f,
                "there is no service `{service}` that this identity may use; check its service policies"
            ),
            Self::NotPermitted { service, action } => {
                write!(f, "this identity may not {action} `{service}`; check its service policies")
            }
            Self::Posture { service, .. } => {
                write!(f, "this device does not pass the posture checks of `{service}`")
            }
            Self::NoTerminators { service, .. } => write!(f, "`{service}` has no host now"),
            Self::NoEdgeRouters { service, reason, .. } => {
                write!(f, "no edge router for `{service}`: {reason}")
            }
            Self::Refused { service, .. } => write!(f, "`{service}` was refused"),
            Self::Encryption { service, problem } => {
                write!(f, "end-to-end encryption of `{service}` failed: {problem}")
            }
            Self::Unproved { service, problem } => {
                write!(f, "`{service}` demands that both ends prove who they are: {problem}")
            }
            Self::Timeout { action, limit, .. } => {
                write!(f, "{action} took longer than {} s", limit.as_secs_f32())
            }
            Self::Undelivered { connections } => {
                write!(f, "data of {connections} connections did not arrive at their other ends")
            }
            Self::Closed(what) => write!(f, "closed: {what}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Identity(cause) => Some(&**cause),
            Self::NotLoggedIn(cause) | Self::Controller(cause) => Some(&**cause),
            Self::SecondFactor(problem) => Some(problem),
            Self::Posture { cause, .. } => Some(&**cause),
            Self::NoTerminators { refusal, .. } | Self::Refused { refusal, .. } => Some(refusal),
            Self::NoEdgeRouters { cause, .. } => cause.as_deref().map(|cause| cause as _),
            Self::Timeout { last, .. } => last.as_deref().map(|last| last as _),
            Self::ServiceUnknown { .. }
            | Self::NotPermitted { .. }
            | Self::Encryption { .. }
            | Self::Unproved { .. }
            | Self::Undelivered { .. }
            | Self::Closed(_) => None,
        }
    }
}

impl Error {
    /// The code of a router's refusal, if the error is one.
    #[must_use]
    pub fn code(&self) -> Option<u32> {
        match self {
            Self::Refused { refusal, .. } | Self::NoTerminators { refusal, .. } => refusal.code,
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
            Self::SecondFactor(_) => {
                Self::Posture { service: service.to_owned(), cause: Box::new(self) }
            }
            other => other,
        }
    }

    pub(crate) fn of_failure(service: &str, failure: Failure) -> Self {
        let service = service.to_owned();
        match failure {
            Failure::Channel(reason) => Self::Closed(reason),
            Failure::Refused(refusal) if refusal.is_no_terminators() => {
                Self::NoTerminators { service, refusal }
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

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => f.write_str(&refusal.message),
            Self::Channel(reason) => f.write_str(reason),
        }
    }
}

/// A refusal of a router (docs/protocol/sdk.md 6).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Refusal {
    /// The code; `None` if the router sent only a text.
    pub code: Option<u32>,
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
            code: Some(error.code.0).filter(|code| *code != 0),
            retry_hint: error.retry_hint.0,
            message,
            failing_posture_checks: error.failing_posture_check_ids,
        }
    }

    fn error_code(&self) -> ErrorCode {
        self.code.map_or(ErrorCode::NONE, ErrorCode)
    }

    pub(crate) fn plain(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// True if the router does not accept the service session or the API session.
    pub(crate) fn is_stale_session(&self) -> bool {
        let code = self.error_code();
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
            .contains(&self.error_code())
    }

    /// True if the refusal may end without an operator, such as one of a router that a new policy has
    /// not reached yet.
    pub(crate) fn may_pass(&self) -> bool {
        let denials = [ErrorCode::ACCESS_DENIED, ErrorCode::POSTURE_CHECK_FAILED];
        RetryHint(self.retry_hint) != RetryHint::NOT_RETRIABLE
            && (!self.is_final() || denials.contains(&self.error_code()))
    }

    fn is_no_terminators(&self) -> bool {
        let text = self.message.to_lowercase();
        text.contains("no terminators") || text.contains("no online terminators")
    }
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(code) = self.code {
            write!(f, " (code {code})")?;
        }
        if !self.failing_posture_checks.is_empty() {
            write!(f, "; posture checks: {}", self.failing_posture_checks.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use weft_wire::edge::StructuredError;

    use super::*;

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

    /// The text of an error and of every source below it.
    fn walk(error: &(dyn std::error::Error + 'static)) -> Vec<String> {
        let errors = std::iter::successors(Some(error), |error| error.source());
        errors.map(ToString::to_string).collect()
    }

    #[test]
    fn the_chain_of_an_error_goes_down_to_its_last_cause_and_says_nothing_twice() {
        let away = || {
            let source = io::Error::from(io::ErrorKind::ConnectionRefused);
            let (action, url) = ("reach", "https://c:1280/".to_owned());
            weft_client::Error::Connection { action, url, source, timeout: false }
        };
        let (service, limit) = (|| "web".to_owned(), Duration::from_secs(15));
        let refusal = || Refusal::plain("not today");
        let controller = || Box::new(Error::Controller(Arc::new(away())));
        let last = "connection refused";
        let (action, problem, reason) = ("dialing", "no key", "r1: away");
        let posture = || Error::SecondFactor(FactorProblem::NoCode).for_posture("web");
        let wrapped = [
            (Error::NotLoggedIn(Arc::new(away())), 3, last),
            (Error::Controller(Arc::new(away())), 3, last),
            (Error::from(weft_identity::Error::NoCertificate), 2, "certificate"),
            (Error::SecondFactor(FactorProblem::NoCode), 2, "TOTP"),
            (posture(), 3, "TOTP"),
            (Error::Posture { service: service(), cause: controller() }, 4, last),
            (Error::NoTerminators { service: service(), refusal: refusal() }, 2, "not today"),
            (Error::Refused { service: service(), refusal: refusal() }, 2, "not today"),
            (
                Error::NoEdgeRouters {
                    service: service(),
                    reason: reason.into(),
                    cause: Some(controller()),
                },
                4,
                last,
            ),
            (Error::Timeout { action: action.into(), limit, last: Some(controller()) }, 4, last),
        ];
        let leaves = [
            Error::ServiceUnknown { service: service() },
            Error::NotPermitted { service: service(), action: "dial" },
            Error::NoEdgeRouters { service: service(), reason: reason.into(), cause: None },
            Error::Encryption { service: service(), problem: problem.into() },
            Error::Unproved { service: service(), problem: problem.into() },
            Error::Timeout { action: action.into(), limit, last: None },
            Error::Undelivered { connections: 1 },
            Error::Closed("the endpoint is closed".to_owned()),
        ];
        let leaves = leaves.map(|error| (error, 1, ""));
        for (error, length, last) in wrapped.into_iter().chain(leaves) {
            let texts = walk(&error);
            assert_eq!(texts.len(), length, "{texts:?}");
            assert!(texts.last().unwrap().contains(last), "{texts:?}");
            for pair in texts.windows(2) {
                assert!(!pair[0].contains(&pair[1]), "{texts:?}");
            }
            let as_io = io::Error::from(error);
            assert_eq!(walk(&as_io), texts, "an error of I/O keeps the chain");
        }
        let error = Error::NotLoggedIn(Arc::new(away()));
        let causes = std::iter::successors(std::error::Error::source(&error), |one| one.source());
        let found = causes.filter_map(|one| one.downcast_ref::<io::Error>()).next().unwrap();
        assert_eq!(found.kind(), io::ErrorKind::ConnectionRefused);
    }
}
