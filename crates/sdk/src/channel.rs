//! The channel to one router: what arrives on it, and what lives on it.
//!
//! Dials, listeners and circuits each have a connection id on the channel. Answers are matched by
//! that id on the channel's own task, so that a circuit is there before its first data is looked at
//! (protocol: sdk 7 to 10 and 13).

use crate::circuit::{Circuit, Timers, Transport};
use crate::error::Refusal;
use crate::incoming::Arrival;
use crate::outlet::Outlet;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, oneshot};
use weft_channel::{
    Behaviour, ChannelHandle, CloseReason, Established, Flow, Handler, Lane, Parts, UnderlayInfo,
    UnderlayWaker,
};
use weft_limits::Budget;
use weft_spans::Spans;
use weft_wire::edge::{
    Bind, BindSuccess, ConnInspect, ConnInspectAnswer, ConnKind, Connect, Data, Dial, DialSuccess,
    StateClosed, StateConnected, Unbind, content_type, header,
};
use weft_wire::payload::{self, Flags, View};
use weft_wire::{Message, TraceContext, WireError};
use weft_xgress::{AckList, End, Options, Role, Segment};

/// Ids of this side; routers choose theirs above (protocol: sdk 7.1).
const LAST_OWN_ID: u32 = 0x7fff_fffd;
/// Dials, listeners and circuits of one channel.
const MAX_CONNECTIONS: usize = 65_536;
/// How often a router is told that it sends data of a connection that is not there.
const UNKNOWN_INTERVAL: Duration = Duration::from_secs(1);
/// How long a host waits for the router to be ready for a connection that the host named.
const THREE_WAY_TIMEOUT: Duration = Duration::from_secs(5);

/// What the circuits of a context have in common.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    /// Figures of their ends.
    pub(crate) options: Options,
    /// What they buffer is drawn from this.
    pub(crate) budget: Budget,
    /// Their deadlines.
    pub(crate) timers: Timers,
    /// Where spans of dials go.
    pub(crate) spans: Spans,
}

/// The channel to one router.
pub(crate) struct RouterChannel {
    handle: ChannelHandle,
    figures: Figures,
    outlet: OnceLock<Arc<Outlet>>,
    conns: Mutex<Conns>,
    next_id: AtomicU32,
    /// Connections whose held data keeps the channel from being read.
    over: AtomicUsize,
    /// The router has said something that it only says to a session it knows.
    proved: AtomicBool,
    /// Told when nothing lives on the channel any more.
    idle: Notify,
    this: Weak<Self>,
}

#[derive(Default)]
struct Conns {
    by_id: HashMap<u32, Entry>,
    /// Circuits with flow control here, whose messages may come without connection id: those that
    /// were dialed, then those that were accepted. Both ends of a circuit may be here.
    by_circuit: [HashMap<Arc<str>, Arc<Circuit>>; 2],
    /// The last unknown connection that the router was told about, and when.
    unknown: Option<(u32, Instant)>,
    closed: bool,
}

/// What a connection id stands for.
enum Entry {
    Dialing(oneshot::Sender<Result<Dialed, Refusal>>),
    Circuit(Arc<Circuit>),
    Host(Hosting),
}

/// A dial that succeeded.
pub(crate) type Dialed = (Arc<Circuit>, StateConnected);

/// A listener on this channel.
struct Hosting {
    events: mpsc::Sender<HostEvent>,
    dials: mpsc::Sender<Arrival>,
}

/// What a router says about a listener.
#[derive(Debug)]
pub(crate) enum HostEvent {
    /// It took the bind.
    Accepted,
    /// It can be dialed.
    Established,
    /// It is over, or was refused.
    Closed(Refusal),
}

/// Why something could not be begun on a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The router refused.
    Refused(Refusal),
    /// The channel is closed, or full.
    Channel(String),
}

impl RouterChannel {
    /// Takes over a channel and begins to read it.
    pub(crate) fn start(established: Established, figures: Figures) -> Arc<Self> {
        let channel = Arc::new_cyclic(|this| Self {
            handle: established.handle(),
            figures,
            outlet: OnceLock::new(),
            conns: Mutex::default(),
            next_id: AtomicU32::new(1),
            over: AtomicUsize::new(0),
            proved: AtomicBool::new(false),
            idle: Notify::new(),
            this: this.clone(),
        });
        established.start(Arc::<Self>::clone(&channel));
        channel
    }

