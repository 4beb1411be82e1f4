//! A hand-made edge router: takes binds, connects dialers with hosts, and forwards.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use weft_channel::{
    AcceptOptions, Admission, Behaviour, ChannelAcceptor, ChannelHandle, ChannelOptions,
    CloseReason, ConnectionParts, Established, Handler, HelloGate, ListenerLimits, PeerHello,
    Reading, Refusal, Registration, SharedListener, TlsSource, UnderlayInfo, UnderlayWaker,
};
use weft_identity::tls::{ClientAuth, ServerTls, server_config_for};
use weft_wire::edge::{
    Bind, BindSuccess, ConnInspect, ConnInspectAnswer, ConnKind, Connect, Data, Dial, DialFailed,
    DialSuccess, ErrorCode, FIRST_ROUTER_CONN_ID, HealthEvent, RetryHint, StateClosed,
    StateConnected, StructuredError, XgressGrant, content_type, data_flags, header,
};
use weft_wire::hello::alpn;
use weft_wire::payload::{self, PayloadView};
use weft_wire::{Headers, Message, TraceContext};

use super::controller::{Controller, Pki};
use super::spy::Spy;

/// A router that is up; stops when dropped.
pub(crate) struct Router {
    pub(crate) core: Arc<Core>,
    registration: Option<Registration>,
}

/// The state that the channels of the router share.
pub(crate) struct Core {
    controller: Controller,
    name: String,
    /// True if SDKs that ask for flow control of their own get it.
    pub(crate) grants: AtomicBool,
    /// True while the router does not answer connects.
    pub(crate) silent: AtomicBool,
    /// One payload of this many is dropped; 0: none.
    pub(crate) drop_one_in: AtomicU32,
    /// True if the next data of a circuit is dropped, and its direction ended.
    pub(crate) cut: AtomicBool,
    /// True if the next data of a circuit is sent without its connection id.
    pub(crate) malform: AtomicBool,
    /// True if the router takes itself between the ends of new circuits.
    pub(crate) spies: AtomicBool,
    /// True if the router leaves out of markers that a dialer proves itself.
    pub(crate) strips: AtomicBool,
    /// True if the router leaves out of markers that a dialer hears a host that speaks first.
    pub(crate) turns: AtomicBool,
    /// True if the router leaves out of answers that a host proves itself.
    pub(crate) strips_answer: AtomicBool,
    /// True if the router leaves the host's answer out, as those of OpenZiti before 2.1 do: dialers get the key of the bind.
    pub(crate) forgets_answer: AtomicBool,
    /// True if payloads of dialers of new circuits are dropped.
    pub(crate) mute: AtomicBool,
    /// True if what the dialer of the newest circuit sends is kept.
    pub(crate) records: AtomicBool,
    /// The longest of the first payloads of circuits.
    pub(crate) longest_proof: AtomicU32,
    forwarded: AtomicU32,
    next: AtomicU32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    channels: Vec<Port>,
    hosts: HashMap<String, (Port, Bind)>,
    circuits: HashMap<String, [Side; 2]>,
    spies: HashMap<String, Spy>,
    /// Circuits whose dialers are not heard.
    muted: HashSet<String>,
    recorded: Option<Recorded>,
    log: Vec<String>,
}

/// A channel and the task that sends on it without ever dropping anything.
#[derive(Clone)]
struct Port {
    channel: ChannelHandle,
    queue: mpsc::UnboundedSender<Message>,
}

/// What a host was told of a circuit, and what its dialer sent.
struct Recorded {
    host: Port,
    dial: Message,
    circuit: String,
    payloads: Vec<Message>,
}

#[derive(Clone)]
struct Side {
    port: Port,
    conn_id: u32,
    /// Data that came before the dialer was told of the connection.
    held: Option<Vec<Message>>,
}

impl Router {
    pub(crate) async fn start(pki: &Pki, controller: &Controller, name: &str) -> Self {
        let core = Arc::new(Core {
            controller: controller.clone(),
            name: name.to_owned(),
            grants: AtomicBool::new(true),
            silent: AtomicBool::new(false),
            drop_one_in: AtomicU32::new(0),
            cut: AtomicBool::new(false),
            malform: AtomicBool::new(false),
            spies: AtomicBool::new(false),
            strips: AtomicBool::new(false),
            turns: AtomicBool::new(false),
            strips_answer: AtomicBool::new(false),
            forgets_answer: AtomicBool::new(false),
            mute: AtomicBool::new(false),
            records: AtomicBool::new(false),
            longest_proof: AtomicU32::new(0),
            forwarded: AtomicU32::new(0),
            next: AtomicU32::new(0),
            state: Mutex::default(),
        });
        let mut router = Self { core, registration: None };
        router.listen(pki, "127.0.0.1:0").await;
        let address = router.address();
        controller.state.lock().routers.push((name.to_owned(), address));
        router
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.registration.as_ref().unwrap().local_addr()
    }

