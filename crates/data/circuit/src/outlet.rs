//! The connections to one neighbour, and the messages that each of them writes next.
//!
//! Any thread may list a flow; only the task of a connection serves the flows listed at its port. Listing wakes
//! that task. An outlet has one connection or several (*ports*), of which some may be for acks alone. A flow keeps
//! its port while it is busy, so that its payloads stay in order; a flow that was idle takes the port with the
//! fewest flows.
//!
//! A port that closes hands its flows back: each is told by [`Flow::unlisted`] and lists itself again, at another
//! port or, once the circuit has another path, at another outlet.

use std::fmt;
use std::sync::{Arc, LazyLock, Weak};
use std::time::Instant;

use weft_channel::{Batch, Outbox, UnderlayWaker};
use weft_limits::Budget;
use weft_wire::Message;
use weft_xgress::{Class, Crowd, FlowSource, Scheduler};

use crate::clock::now;
use crate::probe::Probe;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{ArcSwap, Mutex, OnceLock};

/// Milliseconds without messages after which a flow may take another port: its earlier messages have left by
/// then.
const SETTLED: u64 = 200;

/// A flow as an outlet sees it: a handle on one direction of a circuit.
pub trait Flow: FlowSource<Frame = Message> + Send + 'static {
    /// The port of the flow is gone. A flow that still has messages lists itself again.
    fn unlisted(&self, class: Class);
}

/// The connections to one neighbour, and the flows that they serve.
pub struct Outlet<F> {
    /// The first port; read without the lock while it is the only one.
    first: OnceLock<Arc<Port<F>>>,
    has_several: AtomicBool,
    ports: ArcSwap<Vec<Arc<Port<F>>>>,
    numbers: AtomicU64,
    budget: Budget,
    /// Messages dropped for lack of room.
    dropped: AtomicU64,
    /// The measurement of how long messages wait.
    probe: Arc<Probe>,
    /// The payloads that ends of this program have on their way to the neighbour over short paths.
    crowd: Arc<Crowd>,
    /// True once the neighbour is gone: nothing is listed any more.
    closed: AtomicBool,
}

/// Which classes a connection takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carries {
    /// Payloads; acks too, while no connection is for acks alone.
    Payloads,
    /// Acks alone.
    Acks,
}

/// One connection of an outlet.
struct Port<F> {
    number: u64,
    carries: Carries,
    ready: Mutex<Ready<F>>,
    waker: UnderlayWaker,
    /// The approximate number of flows with payloads at this port.
    flows: AtomicUsize,
}

struct Ready<F> {
    listed: Vec<(Class, F)>,
    closed: bool,
}

/// The port at which a flow was listed last.
#[derive(Debug, Default)]
pub struct LastPort {
    /// The port's number; 0 is none.
    port: AtomicU64,
    /// The time of the last listing, or of the moment when the flow had nothing more, in milliseconds since the
    /// program's start.
    at: AtomicU64,
}

/// Takes messages that a connection took and did not write.
pub trait Unsent: Send + Sync {
    /// Takes the messages, in the order in which they would have been written. The peer may have received some
    /// of them.
    fn unsent(&self, messages: Vec<Message>);
}

impl<F: Flow> Outlet<F> {
    /// An outlet without connections. Messages that wait for the neighbour are drawn from `budget`.
    #[must_use]
    pub fn new(budget: Budget) -> Arc<Self> {
        Arc::new_cyclic(|this: &Weak<Self>| {
            let this = this.clone();
            let wake = move || this.upgrade().iter().for_each(|outlet| outlet.wake_several());
            Self {
                first: OnceLock::new(),
                has_several: AtomicBool::new(false),
                ports: ArcSwap::default(),
                numbers: AtomicU64::new(1),
                budget,
                dropped: AtomicU64::new(0),
                probe: Arc::default(),
                crowd: Arc::new(Crowd::new(now(), wake)),
                closed: AtomicBool::new(false),
            }
        })
    }

