//! SDK connections over loopback TLS, with a controller made of a table and SDKs made by hand.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use weft_channel::{
    ChannelHandle, ChannelOptions, DialOptions, GroupPolicy, Inbox, InboxLimits, Listeners, dial,
    inbox,
};
use weft_config::router::{EdgePerIdentity, ForwarderConfig};
use weft_config::{RouterConfig, XgressOptions};
use weft_identity::tls::{ClientAuth, ClientTls, ServerTls, client_config, server_config};
use weft_identity::{
    Authority, AuthoritySpec, Identity, KeyAlgorithm, KeyPurpose, KeyedChain, Leaf, LiveIdentity,
    PrivateKey, San, SubjectName, TrustBundle,
};
use weft_limits::Budget;
use weft_spans::Spans;
use weft_wire::edge::{
    Bind, BindSuccess, Connect, Data, Dial, DialFailed, DialSuccess, StateClosed, StateConnected,
    Unbind, content_type, data_flags, header,
};
use weft_wire::hello::{Hello, alpn};
use weft_wire::payload::{self, Ack, Payload};
use weft_wire::{Address, Message, VersionInfo};
use weft_xgress::{Delivery, End, Options, Role};

use crate::data::{DataHalf, DataOptions, EdgeLimits};
use crate::forwarder::FIN_HOLD;
use crate::seam::{
    Access, AccessEvent, AccessGrant, ApiSession, BindingCircuitRequest, CircuitRequest, Control,
    ControllerId, Data as _, Egress, Forward, ForwardKind, NewCircuit, Refusal, RouteCommand,
    TerminatorRequest, TerminatorUpdate, TunnelCircuitRequest, TunnelService, Use,
};

mod attempts;
mod binds;
mod fakes;
mod grouped;
mod hosting;
mod limits;
mod native;
mod pause;
mod revoked;
mod silent;
mod sockets;
mod spans;
mod traced;
mod unjudged;

use fakes::{Believer, Ended, FakeControl, Hook, Table, fallen_behind};

const PATIENCE: Duration = Duration::from_secs(20);

/// A router without a controller.
struct Router {
    data: Arc<DataHalf>,
    table: Arc<Table>,
    events: broadcast::Sender<AccessEvent>,
    ended: Ended,
    end_before_next: Ended,
    judge_slow: CancellationToken,
    while_judging: Hook,
    address: std::net::SocketAddr,
    client: Arc<rustls::ClientConfig>,
    _listeners: Listeners,
}

fn live(authority: &Authority, name: &str) -> Arc<LiveIdentity> {
    let now = SystemTime::now();
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let sans = vec![San::Dns("localhost".to_owned())];
    let leaf =
        Leaf::for_key(key.public(), &SubjectName::common_name(name), sans, KeyPurpose::Both, now);
    let certificate = authority.issue(&leaf.unwrap()).unwrap();
    let chain = KeyedChain::new(vec![certificate], key).unwrap();
    let bundle = TrustBundle::new([authority.certificate().clone()]);
    LiveIdentity::fixed(Identity::new(Some(chain.clone()), vec![chain], bundle))
}

/// The documented defaults, but circuits that are quiet go quickly, and hardly a dial may wait.
fn forwarder_config() -> ForwarderConfig {
    let text = "v: 3\nidentity: {cert: a, server_cert: s, key: b, ca: c}\nctrl: {endpoint: tls:localhost:1}\n\
                forwarder: {xgressCloseCheckInterval: 50, xgressDialQueueLength: 1}\n";
    let none = |_: &str| None;
    RouterConfig::from_str(text, std::path::Path::new("router.yaml"), &none)
        .unwrap()
        .config
        .forwarder
}

async fn router() -> Router {
    router_with(FIN_HOLD).await
}

/// The data half of a router without a controller.
pub(crate) async fn data_half() -> Arc<DataHalf> {
    router().await.data
}

async fn router_with(fin_hold: Duration) -> Router {
    router_telling(fin_hold, Spans::off()).await
}

async fn router_telling(fin_hold: Duration, spans: Spans) -> Router {
    router_for(fin_hold, spans, EdgePerIdentity::default()).await
}