    pub(crate) fn handle(&self) -> &ChannelHandle {
        &self.handle
    }

    /// True if the router knows the session: it has answered something.
    pub(crate) fn is_proved(&self) -> bool {
        self.proved.load(Ordering::Relaxed)
    }

    /// Waits until everything has been sent that applications have left behind.
    pub(crate) async fn drained(&self) {
        loop {
            let idle = self.idle.notified();
            if !self.has_left_circuits() {
                return;
            }
            idle.await;
        }
    }

    fn has_left_circuits(&self) -> bool {
        let circuits: Vec<Arc<Circuit>> = {
            let conns = self.conns.lock();
            let circuits = conns.by_id.values().filter_map(|entry| match entry {
                Entry::Circuit(circuit) => Some(Arc::clone(circuit)),
                _ => None,
            });
            circuits.collect()
        };
        circuits.iter().any(|circuit| circuit.is_left())
    }

    /// Dials, as part of a trace if there is one; the answer is matched by connection id. Given up
    /// when the future is dropped.
    pub(crate) async fn connect(
        &self,
        mut connect: Connect,
        trace: Option<TraceContext>,
    ) -> Result<Dialed, Failure> {
        let (answer, answered) = oneshot::channel();
        let conn_id = self.reserve(Entry::Dialing(answer))?;
        connect.conn_id = Some(conn_id);
        let mut attempt = Attempt { channel: self, conn_id, decided: false };
        let mut message = connect.to_message();
        if let Some(trace) = trace {
            trace.put(&mut message.headers);
        }
        self.send(message).await?;
        let answer = answered.await;
        attempt.decided = true;
        match answer {
            Ok(Ok(dialed)) => Ok(dialed),
            Ok(Err(refusal)) => Err(Failure::Refused(refusal)),
            Err(_) => Err(self.gone()),
        }
    }

