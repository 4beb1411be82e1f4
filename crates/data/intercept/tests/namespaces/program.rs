//! The interceptor under test, in a process of its own: this test program again, in a namespace.
//! Clients get an echo, or their own address and the destination that they dialed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpSocket, TcpStream};
use weft_intercept::{
    Arrival, Carry, DnsOptions, DnsRecord, FirewallKind, InterceptedClient, Interceptor,
    Interfaces, Limits, OWN_MARK, Options, OwnHosts, Protocol, RecordData, RecordKind,
    RecordQuestion, Records, Service, UdpConversation, Unanswerable, Upstream, UpstreamMode,
};

/// The program that `Lab::interceptor` runs; not a test.
#[test]
fn runs() {
    let Ok(options) = std::env::var("WEFT_LAB_PROGRAM") else { return };
    let options: Value = serde_json::from_str(&options).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(run(options));
}

fn texts(value: &Value) -> Vec<String> {
    let list = value.as_array().cloned().unwrap_or_default();
    list.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn options(value: &Value) -> Options {
    let upstream = texts(&value["upstream"])
        .into_iter()
        .map(|address| Upstream { address: address.parse().unwrap(), tcp: false });
    let dns = DnsOptions {
        listen: texts(&value["listen"]).iter().map(|at| at.parse().unwrap()).collect(),
        upstream: upstream.collect(),
        mode: UpstreamMode::Failover,
        unanswerable: Unanswerable::Refused,
        clients: clients(value),
        private_domains: texts(&value["private_domains"]),
    };
    let mut limits = Limits::default();
    if let Some(conversations) = value["conversations"].as_u64() {
        limits.conversations = conversations as usize;
    }
    if let Some(connections) = value["connections"].as_u64() {
        limits.connections_per_source = connections as usize;
    }
    Options {
        instance: value["instance"].as_str().unwrap_or("lab").to_owned(),
        names: value["names"].as_str().unwrap_or("100.64.0.1/10").parse().unwrap(),
        dns: (!dns.listen.is_empty()).then_some(dns),
        interfaces: match &value["interfaces"] {
            Value::String(_) => Interfaces::All,
            named => Interfaces::Named(texts(named)),
        },
        exclude: excluded(&value["exclude"]),
        keep_names: texts(&value["keep"]),
        udp_idle: Duration::from_secs(value["idle"].as_u64().unwrap_or(300)),
        udp_check: Duration::from_secs(1),
        limits,
        firewall: match value["firewall"].as_str() {
            Some("iptables") => FirewallKind::Iptables,
            _ => FirewallKind::Any,
        },
        diverter: value["diverter"].as_str().map(PathBuf::from),
        hosts_file: value["hosts"].as_str().map(PathBuf::from),
        locks: PathBuf::from(value["locks"].as_str().unwrap()),
    }
}

/// The clients of each address at which the DNS server listens.
fn clients(value: &Value) -> std::collections::BTreeMap<SocketAddr, Vec<ipnet::IpNet>> {
    let nets = texts(&value["clients"]);
    let nets: Vec<ipnet::IpNet> = nets.iter().map(|net| net.parse().unwrap()).collect();
    let listen = texts(&value["listen"]);
    let listen = listen.iter().filter(|_| !nets.is_empty());
    listen.map(|at| (at.parse().unwrap(), nets.clone())).collect()
}

fn excluded(value: &Value) -> Vec<(std::net::IpAddr, Option<u16>)> {
    let all = texts(value).into_iter().map(|text| match text.parse::<SocketAddr>() {
        Ok(at) => (at.ip(), Some(at.port())),
        Err(_) => (text.parse().unwrap(), None),
    });
    all.collect()
}

fn service(value: &Value) -> Service {
    let ports = value["ports"].as_array().unwrap().iter();
    Service {
        id: value["id"].as_str().unwrap().to_owned(),
        name: value["id"].as_str().unwrap().to_owned(),
        protocols: texts(&value["protocols"])
            .iter()
            .map(|name| if name == "tcp" { Protocol::Tcp } else { Protocol::Udp })
            .collect(),
        addresses: texts(&value["addresses"]),
        ports: ports.map(|range| serde_json::from_value(range.clone()).unwrap()).collect(),
        sources: texts(&value["sources"]),
        diverted: weft_intercept::Diverted {
            id: value["id"].as_str().unwrap().to_owned(),
            interfaces: value["via"].as_array().map(|_| texts(&value["via"])),
        },
    }
}

/// A carrier that echoes, in place of the hosts of services.
struct Echo;

impl Carry for Echo {
    fn carry(&self, arrival: Arrival, client: InterceptedClient) {
        tokio::spawn(async move {
            match client {
                InterceptedClient::Tcp(client) => {
                    let place = client.place;
                    let _ = tcp(arrival, client.stream).await;
                    drop(place);
                }
                InterceptedClient::Udp(conversation) => udp(arrival, conversation).await,
            }
        });
    }

    /// A host that has records of every name except those that begin with `none`, and does not
    /// answer questions for those that begin with `silent`.
    fn records(
        &self,
        service: &Arc<str>,
        question: RecordQuestion,
    ) -> BoxFuture<'static, Option<Records>> {
        let host = format!("{service}.{}", question.name);
        let data = match question.kind {
            RecordKind::Mx => RecordData::Mx { preference: 10, host },
            RecordKind::Srv => RecordData::Srv { priority: 1, weight: 2, port: 5060, host },
            RecordKind::Txt => RecordData::Txt("t".repeat(700).into_bytes()),
        };
        let name = question.name;
        async move {
            if name.starts_with("silent") {
                return None;
            }
            if name.starts_with("none") {
                return Some(Records::none(Records::NO_NAME));
            }
            Some(Records { code: Records::FOUND, found: vec![DnsRecord { ttl: 77, data }] })
        }
        .boxed()
    }
}

