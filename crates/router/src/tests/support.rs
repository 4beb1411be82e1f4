//! A network of one authority, a controller that the test directs, and a data half that records its
//! calls.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::sync::mpsc;
use weft_channel::{
    AcceptOptions, Admission, ChannelAcceptor, ChannelHandle, ChannelOptions, Established,
    GroupPolicy, HelloGate, Inbox, InboxLimits, ListenerLimits, PeerHello, Refusal, Registration,
    SharedListener, inbox,
};
use weft_config::{ProcessEnvironment, RouterConfig};
use weft_identity::tls::{ClientAuth, ServerTls, server_config};
use weft_identity::token::TokenSigner;
use weft_identity::{
    Authority, AuthoritySpec, Identity, KeyAlgorithm, KeyPurpose, KeyedChain, Leaf, LiveIdentity,
    PrivateKey, San, SubjectName, TrustBundle,
};
use weft_wire::ctrl::{ControllerHello, RouterHello, RouterLinks};
use weft_wire::edge_ctrl::data_model::{ChangeSet, DataState, Event, SubscribeToDataModelRequest};
use weft_wire::edge_ctrl::{self};
use weft_wire::hello::alpn;
use weft_wire::{Capabilities, Headers, Message, ProtoBody, VersionInfo};

use super::fake_data::FakeData;
use crate::access::{AccessHalf, AccessOptions};
use crate::control::{ControlHalf, ControlOptions, EdgeAddresses, Listens, Parts};
use crate::controllers::Controllers;

/// A time limit that no step of a test should reach.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, work).await.expect("took too long")
}

