//! An end of a circuit that lives on this router: behind it an application socket, or an SDK
//! connection without flow control of its own.
//!
//! ```text
//!  application -> write -> End -> pull_fabric (SDK connection) or exchange (end on this router)
//!  application <- read  <- End <- on_payload, on_ack
//! ```
//!
//! An end has one lock, which is held for short computations. Inside it two others are taken, both
//! rarely: the tables of the circuit, for reading, when the ways have changed since the last look-up;
//! and the measurement of waiting times ([`weft_circuit::Probe`]). A change of the end determines under
//! the lock what follows (tasks to wake, messages to send); the caller does that after the lock is
//! released.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use weft_circuit::{Sample, Seat, Timed};
use weft_limits::Budget;
use weft_metrics::usage::Way;
use weft_wire::{
    Message,
    edge::{Data, StateClosed, data_flags},
    payload::{self, Ack, Flags, Payload, payload_header},
};
use weft_xgress::{
    Alarm, Class, CloseReason, Delivery, End, ITEM_COST, Options, Role, Standing, Tally,
};

use super::{
    Destination, Forwarder,
    backlog::{Backlog, FromSdk},
    circuit::{Cached, Circuit, Next},
    fin::HeldFin,
    outlet::{FlowRef, Outlet},
    turn::Turn,
};
use crate::measures::Outstanding;

/// Payloads moved at once between two ends of this router.
const EXCHANGE_BATCH: usize = 16;
/// Batches moved in one turn; the rest waits for the next turn.
const EXCHANGE_TURN: usize = 128;

/// The application's side of an end: a task with a socket, or an SDK.
#[derive(Debug)]
pub(crate) enum App {
    /// A task that reads and writes a socket.
    Socket {
        /// There may be something to read.
        readable: Notify,
        /// There may be room to write.
        writable: Notify,
    },
    /// An SDK connection without flow control of its own.
    Sdk {
        /// The outlet of the SDK's connection.
        outlet: Arc<Outlet>,
        /// The connection id at the SDK.
        conn_id: u32,
        /// How long the end of a direction waits for the close that may follow it.
        fin_hold: Option<Duration>,
        /// The SDK's connection: told when the circuit is over, and when the backlog begins or
        /// stops being too large.
        owner: Weak<dyn ConnOwner>,
        /// The budget that waiting bytes are drawn from.
        backlog: Budget,
    },
}

impl App {
    /// An application behind a socket.
    pub(crate) fn socket() -> Self {
        Self::Socket { readable: Notify::new(), writable: Notify::new() }
    }
}

/// The SDK connection that holds an end.
pub(crate) trait ConnOwner: Send + Sync + std::fmt::Debug {
    /// The circuit of this connection id is over.
    fn conn_closed(&self, conn_id: u32);
    /// The backlog of a connection id has become too large (`true`), or small enough again
    /// (`false`).
    fn backlog(&self, over: bool);
}

/// An end of a circuit on this router.
pub(crate) struct LocalEnd {
    circuit: Arc<Circuit>,
    address: Arc<str>,
    role: Role,
    app: App,
    forwarder: Arc<Forwarder>,
    this: Weak<Self>,
    next: Cached,
    /// The port of the outlet that serves this end.
    seat: Seat,
    fabric: Tally,
    delivered: Tally,
    /// Loses one of so many arriving payloads, for tests; 0 loses none.
    lost_one_in: u32,
    /// The turn to exchange payloads with the other end on this router; both ends use that of the
    /// initiator.
    turn: Turn,
    inner: Mutex<Inner>,
}

struct Inner {
    end: End,
    /// The number of the present listing. It goes up when the end sends over another outlet, which
    /// makes older entries there void.
    listing: u32,
    /// True while the end is listed for acks, and for payloads, at the connection that it sends to.
    listed_ack: bool,
    listed_payload: bool,
    /// True while the end is listed at the SDK connection that it delivers to.
    listed_app: bool,
    /// The measurement of how long a payload waits for the connection to a router, while there is
    /// one.
    sample: Option<Sample>,
    /// Data of the SDK that the end has no room for yet.
    backlog: Backlog,
    /// True once the SDK knows of the connection; nothing is sent to the SDK before that.
    begun: bool,
    alarm: Alarm,
    finished: bool,
    /// True once the SDK has closed the connection itself; nothing is sent to it after that.
    quiet: bool,
    /// The end of the direction, while the SDK has not been sent it.
    fin: HeldFin,
}

