//! The messages of a circuit that wait for an SDK with flow control of its own.
//!
//! ```text
//!  other end -> push -> TransitQueue -> pull (SDK connection's task) -> SDK
//! ```
//!
//! The queue is bounded by the budget of the SDK's connection; payloads beyond that are dropped, and
//! the other end sends them again (docs/protocol/sdk.md 13, docs/protocol/data-plane.md 10).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use weft_circuit::{HopFlow, LastPort, Listing, Outlet};
use weft_wire::Message;
use weft_wire::edge::{StateClosed, TraceRoute, TraceRouteAnswer, header};
use weft_wire::hello::header::REPLY_FOR;
use weft_wire::payload::{self, CircuitControl, ControlKind};
use weft_xgress::{Class, Crowd, ITEM_COST, Role, Tally, TransitQueue, transit_len};

use super::asked::{Asked, Form};
use super::circuit::Circuit;
use super::drops::Drops;
use super::head::Head;
use super::owner::ConnOwner;
use crate::measures::Measures;

/// A flow that can be the queue for an SDK.
pub(crate) trait SdkFlow: HopFlow {
    /// Payloads and acks for the SDK.
    fn of_sdk(queue: Arc<SdkQueue<Self>>) -> Self;
}

/// The queue for an SDK: the destination of payloads for this end of the circuit.
pub(crate) struct SdkQueue<F> {
    circuit: Arc<Circuit<F>>,
    role: Role,
    conn_id: u32,
    outlet: Arc<Outlet<F>>,
    owner: Weak<dyn ConnOwner>,
    measures: Arc<Measures>,
    drops: Arc<Drops>,
    this: Weak<Self>,
    last_port: LastPort,
    tally: Tally,
    /// True once the SDK knows of the connection; the SDK is sent messages from then on. Set under
    /// the lock.
    begun: AtomicBool,
    queue: Mutex<Queue<F>>,
}

struct Queue<F> {
    frames: TransitQueue<Message>,
    listing: Listing,
    end: EndProgress,
    /// The SDK's requests for hops of the route.
    asked: Asked,
    /// Flows to be listed once the SDK knows of the connection; `None` is the circuit itself.
    waiting: Vec<(Class, Option<F>)>,
}

/// How far the end of the circuit has come at the SDK.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EndProgress {
    /// The circuit is up.
    Not,
    /// The SDK is sent the end once its queue is empty.
    Telling,
    /// The SDK has been sent the end.
    Told,
}

impl<F: SdkFlow> SdkQueue<F> {
    pub(super) fn new(
        circuit: Arc<Circuit<F>>,
        role: Role,
        conn_id: u32,
        outlet: Arc<Outlet<F>>,
        owner: Weak<dyn ConnOwner>,
        measures: Arc<Measures>,
        drops: Arc<Drops>,
    ) -> Arc<Self> {
        let queue = Queue {
            frames: TransitQueue::new(outlet.budget()),
            listing: Listing::default(),
            end: EndProgress::Not,
            asked: Asked::default(),
            waiting: Vec::new(),
        };
        Arc::new_cyclic(|this| Self {
            circuit,
            role,
            conn_id,
            outlet,
            owner,
            measures,
            drops,
            this: this.clone(),
            last_port: LastPort::default(),
            tally: Tally::default(),
            begun: AtomicBool::new(false),
            queue: Mutex::new(queue),
        })
    }

    /// Begins to send, because the SDK knows of the connection now: the messages that came
    /// meanwhile are sent first.
    pub(crate) fn begin(&self) {
        let waiting = {
            let mut queue = self.queue.lock();
            self.begun.store(true, Ordering::Release);
            std::mem::take(&mut queue.waiting)
        };
        for (class, flow) in waiting {
            self.list_now(class, flow);
        }
    }

    pub(super) fn circuit(&self) -> &Arc<Circuit<F>> {
        &self.circuit
    }

    /// The role of this end of the circuit.
    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// The id of the connection on the SDK's channel.
    pub(super) fn conn_id(&self) -> u32 {
        self.conn_id
    }

    /// The bytes that the connection has served of late for payloads of this circuit.
    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Rewrites a message of the circuit for the SDK's connection id.
    pub(crate) fn address_to_sdk(&self, message: &mut Message) {
        message.headers.set_u32(header::CONN_ID, self.conn_id);
    }

    /// Notes the number of a request of the SDK for a hop of the route, and writes it where the
    /// answer returns it (docs/protocol/data-plane.md 9).
    pub(super) fn note_request(&self, message: &mut Message) {
        if ControlKind::of(message) == Some(ControlKind::Traceroute) {
            let request = message.sequence.cast_unsigned();
            message.headers.set_u32(payload::header::USER_VALUE, request);
            self.queue.lock().asked.note(request, Form::Circuit);
        }
    }

    /// Notes the number of a request for a hop that the SDK made by a message about its connection,
    /// as Go SDKs before 2.0 do.
    pub(super) fn note_connection_request(&self, request: u32) {
        self.queue.lock().asked.note(request, Form::Connection);
    }

    /// The reply to the SDK's request for a hop, made of an answer; `None` if the SDK does not wait
    /// for this answer.
    fn reply(&self, answer: Message) -> Option<Message> {
        let request = answer.headers.get_u32(payload::header::USER_VALUE)?;
        let form = self.queue.lock().asked.answered(request)?;
        let mut reply = match form {
            Form::Circuit => answer,
            Form::Connection => {
                let control = CircuitControl::from_message(&answer).ok()?;
                TraceRouteAnswer::of_control(control, self.conn_id).to_message()
            }
        };
        reply.headers.set_u32(REPLY_FOR, request);
        Some(reply)
    }

