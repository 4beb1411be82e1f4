//! SDKs with several connections to the router.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use weft_channel::{Behaviour as _, CloseReason, RedialPolicy, TypePolicy, UnderlayWaker};
use weft_wire::hello::underlay;

use super::*;
use crate::bindings::edge::Dialed;
use crate::bindings::edge::connection::SdkConnection;

impl Router {
    /// An SDK that wants so many connections of each kind.
    pub(super) async fn grouped_sdk(&self, at: SocketAddr, default: usize, control: usize) -> Sdk {
        let kinds = [(underlay::EDGE_DEFAULT, default, 1), (underlay::EDGE_CONTROL, control, 0)];
        let types = kinds.map(|(kind, desired, min)| TypePolicy::new(kind, desired, min)).into();
        let redial = RedialPolicy {
            start_delay: Duration::ZERO,
            min_interval: Duration::from_millis(250),
            ..RedialPolicy::LINK
        };
        let group = GroupPolicy { types, redial: Some(redial), ..GroupPolicy::edge_listener() };
        let sdk = self.sdk_of(at, "sdk", "dialer", Some(group)).await;
        let wanted = default + control;
        self.until("its connections", || sdk.channel.underlays().len() == wanted).await;
        sdk
    }
}

/// A relay before the router, whose connections can be cut one by one.
struct Relay {
    address: SocketAddr,
    connections: Arc<Mutex<Vec<AbortHandle>>>,
}

impl Relay {
    async fn to(router: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections: Arc<Mutex<Vec<AbortHandle>>> = Arc::default();
        let made = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut far = TcpStream::connect(router).await.unwrap();
                let carrying = tokio::spawn(async move {
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                });
                made.lock().push(carrying.abort_handle());
            }
        });
        Self { address, connections }
    }

    /// Cuts the connection that was made first, second, ...
    fn cut(&self, number: usize) {
        self.connections.lock()[number].abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn circuits_end_with_the_connection_that_carries_their_data() {
    let router = router().await;
    let relay = Relay::to(router.address).await;
    let mut host = router.host("echo").await;
    let dialer = router.grouped_sdk(relay.address, 2, 0).await;
    let (_, there) = tokio::join!(dialer.connect(1, "echo"), host.accept());
    relay.cut(0);
    assert_eq!(host.closed().await.conn_id, there);
    router.until("the circuit to be gone", || router.data.counts() == (0, 0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn circuits_do_not_mind_the_loss_of_another_connection() {
    let router = router().await;
    let relay = Relay::to(router.address).await;
    let mut host = router.host("echo").await;
    let mut dialer = router.grouped_sdk(relay.address, 2, 0).await;
    let (_, there) = tokio::join!(dialer.connect(1, "echo"), host.accept());
    let connection = |name: &str| {
        let live = router.data.edge().live();
        live.into_iter().find(|one| one.session().is_some_and(|known| known.id == name)).unwrap()
    };
    let channel = connection("dialer").channel.clone();
    let before: Vec<u64> = channel.underlays().iter().map(|one| one.number).collect();
    relay.cut(1);
    let gone = || channel.underlays().iter().all(|one| one.number != before[1]);
    router.until("the connection to be gone", gone).await;
    host.send(there, "still here", 0).await;
    assert_eq!(&dialer.data().await.data[..], b"still here");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_comes_when_the_one_with_the_data_goes_does_not_stay_without() {
    let router = router().await;
    let _sdk = router.sdk("dialer").await;
    router.until("the connection", || !router.data.edge().live().is_empty()).await;
    let channel = router.data.edge().live().pop().unwrap().channel.clone();
    let dialed = Dialed { end: Options::default(), timeout: PATIENCE };
    let edge = Arc::clone(router.data.edge());
    let connection = SdkConnection::new(edge, channel.clone(), Arc::new(dialed), u64::MAX);
    let (info, waker) = (channel.underlays().pop().unwrap(), UnderlayWaker::default());
    let mut parts = connection.attach(&info, &waker, &channel);
    assert!(parts.outbox.is_some());
    parts.handler.on_detach(&CloseReason::Peer);
    assert!(!channel.is_closed(), "it was the only one: the channel says why it ends");
    connection.attach(&info, &waker, &channel);
    assert!(channel.is_closed());
}