    /// Wakes all connections of an outlet that has several. An outlet's only connection needs no waking: it
    /// reads the acks that make room, and writes in the same turn.
    fn wake_several(&self) {
        if self.has_several.load(Ordering::Relaxed) {
            self.ports.load().iter().for_each(|port| port.waker.wake());
        }
    }

    /// The budget of messages that wait for the neighbour.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The measurement of how long messages wait for the neighbour.
    #[must_use]
    pub fn probe(&self) -> &Arc<Probe> {
        &self.probe
    }

    /// The payloads that ends of this program have on their way to the neighbour over short paths. An end
    /// [joins](weft_xgress::End::join) it when it sends to this neighbour.
    #[must_use]
    pub fn crowd(&self) -> &Arc<Crowd> {
        &self.crowd
    }

    /// How many messages for the neighbour were dropped because there was no room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Counts a message dropped for lack of room.
    pub(crate) fn note_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds the connection that `waker` wakes. Returns the side that serves it; the port closes when that is
    /// dropped.
    #[must_use]
    pub fn open(self: &Arc<Self>, carries: Carries, waker: UnderlayWaker) -> DataOutbox<F> {
        let port = Arc::new(Port {
            number: self.numbers.fetch_add(1, Ordering::Relaxed),
            carries,
            ready: Mutex::new(Ready { listed: Vec::new(), closed: false }),
            waker,
            flows: AtomicUsize::new(0),
        });
        self.ports.rcu(|ports| {
            let mut ports = Vec::clone(ports);
            ports.push(Arc::clone(&port));
            ports
        });
        if self.first.set(Arc::clone(&port)).is_err() {
            self.has_several.store(true, Ordering::Release);
        }
        DataOutbox {
            outlet: Arc::clone(self),
            port,
            scheduler: Scheduler::with_crowd(Arc::clone(&self.crowd)),
            held_until: None,
            arrived: Vec::new(),
            unsent: None,
        }
    }

    /// Lists a flow that has messages. False if no port takes it; the flow keeps track of being listed.
    pub fn list(&self, class: Class, last_port: &LastPort, flow: F) -> bool {
        if self.is_closed() {
            return false;
        }
        if !self.has_several.load(Ordering::Acquire) {
            return self.first.get().is_some_and(|only| only.list(class, flow, false).is_ok());
        }
        let mut flow = flow;
        // A port that closes has left the list before it refuses, so that the next look finds another one.
        loop {
            let ports = self.ports.load();
            let port = match ports.as_slice() {
                [] => return false,
                [only] => only,
                several => match choose(several, class, last_port) {
                    Some(port) => port,
                    None => return false,
                },
            };
            flow = match port.list(class, flow, true) {
                Ok(()) => return true,
                Err(flow) if !self.is_closed() => flow,
                Err(_) => return false,
            };
        }
    }

    /// Notes that a flow has nothing more for now: it stays at its port for 200 ms.
    pub fn emptied(&self, last_port: &LastPort) {
        if self.has_several.load(Ordering::Relaxed) {
            last_port.at.store(millis(), Ordering::Relaxed);
        }
    }

    /// True once nothing is listed any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The neighbour is gone: hands listed flows back, and lists nothing more.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        for port in self.ports.load().iter() {
            port.close();
        }
    }
}

/// Chooses the port for a flow of an outlet with several ports.
fn choose<'a, F>(
    ports: &'a [Arc<Port<F>>],
    class: Class,
    last_port: &LastPort,
) -> Option<&'a Arc<Port<F>>> {
    if class == Class::Ack {
        // Acks of one flow go over one connection; those of many flows over all connections for acks.
        let for_acks = || ports.iter().filter(|port| port.carries == Carries::Acks);
        let count = for_acks().count();
        if count > 0 {
            return for_acks().nth((std::ptr::from_ref(last_port).addr() >> 6) % count);
        }
    }
    let now = millis();
    let taken = last_port.port.load(Ordering::Relaxed);
    let known = ports.iter().find(|port| port.number == taken);
    let port = match known {
        Some(port) if now.saturating_sub(last_port.at.load(Ordering::Relaxed)) < SETTLED => port,
        _ => {
            let carriers = ports.iter().filter(|port| port.carries == Carries::Payloads);
            let port = carriers.min_by_key(|port| port.flows.load(Ordering::Relaxed))?;
            last_port.port.store(port.number, Ordering::Relaxed);
            port
        }
    };
    last_port.at.store(now, Ordering::Relaxed);
    Some(port)
}

