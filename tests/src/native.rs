//! A peer that behaves like a native SDK (`ziti-sdk-c`) in the two things that routers must mind.
//!
//! - The peer registers a listener when the answer to its bind is handed on, not before; earlier
//!   messages for the listener get "no such connection".
//! - The peer holds at most 32 messages to connections. When more arrive at once, it hands on the
//!   first 32 and takes up to 32 more, which it hands on only when another message arrives. With
//!   still more it stops reading for good.
//!
//! Sources: `library/bind.c`, `channel.c` and `ziti.c` of `openziti/ziti-sdk-c` 1.18, which reads
//! again after 10 to 20 s.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::mpsc;
use weft_channel::{
    Behaviour, ChannelHandle, ChannelOptions, ConnectionParts, DialOptions, Handler, Lane, Reading,
    UnderlayInfo, UnderlayWaker, dial,
};
use weft_client::{About, ClientApi, Credentials};
use weft_contract::entity::DialBind;
use weft_contract::resource;
use weft_identity::LiveIdentity;
use weft_identity::tls::{ClientTls, client_config};
use weft_wire::edge::{
    Bind, ConnInspect, ConnInspectAnswer, ConnKind, Connect, Data, Dial, DialSuccess, StateClosed,
    content_type, header,
};
use weft_wire::hello::{Hello, alpn};
use weft_wire::{Address, Message};

use crate::network::{LONG, Network, until_some};

/// Messages to connections that a native SDK holds at a time.
const HELD: usize = 32;

/// Connection id that routers ask about, to learn which messages the SDK has handed on.
const NO_CONNECTION: u32 = u32::MAX;

/// A connection of a native SDK to a router.
pub(crate) struct Native {
    pub(crate) channel: ChannelHandle,
    token: Bytes,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
pub(crate) struct State {
    /// Messages read in this turn.
    unread: VecDeque<Message>,
    /// Messages that are held and not handed on.
    asleep: Vec<Message>,
    /// Whether more messages were left than the SDK holds, after which the SDK reads no more.
    is_deaf: bool,
    binding: HashSet<u32>,
    listeners: HashSet<u32>,
    pub(crate) connected: HashSet<u32>,
    pub(crate) received: HashMap<u32, Vec<u8>>,
    /// Connections that reached a listener; their data is sent back.
    accepted: HashSet<u32>,
    inspected: Vec<(u32, ConnKind)>,
    closed: Vec<StateClosed>,
}

impl Native {
    /// An identity of its own with a service session, connected to the router.
    async fn start(network: &Network, name: &str, service: &str, wanted: DialBind) -> Self {
        let file = network.identity_file(name).await;
        let api = ClientApi::of_identity(&file).unwrap();
        api.login(Credentials::Certificate, About::default()).await.unwrap();
        let service = until_some(async || api.service_named(service).await.unwrap()).await;
        let session = api.create_session(&service.base.id, wanted).await.unwrap();
        let url = session.edge_routers.first().unwrap().address("tls").unwrap();
        let identity = LiveIdentity::load(file.section()).unwrap();
        Self::open(url, &identity, &api.token().unwrap(), session.token.into()).await.unwrap()
    }