/// Waits until `done` returns true.
pub(crate) async fn until(mut done: impl FnMut() -> bool) {
    soon(async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// Moves the clock: whatever would have become due in this time is due now. After that it goes on as usual.
pub(crate) async fn later(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// Certificates of a network.
pub(crate) struct Pki {
    root: Authority,
    pub(crate) signer: KeyedChain,
}

impl Pki {
    pub(crate) fn new() -> Self {
        let root = Authority::make_root(&AuthoritySpec::new("root"), SystemTime::now()).unwrap();
        let signer = issue(&root, "ctrl1", &[San::Dns("localhost".into())], KeyPurpose::Server);
        Self { root, signer }
    }

    pub(crate) fn root(&self) -> &weft_identity::Certificate {
        self.root.certificate()
    }

    pub(crate) fn leaf(&self, name: &str, sans: &[San], purpose: KeyPurpose) -> KeyedChain {
        issue(&self.root, name, sans, purpose)
    }

    /// A certificate for a key that is there, valid since long ago, and for this long from now on.
    pub(crate) fn leaf_for(
        &self,
        key: &PrivateKey,
        name: &str,
        sans: &[San],
        purpose: KeyPurpose,
        valid: Duration,
    ) -> KeyedChain {
        let (subject, now) = (SubjectName::common_name(name), SystemTime::now());
        let leaf = Leaf::for_key(key.public(), &subject, sans.to_vec(), purpose, now).unwrap();
        let not_before = now - Duration::from_secs(30 * 24 * 3600);
        let leaf = Leaf { not_before, not_after: now + valid, ..leaf };
        KeyedChain::new(vec![self.issue(&leaf)], key.clone()).unwrap()
    }

    pub(crate) fn issue(&self, leaf: &Leaf) -> weft_identity::Certificate {
        self.root.issue(leaf).unwrap()
    }

    /// The identity of a client.
    pub(crate) fn client_identity(&self, client: KeyedChain) -> Arc<LiveIdentity> {
        let bundle = TrustBundle::new([self.root.certificate().clone()]);
        LiveIdentity::fixed(Identity::new(Some(client), Vec::new(), bundle))
    }

    /// An identity with a server certificate for `localhost`.
    pub(crate) fn identity(&self, name: &str) -> Arc<LiveIdentity> {
        let server = self.leaf(name, &[San::Dns("localhost".into())], KeyPurpose::Server);
        let client = self.leaf(name, &[], KeyPurpose::Client);
        let bundle = TrustBundle::new([self.root.certificate().clone()]);
        LiveIdentity::fixed(Identity::new(Some(client), vec![server], bundle))
    }

    pub(crate) fn tokens(&self) -> TokenSigner {
        TokenSigner::new(&self.signer).unwrap()
    }
}

fn issue(root: &Authority, name: &str, sans: &[San], purpose: KeyPurpose) -> KeyedChain {
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let subject = SubjectName::common_name(name);
    let now = SystemTime::now();
    let leaf = Leaf::for_key(key.public(), &subject, sans.to_vec(), purpose, now).unwrap();
    KeyedChain::new(vec![root.issue(&leaf).unwrap()], key).unwrap()
}

/// The listening side of a controller.
pub(crate) struct TestController {
    registration: Registration,
    channels: mpsc::UnboundedReceiver<(Established, RouterHello)>,
}

struct Gate {
    capabilities: Capabilities,
    channels: mpsc::UnboundedSender<(Established, RouterHello)>,
    hellos: Mutex<VecDeque<RouterHello>>,
}

impl HelloGate for Gate {
    async fn check(&self, peer: &PeerHello) -> Result<Admission, Refusal> {
        if peer.joining.is_none() {
            self.hellos.lock().push_back(RouterHello::from_hello(&peer.hello));
        }
        let mut headers = Headers::new();
        let version = VersionInfo::from(&crate::Build::default());
        ControllerHello { version: Some(version), capabilities: self.capabilities }
            .write(&mut headers);
        Ok(Admission {
            listener_id: "ctrl1".into(),
            identity: Vec::new(),
            headers,
            channel: ChannelOptions::control("router"),
            group: Some(GroupPolicy::control_listener()),
        })
    }

    async fn established(&self, channel: Established) {
        let hello = self.hellos.lock().pop_front().unwrap();
        let _ = self.channels.send((channel, hello));
    }
}

impl TestController {
    pub(crate) async fn at(pki: &Pki, bind: &str, capabilities: Capabilities) -> Self {
        let (sender, channels) = mpsc::unbounded_channel();
        let gate = Gate { capabilities, channels: sender, hellos: Mutex::default() };
        let acceptor = Arc::new(ChannelAcceptor::new(gate, AcceptOptions::default()));
        let listener = SharedListener::bind(bind, ListenerLimits::default()).await.unwrap();
        let tls = ServerTls { alpn: &[], client_auth: ClientAuth::Require };
        let config = Arc::new(server_config(&pki.identity("ctrl1"), &tls).unwrap());
        let source = Arc::new(move || Some(config.clone()));
        let registration = listener.register(&[alpn::CTRL], source, acceptor).unwrap();
        Self { registration, channels }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.registration.local_addr()
    }

    /// The next router that connects.
    pub(crate) async fn router(&mut self) -> Peer {
        let (established, hello) = soon(self.channels.recv()).await.unwrap();
        Peer::start(established, hello)
    }
}

/// A router, as the controller sees it.
pub(crate) struct Peer {
    pub(crate) channel: ChannelHandle,
    inbox: Inbox,
    pub(crate) hello: RouterHello,
    /// Messages of other types, in order.
    aside: VecDeque<Message>,
}

impl Peer {
    /// The controller's end of a channel, with the hello of the router.
    pub(crate) fn start(established: Established, hello: RouterHello) -> Self {
        let (behaviour, inbox) = inbox(InboxLimits::default());
        let channel = established.start(behaviour);
        Self { channel, inbox, hello, aside: VecDeque::new() }
    }

    /// The next message of this type; messages of other types are kept for later.
    pub(crate) async fn expect(&mut self, content_type: i32) -> Message {
        let of_type = |message: &Message| message.content_type == content_type;
        if let Some(at) = self.aside.iter().position(of_type) {
            return self.aside.remove(at).unwrap();
        }
        loop {
            let message = soon(self.inbox.recv()).await.expect("the router closed the channel");
            if of_type(&message) {
                return message;
            }
            self.aside.push_back(message);
        }
    }

    pub(crate) async fn get<T: ProtoBody>(&mut self) -> T {
        T::from_message(&self.expect(T::CONTENT_TYPE).await).unwrap()
    }

    /// Waits until the router knows this controller, which it shows by its first report.
    pub(crate) async fn is_known(&mut self) {
        until(|| self.has(RouterLinks::CONTENT_TYPE)).await;
    }

    /// True if a message of this type has arrived; does not wait.
    pub(crate) fn has(&mut self, content_type: i32) -> bool {
        while let Some(message) = self.inbox.try_recv() {
            self.aside.push_back(message);
        }
        self.aside.iter().any(|message| message.content_type == content_type)
    }

    pub(crate) async fn send(&self, message: Message) {
        self.channel.send(message).await.unwrap();
    }

    pub(crate) async fn reply(&self, request: &Message, reply: Message) {
        self.channel.send(reply.in_reply_to(request)).await.unwrap();
    }

    /// Sends a full state for the next subscription; the subscription's id.
    pub(crate) async fn give_model(&mut self, events: Vec<Event>, index: u64) -> String {
        let request: SubscribeToDataModelRequest = self.get().await;
        let state = DataState {
            events,
            end_index: index,
            timeline_id: "line1".into(),
            ..DataState::default()
        };
        self.send(state.to_message_for(&request.subscription_id)).await;
        request.subscription_id
    }

    pub(crate) async fn change(
        &self,
        subscription: &str,
        previous: u64,
        index: u64,
        changes: Vec<Event>,
    ) {
        let change = ChangeSet { index, previous_index: previous, changes, ..ChangeSet::default() };
        self.send(change.to_message_for(subscription)).await;
    }
}

/// All capabilities of a 2.x controller.
pub(crate) fn capable() -> Capabilities {
    (1..=6).collect()
}

/// The control half and access of a router, with a fake data half.
pub(crate) struct TestRouter {
    pub(crate) control: ControlHalf,
    pub(crate) access: AccessHalf,
    pub(crate) data: Arc<FakeData>,
    controllers: Arc<Controllers>,
}

impl TestRouter {
    /// A router whose files lie in `home`.
    pub(crate) fn start(pki: &Pki, home: &Path, controller: SocketAddr) -> Self {
        Self::start_waiting(LONG, pki, home, controller)
    }

    /// A router with more sections in its file.
    pub(crate) fn start_with(pki: &Pki, home: &Path, controller: SocketAddr, more: &str) -> Self {
        Self::start_file(LONG, pki, home, controller, more)
    }

    /// A router that waits this long for unknown keys and sessions.
    fn start_waiting(
        lookup_timeout: Duration,
        pki: &Pki,
        home: &Path,
        controller: SocketAddr,
    ) -> Self {
        Self::start_file(lookup_timeout, pki, home, controller, "")
    }

    fn start_file(
        lookup_timeout: Duration,
        pki: &Pki,
        home: &Path,
        controller: SocketAddr,
        more: &str,
    ) -> Self {
        let text = format!(
            "v: 3\nidentity: {{cert: x, server_cert: x, key: x}}\nctrl: {{endpoint: 'tls:localhost:{}'}}\nedge: {{}}\n\
             listeners: [{{binding: edge, address: 'tls:0.0.0.0:0', options: {{advertise: 'localhost:3022'}}}}]\n{more}",
            controller.port()
        );
        let path = home.join("router.yml");
        let config = RouterConfig::from_str(&text, &path, &ProcessEnvironment).unwrap().config;
        let identity = pki.identity("router1");
        let controllers = Arc::new(Controllers::new(Duration::from_secs(5)));
        let options = AccessOptions {
            lookup_timeout,
            save_interval: Duration::ZERO,
            ..AccessOptions::new(&config, "router1")
        };
        let access = AccessHalf::new(options, identity.clone(), controllers.clone());
        let options = ControlOptions {
            // A controller has to ask within this time, on a busy machine, too.
            validation_wait: Duration::from_secs(3),
            terminator_timeout: Duration::from_secs(1),
            connect_events_batch: Duration::from_millis(20),
            ..ControlOptions::new(&config, "router1", VersionInfo::from(&crate::Build::default()))
        };
        let control = ControlHalf::new(Parts {
            options,
            trace: None,
            identity,
            names: None,
            controllers: controllers.clone(),
            access: access.clone(),
            runtime: tokio::runtime::Handle::current(),
        })
        .unwrap();
        let data = Arc::new(FakeData::new());
        let listener = EdgeAddresses {
            address: "tls:0.0.0.0:3022".parse().unwrap(),
            advertise: "tls:localhost:3022".parse().unwrap(),
        };
        control.begin(data.clone(), Listens { edge: vec![listener], ..Listens::default() });
        Self { control, access, data, controllers }
    }

    pub(crate) fn controllers(&self) -> &Controllers {
        &self.controllers
    }

    /// Changes whenever a controller connects or disconnects.
    pub(crate) fn controller_changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.controllers.changes()
    }

    pub(crate) async fn online(&self) {
        let mut online = self.access.online();
        soon(online.wait_for(|online| *online)).await.unwrap();
    }
}

/// A controller, a router connected to it, and the router as the controller sees it.
pub(crate) struct Network {
    pub(crate) pki: Pki,
    pub(crate) home: tempfile::TempDir,
    pub(crate) controller: TestController,
    pub(crate) router: TestRouter,
    pub(crate) peer: Peer,
}

impl Network {
    pub(crate) async fn new() -> Self {
        Self::waiting(LONG).await
    }

    /// A network whose router waits this long for keys and sessions that it does not know.
    pub(crate) async fn waiting(lookup_timeout: Duration) -> Self {
        let pki = Pki::new();
        let home = tempfile::tempdir().unwrap();
        let mut controller = TestController::at(&pki, "127.0.0.1:0", capable()).await;
        let at = controller.addr();
        let router = TestRouter::start_waiting(lookup_timeout, &pki, home.path(), at);
        let mut peer = controller.router().await;
        peer.is_known().await;
        Self { pki, home, controller, router, peer }
    }

    /// The controller ends and another takes its place.
    pub(crate) async fn restart_controller(&mut self, capabilities: Capabilities) {
        let bind = self.controller.addr().to_string();
        self.peer.channel.close("restart");
        soon(self.peer.channel.closed()).await;
        let elsewhere = TestController::at(&self.pki, "127.0.0.1:0", capabilities).await;
        drop(std::mem::replace(&mut self.controller, elsewhere));
        self.controller = soon(async {
            loop {
                // The port is free once the former listener has let go of it.
                if tokio::net::TcpListener::bind(&bind).await.is_ok() {
                    return TestController::at(&self.pki, &bind, capabilities).await;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        self.peer = self.controller.router().await;
        self.peer.is_known().await;
    }
}

/// An opaque session as a controller announces it.
pub(crate) fn api_session(id: &str, identity: &str, fingerprint: &str) -> edge_ctrl::ApiSession {
    edge_ctrl::ApiSession {
        token: format!("token-{id}"),
        cert_fingerprints: vec![fingerprint.to_owned()],
        id: id.to_owned(),
        identity_id: identity.to_owned(),
    }
}