/// The steps that follow from a change of the end, done after its lock is released.
#[derive(Default)]
struct Follows {
    list_ack: bool,
    list_payload: bool,
    listing: u32,
    exchange: bool,
    list_app: bool,
    wake_reader: bool,
    wake_writer: bool,
    backlog: Option<bool>,
    finish: Option<CloseReason>,
    arm: Option<Instant>,
}

/// Segments and an ack on their way to the other end on this router.
#[derive(Default)]
struct Parcel {
    payloads: Vec<Payload>,
    ack: Option<Ack>,
}

impl LocalEnd {
    /// Makes an end of `circuit`, registers it under `address` and begins it.
    pub(crate) fn start(
        forwarder: &Arc<Forwarder>,
        circuit: Arc<Circuit>,
        address: &str,
        role: Role,
        options: &Options,
        app: App,
    ) -> Arc<Self> {
        let end = End::new(role, options, forwarder.budget(), Instant::now());
        let (fin, backlog) = match &app {
            App::Sdk { fin_hold, backlog, .. } => (*fin_hold, Backlog::new(backlog)),
            App::Socket { .. } => (None, Backlog::new(forwarder.budget())),
        };
        let fin = HeldFin::new(fin);
        let local = Arc::new_cyclic(|this| Self {
            circuit,
            address: address.into(),
            role,
            app,
            forwarder: Arc::clone(forwarder),
            this: this.clone(),
            next: Cached::default(),
            seat: Seat::default(),
            fabric: Tally::default(),
            delivered: Tally::default(),
            lost_one_in: options.lost_one_in,
            turn: Turn::default(),
            inner: Mutex::new(Inner {
                end,
                listing: 0,
                listed_ack: false,
                listed_payload: false,
                listed_app: false,
                sample: None,
                backlog,
                begun: false,
                alarm: Alarm::default(),
                finished: false,
                quiet: false,
                fin,
            }),
        });
        forwarder.register(address, Destination::Local(Arc::clone(&local)));
        local
    }

    /// Sends the first messages of the end. To be called once the route is complete and a dialing
    /// SDK has been sent its answer.
    pub(crate) fn begin(&self) {
        self.change(|inner, _| inner.begun = true);
    }

    pub(crate) fn circuit(&self) -> &Arc<Circuit> {
        &self.circuit
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }

    // Of sockets.

    /// Waits until data can be written; false once the direction or the circuit has ended.
    pub(crate) async fn writable(&self) -> bool {
        let App::Socket { writable, .. } = &self.app else { return false };
        loop {
            let woken = writable.notified();
            {
                let inner = self.inner.lock();
                if inner.end.can_write() {
                    return true;
                }
                if inner.end.is_sending_over() {
                    return false;
                }
            }
            woken.await;
        }
    }

    /// Takes one payload from the application; there must be room.
    pub(crate) fn write(&self, data: Bytes) -> Result<(), weft_xgress::WriteError> {
        self.circuit.touch();
        self.change(|inner, _| {
            self.came(data.len());
            inner.end.write(data)
        })
    }

    /// Counts bytes that came from the application. Called under the lock.
    fn came(&self, bytes: usize) {
        let measures = self.forwarder.measures();
        let (flow, way) = match self.role {
            Role::Initiator => (&measures.ingress.rx, Way::IngressRx),
            Role::Terminator => (&measures.egress.rx, Way::EgressRx),
        };
        flow.message(bytes);
        self.circuit.carried.add_locked(way, bytes);
    }

