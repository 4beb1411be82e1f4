//! Programs that know nothing of the network: over a listener of one router to an address that
//! another one dials.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use crate::mesh::links;
use crate::network::{Network, Peer, UNRESTRICTED, free_port, soon, until_some};

const LISTENERS: &str = "listeners:\n\
    - {binding: proxy, address: 'tcp:127.0.0.1:0', service: web}\n\
    - {binding: proxy_udp, address: 'udp:127.0.0.1:0', service: names}\n\
    - {binding: transport, bind: 'tcp:127.0.0.1:0', options: {mtu: 1400, getCircuitTimeout: 20s}}\n\
    - {binding: transport_udp, address: 'udp4:127.0.0.1:0', options: {mtu: 1400}}\n\
    - {binding: proxy, address: 'tcp:127.0.0.1:0', service: sealed, options: {randomDrops: true, drop1InN: 50}}\n";

/// A network with a router that hosts and one that listens, linked.
async fn linked(listens: &str) -> (Network, Peer, Peer) {
    let network = Network::start().await;
    let mut hosts = network.enrolled_router("hosts", free_port(), free_port()).await;
    hosts.configure("dialers: [{binding: transport, options: {connectTimeout: 5s, mtu: 1400}}]\n");
    hosts.start().await;
    let link = free_port();
    let mut router = network.enrolled_router(listens, link, link).await;
    router.configure(LISTENERS);
    router.start().await;
    links(&router, 1).await;
    // The controller hears of the link a moment later than the routers, and has no path before.
    until_some(async || (!network.circuits().links().all().is_empty()).then_some(())).await;
    (network, hosts, router)
}

/// An application that answers with all the data that it received, once its peer has ended.
async fn application() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut got = Vec::new();
                stream.read_to_end(&mut got).await.unwrap();
                got.reverse();
                stream.write_all(&got).await.unwrap();
            });
        }
    });
    address
}

async fn ask(at: SocketAddr, said: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(at).await.unwrap();
    stream.write_all(said).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut got = Vec::new();
    stream.read_to_end(&mut got).await.unwrap();
    got
}

async fn exchange(socket: &UdpSocket, at: SocketAddr, said: &[u8]) -> Vec<u8> {
    let mut buffer = vec![0; 65_536];
    socket.send_to(said, at).await.unwrap();
    let (count, _) = soon(socket.recv_from(&mut buffer)).await.unwrap();
    buffer.truncate(count);
    buffer
}

/// Waits until the controller and all routers have forgotten all circuits.
async fn nothing_left(network: &Network, routers: [&Peer; 2]) {
    until_some(async || network.circuits().circuits().all().is_empty().then_some(())).await;
    for router in routers {
        let data = router.router().data();
        until_some(async || (data.counts().0 == 0 && data.budget_used() == 0).then_some(())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tcp_goes_from_a_listener_to_an_address_over_a_link() {
    let (network, hosts, router) = Box::pin(linked(UNRESTRICTED)).await;
    let application = application().await;
    network.at_address("web", &hosts, "transport", &format!("tcp:{application}")).await;
    network.at_address("sealed", &hosts, "edge_transport", &format!("tcp:{application}")).await;
    let bound = router.router().ingress_addresses();
    let said: Vec<u8> = (0..3_000_000_u32).map(|number| (number / 11) as u8).collect();
    let expected: Vec<u8> = said.iter().rev().copied().collect();
    for proxy in [bound[0], bound[4]] {
        assert!(soon(ask(proxy, &said)).await == expected);
    }
    // The client names the service first, and payloads are small.
    let mut said_first = b"{\"id\":\"me\",\"svcId\":\"web\"}\n".to_vec();
    said_first.extend_from_slice(&said);
    let got = soon(ask(bound[2], &said_first)).await;
    let end = got.iter().position(|byte| *byte == b'\n').unwrap();
    assert!(got.starts_with(b"{\"scc\":true"));
    assert!(got[end + 1..] == expected);
    nothing_left(&network, [&hosts, &router]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datagrams_go_from_a_listener_to_an_address_over_a_link() {
    let (network, hosts, router) = Box::pin(linked(UNRESTRICTED)).await;
    let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = vec![0; 65_536];
        while let Ok((count, peer)) = server.recv_from(&mut buffer).await {
            buffer[..count].reverse();
            server.send_to(&buffer[..count], peer).await.unwrap();
        }
    });
    network.at_address("names", &hosts, "transport_udp", &format!("udp:{address}")).await;
    let bound = router.router().ingress_addresses();
    let (proxied, named) = (
        UdpSocket::bind("127.0.0.1:0").await.unwrap(),
        UdpSocket::bind("127.0.0.1:0").await.unwrap(),
    );
    let answer = exchange(&named, bound[3], b"{\"svcId\":\"names\"}").await;
    assert!(answer.starts_with(b"{\"scc\":true"), "{}", String::from_utf8_lossy(&answer));
    for (socket, at) in [(&proxied, bound[1]), (&named, bound[3])] {
        for size in [1, 1300, 1400, 40_000] {
            let said: Vec<u8> = (0..size).map(|number| number as u8).collect();
            let expected: Vec<u8> = said.iter().rev().copied().collect();
            assert!(exchange(socket, at, &said).await == expected, "{size} bytes are one datagram");
        }
    }
    drop((network, hosts, router));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_that_drains_serves_its_clients_and_takes_no_others() {
    let (network, hosts, router) = Box::pin(linked(UNRESTRICTED)).await;
    let application = application().await;
    network.at_address("web", &hosts, "transport", &format!("tcp:{application}")).await;
    let bound = router.router().ingress_addresses();
    let mut known = TcpStream::connect(bound[0]).await.unwrap();
    until_some(async || (router.router().data().counts().0 == 1).then_some(())).await;
    let draining = router.router().drain(Duration::from_secs(60));
    let clients = async {
        // The listener is closed: new clients cannot connect.
        until_some(async || TcpStream::connect(bound[0]).await.is_err().then_some(())).await;
        known.write_all(b"abc").await.unwrap();
        known.shutdown().await.unwrap();
        let mut got = Vec::new();
        known.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"cba");
    };
    // With its last client the router has nothing left to do.
    soon(async { tokio::join!(draining, clients) }).await;
    drop((network, hosts));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_that_may_not_use_a_service_says_why() {
    let (network, hosts, router) = Box::pin(linked("stranger")).await;
    let application = application().await;
    network.at_address("web", &hosts, "transport", &format!("tcp:{application}")).await;
    let bound = router.router().ingress_addresses();
    // The reset may come before the connection counts as made.
    if let Ok(mut refused) = TcpStream::connect(bound[0]).await {
        assert_eq!(soon(refused.read(&mut [0; 8])).await.unwrap_or(0), 0, "closed");
    }
    let answer = soon(ask(bound[2], b"{\"svcId\":\"web\"}\nhello")).await;
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["scc"], false);
    assert!(answer["msg"].as_str().unwrap().contains("unrestrictedBindings"), "{answer}");
    nothing_left(&network, [&hosts, &router]).await;
}
