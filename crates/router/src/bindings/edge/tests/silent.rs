//! Peers that vanish without closing, and applications that read nothing. The limits tested here
//! are durations of the system's own clock, so that these tests take as long.

use socket2::SockRef;
use weft_channel::Lane;

use super::*;

/// The longest time for which the router keeps a host that has vanished.
const VANISHED: Duration = Duration::from_secs(40);

/// A relay before the router. Once told it vanishes: whatever the router sends to it is dropped,
/// below TCP, and it sends nothing more.
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
        // The filter of Berkeley that lets nothing through.
        let nothing = socket2::SockFilter::new(0x06, 0, 0, 0);
        SockRef::from(&router).attach_filter(&[nothing]).unwrap();
        std::future::pending::<()>().await;
    });
    address
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_vanishes_loses_its_terminator_in_40_seconds() {
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
    while *router.table.removed.lock() != [terminator.as_str()] {
        assert!(begun.elapsed() < VANISHED, "still known");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(begun.elapsed() > Duration::from_secs(10), "nothing was dropped");
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
    // The data that the host has for its other client waits now, but arrives in time.
    let begun = Instant::now();
    let hello = data(there[1], b"hello".to_vec());
    host.channel.send_timeout(Lane::High, hello, long).await.unwrap();
    let got = tokio::time::timeout(long, other.inbox.recv()).await.expect("in time").unwrap();
    assert_eq!(&Data::from_message(&got).unwrap().data[..], b"hello");
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
    assert_eq!(router.data.dropped().stuck, 1);
    flooding.abort();
}
