//! SDK and edge router: connect, bind, data and their answers.
//!
//! ```text
//! SDK                      router                                     host
//!  | hello, session token -> |                                          |
//!  |                         | <- Bind                                  |
//!  |                         | -> StateConnected, later BindSuccess     |
//!  | Connect ->              | -> Dial                                  |
//!  |                         | <- DialSuccess                           |
//!  | <- StateConnected       |                                          |
//!  | Data <->                | <-> Data                                 |
//!  | StateClosed <->         | <-> StateClosed                          |
//! ```
//!
//! Each side chooses connection ids that are unique on the channel: SDKs count up from 0 or 1,
//! routers from 0x8000_0000. If the flow control of a connection is at the SDK, the messages of
//! [`payload`](crate::payload) take the place of [`Data`] (docs/protocol/sdk.md 4 to 13).

mod connect;
mod data;
mod error;
mod host;
pub mod posture;
mod token;
mod traceroute;

pub use connect::{Connect, StateClosed, StateConnected, XgressGrant};
pub use data::{Data, data_flags};
pub use error::{ErrorCode, RetryHint, StructuredError};
pub use host::{
    Bind, BindSuccess, ConnInspect, ConnInspectAnswer, ConnKind, Dial, DialFailed, DialSuccess,
    HealthEvent, Unbind, UpdateBind,
};
pub use token::{UpdateToken, UpdateTokenFailure, update_token_success};
pub use traceroute::{TraceRoute, TraceRouteAnswer};

#[cfg(test)]
mod tests;

/// Content types on SDK channels (docs/protocol/sdk.md 4).
pub mod content_type {
    /// SDK to router: dial a service.
    pub const CONNECT: i32 = 60783;
    /// Router to SDK: a dial or bind was accepted.
    pub const STATE_CONNECTED: i32 = 60784;
    /// Either side: a connection is closed, or a request was refused.
    pub const STATE_CLOSED: i32 = 60785;
    /// Either side: data of a connection.
    pub const DATA: i32 = 60786;
    /// Router to host: a dial.
    pub const DIAL: i32 = 60787;
    /// Host to router: the dial is accepted.
    pub const DIAL_SUCCESS: i32 = 60788;
    /// Host to router: the dial is refused.
    pub const DIAL_FAILED: i32 = 60789;
    /// SDK to router: host a service.
    pub const BIND: i32 = 60790;
    /// SDK to router: stop hosting.
    pub const UNBIND: i32 = 60791;
    /// SDK to router: change cost or precedence of hosting.
    pub const UPDATE_BIND: i32 = 60794;
    /// SDK to router: health of a host.
    pub const HEALTH_EVENT: i32 = 60795;
    /// Either side: asks the hop of a connection's route that comes after this many hops to answer.
    pub const TRACE_ROUTE: i32 = 60796;
    /// The answer of the hop to [`TRACE_ROUTE`].
    pub const TRACE_ROUTE_ANSWER: i32 = 60797;
    /// Router to SDK: asks whether the SDK knows a connection.
    pub const CONN_INSPECT_REQUEST: i32 = 60798;
    /// SDK to router: the answer to [`CONN_INSPECT_REQUEST`].
    pub const CONN_INSPECT_RESPONSE: i32 = 60799;
    /// Router to SDK: the terminator of a bind is established.
    pub const BIND_SUCCESS: i32 = 60800;
    /// Router to SDK: the new token is taken.
    pub const UPDATE_TOKEN_SUCCESS: i32 = 60801;
    /// Router to SDK: the new token is refused.
    pub const UPDATE_TOKEN_FAILURE: i32 = 60802;
    /// SDK to router: a new access token.
    pub const UPDATE_TOKEN: i32 = 60803;
    /// Router to SDK: an inspection.
    pub const INSPECT_REQUEST: i32 = 60804;
    /// SDK to router: the answer to [`INSPECT_REQUEST`].
    pub const INSPECT_RESPONSE: i32 = 60805;
    /// SDK to router: posture data.
    pub const POSTURE_RESPONSE: i32 = 10800;
    /// SDK to router: subscribes to services and posture state.
    pub const SUBSCRIBE_TO_SERVICES: i32 = 10900;
    /// SDK to router: ends the subscription.
    pub const UNSUBSCRIBE_FROM_SERVICES: i32 = 10901;
    /// SDK to router: push the whole posture state.
    pub const RESYNC_POSTURE_STATE: i32 = 10902;
    /// Router to SDK: services that changed.
    pub const SERVICE_CHANGE_SET: i32 = 10903;
    /// Router to SDK: the posture state.
    pub const POSTURE_STATE_CHANGE: i32 = 10904;
}

