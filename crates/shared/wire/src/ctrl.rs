//! Messages between controller and router, fabric part: circuits, links, terminators, other routers,
//! and reports of a router.
//!
//! A router dials; its hello carries the content of a [`RouterHello`], the answer that of a
//! [`ControllerHello`]. After that both sides send messages of the content types below. Most have a
//! protobuf body and are read and written through [`ProtoBody`](crate::ProtoBody); the answers about a
//! circuit, [`CircuitSuccess`], [`CircuitFailed`] and [`RouteResult`], consist of headers. Requests
//! without an answer of their own are answered with an [`Outcome`](crate::Outcome)
//! (docs/protocol/control-plane.md 1 to 6).
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
use crate::proto::proto_bodies;

/// Content types of the fabric part (docs/protocol/control-plane.md 5).
pub mod content_type {
    /// A router asks for a circuit, see [`CircuitRequest`](super::CircuitRequest).
    pub const CIRCUIT_REQUEST: i32 = 1000;
    /// The circuit was made, see [`CircuitSuccess`](super::CircuitSuccess).
    pub const CIRCUIT_SUCCESS: i32 = 1001;
    /// A circuit or a link does not work, see [`Fault`](super::Fault).
    pub const FAULT: i32 = 1004;
    /// Part of a circuit, see [`Route`](super::Route).
    pub const ROUTE: i32 = 1005;
    /// End of a circuit, see [`Unroute`](super::Unroute).
    pub const UNROUTE: i32 = 1006;
    /// Measurements of a router; protobuf of its own.
    pub const METRICS: i32 = 1007;
    /// Turns the tracing of messages on and off.
    pub const TOGGLE_PIPE_TRACES: i32 = 1008;
    /// Makes a terminator, see [`CreateTerminatorRequest`](super::CreateTerminatorRequest).
    pub const CREATE_TERMINATOR: i32 = 1011;
    /// Removes a terminator, see [`RemoveTerminatorRequest`](super::RemoveTerminatorRequest).
    pub const REMOVE_TERMINATOR: i32 = 1012;
    /// Asks for values from inside the program, see [`InspectRequest`](super::InspectRequest).
    pub const INSPECT_REQUEST: i32 = 1013;
    /// The values, see [`InspectResponse`](super::InspectResponse).
    pub const INSPECT_RESPONSE: i32 = 1014;
    /// The circuit was not made, see [`CircuitFailed`](super::CircuitFailed).
    pub const CIRCUIT_FAILED: i32 = 1016;
    /// Asks which terminators are alive, in the form of old controllers, see
    /// [`ValidateTerminatorsRequest`](super::ValidateTerminatorsRequest).
    pub const VALIDATE_TERMINATORS: i32 = 1017;
    /// Changes a terminator, see [`UpdateTerminatorRequest`](super::UpdateTerminatorRequest).
    pub const UPDATE_TERMINATOR: i32 = 1018;
    /// Settings for a router, see [`Settings`](super::Settings).
    pub const SETTINGS: i32 = 1020;
    /// The result of a route, see [`RouteResult`](super::RouteResult).
    pub const ROUTE_RESULT: i32 = 1022;
    /// Idle circuits, see [`CircuitConfirmation`](super::CircuitConfirmation).
    pub const CIRCUIT_CONFIRMATION: i32 = 1034;
    /// Links of a router, see [`RouterLinks`](super::RouterLinks).
    pub const ROUTER_LINKS: i32 = 1035;
    /// Asks to confirm a router that opens a link, see [`VerifyRouter`](super::VerifyRouter).
    pub const VERIFY_ROUTER: i32 = 1036;
    /// The list of controllers, see [`UpdateCtrlAddresses`](super::UpdateCtrlAddresses).
    pub const UPDATE_CTRL_ADDRESSES: i32 = 1037;
    /// Removes terminators, see [`RemoveTerminatorsRequest`](super::RemoveTerminatorsRequest).
    pub const REMOVE_TERMINATORS: i32 = 1038;
    /// Takes the terminators of the router out of use; no body.
    pub const QUIESCE_ROUTER: i32 = 1039;
    /// Takes the terminators of the router into use again; no body.
    pub const DEQUIESCE_ROUTER: i32 = 1040;
    /// Asks which terminators are alive, see
    /// [`ValidateTerminatorsV2Request`](super::ValidateTerminatorsV2Request).
    pub const VALIDATE_TERMINATORS_V2: i32 = 1041;
    /// The answer, see [`ValidateTerminatorsV2Response`](super::ValidateTerminatorsV2Response).
    pub const VALIDATE_TERMINATORS_V2_RESPONSE: i32 = 1042;
    /// Removes the router from the network; no body. After a success the connection is closed.
    pub const DECOMMISSION_ROUTER: i32 = 1043;
    /// Reports about other routers, see [`PeerStateChanges`](super::PeerStateChanges).
    pub const PEER_STATE_CHANGE: i32 = 1050;
    /// New leader, see [`UpdateClusterLeader`](super::UpdateClusterLeader).
    pub const UPDATE_CLUSTER_LEADER: i32 = 1051;
    /// Network interfaces, see [`RouterInterfacesUpdate`](super::RouterInterfacesUpdate).
    pub const UPDATE_ROUTER_INTERFACES: i32 = 1052;
    /// Connections of a link, see [`LinkStateUpdate`](super::LinkStateUpdate).
    pub const LINK_STATE: i32 = 1053;
    /// Reports for operators, see [`Alerts`](super::Alerts).
    pub const ALERTS: i32 = 1054;
    /// Asks for [`UPDATE_CTRL_ADDRESSES`], which comes as a plain message; no body.
    pub const REQUEST_CLUSTER_MEMBERS: i32 = 1055;
    /// The link listeners of the router changed, see [`Listeners`](super::Listeners).
    pub const UPDATE_LINK_LISTENERS: i32 = 1056;
    /// The circuits that a router carries, see [`CarriedCircuits`](super::CarriedCircuits). A message
    /// of weft only, in a range that no other program uses.
    pub const CARRIED_CIRCUITS: i32 = 77_001;
    /// The router is about to stop and accepts no new circuits, not even in the middle of a path; no
    /// body. A message of weft only.
    pub const ROUTER_DRAINS: i32 = 77_002;
    /// A controller claims circuits, see [`ClaimCircuits`](super::ClaimCircuits). A message of weft only.
    pub const CLAIM_CIRCUITS: i32 = 77_005;
    /// What a controller knows of the posture of clients, see [`PostureNews`](super::PostureNews). A message of weft
    /// only, between controllers.
    pub const POSTURE_NEWS: i32 = 77_006;
    /// A controller asks another one, see [`ControllerCall`](super::ControllerCall). A message of weft only.
    pub const CONTROLLER_CALL: i32 = 77_007;
    /// The answer, see [`ControllerAnswer`](super::ControllerAnswer). A message of weft only.
    pub const CONTROLLER_ANSWER: i32 = 77_008;
    /// Changes that wait until etcd can be written, see [`WaitingChanges`](super::WaitingChanges). A message of weft only,
    /// between controllers.
    pub const WAITING_CHANGES: i32 = 77_009;
    /// Passwords that were counted, see [`CountedPasswords`](super::CountedPasswords). A message of weft only, between
    /// controllers.
    pub const COUNTED_PASSWORDS: i32 = 77_010;
}

