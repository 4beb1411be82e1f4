//! The channel to one router: its messages, and the dials, listeners and circuits on it.
//!
//! Dials, listeners and circuits each have a connection id on the channel. Answers are matched by
//! that id on the channel's own task, so that a circuit exists before its first data is handled
//! (docs/protocol/sdk.md 7 to 10 and 13).

mod arrival;
mod arriving;
mod opening;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

pub(crate) use arrival::Arrival;
pub(crate) use opening::ChannelListener;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;
use weft_channel::{ChannelHandle, Established, Lane};
use weft_circuit::ConnIds;
use weft_limits::Budget;
use weft_spans::Spans;
use weft_wire::edge::{StateClosed, StateConnected};
use weft_wire::{Message, payload};
use weft_xgress::{End, Options, Role};

use crate::circuit::{Circuit, Home, Timers, Transport};
use crate::error::{Failure, Refusal};
use crate::outlet::RouterOutlet;
use crate::routed::Routed;

/// The last connection id that this side chooses; routers choose higher ones
/// (docs/protocol/sdk.md 7.1).
const LAST_OWN_ID: u32 = 0x7fff_fffd;
/// The time for which data of connections that are open has still to arrive when the endpoint leaves.
const SETTLING: Duration = Duration::from_millis(250);
/// Most dials, listeners and circuits of one channel.
const MAX_CONNECTIONS: usize = 65_536;

/// The values that all circuits of an endpoint share.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    /// The options of their ends.
    pub(crate) options: Options,
    /// The budget of the bytes that they buffer.
    pub(crate) budget: Budget,
    /// The clock for their deadlines.
    pub(crate) timers: Timers,
    /// The recorder for spans of dials.
    pub(crate) spans: Spans,
    pub(crate) undelivered: Arc<Undelivered>,
}

/// The connections whose data did not reach their other ends, and the channels that may still have some.
#[derive(Debug, Default)]
pub(crate) struct Undelivered {
    connections: AtomicUsize,
    channels: Mutex<Vec<Weak<RouterChannel>>>,
}

impl Undelivered {
    /// The number of connections that have ended so.
    pub(crate) fn count(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Counts the connections of all channels that have data which was not delivered.
    pub(crate) fn count_all(&self) {
        let channels: Vec<_> = self.channels.lock().iter().filter_map(Weak::upgrade).collect();
        channels.iter().for_each(|channel| channel.count_undelivered());
    }

    fn add(&self, channel: &Arc<RouterChannel>) {
        let mut channels = self.channels.lock();
        channels.retain(|known| known.strong_count() > 0);
        channels.push(Arc::downgrade(channel));
    }
}

/// The channel to one router.
pub(crate) struct RouterChannel {
    handle: ChannelHandle,
    figures: Figures,
    outlet: OnceLock<Arc<RouterOutlet>>,
    conns: Mutex<Conns>,
    ids: ConnIds,
    /// The number of connections that hold too much data to take more. The channel is not read
    /// while there is one.
    over: AtomicUsize,
    /// True once the router has sent a message that shows that it knows the session.
    proved: AtomicBool,
    /// Notified when nothing is left on the channel.
    idle: Notify,
    this: Weak<Self>,
}

#[derive(Default)]
struct Conns {
    by_id: HashMap<u32, ChannelConnection>,
    /// Circuits with flow control here, by id, because their messages may lack a connection id:
    /// dialed ones, then accepted ones. Both ends of a circuit may be on this channel.
    by_circuit: [HashMap<Arc<str>, Arc<Circuit>>; 2],
    /// The last unknown connection that the router was told about, and the time.
    unknown: Option<(u32, Instant)>,
    closed: bool,
}

/// The object behind a connection id.
enum ChannelConnection {
    Dialing(oneshot::Sender<Result<Dialed, Refusal>>),
    Circuit(Arc<Circuit>),
    Host(Hosting),
}

/// The result of a dial that succeeded.
pub(crate) type Dialed = (Arc<Circuit>, StateConnected);

/// A listener on this channel.
struct Hosting {
    events: mpsc::Sender<HostEvent>,
    dials: mpsc::Sender<Arrival>,
}

/// A report of a router about a listener.
#[derive(Debug)]
pub(crate) enum HostEvent {
    /// The router accepted the bind.
    Accepted,
    /// The listener can be dialed.
    Established,
    /// The listener has ended, or was refused.
    Closed(Refusal),
}

impl RouterChannel {
    /// Takes over a channel and starts to read it.
    pub(crate) fn start(established: Established, figures: Figures) -> Arc<Self> {
        let channel = Arc::new_cyclic(|this| Self {
            handle: established.handle(),
            figures,
            outlet: OnceLock::new(),
            conns: Mutex::default(),
            ids: ConnIds::new(1..=LAST_OWN_ID),
            over: AtomicUsize::new(0),
            proved: AtomicBool::new(false),
            idle: Notify::new(),
            this: this.clone(),
        });
        channel.figures.undelivered.add(&channel);
        established.start(Arc::<Self>::clone(&channel));
        channel
    }

