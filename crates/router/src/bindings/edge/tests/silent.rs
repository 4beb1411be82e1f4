//! Peers that vanish without closing, and applications that read nothing.

#[cfg(target_os = "linux")]
use socket2::{SockRef, TcpKeepalive};
use weft_channel::Lane;
#[cfg(target_os = "linux")]
use weft_channel::PEER_TIMEOUT;

use super::*;

/// A relay before the router. Once told it vanishes: whatever the router sends to it is dropped,
/// below TCP, and it sends nothing more. The system then misses it after one second already.
#[cfg(target_os = "linux")]
async fn relay(to: std::net::SocketAddr, vanish: CancellationToken) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut sdk, _) = listener.accept().await.unwrap();
        let mut router = tokio::net::TcpStream::connect(to).await.unwrap();
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut sdk, &mut router) => {}
            () = vanish.cancelled() => {}
        }
        let accepted = socket_of(router.local_addr().unwrap());
        let accepted = SockRef::from(&accepted);
        assert!(accepted.keepalive().unwrap(), "the system would never miss a peer");
        assert_eq!(accepted.tcp_user_timeout().unwrap(), Some(PEER_TIMEOUT));
        let second = Duration::from_secs(1);
        let keepalive = TcpKeepalive::new().with_time(second).with_interval(second);
        accepted.set_tcp_keepalive(&keepalive).unwrap();
        accepted.set_tcp_user_timeout(Some(second)).unwrap();
        // A socket filter of one instruction (BPF), which drops every packet.
        let nothing = socket2::SockFilter::new(0x06, 0, 0, 0);
        SockRef::from(&router).attach_filter(&[nothing]).unwrap();
        std::future::pending::<()>().await;
    });
    address
}

/// The socket of this process that is connected with this address.
#[cfg(target_os = "linux")]
fn socket_of(peer: std::net::SocketAddr) -> socket2::Socket {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
    let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let numbers = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let sockets = numbers.filter_map(|number| {
        pidfd_getfd(&own, number, PidfdGetfdFlags::empty()).ok().map(socket2::Socket::from)
    });
    let is_there = |socket: &socket2::Socket| {
        socket.peer_addr().is_ok_and(|address| address.as_socket() == Some(peer))
    };
    sockets.into_iter().find(is_there).expect("the router accepted the connection")
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_vanishes_loses_its_terminator() {
    let router = router().await;
    let vanish = CancellationToken::new();
    let at = relay(router.address, vanish.clone()).await;
    let mut host = router.sdk_of(at, "sdk", "host of echo", None).await;
    let bind = Bind {
        conn_id: 1,
        token: "echo".into(),
        router_conn_ids: true,
        supports_bind_success: true,
        ..Bind::default()
    };
    host.channel.request(bind.to_message(), PATIENCE).await.unwrap();
    assert_eq!(host.next().await.content_type, content_type::BIND_SUCCESS);
    let terminator = router.table.terminators.lock().get("echo").unwrap().id.clone();
    vanish.cancel();
    let begun = Instant::now();
    let gone = || *router.table.removed.lock() == [terminator.as_str()];
    router.until("the terminator of a host that has vanished to be removed", gone).await;
    assert!(begun.elapsed() > Duration::from_millis(500), "nothing was dropped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_reads_nothing_does_not_stop_an_old_host_for_its_other_clients() {
    let router = router().await;
    let mut host = router.host("echo").await;
    let (mut stalled, mut other) = (router.sdk("stalled").await, router.sdk("other").await);
    let mut there = Vec::new();
    for (client, use_xgress) in [(&stalled, true), (&other, false)] {
        let connect = Connect { conn_id: Some(1), token: "echo".into(), ..Connect::default() };
        let connect = Connect { use_xgress, ..connect };
        let connecting = client.channel.request(connect.to_message(), PATIENCE);
        let (connected, accepted) = tokio::join!(connecting, host.accept());
        StateConnected::from_message(&connected.unwrap()).unwrap();
        there.push(accepted);
    }
    // The reader's SDK has flow control of its own, and its application reads nothing. The host
    // answers with more bytes than that flow control lets through.
    tokio::spawn(async move { while stalled.inbox.recv().await.is_some() {} });
    let data = |conn_id, data: Vec<u8>| {
        Data { conn_id, flags: 0, uuid: None, data: data.into() }.to_message()
    };
    let (channel, flood) = (host.channel.clone(), data(there[0], vec![7; 32 * 1024]));
    let long = 3 * PATIENCE;
    let flooding = tokio::spawn(async move {
        while channel.send_timeout(Lane::Default, flood.clone(), long).await.is_ok() {}
    });
    let paused = || router.data.edge().live().iter().any(|sdk| sdk.pause.is_on());
    router.until("the host to be read no longer", paused).await;
    // The data that the host has for its other client arrives while the reader still may read.
    let hello = data(there[1], b"hello".to_vec());
    host.channel.send_timeout(Lane::High, hello, long).await.unwrap();
    let got = tokio::time::timeout(long, other.inbox.recv()).await.expect("in time").unwrap();
    assert_eq!(&Data::from_message(&got).unwrap().data[..], b"hello");
    assert_eq!(router.data.dropped().stuck, 0);
    flooding.abort();
}