/// Header keys of the fabric part (docs/protocol/control-plane.md 6).
pub mod header {
    /// True if another controller may make a circuit that this one refused; bool. Of weft only.
    pub const ELSEWHERE: i32 = 77_103;
    /// Address of the initiating end in a circuit success; string.
    pub const CIRCUIT_ADDRESS: i32 = 1100;
    /// The number of the attempt in a route result; u32.
    pub const ROUTE_ATTEMPT: i32 = 1101;
    /// Present in the result of a route that succeeded; bool.
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
    /// The token by which a client reaches the same terminator again.
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

/// Limit of messages that list all of a router's links or circuits, in bytes.
const LARGE: usize = 16 * 1024 * 1024;
/// Limit of answers that grow with their requests, in bytes: the limit of frames, 64 MiB.
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
    ClaimCircuits => content_type::CLAIM_CIRCUITS;
    PostureNews => content_type::POSTURE_NEWS;
    ControllerCall => content_type::CONTROLLER_CALL;
    ControllerAnswer => content_type::CONTROLLER_ANSWER, FRAME;
    WaitingChanges => content_type::WAITING_CHANGES, LARGE;
    CountedPasswords => content_type::COUNTED_PASSWORDS;
}

/// Number of a route's forwards in its body.
const FORWARDS_TAG: u32 = 4;

impl Route {
    /// The time that is left, in nanoseconds; negative on late attempts.
    pub fn time_left(&self) -> i64 {
        self.timeout.cast_signed()
    }

    /// Sets the time that is left, in nanoseconds.
    pub fn set_time_left(&mut self, nanoseconds: i64) {
        self.timeout = nanoseconds.cast_unsigned();
    }

    /// The message of a route: `body` is an encoded route, to which these forwards are added. The
    /// routes of one circuit differ between routers in the forwards only, so that the rest is
    /// encoded once.
    pub fn message_with(body: &[u8], forwards: &[route::Forward]) -> crate::Message {
        let tag = FORWARDS_TAG;
        let length = prost::encoding::message::encoded_len_repeated(tag, forwards);
        let mut all = Vec::with_capacity(body.len() + length);
        all.extend_from_slice(body);
        prost::encoding::message::encode_repeated(tag, forwards, &mut all);
        crate::Message::new(content_type::ROUTE, all)
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
        Self { subject: subject.into(), id: circuit_id.into(), ..Self::default() }
    }

    /// The same fault, of an end that this attempt at the circuit has set up.
    #[must_use]
    pub fn in_attempt(self, attempt: u32) -> Self {
        Self { attempts: attempt.saturating_add(1), ..self }
    }

    /// The attempt at the circuit that has set the end up, if the router says it.
    pub fn attempt(&self) -> Option<u32> {
        self.attempts.checked_sub(1)
    }

    /// A fault of a link; iteration 0 means any.
    pub fn link(link_id: impl Into<String>, iteration: u32) -> Self {
        let subject = FaultSubject::Link.into();
        Self { subject, id: link_id.into(), iteration, ..Self::default() }
    }

    /// A link closes in favour of another.
    pub fn link_duplicate(link_id: impl Into<String>, iteration: u32) -> Self {
        let subject = FaultSubject::LinkDuplicate.into();
        Self { subject, id: link_id.into(), iteration, ..Self::default() }
    }

    /// A fault of circuits whose payloads have no next place at this router. `owned` is true if the
    /// receiver is known to be the owner of the circuits.
    pub fn forward<S: AsRef<str>>(owned: bool, circuit_ids: &[S]) -> Self {
        let subject = if owned { FaultSubject::Forward } else { FaultSubject::UnknownOwnerForward };
        let ids: Vec<&str> = circuit_ids.iter().map(AsRef::as_ref).collect();
        Self { subject: subject.into(), id: ids.join(" "), ..Self::default() }
    }

    /// The ids of the circuits in a fault that [`forward`](Self::forward) made.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.id.split(' ').filter(|id| !id.is_empty())
    }
}

#[cfg(test)]
mod tests;
