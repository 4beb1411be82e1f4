//! What a dial asks for, and what it results in.

use weft_model::Id;
use weft_wire::{PeerData, StringMap};

use crate::tags::CircuitTags;

/// A circuit to be made.
#[derive(Debug, Clone)]
pub struct CircuitSpec {
    /// The router of the dialer.
    pub router: Id,
    /// The service.
    pub service: Id,
    /// The instance to dial; if empty, any terminator without an instance.
    pub instance: String,
    /// The session or the identity that dials.
    pub client: String,
    /// Whether the client is a service session, with which the circuit ends.
    pub is_of_session: bool,
    /// Whether the dialer announces that it proves itself to the host.
    pub dialer_proves: bool,
    /// Data for the terminating side.
    pub peer_data: PeerData,
    /// Tags of the circuit; the tag of the host is added.
    pub tags: CircuitTags,
    /// The id, if the router chose one.
    pub id: Option<String>,
}

/// A circuit that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeCircuit {
    /// The id of the circuit.
    pub id: String,
    /// The address of the initiating end.
    pub address: String,
    /// Data of the terminating side: the data of the terminator, and the data that the host sent
    /// for this circuit.
    pub peer_data: PeerData,
    /// The tags of the circuit.
    pub tags: StringMap,
}
