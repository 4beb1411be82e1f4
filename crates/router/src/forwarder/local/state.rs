//! The state of an end on this router, under its lock: the end itself, and the further state for an
//! SDK without flow control of its own.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use weft_circuit::{Machine, Sample};
use weft_wire::Message;
use weft_wire::edge::{Data, data_flags};
use weft_wire::hello::header::REPLY_FOR;
use weft_wire::payload::{Payload, payload_header};
use weft_xgress::{Class, Delivery, End};

use crate::forwarder::asked::Asked;
use crate::forwarder::backlog::{Backlog, FromSdk};
use crate::forwarder::fin::HeldFin;

/// Most messages of traced routes that wait for an SDK; more are dropped. A message has up to 1 KiB.
const MAX_TRACES: usize = 4;

/// An end, and the messages that wait for the SDK behind it or for room in the end.
pub(super) struct State {
    pub(super) end: End,
    /// The measurement of how long a payload waits for the connection to a router, while there is
    /// one.
    pub(super) sample: Option<Sample>,
    /// Data of the SDK that the end has no room for yet.
    backlog: Backlog,
    /// The end of the direction, while the SDK has not been sent it.
    fin: HeldFin,
    /// The SDK's requests for hops of the route.
    pub(super) asked: Asked,
    /// Messages of traced routes that wait for the SDK's connection.
    traces: VecDeque<Message>,
    /// True while the end is listed at the SDK connection that it delivers to.
    listed_app: bool,
    /// True once the SDK knows of the connection; nothing is sent to the SDK before that.
    pub(super) begun: bool,
    /// True once the controller has been told that the end is closed.
    pub(super) finished: bool,
    /// True once the SDK has closed the connection itself; the SDK is sent nothing more.
    pub(super) quiet: bool,
}

/// The next message for an SDK, before it is encoded.
pub(super) enum ForSdk {
    /// A delivery of the end.
    Delivery(Delivery),
    /// A message of a traced route.
    Trace(Message),
}

impl State {
    pub(super) fn new(end: End, backlog: Backlog, fin: HeldFin) -> Self {
        Self {
            end,
            sample: None,
            backlog,
            fin,
            asked: Asked::default(),
            traces: VecDeque::new(),
            listed_app: false,
            begun: false,
            finished: false,
            quiet: false,
        }
    }

    /// Takes a data message of the SDK; data without room in the end waits in the backlog. Answers the
    /// bytes of data, unless the message only ends the direction.
    pub(super) fn take_from_sdk(&mut self, data: Data, now: Instant) -> Option<usize> {
        let fin = data.is_fin();
        // A message without data only ends the direction: the end sends that by itself.
        let bare = fin && data.data.is_empty() && data.flags == data_flags::FIN;
        let bytes = (!bare).then_some(data.data.len());
        if !bare {
            let mut headers = Vec::new();
            if data.flags != 0 {
                headers.push(Payload::edge_flags_header(data.flags));
            }
            if let Some(uuid) = data.uuid {
                headers.push((payload_header::UUID, uuid));
            }
            self.push(FromSdk::Data { headers, data: data.data });
        }
        if fin {
            self.push(FromSdk::Fin);
        }
        self.backlog.drain(&mut self.end, now);
        bytes
    }

    /// The SDK closed the connection: its earlier data is still sent.
    pub(super) fn close_by_sdk(&mut self, now: Instant) {
        self.quiet = true;
        self.traces.clear();
        self.push(FromSdk::Close);
        self.backlog.drain(&mut self.end, now);
    }

    /// The SDK is gone: its earlier data is still sent, and then the other end is told that more may be missing.
    pub(super) fn lose_sdk(&mut self, now: Instant) {
        self.quiet = true;
        self.traces.clear();
        self.push(FromSdk::Lost);
        self.backlog.drain(&mut self.end, now);
    }

    fn push(&mut self, item: FromSdk) {
        // Nobody reads the data of a closed circuit.
        if self.end.closed().is_none() {
            self.backlog.push(item);
        }
    }

    /// Gives the end as much of the backlog as it has room for. Answers whether the SDK has to stop
    /// being read, or may be read again.
    pub(super) fn settle_backlog(&mut self, now: Instant) -> Option<bool> {
        if !self.backlog.is_empty() {
            self.backlog.drain(&mut self.end, now);
        }
        self.backlog.settle(now)
    }

    /// True if the end is to be listed at the SDK's connection now; notes it as listed.
    pub(super) fn begins_listing_for_sdk(&mut self, now: Instant) -> bool {
        let wants = !self.traces.is_empty() || self.fin.wants_read(&self.end, now);
        let begins = self.begun && !self.listed_app && wants;
        self.listed_app |= begins;
        begins
    }

    /// The next delivery for the SDK, whose connection asks for it.
    pub(super) fn next_for_sdk(&mut self, now: Instant) -> Option<ForSdk> {
        if let Some(trace) = self.traces.pop_front() {
            self.listed_app = true;
            return Some(ForSdk::Trace(trace));
        }
        let delivery = self.fin.read(&mut self.end, now).filter(|_| !self.quiet);
        self.listed_app = delivery.is_some();
        delivery.map(ForSdk::Delivery)
    }

    /// Queues a request for a hop of the route for the SDK, while its connection is open.
    pub(super) fn push_trace(&mut self, message: Message) {
        let is_open = !self.quiet && self.end.closed().is_none();
        if is_open && self.traces.len() < MAX_TRACES {
            self.traces.push_back(message);
        }
    }

    /// Queues an answer for the SDK, if the SDK waits for an answer to this request.
    pub(super) fn push_reply(&mut self, mut message: Message, request: u32) {
        if self.asked.answered(request).is_some() {
            message.headers.set_u32(REPLY_FOR, request);
            self.push_trace(message);
        }
    }

    /// Frees the memory of queues that nothing is in.
    pub(super) fn trim(&mut self) {
        self.end.trim();
        self.backlog.trim();
        self.traces.shrink_to_fit();
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.end.capacity() + self.backlog.capacity() + self.traces.capacity()
    }

    /// Ends the circuit at once and drops what waits.
    pub(super) fn abort(&mut self) {
        self.traces.clear();
        self.backlog.clear();
        self.end.abort();
    }

    /// Ends a circuit that has taken nothing from its backlog for too long; returns for how long if it was ended.
    pub(super) fn ends_if_stuck(&mut self, now: Instant) -> Option<Duration> {
        let stuck = self.end.closed().is_none() && self.backlog.gives_up(now);
        let patience = self.backlog.patience().filter(|_| stuck)?;
        self.abort();
        Some(patience)
    }
}

impl Machine for State {
    fn wants(&self, class: Class) -> bool {
        Machine::wants(&self.end, class)
    }

    fn wants_read(&self) -> bool {
        self.end.wants_read()
    }

    fn wakes_writer(&self) -> bool {
        self.end.wakes_writer()
    }

    fn deadline(&self) -> Option<Instant> {
        // A delivery that is held back waits for its time. Once the end is listed at the SDK's
        // connection, the connection takes the delivery, and there is no time to wait for.
        let held_until = self.fin.until(&self.end).filter(|_| !self.listed_app);
        let waits = [self.end.deadline(), held_until, self.backlog.deadline()];
        waits.into_iter().flatten().min()
    }

    fn on_timeout(&mut self, now: Instant) {
        self.end.on_timeout(now);
    }
}
