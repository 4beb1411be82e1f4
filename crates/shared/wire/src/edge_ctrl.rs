//! Messages between controller and edge router, edge part: the router data model, sessions,
//! circuits and terminators for SDKs, and reports of an edge router.
//!
//! The edge part shares the control channel with [`ctrl`](crate::ctrl); only edge routers use it.
//! Most messages have a protobuf body and are read and written through
//! [`ProtoBody`](crate::ProtoBody); those for circuits of SDKs consist of headers. A request that
//! fails is answered with an [`EdgeError`] (docs/protocol/edge-control-plane.md 2).
//!
//! ```text
//! controller                                  edge router
//!   | ServerHello                               |
//!   |------------------------------------------>|
//!   |                               ClientHello |
//!   |<------------------------------------------|
//!   |               SubscribeToDataModelRequest |
//!   |<------------------------------------------|
//!   | DataState, then ChangeSet for ever        |
//!   |------------------------------------------>|
//!   |                           CreateCircuitV3 |   for each dial of an SDK
//!   |<------------------------------------------|
//!   | CreatedCircuit or EdgeError               |
//!   |------------------------------------------>|
//! ```

mod circuit;
pub mod data_model;
mod error;
mod greeting;
mod session;
mod tunnel;

pub use circuit::{CircuitForm, CreateCircuitV2, CreateCircuitV3, CreatedCircuit};
pub use error::EdgeError;
pub use greeting::supports_data_model;
pub use session::{AddedSessions, EncodedApiSession, SYNC_INSTANT, SyncState};
pub use tunnel::{RemoveTunnelTerminator, TunnelHealthEvent};

pub use crate::edge::{ErrorCode, RetryHint};
pub use crate::proto::edge_ctrl::*;
use crate::proto::proto_bodies;

/// Most bytes of each text of a terminator: binding, address, instance id and its secret.
pub const MAX_TERMINATOR_TEXT: usize = 1024;
/// Most bytes of the peer data of a terminator: keys and values together.
pub const MAX_TERMINATOR_DATA: usize = 16 * 1024;

