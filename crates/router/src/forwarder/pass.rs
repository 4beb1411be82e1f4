//! The next step of a message of a circuit: to an end here, to an SDK, or to another router.

use weft_metrics::usage::Way;
use weft_wire::{
    Message,
    payload::{self, Ack, CircuitControl, ControlKind, Payload},
};
use weft_xgress::Class;

use super::{
    Forwarder,
    flow::{Circuit, Next},
    head::Head,
};

impl Forwarder {
    /// Gives a message to its next place. An answer of this router itself goes to `back`, the place
    /// that the message came from.
    pub(super) fn pass(
        &self,
        circuit: &Circuit,
        next: &Next,
        head: Head,
        mut message: Message,
        back: impl FnOnce(Head, Message),
    ) {
        circuit.touch();
        if message.content_type == payload::content_type::CONTROL
            && let Some(answer) = self.count_hop(&mut message)
        {
            return back(head, answer);
        }
        match next {
            Next::Link(hop) => {
                if head.class == Class::Payload {
                    circuit.carried.add(Way::FabricTx, message.body.len());
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
                    // Route tracing ends at an end of this router, which does not answer.
                    _ => Ok(()),
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
        let asked = CircuitControl::from_message(message).ok()?;
        if asked.kind != ControlKind::Traceroute {
            return None;
        }
        let left = asked.hop_count.unwrap_or(0).saturating_sub(1);
        if left > 0 {
            message.headers.set_u32(payload::header::HOP_COUNT, left);
            return None;
        }
        let answer = CircuitControl {
            kind: ControlKind::TracerouteResponse,
            hop_count: Some(left),
            hop_type: Some("forwarder".to_owned()),
            hop_id: self.router_id().map(ToOwned::to_owned),
            ..asked
        };
        Some(answer.to_message())
    }

    /// Drops a message of a circuit that does not follow its encoding.
    pub(super) fn drop_bad(&self, circuit: &Circuit, problem: &dyn std::fmt::Display) {
        self.drops().malformed();
        tracing::debug!(circuit = %circuit.id, %problem, "dropped a message of a circuit");
    }
}
