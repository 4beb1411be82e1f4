//! The queue of one circuit for one neighbour.
//!
//! The queue belongs to the circuit and not to the connection: when the circuit takes another path, or its link
//! comes back, the hop moves to the new outlet with all queued messages. A hop is listed at most once per class.
//! Each move begins a new *listing*, and an outlet's entries of an older one are ignored.

use std::fmt;
use std::sync::Arc;

use weft_limits::Budget;
use weft_wire::Message;
use weft_wire::payload::{self, PayloadView};
use weft_xgress::{
    Class, ITEM_COST, Pushed, QueuedFrame, TakenOut, Tally, TransitQueue, transit_len,
};

use crate::clock::now;
use crate::listing::Listing;
use crate::outlet::{Flow, LastPort, Outlet};
use crate::probe::Sample;
use crate::sync::Mutex;

/// A flow that can be a hop.
pub trait HopFlow: Flow + Sized {
    /// The flow of a hop in one of its listings.
    fn of_hop(hop: Arc<HopQueue<Self>>, listing: u32) -> Self;
}

/// The messages of one circuit that wait for one neighbour.
pub struct HopQueue<F> {
    last_port: LastPort,
    tally: Tally,
    inner: Mutex<Inner<F>>,
}

struct Inner<F> {
    frames: TransitQueue<Message>,
    outlet: Arc<Outlet<F>>,
    listing: Listing,
    /// The sequence number of the payload whose wait is measured, and its measurement.
    sample: Option<(i32, Sample)>,
    /// True once a message was queued since the last question.
    used: bool,
    closed: bool,
}

impl<F: HopFlow> HopQueue<F> {
    /// An empty hop to the neighbour of an outlet.
    #[must_use]
    pub fn new(outlet: Arc<Outlet<F>>) -> Arc<Self> {
        let inner = Inner {
            frames: TransitQueue::new(outlet.budget()),
            outlet,
            listing: Listing::default(),
            sample: None,
            used: false,
            closed: false,
        };
        Arc::new(Self {
            last_port: LastPort::default(),
            tally: Tally::default(),
            inner: Mutex::new(inner),
        })
    }

    /// The outlet that the hop leads to.
    #[must_use]
    pub fn outlet(&self) -> Arc<Outlet<F>> {
        Arc::clone(&self.inner.lock().outlet)
    }

    /// The bytes of payloads that connections have served for this hop of late.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Queues a message of the circuit; `sequence` is that of a payload.
    pub fn push(self: &Arc<Self>, class: Class, sequence: i32, message: Message) -> Pushed {
        let len = transit_len(&message);
        let (pushed, list) = {
            let mut inner = self.inner.lock();
            if inner.closed {
                return Pushed::Dropped;
            }
            inner.used = true;
            let pushed = match class {
                Class::Payload => inner.frames.push(sequence, len, message),
                Class::Ack => inner.frames.push_ack(len, message),
            };
            match pushed {
                Pushed::Dropped => inner.outlet.note_dropped(),
                Pushed::Queued if class == Class::Payload && inner.sample.is_none() => {
                    inner.sample = inner.outlet.probe().begin().map(|sample| (sequence, sample));
                }
                Pushed::Queued | Pushed::Duplicate => {}
            }
            (pushed, inner.begin_listing(class))
        };
        self.list(class, list);
        pushed
    }

    /// Puts a payload that a connection took and did not write back in front. An ack is dropped: the payloads
    /// that are sent again are acknowledged again.
    pub fn put_back(self: &Arc<Self>, message: Message) {
        if message.content_type != payload::content_type::PAYLOAD {
            return;
        }
        let Ok(PayloadView { sequence, .. }) = PayloadView::of(&message) else { return };
        let len = transit_len(&message);
        let list = {
            let mut inner = self.inner.lock();
            if inner.closed {
                return;
            }
            inner.frames.put_back(QueuedFrame { sequence, len, frame: message });
            inner.begin_listing(Class::Payload)
        };
        self.list(Class::Payload, list);
    }

    /// The next message of a class with its cost, for the connection that holds this listing.
    pub fn pull(&self, listing: u32, class: Class) -> Option<(Message, u64)> {
        let mut inner = self.inner.lock();
        if !inner.listing.is(listing) {
            return None;
        }
        let frame = match class {
            Class::Payload => inner.frames.pop().map(|waiting| {
                inner.left(waiting.sequence);
                (waiting.len, waiting.frame)
            }),
            Class::Ack => inner.frames.pop_ack(),
        };
        let Some((len, message)) = frame else {
            inner.listing.keep(class, false);
            if class == Class::Payload {
                inner.outlet.emptied(&self.last_port);
                inner.sample = None;
            }
            return None;
        };
        Some((message, (len + ITEM_COST) as u64))
    }

