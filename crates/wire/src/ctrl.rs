//! Controller and router, fabric part: circuits, links, terminators, peers and what a router
//! reports.
//!
//! A router dials; its hello carries what [`RouterHello`] holds, the answer what
//! [`ControllerHello`] holds. After that both sides send messages of the content types below. Most
//! have a protobuf body and are read and written through [`ProtoBody`](crate::ProtoBody); the
//! answers on the way of a circuit, [`CircuitSuccess`], [`CircuitFailed`] and [`RouteResult`],
//! live in headers. Requests without an answer of their own are answered with an
//! [`Outcome`](crate::Outcome) (docs/protocol/control-plane.md 1 to 6).
//!
//! ```text
//! router                      controller                     other routers
//!   | CircuitRequest             |                                 |
//!   |--------------------------->| Route                           |
//!   |                            |-------------------------------->|
//!   |                            |                     RouteResult |
//!   |             CircuitSuccess |<--------------------------------|
//!   |<---------------------------|                                 |
//! ```

mod circuit;
mod hello;

pub use circuit::{
    CircuitFailed, CircuitSuccess, RouteError, RouteErrorCode, RouteResult, is_peer_data,
};
pub use hello::{ControllerHello, RouterHello};

pub use crate::proto::ctrl::*;

use crate::proto::{debug_without_secrets, proto_bodies};

/// Content types of the fabric part (docs/protocol/control-plane.md 5).
pub mod content_type {
    /// A router asks for a circuit, see [`CircuitRequest`](super::CircuitRequest).
    pub const CIRCUIT_REQUEST: i32 = 1000;
    /// The circuit is there, see [`CircuitSuccess`](super::CircuitSuccess).
    pub const CIRCUIT_SUCCESS: i32 = 1001;
    /// Something broke, see [`Fault`](super::Fault).
    pub const FAULT: i32 = 1004;
    /// Part of a circuit, see [`Route`](super::Route).
    pub const ROUTE: i32 = 1005;
    /// End of a circuit, see [`Unroute`](super::Unroute).
    pub const UNROUTE: i32 = 1006;
    /// What a router measured; protobuf of its own.
    pub const METRICS: i32 = 1007;
    /// Turns the tracing of messages on and off.
    pub const TOGGLE_PIPE_TRACES: i32 = 1008;
    /// Makes a terminator, see [`CreateTerminatorRequest`](super::CreateTerminatorRequest).
    pub const CREATE_TERMINATOR: i32 = 1011;
    /// Removes a terminator, see [`RemoveTerminatorRequest`](super::RemoveTerminatorRequest).
    pub const REMOVE_TERMINATOR: i32 = 1012;
    /// Asks for inner values, see [`InspectRequest`](super::InspectRequest).
    pub const INSPECT_REQUEST: i32 = 1013;
    /// Inner values, see [`InspectResponse`](super::InspectResponse).
    pub const INSPECT_RESPONSE: i32 = 1014;
    /// There is no circuit, see [`CircuitFailed`](super::CircuitFailed).
    pub const CIRCUIT_FAILED: i32 = 1016;
    /// Old form, see [`ValidateTerminatorsRequest`](super::ValidateTerminatorsRequest).
    pub const VALIDATE_TERMINATORS: i32 = 1017;
    /// Changes a terminator, see [`UpdateTerminatorRequest`](super::UpdateTerminatorRequest).
    pub const UPDATE_TERMINATOR: i32 = 1018;
    /// Settings for a router, see [`Settings`](super::Settings).
    pub const SETTINGS: i32 = 1020;
    /// What became of a route, see [`RouteResult`](super::RouteResult).
    pub const ROUTE_RESULT: i32 = 1022;
    /// Idle circuits, see [`CircuitConfirmation`](super::CircuitConfirmation).
    pub const CIRCUIT_CONFIRMATION: i32 = 1034;
    /// Links of a router, see [`RouterLinks`](super::RouterLinks).
    pub const ROUTER_LINKS: i32 = 1035;
    /// Who opens a link, see [`VerifyRouter`](super::VerifyRouter).
    pub const VERIFY_ROUTER: i32 = 1036;
    /// The controllers, see [`UpdateCtrlAddresses`](super::UpdateCtrlAddresses).
    pub const UPDATE_CTRL_ADDRESSES: i32 = 1037;
    /// Removes terminators, see [`RemoveTerminatorsRequest`](super::RemoveTerminatorsRequest).
    pub const REMOVE_TERMINATORS: i32 = 1038;
    /// Takes the terminators of the router out of use; no body.
    pub const QUIESCE_ROUTER: i32 = 1039;
    /// Takes them into use again; no body.
    pub const DEQUIESCE_ROUTER: i32 = 1040;
    /// Asks about terminators, see
    /// [`ValidateTerminatorsV2Request`](super::ValidateTerminatorsV2Request).
    pub const VALIDATE_TERMINATORS_V2: i32 = 1041;
    /// The answer, see [`ValidateTerminatorsV2Response`](super::ValidateTerminatorsV2Response).
    pub const VALIDATE_TERMINATORS_V2_RESPONSE: i32 = 1042;
    /// Removes the router from the network; no body. A success is the end of the connection.
    pub const DECOMMISSION_ROUTER: i32 = 1043;
    /// News about other routers, see [`PeerStateChanges`](super::PeerStateChanges).
    pub const PEER_STATE_CHANGE: i32 = 1050;
    /// New leader, see [`UpdateClusterLeader`](super::UpdateClusterLeader).
    pub const UPDATE_CLUSTER_LEADER: i32 = 1051;
    /// Network interfaces, see [`RouterInterfacesUpdate`](super::RouterInterfacesUpdate).
    pub const UPDATE_ROUTER_INTERFACES: i32 = 1052;
    /// Connections of a link, see [`LinkStateUpdate`](super::LinkStateUpdate).
    pub const LINK_STATE: i32 = 1053;
    /// What operators should know, see [`Alerts`](super::Alerts).
    pub const ALERTS: i32 = 1054;
    /// Asks for [`UPDATE_CTRL_ADDRESSES`], which comes as a plain message; no body.
    pub const REQUEST_CLUSTER_MEMBERS: i32 = 1055;
    /// The link listeners of the router changed, see [`Listeners`](super::Listeners).
    pub const UPDATE_LINK_LISTENERS: i32 = 1056;
    /// The circuits a router carries, see [`CarriedCircuits`](super::CarriedCircuits). Of weft
    /// alone, in a range nobody else uses.
    pub const CARRIED_CIRCUITS: i32 = 77_001;
    /// The router is about to stop and takes no new circuits, in the middle of a path either; no body.
    /// Of weft alone.
    pub const ROUTER_DRAINS: i32 = 77_002;
}

