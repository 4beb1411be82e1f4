//! The end of a circuit at an SDK with flow control of its own: this router only forwards.
//!
//! ```text
//!  other end -> push -> TransitQueue -> pull (SDK connection's task) -> SDK
//!  SDK -> forward -> other end
//! ```
//!
//! The queue for the SDK is bounded by the budget of its connection; payloads beyond that are
//! dropped, and the other end sends them again (docs/protocol/sdk.md 13,
//! docs/protocol/data-plane.md 10).

use std::sync::{
    Arc, Weak,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use weft_circuit::Seat;
use weft_metrics::usage::Way;
use weft_wire::{
    Message,
    edge::{StateClosed, header},
    payload::NOT_FORWARDED,
};
use weft_xgress::{Class, ITEM_COST, Role, Tally, TransitQueue, transit_len};

use super::{
    Destination, Forwarder,
    circuit::{Cached, Circuit},
    local::{ConnOwner, LocalEnd},
    outlet::{FlowRef, Outlet},
    pass::Head,
};

/// Headers of an SDK's message that are not passed on.
const STRIP: [i32; 5] = {
    let [reply_for, heartbeat, answered, raw] = NOT_FORWARDED;
    [header::CONN_ID, reply_for, heartbeat, answered, raw]
};

/// A circuit's end at an SDK with flow control of its own.
pub(crate) struct SdkCircuit {
    circuit: Arc<Circuit>,
    address: Arc<str>,
    role: Role,
    conn_id: u32,
    outlet: Arc<Outlet>,
    owner: Weak<dyn ConnOwner>,
    forwarder: Arc<Forwarder>,
    this: Weak<Self>,
    next: Cached,
    seat: Seat,
    tally: Tally,
    /// True once the SDK knows of the connection; nothing is sent to it before that. Set under the
    /// lock.
    begun: AtomicBool,
    queue: Mutex<Queue>,
}

struct Queue {
    frames: TransitQueue<Message>,
    listed_ack: bool,
    listed_payload: bool,
    end: Ending,
    /// Flows to be listed once the SDK knows of the connection; `None` is the circuit itself.
    waiting: Vec<(Class, Option<FlowRef>)>,
}

/// How far the end of the circuit has come at the SDK.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The circuit is up.
    Not,
    /// The SDK is sent the end once its queue is empty.
    Telling,
    /// The SDK has been sent the end.
    Told,
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
        let frames = TransitQueue::new(outlet.budget());
        let this = Arc::new_cyclic(|this| Self {
            circuit,
            address: address.into(),
            role,
            conn_id,
            outlet,
            owner,
            forwarder: Arc::clone(forwarder),
            this: this.clone(),
            next: Cached::default(),
            seat: Seat::default(),
            tally: Tally::default(),
            begun: AtomicBool::new(false),
            queue: Mutex::new(Queue {
                frames,
                listed_ack: false,
                listed_payload: false,
                end: Ending::Not,
                waiting: Vec::new(),
            }),
        });
        forwarder.register(address, Destination::Sdk(Arc::clone(&this)));
        this
    }

    /// The SDK knows of the connection: it is sent the messages that came meanwhile and those to
    /// come.
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

    pub(crate) fn circuit(&self) -> &Arc<Circuit> {
        &self.circuit
    }

    /// Which end of the circuit it is.
    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// The connection's name on the SDK's channel.
    pub(crate) fn conn_id(&self) -> u32 {
        self.conn_id
    }

    /// An end here has payloads or acks for the SDK.
    pub(super) fn list_fabric(&self, class: Class, end: Arc<LocalEnd>, listing: u32) {
        self.list_flow(class, Some(FlowRef::Fabric(end, listing)));
    }

    /// Time and bytes that the connection has served for payloads of this circuit.
    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Rewrites a message of the circuit for the SDK's connection id.
    pub(crate) fn address_to_sdk(&self, message: &mut Message) {
        message.headers.set_u32(header::CONN_ID, self.conn_id);
    }

    /// Passes on a payload, an ack or a control message from the SDK.
    pub(crate) fn forward(&self, mut message: Message) {
        if self.circuit.has_ended() {
            return;
        }
        let find = || self.forwarder.next_of(&self.circuit, &self.address);
        let Some(next) = self.next.get(&self.circuit, find) else {
            // An SDK whose end was taken away may send for a circuit that goes on without it.
            if !self.is_closed() {
                self.forwarder.no_way_on(&self.circuit);
            }
            return;
        };
        match Head::of(&message) {
            Ok(head) => {
                if head.class == Class::Payload {
                    self.came(message.body.len());
                }
                message.headers.remove_all(&STRIP);
                let back = |head, answer| self.push(head, answer);
                self.forwarder.pass(&self.circuit, &next, head, message, back);
            }
            Err(problem) => self.forwarder.drop_bad(&self.circuit, &problem),
        }
    }

    /// Counts bytes that came from the SDK.
    fn came(&self, bytes: usize) {
        let measures = self.forwarder.measures();
        let (flow, way) = match self.role {
            Role::Initiator => (&measures.ingress.rx, Way::IngressRx),
            Role::Terminator => (&measures.egress.rx, Way::EgressRx),
        };
        flow.message(bytes);
        self.circuit.carried.add(way, bytes);
    }

    /// Counts bytes that go to the SDK. Called under the lock.
    fn goes(&self, bytes: usize) {
        let measures = self.forwarder.measures();
        let (flow, way) = match self.role {
            Role::Initiator => (&measures.ingress.tx, Way::IngressTx),
            Role::Terminator => (&measures.egress.tx, Way::EgressTx),
        };
        flow.message(bytes);
        self.circuit.carried.add_locked(way, bytes);
    }

    /// Queues a message of the circuit for the SDK.
    pub(super) fn push(&self, head: Head, message: Message) {
        let length = transit_len(&message);
        let list = {
            let mut queue = self.queue.lock();
            if queue.end != Ending::Not {
                return;
            }
            let pushed = match head.class {
                Class::Payload => queue.frames.push(head.sequence, length, message),
                Class::Ack => queue.frames.push_ack(length, message),
            };
            self.forwarder.drops().pushed(pushed);
            queue.list(head.class)
        };
        self.list(head.class, list);
    }

    /// The next message for the SDK, on its connection's task.
    pub(crate) fn pull(&self, class: Class) -> Option<(Message, u64)> {
        let (frame, last) = {
            let mut queue = self.queue.lock();
            let frame = match class {
                Class::Payload => queue.frames.pop().map(|waiting| {
                    self.goes(waiting.frame.body.len());
                    (waiting.frame, waiting.len)
                }),
                Class::Ack => queue.frames.pop_ack().map(|(len, frame)| (frame, len)),
            };
            let last = frame.is_none() && class == Class::Payload && queue.end == Ending::Telling;
            if last {
                queue.end = Ending::Told;
            }
            if frame.is_none() {
                *queue.listed(class) = false;
                if class == Class::Payload {
                    self.outlet.emptied(&self.seat);
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
            if queue.end != Ending::Not {
                return;
            }
            queue.end = Ending::Telling;
            queue.list(Class::Payload)
        };
        self.list(Class::Payload, list);
    }

    /// The route was not completed, or is undone, while the circuit may have another one.
    pub(super) fn withdrawn(&self) {
        self.circuit.expect_close(Weak::clone(&self.owner));
        self.unrouted();
    }

    /// Drops an end whose circuit was never completed: neither the SDK nor the controller is told,
    /// and the address is removed.
    pub(crate) fn discard(&self) {
        let is_this = |known: &Destination| match known {
            Destination::Sdk(end) => std::ptr::eq(&**end, self),
            Destination::Local(_) | Destination::Link(_) => false,
        };
        self.forwarder.withdraw(&self.address, is_this);
        self.queue.lock().end = Ending::Told;
    }

    /// True if nothing more is accepted for the SDK.
    pub(super) fn is_closed(&self) -> bool {
        self.queue.lock().end != Ending::Not
    }

    /// The SDK ended the circuit, or its connection is gone: the SDK is sent nothing more.
    pub(crate) fn ended_by_sdk(&self) {
        self.queue.lock().end = Ending::Told;
        self.end_here();
    }

    /// This router ends the circuit: the other end and the controller are told.
    pub(crate) fn end_here(&self) {
        self.forwarder.sdk_ended(&self.circuit, &self.address, self.role);
    }

    fn list(&self, class: Class, list: bool) {
        if list {
            self.list_flow(class, None);
        }
    }

    fn list_flow(&self, class: Class, flow: Option<FlowRef>) {
        if !self.begun.load(Ordering::Acquire) {
            let mut queue = self.queue.lock();
            if !self.begun.load(Ordering::Acquire) {
                queue.waiting.push((class, flow));
                return;
            }
        }
        self.list_now(class, flow);
    }

    fn list_now(&self, class: Class, flow: Option<FlowRef>) {
        if let Some(flow) = flow.or_else(|| self.this.upgrade().map(FlowRef::Sdk)) {
            self.outlet.list(class, &self.seat, flow);
        }
    }
}

impl Queue {
    fn listed(&mut self, class: Class) -> &mut bool {
        match class {
            Class::Ack => &mut self.listed_ack,
            Class::Payload => &mut self.listed_payload,
        }
    }

    /// Lists the circuit for a class. True if it was not listed before.
    fn list(&mut self, class: Class) -> bool {
        !std::mem::replace(self.listed(class), true)
    }
}

impl std::fmt::Debug for SdkCircuit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SdkCircuit")
            .field("circuit", &self.circuit.id)
            .field("conn_id", &self.conn_id)
            .finish_non_exhaustive()
    }
}
