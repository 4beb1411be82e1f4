//! Ports for services.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::mpsc;

use super::*;
use crate::{AppData, Call, Client, Refusal};

/// Answers clients with the name of their service; sends the application data for hosts to a
/// test.
struct Names(mpsc::UnboundedSender<AppData>);

impl Carrier for Names {
    fn carry(&self, call: Call) -> BoxFuture<'static, Result<(), Refusal>> {
        self.0.send(AppData::parse(&call.app_data).unwrap()).unwrap();
        async move {
            let name = call.service.name.as_bytes();
            match call.client {
                Client::Tcp(stream) => {
                    #[cfg(target_os = "linux")]
                    assert_eq!(
                        socket2::SockRef::from(&stream).tcp_user_timeout().unwrap(),
                        None,
                        "a client that reads nothing for a while would be cut"
                    );
                    let (_reader, half) = stream.into_split();
                    let mut writer = crate::AppWriter::new(half);
                    writer.write_all(name).await.unwrap();
                    writer.ended();
                }
                Client::Udp(client) => {
                    while client.receive().await.is_some() {
                        client.answer(name).await.unwrap();
                    }
                }
            }
            Ok(())
        }
        .boxed()
    }
}

fn wanted(name: &str, port: u16, configs: &[(&str, &str)]) -> Vec<PortWanted> {
    let service = Arc::new(Service { name: name.into(), ..Service::default() });
    let configs = configs.iter().map(|(kind, text)| ((*kind).into(), (*text).into())).collect();
    let named = [Protocol::Tcp, Protocol::Udp].map(|protocol| NamedPort {
        service: name.into(),
        port,
        protocol,
    });
    PortWanted::of(&service, &configs, &Identity::default(), &named, &ListenAt::HERE)
}

async fn said(at: SocketAddr) -> String {
    let mut said = String::new();
    let mut stream = TcpStream::connect(at).await.unwrap();
    stream.read_to_string(&mut said).await.unwrap();
    said
}

#[tokio::test]
async fn ports_become_what_is_wanted() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let ports = Ports::new(Arc::new(Names(tell)), UdpTimes::default());
    let intercept = r#"{"protocols":["tcp"],"addresses":["web.corp"],
        "portRanges":[{"low":443,"high":443}]}"#;
    let web = wanted("web", 0, &[("intercept.v1", intercept)]);
    ports.set(web.clone()).await;
    let before = ports.states();
    let [tcp, udp] = before.as_slice() else { panic!("{before:?}") };
    let (tcp, udp) = (tcp.listening.clone().unwrap(), udp.listening.clone().unwrap());
    assert_eq!(said(tcp).await, "web");
    // A host that forwards is told the address at which the service is known.
    let data = told.recv().await.unwrap();
    assert_eq!(data.required("dst_hostname"), Ok("web.corp"));
    assert_eq!(data.required("dst_port"), Ok("443"));
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(b"?", udp).await.unwrap();
    let mut buffer = [0; 16];
    let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
    assert_eq!((&buffer[..length], from), (&b"web"[..], udp));

    ports.set(web).await;
    assert_eq!(ports.states(), before, "what stays the same stays");
    // Another service takes the same port, at once.
    let own = format!(r#"{{"port":{},"protocols":["tcp"]}}"#, tcp.port());
    ports.set(wanted("wiki", 0, &[("proxy.v1", &own)])).await;
    assert_eq!(said(tcp).await, "wiki");
    ports.set(wanted("docs", 0, &[("proxy.v1", &own)])).await;
    assert_eq!(said(tcp).await, "docs");
    ports.set(Vec::new()).await;
    assert!(ports.states().is_empty());
    assert!(TcpStream::connect(tcp).await.is_err());
}

/// A client in datagrams.
struct Asks(UdpSocket);

impl Asks {
    async fn new() -> Self {
        Self(UdpSocket::bind("127.0.0.1:0").await.unwrap())
    }

    /// The answer to a datagram; none if there is none within the time.
    async fn answer(&self, at: SocketAddr, time: Duration) -> Option<String> {
        self.0.send_to(b"?", at).await.unwrap();
        let mut buffer = [0; 16];
        let received = tokio::time::timeout(time, self.0.recv_from(&mut buffer)).await;
        let (length, from) = received.ok()?.unwrap();
        assert_eq!(from, at);
        Some(String::from_utf8(buffer[..length].to_vec()).unwrap())
    }
}