/// Header keys of the fabric part (docs/protocol/control-plane.md 6).
pub mod header {
    /// Address of the initiating end in a circuit success; string.
    pub const CIRCUIT_ADDRESS: i32 = 1100;
    /// Number of the attempt in a route result; u32.
    pub const ROUTE_ATTEMPT: i32 = 1101;
    /// Its presence makes a route result a success; bool.
    pub const ROUTE_SUCCESS: i32 = 1102;
    /// Text of a failed route; string.
    pub const ROUTE_ERROR: i32 = 1103;
    /// Code of a failed route; one byte.
    pub const ROUTE_ERROR_CODE: i32 = 1104;
}

/// Keys of peer data that the fabric itself writes (docs/protocol/control-plane.md 6).
pub mod peer_data_key {
    /// Local address of the terminating side; text.
    pub const TERMINATOR_LOCAL_ADDRESS: u32 = 1110;
    /// Remote address of the terminating side; text.
    pub const TERMINATOR_REMOTE_ADDRESS: u32 = 1111;
    /// Local address of the initiating side; text.
    pub const INITIATOR_LOCAL_ADDRESS: u32 = 1112;
    /// Remote address of the initiating side; text.
    pub const INITIATOR_REMOTE_ADDRESS: u32 = 1113;
    /// Terminator that a client wants again.
    pub const STICKINESS_TOKEN: u32 = 1114;
    /// Id of the identity that dials; text.
    pub const DIALER_IDENTITY_ID: u32 = 1115;
    /// Name of the identity that dials; text.
    pub const DIALER_IDENTITY_NAME: u32 = 1116;
}

/// Attempt number of routes that move an existing circuit (docs/protocol/control-plane.md 14).
pub const REROUTE_ATTEMPT: u32 = 99_969_996;

/// Key of [`Settings`]: the address the router is to use for this controller from now on.
pub const SETTING_NEW_CTRL_ADDRESS: i32 = 1;

