//! A network with one controller, and routers that a test controls.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use weft_channel::{
    ChannelHandle, ChannelOptions, DialError, DialOptions, Established, GroupPolicy, Inbox,
    InboxLimits, Lane, ListenerLimits, Listeners, RedialPolicy, Registration, dial, inbox,
};
use weft_contract::Api;
use weft_control::{ControlOptions, ControlPlane};
use weft_identity::tls::{ClientTls, client_config};
use weft_identity::{
    Authority, AuthoritySpec, CertificateRequest, Identity, KeyAlgorithm, KeyPurpose, KeyedChain,
    Leaf, LiveIdentity, PrivateKey, San, SealKey, SubjectName, TrustBundle,
};
use weft_kernel::clock::ManualClock;
use weft_kernel::random::SeededRandom;
use weft_model::{Id, Timestamp};
use weft_network::{Network, NetworkOptions};
use weft_store::{Faulty, Memory, Store};
use weft_wire::ctrl::RouterHello;
use weft_wire::edge_ctrl::{self, ClientHello, EdgeAddress, EdgeListener};
use weft_wire::hello::{Hello, alpn};
use weft_wire::{Address, Capabilities, Message, Scheme, VersionInfo, router_capability};

use crate::testing::{Bed, PASSWORD, USERNAME, to};
use crate::{Addresses, Caller, Controller, Keys, Origin, Settings};

/// A time limit that no step should reach.
pub(super) const LONG: Duration = Duration::from_secs(60);

pub(super) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, work).await.expect("took too long")
}

