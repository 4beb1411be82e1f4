//! Records of a file with traced messages (docs/protocol/channel.md 18). Each record is protobuf,
//! after its kind and its length (four bytes each).

use prost::Message as _;

/// Longest record that is read or written, in bytes.
pub const MAX_RECORD: usize = 64 * 1024;

const CHANNEL_STATE: i32 = 0;
const CHANNEL_MESSAGE: i32 = 1;

/// A channel was opened or closed.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ChannelState {
    /// Nanoseconds since the epoch.
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    /// The name of the recording program.
    #[prost(string, tag = "2")]
    pub identity: String,
    /// The channel.
    #[prost(string, tag = "3")]
    pub channel: String,
    /// True if the channel was opened, false if it was closed.
    #[prost(bool, tag = "4")]
    pub connected: bool,
    /// The address of the channel's other end.
    #[prost(string, tag = "5")]
    pub remote_address: String,
}

/// A message was received or sent.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ChannelMessage {
    /// Nanoseconds since the epoch.
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    /// The name of the recording program.
    #[prost(string, tag = "2")]
    pub identity: String,
    /// The channel.
    #[prost(string, tag = "3")]
    pub channel: String,
    /// True if the message was received, false if it was sent.
    #[prost(bool, tag = "4")]
    pub is_rx: bool,
    /// Its content type.
    #[prost(int32, tag = "5")]
    pub content_type: i32,
    /// Its sequence number.
    #[prost(int32, tag = "6")]
    pub sequence: i32,
    /// The sequence number that it answers; -1 means none.
    #[prost(int32, tag = "7")]
    pub reply_for: i32,
    /// The length of the message's body, in bytes.
    #[prost(int32, tag = "8")]
    pub length: i32,
    /// Further facts about the message, as JSON.
    #[prost(bytes = "vec", tag = "9")]
    pub decode: Vec<u8>,
}

/// A record.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A channel was opened or closed.
    State(ChannelState),
    /// A message was received or sent.
    Message(ChannelMessage),
}

/// Why bytes are not a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The length is not possible.
    #[error("a record of {0} bytes; no record is longer than {MAX_RECORD}")]
    Length(i64),
    /// The body is not such a record.
    #[error("a record that cannot be read: {0}")]
    Body(String),
}

impl Record {
    /// Appends the record to `to`.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let (kind, body) = match self {
            Self::State(state) => (CHANNEL_STATE, state.encode_to_vec()),
            Self::Message(message) => (CHANNEL_MESSAGE, message.encode_to_vec()),
        };
        let length = i32::try_from(body.len()).unwrap_or(i32::MAX);
        to.extend_from_slice(&kind.to_le_bytes());
        to.extend_from_slice(&length.to_le_bytes());
        to.extend_from_slice(&body);
    }

    /// The kind and the length of a record, from its first bytes.
    ///
    /// # Errors
    /// When no record can have this length.
    pub fn head(bytes: [u8; 8]) -> Result<(i32, usize), RecordError> {
        let [a, b, c, d, e, f, g, h] = bytes;
        let (kind, length) = (i32::from_le_bytes([a, b, c, d]), i32::from_le_bytes([e, f, g, h]));
        let fits = usize::try_from(length).ok().filter(|length| *length <= MAX_RECORD);
        let length = fits.ok_or(RecordError::Length(i64::from(length)))?;
        Ok((kind, length))
    }

    /// The record of a kind; `None` if the kind is not known.
    ///
    /// # Errors
    /// When the body is not such a record.
    pub fn decode(kind: i32, body: &[u8]) -> Result<Option<Self>, RecordError> {
        let failed = |error: prost::DecodeError| RecordError::Body(error.to_string());
        Ok(match kind {
            CHANNEL_STATE => Some(Self::State(ChannelState::decode(body).map_err(failed)?)),
            CHANNEL_MESSAGE => Some(Self::Message(ChannelMessage::decode(body).map_err(failed)?)),
            _ => None,
        })
    }
}

/// The name of messages with this content type, if it is known.
#[must_use]
pub fn name_of(content_type: i32) -> Option<&'static str> {
    NAMES.iter().find(|(known, _)| *known == content_type).map(|(_, name)| *name)
}