/// Limit of messages that carry as much as a router has of something.
const LARGE: usize = 16 * 1024 * 1024;
/// Limit of answers that are as large as what was asked for: the frame limit.
const FRAME: usize = crate::FrameLimits::MESSAGES.body as usize;

proto_bodies! {
    CircuitRequest => content_type::CIRCUIT_REQUEST;
    Fault => content_type::FAULT;
    Route => content_type::ROUTE;
    Unroute => content_type::UNROUTE;
    CreateTerminatorRequest => content_type::CREATE_TERMINATOR;
    RemoveTerminatorRequest => content_type::REMOVE_TERMINATOR;
    InspectRequest => content_type::INSPECT_REQUEST;
    InspectResponse => content_type::INSPECT_RESPONSE, FRAME;
    ValidateTerminatorsRequest => content_type::VALIDATE_TERMINATORS, LARGE;
    UpdateTerminatorRequest => content_type::UPDATE_TERMINATOR;
    Settings => content_type::SETTINGS;
    CircuitConfirmation => content_type::CIRCUIT_CONFIRMATION, LARGE;
    RouterLinks => content_type::ROUTER_LINKS;
    VerifyRouter => content_type::VERIFY_ROUTER;
    UpdateCtrlAddresses => content_type::UPDATE_CTRL_ADDRESSES;
    RemoveTerminatorsRequest => content_type::REMOVE_TERMINATORS, LARGE;
    ValidateTerminatorsV2Request => content_type::VALIDATE_TERMINATORS_V2, LARGE;
    ValidateTerminatorsV2Response => content_type::VALIDATE_TERMINATORS_V2_RESPONSE, FRAME;
    PeerStateChanges => content_type::PEER_STATE_CHANGE, LARGE;
    UpdateClusterLeader => content_type::UPDATE_CLUSTER_LEADER;
    RouterInterfacesUpdate => content_type::UPDATE_ROUTER_INTERFACES;
    LinkStateUpdate => content_type::LINK_STATE;
    Alerts => content_type::ALERTS;
    Listeners => content_type::UPDATE_LINK_LISTENERS;
    CarriedCircuits => content_type::CARRIED_CIRCUITS, LARGE;
}

debug_without_secrets! {
    CreateTerminatorRequest { service_id, binding, address, cost, precedence, instance_id }
}

impl Route {
    /// The nanoseconds left, which are negative on late attempts.
    pub fn time_left(&self) -> i64 {
        self.timeout.cast_signed()
    }

    /// Sets the nanoseconds left.
    pub fn set_time_left(&mut self, nanoseconds: i64) {
        self.timeout = nanoseconds.cast_unsigned();
    }

    /// True if this moves an existing circuit.
    pub fn is_reroute(&self) -> bool {
        self.attempt == REROUTE_ATTEMPT
    }
}

impl Fault {
    /// A fault of a circuit, seen by one of its ends.
    pub fn circuit(initiator: bool, circuit_id: impl Into<String>) -> Self {
        let subject = if initiator { FaultSubject::Ingress } else { FaultSubject::Egress };
        Self { subject: subject.into(), id: circuit_id.into(), iteration: 0 }
    }

    /// A fault of a link; iteration 0 is any.
    pub fn link(link_id: impl Into<String>, iteration: u32) -> Self {
        Self { subject: FaultSubject::Link.into(), id: link_id.into(), iteration }
    }

    /// A link closes in favour of another.
    pub fn link_duplicate(link_id: impl Into<String>, iteration: u32) -> Self {
        Self { subject: FaultSubject::LinkDuplicate.into(), id: link_id.into(), iteration }
    }

    /// Circuits that could not be forwarded; `owned` if the receiver is known to have made them.
    pub fn forward<S: AsRef<str>>(owned: bool, circuit_ids: &[S]) -> Self {
        let subject = if owned { FaultSubject::Forward } else { FaultSubject::UnknownOwnerForward };
        let ids: Vec<&str> = circuit_ids.iter().map(AsRef::as_ref).collect();
        Self { subject: subject.into(), id: ids.join(" "), iteration: 0 }
    }

    /// The ids of a fault about circuits that could not be forwarded.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.id.split(' ').filter(|id| !id.is_empty())
    }
}

#[cfg(test)]
mod tests;