/// Waits until `done` returns true.
pub(super) async fn until(mut done: impl FnMut() -> bool) {
    soon(async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// Moves the clock forward: waits that would have ended in this time end now. After that the clock
/// goes on as usual.
pub(super) async fn later(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// A controller that accepts routers.
pub(super) struct Net {
    pub(super) bed: Bed,
    pub(super) network: Network,
    pub(super) plane: ControlPlane,
    pub(super) admin: Caller,
    listening: Registration,
}

/// The controller's clock shows the time of the machine, which TLS uses.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp(since.as_millis() as i64)
}

pub(super) fn authority(name: &str) -> Authority {
    Authority::make_root(&AuthoritySpec::new(name), SystemTime::now()).unwrap()
}

fn keys() -> Keys {
    let root = authority("root");
    let signer = root.make_intermediate(&AuthoritySpec::new("signer"), SystemTime::now()).unwrap();
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let sans = vec![San::Dns("localhost".into()), San::Ip([127, 0, 0, 1].into())];
    let subject = SubjectName::common_name("ctrl1");
    let leaf = Leaf::for_key(key.public(), &subject, sans, KeyPurpose::Both, SystemTime::now());
    let leaf = root.issue(&leaf.unwrap()).unwrap();
    let chain = KeyedChain::new(vec![leaf], key).unwrap();
    let bundle = TrustBundle::new([root.certificate().clone(), signer.certificate().clone()]);
    Keys {
        session: chain.clone(),
        enrollment: chain,
        authority: signer,
        bundle,
        trust_domain: "weft.test".into(),
    }
}

async fn bed(change: impl FnOnce(&mut Settings)) -> Bed {
    let store = Faulty::new(Memory::new());
    let clock = Arc::new(ManualClock::at(now()));
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let addresses = Addresses {
        api: "ctrl.example:1280".into(),
        ctrl: vec!["tls:ctrl.example:6262".into()],
        apis: BTreeMap::from([(Api::Client, vec!["https://c/edge/client/v1".into()])]),
    };
    let mut settings = Settings {
        clock: Arc::clone(&clock) as Arc<dyn weft_kernel::clock::Clock>,
        random: Arc::new(SeededRandom::new(7)),
        session_key: Some(Arc::new(SealKey::random().unwrap())),
        ..Settings::new("ctrl1", shared, keys(), addresses)
    };
    change(&mut settings);
    let controller = Controller::start(settings).await.unwrap();
    controller.init_admin("Default Admin", USERNAME, PASSWORD).await.unwrap();
    Bed { controller, clock, store }
}

/// Options under which a router may connect again at once, and may answer slowly.
pub(super) fn quick() -> NetworkOptions {
    NetworkOptions { churn_limit: Duration::ZERO, route_timeout: LONG, ..NetworkOptions::default() }
}

/// Options with a short time limit for answers, for routers that do not answer.
pub(super) fn hurried() -> NetworkOptions {
    NetworkOptions { route_timeout: Duration::from_millis(400), ..quick() }
}

impl Net {
    pub(super) async fn new() -> Self {
        Self::with(quick()).await
    }

    pub(super) async fn with(options: NetworkOptions) -> Self {
        Self::on(bed(|_| {}).await, options).await
    }

    /// A network with other settings of the controller.
    pub(super) async fn set(change: impl FnOnce(&mut Settings)) -> Self {
        Self::on(bed(change).await, quick()).await
    }

    pub(super) async fn on(bed: Bed, options: NetworkOptions) -> Self {
        let network = bed.controller.start_network(options);
        let advertise = vec!["tls:ctrl.example:6262".to_owned()];
        let control = ControlOptions { advertise, ..ControlOptions::default() };
        let plane =
            ControlPlane::start(bed.controller.auth(), network.clone(), control).await.unwrap();
        let keys = bed.controller.auth().keys();
        let identity = Identity::new(None, vec![keys.session.clone()], keys.bundle.clone());
        let tls = ControlPlane::tls(&LiveIdentity::fixed(identity)).unwrap();
        let listeners = Listeners::new();
        let limits = ListenerLimits::default();
        let listening = plane.listen(&listeners, "127.0.0.1:0", limits, tls).await.unwrap();
        let admin = bed.admin().await;
        Self { bed, network, plane, admin, listening }
    }

    /// Stops the controller and starts it again on the same store.
    pub(super) async fn restarted(self) -> Self {
        self.network.stop().await;
        let bed = self.bed.restarted().await;
        Self::on(bed, quick()).await
    }

    pub(super) async fn create(&self, operation: &str, body: Value) -> String {
        self.bed.create(&self.admin, operation, body).await
    }

    pub(super) async fn manage(&self, operation: &str, path: &[&str], body: Value) -> Value {
        let done = self.bed.manage(&self.admin, operation, path, body).await;
        done.unwrap_or_else(|failure| panic!("{operation}: {failure}"))
    }

    /// A service that every identity may dial and host over every router.
    pub(super) async fn open_service(&self, body: Value) -> Id {
        let all = json!(["#all"]);
        let service = self.create("createService", body).await;
        let body = json!({"name": "erp", "semantic": "AnyOf", "identityRoles": all,
            "edgeRouterRoles": all});
        self.create("createEdgeRouterPolicy", body).await;
        let body = json!({"name": "serp", "semantic": "AnyOf", "serviceRoles": all,
            "edgeRouterRoles": all});
        self.create("createServiceEdgeRouterPolicy", body).await;
        for kind in ["Dial", "Bind"] {
            let body = json!({"name": kind, "type": kind, "semantic": "AnyOf",
                "identityRoles": all, "serviceRoles": all});
            self.create("createServicePolicy", body).await;
        }
        Id::new(&service)
    }

    /// An edge router with a tunneler, enrolled.
    pub(super) async fn router(&self, name: &str) -> TestRouter {
        let body = json!({"name": name, "isTunnelerEnabled": true});
        let id = self.create("createEdgeRouter", body).await;
        let router = self.manage("detailEdgeRouter", &[&id], Value::Null).await;
        let token = router["enrollmentToken"].as_str().unwrap().to_owned();
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let csr = CertificateRequest::make_pem(&key, &SubjectName::common_name(&*id), &[]).unwrap();
        let call = to(Api::Client, "enroll", &[])
            .with_query("method", "erott")
            .with_query("token", &token)
            .with_json(&json!({"certCsr": csr, "serverCertCsr": csr}));
        let caller = Caller::nobody(Origin::default());
        let reply = self.bed.controller.call(caller, call).await.unwrap().data();
        let chain = reply["cert"].as_str().unwrap().as_bytes();
        let chain = weft_identity::Certificate::from_pem(chain).unwrap();
        TestRouter { id: Id::new(&id), chain: KeyedChain::new(chain, key).unwrap() }
    }

    /// Replaces the keys for tokens in use, as operators do with their files.
    pub(super) fn exchange_keys(&self) -> Keys {
        let former = self.bed.controller.auth().keys();
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let sans = vec![San::Dns("localhost".into()), San::Ip([127, 0, 0, 1].into())];
        let subject = SubjectName::common_name("ctrl1");
        let leaf = Leaf::for_key(key.public(), &subject, sans, KeyPurpose::Both, SystemTime::now());
        let chain = vec![former.authority.issue(&leaf.unwrap()).unwrap()];
        let chain = KeyedChain::new(chain, key).unwrap();
        let other = Keys { session: chain.clone(), enrollment: chain, ..(*former).clone() };
        self.bed.controller.auth().exchange_keys(other.clone()).unwrap();
        other
    }

    /// The timeline of the data model.
    pub(super) fn timeline(&self) -> String {
        self.bed.controller.kernel().snapshot().timeline().0.to_string()
    }

    /// The hello and the certificate of a router.
    pub(super) fn options(&self, router: &TestRouter) -> DialOptions {
        let bundle = self.bed.controller.auth().keys().bundle.clone();
        let identity = Identity::new(Some(router.chain.clone()), Vec::new(), bundle);
        let identity = LiveIdentity::fixed(identity);
        let tls = client_config(&ClientTls::of_identity(&identity, &[])).unwrap();
        let at = self.listening.local_addr();
        let address = Address::new(Scheme::Tls, at.ip().to_string(), at.port());
        let mut hello = Hello::new(router.id.as_str());
        RouterHello {
            version: VersionInfo::from_header("v2.1.0|r|d|linux|amd64"),
            capabilities: Capabilities::NONE
                .with(router_capability::MULTI_CHANNEL)
                .with(router_capability::TAKES_CLAIMS),
            ..RouterHello::default()
        }
        .write(&mut hello.headers);
        let channel = ChannelOptions { heartbeat: None, ..ChannelOptions::control("router") };
        let group = GroupPolicy {
            min_total: 1,
            redial: Some(RedialPolicy {
                survive: false,
                start_delay: Duration::ZERO,
                min_interval: Duration::ZERO,
                ..RedialPolicy::CONTROL
            }),
            ..GroupPolicy::control_dialer(true)
        };
        DialOptions {
            group: Some(group),
            timeout: LONG,
            ..DialOptions::new(address, Arc::new(tls), alpn::CTRL, hello, channel)
        }
    }

    pub(super) async fn dial(&self, router: &TestRouter) -> Result<Peer, DialError> {
        Ok(Peer::start(soon(dial(self.options(router))).await?))
    }

    /// A router that is connected and greeted.
    pub(super) async fn connect(&self, router: &TestRouter) -> Peer {
        self.greeted(router, self.options(router)).await
    }

    /// A router of a release, connected and greeted.
    pub(super) async fn connect_as(&self, router: &TestRouter, release: &str) -> Peer {
        let mut options = self.options(router);
        let version = VersionInfo::from_header(&format!("{release}|r|d|linux|amd64"));
        RouterHello { version, ..RouterHello::default() }.write(&mut options.hello.headers);
        self.greeted(router, options).await
    }

    async fn greeted(&self, router: &TestRouter, options: DialOptions) -> Peer {
        let mut peer = Peer::start(soon(dial(options)).await.unwrap());
        peer.greet().await;
        until(|| {
            let facts = self.bed.controller.kernel().online().router(router.id.as_str());
            facts.is_some_and(|facts| !facts.protocols.is_empty())
        })
        .await;
        peer
    }
}

/// A router that was enrolled.
pub(super) struct TestRouter {
    pub(super) id: Id,
    pub(super) chain: KeyedChain,
}

/// The router's end of a control channel.
pub(super) struct Peer {
    pub(super) channel: ChannelHandle,
    inbox: Inbox,
    /// Received messages that the test has not asked for yet.
    waiting: VecDeque<Message>,
}

impl Peer {
    pub(super) fn start(established: Established) -> Self {
        let (behaviour, inbox) = inbox(InboxLimits::default());
        Self { channel: established.start(behaviour), inbox, waiting: VecDeque::new() }
    }

    /// The next message of a type; other messages are kept.
    pub(super) async fn expect(&mut self, content_type: i32) -> Message {
        if let Some(at) = self.waiting.iter().position(|it| it.content_type == content_type) {
            return self.waiting.remove(at).unwrap();
        }
        loop {
            let next = tokio::time::timeout(LONG, self.inbox.recv()).await;
            let message = next.unwrap_or_else(|_| panic!("no {content_type}")).expect("closed");
            if message.content_type == content_type {
                return message;
            }
            self.waiting.push_back(message);
        }
    }

    /// The next message of any type; none after the channel has closed.
    pub(super) async fn next(&mut self) -> Option<Message> {
        match self.waiting.pop_front() {
            Some(message) => Some(message),
            None => self.inbox.recv().await,
        }
    }

    /// Whether an unexpected message of a type has come.
    pub(super) fn has(&mut self, content_type: i32) -> bool {
        while let Some(message) = self.inbox.try_recv() {
            self.waiting.push_back(message);
        }
        self.waiting.iter().any(|message| message.content_type == content_type)
    }

    /// Closes the channel of the router.
    pub(super) fn leave(self) {
        self.channel.close("test");
    }

    pub(super) async fn send(&self, message: Message) {
        soon(self.channel.send(message)).await.unwrap();
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn ask(&self, message: Message) -> Message {
        self.channel.request_on(Lane::High, message, LONG).await.unwrap()
    }

    pub(super) async fn greet(&mut self) {
        let greeting = self.expect(edge_ctrl::content_type::SERVER_HELLO).await;
        let advertise = EdgeAddress {
            value: "tls:er1.example:3022".into(),
            protocol: "tls".into(),
            hostname: "er1.example".into(),
            port: 3022,
        };
        let listener = EdgeListener { address: None, advertise: Some(advertise) };
        let hello = ClientHello {
            version: "v2.1.0".into(),
            hostname: "er1.example".into(),
            listeners: vec![listener],
            ..ClientHello::default()
        };
        self.send(hello.answer(&greeting, 0)).await;
    }

    /// Waits until the controller has handled all messages sent so far.
    pub(super) async fn settled(&self) {
        let pong = self.ask(Message::new(weft_wire::content_type::PING, "")).await;
        assert_eq!(pong.text(), "ok");
    }
}
