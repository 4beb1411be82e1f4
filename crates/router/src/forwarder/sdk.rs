//! The end of a circuit at an SDK with flow control of its own: this router only forwards.
//!
//! ```text
//!  other end -> SdkQueue -> SDK
//!  SDK -> forward -> other end
//! ```

use std::sync::{Arc, Weak};

use weft_wire::Message;
use weft_wire::edge::{TraceRoute, TraceRouteAnswer, header};
use weft_wire::payload::NOT_FORWARDED;
use weft_xgress::{Class, Role};

use super::Forwarder;
use super::destination::Destination;
use super::farewell::Farewell;
use super::flow::{Circuit, Next, Outlet, SdkQueue, SharedNext};
use super::head::Head;
use super::owner::ConnOwner;

/// Headers of an SDK's message that are not passed on.
const STRIP: [i32; 5] = {
    let [reply_for, heartbeat, answered, raw] = NOT_FORWARDED;
    [header::CONN_ID, reply_for, heartbeat, answered, raw]
};

/// A circuit's end at an SDK with flow control of its own.
pub(crate) struct SdkCircuit {
    circuit: Arc<Circuit>,
    address: Arc<str>,
    queue: Arc<SdkQueue>,
    forwarder: Arc<Forwarder>,
    next: SharedNext,
    farewell: Farewell,
}

impl SdkCircuit {
    /// Registers the end of `circuit` at the SDK under `address`.
    pub(crate) fn start(
        forwarder: &Arc<Forwarder>,
        circuit: Arc<Circuit>,
        address: &str,
        role: Role,
        conn_id: u32,
        outlet: Arc<Outlet>,
        owner: Weak<dyn ConnOwner>,
    ) -> Arc<Self> {
        let queue = SdkQueue::new(
            Arc::clone(&circuit),
            role,
            conn_id,
            outlet,
            owner,
            Arc::clone(forwarder.measures()),
            Arc::clone(forwarder.drops()),
        );
        forwarder.register(address, Destination::Sdk(Arc::clone(&queue)));
        Arc::new(Self {
            circuit,
            address: address.into(),
            queue,
            forwarder: Arc::clone(forwarder),
            next: SharedNext::default(),
            farewell: Farewell::default(),
        })
    }

    /// Begins to send, because the SDK knows of the connection now: the messages that came
    /// meanwhile are sent first.
    pub(crate) fn begin(&self) {
        self.queue.begin();
    }

    pub(crate) fn circuit(&self) -> &Arc<Circuit> {
        &self.circuit
    }

    /// The role of the end.
    pub(crate) fn role(&self) -> Role {
        self.queue.role()
    }

    /// The id of the connection on the SDK's channel.
    pub(crate) fn conn_id(&self) -> u32 {
        self.queue.conn_id()
    }

    /// Takes a payload, an ack or a control message from the SDK.
    pub(crate) fn forward(&self, mut message: Message) {
        self.queue.note_request(&mut message);
        self.pass_on(message);
    }

    /// The SDK asks for a hop behind this router, by a message about its connection; `request` is the
    /// number of that message.
    pub(crate) fn sdk_traces(&self, asked: &TraceRoute, request: u32) {
        self.queue.note_connection_request(request);
        self.pass_on(asked.as_control(&self.circuit.id, request).to_message());
    }

    /// The SDK answers a request for a hop, by a message about its connection.
    pub(crate) fn sdk_answers(&self, answer: TraceRouteAnswer) {
        if let Some(control) = answer.into_control(&self.circuit.id) {
            self.pass_on(control.to_message());
        }
    }

    fn pass_on(&self, mut message: Message) {
        if self.circuit.has_ended() || self.farewell.is_over() {
            return;
        }
        let Some(next) = self.next() else {
            // An SDK whose end was taken away may send for a circuit that goes on without it.
            if !self.queue.is_closed() {
                if let (Some(answer), Ok(head)) =
                    (self.forwarder.goes_no_further(&message), Head::of(&message))
                {
                    self.queue.push(head, answer);
                }
                self.forwarder.no_way_on(&self.circuit);
            }
            return;
        };
        match Head::of(&message) {
            Ok(head) => {
                // What an SDK here sends is no sign of the other end, acks included: the message that an ack answers
                // was a sign when it came.
                self.circuit.touch();
                self.farewell.note(head);
                if head.class == Class::Payload {
                    let bytes = message.body.len();
                    let direction = self.forwarder.measures().came(self.role(), bytes);
                    self.circuit.carried.add(direction, bytes);
                }
                message.headers.remove_all(&STRIP);
                let back = |head, answer| self.queue.push(head, answer);
                self.forwarder.pass(&self.circuit, &next, head, message, back);
            }
            Err(problem) => self.forwarder.drop_bad(&self.circuit, &problem),
        }
    }

    fn next(&self) -> Option<Next> {
        let find = || self.forwarder.next_of(&self.circuit, &self.address);
        self.next.get(&self.circuit, find)
    }

    /// Tells the other end that the SDK sends no more, unless the SDK has told it.
    fn say_farewell(&self) {
        let Some(payload) = self.farewell.say(self.role()) else { return };
        let message = payload.into_message(&self.circuit.id);
        let Some((next, Ok(head))) = self.next().map(|next| (next, Head::of(&message))) else {
            return;
        };
        self.forwarder.pass(&self.circuit, &next, head, message, |_, _| {});
    }

    /// Handles the end of the route: the SDK is sent the end after the queued messages.
    pub(crate) fn unrouted(&self) {
        self.queue.unrouted();
    }

    /// Drops an end whose circuit was never completed: neither the SDK nor the controller is told,
    /// and the address is removed.
    pub(crate) fn discard(&self) {
        let is_this = |known: &Destination| match known {
            Destination::Sdk(queue) => Arc::ptr_eq(queue, &self.queue),
            Destination::Local(_) | Destination::Link(_) => false,
        };
        self.forwarder.withdraw(&self.address, is_this);
        self.queue.silence();
    }

    /// Handles the end of the circuit at the SDK, or of the SDK's connection: the SDK is sent
    /// nothing more.
    pub(crate) fn ended_by_sdk(&self) {
        self.queue.silence();
        self.end_here();
    }

    /// This router ends the circuit: the other end and the controller are told.
    pub(crate) fn end_here(&self) {
        if !self.circuit.has_ended() {
            self.say_farewell();
        }
        self.forwarder.sdk_ended(&self.circuit, &self.address, self.role());
    }
}

impl std::fmt::Debug for SdkCircuit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SdkCircuit").field("queue", &self.queue).finish_non_exhaustive()
    }
}