    /// Counts bytes that go to the application. Called under the lock.
    fn goes(&self, delivery: &Delivery) {
        let Delivery::Data { data, .. } = delivery else { return };
        let measures = self.forwarder.measures();
        let (flow, way) = match self.role {
            Role::Initiator => (&measures.ingress.tx, Way::IngressTx),
            Role::Terminator => (&measures.egress.tx, Way::EgressTx),
        };
        flow.message(data.len());
        self.circuit.carried.add_locked(way, data.len());
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The connection id of this end at an SDK.
    pub(crate) fn conn_id(&self) -> Option<u32> {
        match self.app {
            App::Socket { .. } => None,
            App::Sdk { conn_id, .. } => Some(conn_id),
        }
    }

    /// The state of the end, for inspections.
    pub(crate) fn standing(&self, now: Instant) -> Standing {
        self.inner.lock().end.standing(now)
    }

    /// Unacknowledged bytes, and whether a window is full.
    pub(crate) fn outstanding(&self) -> Outstanding {
        let end = &self.inner.lock().end;
        let is_open = end.closed().is_none() && !end.is_sending_over();
        let bytes = end.unacknowledged();
        Outstanding {
            bytes,
            payloads: end.unacknowledged_payloads() as u64,
            by_window: u64::from(is_open && bytes > 0 && !end.can_write()),
            by_peer: u64::from(end.closed().is_none() && end.is_blocked_by_peer()),
        }
    }

    /// Ends the direction: the application writes no more.
    pub(crate) fn finish(&self) {
        self.change(|inner, now| inner.end.finish(now));
    }

    /// Waits for the next delivery for the application.
    pub(crate) async fn read(&self) -> Delivery {
        let App::Socket { readable, .. } = &self.app else {
            return Delivery::Closed(CloseReason::Aborted);
        };
        loop {
            let woken = readable.notified();
            let next = |inner: &mut Inner, _| {
                let delivery = inner.end.read();
                delivery.iter().for_each(|delivery| self.goes(delivery));
                delivery
            };
            if let Some(delivery) = self.change(next) {
                return delivery;
            }
            woken.await;
        }
    }

    /// The application takes no more data.
    pub(crate) fn delivery_failed(&self) {
        self.change(|inner, now| inner.end.delivery_failed(now));
    }

    /// The application is gone; what it wrote is still sent.
    pub(crate) fn close(&self) {
        self.change(|inner, now| inner.end.close(now));
    }

    /// True if the circuit is over; payloads that arrived may still be read.
    pub(crate) fn is_closed(&self) -> bool {
        self.inner.lock().end.closed().is_some()
    }

    /// Ends the circuit at once and drops what waits.
    pub(crate) fn abort(&self) {
        self.change(|inner, _| {
            inner.abort();
        });
    }

    /// Drops an end whose circuit was never completed: neither the SDK nor the controller is told,
    /// and the address is removed.
    pub(crate) fn discard(&self) {
        let is_this = |known: &Destination| match known {
            Destination::Local(end) => std::ptr::eq(&**end, self),
            Destination::Sdk(_) | Destination::Link(_) => false,
        };
        self.forwarder.withdraw(&self.address, is_this);
        {
            let mut inner = self.inner.lock();
            (inner.quiet, inner.finished) = (true, true);
        }
        self.abort();
    }

    // Of SDK connections.

    /// Takes a data message of the SDK; data without room in the end waits in the backlog.
    pub(crate) fn sdk_data(&self, data: Data) {
        self.circuit.touch();
        let fin = data.is_fin();
        let mut headers = Vec::new();
        if data.flags != 0 {
            headers.push(Payload::edge_flags_header(data.flags));
        }
        if let Some(uuid) = data.uuid {
            headers.push((payload_header::UUID, uuid));
        }
        // An end of the direction without data is the end's to send.
        let bare = fin && data.data.is_empty() && data.flags == data_flags::FIN;
        self.change(|inner, now| {
            if !bare {
                self.came(data.data.len());
                inner.push(FromSdk::Data { headers, data: data.data });
            }
            if fin {
                inner.push(FromSdk::Fin);
            }
            inner.backlog.drain(&mut inner.end, now);
        });
    }

    /// The SDK closed the connection: its earlier data is still sent.
    pub(crate) fn sdk_closed(&self) {
        self.change(|inner, now| {
            inner.quiet = true;
            inner.push(FromSdk::Close);
            inner.backlog.drain(&mut inner.end, now);
        });
    }

    /// The next message for the SDK, on its connection's task.
    pub(crate) fn pull_app(&self) -> Option<(Message, u64)> {
        let App::Sdk { conn_id, owner, .. } = &self.app else { return None };
        let delivery = self.change(|inner, now| {
            let delivery = inner.fin.read(&mut inner.end, now).filter(|_| !inner.quiet);
            inner.listed_app = delivery.is_some();
            delivery.iter().for_each(|delivery| self.goes(delivery));
            delivery
        })?;
        let message = match delivery {
            Delivery::Data { headers, data } => data_message(*conn_id, &headers, data, 0),
            Delivery::Fin { headers } => {
                data_message(*conn_id, &headers, Bytes::new(), data_flags::FIN)
            }
            Delivery::Closed(reason) => {
                if let Some(owner) = owner.upgrade() {
                    owner.conn_closed(*conn_id);
                }
                StateClosed::new(*conn_id, close_text(reason)).to_message()
            }
        };
        let cost = (message.body.len() + ITEM_COST) as u64;
        Some((message, cost))
    }

    // Of the circuit.

    /// Takes a payload.
    pub(crate) fn on_payload(&self, payload: Payload) {
        if self.loses() {
            return;
        }
        let is_repeated = self.change(|inner, now| inner.end.on_payload(payload, now));
        if is_repeated {
            self.forwarder.measures().ends.duplicates.one();
        }
    }

    fn loses(&self) -> bool {
        self.lost_one_in > 0 && rand::random_range(0..self.lost_one_in) == 0
    }

    /// Takes an ack.
    pub(crate) fn on_ack(&self, ack: &Ack) {
        self.forwarder.measures().ends.acks_rx.one();
        self.change(|inner, now| inner.end.on_ack(ack, now));
    }

    /// The next payload or ack for the SDK or router that this end sends to, on that connection's
    /// task.
    pub(crate) fn pull_fabric(
        &self,
        class: Class,
        listing: u32,
        now: Instant,
    ) -> Option<(Message, u64)> {
        let (target, hop) = match self.next() {
            Some(Next::Sdk(target)) => (Some(target), None),
            Some(Next::Link(hop)) => (None, Some(hop)),
            Some(Next::Local(_)) | None => return self.unlist(class, listing),
        };
        let (pulled, follows) = {
            let mut inner = self.inner.lock();
            if inner.listing != listing {
                return None;
            }
            let pulled = match class {
                Class::Payload => inner.end.poll_transmit(now).map(|payload| {
                    self.transmits(&payload, target.is_none());
                    let cost = (payload.data.len() + ITEM_COST) as u64;
                    (payload.into_message(&self.circuit.id), cost)
                }),
                Class::Ack => inner.end.poll_ack().map(|ack| {
                    self.forwarder.measures().ends.acks_tx.one();
                    let cost = (ack.sequences.len() * 4 + ITEM_COST) as u64;
                    (ack.into_message(&self.circuit.id), cost)
                }),
            };
            if class == Class::Payload
                && let Some(sample) = inner.sample.take()
                && pulled.is_some()
            {
                sample.taken(now);
            }
            *inner.listed(class) = pulled.is_some();
            let follows = self.follows(&mut inner, now);
            (pulled, follows)
        };
        self.carry_out(follows, false);
        if pulled.is_none()
            && class == Class::Payload
            && let Some(hop) = hop
        {
            hop.outlet().emptied(&self.seat);
        }
        let (mut message, cost) = pulled?;
        if let Some(target) = target {
            target.address_to_sdk(&mut message);
        }
        Some((message, cost))
    }

    /// A payload leaves, for another router or for an SDK.
    fn transmits(&self, payload: &Payload, to_router: bool) {
        if payload.flags.has(Flags::RETRANSMIT) {
            self.forwarder.measures().ends.retransmissions.one();
        }
        if to_router {
            self.circuit.carried.add(Way::FabricTx, payload.data.len());
        }
    }

    /// Notes that this listing has ended, unless a newer one has begun.
    fn unlist<T>(&self, class: Class, listing: u32) -> Option<T> {
        let mut inner = self.inner.lock();
        if inner.listing == listing {
            *inner.listed(class) = false;
            if class == Class::Payload {
                inner.sample = None;
            }
        }
        None
    }

    /// The connection of this listing is gone; the end lists itself with another one.
    pub(crate) fn unlisted(&self, class: Class, listing: u32) {
        self.unlist::<()>(class, listing);
        self.change(|_, _| {});
    }

    /// The messages of this end take another way from now on.
    pub(super) fn path_changed(&self) {
        self.change(|inner, now| {
            inner.listing = inner.listing.wrapping_add(1);
            (inner.listed_ack, inner.listed_payload) = (false, false);
            inner.sample = None;
            inner.end.path_changed(now);
        });
    }

    /// Time and bytes that connections have served for payloads of this end.
    pub(crate) fn fabric_tally(&self) -> &Tally {
        &self.fabric
    }

    /// Time and bytes that connections have served for data to the SDK.
    pub(crate) fn app_tally(&self) -> &Tally {
        &self.delivered
    }

    /// The route was taken down.
    pub(crate) fn unrouted(&self) {
        self.change(|inner, _| inner.end.unrouted());
    }

    fn next(&self) -> Option<Next> {
        let find = || self.forwarder.next_of(&self.circuit, &self.address);
        self.next.get(&self.circuit, find)
    }

    /// Changes the end under its lock, then does what follows.
    fn change<R>(&self, change: impl FnOnce(&mut Inner, Instant) -> R) -> R {
        let (result, follows) = {
            let mut inner = self.inner.lock();
            let now = Instant::now();
            let result = change(&mut inner, now);
            let follows = self.follows(&mut inner, now);
            (result, follows)
        };
        self.carry_out(follows, true);
        result
    }

    /// Determines what follows from the state of the end, and notes it as done.
    fn follows(&self, inner: &mut Inner, now: Instant) -> Follows {
        let mut follows = Follows::default();
        if !inner.backlog.is_empty() {
            inner.backlog.drain(&mut inner.end, now);
        }
        follows.backlog = inner.backlog.settle(now);
        let (ack, payload) = (inner.end.wants_ack(), inner.end.wants_transmit());
        if ack || payload {
            match self.next() {
                Some(Next::Sdk(_) | Next::Link(_)) => {
                    follows.list_ack = ack && !inner.listed_ack;
                    follows.list_payload = payload && !inner.listed_payload;
                    inner.listed_ack |= ack;
                    inner.listed_payload |= payload;
                    follows.listing = inner.listing;
                }
                Some(Next::Local(_)) => follows.exchange = true,
                None => {}
            }
        }
        match &self.app {
            App::Socket { .. } => {
                follows.wake_reader = inner.end.wants_read();
                follows.wake_writer = inner.end.can_write() || inner.end.is_sending_over();
            }
            App::Sdk { .. } => {
                let wanted = inner.fin.wants_read(&inner.end);
                follows.list_app = wanted && inner.begun && !inner.listed_app;
                inner.listed_app |= follows.list_app;
            }
        }
        if let Some(reason) = inner.end.closed()
            && !inner.finished
            && (!payload || self.next().is_none())
        {
            inner.finished = true;
            follows.finish = Some(reason);
        }
        // Once the end is listed, a delivery that was held back waits for the connection, and no
        // longer for its time.
        let held_until = inner.fin.until(&inner.end).filter(|_| !inner.listed_app);
        let waits = [inner.end.deadline(), held_until, inner.backlog.deadline()];
        let deadline = waits.into_iter().flatten().min();
        follows.arm = deadline.and_then(|deadline| inner.alarm.want(deadline));
        follows
    }

    fn carry_out(&self, follows: Follows, may_exchange: bool) {
        for (class, wanted) in
            [(Class::Ack, follows.list_ack), (Class::Payload, follows.list_payload)]
        {
            if wanted && let Some(this) = self.this.upgrade() {
                self.list(class, this, follows.listing);
            }
        }
        match &self.app {
            App::Socket { readable, writable } => {
                if follows.wake_reader {
                    readable.notify_one();
                }
                if follows.wake_writer {
                    writable.notify_one();
                }
            }
            App::Sdk { outlet, owner, .. } => {
                if follows.list_app
                    && let Some(this) = self.this.upgrade()
                {
                    outlet.list(Class::Payload, &Seat::default(), FlowRef::App(this));
                }
                if let Some(over) = follows.backlog
                    && let Some(owner) = owner.upgrade()
                {
                    owner.backlog(over);
                }
            }
        }
        if let Some(at) = follows.arm {
            self.forwarder.timers().arm(at, self.this.clone());
        }
        if follows.exchange
            && may_exchange
            && let Some(Next::Local(peer)) = self.next()
        {
            exchange(self, &peer);
        }
        if let Some(reason) = follows.finish {
            let (circuit, address) = (&self.circuit, &self.address);
            self.forwarder.end_finished(circuit, address, reason, self.role());
        }
    }

    /// Lists the end at the outlet that it sends to.
    fn list(&self, class: Class, this: Arc<Self>, listing: u32) {
        match self.next() {
            Some(Next::Sdk(target)) => target.list_fabric(class, this, listing),
            Some(Next::Link(hop)) => {
                let outlet = hop.outlet();
                if class == Class::Payload
                    && let Some(sample) = outlet.probe().begin()
                {
                    self.inner.lock().sample = Some(sample);
                }
                if !outlet.list(class, &self.seat, FlowRef::Fabric(this, listing)) {
                    // The link is gone: the end goes on with another one.
                    self.unlist::<()>(class, listing);
                }
            }
            Some(Next::Local(_)) | None => {
                self.unlist::<()>(class, listing);
            }
        }
    }

    /// Takes the payloads and acks that are ready for the other end on this router.
    fn take_parcel(&self) -> Parcel {
        let now = Instant::now();
        let (parcel, follows) = {
            let mut inner = self.inner.lock();
            let mut parcel = Parcel { ack: inner.end.poll_ack(), ..Parcel::default() };
            while parcel.payloads.len() < EXCHANGE_BATCH {
                let Some(payload) = inner.end.poll_transmit(now) else { break };
                parcel.payloads.push(payload);
            }
            let follows = self.follows(&mut inner, now);
            (parcel, follows)
        };
        self.carry_out(follows, false);
        parcel
    }

    fn deliver(&self, parcel: Parcel) {
        let now = Instant::now();
        let follows = {
            let mut inner = self.inner.lock();
            if let Some(ack) = &parcel.ack {
                inner.end.on_ack(ack, now);
            }
            for payload in parcel.payloads.into_iter().filter(|_| !self.loses()) {
                inner.end.on_payload(payload, now);
            }
            self.follows(&mut inner, now)
        };
        self.carry_out(follows, false);
    }
}

impl Timed for LocalEnd {
    fn on_timer(&self, at: Instant, now: Instant) {
        let stuck = self.change(|inner, _| {
            if !inner.alarm.fires(at) {
                return false;
            }
            if inner.end.deadline().is_some_and(|deadline| deadline <= now) {
                inner.end.on_timeout(now);
            }
            let stuck = inner.end.closed().is_none() && inner.backlog.is_stuck(now);
            if stuck {
                inner.abort();
            }
            stuck
        });
        if stuck && let App::Sdk { owner, .. } = &self.app {
            self.forwarder.drops().stuck();
            tracing::warn!(
                circuit = %self.circuit.id,
                sdk = ?owner.upgrade(),
                "a circuit is ended: its other end has taken nothing for 30 s, and the SDK, which \
                 has no flow control of its own, could send nothing to its others meanwhile"
            );
        }
    }
}

/// Moves payloads and acks between two ends of this router until neither has any, or until the turn
/// has moved enough: applications write meanwhile, and their data must not keep this thread for
/// ever.
fn exchange(one: &LocalEnd, other: &LocalEnd) {
    let first = if one.role == Role::Initiator { one } else { other };
    let mut left = EXCHANGE_TURN;
    if !first.turn.take(|| exchange_all(one, other, &mut left)) {
        // The clock continues the work, after the other tasks that wait for it.
        for end in [one, other] {
            end.forwarder.timers().arm(Instant::now(), end.this.clone());
        }
    }
}

/// False if parcels may be left because `left` is used up.
fn exchange_all(one: &LocalEnd, other: &LocalEnd, left: &mut usize) -> bool {
    let (mut from, mut to) = (one, other);
    let mut quiet = 0;
    while quiet < 2 {
        let Some(less) = left.checked_sub(1) else { return false };
        *left = less;
        let parcel = from.take_parcel();
        if parcel.payloads.is_empty() && parcel.ack.is_none() {
            quiet += 1;
        } else {
            quiet = 0;
            to.deliver(parcel);
        }
        std::mem::swap(&mut from, &mut to);
    }
    true
}

impl Inner {
    fn listed(&mut self, class: Class) -> &mut bool {
        match class {
            Class::Ack => &mut self.listed_ack,
            Class::Payload => &mut self.listed_payload,
        }
    }

