//! Traced routes of connections whose flow control is at the router (docs/protocol/sdk.md 11.3).

use super::{content_type, header};
use crate::error::WireError;
use crate::message::Message;
use crate::payload::{CircuitControl, ControlKind, check_control_len};

/// Asks the hop at which the count reaches 0 to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceRoute {
    /// The connection id.
    pub conn_id: u32,
    /// Hops that are left.
    pub hop_count: u32,
    /// A value that the answer returns; SDKs use the time.
    pub timestamp: u64,
    /// The number of the dialer's request, in a request to a host.
    pub source_request: Option<u32>,
}

/// The answer of a hop.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceRouteAnswer {
    /// The connection id.
    pub conn_id: u32,
    /// Hops that were left.
    pub hop_count: u32,
    /// The value of the request.
    pub timestamp: u64,
    /// Kind of the hop.
    pub hop_type: String,
    /// Id of the hop; empty if it has none.
    pub hop_id: String,
    /// The number of the dialer's request, in the answer of a host.
    pub source_request: Option<u32>,
    /// Why the route ended early.
    pub error: Option<String>,
}

impl TraceRoute {
    /// Reads the message. A request without a count has come to its last hop.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::TRACE_ROUTE)?;
        let headers = &message.headers;
        Ok(Self {
            conn_id: message.required_u32(header::CONN_ID)?,
            hop_count: headers.get_u32(header::TRACE_HOP_COUNT).unwrap_or(0),
            timestamp: headers.get_u64(header::TIMESTAMP).unwrap_or(0),
            source_request: headers.get_u32(header::TRACE_SOURCE_REQUEST_ID),
        })
    }

    /// The message.
    #[must_use]
    pub fn to_message(&self) -> Message {
        let mut message = Message::new(content_type::TRACE_ROUTE, "");
        let headers = &mut message.headers;
        headers.set_u32(header::CONN_ID, self.conn_id);
        headers.set_u32(header::TRACE_HOP_COUNT, self.hop_count);
        headers.set_u64(header::TIMESTAMP, self.timestamp);
        if let Some(request) = self.source_request {
            headers.set_u32(header::TRACE_SOURCE_REQUEST_ID, request);
        }
        message
    }

    /// Counts a hop. Returns how many are left.
    pub fn count_hop(&mut self) -> u32 {
        self.hop_count = self.hop_count.saturating_sub(1);
        self.hop_count
    }

    /// The answer of a hop of this kind, which has counted itself.
    #[must_use]
    pub fn answered_by(&self, hop_type: &str) -> TraceRouteAnswer {
        TraceRouteAnswer {
            conn_id: self.conn_id,
            hop_count: self.hop_count,
            timestamp: self.timestamp,
            hop_type: hop_type.to_owned(),
            source_request: self.source_request,
            ..TraceRouteAnswer::default()
        }
    }

    /// The same request as a control message of a circuit. The answer will return `user_value`.
    #[must_use]
    pub fn as_control(&self, circuit_id: &str, user_value: u32) -> CircuitControl {
        CircuitControl {
            hop_count: Some(self.hop_count),
            timestamp: Some(self.timestamp),
            user_value: Some(user_value),
            ..CircuitControl::new(ControlKind::Traceroute, circuit_id)
        }
    }

    /// The request of a control message of a circuit, in the form for an SDK's connection.
    #[must_use]
    pub fn of_control(control: &CircuitControl, conn_id: u32) -> Self {
        Self {
            conn_id,
            hop_count: control.hop_count.unwrap_or(0),
            timestamp: control.timestamp.unwrap_or(0),
            source_request: control.user_value,
        }
    }
}

impl TraceRouteAnswer {
    /// Reads the message.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::TRACE_ROUTE_ANSWER)?;
        check_control_len(message)?;
        let headers = &message.headers;
        let text = |key| headers.get_str(key).map(str::to_owned);
        Ok(Self {
            conn_id: message.required_u32(header::CONN_ID)?,
            hop_count: headers.get_u32(header::TRACE_HOP_COUNT).unwrap_or(0),
            timestamp: headers.get_u64(header::TIMESTAMP).unwrap_or(0),
            hop_type: text(header::TRACE_HOP_TYPE).unwrap_or_default(),
            hop_id: text(header::TRACE_HOP_ID).unwrap_or_default(),
            source_request: headers.get_u32(header::TRACE_SOURCE_REQUEST_ID),
            error: text(header::TRACE_ERROR),
        })
    }

    /// The message.
    #[must_use]
    pub fn to_message(&self) -> Message {
        let mut message = Message::new(content_type::TRACE_ROUTE_ANSWER, "");
        let headers = &mut message.headers;
        headers.set_u32(header::CONN_ID, self.conn_id);
        headers.set_u32(header::TRACE_HOP_COUNT, self.hop_count);
        headers.set_u64(header::TIMESTAMP, self.timestamp);
        headers.set_str(header::TRACE_HOP_TYPE, &self.hop_type);
        headers.set_str(header::TRACE_HOP_ID, &self.hop_id);
        if let Some(request) = self.source_request {
            headers.set_u32(header::TRACE_SOURCE_REQUEST_ID, request);
        }
        if let Some(error) = &self.error {
            headers.set_str(header::TRACE_ERROR, error);
        }
        message
    }

    /// The answer as a control message of a circuit; `None` if it does not say which request it
    /// answers.
    #[must_use]
    pub fn into_control(self, circuit_id: &str) -> Option<CircuitControl> {
        Some(CircuitControl {
            hop_count: Some(self.hop_count),
            hop_type: Some(self.hop_type),
            hop_id: Some(self.hop_id),
            timestamp: Some(self.timestamp),
            user_value: Some(self.source_request?),
            ..CircuitControl::new(ControlKind::TracerouteResponse, circuit_id)
        })
    }

    /// The answer in a control message of a circuit, in the form for an SDK's connection.
    #[must_use]
    pub fn of_control(control: CircuitControl, conn_id: u32) -> Self {
        Self {
            conn_id,
            hop_count: control.hop_count.unwrap_or(0),
            timestamp: control.timestamp.unwrap_or(0),
            hop_type: control.hop_type.unwrap_or_default(),
            hop_id: control.hop_id.unwrap_or_default(),
            source_request: None,
            error: control.error,
        }
    }
}
