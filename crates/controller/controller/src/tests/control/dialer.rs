//! Which routers are dialed, and which channel stays when both sides dial.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use weft_channel::{
    AcceptOptions, Admission, ChannelAcceptor, ChannelOptions, Established, GroupPolicy, HelloGate,
    ListenerLimits, Listeners, PeerHello, Refusal, Registration,
};
use weft_control::{ControlPlane, DialerOptions};
use weft_identity::{Identity, KeyPurpose, KeyedChain, Leaf, LiveIdentity, San, SubjectName};
use weft_wire::ctrl::{ControllerHello, CtrlChanListener, CtrlChanListeners, RouterHello};
use weft_wire::hello::{alpn, underlay};
use weft_wire::{Capabilities, Headers, VersionInfo, controller_capability, router_capability};

use super::support::{Net, Peer, TestRouter, soon, until};

/// A router that waits for controllers to dial it.
struct Waiting {
    router: TestRouter,
    channels: mpsc::UnboundedReceiver<Established>,
    registration: Registration,
}

struct Door {
    id: String,
    listener: Arc<parking_lot::Mutex<CtrlChanListener>>,
    channels: mpsc::UnboundedSender<Established>,
}

impl HelloGate for Door {
    async fn check(&self, peer: &PeerHello) -> Result<Admission, Refusal> {
        // The hello tells the router the controller's id.
        assert_eq!((peer.hello.token.as_str(), peer.hello.is_first()), ("ctrl1", true));
        assert_eq!(peer.hello.underlay_type(), Some(underlay::CTRL_DEFAULT));
        let said = ControllerHello::from_hello(&peer.hello);
        assert!(said.version.is_some());
        assert!(said.capabilities.has(controller_capability::JWT_LEGACY_SESSIONS));
        let mut headers = Headers::new();
        RouterHello {
            version: VersionInfo::from_header("v2.1.0|r|d|linux|amd64"),
            capabilities: Capabilities::NONE.with(router_capability::MULTI_CHANNEL),
            ctrl_chan_listeners: CtrlChanListeners {
                listeners: vec![self.listener.lock().clone()],
            },
            ..RouterHello::default()
        }
        .write(&mut headers);
        Ok(Admission {
            listener_id: self.id.clone(),
            identity: Vec::new(),
            headers,
            channel: ChannelOptions { heartbeat: None, ..ChannelOptions::control("controller") },
            group: Some(GroupPolicy::control_listener()),
        })
    }

    async fn established(&self, channel: Established) {
        let _ = self.channels.send(channel);
    }
}

impl Waiting {
    async fn new(net: &Net, name: &str, group: &str) -> Self {
        let router = net.router(name).await;
        let keys = net.bed.controller.auth().keys();
        let key = router.chain.key().clone();
        let sans = vec![San::Ip([127, 0, 0, 1].into())];
        let subject = SubjectName::common_name(router.id.as_str());
        let leaf =
            Leaf::for_key(key.public(), &subject, sans, KeyPurpose::Server, SystemTime::now())
                .unwrap();
        let server = KeyedChain::new(vec![keys.authority.issue(&leaf).unwrap()], key).unwrap();
        let identity = Identity::new(None, vec![server], keys.bundle.clone());
        let tls = ControlPlane::tls(&LiveIdentity::fixed(identity)).unwrap();
        let (sender, channels) = mpsc::unbounded_channel();
        let listener = Arc::new(parking_lot::Mutex::new(CtrlChanListener::default()));
        let id = router.id.to_string();
        let door = Door { id, listener: Arc::clone(&listener), channels: sender };
        let acceptor = Arc::new(ChannelAcceptor::new(door, AcceptOptions::default()));
        let (listeners, limits) = (Listeners::new(), ListenerLimits::default());
        let listening = listeners.listen("127.0.0.1:0", limits, &[alpn::CTRL], tls, acceptor);
        let registration = listening.await.unwrap();
        let address = format!("tls:127.0.0.1:{}", registration.local_addr().port());
        *listener.lock() = CtrlChanListener { address, groups: vec![group.to_owned()] };
        let waiting = Self { router, channels, registration };
        waiting.announce(net, group).await;
        waiting
    }

