//! The reasons why a circuit was not made.

use weft_wire::ctrl::RouteErrorCode;

/// The reason why a circuit was not made (docs/protocol/operations.md 4.3, `failure_cause`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FailureCause {
    /// Another circuit has the id.
    IdInUse,
    /// Too many circuits are being made.
    TooMany,
    /// There is no such service.
    InvalidService,
    /// The service has no terminators.
    NoTerminators,
    /// No router of a terminator is connected.
    NoOnlineTerminators,
    /// No path leads to a terminator.
    NoPath,
    /// A router did not answer in time.
    RouterResponseTimeout,
    /// A router refused.
    Router(RouteErrorCode),
}

impl FailureCause {
    /// Whether the dial failed for want of routers that are connected to this controller: another one may have them.
    pub fn is_for_want_of_routers(self) -> bool {
        matches!(self, Self::NoOnlineTerminators | Self::NoPath)
    }

    /// The word for the cause in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::IdInUse | Self::TooMany => "ID_GENERATION_ERR",
            Self::InvalidService => "INVALID_SERVICE",
            Self::NoTerminators => "NO_TERMINATORS",
            Self::NoOnlineTerminators => "NO_ONLINE_TERMINATORS",
            Self::NoPath => "NO_PATH",
            Self::RouterResponseTimeout => "ROUTER_RESPONSE_TIMEOUT",
            Self::Router(code) => match code {
                RouteErrorCode::Generic => "ROUTER_ERR_GENERIC",
                RouteErrorCode::InvalidTerminator => "ROUTER_ERR_INVALID_TERMINATOR",
                RouteErrorCode::MisconfiguredTerminator => "ROUTER_ERR_MISCONFIGURED_TERMINATOR",
                RouteErrorCode::DialTimedOut => "ROUTER_ERR_DIAL_TIMED_OUT",
                RouteErrorCode::ConnectionRefused => "ROUTER_ERR_CONN_REFUSED",
                RouteErrorCode::RejectedByApplication => "ROUTER_ERR_REJECTED_BY_APPLICATION",
                RouteErrorCode::DnsResolutionFailed => "ROUTER_ERR_DNS_RESOLUTION_FAILED",
                RouteErrorCode::PortNotAllowed => "ROUTER_ERR_PORT_NOT_ALLOWED",
                RouteErrorCode::InvalidLinkDestination => "ROUTER_ERR_INVALID_LINK_DESTINATION",
                RouteErrorCode::ResourcesNotAvailable => "ROUTER_ERR_RESOURCES_NOT_AVAILABLE",
            },
        }
    }
}

/// A circuit that was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct CircuitFailure {
    /// The cause.
    pub cause: FailureCause,
    /// A text for people.
    pub text: String,
    /// The id that was meant for the circuit.
    pub circuit: String,
}