async fn run(value: Value) {
    let say = |reply: Value| println!("\n@@ {reply}");
    let hosts = OwnHosts::new(&options(&value));
    let interceptor = match Interceptor::start(options(&value), Arc::new(Echo)).await {
        Ok(interceptor) => interceptor,
        Err(error) => return say(json!({ "error": error.to_string() })),
    };
    say(json!({ "started": true }));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let asked: Value = serde_json::from_str(&line).unwrap();
        let told = |problems: Vec<weft_intercept::NotIntercepted>| {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            json!({ "problems": problems })
        };
        if let Some(services) = asked["set"].as_array() {
            let services: Vec<Service> = services.iter().map(service).collect();
            say(told(interceptor.set_services(&services).await));
        } else if asked["add"].is_object() {
            say(told(interceptor.add(&service(&asked["add"])).await));
        } else if let Some(id) = asked["remove"].as_str() {
            interceptor.remove(id).await;
            say(json!({}));
        } else if asked["exclude"].is_array() {
            interceptor.exclude(excluded(&asked["exclude"]));
            say(json!({}));
        } else if let Some(to) = asked["dial"].as_str() {
            let reached = dial_ourselves(to.parse().unwrap()).await;
            say(json!({ "reached": reached.map_err(|error| error.to_string()).ok() }));
        } else if let Some(name) = asked["lookup"].as_str() {
            let found = hosts.lookup(name).await;
            let found: Vec<_> = found.unwrap_or_default().iter().map(ToString::to_string).collect();
            say(json!({ "found": found }));
        } else if asked["counts"] == true {
            let counts = interceptor.counts();
            let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
            say(json!({
                "services": counts.services, "names": counts.names, "elements": counts.elements,
                "connections": counts.connections, "conversations": counts.conversations, "tasks": tasks,
            }));
        } else {
            interceptor.stop().await;
            return say(json!({ "stopped": true }));
        }
    }
}