    async fn announce(&self, net: &Net, group: &str) {
        let address = format!("tls:127.0.0.1:{}", self.registration.local_addr().port());
        self.patch(net, json!({"ctrlChanListeners": {address: [group]}})).await;
    }

    async fn patch(&self, net: &Net, body: Value) {
        net.manage("patchEdgeRouter", &[self.router.id.as_str()], body).await;
    }

    /// The next channel that the controller opens.
    async fn dialed(&mut self) -> Peer {
        Peer::start(soon(self.channels.recv()).await.unwrap())
    }

    fn was_dialed(&mut self) -> bool {
        self.channels.try_recv().is_ok()
    }
}

fn connection(net: &Net, router: &TestRouter) -> Option<u64> {
    net.network.routers().get(router.id.as_str()).map(|live| live.number())
}

fn dial_routers(net: &Net) {
    let keys = net.bed.controller.auth().keys();
    let session = keys.session.clone();
    let identity = Identity::new(Some(session.clone()), vec![session], keys.bundle.clone());
    let options = DialerOptions {
        groups: vec!["default".into()],
        dial_delay: Duration::ZERO,
        min_retry_interval: Duration::from_millis(20),
        max_retry_interval: Duration::from_millis(200),
        retry_backoff_factor: 1.5,
        fast_failure_window: Duration::from_millis(50),
        max_workers: 2,
        queue_size: 32,
    };
    net.plane.dial_routers(&LiveIdentity::fixed(identity), options).unwrap();
}

#[tokio::test]
async fn who_is_connected_is_not_dialed_and_who_was_dialed_keeps_the_channel() {
    // A router that dialed the controller replaces its channel when it dials again. A router that the
    // controller dialed keeps the channel.
    let net = Net::new().await;
    let mut own = Waiting::new(&net, "comes by itself", "default").await;
    let mut other = Waiting::new(&net, "waits", "default").await;
    let peer = net.connect(&own.router).await;
    own.announce(&net, "default").await;
    dial_routers(&net);
    let dialed = other.dialed().await;
    until(|| connection(&net, &other.router).is_some()).await;
    assert!(!own.was_dialed());
    // A router whose channel closes is dialed.
    peer.channel.close("test");
    let _again = own.dialed().await;

    // A router that dials meanwhile is told that there is a channel, which stays.
    let first = connection(&net, &other.router);
    for _ in 0..3 {
        let refused = net.dial(&other.router).await.map(drop).unwrap_err().to_string();
        assert!(refused.contains("already connected"), "{refused}");
    }
    assert_eq!(connection(&net, &other.router), first);
    assert!(!dialed.channel.is_closed());
    // After the channel has closed, the router may connect; then it is not dialed.
    dialed.channel.close("test");
    let came = loop {
        if let Ok(peer) = net.dial(&other.router).await {
            break peer;
        }
    };
    until(|| net.network.routers().get(other.router.id.as_str()).is_some_and(|it| !it.dialed))
        .await;
    assert!(!came.channel.is_closed());
}

#[tokio::test]
async fn only_enabled_routers_of_a_shared_group_are_dialed() {
    let net = Net::new().await;
    let mut blue = Waiting::new(&net, "blue", "blue").await;
    let mut off = Waiting::new(&net, "off", "default").await;
    off.patch(&net, json!({"disabled": true})).await;
    let mut shared = Waiting::new(&net, "shared", "default").await;
    dial_routers(&net);
    let _shared = shared.dialed().await;
    assert!(!blue.was_dialed() && !off.was_dialed());
    off.patch(&net, json!({"disabled": false})).await;
    let channel = off.dialed().await;
    until(|| connection(&net, &off.router).is_some()).await;
    blue.announce(&net, "default").await;
    let _blue = blue.dialed().await;
    // A disabled router is disconnected, and not dialed before it is enabled.
    off.patch(&net, json!({"disabled": true})).await;
    soon(channel.channel.closed()).await;
    net.manage("deleteEdgeRouter", &[blue.router.id.as_str()], Value::Null).await;
    shared.patch(&net, json!({"name": "another"})).await;
    assert!(!off.was_dialed() && !blue.was_dialed() && !shared.was_dialed());
}
