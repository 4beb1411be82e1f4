//! Traced routes at an end on this router: the end is the last hop, or the SDK behind it is.
//!
//! ```text
//!  SDK -> sdk_traces -> the circuit            the circuit -> on_control -> SDK
//!  SDK -> sdk_answers -> the circuit           the circuit -> on_control -> answer of this end
//! ```

use weft_wire::edge::{TraceRoute, TraceRouteAnswer};
use weft_wire::payload::{CircuitControl, ControlKind, hop_type};

use super::{App, EndFlow, LocalEnd};
use crate::forwarder::asked::Form;

impl<F: EndFlow> LocalEnd<F> {
    /// Takes a control message of the circuit. Returns the answer, if this end is to answer.
    pub(in crate::forwarder) fn on_control(
        &self,
        mut control: CircuitControl,
    ) -> Option<CircuitControl> {
        match (control.kind, &self.app) {
            (ControlKind::Traceroute, App::Socket { hop_type }) => {
                control.count_hop();
                Some(control.answered_by(hop_type, ""))
            }
            (ControlKind::Traceroute, App::Sdk { conn_id, owner, .. }) => {
                let left = control.count_hop();
                // An SDK that does not answer such requests is not counted as a hop.
                let is_hop = || owner.upgrade().is_none_or(|sdk| sdk.answers_traces());
                if left == 0 || !is_hop() {
                    return Some(control.answered_by(hop_type::EDGE, ""));
                }
                let asked = TraceRoute::of_control(&control, *conn_id).to_message();
                self.change(|state, _| state.push_trace(asked));
                None
            }
            (ControlKind::TracerouteResponse, App::Sdk { conn_id, .. }) => {
                let request = control.user_value?;
                let answer = TraceRouteAnswer::of_control(control, *conn_id);
                self.change(|state, _| state.push_reply(answer.to_message(), request));
                None
            }
            (ControlKind::TracerouteResponse, App::Socket { .. }) | (ControlKind::Other(_), _) => {
                None
            }
        }
    }

    /// The SDK asks for a hop behind this router; `request` is the number of its message.
    pub(crate) fn sdk_traces(&self, asked: &TraceRoute, request: u32) {
        self.change(|state, _| state.asked.note(request, Form::Connection));
        let control = asked.as_control(&self.circuit.id, request);
        self.around.tables.pass_control(self, &control);
    }

    /// The SDK answers a request for a hop of the route.
    pub(crate) fn sdk_answers(&self, answer: TraceRouteAnswer) {
        if let Some(control) = answer.into_control(&self.circuit.id) {
            self.around.tables.pass_control(self, &control);
        }
    }
}