    /// A connection to the router at a URL, with the token of an API session and that of a service session.
    pub(crate) async fn open(
        url: &str,
        identity: &Arc<LiveIdentity>,
        token: &str,
        service_token: Bytes,
    ) -> Option<Self> {
        let address: Address = url.replacen("://", ":", 1).parse().unwrap();
        let tls = client_config(&ClientTls::of_identity(identity, &[b"ziti-edge"])).unwrap();
        let mut hello = Hello::new("ziti-sdk-c[0]@host".to_owned());
        hello.headers.set(header::SESSION_TOKEN, token.as_bytes());
        hello.headers.set_bool(header::SUPPORTS_INSPECT, true);
        let options = ChannelOptions::edge("native");
        let dialed = DialOptions::new(address, Arc::new(tls), alpn::EDGE, hello, options);
        let established = dial(dialed).await.ok()?;
        let state = Arc::new(Mutex::new(State::default()));
        let (replies, mut queued) = mpsc::unbounded_channel();
        let channel = established.start(Arc::new(Loop(Arc::clone(&state), replies)));
        // An SDK queues what it sends: the router may be busy, and the connection full.
        let answering = channel.clone();
        tokio::spawn(async move {
            while let Some(answer) = queued.recv().await {
                if answering.send_timeout(Lane::Default, answer, LONG).await.is_err() {
                    return;
                }
            }
        });
        Some(Self { channel, token: service_token, state })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) async fn until(&self, what: &str, condition: impl Fn(&State) -> bool) {
        let deadline = Instant::now() + LONG;
        while !condition(&self.state()) {
            assert!(Instant::now() < deadline, "waited in vain for: {what}");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    pub(crate) async fn bind(&self, conn_id: u32) {
        self.state().binding.insert(conn_id);
        let bind = Bind {
            conn_id,
            token: self.token.clone(),
            listener_id: Some(conn_id.to_le_bytes().to_vec().into()),
            supports_inspect: true,
            router_conn_ids: true,
            ..Bind::default()
        };
        self.channel.send(bind.to_message()).await.unwrap();
    }

    pub(crate) async fn connect(&self, conn_id: u32) {
        let connect = Connect {
            conn_id: Some(conn_id),
            token: self.token.clone(),
            router_conn_ids: true,
            ..Connect::default()
        };
        self.channel.send(connect.to_message()).await.unwrap();
    }

    pub(crate) async fn send(&self, conn_id: u32, data: impl Into<Bytes>) {
        let data = Data { conn_id, flags: 0, uuid: None, data: data.into() };
        self.channel.send(data.to_message()).await.unwrap();
    }
}

impl State {
    /// One turn of the SDK's loop.
    fn turn(&mut self, replies: &ReplySender) {
        if self.unread.is_empty() || self.is_deaf {
            return;
        }
        let mut held = std::mem::take(&mut self.asleep);
        self.read(&mut held, replies);
        self.hand_on(held, replies);
        let mut asleep = Vec::new();
        self.read(&mut asleep, replies);
        self.asleep = asleep;
        self.is_deaf = !self.unread.is_empty();
    }

    /// Takes read messages, until the limit of messages to connections is held. Others are handed
    /// on at once.
    fn read(&mut self, held: &mut Vec<Message>, replies: &ReplySender) {
        while held.len() < HELD
            && let Some(message) = self.unread.pop_front()
        {
            if message.content_type == content_type::DATA {
                held.push(message);
            } else {
                self.hand_on(vec![message], replies);
            }
        }
    }

    fn hand_on(&mut self, messages: Vec<Message>, replies: &ReplySender) {
        for message in messages {
            if let Some(answer) = self.take(&message) {
                // The test may be over.
                let _ = replies.send(answer);
            }
        }
    }

    /// Hands a message on, and returns the SDK's answer.
    fn take(&mut self, message: &Message) -> Option<Message> {
        // Messages without a connection id have no effect.
        let id = message.headers.get_u32(header::CONN_ID)?;
        match message.content_type {
            content_type::STATE_CONNECTED if self.binding.remove(&id) => {
                self.listeners.insert(id);
            }
            content_type::STATE_CONNECTED => {
                self.connected.insert(id);
            }
            content_type::STATE_CLOSED => {
                self.listeners.remove(&id);
                self.closed.push(StateClosed::from_message(message).unwrap());
            }
            content_type::CONN_INSPECT_REQUEST => {
                let id = ConnInspect::from_message(message).unwrap().conn_id;
                let known = self.listeners.contains(&id);
                let kind = if known { ConnKind::Bind } else { ConnKind::Invalid };
                if id != NO_CONNECTION {
                    self.inspected.push((id, kind));
                }
                let answer = ConnInspectAnswer { conn_id: id, kind, detail: String::new() };
                return Some(answer.to_message().in_reply_to(message));
            }
            content_type::DIAL if self.listeners.contains(&id) => {
                let new_conn_id = Dial::from_message(message).unwrap().new_conn_id.unwrap();
                self.accepted.insert(new_conn_id);
                let accepted = DialSuccess { conn_id: id, new_conn_id, public_key: None };
                return Some(accepted.to_message().in_reply_to(message));
            }
            content_type::DATA => {
                let data = Data::from_message(message).unwrap();
                if self.accepted.contains(&id) {
                    return Some(data.to_message());
                }
                self.received.entry(id).or_default().extend(&data.data);
            }
            _ => return Some(StateClosed::new(id, "no such connection").to_message()),
        }
        None
    }
}

/// The messages that the SDK's loop sends.
type ReplySender = mpsc::UnboundedSender<Message>;

/// The SDK's loop.
struct Loop(Arc<Mutex<State>>, ReplySender);

impl Behaviour for Loop {
    fn attach(&self, _: &UnderlayInfo, _: &UnderlayWaker, _: &ChannelHandle) -> ConnectionParts {
        ConnectionParts {
            handler: Box::new(Self(Arc::clone(&self.0), self.1.clone())),
            outbox: None,
        }
    }
}

impl Handler for Loop {
    fn on_message(&mut self, message: Message, _: &ChannelHandle) -> Reading {
        self.0.lock().unwrap().unread.push_back(message);
        Reading::Continue
    }

    fn on_turn_end(&mut self, _: &ChannelHandle) {
        self.0.lock().unwrap().turn(&self.1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_is_asked_about_only_after_its_bind_was_answered() {
    const LISTENERS: u32 = 64;
    let network = Network::start().await;
    network.service("echo", false).await;
    let host = Native::start(&network, "host", "echo", DialBind::Bind).await;
    for id in 1..=LISTENERS {
        host.bind(id).await;
    }
    let all = LISTENERS as usize;
    host.until("an inspection of each listener", |state| state.inspected.len() >= all).await;
    let unknown: Vec<u32> = {
        let state = host.state();
        let invalid = state.inspected.iter().filter(|(_, kind)| *kind == ConnKind::Invalid);
        invalid.map(|(id, _)| *id).collect()
    };
    assert_eq!(unknown, [0; 0], "asked about before the answer to their binds");
    until_some(async || {
        let terminators = network.list(&resource::terminator::KIND).await;
        (terminators.len() == all).then_some(())
    })
    .await;
    assert_eq!(host.state().closed, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_connections_at_once_survive() {
    const CONNECTIONS: u32 = 100;
    const PARTS: u32 = 10;
    let network = Network::start().await;
    network.service("echo", false).await;
    let host = Native::start(&network, "host", "echo", DialBind::Bind).await;
    host.bind(1).await;
    until_some(async || {
        let terminators = network.list(&resource::terminator::KIND).await;
        (!terminators.is_empty()).then_some(())
    })
    .await;
    let dialer = Native::start(&network, "dialer", "echo", DialBind::Dial).await;
    for id in 1..=CONNECTIONS {
        dialer.connect(id).await;
    }
    let all = CONNECTIONS as usize;
    dialer.until("all connections", |state| state.connected.len() == all).await;
    for part in 0..PARTS {
        for id in 1..=CONNECTIONS {
            dialer.send(id, format!("{part} from {id}; ")).await;
        }
    }
    let expected =
        |id: u32| (0..PARTS).map(|part| format!("{part} from {id}; ")).collect::<String>();
    let whole = |state: &State| {
        let received = state.received.iter();
        received.filter(|(id, data)| data.len() == expected(**id).len()).count() == all
    };
    dialer.until("all echoes", |state| state.is_deaf || whole(state)).await;
    assert!(!dialer.state().is_deaf && !host.state().is_deaf, "sent more than it can hold");
    for (id, data) in &dialer.state().received {
        assert_eq!(String::from_utf8_lossy(data), expected(*id));
    }
    assert_eq!(dialer.state().closed, []);
}
