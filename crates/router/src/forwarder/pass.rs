//! The next step of a message of a circuit: to an end here, to an SDK, or to another router.

use weft_metrics::usage::UsageDirection;
use weft_wire::Message;
use weft_wire::payload::{self, Ack, CircuitControl, ControlKind, Payload, hop_type};
use weft_xgress::Class;

use super::Forwarder;
use super::flow::{Circuit, Next};
use super::head::Head;

impl Forwarder {
    /// Gives a message to its next place. An answer of this router itself goes to `back`, the place
    /// that the message came from. The caller notes that the circuit is in use.
    pub(super) fn pass(
        &self,
        circuit: &Circuit,
        next: &Next,
        head: Head,
        mut message: Message,
        back: impl FnOnce(Head, Message),
    ) {
        if let Some(answer) = self.count_hop(&mut message) {
            return back(head, answer);
        }
        match next {
            Next::Link(hop) => {
                if head.class == Class::Payload {
                    circuit.carried.add(UsageDirection::FabricTx, message.body.len());
                }
                self.drops().pushed(hop.push(head.class, head.sequence, message));
            }
            Next::Sdk(other) => other.push(head, message),
            Next::Local(end) => {
                let taken = match message.content_type {
                    payload::content_type::PAYLOAD => {
                        Payload::from_message(&message).map(|payload| end.on_payload(payload))
                    }
                    payload::content_type::ACK => {
                        Ack::from_message(&message).map(|ack| end.on_ack(&ack))
                    }
                    _ => CircuitControl::from_message(&message).map(|control| {
                        if let Some(answer) = end.on_control(control) {
                            back(head, answer.to_message());
                        }
                    }),
                };
                if let Err(problem) = taken {
                    self.drop_bad(circuit, &problem);
                }
            }
        }
    }

    /// Counts this router as a hop of a traced route. Returns the answer if the count ends here
    /// (docs/protocol/data-plane.md 9).
    fn count_hop(&self, message: &mut Message) -> Option<Message> {
        let mut asked = traced(message)?;
        let left = asked.count_hop();
        if left > 0 {
            message.headers.set_u32(payload::header::HOP_COUNT, left);
            return None;
        }
        Some(self.answer(asked).to_message())
    }

    /// The answer to a request for a hop of an end here, if the request has no next place.
    pub(super) fn goes_no_further(&self, message: &Message) -> Option<Message> {
        let answer = self.answer(traced(message)?);
        let error = Some("the circuit has no route at this router".to_owned());
        Some(CircuitControl { error, ..answer }.to_message())
    }

    fn answer(&self, asked: CircuitControl) -> CircuitControl {
        asked.answered_by(hop_type::FORWARDER, self.router_id().unwrap_or_default())
    }

    /// Drops a message of a circuit that does not follow its encoding.
    pub(super) fn drop_bad(&self, circuit: &Circuit, problem: &dyn std::fmt::Display) {
        self.drops().malformed();
        tracing::debug!(circuit = %circuit.id, %problem, "dropped a message of a circuit");
    }
}

/// The request for a traced route in a message.
fn traced(message: &Message) -> Option<CircuitControl> {
    if ControlKind::of(message) != Some(ControlKind::Traceroute) {
        return None;
    }
    CircuitControl::from_message(message).ok()
}