    /// Asks to host; what the router says comes by the receiver, dials go to `dials`.
    pub(crate) async fn host(
        &self,
        mut bind: Bind,
        dials: mpsc::Sender<Arrival>,
    ) -> Result<Hosted<'_>, Failure> {
        // The router says at most three things about a listener.
        let (events, receiver) = mpsc::channel(8);
        let conn_id = self.reserve(Entry::Host(Hosting { events, dials }))?;
        bind.conn_id = conn_id;
        let unbind =
            Unbind { conn_id, token: bind.token.clone(), listener_id: bind.listener_id.clone() };
        let hosted = Hosted { channel: self, events: receiver, unbind };
        self.send(bind.to_message()).await?;
        Ok(hosted)
    }

    /// Accepts a dial: the circuit is there before the router hears of it.
    pub(crate) async fn accept(
        self: &Arc<Self>,
        dial: &Dial,
        request: &Message,
        public_key: Option<Bytes>,
    ) -> Result<Arc<Circuit>, Failure> {
        let named = dial.new_conn_id;
        let conn_id = match named {
            Some(id) => id,
            None => self.free_id()?,
        };
        let own = dial.xgress.is_some();
        let circuit = self.circuit(Role::Terminator, conn_id, &dial.circuit_id, own)?;
        let unanswered = Unanswered(Some(Arc::clone(&circuit)));
        let success = DialSuccess { conn_id: dial.conn_id, new_conn_id: conn_id, public_key };
        let success = success.to_message().in_reply_to(request);
        let sent = match named {
            Some(_) => self.send(success).await,
            None => self.three_way(success).await,
        };
        sent?;
        unanswered.keep();
        circuit.begin();
        Ok(circuit)
    }

    /// Old routers do not name connections: they say when they are ready for the host's name.
    async fn three_way(&self, success: Message) -> Result<(), Failure> {
        let answer = self.handle.request_on(Lane::High, success, THREE_WAY_TIMEOUT).await;
        let answer = answer.map_err(|error| Failure::Channel(error.to_string()))?;
        match StateClosed::from_message(&answer) {
            Ok(closed) => Err(Failure::Refused(Refusal::of(&closed))),
            Err(_) => Ok(()),
        }
    }

    /// Refuses a dial.
    pub(crate) fn refuse(&self, message: Message) {
        // Without room the dialer learns it by its own time limit.
        let _ = self.handle.try_send_on(Lane::High, message);
    }

    /// A connection holds so much data that the channel must not be read, or no longer does.
    pub(crate) fn hold_back(&self, over: bool) {
        if over {
            self.over.fetch_add(1, Ordering::AcqRel);
        } else if self.over.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(outlet) = self.outlet.get()
        {
            outlet.resume_reading();
        }
    }

    /// True while the channel is not read.
    pub(crate) fn is_held_back(&self) -> bool {
        self.over.load(Ordering::Acquire) > 0
    }

    /// Forgets a connection id.
    pub(crate) fn release(&self, conn_id: u32) {
        let entry = {
            let mut conns = self.conns.lock();
            let entry = conns.by_id.remove(&conn_id);
            if let Some(Entry::Circuit(circuit)) = &entry {
                conns.circuits(circuit.role()).remove(circuit.id());
            }
            entry
        };
        drop(entry);
        self.idle.notify_waiters();
    }

    async fn send(&self, message: Message) -> Result<(), Failure> {
        let sent = self.handle.send_on(Lane::High, message).await;
        sent.map_err(|error| Failure::Channel(error.to_string()))
    }

    fn gone(&self) -> Failure {
        let reason = self.handle.closed_because().map(|reason| reason.to_string());
        Failure::Channel(reason.unwrap_or_else(|| "the router gave no answer".to_owned()))
    }

    /// A connection id of this side that is not in use.
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
        loop {
            let next = |id: u32| Some(if id >= LAST_OWN_ID { 1 } else { id + 1 });
            let id = self.next_id.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
            let id = id.unwrap_or(1);
            if !conns.by_id.contains_key(&id) {
                return Ok(id);
            }
        }
    }

    fn reserve(&self, entry: Entry) -> Result<u32, Failure> {
        let mut conns = self.conns.lock();
        let id = self.free_id_of(&conns)?;
        conns.by_id.insert(id, entry);
        Ok(id)
    }

    /// Puts a new circuit behind a connection id.
    fn circuit(
        &self,
        role: Role,
        conn_id: u32,
        id: &str,
        own: bool,
    ) -> Result<Arc<Circuit>, Failure> {
        let outlet = self.outlet.get().cloned().ok_or_else(|| self.gone())?;
        let this = self.this.upgrade().ok_or_else(|| self.gone())?;
        let Figures { options, budget, timers, .. } = &self.figures;
        let transport = if own {
            Transport::Own(Box::new(End::new(role, options, budget, Instant::now())))
        } else {
            Transport::Routed(crate::routed::Routed::new(conn_id))
        };
        let id: Arc<str> = id.into();
        let circuit =
            Circuit::new(&this, outlet, timers.clone(), conn_id, role, Arc::clone(&id), transport);
        let mut conns = self.conns.lock();
        if conns.closed {
            return Err(self.gone());
        }
        let in_use = match conns.by_id.get(&conn_id) {
            None | Some(Entry::Dialing(_)) => own && conns.circuits(role).contains_key(&id),
            Some(_) => true,
        };
        if in_use || conns.by_id.len() >= MAX_CONNECTIONS {
            return Err(Failure::Channel("the connection id cannot be used".to_owned()));
        }
        if own {
            conns.circuits(role).insert(id, Arc::clone(&circuit));
        }
        conns.by_id.insert(conn_id, Entry::Circuit(Arc::clone(&circuit)));
        Ok(circuit)
    }

    /// The circuit that a message is for: by connection id or, without one, by circuit id.
    fn circuit_of(&self, message: &Message) -> Result<Option<Arc<Circuit>>, WireError> {
        let mut conns = self.conns.lock();
        if let Some(id) = message.headers.get_u32(header::CONN_ID)
            && let Some(Entry::Circuit(circuit)) = conns.by_id.get(&id)
        {
            return Ok(Some(Arc::clone(circuit)));
        }
        let view = View::of(message)?;
        let to_dialer = view.flags.has(Flags::ORIGINATOR);
        let role = if to_dialer { Role::Initiator } else { Role::Terminator };
        Ok(conns.circuits(role).get(view.circuit_id).cloned())
    }

    fn on_payload(&self, message: &Message) -> Result<(), WireError> {
        if let Some(circuit) = self.circuit_of(message)? {
            circuit.on_payload(Segment::from_message(message)?);
        }
        Ok(())
    }

    fn on_ack(&self, message: &Message) -> Result<(), WireError> {
        if let Some(circuit) = self.circuit_of(message)? {
            circuit.on_ack(&AckList::from_message(message)?);
        }
        Ok(())
    }

    fn on_data(&self, message: &Message) -> Result<(), WireError> {
        let data = Data::from_message(message)?;
        let circuit = {
            let mut conns = self.conns.lock();
            match conns.by_id.get(&data.conn_id) {
                Some(Entry::Circuit(circuit)) => Some(Arc::clone(circuit)),
                Some(_) => None,
                None => {
                    self.tell_unknown(&mut conns, data.conn_id);
                    None
                }
            }
        };
        if let Some(circuit) = circuit {
            circuit.on_data(data);
        }
        Ok(())
    }

    /// Tells the router that a connection is not known, now and then.
    fn tell_unknown(&self, conns: &mut Conns, conn_id: u32) {
        let now = Instant::now();
        let told = conns.unknown.is_some_and(|(id, when)| {
            id == conn_id && now.saturating_duration_since(when) < UNKNOWN_INTERVAL
        });
        if !told {
            conns.unknown = Some((conn_id, now));
            let closed = StateClosed::new(conn_id, "the connection is not known here");
            let _ = self.handle.try_send(closed.to_message());
        }
    }

    /// A dial or a bind was taken.
    fn on_connected(&self, message: &Message) -> Result<(), WireError> {
        let connected = StateConnected::from_message(message)?;
        let conn_id = connected.conn_id;
        let dialing = {
            let mut conns = self.conns.lock();
            match conns.by_id.get(&conn_id) {
                Some(Entry::Host(hosting)) => {
                    let _ = hosting.events.try_send(HostEvent::Accepted);
                    return Ok(());
                }
                Some(Entry::Circuit(_)) => return Ok(()),
                // Nobody waits any more: what was made is to be given back.
                None => None,
                Some(Entry::Dialing(_)) => match conns.by_id.remove(&conn_id) {
                    Some(Entry::Dialing(answer)) => Some(answer),
                    _ => None,
                },
            }
        };
        let Some(answer) = dialing else {
            self.give_back(conn_id, connected.circuit_id.as_deref());
            return Ok(());
        };
        let own = connected.xgress.is_some();
        let circuit_id = connected.circuit_id.clone().unwrap_or_default();
        let made = if own && circuit_id.is_empty() {
            Err(Failure::Channel("the router named no circuit".to_owned()))
        } else {
            self.circuit(Role::Initiator, conn_id, &circuit_id, own)
        };
        match made {
            Ok(circuit) => {
                circuit.begin();
                if let Err(Ok((circuit, _))) = answer.send(Ok((circuit, connected))) {
                    circuit.abort();
                }
            }
            Err(failure) => {
                self.give_back(conn_id, connected.circuit_id.as_deref());
                let _ = answer.send(Err(Refusal::plain(failure.to_string())));
            }
        }
        Ok(())
    }

    /// Tells the router that a connection it made is not wanted.
    fn give_back(&self, conn_id: u32, circuit: Option<&str>) {
        if let Some(id) = circuit {
            let _ = self.handle.try_send_on(Lane::High, payload::close(id));
        }
        let closed = StateClosed::new(conn_id, "the dial was given up");
        let _ = self.handle.try_send_on(Lane::High, closed.to_message());
    }

    /// The router closes a connection, or refuses a dial or a bind.
    fn on_closed(&self, message: &Message) -> Result<(), WireError> {
        let closed = StateClosed::from_message(message)?;
        let entry = {
            let mut conns = self.conns.lock();
            match conns.by_id.get(&closed.conn_id) {
                Some(Entry::Circuit(circuit)) => Some(Entry::Circuit(Arc::clone(circuit))),
                Some(_) => conns.by_id.remove(&closed.conn_id),
                None => None,
            }
        };
        match entry {
            Some(Entry::Circuit(circuit)) => circuit.closed_by_router(),
            Some(Entry::Dialing(answer)) => {
                let _ = answer.send(Err(Refusal::of(&closed)));
            }
            Some(Entry::Host(hosting)) => {
                // Should there be no room, the end of the events says it as well.
                let _ = hosting.events.try_send(HostEvent::Closed(Refusal::of(&closed)));
            }
            None => {}
        }
        Ok(())
    }

    /// The router ends a circuit by its id.
    fn on_circuit_close(&self, message: &Message) -> Result<(), WireError> {
        let id = message.body_str()?;
        let ends = {
            let mut conns = self.conns.lock();
            [Role::Initiator, Role::Terminator].map(|role| conns.circuits(role).get(id).cloned())
        };
        ends.iter().flatten().for_each(|circuit| circuit.closed_by_router());
        Ok(())
    }

    /// Somebody dials a listener.
    fn on_dial(&self, message: Message) -> Result<(), WireError> {
        let dial = Dial::from_message(&message)?;
        let Some(this) = self.this.upgrade() else { return Ok(()) };
        let dials = match self.conns.lock().by_id.get(&dial.conn_id) {
            Some(Entry::Host(hosting)) => Some(hosting.dials.clone()),
            _ => None,
        };
        let conn_id = dial.conn_id;
        let arrival = Arrival::new(dial, message, this, &self.figures.spans);
        let Some(dials) = dials else {
            arrival.refuse(&format!("no listener for conn id [{conn_id}]"));
            return Ok(());
        };
        match dials.try_send(arrival) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(arrival)) => {
                arrival.refuse("too many connections wait to be accepted");
            }
            Err(mpsc::error::TrySendError::Closed(arrival)) => {
                arrival.refuse("the listener is closed");
            }
        }
        Ok(())
    }

    fn on_bind_success(&self, message: &Message) -> Result<(), WireError> {
        let success = BindSuccess::from_message(message)?;
        if let Some(Entry::Host(hosting)) = self.conns.lock().by_id.get(&success.conn_id) {
            let _ = hosting.events.try_send(HostEvent::Established);
        }
        Ok(())
    }

    /// The router asks whether a connection is alive (protocol: sdk 8.7).
    fn on_inspect(&self, message: &Message) -> Result<(), WireError> {
        let conn_id = ConnInspect::from_message(message)?.conn_id;
        let (kind, detail) = match self.conns.lock().by_id.get(&conn_id) {
            Some(Entry::Host(_)) => (ConnKind::Bind, String::new()),
            Some(Entry::Dialing(_) | Entry::Circuit(_)) => (ConnKind::Dial, String::new()),
            None => (ConnKind::Invalid, format!("invalid conn id [{conn_id}]")),
        };
        let answer = ConnInspectAnswer { conn_id, kind, detail }.to_message();
        // The router asks again if there is no room.
        let _ = self.handle.try_send_on(Lane::High, answer.in_reply_to(message));
        Ok(())
    }

    fn on_message(&self, message: Message) -> Result<(), WireError> {
        match message.content_type {
            payload::content_type::PAYLOAD => return self.on_payload(&message),
            payload::content_type::ACK => return self.on_ack(&message),
            content_type::DATA => return self.on_data(&message),
            _ => {}
        }
        self.proved.store(true, Ordering::Relaxed);
        match message.content_type {
            content_type::STATE_CONNECTED => self.on_connected(&message),
            content_type::STATE_CLOSED => self.on_closed(&message),
            content_type::DIAL => self.on_dial(message),
            content_type::BIND_SUCCESS => self.on_bind_success(&message),
            content_type::CONN_INSPECT_REQUEST => self.on_inspect(&message),
            payload::content_type::CLOSE => self.on_circuit_close(&message),
            other => {
                tracing::trace!(content_type = other, "ignored a message of a router");
                Ok(())
            }
        }
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

/// A dial on its way; gives it up if nobody waits any more.
struct Attempt<'a> {
    channel: &'a RouterChannel,
    conn_id: u32,
    decided: bool,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if self.decided {
            return;
        }
        let entry = {
            let mut conns = self.channel.conns.lock();
            match conns.by_id.get(&self.conn_id) {
                Some(Entry::Circuit(circuit)) => Some(Entry::Circuit(Arc::clone(circuit))),
                Some(Entry::Dialing(_)) => conns.by_id.remove(&self.conn_id),
                _ => None,
            }
        };
        match entry {
            Some(Entry::Circuit(circuit)) => circuit.abort(),
            // Whatever the router makes of it later is given back then.
            Some(_) => self.channel.give_back(self.conn_id, None),
            None => {}
        }
    }
}