/// Content types of the edge part (docs/protocol/edge-control-plane.md 2).
pub mod content_type {
    /// First edge message, see [`ServerHello`](super::ServerHello).
    pub const SERVER_HELLO: i32 = 20000;
    /// The answer to [`SERVER_HELLO`], see [`ClientHello`](super::ClientHello).
    pub const CLIENT_HELLO: i32 = 20001;
    /// A request failed, see [`EdgeError`](super::EdgeError); as the answer to
    /// [`EXTEND_VERIFY`] also its success, see [`ExtendVerifyResult`](super::ExtendVerifyResult).
    pub const ERROR: i32 = 20002;
    /// Service sessions ended, see [`SessionRemoved`](super::SessionRemoved).
    pub const SESSION_REMOVED: i32 = 20102;
    /// API sessions began, see [`ApiSessionAdded`](super::ApiSessionAdded).
    pub const API_SESSION_ADDED: i32 = 20200;
    /// API sessions changed, see [`ApiSessionUpdated`](super::ApiSessionUpdated).
    pub const API_SESSION_UPDATED: i32 = 20201;
    /// API sessions ended, see [`ApiSessionRemoved`](super::ApiSessionRemoved).
    pub const API_SESSION_REMOVED: i32 = 20202;
    /// API sessions in use, see [`ApiSessionHeartbeat`](super::ApiSessionHeartbeat).
    pub const API_SESSION_HEARTBEAT: i32 = 20203;
    /// Asks for the API sessions again, see [`RequestClientReSync`](super::RequestClientReSync).
    pub const REQUEST_CLIENT_RE_SYNC: i32 = 20204;
    /// Makes a circuit, in the form that 1.x routers use with controllers that do not know
    /// [`CREATE_CIRCUIT_V2_REQUEST`], see
    /// [`CreateCircuitRequest`](super::CreateCircuitRequest).
    pub const CREATE_CIRCUIT_REQUEST: i32 = 20205;
    /// The circuit, see [`CreateCircuitResponse`](super::CreateCircuitResponse).
    pub const CREATE_CIRCUIT_RESPONSE: i32 = 20206;
    /// Changes a terminator, see [`UpdateTerminatorRequest`](super::UpdateTerminatorRequest).
    pub const UPDATE_TERMINATOR_REQUEST: i32 = 20209;
    /// Success of [`UPDATE_TERMINATOR_REQUEST`]; no body.
    pub const UPDATE_TERMINATOR_RESPONSE: i32 = 20210;
    /// Removes a terminator, see [`RemoveTerminatorRequest`](super::RemoveTerminatorRequest).
    pub const REMOVE_TERMINATOR_REQUEST: i32 = 20211;
    /// Success of [`REMOVE_TERMINATOR_REQUEST`]; no body.
    pub const REMOVE_TERMINATOR_RESPONSE: i32 = 20212;
    /// Service sessions in use, see [`ValidateSessionsRequest`](super::ValidateSessionsRequest).
    pub const VALIDATE_SESSIONS_REQUEST: i32 = 20213;
    /// Result of a health check, see [`HealthEventRequest`](super::HealthEventRequest).
    pub const HEALTH_EVENT: i32 = 20214;
    /// Makes a terminator, see [`CreateTerminatorV2Request`](super::CreateTerminatorV2Request).
    pub const CREATE_TERMINATOR_V2_REQUEST: i32 = 20216;
    /// The answer, see [`CreateTerminatorV2Response`](super::CreateTerminatorV2Response).
    pub const CREATE_TERMINATOR_V2_RESPONSE: i32 = 20217;
    /// Makes a circuit, see [`CreateCircuitV2`](super::CreateCircuitV2).
    pub const CREATE_CIRCUIT_V2_REQUEST: i32 = 20218;
    /// The circuit, see [`CreatedCircuit`](super::CreatedCircuit).
    pub const CREATE_CIRCUIT_V2_RESPONSE: i32 = 20219;
    /// Makes a circuit for the router's own tunneler, see
    /// [`CreateTunnelCircuitV2Request`](super::CreateTunnelCircuitV2Request).
    pub const CREATE_TUNNEL_CIRCUIT_V2_REQUEST: i32 = 20220;
    /// The circuit, see [`CreateTunnelCircuitV2Response`](super::CreateTunnelCircuitV2Response).
    pub const CREATE_TUNNEL_CIRCUIT_V2_RESPONSE: i32 = 20221;
    /// Makes a circuit without a service session, see [`CreateCircuitV3`](super::CreateCircuitV3).
    pub const CREATE_CIRCUIT_V3_REQUEST: i32 = 20222;
    /// The circuit, see [`CreatedCircuit`](super::CreatedCircuit).
    pub const CREATE_CIRCUIT_V3_RESPONSE: i32 = 20223;
    /// New certificates, see [`EnrollmentCertsResponse`](super::EnrollmentCertsResponse).
    pub const ENROLLMENT_CERTS_RESPONSE: i32 = 20301;
    /// Asks for new certificates, see
    /// [`EnrollmentExtendRouterRequest`](super::EnrollmentExtendRouterRequest).
    pub const EXTEND_REQUEST: i32 = 20302;
    /// Confirms new certificates, see
    /// [`EnrollmentExtendRouterVerifyRequest`](super::EnrollmentExtendRouterVerifyRequest).
    pub const EXTEND_VERIFY: i32 = 20303;
    /// Changes a terminator of the router's own tunneler, see
    /// [`UpdateTunnelTerminatorRequest`](super::UpdateTunnelTerminatorRequest).
    pub const UPDATE_TUNNEL_TERMINATOR_REQUEST: i32 = 20408;
    /// Success of [`UPDATE_TUNNEL_TERMINATOR_REQUEST`]; no body.
    pub const UPDATE_TUNNEL_TERMINATOR_RESPONSE: i32 = 20409;
    /// Removes a terminator of the router's own tunneler, see
    /// [`RemoveTunnelTerminator`](super::RemoveTunnelTerminator).
    pub const REMOVE_TUNNEL_TERMINATOR_REQUEST: i32 = 20410;
    /// Success of [`REMOVE_TUNNEL_TERMINATOR_REQUEST`]; no body.
    pub const REMOVE_TUNNEL_TERMINATOR_RESPONSE: i32 = 20411;
    /// Result of a health check, see [`TunnelHealthEvent`](super::TunnelHealthEvent).
    pub const TUNNEL_HEALTH_EVENT: i32 = 20412;
    /// Makes a terminator of the router's own tunneler, see
    /// [`CreateTunnelTerminatorRequestV2`](super::CreateTunnelTerminatorRequestV2).
    pub const CREATE_TUNNEL_TERMINATOR_REQUEST_V2: i32 = 20413;
    /// The answer, see
    /// [`CreateTunnelTerminatorResponseV2`](super::CreateTunnelTerminatorResponseV2).
    pub const CREATE_TUNNEL_TERMINATOR_RESPONSE_V2: i32 = 20414;
    /// Connected identities, see [`ConnectEvents`](super::ConnectEvents).
    pub const CONNECT_EVENTS: i32 = 20415;
    /// The whole model, see [`DataState`](super::data_model::DataState).
    pub const DATA_STATE: i32 = 20500;
    /// A change of the model, see [`ChangeSet`](super::data_model::ChangeSet).
    pub const DATA_STATE_CHANGE_SET: i32 = 20501;
    /// Asks a router to compare its model with that of the controller, see
    /// [`ValidateRequest`](super::data_model::ValidateRequest).
    pub const VALIDATE_DATA_STATE_REQUEST: i32 = 20503;
    /// The answer, see [`ValidateResponse`](super::data_model::ValidateResponse).
    pub const VALIDATE_DATA_STATE_RESPONSE: i32 = 20504;
    /// Asks for the model, see
    /// [`SubscribeToDataModelRequest`](super::data_model::SubscribeToDataModelRequest).
    pub const SUBSCRIBE_TO_DATA_MODEL: i32 = 20505;
    /// The index of the controller's model, see [`CurrentIndex`](super::data_model::CurrentIndex).
    pub const CURRENT_INDEX: i32 = 20506;
    /// Asks for a statement about the router's own tunneler, see
    /// [`EndStatementRequest`](super::EndStatementRequest). A message of weft only, in a range that
    /// no other program uses.
    pub const END_STATEMENT_REQUEST: i32 = 77_003;
    /// The answer, see [`EndStatementResponse`](super::EndStatementResponse). A message of weft only.
    pub const END_STATEMENT_RESPONSE: i32 = 77_004;
}

