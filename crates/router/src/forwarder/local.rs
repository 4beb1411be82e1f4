//! An end of a circuit that lives on this router: behind it an application socket, or an SDK
//! connection without flow control of its own.
//!
//! ```text
//!  application -> write -> End -> pull_fabric (SDK connection) or exchange (end on this router)
//!  application <- read  <- End <- on_payload, on_ack
//! ```
//!
//! An end has one lock, which is held for short computations ([`weft_circuit::Driver`]). Under it
//! two other locks are taken, both rarely: the lock of the circuit's tables, for reading, when the
//! entries have changed since the last look-up; and the lock of the measured waiting times
//! ([`weft_circuit::Probe`]).

mod application;
mod control;
mod exchange;
mod fabric;
mod messages;
mod state;

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weft_circuit::{Driver, LastPort, Outlet, SingleFlight, Steps, Timed, Timers, now};
use weft_limits::Budget;
use weft_wire::payload::CircuitControl;
use weft_xgress::{CircuitCloseReason, Class, Delivery, End, EndSnapshot, Options, Role, Tally};

use self::exchange::{Exchanges, Parcel, exchange};
use self::state::State;
use super::backlog::Backlog;
use super::circuit::Circuit;
use super::drops::Drops;
use super::fin::HeldFin;
use super::next;
use super::owner::ConnOwner;
use super::sdk_queue::SdkFlow;
use crate::measures::{Measures, Outstanding};

/// The next place of a payload.
pub(crate) type Next<F> = next::Next<LocalEnd<F>, F>;
/// The next place for payloads of one source, looked up once for every change of the circuit's entries.
pub(crate) type SharedNext<F> = next::SharedNext<LocalEnd<F>, F>;
/// As [`SharedNext`], for a source that one task alone reads.
pub(crate) type CachedNext<F> = next::CachedNext<LocalEnd<F>, F>;

/// A flow that can be an end on this router.
pub(crate) trait EndFlow: SdkFlow {
    /// Payloads and acks that an end sends to an SDK or to another router, with the number of the
    /// end's listing.
    fn of_fabric(end: Arc<LocalEnd<Self>>, listing: u32) -> Self;
    /// Data that an end delivers to an SDK without flow control of its own.
    fn of_app(end: Arc<LocalEnd<Self>>) -> Self;
}

/// The tables that an end stands in. Single payloads cause no call to the tables.
pub(crate) trait Tables<F>: Send + Sync {
    /// The next place of messages from one address of a circuit.
    fn next_of(&self, circuit: &Circuit<F>, source: &str) -> Option<Next<F>>;
    /// Passes on a control message of an end.
    fn pass_control(&self, end: &LocalEnd<F>, control: &CircuitControl);
    /// Takes note that an end has nothing more to do.
    fn finished(&self, end: &LocalEnd<F>, reason: CircuitCloseReason);
    /// Forgets an end, unless another one took its address.
    fn forget(&self, end: &LocalEnd<F>);
}

/// The surroundings of an end: tables, deadlines, and counts.
pub(crate) struct Around<F> {
    pub(super) tables: Arc<dyn Tables<F>>,
    pub(super) timers: Timers<LocalEnd<F>>,
    pub(super) measures: Arc<Measures>,
    pub(super) drops: Arc<Drops>,
}

/// The application's side of an end: a task with a socket, or an SDK.
#[derive(Debug)]
pub(crate) enum App<F> {
    /// A task that reads and writes a socket.
    Socket {
        /// The kind of hop that the end is in a traced route ([`weft_wire::payload::hop_type`]).
        hop_type: &'static str,
    },
    /// An SDK connection without flow control of its own.
    Sdk {
        /// The outlet of the SDK's connection.
        outlet: Arc<Outlet<F>>,
        /// The connection id at the SDK.
        conn_id: u32,
        /// How long the end of a direction waits for the close that may follow it.
        fin_hold: Option<Duration>,
        /// The SDK's connection: told when the circuit is over, and when the backlog begins or
        /// stops being too large.
        owner: Weak<dyn ConnOwner>,
        /// The budget that waiting bytes are drawn from.
        backlog: Budget,
        /// The budget of what all ends of the client hold.
        memory: Budget,
    },
}

/// An end of a circuit on this router.
pub(crate) struct LocalEnd<F> {
    circuit: Arc<Circuit<F>>,
    address: Arc<str>,
    role: Role,
    app: App<F>,
    around: Around<F>,
    this: Weak<Self>,
    next: SharedNext<F>,
    /// The port of the outlet that serves this end.
    last_port: LastPort,
    fabric: Tally,
    delivered: Tally,
    /// One of so many arriving payloads is lost, for tests; 0 loses none.
    lost_one_in: u32,
    /// Lets one thread at a time exchange payloads with the other end on this router; both ends use that of
    /// the initiator.
    exchanging: SingleFlight,
    inner: Mutex<Driver<State>>,
}