    pub(crate) fn handle(&self) -> &ChannelHandle {
        &self.handle
    }

    /// True if the router has shown by a message that it knows the session.
    pub(crate) fn is_proved(&self) -> bool {
        self.proved.load(Ordering::Relaxed)
    }

    /// Waits until all data has been sent that closed connections left.
    pub(crate) async fn drained(&self) {
        loop {
            let idle = self.idle.notified();
            if !self.has_left_circuits() {
                return;
            }
            idle.await;
        }
    }

    /// Waits a moment for data of connections that are still open: what was written just now is on its way.
    pub(crate) async fn settled(&self) {
        let deadline = Instant::now() + SETTLING;
        let waits = || self.circuits().iter().any(|circuit| !circuit.is_delivered());
        while Instant::now() < deadline && waits() {
            tokio::time::sleep(SETTLING / 25).await;
        }
    }

    /// Waits until no connection is on the channel, whatever it is for, but listeners.
    pub(crate) async fn emptied(&self) {
        loop {
            let idle = self.idle.notified();
            let is_used = self
                .conns
                .lock()
                .by_id
                .values()
                .any(|entry| !matches!(entry, ChannelConnection::Host(_)));
            if !is_used {
                return;
            }
            idle.await;
        }
    }

    fn has_left_circuits(&self) -> bool {
        self.circuits().iter().any(|circuit| circuit.is_left())
    }

    fn circuits(&self) -> Vec<Arc<Circuit>> {
        let conns = self.conns.lock();
        let circuits = conns.by_id.values().filter_map(|entry| match entry {
            ChannelConnection::Circuit(circuit) => Some(Arc::clone(circuit)),
            _ => None,
        });
        circuits.collect()
    }

    /// Counts the connections whose data is given up with the channel.
    pub(crate) fn count_undelivered(&self) {
        let circuits = self.circuits();
        let count = circuits.iter().filter(|circuit| circuit.counts_as_undelivered()).count();
        self.figures.undelivered.connections.fetch_add(count, Ordering::Relaxed);
    }

    /// Refuses a dial.
    pub(crate) fn refuse(&self, message: Message) {
        // Without room the dialer's time limit ends the dial.
        let _ = self.handle.try_send_on(Lane::High, message);
    }

    /// True while the channel is not read.
    pub(crate) fn is_held_back(&self) -> bool {
        self.over.load(Ordering::Acquire) > 0
    }

    async fn send(&self, message: Message) -> Result<(), Failure> {
        let sent = self.handle.send_on(Lane::High, message).await;
        sent.map_err(|error| Failure::Channel(error.to_string()))
    }

    fn gone(&self) -> Failure {
        let reason = self.handle.closed_because().map(|reason| reason.to_string());
        Failure::Channel(reason.unwrap_or_else(|| "the router gave no answer".to_owned()))
    }