/// A port of an address at which nobody else takes ports.
fn udp(name: &str, port: u16) -> Vec<PortWanted> {
    let own = format!(r#"{{"port":{port},"protocols":["udp"],"binding":"127.77.2.1"}}"#);
    wanted(name, 0, &[("proxy.v1", &own)])
}

// Other systems have one loopback address only.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn conversations_in_datagrams_go_on_when_their_port_changes_and_goes() {
    let (tell, _told) = mpsc::unbounded_channel();
    let times = UdpTimes { idle: Duration::from_secs(1), ..UdpTimes::default() };
    let times = UdpTimes { check: Duration::from_millis(50), ..times };
    let ports = Ports::new(Arc::new(Names(tell)), times);
    let at = UdpSocket::bind("127.77.2.1:0").await.unwrap().local_addr().unwrap();
    ports.set(udp("web", at.port())).await;
    let (early, late, later) = (Asks::new().await, Asks::new().await, Asks::new().await);
    let (long, short) = (Duration::from_secs(10), Duration::from_millis(100));
    assert_eq!(early.answer(at, long).await.as_deref(), Some("web"));

    ports.set(udp("wiki", at.port())).await;
    assert_eq!(ports.states().remove(0).listening, Ok(at));
    assert_eq!(early.answer(at, long).await.as_deref(), Some("web"), "it stays where it is");
    assert_eq!(late.answer(at, long).await.as_deref(), Some("wiki"));

    ports.set(Vec::new()).await;
    assert_eq!(early.answer(at, long).await.as_deref(), Some("web"));
    assert_eq!(later.answer(at, short).await, None, "nobody new is accepted");
    ports.set(udp("docs", at.port())).await;
    assert_eq!(ports.states().remove(0).listening, Ok(at));
    assert_eq!(later.answer(at, long).await.as_deref(), Some("docs"));

    // Once the last conversation is idle, the port is free.
    drop(ports);
    let free = async {
        while UdpSocket::bind(at).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(long, free).await.unwrap();
}

#[tokio::test]
async fn a_port_that_is_taken_is_told_and_tried_again() {
    let (tell, _told) = mpsc::unbounded_channel();
    let ports = Ports::new(Arc::new(Names(tell)), UdpTimes::default());
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = taken.local_addr().unwrap();
    let own = format!(r#"{{"port":{},"protocols":["tcp"],"binding":"127.0.0.1"}}"#, at.port());
    let web = wanted("web", 0, &[("proxy.v1", &own)]);
    ports.set(web.clone()).await;
    let problem = ports.states().remove(0).listening.unwrap_err();
    assert!(problem.contains(&at.to_string()), "{problem}");
    drop(taken);
    ports.catch_up().await;
    assert_eq!(ports.states().remove(0).listening, Ok(at));
    let own = r#"{"port":7,"protocols":["tcp"],"binding":"no-such-interface"}"#;
    ports.set(wanted("web", 0, &[("proxy.v1", own)])).await;
    let problem = ports.states().remove(0).listening.unwrap_err();
    assert!(problem.contains("there are ") && problem.contains("lo"), "{problem}");
}

// Other systems have one loopback address only.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_port_follows_the_address_of_its_interface() {
    use std::sync::atomic::{AtomicU8, Ordering};
    /// The last byte of the address of the interface `wlan0`; 0 while it has none.
    static WLAN: AtomicU8 = AtomicU8::new(1);
    fn interfaces() -> io::Result<Addresses> {
        let last = WLAN.load(Ordering::Relaxed);
        let wlan = (last != 0).then(|| ("wlan0".to_owned(), [127, 77, 1, last].into()));
        let eth = ("eth0".to_owned(), [127, 77, 1, 9].into());
        Ok(wlan.into_iter().chain([eth]).collect())
    }
    let (tell, _told) = mpsc::unbounded_channel();
    let ports = Ports::new(Arc::new(Names(tell)), UdpTimes::default());
    let ports = Ports { interfaces, ..ports };
    // Of an address at which nobody else takes ports.
    let free = UdpSocket::bind("127.77.1.1:0").await.unwrap().local_addr().unwrap().port();
    let own = format!(r#"{{"port":{free},"protocols":["tcp","udp"],"binding":"wlan0"}}"#);
    let all = || [wanted("web", 0, &[("proxy.v1", &own)]), wanted("dns", 0, &[])].concat();
    ports.set(all()).await;
    let at = |last| SocketAddr::from(([127, 77, 1, last], free));
    let states = || ports.states().into_iter().map(|one| one.listening).collect::<Vec<_>>();
    let others = states().split_off(2);
    assert_eq!(states()[..2], [Ok(at(1)), Ok(at(1))]);
    let (client, long) = (Asks::new().await, Duration::from_secs(10));
    assert_eq!(client.answer(at(1), long).await.as_deref(), Some("web"));

    // The machine joins another network.
    WLAN.store(2, Ordering::Relaxed);
    ports.catch_up().await;
    assert_eq!(states()[..2], others);
    assert_eq!(states()[2..], [Ok(at(2)), Ok(at(2))]);
    assert_eq!(said(at(2)).await, "web");
    assert_eq!(Asks::new().await.answer(at(2), long).await.as_deref(), Some("web"));
    assert!(TcpStream::connect(at(1)).await.is_err());
    assert_eq!(client.answer(at(1), long).await.as_deref(), Some("web"), "it was there before");
    // It leaves the network, and joins the first one again. Its client has never left.
    WLAN.store(0, Ordering::Relaxed);
    ports.catch_up().await;
    let problem = states()[2].clone().unwrap_err();
    assert!(problem.contains("`wlan0`") && problem.contains("eth0"), "{problem}");
    WLAN.store(1, Ordering::Relaxed);
    ports.set(all()).await;
    assert_eq!(states()[..2], others);
    assert_eq!(states()[2..], [Ok(at(1)), Ok(at(1))]);
    assert_eq!(client.answer(at(1), long).await.as_deref(), Some("web"));
}
