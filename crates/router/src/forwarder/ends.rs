//! Ends of circuits on this router and at its SDKs: their start, and the reports of their end.

use std::sync::Arc;

use weft_wire::Message;
use weft_wire::ctrl::REROUTE_ATTEMPT;
use weft_wire::payload::CircuitControl;
use weft_xgress::{CircuitCloseReason, Options, Role};

use super::Forwarder;
use super::destination::Destination;
use super::flow::{App, Circuit, FlowRef, LocalEnd, Next};
use super::head::Head;
use super::local::{Around, Tables};

impl Forwarder {
    /// Makes an end of `circuit` on this router and registers it under `address`.
    pub(crate) fn start_end(
        self: &Arc<Self>,
        circuit: Arc<Circuit>,
        address: &str,
        role: Role,
        options: &Options,
        app: App,
    ) -> Arc<LocalEnd> {
        let around = Around {
            tables: Arc::clone(self) as Arc<dyn Tables<FlowRef>>,
            timers: self.timers.clone(),
            measures: Arc::clone(&self.measures),
            drops: Arc::clone(&self.drops),
        };
        let end = LocalEnd::new(around, circuit, address, role, options, &self.budget, app);
        self.register(address, Destination::Local(Arc::clone(&end)));
        end
    }

    /// Handles the end of a circuit at an SDK: the SDK closed the circuit, or the connection of the
    /// SDK is gone.
    pub(super) fn sdk_ended(&self, circuit: &Arc<Circuit>, address: &str, role: Role) {
        let Some(_) = self.take_destination(address) else { return };
        if circuit.next(address).is_some() {
            for other in self.take_destinations(circuit, &circuit.addresses()) {
                other.unrouted();
            }
        }
        self.tell_end(circuit, address, role);
    }

    /// Tells the controller that a circuit ended at this address, if the circuit has a route there.
    /// A route that is still being set up fails instead, and another attempt may succeed.
    fn tell_end(&self, circuit: &Circuit, address: &str, role: Role) {
        if let Some(attempt) = circuit.attempt_of(address).filter(|_| !circuit.has_ended()) {
            let is_known = attempt != REROUTE_ATTEMPT;
            self.end_ended(circuit, role, is_known.then_some(attempt));
        }
    }
}

impl Tables<FlowRef> for Forwarder {
    fn next_of(&self, circuit: &Circuit, source: &str) -> Option<Next> {
        Self::next_of(self, circuit, source)
    }

    fn pass_control(&self, end: &LocalEnd, control: &CircuitControl) {
        let (circuit, message) = (end.circuit(), control.to_message());
        let back = |answer: &Message| {
            if let Ok(answer) = CircuitControl::from_message(answer) {
                // An end answers requests only, and this message is an answer.
                let _ = end.on_control(answer);
            }
        };
        match (self.next_of(circuit, end.address()), Head::of(&message)) {
            (Some(next), Ok(head)) => {
                circuit.touch();
                self.pass(circuit, &next, head, message, |_, answer| back(&answer));
            }
            (None, _) => self.goes_no_further(&message).iter().for_each(back),
            (_, Err(problem)) => self.drop_bad(circuit, &problem),
        }
    }

    /// The end stays until its circuit is unrouted, and goes on acknowledging late payloads, so that
    /// the other end can finish too.
    fn finished(&self, end: &LocalEnd, reason: CircuitCloseReason) {
        let (circuit, role) = (end.circuit(), end.role());
        tracing::debug!(circuit = %circuit.id, ?reason, ?role, "an end of a circuit is closed");
        if reason != CircuitCloseReason::Unrouted {
            self.tell_end(circuit, end.address(), role);
        }
    }

    fn forget(&self, end: &LocalEnd) {
        let is_this = |known: &Destination| match known {
            Destination::Local(known) => std::ptr::eq(&**known, end),
            Destination::Sdk(_) | Destination::Link(_) => false,
        };
        self.withdraw(end.address(), is_this);
    }
}
