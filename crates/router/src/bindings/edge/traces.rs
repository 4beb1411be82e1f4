//! Traced routes by messages about connections of SDKs. The connection of such an SDK is a hop, and
//! the circuit behind it carries requests and answers on (docs/protocol/sdk.md 11.3).
//!
//! SDKs without flow control of their own, and Go SDKs before 2.0, know only these messages for traced
//! routes.

use weft_wire::Message;
use weft_wire::edge::{TraceRoute, TraceRouteAnswer};
use weft_wire::payload::hop_type;

use super::connection::SdkConnection;
use super::entries::Conn;

impl SdkConnection {
    /// The SDK asks for a hop of the route of a connection.
    pub(super) fn on_trace(&self, message: &Message) {
        let mut asked = match TraceRoute::from_message(message) {
            Ok(asked) => asked,
            Err(problem) => return self.malformed(&problem),
        };
        if self.session().is_none() {
            return;
        }
        let (left, request) = (asked.count_hop(), message.sequence.cast_unsigned());
        let end = self.ids.conns.lock().end(asked.conn_id);
        let error = match end {
            Some(Conn::Local(end)) if left > 0 => return end.sdk_traces(&asked, request),
            Some(Conn::Sdk(circuit)) if left > 0 => return circuit.sdk_traces(&asked, request),
            Some(_) => None,
            None => Some("the connection is not known here".to_owned()),
        };
        let answer = TraceRouteAnswer { error, ..asked.answered_by(hop_type::EDGE) };
        // If there is no room for the answer, the SDK waits until its own time limit.
        let _ = self.channel.try_send(answer.to_message().in_reply_to(message));
    }

    /// The SDK of a host answers a request for a hop.
    pub(super) fn on_trace_answer(&self, message: &Message) {
        let answer = match TraceRouteAnswer::from_message(message) {
            Ok(answer) => answer,
            Err(problem) => return self.malformed(&problem),
        };
        let end = self.ids.conns.lock().end(answer.conn_id);
        match end {
            Some(Conn::Local(end)) => end.sdk_answers(answer),
            Some(Conn::Sdk(circuit)) => circuit.sdk_answers(answer),
            _ => {}
        }
    }
}