    async fn listen(&mut self, pki: &Pki, at: &str) {
        let tls = ServerTls { alpn: &[alpn::EDGE.as_bytes()], client_auth: ClientAuth::Require };
        let config = Arc::new(server_config_for(vec![pki.server(&self.core.name)], &tls).unwrap());
        let source: TlsSource = Arc::new(move || Some(Arc::clone(&config)));
        let acceptor = ChannelAcceptor::new(Gate(Arc::clone(&self.core)), AcceptOptions::default());
        // A router that was stopped closes its socket a moment later.
        let listener = loop {
            match SharedListener::bind(at, ListenerLimits::default()).await {
                Ok(listener) => break listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        let registered = listener.register(&["ziti-edge"], source, Arc::new(acceptor));
        self.registration = Some(registered.unwrap());
    }

    /// Stops the router as if it was killed. Returns its address.
    pub(crate) fn stop(&mut self) -> SocketAddr {
        let address = self.address();
        self.registration = None;
        let state = std::mem::take(&mut *self.core.state.lock());
        state.channels.iter().for_each(|port| port.channel.close("killed"));
        address
    }

    pub(crate) async fn restart(&mut self, pki: &Pki, at: SocketAddr) {
        self.listen(pki, &at.to_string()).await;
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.core.state.lock().log.clone()
    }

    pub(crate) fn hosts(&self) -> usize {
        self.core.state.lock().hosts.len()
    }

    pub(crate) fn circuits(&self) -> usize {
        self.core.state.lock().circuits.len()
    }

    /// All that was read between the ends of circuits.
    pub(crate) fn read(&self) -> Vec<u8> {
        self.core.state.lock().spies.values().flat_map(|spy| spy.read.clone()).collect()
    }

    /// Opens the recorded circuit once more at its host, as if the dialer did.
    pub(crate) fn replay(&self) {
        let recorded = self.core.state.lock().recorded.take().expect("a circuit was recorded");
        tokio::spawn(async move {
            let Recorded { host, dial, payloads, .. } = recorded;
            let answer = host.channel.request(dial.clone(), Duration::from_secs(5)).await.unwrap();
            DialSuccess::from_message(&answer).unwrap();
            let conn_id = Dial::from_message(&dial).unwrap().new_conn_id.unwrap();
            for mut message in payloads {
                message.headers.set_u32(header::CONN_ID, conn_id);
                let _ = host.queue.send(message);
            }
        });
    }

    /// Ends all binds with this error.
    pub(crate) fn end_binds(&self, code: ErrorCode, hint: RetryHint) {
        let hosts = std::mem::take(&mut self.core.state.lock().hosts);
        for (port, bind) in hosts.into_values() {
            let _ = port.queue.send(refused(bind.conn_id, code, hint, "access lost"));
        }
    }

    /// Asks the SDK of a listener whether it is alive.
    pub(crate) async fn inspect(&self, conn_id: Option<u32>) -> ConnKind {
        let (port, bind) = self.core.state.lock().hosts.values().next().cloned().unwrap();
        let inspect = ConnInspect { conn_id: conn_id.unwrap_or(bind.conn_id) };
        let answer = port.channel.request(inspect.to_message(), Duration::from_secs(9)).await;
        ConnInspectAnswer::from_message(&answer.unwrap()).kind
    }
}

struct Gate(Arc<Core>);

impl HelloGate for Gate {
    async fn check(&self, _: &PeerHello) -> Result<Admission, Refusal> {
        let mut headers = Headers::new();
        headers.set_bool(header::SUPPORTS_BIND_SUCCESS, true);
        Ok(Admission {
            listener_id: self.0.name.clone(),
            identity: Vec::new(),
            headers,
            channel: ChannelOptions::edge(self.0.name.clone()),
            group: None,
        })
    }

    async fn established(&self, channel: Established) {
        let handle = channel.handle();
        let (queue, mut queued) = mpsc::unbounded_channel();
        let port = Port { channel: handle.clone(), queue };
        self.0.state.lock().channels.push(port.clone());
        let token = channel.peer().headers.get_bytes(header::SESSION_TOKEN).unwrap_or_default();
        channel.start(Arc::new(Edge { core: Arc::clone(&self.0), port }));
        if !self.0.controller.is_valid(&token) {
            handle.close("session unknown");
        }
        tokio::spawn(async move {
            while let Some(message) = queued.recv().await {
                if handle.send_timeout(Default::default(), message, LONG).await.is_err() {
                    return;
                }
            }
        });
    }
}

const LONG: Duration = Duration::from_secs(600);

/// One channel.
struct Edge {
    core: Arc<Core>,
    port: Port,
}

impl Behaviour for Edge {
    fn attach(&self, _: &UnderlayInfo, _: &UnderlayWaker, _: &ChannelHandle) -> ConnectionParts {
        let handler = Edge { core: Arc::clone(&self.core), port: self.port.clone() };
        ConnectionParts { handler: Box::new(handler), outbox: None }
    }

    fn closed(&self, _: &CloseReason) {
        let mut state = self.core.state.lock();
        let here = |port: &Port| port.channel.same_channel(&self.port.channel);
        state.hosts.retain(|_, (port, _)| !here(port));
        let over: Vec<String> = (state.circuits.iter())
            .filter(|(_, sides)| sides.iter().any(|side| here(&side.port)))
            .map(|(id, _)| id.clone())
            .collect();
        for id in over {
            for side in state.circuits.remove(&id).into_iter().flatten() {
                let closed = StateClosed::new(side.conn_id, "xgress unrouted");
                let _ = side.port.queue.send(closed.to_message());
            }
        }
    }
}

impl Handler for Edge {
    fn on_message(&mut self, message: Message, _: &ChannelHandle) -> Reading {
        match message.content_type {
            content_type::CONNECT => {
                let (core, port) = (Arc::clone(&self.core), self.port.clone());
                tokio::spawn(async move { core.connect(port, message).await });
            }
            content_type::BIND => self.core.bind(&self.port, &message),
            content_type::UNBIND => {
                let mut state = self.core.state.lock();
                state.log.push("unbind".to_owned());
                let id = message.headers.get_u32(header::CONN_ID).unwrap();
                state.hosts.retain(|_, (_, bind)| bind.conn_id != id);
            }
            payload::content_type::PAYLOAD | payload::content_type::ACK => {
                let circuit = PayloadView::of(&message).unwrap().circuit_id.to_owned();
                let is_payload = message.content_type == payload::content_type::PAYLOAD;
                if !(is_payload && self.core.drops()) {
                    self.core.forward(&self.port, &circuit, message);
                }
            }
            payload::content_type::CONTROL => {
                let circuit = PayloadView::of(&message).unwrap().circuit_id.to_owned();
                self.core.forward(&self.port, &circuit, message);
            }
            content_type::DATA | content_type::TRACE_ROUTE | content_type::TRACE_ROUTE_ANSWER => {
                let id = message.headers.get_u32(header::CONN_ID).unwrap();
                if let Some(circuit) = self.core.circuit_of(&self.port, id) {
                    self.core.forward(&self.port, &circuit, message);
                }
            }
            content_type::STATE_CLOSED => {
                let id = message.headers.get_u32(header::CONN_ID).unwrap();
                self.core.state.lock().log.push(format!("closed {}", message.text()));
                if let Some(circuit) = self.core.circuit_of(&self.port, id) {
                    self.core.end(&self.port, &circuit);
                }
            }
            payload::content_type::CLOSE => self.core.end(&self.port, &message.text()),
            content_type::UPDATE_BIND => self.core.state.lock().log.push("update".to_owned()),
            content_type::HEALTH_EVENT => {
                let event = HealthEvent::from_message(&message).unwrap();
                self.core.state.lock().log.push(format!("health {}", event.passed));
            }
            _ => {}
        }
        Reading::Continue
    }
}

impl Core {
    fn drops(&self) -> bool {
        let one_in = self.drop_one_in.load(Ordering::Relaxed);
        let number = self.forwarded.fetch_add(1, Ordering::Relaxed);
        one_in > 0 && number % one_in == one_in - 1
    }

    fn bind(&self, port: &Port, message: &Message) {
        let bind = Bind::from_message(message).unwrap();
        let conn_id = bind.conn_id;
        let token = String::from_utf8_lossy(&bind.token).into_owned();
        let mut parts = token.split('.');
        let (kind, service) = (parts.next().unwrap().to_owned(), parts.next().unwrap().to_owned());
        assert!(kind == "Bind" && bind.router_conn_ids && bind.listener_id.is_some());
        let connected = StateConnected { conn_id, router_conn_ids: true, ..Default::default() };
        let mut state = self.state.lock();
        state.log.push(format!("bind {service} cost {}", bind.cost));
        state.hosts.insert(service, (port.clone(), bind));
        let _ = port.queue.send(connected.to_message().in_reply_to(message));
        let _ = port.queue.send(BindSuccess { conn_id }.to_message());
    }

    async fn connect(&self, dialer: Port, message: Message) {
        let connect = Connect::from_message(&message).unwrap();
        let conn_id = connect.conn_id.unwrap();
        if self.silent.load(Ordering::Relaxed) {
            return;
        }
        let token = String::from_utf8_lossy(&connect.token).into_owned();
        let parts: Vec<&str> = token.split('.').collect();
        let refuse = |reply: Message| {
            let _ = dialer.queue.send(reply.in_reply_to(&message));
        };
        if !self.controller.is_valid(parts[2].as_bytes()) {
            let (code, hint) = (ErrorCode::INVALID_SESSION, RetryHint::DEFAULT);
            return refuse(refused(conn_id, code, hint, "invalid session"));
        }
        let host = self.state.lock().hosts.get(parts[1]).cloned();
        let Some((port, bind)) = host else {
            let text = format!("service {} has no terminators", parts[1]);
            return refuse(StateClosed::new(conn_id, text).to_message());
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (circuit, new_conn_id) = (format!("circuit{number}"), FIRST_ROUTER_CONN_ID + number);
        let sides = [
            Side { port: dialer.clone(), conn_id, held: Some(Vec::new()) },
            Side { port: port.clone(), conn_id: new_conn_id, held: None },
        ];
        let (mut key, mut marker) = (connect.public_key.clone(), connect.marker.clone());
        {
            let mut state = self.state.lock();
            state.circuits.insert(circuit.clone(), sides);
            if let Some(dialer) = key.as_ref().filter(|_| self.spies.load(Ordering::Relaxed)) {
                let spy = Spy::new(dialer);
                key = Some(spy.dialers_key());
                state.spies.insert(circuit.clone(), spy);
            }
            if self.mute.load(Ordering::Relaxed) {
                state.muted.insert(circuit.clone());
            }
        }
        if self.strips.load(Ordering::Relaxed) {
            let text = String::from_utf8(marker.unwrap_or_default().to_vec()).unwrap();
            marker = Some(text.replace(weft_e2e::proof::ABILITY, "").into());
        } else if self.turns.load(Ordering::Relaxed) {
            let text = String::from_utf8(marker.unwrap_or_default().to_vec()).unwrap();
            marker = Some(text.replace(weft_e2e::proof::HEARS, "").into());
        }
        let own = self.grants.load(Ordering::Relaxed) && connect.use_xgress && bind.use_xgress;
        let grant = |address: &str| {
            own.then(|| XgressGrant { controller: "ctrl".into(), address: address.into() })
        };
        let dial = Dial {
            conn_id: bind.conn_id,
            token: bind.token.clone(),
            caller_id: connect.caller_id.clone().unwrap_or_default(),
            public_key: key,
            app_data: connect.app_data.clone(),
            marker,
            circuit_id: circuit.clone(),
            dialer_id: Some(Bytes::from_static(b"i1")),
            new_conn_id: Some(new_conn_id),
            xgress: grant("host"),
            ..Dial::default()
        };
        let mut dial = dial.to_message();
        if self.records.load(Ordering::Relaxed) {
            let (host, dial, circuit) = (port.clone(), dial.clone(), circuit.clone());
            let recorded = Recorded { host, dial, circuit, payloads: Vec::new() };
            self.state.lock().recorded = Some(recorded);
        }
        if let Some(trace) = TraceContext::take(&message.headers) {
            self.state.lock().log.push(format!("trace {trace:?}"));
            trace.put(&mut dial.headers);
        }
        let answer = port.channel.request(dial, Duration::from_secs(5)).await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                return refuse(StateClosed::new(conn_id, error.to_string()).to_message());
            }
        };
        let Ok(success) = DialSuccess::from_message(&answer) else {
            self.state.lock().circuits.remove(&circuit);
            let reason = DialFailed::from_message(&answer).unwrap().reason;
            return refuse(StateClosed::new(conn_id, reason).to_message());
        };
        let told = success.public_key.filter(|_| !self.forgets_answer.load(Ordering::Relaxed));
        let mut key = told.or_else(|| bind.public_key.clone());
        if let Some(spy) = self.state.lock().spies.get_mut(&circuit) {
            key = key.map(|key| spy.hosts_key(&key));
        }
        if self.strips_answer.load(Ordering::Relaxed) {
            let host = key.as_ref().map(|key| weft_e2e::ending::HostKey::read(key).unwrap());
            key = host.map(|host| weft_e2e::ending::HostKey { proves: None, ..host }.to_bytes());
        }
        let connected = StateConnected {
            conn_id,
            circuit_id: Some(circuit.clone()),
            public_key: key,
            xgress: grant("dialer"),
            ..StateConnected::default()
        };
        // Nothing comes between: the dialer may have its answer, and the circuit be over, before the next line runs.
        let mut state = self.state.lock();
        let _ = dialer.queue.send(connected.to_message().in_reply_to(&message));
        if let Some([side, _]) = state.circuits.get_mut(&circuit) {
            for held in side.held.take().into_iter().flatten() {
                let _ = side.port.queue.send(held);
            }
        }
    }

    fn circuit_of(&self, port: &Port, conn_id: u32) -> Option<String> {
        let state = self.state.lock();
        let is =
            |side: &Side| side.conn_id == conn_id && side.port.channel.same_channel(&port.channel);
        let found = state.circuits.iter().find(|(_, sides)| sides.iter().any(is));
        found.map(|(id, _)| id.clone())
    }

    /// Passes a message on to the other side of its circuit. Dialers have the low ids.
    fn forward(&self, _: &Port, circuit: &str, mut message: Message) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let Some([dialer, host]) = state.circuits.get_mut(circuit) else { return };
        let from = message.headers.get_u32(header::CONN_ID);
        let from_dialer = from.expect("this SDK always says") == dialer.conn_id;
        let to = if from_dialer { host } else { dialer };
        let length = u32::try_from(message.body.len()).unwrap();
        self.longest_proof.fetch_max(length, Ordering::Relaxed);
        if message.content_type == payload::content_type::PAYLOAD {
            if from_dialer && state.muted.contains(circuit) {
                return;
            }
            let recorded = state.recorded.as_mut().filter(|recorded| recorded.circuit == circuit);
            if let Some(recorded) = recorded.filter(|_| from_dialer) {
                recorded.payloads.push(message.clone());
            }
            if let Some(spy) = state.spies.get_mut(circuit) {
                message = spy.pass(from_dialer, message);
            }
        }
        message.headers.set_u32(header::CONN_ID, to.conn_id);
        if message.content_type == content_type::DATA && self.cut.swap(false, Ordering::Relaxed) {
            let flags = data_flags::FIN;
            let end = Data { conn_id: to.conn_id, flags, uuid: None, data: Bytes::new() };
            message = end.to_message();
        }
        if message.content_type == content_type::DATA && self.malform.swap(false, Ordering::Relaxed)
        {
            message.headers.remove(header::CONN_ID);
        }
        match &mut to.held {
            Some(held) => held.push(message),
            None => {
                let _ = to.port.queue.send(message);
            }
        }
    }

    fn end(&self, from: &Port, circuit: &str) {
        let Some(sides) = self.state.lock().circuits.remove(circuit) else { return };
        for side in sides {
            // Both sides may be on one channel; the side that sent the message ignores it.
            let _ = from;
            let closed = StateClosed::new(side.conn_id, "xgress unrouted");
            let _ = side.port.queue.send(closed.to_message());
        }
    }
}

fn refused(conn_id: u32, code: ErrorCode, retry_hint: RetryHint, text: &str) -> Message {
    let error =
        StructuredError { message: text.to_owned(), code, retry_hint, ..Default::default() };
    StateClosed { error: Some(error), ..StateClosed::new(conn_id, text) }.to_message()
}