/// The steps that follow from a change of the end, done after its lock is released.
struct Follows {
    steps: Steps,
    exchange: bool,
    list_app: bool,
    backlog: Option<bool>,
    finish: Option<CircuitCloseReason>,
}

impl<F: EndFlow> LocalEnd<F> {
    /// An end of `circuit` that will stand under `address`. The bytes that the end holds are drawn
    /// from the budget of its client, or from `budget`.
    pub(super) fn new(
        around: Around<F>,
        circuit: Arc<Circuit<F>>,
        address: &str,
        role: Role,
        options: &Options,
        budget: &Budget,
        app: App<F>,
    ) -> Arc<Self> {
        let (fin, backlog, memory) = match &app {
            App::Sdk { fin_hold, backlog, memory, .. } => {
                (*fin_hold, Backlog::new(backlog), memory)
            }
            App::Socket { .. } => (None, Backlog::new(budget), budget),
        };
        let end = End::new(role, options, memory, now());
        let state = State::new(end, backlog, HeldFin::new(fin));
        Arc::new_cyclic(|this| Self {
            circuit,
            address: address.into(),
            role,
            app,
            around,
            this: this.clone(),
            next: SharedNext::default(),
            last_port: LastPort::default(),
            fabric: Tally::default(),
            delivered: Tally::default(),
            lost_one_in: options.lost_one_in,
            exchanging: SingleFlight::default(),
            inner: Mutex::new(Driver::new(state)),
        })
    }

    /// Sends the first messages of the end. To be called once the route is complete and a dialing
    /// SDK has been sent its answer.
    pub(crate) fn begin(&self) {
        self.change(|state, _| state.begun = true);
    }