/// The circuit of a dial that is being accepted; forgotten unless it is kept.
struct Unanswered(Option<Arc<Circuit>>);

impl Unanswered {
    /// The router knows.
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(circuit) = self.0.take() {
            circuit.lost();
        }
    }
}

/// A listener on a channel; unbinds when dropped.
pub(crate) struct Hosted<'a> {
    channel: &'a RouterChannel,
    /// What the router says; ends with the listener or its channel.
    pub(crate) events: mpsc::Receiver<HostEvent>,
    unbind: Unbind,
}

impl Hosted<'_> {
    /// The listener's name on its channel.
    pub(crate) fn conn_id(&self) -> u32 {
        self.unbind.conn_id
    }
}

impl Drop for Hosted<'_> {
    fn drop(&mut self) {
        let entry = self.channel.conns.lock().by_id.remove(&self.unbind.conn_id);
        // Absent: the router has closed it.
        if entry.is_some() {
            let _ = self.channel.handle.try_send_on(Lane::High, self.unbind.to_message());
        }
    }
}

/// What `start` gives the channel.
impl Behaviour for RouterChannel {
    fn attach(&self, _: &UnderlayInfo, waker: &UnderlayWaker, _: &ChannelHandle) -> Parts {
        let mut outbox = None;
        if self.outlet.get().is_none() {
            let (outlet, serving) = Outlet::new(waker.clone());
            outbox = Some(Box::new(serving) as Box<dyn weft_channel::Outbox>);
            let _ = self.outlet.set(outlet);
        }
        Parts { handler: Box::new(RouterHandler { channel: self.this.clone() }), outbox }
    }