/// Header keys of the edge part (docs/protocol/edge-control-plane.md 1.1). The meaning of some
/// depends on the content type.
pub mod header {
    /// Peer data of a circuit; map from u32 to bytes.
    pub const PEER_DATA: i32 = 10;
    /// Token of the service session of a request; string.
    pub const SESSION_TOKEN: i32 = 11;
    /// Id of the circuit of an answer; string.
    pub const CREATED_CIRCUIT_ID: i32 = 11;
    /// Fingerprints of the certificates of the SDK that asks; list of strings.
    pub const FINGERPRINTS: i32 = 12;
    /// Address of the initiating end, in an answer; string.
    pub const ADDRESS: i32 = 12;
    /// Instance that a request dials; string.
    pub const TERMINATOR_INSTANCE_ID: i32 = 13;
    /// Tags of the circuit of an answer; map from string to string.
    pub const TAGS: i32 = 13;
    /// Token of the API session of a request; string.
    pub const API_SESSION_TOKEN: i32 = 14;
    /// The dialer's identity; string.
    pub const IDENTITY_ID: i32 = 15;
    /// The service to dial; string.
    pub const SERVICE_ID: i32 = 16;
    /// The id for the circuit; string, may be empty.
    pub const CIRCUIT_ID: i32 = 17;
    /// Number of a [`RetryHint`](super::RetryHint) of an error; u32.
    pub const RETRY_HINT: i32 = 18;
    /// The strategy by which API sessions are synchronised; string.
    pub const SYNC_STRATEGY_TYPE: i32 = 1013;
    /// See [`SyncState`](super::SyncState); JSON.
    pub const SYNC_STRATEGY_STATE: i32 = 1014;
    /// Number of an [`ErrorCode`](super::ErrorCode) of an error; u32.
    pub const ERROR_CODE: i32 = 1014;
    /// Terminator of a health event; string.
    pub const TERMINATOR_ID: i32 = 1022;
    /// True if a health check passed; bool.
    pub const CHECK_PASSED: i32 = 1023;
    /// True if the sender knows the router data model; bool.
    pub const DATA_MODEL_SUPPORTED: i32 = 1024;
    /// Index of the router data model; u64.
    pub const DATA_MODEL_INDEX: i32 = 1025;
    /// The seal of a revision, see [`SealedRevision`](super::data_model::SealedRevision); bytes. Of weft only.
    pub const INDEX_SEAL: i32 = 77_101;
    /// The revision that is sealed; u64. Of weft only.
    pub const SEALED_REVISION: i32 = 77_102;
    /// True if another controller may do what this one refused; bool. Of weft only.
    pub const ELSEWHERE: i32 = 77_103;
    /// The subscription for which a part of the model is sent; string.
    pub const SUBSCRIPTION_ID: i32 = 1026;
    /// The circuit that a failed request had made; string.
    pub const ERROR_CIRCUIT_ID: i32 = 1026;
}