    /// The port that served this listing is gone.
    pub fn unlisted(self: &Arc<Self>, listing: u32, class: Class) {
        let list = {
            let mut inner = self.inner.lock();
            if !inner.listing.is(listing) || inner.closed {
                return;
            }
            inner.listing.keep(class, false);
            if inner.outlet.is_closed() {
                return;
            }
            inner.begin_listing(class)
        };
        self.list(class, list);
    }

    /// Leads the hop to another neighbour, or to the same one over new connections; queued messages move along.
    pub fn move_to(self: &Arc<Self>, outlet: &Arc<Outlet<F>>) {
        let lists = {
            let mut inner = self.inner.lock();
            if inner.closed || Arc::ptr_eq(&inner.outlet, outlet) {
                return;
            }
            inner.frames.move_to(outlet.budget());
            inner.outlet = Arc::clone(outlet);
            inner.listing.renew();
            // A payload that moved has waited for both neighbours: its time is not measured.
            inner.sample = None;
            [Class::Ack, Class::Payload].map(|class| (class, inner.begin_listing(class)))
        };
        for (class, list) in lists {
            self.list(class, list);
        }
    }

    /// True if a message was queued since the last call.
    #[must_use]
    pub fn was_used(&self) -> bool {
        std::mem::take(&mut self.inner.lock().used)
    }

    /// Takes out the messages that `goes` names, because they go over another hop now.
    pub fn take_out(&self, goes: impl Fn(&Message) -> bool) -> TakenOut<Message> {
        let mut inner = self.inner.lock();
        // A payload that goes has waited for both neighbours: its time is not measured.
        inner.sample = None;
        inner.frames.take_out(goes)
    }

    /// Queues messages of another hop before those that wait.
    pub fn put_first(self: &Arc<Self>, taken: TakenOut<Message>) {
        let lists = {
            let mut inner = self.inner.lock();
            if inner.closed {
                return;
            }
            inner.frames.put_first(taken);
            [Class::Ack, Class::Payload].map(|class| (class, inner.begin_listing(class)))
        };
        for (class, list) in lists {
            self.list(class, list);
        }
    }

    /// The circuit is over: drops the queued messages.
    pub fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        inner.sample = None;
        inner.listing.renew();
        inner.frames.clear();
        // Payloads that are left in the queue draw on no budget.
        inner.frames.move_to(&Budget::unlimited());
    }

    /// Frees the memory that no message waits in.
    pub fn trim(&self) {
        self.inner.lock().frames.trim();
    }

    /// The number of messages for which there is memory, whether they wait or not.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.inner.lock().frames.capacity()
    }

    /// True if a payload, an ack or a control message waits.
    #[must_use]
    pub fn has_messages(&self) -> bool {
        let inner = self.inner.lock();
        inner.frames.has_payloads() || inner.frames.has_acks()
    }

    /// Bytes in the queue.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.inner.lock().frames.bytes()
    }

    fn list(self: &Arc<Self>, class: Class, list: Option<(Arc<Outlet<F>>, u32)>) {
        let Some((outlet, listing)) = list else { return };
        if !outlet.list(class, &self.last_port, F::of_hop(Arc::clone(self), listing)) {
            let mut inner = self.inner.lock();
            if inner.listing.is(listing) {
                inner.listing.keep(class, false);
            }
        }
    }
}

impl<F> Inner<F> {
    /// Notes that a connection takes the payload of this sequence number.
    fn left(&mut self, sequence: i32) {
        if self.sample.as_ref().is_some_and(|(followed, _)| *followed == sequence)
            && let Some((_, sample)) = self.sample.take()
        {
            sample.taken(now());
        }
    }

    /// Begins a listing for a class that has messages and is not listed: the outlet to list at.
    fn begin_listing(&mut self, class: Class) -> Option<(Arc<Outlet<F>>, u32)> {
        let has = match class {
            Class::Ack => self.frames.has_acks(),
            Class::Payload => self.frames.has_payloads(),
        };
        if !has || !self.listing.begin(class) {
            return None;
        }
        Some((Arc::clone(&self.outlet), self.listing.number()))
    }
}

impl<F> fmt::Debug for HopQueue<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HopQueue")
            .field("bytes", &self.inner.lock().frames.bytes())
            .finish_non_exhaustive()
    }
}