async fn router_for(fin_hold: Duration, spans: Spans, per_identity: EdgePerIdentity) -> Router {
    let authority = Authority::make_root(&AuthoritySpec::new("root"), SystemTime::now()).unwrap();
    let judge = ClientAuth::Require;
    let tls = ServerTls { alpn: &[], client_auth: judge };
    let server = Arc::new(server_config(&live(&authority, "router"), &tls).unwrap());
    let client = client_config(&ClientTls::of_identity(&live(&authority, "sdk"), &[])).unwrap();
    let table = Arc::new(Table::default());
    let (events, _) = broadcast::channel(16);
    let runtime = tokio::runtime::Handle::current();
    let options = DataOptions {
        usage_interval: Duration::from_secs(60),
        trace: None,
        spans,
        router_id: "router".to_owned(),
        version: VersionInfo::from_header("v2.1.0|x|2026-01-01|linux|amd64").unwrap(),
        xgress: XgressOptions::default(),
        forwarder: forwarder_config(),
        dialers: vec![weft_config::router::XgressDialer {
            binding: weft_config::router::DialerBinding::Transport,
            options: XgressOptions::default(),
        }],
        client_tls: None,
        fin_hold,
        per_identity,
        tunnel: None,
        threads: weft_channel::Threads::of(runtime.clone()),
        control_runtime: runtime,
    };
    let control = Arc::new(FakeControl(Arc::clone(&table)));
    let (ended, end_before_next) = (Ended::default(), Ended::default());
    let (judge_slow, while_judging) = (CancellationToken::new(), Hook::default());
    let access = Arc::new(Believer {
        events: events.clone(),
        ended: Arc::clone(&ended),
        end_before_next: Arc::clone(&end_before_next),
        judge_slow: judge_slow.clone(),
        while_judging: Arc::clone(&while_judging),
    });
    let data = DataHalf::start(options, control, access);
    table.data.set(Arc::downgrade(&data)).unwrap();
    let listeners = Listeners::new();
    let source = Arc::new(move || Some(Arc::clone(&server)));
    let limits = EdgeLimits::default();
    let address = data.listen_edge(&listeners, "127.0.0.1:0", limits, source).await.unwrap();
    Router {
        data,
        table,
        events,
        ended,
        end_before_next,
        judge_slow,
        while_judging,
        address,
        client: Arc::new(client),
        _listeners: listeners,
    }
}

/// An SDK made by hand.
struct Sdk {
    channel: ChannelHandle,
    inbox: Inbox,
}

impl Router {
    async fn sdk(&self, token: &str) -> Sdk {
        self.sdk_called("sdk", token).await
    }

    async fn sdk_called(&self, name: &str, token: &str) -> Sdk {
        self.sdk_of(self.address, name, token, None).await
    }

    async fn sdk_of(
        &self,
        at: std::net::SocketAddr,
        name: &str,
        token: &str,
        group: Option<GroupPolicy>,
    ) -> Sdk {
        let mut hello = Hello { token: name.to_owned(), ..Hello::default() };
        hello.headers.set_str(header::SESSION_TOKEN, token);
        let address = Address::new(weft_wire::Scheme::Tls, "localhost", at.port());
        // SDKs wait as long as they are not read.
        let options = ChannelOptions { write_timeout: None, ..ChannelOptions::edge("sdk") };
        let dialed = DialOptions {
            server_name: Some("localhost".to_owned()),
            group,
            ..DialOptions::new(address, Arc::clone(&self.client), alpn::EDGE, hello, options)
        };
        let established = dial(dialed).await.unwrap();
        let (behaviour, inbox) = inbox(InboxLimits { messages: 8, bytes: 256 * 1024 });
        Sdk { channel: established.start(behaviour), inbox }
    }

    /// A host of `service`, bound and confirmed.
    async fn host(&self, service: &str) -> Sdk {
        self.host_called("sdk", service).await
    }

    async fn host_called(&self, name: &str, service: &str) -> Sdk {
        self.host_with(name, service, Bind { router_conn_ids: true, ..Bind::default() }).await
    }