    /// The same request for a hop as a message about the connection: Go SDKs before 2.0 answer no
    /// other, and those after ignore it (docs/protocol/sdk.md 11.3).
    fn for_connection(&self, request: &Message) -> Option<Message> {
        let control = CircuitControl::from_message(request).ok()?;
        Some(TraceRoute::of_control(&control, self.conn_id).to_message())
    }

    /// Queues a message of the circuit for the SDK.
    pub(super) fn push(&self, head: Head, message: Message) {
        match ControlKind::of(&message) {
            Some(ControlKind::TracerouteResponse) => {
                if let Some(reply) = self.reply(message) {
                    self.enqueue(head, reply);
                }
            }
            Some(ControlKind::Traceroute) => {
                let again = self.for_connection(&message);
                self.enqueue(head, message);
                again.into_iter().for_each(|again| self.enqueue(head, again));
            }
            Some(ControlKind::Other(_)) | None => self.enqueue(head, message),
        }
    }

    fn enqueue(&self, head: Head, message: Message) {
        let length = transit_len(&message);
        let list = {
            let mut queue = self.queue.lock();
            if queue.end != EndProgress::Not {
                return;
            }
            let pushed = match head.class {
                Class::Payload => queue.frames.push(head.sequence, length, message),
                Class::Ack => queue.frames.push_ack(length, message),
            };
            self.drops.pushed(pushed);
            queue.listing.begin(head.class)
        };
        self.list(head.class, list);
    }

    /// The next message for the SDK, on its connection's task.
    pub(crate) fn pull(&self, class: Class) -> Option<(Message, u64)> {
        let (frame, last) = {
            let mut queue = self.queue.lock();
            let frame = match class {
                Class::Payload => queue.frames.pop().map(|waiting| {
                    let bytes = waiting.frame.body.len();
                    let direction = self.measures.goes(self.role, bytes);
                    self.circuit.carried.add_locked(direction, bytes);
                    (waiting.frame, waiting.len)
                }),
                Class::Ack => queue.frames.pop_ack().map(|(len, frame)| (frame, len)),
            };
            let last =
                frame.is_none() && class == Class::Payload && queue.end == EndProgress::Telling;
            if last {
                queue.end = EndProgress::Told;
            }
            if frame.is_none() {
                queue.listing.keep(class, false);
                if class == Class::Payload {
                    self.outlet.emptied(&self.last_port);
                }
            }
            (frame, last)
        };
        if last {
            if let Some(owner) = self.owner.upgrade() {
                owner.conn_closed(self.conn_id);
            }
            let closed = StateClosed::new(self.conn_id, "xgress unrouted").to_message();
            return Some((closed, ITEM_COST as u64));
        }
        let (mut message, length) = frame?;
        self.address_to_sdk(&mut message);
        Some((message, (length + ITEM_COST) as u64))
    }

    /// The route was taken down: the SDK is sent the end after the queued messages.
    pub(crate) fn unrouted(&self) {
        let list = {
            let mut queue = self.queue.lock();
            if queue.end != EndProgress::Not {
                return;
            }
            queue.end = EndProgress::Telling;
            queue.listing.begin(Class::Payload)
        };
        self.list(Class::Payload, list);
    }

    /// Ends the queue, because its route was not completed, or is undone. The circuit may have
    /// another route.
    pub(super) fn withdrawn(&self) {
        self.circuit.expect_close(Weak::clone(&self.owner));
        self.unrouted();
    }

    /// Ends the sending to the SDK: what waits is dropped, because the SDK may use the connection id for another
    /// circuit.
    pub(super) fn silence(&self) {
        let mut queue = self.queue.lock();
        queue.end = EndProgress::Told;
        queue.frames.clear();
    }

    /// Frees the memory that no message waits in.
    pub(super) fn trim(&self) {
        self.queue.lock().frames.trim();
    }

    /// The number of messages that the queue has memory for.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.queue.lock().frames.capacity()
    }

    /// True if nothing more is accepted for the SDK.
    pub(super) fn is_closed(&self) -> bool {
        self.queue.lock().end != EndProgress::Not
    }

    fn list(&self, class: Class, list: bool) {
        if list {
            self.list_or_wait(class, None);
        }
    }

    /// The payloads that ends of this router have on their way to the SDK over short paths.
    pub(super) fn crowd(&self) -> &Arc<Crowd> {
        self.outlet.crowd()
    }

    /// Lists a flow at the connection of the SDK, once the SDK knows of the connection.
    pub(super) fn list_flow(&self, class: Class, flow: F) {
        self.list_or_wait(class, Some(flow));
    }

    fn list_or_wait(&self, class: Class, flow: Option<F>) {
        if !self.begun.load(Ordering::Acquire) {
            let mut queue = self.queue.lock();
            if !self.begun.load(Ordering::Acquire) {
                queue.waiting.push((class, flow));
                return;
            }
        }
        self.list_now(class, flow);
    }

    fn list_now(&self, class: Class, flow: Option<F>) {
        if let Some(flow) = flow.or_else(|| self.this.upgrade().map(F::of_sdk)) {
            self.outlet.list(class, &self.last_port, flow);
        }
    }
}

impl<F> Drop for SdkQueue<F> {
    fn drop(&mut self) {
        // The SDK may have got its last messages after the circuit was taken down.
        self.circuit.carried.settle(&self.circuit.id);
    }
}

impl<F> std::fmt::Debug for SdkQueue<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SdkQueue")
            .field("circuit", &self.circuit.id)
            .field("conn_id", &self.conn_id)
            .finish_non_exhaustive()
    }
}