    pub(crate) fn circuit(&self) -> &Arc<Circuit<F>> {
        &self.circuit
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// Counts bytes that came from the application. Called under the lock.
    fn came(&self, bytes: usize) {
        let direction = self.around.measures.came(self.role, bytes);
        self.circuit.carried.add_locked(direction, bytes);
    }

    /// Counts bytes that go to the application. Called under the lock.
    fn goes(&self, delivery: &Delivery) {
        let Delivery::Data { data, .. } = delivery else { return };
        let direction = self.around.measures.goes(self.role, data.len());
        self.circuit.carried.add_locked(direction, data.len());
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
    pub(crate) fn standing(&self, now: Instant) -> EndSnapshot {
        self.inner.lock().machine.end.standing(now)
    }

    /// Unacknowledged bytes, and whether a window is full.
    pub(crate) fn outstanding(&self) -> Outstanding {
        let end = &self.inner.lock().machine.end;
        let is_open = end.closed().is_none() && !end.is_sending_over();
        let bytes = end.unacknowledged();
        Outstanding {
            bytes,
            payloads: end.unacknowledged_payloads() as u64,
            by_window: u64::from(is_open && bytes > 0 && !end.can_write()),
            by_peer: u64::from(end.closed().is_none() && end.is_blocked_by_peer()),
        }
    }

    /// True if data waits to be sent, or was sent and not acknowledged.
    pub(super) fn has_to_send(&self) -> bool {
        let end = &self.inner.lock().machine.end;
        end.closed().is_none() && (end.has_waiting() || end.unacknowledged() > 0)
    }

    /// True if the circuit is over; payloads that arrived may still be read.
    pub(crate) fn is_closed(&self) -> bool {
        self.inner.lock().machine.end.closed().is_some()
    }

    /// Ends the circuit at once and drops the waiting data.
    pub(crate) fn abort(&self) {
        self.change(|state, _| state.abort());
    }

    /// Drops an end whose circuit was never completed: neither the SDK nor the controller is told,
    /// and the address is removed.
    pub(crate) fn discard(&self) {
        self.around.tables.forget(self);
        {
            let state = &mut self.inner.lock().machine;
            (state.quiet, state.finished) = (true, true);
        }
        self.abort();
    }

    /// True if the path of the circuit is too short for pacing.
    pub(crate) fn is_near(&self) -> bool {
        self.inner.lock().machine.end.is_near()
    }

    /// The bytes that connections have served of late for payloads of this end.
    pub(crate) fn fabric_tally(&self) -> &Tally {
        &self.fabric
    }

    /// The bytes that connections have served of late for data to the SDK.
    pub(crate) fn app_tally(&self) -> &Tally {
        &self.delivered
    }

    /// Frees the memory of queues that nothing is in.
    pub(super) fn trim(&self) {
        self.inner.lock().machine.trim();
    }

    /// The number of entries that its queues have memory for.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.inner.lock().machine.capacity()
    }

    /// Tells the end that its route was taken down.
    pub(crate) fn unrouted(&self) {
        self.change(|state, _| state.end.unrouted());
    }

    fn next(&self) -> Option<Next<F>> {
        let find = || self.around.tables.next_of(&self.circuit, &self.address);
        self.next.get(&self.circuit, find)
    }

    /// Changes the end under its lock, then takes the steps that follow.
    fn change<R>(&self, change: impl FnOnce(&mut State, Instant) -> R) -> R {
        self.drive(|driver, now| change(&mut driver.machine, now))
    }

    fn drive<R>(&self, change: impl FnOnce(&mut Driver<State>, Instant) -> R) -> R {
        let (result, follows) = self.determine(change);
        self.carry_out(follows, true);
        result
    }

    /// Changes the end under its lock, and determines the steps that follow.
    fn determine<R>(&self, change: impl FnOnce(&mut Driver<State>, Instant) -> R) -> (R, Follows) {
        let mut inner = self.inner.lock();
        let now = now();
        let result = change(&mut inner, now);
        (result, self.follows(&mut inner, now))
    }

    /// Determines the steps that follow from the state of the end, and notes them as done.
    fn follows(&self, driver: &mut Driver<State>, now: Instant) -> Follows {
        let state = &mut driver.machine;
        let backlog = state.settle_backlog(now);
        let is_sdk = matches!(self.app, App::Sdk { .. });
        let list_app = is_sdk && state.begins_listing_for_sdk(now);
        let payload = state.end.wants_transmit();
        let next = if payload || state.end.wants_ack() { self.next() } else { None };
        let finish = match state.end.closed() {
            Some(reason) if !state.finished && (!payload || next.is_none()) => {
                state.finished = true;
                Some(reason)
            }
            _ => None,
        };
        let steps = driver.steps(matches!(next, Some(Next::Sdk(_) | Next::Link(_))));
        let exchange = matches!(next, Some(Next::Local(_)));
        Follows { steps, exchange, list_app, backlog, finish }
    }

    fn carry_out(&self, follows: Follows, may_exchange: bool) {
        let Follows { steps, exchange: is_exchange, list_app, backlog, finish } = follows;
        let list = |class, listing| {
            if let Some(this) = self.this.upgrade() {
                self.list(class, this, listing);
            }
        };
        steps.carry_out(list, |at| self.around.timers.arm(at, self.this.clone()));
        if let App::Sdk { outlet, owner, .. } = &self.app {
            if list_app && let Some(this) = self.this.upgrade() {
                outlet.list(Class::Payload, &LastPort::default(), F::of_app(this));
            }
            if let Some(over) = backlog
                && let Some(owner) = owner.upgrade()
            {
                owner.backlog(over);
            }
        }
        if is_exchange
            && may_exchange
            && let Some(Next::Local(peer)) = self.next()
        {
            let first = if self.role == Role::Initiator { self } else { &*peer };
            exchange(&first.exchanging, self, &peer);
        }
        if let Some(reason) = finish {
            self.around.tables.finished(self, reason);
        }
    }
}

impl<F: EndFlow> Exchanges for LocalEnd<F> {
    fn take_parcel(&self) -> Parcel {
        let (parcel, follows) =
            self.determine(|driver, now| Parcel::take(&mut driver.machine.end, now));
        self.carry_out(follows, false);
        parcel
    }

    fn deliver(&self, parcel: Parcel) {
        let ((), follows) = self.determine(|driver, now| {
            parcel.deliver(&mut driver.machine.end, now, || self.loses());
        });
        self.carry_out(follows, false);
    }

    fn goes_on_later(&self) {
        self.around.timers.arm(now(), self.this.clone());
    }
}

impl<F: EndFlow> Timed for LocalEnd<F> {
    fn on_timer(&self, at: Instant, now: Instant) {
        let stuck = self.drive(|driver, _| {
            driver.fires(at, now).then(|| driver.machine.ends_if_stuck(now)).flatten()
        });
        if let Some(patience) = stuck
            && let App::Sdk { owner, .. } = &self.app
        {
            self.around.drops.stuck();
            tracing::warn!(
                circuit = %self.circuit.id,
                sdk = ?owner.upgrade(),
                "a circuit is ended: its other end has taken nothing for {} s, and the SDK, which \
                 has no flow control of its own, has left the circuit or was read slowly for it \
                 meanwhile",
                patience.as_secs()
            );
        }
    }
}

impl<F> Drop for LocalEnd<F> {
    fn drop(&mut self) {
        // The application may have got its last bytes after the circuit was taken down.
        self.circuit.carried.settle(&self.circuit.id);
    }
}

impl<F> std::fmt::Debug for LocalEnd<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalEnd")
            .field("circuit", &self.circuit.id)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}