/// Header keys on SDK channels (docs/protocol/sdk.md 5).
pub mod header {
    /// Connection id; u32.
    pub const CONN_ID: i32 = 1000;
    /// API session token, in the hello.
    pub const SESSION_TOKEN: i32 = 1002;
    /// Public key for end-to-end encryption.
    pub const PUBLIC_KEY: i32 = 1003;
    /// Cost of hosting; u16.
    pub const COST: i32 = 1004;
    /// Precedence of hosting; byte.
    pub const PRECEDENCE: i32 = 1005;
    /// Instance of a service; text.
    pub const TERMINATOR_IDENTITY: i32 = 1006;
    /// A secret that shows that hosts of one instance are the same; bytes.
    pub const TERMINATOR_IDENTITY_SECRET: i32 = 1007;
    /// The dialer's name for itself; text.
    pub const CALLER_ID: i32 = 1008;
    /// Method of encryption; never forwarded, because its values differ between SDKs.
    pub const CRYPTO_METHOD: i32 = 1009;
    /// Flags of data; u32, see [`data_flags`](super::data_flags).
    pub const FLAGS: i32 = 1010;
    /// Data of an application for its peer; bytes.
    pub const APP_DATA: i32 = 1011;
    /// True if the router chooses connection ids (bool), or the id that it chose (u32 in a dial).
    pub const ROUTER_PROVIDED_CONN_ID: i32 = 1012;
    /// Health of a host; bool.
    pub const HEALTH_STATUS: i32 = 1013;
    /// See [`ErrorCode`](super::ErrorCode); u32.
    pub const ERROR_CODE: i32 = 1014;
    /// The time of a request for a traced route, returned by the answer; u64.
    pub const TIMESTAMP: i32 = 1015;
    /// Hops that are left in a traced route; u32.
    pub const TRACE_HOP_COUNT: i32 = 1016;
    /// Kind of the hop that answered; text.
    pub const TRACE_HOP_TYPE: i32 = 1017;
    /// Id of the hop that answered; text.
    pub const TRACE_HOP_ID: i32 = 1018;
    /// The number of the dialer's request, returned by the answer of a host; u32.
    pub const TRACE_SOURCE_REQUEST_ID: i32 = 1019;
    /// Why a traced route ended early; text.
    pub const TRACE_ERROR: i32 = 1020;
    /// A name of a listener that stays the same over reconnects; opaque bytes.
    pub const LISTENER_ID: i32 = 1021;
    /// See [`ConnKind`](super::ConnKind); byte.
    pub const CONN_TYPE: i32 = 1022;
    /// True if the SDK answers inspections; bool.
    pub const SUPPORTS_INSPECT: i32 = 1023;
    /// True if binds are confirmed; bool.
    pub const SUPPORTS_BIND_SUCCESS: i32 = 1024;
    /// Short random name of a connection, for logs; opaque bytes.
    pub const CONNECTION_MARKER: i32 = 1025;
    /// Circuit id; text.
    pub const CIRCUIT_ID: i32 = 1026;
    /// A token by which a dial reaches the same host; bytes.
    pub const STICKINESS_TOKEN: i32 = 1027;
    /// The SDK asks for flow control of its own, or gets it; bool.
    pub const USE_XGRESS_TO_SDK: i32 = 1028;
    /// Controller that owns the circuit; text.
    pub const XGRESS_CTRL_ID: i32 = 1029;
    /// Address of the SDK's end; text.
    pub const XGRESS_ADDRESS: i32 = 1030;
    /// An error as JSON, see [`StructuredError`](super::StructuredError).
    pub const STRUCTURED_ERROR: i32 = 1033;
    /// Identity id of the dialer; text.
    pub const DIALER_IDENTITY_ID: i32 = 1034;
    /// Identity name of the dialer; text.
    pub const DIALER_IDENTITY_NAME: i32 = 1035;
    /// Service id or name; text.
    pub const SERVICE_ID: i32 = 1036;
    /// Capability mask of the router.
    pub const ROUTER_CAPABILITIES: i32 = 1039;
}

/// The first connection id that a router chooses; SDKs choose lower ones.
pub const FIRST_ROUTER_CONN_ID: u32 = 0x8000_0000;
