//! Routers that link over DTLS, on good and on bad paths.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use weft_wire::Scheme;

use crate::mesh::links;
use crate::network::{Network, Peer, UNRESTRICTED, free_port, soon};

const LISTENERS: &str = "listeners:\n\
    - {binding: proxy, address: 'tcp:127.0.0.1:0', service: web, options: {mtu: 1400}}\n";
const DIALERS: &str = "dialers: [{binding: transport, options: {mtu: 1400}}]\n";

/// A path between two routers that loses one datagram in `loses`, and lets each eighth one be overtaken.
struct Path {
    at: SocketAddr,
    lost: Arc<AtomicU64>,
}

impl Path {
    async fn to(listener: u16, loses: u64) -> Self {
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let (at, lost) = (socket.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
        let fate = Arc::new(Fate { loses, seen: AtomicU64::new(0), lost: Arc::clone(&lost) });
        tokio::spawn(async move {
            let mut ways: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
            let mut buffer = vec![0; 65_536];
            while let Ok((count, from)) = socket.recv_from(&mut buffer).await {
                let way = match ways.get(&from) {
                    Some(way) => Arc::clone(way),
                    None => {
                        let way = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
                        way.connect(("127.0.0.1", listener)).await.unwrap();
                        ways.insert(from, Arc::clone(&way));
                        let (back, socket, fate) =
                            (Arc::clone(&way), Arc::clone(&socket), Arc::clone(&fate));
                        tokio::spawn(async move {
                            let mut buffer = vec![0; 65_536];
                            loop {
                                let Ok(count) = back.recv(&mut buffer).await else { continue };
                                let (socket, data) =
                                    (Arc::clone(&socket), buffer[..count].to_vec());
                                fate.decide(async move { drop(socket.send_to(&data, from).await) });
                            }
                        });
                        way
                    }
                };
                let data = buffer[..count].to_vec();
                fate.decide(async move { drop(way.send(&data).await) });
            }
        });
        Self { at, lost }
    }
}

struct Fate {
    loses: u64,
    seen: AtomicU64,
    lost: Arc<AtomicU64>,
}

impl Fate {
    fn decide(&self, send: impl Future<Output = ()> + Send + 'static) {
        let seen = self.seen.fetch_add(1, Ordering::Relaxed);
        if seen % self.loses == self.loses - 1 {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let late = Duration::from_millis(if seen % 8 == 7 { 3 } else { 0 });
        tokio::spawn(async move {
            if !late.is_zero() {
                tokio::time::sleep(late).await;
            }
            send.await;
        });
    }
}

/// A router that hosts and takes links over DTLS, and one that listens for programs and dials the link.
async fn linked(loses: u64) -> (Network, Peer, Peer, Path) {
    let network = Network::start().await;
    let link = free_port();
    let path = Path::to(link, loses).await;
    let mut hosts = network.enrolled_router("hosts", link, path.at.port()).await;
    hosts.configure(DIALERS);
    hosts.change(|config| {
        config.link.dialers.clear();
        for listener in &mut config.link.listeners {
            listener.bind.scheme = Scheme::Dtls;
            listener.advertise.scheme = Scheme::Dtls;
        }
    });
    hosts.start().await;
    let mut router = network.enrolled_router(UNRESTRICTED, free_port(), free_port()).await;
    router.configure(LISTENERS);
    router.change(|config| config.link.listeners.clear());
    router.start().await;
    links(&router, 1).await;
    (network, hosts, router, path)
}

/// An application that sends datagrams back.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reader, mut writer) = stream.split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
                let _ = writer.shutdown().await;
            });
        }
    });
    address
}

/// Sends this many bytes and checks that they come back.
async fn there_and_back(at: SocketAddr, size: u32) {
    let said: Vec<u8> = (0..size).map(|number| (number / 7 + number / 1021) as u8).collect();
    let stream = TcpStream::connect(at).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let writing = {
        let said = said.clone();
        tokio::spawn(async move {
            writer.write_all(&said).await.unwrap();
            writer.shutdown().await.unwrap();
        })
    };
    let mut got = Vec::new();
    reader.read_to_end(&mut got).await.unwrap();
    writing.await.unwrap();
    assert!(got == said, "{} bytes of {size} came back", got.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_routers_carry_a_flow_over_dtls() {
    let (network, hosts, router, _path) = Box::pin(linked(u64::MAX)).await;
    network.at_address("web", &hosts, "transport", &format!("tcp:{}", echo().await)).await;
    let at = router.router().ingress_addresses()[0];
    let flows = (0..4).map(|number| soon(there_and_back(at, 300_000 + number)));
    futures::future::join_all(flows).await;
    drop((network, hosts));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_is_whole_on_a_path_that_loses_and_reorders() {
    let (network, hosts, router, path) = Box::pin(linked(50)).await;
    network.at_address("web", &hosts, "transport", &format!("tcp:{}", echo().await)).await;
    let at = router.router().ingress_addresses()[0];
    soon(there_and_back(at, 300_000)).await;
    assert!(path.lost.load(Ordering::Relaxed) > 5);
    drop((network, hosts));
}