    fn closed(&self, reason: &CloseReason) {
        tracing::debug!(channel = %self.handle, %reason, "a router is gone");
        let entries: Vec<Entry> = {
            let mut conns = self.conns.lock();
            conns.closed = true;
            conns.by_circuit = Default::default();
            conns.by_id.drain().map(|(_, entry)| entry).collect()
        };
        for entry in entries {
            // Dials and listeners learn it by their ends being dropped.
            if let Entry::Circuit(circuit) = entry {
                circuit.lost();
            }
        }
        if let Some(outlet) = self.outlet.get() {
            outlet.clear();
        }
        self.idle.notify_waiters();
    }
}

/// Takes the messages of the channel.
struct RouterHandler {
    channel: Weak<RouterChannel>,
}

impl RouterHandler {
    fn flow(channel: &RouterChannel) -> Flow {
        if channel.over.load(Ordering::Acquire) > 0 { Flow::Pause } else { Flow::Continue }
    }
}

impl Handler for RouterHandler {
    fn on_message(&mut self, message: Message, handle: &ChannelHandle) -> Flow {
        let Some(channel) = self.channel.upgrade() else { return Flow::Continue };
        if let Err(problem) = channel.on_message(message) {
            tracing::debug!(channel = %handle, %problem, "dropped a message of a router");
        }
        Self::flow(&channel)
    }

    fn on_resume(&mut self, _: &ChannelHandle) -> Flow {
        self.channel.upgrade().map_or(Flow::Continue, |channel| Self::flow(&channel))
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(refusal) => f.write_str(&refusal.message),
            Self::Channel(reason) => f.write_str(reason),
        }
    }
}

impl std::fmt::Debug for RouterChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RouterChannel").field("handle", &self.handle).finish_non_exhaustive()
    }
}