/// Content types and the names of their messages.
const NAMES: &[(i32, &str)] = {
    use crate::content_type as base;
    use crate::ctrl::content_type as ctrl;
    use crate::edge::content_type as edge;
    use crate::edge_ctrl::content_type as edge_ctrl;
    use crate::payload::content_type as payload;
    &[
        (base::HELLO, "Hello"),
        (base::PING, "Ping"),
        (base::RESULT, "Result"),
        (base::LATENCY, "Latency"),
        (base::LATENCY_RESPONSE, "LatencyResponse"),
        (base::HEARTBEAT, "Heartbeat"),
        (ctrl::CIRCUIT_REQUEST, "CircuitRequest"),
        (ctrl::ROUTE, "Route"),
        (ctrl::UNROUTE, "Unroute"),
        (ctrl::ROUTE_RESULT, "RouteResult"),
        (ctrl::FAULT, "Fault"),
        (ctrl::METRICS, "Metrics"),
        (ctrl::ROUTER_LINKS, "RouterLinks"),
        (ctrl::LINK_STATE, "LinkStateUpdate"),
        (ctrl::VERIFY_ROUTER, "VerifyRouter"),
        (ctrl::INSPECT_REQUEST, "InspectRequest"),
        (ctrl::CREATE_TERMINATOR, "CreateTerminator"),
        (ctrl::REMOVE_TERMINATOR, "RemoveTerminator"),
        (ctrl::REMOVE_TERMINATORS, "RemoveTerminators"),
        (ctrl::UPDATE_TERMINATOR, "UpdateTerminator"),
        (ctrl::VALIDATE_TERMINATORS_V2, "ValidateTerminatorsV2"),
        (ctrl::PEER_STATE_CHANGE, "PeerStateChanges"),
        (ctrl::CIRCUIT_CONFIRMATION, "CircuitConfirmation"),
        (ctrl::UPDATE_CTRL_ADDRESSES, "UpdateCtrlAddresses"),
        (ctrl::UPDATE_CLUSTER_LEADER, "UpdateClusterLeader"),
        (ctrl::SETTINGS, "Settings"),
        (payload::PAYLOAD, "Payload"),
        (payload::ACK, "Acknowledgement"),
        (payload::CONTROL, "Control"),
        (payload::CLOSE, "CircuitClose"),
        (edge_ctrl::SERVER_HELLO, "ServerHello"),
        (edge_ctrl::CLIENT_HELLO, "ClientHello"),
        (edge_ctrl::API_SESSION_ADDED, "ApiSessionAdded"),
        (edge_ctrl::API_SESSION_REMOVED, "ApiSessionRemoved"),
        (edge_ctrl::SESSION_REMOVED, "SessionRemoved"),
        (edge_ctrl::API_SESSION_HEARTBEAT, "ApiSessionHeartbeat"),
        (edge_ctrl::DATA_STATE, "DataState"),
        (edge_ctrl::DATA_STATE_CHANGE_SET, "DataStateChangeSet"),
        (edge_ctrl::SUBSCRIBE_TO_DATA_MODEL, "SubscribeToDataModel"),
        (edge_ctrl::CREATE_CIRCUIT_V3_REQUEST, "CreateCircuitV3"),
        (edge_ctrl::CREATE_TERMINATOR_V2_REQUEST, "CreateTerminatorV2"),
        (edge_ctrl::CREATE_TERMINATOR_V2_RESPONSE, "CreateTerminatorV2Response"),
        (edge_ctrl::CONNECT_EVENTS, "ConnectEvents"),
        (edge_ctrl::HEALTH_EVENT, "HealthEvent"),
        (edge::CONNECT, "Connect"),
        (edge::STATE_CONNECTED, "StateConnected"),
        (edge::DIAL, "Dial"),
        (edge::STATE_CLOSED, "StateClosed"),
        (edge::DATA, "Data"),
        (edge::DIAL_SUCCESS, "DialSuccess"),
        (edge::DIAL_FAILED, "DialFailed"),
        (edge::BIND, "Bind"),
        (edge::UNBIND, "Unbind"),
        (edge::UPDATE_BIND, "UpdateBind"),
        (edge::UPDATE_TOKEN, "UpdateToken"),
    ]
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn records_follow_each_other() {
        let records = [
            Record::State(ChannelState {
                timestamp: 1,
                channel: "c".into(),
                connected: true,
                ..ChannelState::default()
            }),
            Record::Message(ChannelMessage {
                content_type: 1100,
                reply_for: -1,
                length: 7,
                ..ChannelMessage::default()
            }),
        ];
        let mut bytes = Vec::new();
        records.iter().for_each(|record| record.encode(&mut bytes));
        assert_eq!(bytes[..4], [0; 4]);
        let mut rest = &bytes[..];
        for record in &records {
            let (head, after) = rest.split_first_chunk::<8>().unwrap();
            let (kind, length) = Record::head(*head).unwrap();
            let (body, after) = after.split_at(length);
            assert_eq!(Record::decode(kind, body).unwrap().as_ref(), Some(record));
            rest = after;
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn names_are_known_once() {
        for (at, (kind, _)) in NAMES.iter().enumerate() {
            assert!(NAMES[..at].iter().all(|(other, _)| other != kind), "{kind}");
        }
        assert_eq!(name_of(1100), Some("Payload"));
        assert_eq!(name_of(-7), None);
    }

    proptest! {
        #[test]
        fn any_bytes_never_panic(head in any::<[u8; 8]>(), kind in 0..3_i32, body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Record::head(head);
            let _ = Record::decode(kind, &body);
        }
    }
}