    fn push(&mut self, item: FromSdk) {
        // A closed circuit has no reader for what the SDK sends.
        if self.end.closed().is_none() {
            self.backlog.push(item);
        }
    }

    fn abort(&mut self) {
        self.backlog.clear();
        self.end.abort();
    }
}

impl std::fmt::Debug for LocalEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalEnd")
            .field("circuit", &self.circuit.id)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// A data message with the flags and the trace id that travelled in payload headers.
fn data_message(conn_id: u32, headers: &[(u8, Bytes)], data: Bytes, more_flags: u32) -> Message {
    let uuid = payload::header_value(headers, payload_header::UUID).cloned();
    let flags = payload::edge_flags(headers) | more_flags;
    Data { conn_id, flags, uuid, data }.to_message()
}

/// The text of the close that an SDK is sent when a circuit is over; never empty
/// (docs/protocol/sdk.md 6).
fn close_text(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::Finished | CloseReason::PeerClosed => "close called",
        CloseReason::NotStarted => "the circuit was not started in time",
        CloseReason::Unacknowledged => "the peer stopped acknowledging",
        CloseReason::Unrouted => "xgress unrouted",
        CloseReason::Aborted => "the circuit was aborted",
        CloseReason::Protocol => "the peer broke the protocol",
        CloseReason::Exhausted => "the circuit carried as many payloads as it can count",
    }
}