/// Milliseconds since the first call.
fn millis() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_millis() as u64
}

impl<F> Port<F> {
    /// Lists a flow, or hands it back if the port is closed. `counts` says that flows are counted, which only
    /// several ports need.
    fn list(&self, class: Class, flow: F, counts: bool) -> Result<(), F> {
        {
            let mut ready = self.ready.lock();
            if ready.closed {
                return Err(flow);
            }
            ready.listed.push((class, flow));
        }
        if counts && class == Class::Payload {
            self.flows.fetch_add(1, Ordering::Relaxed);
        }
        self.waker.wake();
        Ok(())
    }
}

impl<F: Flow> Port<F> {
    /// Takes no more flows and hands back those that the port has not noticed yet.
    fn close(&self) {
        let listed = {
            let mut ready = self.ready.lock();
            ready.closed = true;
            std::mem::take(&mut ready.listed)
        };
        for (class, flow) in listed {
            flow.unlisted(class);
        }
    }
}

impl<F> fmt::Debug for Outlet<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet").field("ports", &self.ports.load().len()).finish_non_exhaustive()
    }
}

/// Serves a port, on the task of its connection.
pub struct DataOutbox<F: Flow> {
    outlet: Arc<Outlet<F>>,
    port: Arc<Port<F>>,
    scheduler: Scheduler<F>,
    /// The time at which flows that are held back may have their turn.
    held_until: Option<Instant>,
    /// An empty list that changes places with the list of ready flows, so that both keep their memory.
    arrived: Vec<(Class, F)>,
    unsent: Option<Arc<dyn Unsent>>,
}

impl<F: Flow> DataOutbox<F> {
    /// Gives messages that were taken and not written to `taker`. Without a taker they are lost with the
    /// connection.
    #[must_use]
    pub fn giving_back_to(mut self, taker: Arc<dyn Unsent>) -> Self {
        self.unsent = Some(taker);
        self
    }

    /// True if no noticed flow may have a message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scheduler.is_empty()
    }

    /// Notes when flows that are held back may have their turn. To be called after messages were pulled.
    pub fn pulled(&mut self, now: Instant) {
        self.held_until = self.scheduler.held_until(now);
    }

    /// The next message of the noticed flows.
    pub fn pull(&mut self, now: Instant) -> Option<Message> {
        self.scheduler.next(now)
    }
}

impl<F: Flow> Outbox for DataOutbox<F> {
    fn notice(&mut self) {
        std::mem::swap(&mut self.port.ready.lock().listed, &mut self.arrived);
        for (class, flow) in self.arrived.drain(..) {
            self.scheduler.list(class, flow);
        }
    }

    fn wake_at(&self) -> Option<Instant> {
        self.held_until
    }

    fn fill(&mut self, batch: &mut Batch) {
        self.held_until = None;
        if self.scheduler.is_empty() {
            return;
        }
        let now = now();
        while !batch.is_full()
            && let Some(message) = self.pull(now)
        {
            batch.push(message);
        }
        self.pulled(now);
        self.port.flows.store(self.scheduler.flows(), Ordering::Relaxed);
        self.outlet.probe.rest(now);
    }

    fn give_back(&mut self, unsent: Vec<Message>) {
        if let Some(taker) = &self.unsent {
            taker.unsent(unsent);
        }
    }
}

impl<F: Flow> Drop for DataOutbox<F> {
    fn drop(&mut self) {
        let number = self.port.number;
        self.outlet.ports.rcu(|ports| {
            let others = ports.iter().filter(|port| port.number != number);
            others.cloned().collect::<Vec<_>>()
        });
        self.port.close();
        for (class, flow) in self.scheduler.drain() {
            flow.unlisted(class);
        }
    }
}