    async fn host_with(&self, name: &str, service: &str, bind: Bind) -> Sdk {
        let mut host = self.sdk_called(name, &format!("host of {service}")).await;
        let token = Bytes::from(service.to_owned());
        let bind = Bind { conn_id: 1, token, supports_bind_success: true, ..bind };
        let named = bind.router_conn_ids;
        let answer = host.channel.request(bind.to_message(), PATIENCE).await.unwrap();
        assert_eq!(StateConnected::from_message(&answer).unwrap().router_conn_ids, named);
        let confirmed = host.next().await;
        assert_eq!(BindSuccess::from_message(&confirmed).unwrap().conn_id, 1);
        host
    }

    async fn until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !condition() {
            assert!(Instant::now() < deadline, "waited in vain for: {what}; {:?}", self.data);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Sdk {
    async fn next(&mut self) -> Message {
        tokio::time::timeout(PATIENCE, self.inbox.recv()).await.expect("a message").expect("open")
    }

    async fn connect(&self, conn_id: u32, service: &str) -> Message {
        let connect = Connect {
            conn_id: Some(conn_id),
            token: Bytes::from(service.to_owned()),
            caller_id: Some("caller".into()),
            ..Connect::default()
        };
        self.channel.request(connect.to_message(), PATIENCE).await.unwrap()
    }

    /// Accepts the next dial and tells the new connection's id.
    async fn accept(&mut self) -> u32 {
        let message = self.next().await;
        let dial = Dial::from_message(&message).unwrap();
        let new_conn_id = dial.new_conn_id.unwrap();
        let success = DialSuccess { conn_id: dial.conn_id, new_conn_id, public_key: None };
        self.channel.send(success.to_message().in_reply_to(&message)).await.unwrap();
        new_conn_id
    }

    async fn send(&self, conn_id: u32, data: impl Into<Bytes>, flags: u32) {
        let data = Data { conn_id, flags, uuid: None, data: data.into() };
        self.channel.send(data.to_message()).await.unwrap();
    }

    async fn data(&mut self) -> Data {
        let message = self.next().await;
        Data::from_message(&message).unwrap_or_else(|_| panic!("{message:?}: {}", message.text()))
    }

    /// Waits for a connection to be closed. The end of its data may be told first
    /// (docs/protocol/sdk.md 6): whether it is depends on which end of the circuit ended first.
    async fn closed(&mut self) -> StateClosed {
        let mut message = self.next().await;
        if let Ok(data) = Data::from_message(&message) {
            assert!(data.is_fin() && data.data.is_empty(), "{data:?}");
            message = self.next().await;
        }
        StateClosed::from_message(&message).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_sdks_reach_each_other() {
    let router = router().await;
    let mut host = router.host("echo").await;
    let mut dialer = router.sdk("dialer").await;
    let (answer, there) = tokio::join!(dialer.connect(7, "echo"), host.accept());
    let connected = StateConnected::from_message(&answer).unwrap();
    assert_eq!(connected.circuit_id.as_deref(), Some("circuit0"));

    dialer.send(7, "hello", data_flags::MULTIPART).await;
    let got = host.data().await;
    assert_eq!((got.conn_id, &got.data[..]), (there, &b"hello"[..]));
    assert_eq!(got.flags, data_flags::MULTIPART, "flags travel as they are");
    host.send(there, "welcome", 0).await;
    assert_eq!(&dialer.data().await.data[..], b"welcome");

    // Half-close: the dialer sends no more, the host still answers.
    dialer.send(7, "", data_flags::FIN).await;
    let fin = host.data().await;
    assert!(fin.is_fin() && fin.data.is_empty());
    host.send(there, "after the end", 0).await;
    assert_eq!(&dialer.data().await.data[..], b"after the end");
    host.send(there, "", data_flags::FIN).await;
    assert!(dialer.data().await.is_fin());
    let closed = StateClosed::from_message(&dialer.next().await).unwrap();
    assert_eq!((closed.conn_id, &closed.reason[..]), (7, "close called"));
    StateClosed::from_message(&host.next().await).unwrap();
    router.until("the circuit to be gone", || router.data.counts() == (0, 0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_reaches_the_other_side() {
    let router = router().await;
    let mut host = router.host("echo").await;
    let dialer = router.sdk("dialer").await;
    let (_, there) = tokio::join!(dialer.connect(1, "echo"), host.accept());
    dialer.send(1, "last words", 0).await;
    dialer.channel.send(StateClosed::new(1, "done").to_message()).await.unwrap();
    assert_eq!(&host.data().await.data[..], b"last words");
    // The data sent before the close arrives, then the end, then the close.
    assert!(host.data().await.is_fin());
    let closed = StateClosed::from_message(&host.next().await).unwrap();
    assert_eq!(closed.conn_id, there);
    router.until("the circuit to be gone", || router.data.counts() == (0, 0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_given_up_does_not_look_whole() {
    let router = router().await;
    let mut host = router.host("echo").await;
    let mut dialer = router.sdk("dialer").await;
    let (_, there) = tokio::join!(dialer.connect(1, "echo"), host.accept());
    dialer.channel.send(StateClosed::gave_up(1, "half of it").to_message()).await.unwrap();
    let closed = StateClosed::from_message(&host.next().await).unwrap();
    assert_eq!(closed.conn_id, there);
    assert!(closed.error.is_some(), "{closed:?}");
    // The other way round.
    let (_, there) = tokio::join!(dialer.connect(2, "echo"), host.accept());
    host.channel.send(StateClosed::gave_up(there, "half of it").to_message()).await.unwrap();
    let closed = StateClosed::from_message(&dialer.next().await).unwrap();
    assert!(closed.conn_id == 2 && closed.error.is_some(), "{closed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_dialer_closes_the_hosts_side_and_a_lost_host_its_terminator() {
    let router = router().await;
    let mut host = router.host("echo").await;
    let dialer = router.sdk("dialer").await;
    let (_, there) = tokio::join!(dialer.connect(1, "echo"), host.accept());
    dialer.channel.close("gone");
    // Not the regular end of its data, which may be missing in part.
    let closed = StateClosed::from_message(&host.next().await).unwrap();
    assert_eq!(closed.conn_id, there);
    host.channel.close("gone too");
    router.until("the terminator to be removed", || router.table.removed.lock().len() == 1).await;
    router.until("the circuit to be gone", || router.data.counts() == (0, 0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_say_why() {
    let router = router().await;
    let mut host = router.host("echo").await;
    let dialer = router.sdk("dialer").await;
    let denied = StateClosed::from_message(&dialer.connect(1, "forbidden").await).unwrap();
    assert_eq!(denied.error.unwrap().code.0, 14);
    let nobody = StateClosed::from_message(&dialer.connect(2, "nothing").await).unwrap();
    assert_eq!(nobody.reason, "no terminators");
    let reject = async {
        let message = host.next().await;
        let failed = DialFailed { conn_id: 1, reason: "busy".to_owned() };
        host.channel.send(failed.to_message().in_reply_to(&message)).await.unwrap();
    };
    let (answer, ()) = tokio::join!(dialer.connect(3, "echo"), reject);
    let rejected = StateClosed::from_message(&answer).unwrap();
    assert!(rejected.reason.contains("rejected by application: busy"), "{}", rejected.reason);
    // The id is free again, a connect without one is answered, an id in use is refused.
    let (_, _) = tokio::join!(dialer.connect(3, "echo"), host.accept());
    let taken = StateClosed::from_message(&dialer.connect(3, "echo").await).unwrap();
    assert!(taken.reason.contains("in use"));
    let nameless = Connect { token: "echo".into(), ..Connect::default() }.to_message();
    let answer = dialer.channel.request(nameless, PATIENCE).await.unwrap();
    assert_eq!(StateClosed::from_message(&answer).unwrap().reason, "connId not set, required");
    let stranger = router.sdk("bad").await;
    tokio::time::timeout(PATIENCE, stranger.channel.closed()).await.expect("closed");
}

/// What limits dials, and how many wait, is decided before a route reaches the data half.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_queue_for_dials_does_not_limit_the_dials_under_way() {
    let router = router().await;
    let mut host = router.host("echo").await;
    let (one, two) = (router.sdk("one").await, router.sdk("two").await);
    let hosting = async {
        let dials = [host.dial().await, host.dial().await];
        for dial in &dials {
            host.accept_dial(dial).await;
        }
    };
    let (first, second, ()) = tokio::join!(one.connect(1, "echo"), two.connect(1, "echo"), hosting);
    for answer in [first, second] {
        StateConnected::from_message(&answer).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_access_closes_what_it_allowed() {
    let router = router().await;
    let mut host = router.host("echo").await;
    let mut dialer = router.sdk("dialer").await;
    let (_, there) = tokio::join!(dialer.connect(1, "echo"), host.accept());
    let ended = |session: &str| AccessEvent::ServiceSessionsEnded {
        session: session.to_owned(),
        service_sessions: ["echo session".to_owned()].into(),
    };
    router.until("somebody to listen", || router.events.send(ended("other")).is_ok()).await;
    // The router asks once when it begins to listen, and once for each of these events: of two questions the
    // last one comes after the session of somebody else has ended.
    for _ in 0..2 {
        router.events.send(AccessEvent::SessionsTold { controller: "ctrl".into() }).unwrap();
    }
    router.until("the questions", || router.table.validated.lock().len() >= 2).await;
    let in_use = ("ctrl".into(), vec!["echo session".to_owned()]);
    assert_eq!(router.table.validated.lock().last(), Some(&in_use));
    dialer.send(1, "still here", 0).await;
    let got = host.data().await;
    assert_eq!((got.conn_id, &got.data[..]), (there, &b"still here"[..]));
    assert!(router.table.ended.lock().is_empty());
    router.events.send(ended("dialer")).unwrap();
    assert_eq!(dialer.closed().await.conn_id, 1);
    let gone = AccessEvent::SessionEnded { session: "dialer".to_owned() };
    router.events.send(gone).unwrap();
    tokio::time::timeout(PATIENCE, dialer.channel.closed()).await.expect("closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_that_comes_back_is_asked_about_service_sessions_in_use() {
    let router = router().await;
    let mut host = router.host("echo").await;
    let dialer = router.sdk("dialer").await;
    let (_, _) = tokio::join!(dialer.connect(1, "echo"), host.accept());
    let told = |controller: &str| AccessEvent::SessionsTold { controller: controller.into() };
    router.until("somebody to listen", || router.events.send(told("other")).is_ok()).await;
    router.events.send(told("ctrl")).unwrap();
    router.until("the question", || !router.table.validated.lock().is_empty()).await;
    let asked = ("ctrl".into(), vec!["echo session".to_owned()]);
    assert_eq!(*router.table.validated.lock(), std::slice::from_ref(&asked));
    // The missed events may include those about sessions.
    router.events.send(fallen_behind()).unwrap();
    router.until("the question again", || router.table.validated.lock().len() > 1).await;
    assert_eq!(*router.table.validated.lock(), [asked.clone(), asked]);
}

/// A TCP server that echoes until the client half-closes, then says goodbye.
async fn tcp_echo() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reader, mut writer) = stream.split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
                let _ = writer.write_all(b"goodbye").await;
            });
        }
    });
    format!("tcp:{address}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_circuit_that_ends_before_it_is_attached_is_refused() {
    let router = router().await;
    let address = tcp_echo().await;
    router.table.addresses.lock().insert("tcp".to_owned(), address);
    router.table.short_lived.store(true, Ordering::Relaxed);
    let dialer = router.sdk("dialer").await;
    for use_xgress in [false, true] {
        let token = Bytes::from_static(b"tcp");
        let connect = Connect { conn_id: Some(1), token, use_xgress, ..Connect::default() };
        let answer = dialer.channel.request(connect.to_message(), PATIENCE).await.unwrap();
        let closed = StateClosed::from_message(&answer).unwrap();
        assert_eq!(closed.reason, "the circuit ended while it was made");
        router.until("nothing to be left", || router.data.counts() == (0, 0)).await;
    }
    // The connection id is free again.
    router.table.short_lived.store(false, Ordering::Relaxed);
    StateConnected::from_message(&dialer.connect(1, "tcp").await).unwrap();
}