    /// An unused connection id of this side.
    fn free_id(&self) -> Result<u32, Failure> {
        let conns = self.conns.lock();
        self.free_id_of(&conns)
    }

    fn free_id_of(&self, conns: &Conns) -> Result<u32, Failure> {
        if conns.closed {
            return Err(self.gone());
        }
        if conns.by_id.len() >= MAX_CONNECTIONS {
            return Err(Failure::Channel("too many connections on one channel".to_owned()));
        }
        Ok(self.ids.choose(|id| conns.by_id.contains_key(&id)))
    }

    fn reserve(&self, entry: ChannelConnection) -> Result<u32, Failure> {
        let mut conns = self.conns.lock();
        let id = self.free_id_of(&conns)?;
        conns.by_id.insert(id, entry);
        Ok(id)
    }

    /// Registers a new circuit under a connection id.
    fn circuit(
        &self,
        role: Role,
        conn_id: u32,
        id: &str,
        own: bool,
    ) -> Result<Arc<Circuit>, Failure> {
        let outlet = self.outlet.get().cloned().ok_or_else(|| self.gone())?;
        let home: Weak<dyn Home> = self.this.clone();
        let Figures { options, budget, timers, .. } = &self.figures;
        let transport = if own {
            let mut end = End::new(role, options, budget, weft_circuit::now());
            end.join(outlet.crowd());
            Transport::Own(Box::new(end))
        } else {
            Transport::Routed(Routed::new(conn_id))
        };
        let id: Arc<str> = id.into();
        let circuit =
            Circuit::new(home, outlet, timers.clone(), conn_id, role, Arc::clone(&id), transport);
        let mut conns = self.conns.lock();
        if conns.closed {
            return Err(self.gone());
        }
        let in_use = match conns.by_id.get(&conn_id) {
            None | Some(ChannelConnection::Dialing(_)) => {
                own && conns.circuits(role).contains_key(&id)
            }
            Some(_) => true,
        };
        if in_use || conns.by_id.len() >= MAX_CONNECTIONS {
            return Err(Failure::Channel("the connection id cannot be used".to_owned()));
        }
        if own {
            conns.circuits(role).insert(id, Arc::clone(&circuit));
        }
        conns.by_id.insert(conn_id, ChannelConnection::Circuit(Arc::clone(&circuit)));
        Ok(circuit)
    }

    /// Tells the router to close a connection that the router has made and this side does not want.
    fn give_back(&self, conn_id: u32, circuit: Option<&str>) {
        if let Some(id) = circuit {
            let _ = self.handle.try_send_on(Lane::High, payload::close(id));
        }
        let closed = StateClosed::new(conn_id, "the dial was given up");
        let _ = self.handle.try_send_on(Lane::High, closed.to_message());
    }
}

impl Conns {
    fn circuits(&mut self, role: Role) -> &mut HashMap<Arc<str>, Arc<Circuit>> {
        let [dialed, accepted] = &mut self.by_circuit;
        match role {
            Role::Initiator => dialed,
            Role::Terminator => accepted,
        }
    }
}

impl Home for RouterChannel {
    fn hold_back(&self, over: bool) {
        if over {
            self.over.fetch_add(1, Ordering::AcqRel);
        } else if self.over.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(outlet) = self.outlet.get()
        {
            outlet.resume_reading();
        }
    }

    fn release(&self, conn_id: u32) {
        let entry = {
            let mut conns = self.conns.lock();
            let entry = conns.by_id.remove(&conn_id);
            if let Some(ChannelConnection::Circuit(circuit)) = &entry {
                conns.circuits(circuit.role()).remove(circuit.id());
            }
            entry
        };
        drop(entry);
        self.idle.notify_waiters();
    }

    fn note_undelivered(&self) {
        self.figures.undelivered.connections.fetch_add(1, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for RouterChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RouterChannel").field("handle", &self.handle).finish_non_exhaustive()
    }
}