/// The answer to a connection with the mark of this program's own connections.
async fn dial_ourselves(to: SocketAddr) -> std::io::Result<String> {
    let socket = if to.is_ipv6() { TcpSocket::new_v6()? } else { TcpSocket::new_v4()? };
    socket2::SockRef::from(&socket).set_mark(OWN_MARK)?;
    let dialing = async {
        let mut stream = socket.connect(to).await?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    tokio::time::timeout(Duration::from_secs(3), dialing).await?
}

fn told(arrival: &Arrival) -> String {
    let Arrival { service, protocol, source, destination, hostname } = arrival;
    let hostname = hostname.as_deref().unwrap_or("-");
    format!("{service} {protocol} {} {destination} {hostname}", source.ip())
}

async fn tcp(arrival: Arrival, mut stream: TcpStream) -> std::io::Result<()> {
    // `pipe-5201` is a service behind which a program of the gateway listens at that port.
    if let Some(port) = arrival.service.strip_prefix("pipe-") {
        let mut server = TcpStream::connect(("127.0.0.1", port.parse().unwrap())).await?;
        copy_bidirectional(&mut stream, &mut server).await?;
        return Ok(());
    }
    let mut buffer = vec![0; 65_536];
    loop {
        let length = stream.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        if buffer.starts_with(b"GET ") {
            let body = told(&arrival);
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length:";
            stream.write_all(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes()).await?;
            return Ok(());
        }
        stream.write_all(&buffer[..length]).await?;
    }
}

async fn udp(arrival: Arrival, mut conversation: UdpConversation) {
    let replies = conversation.replies();
    if let Some(port) = arrival.service.strip_prefix("pipe-") {
        let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(("127.0.0.1", port.parse::<u16>().unwrap())).await.unwrap();
        let mut buffer = vec![0; 65_536];
        loop {
            tokio::select! {
                datagram = conversation.recv() => {
                    let Some(datagram) = datagram else { return };
                    let _ = socket.send(&datagram).await;
                }
                Ok(length) = socket.recv(&mut buffer) => {
                    let _ = replies.send(&buffer[..length]).await;
                }
            }
        }
    }
    let mut count = 0;
    while let Some(datagram) = conversation.recv().await {
        count += 1;
        let answer = match &datagram[..] {
            b"who" => told(&arrival).into_bytes(),
            b"count" => count.to_string().into_bytes(),
            b"end" => return drop(replies.send(b"ended").await),
            other => other.to_vec(),
        };
        if replies.send(&answer).await.is_err() {
            return;
        }
    }
}

/// A program, not a test: it opens connections to an address, one after the other on several tasks,
/// each with a few bytes in both directions. Each of them has to succeed.
#[test]
fn dials() {
    let Ok(options) = std::env::var("WEFT_LAB_DIALS") else { return };
    let options: Value = serde_json::from_str(&options).unwrap();
    let number = |key: &str| options[key].as_u64().unwrap() as usize;
    let (count, first, services) = (number("count"), number("first"), number("services"));
    let pause = Duration::from_micros(options["pause"].as_u64().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let slots = Arc::new(tokio::sync::Semaphore::new(64));
        let mut tasks = tokio::task::JoinSet::new();
        let mut pace = (!pause.is_zero()).then(|| tokio::time::interval(pause));
        for index in 0..count {
            let slot = Arc::clone(&slots).acquire_owned().await.unwrap();
            let host = first + index % services;
            let to: SocketAddr = ([10, 99, (host >> 8) as u8, host as u8], 443).into();
            tasks.spawn(async move {
                let dialing = async {
                    let mut stream = TcpStream::connect(to).await?;
                    stream.write_all(b"short").await?;
                    stream.shutdown().await?;
                    let mut back = Vec::new();
                    stream.read_to_end(&mut back).await?;
                    assert_eq!(back, b"short", "{to}");
                    std::io::Result::Ok(())
                };
                let done = tokio::time::timeout(Duration::from_secs(30), dialing).await;
                done.unwrap_or_else(|_| panic!("{to} did not answer")).unwrap();
                drop(slot);
            });
            while let Some(done) = tasks.try_join_next() {
                done.unwrap();
            }
            if let Some(pace) = &mut pace {
                pace.tick().await;
            }
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    });
}