/// Limit of messages about all sessions or identities of a router, in bytes.
const LARGE: usize = 16 * 1024 * 1024;

proto_bodies! {
    ServerHello => content_type::SERVER_HELLO;
    ClientHello => content_type::CLIENT_HELLO;
    SessionRemoved => content_type::SESSION_REMOVED, LARGE;
    ApiSessionAdded => content_type::API_SESSION_ADDED, LARGE;
    ApiSessionUpdated => content_type::API_SESSION_UPDATED, LARGE;
    ApiSessionRemoved => content_type::API_SESSION_REMOVED, LARGE;
    ApiSessionHeartbeat => content_type::API_SESSION_HEARTBEAT, LARGE;
    RequestClientReSync => content_type::REQUEST_CLIENT_RE_SYNC;
    CreateCircuitRequest => content_type::CREATE_CIRCUIT_REQUEST;
    CreateCircuitResponse => content_type::CREATE_CIRCUIT_RESPONSE;
    UpdateTerminatorRequest => content_type::UPDATE_TERMINATOR_REQUEST;
    RemoveTerminatorRequest => content_type::REMOVE_TERMINATOR_REQUEST;
    ValidateSessionsRequest => content_type::VALIDATE_SESSIONS_REQUEST;
    HealthEventRequest => content_type::HEALTH_EVENT;
    CreateTerminatorV2Request => content_type::CREATE_TERMINATOR_V2_REQUEST;
    CreateTerminatorV2Response => content_type::CREATE_TERMINATOR_V2_RESPONSE;
    CreateTunnelCircuitV2Request => content_type::CREATE_TUNNEL_CIRCUIT_V2_REQUEST;
    CreateTunnelCircuitV2Response => content_type::CREATE_TUNNEL_CIRCUIT_V2_RESPONSE;
    EnrollmentCertsResponse => content_type::ENROLLMENT_CERTS_RESPONSE;
    EnrollmentExtendRouterRequest => content_type::EXTEND_REQUEST;
    EnrollmentExtendRouterVerifyRequest => content_type::EXTEND_VERIFY;
    ExtendVerifyResult => content_type::ERROR;
    UpdateTunnelTerminatorRequest => content_type::UPDATE_TUNNEL_TERMINATOR_REQUEST;
    CreateTunnelTerminatorRequestV2 => content_type::CREATE_TUNNEL_TERMINATOR_REQUEST_V2;
    CreateTunnelTerminatorResponseV2 => content_type::CREATE_TUNNEL_TERMINATOR_RESPONSE_V2;
    ConnectEvents => content_type::CONNECT_EVENTS, LARGE;
    EndStatementRequest => content_type::END_STATEMENT_REQUEST;
    EndStatementResponse => content_type::END_STATEMENT_RESPONSE;
}

#[cfg(test)]
mod tests;
