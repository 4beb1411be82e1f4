//! Tunnelers over a whole network: an identity's over the SDK, and the router's own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use weft_contract::resource;
use weft_sdk::{DialOptions, Endpoint};
use weft_tunnel::{
    DnsRecord, FindRecords, NamedPort, Protocol, RecordData, RecordQuestion, Records,
};
use weft_tunneler::{Options, Tunneler};

use crate::network::{Network, soon, until_some};

mod carried;
mod host_outage;

const HOST_V1: &str = "NH5p4FpGR";
const INTERCEPT_V1: &str = "g7cIWbcGg";
const PROXY_V1: &str = "proxy.v1";

/// A tunneler that runs until dropped.
struct Running {
    tunneler: Arc<Tunneler>,
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
}

impl Running {
    async fn start(network: &Network, name: &str, roles: &[&str], options: Options) -> Self {
        let file = network.identity_file_of(name, roles).await;
        let endpoint = Endpoint::builder()
            .config_types(weft_tunnel::config::TYPES)
            .refresh_interval(Duration::from_secs(1));
        let endpoint = soon(endpoint.build(file)).await.unwrap();
        let tunneler = Tunneler::new(endpoint, options);
        soon(tunneler.refresh()).await.unwrap();
        let (stop, running) = (CancellationToken::new(), Arc::clone(&tunneler));
        let stopped = stop.clone();
        let task = tokio::spawn(async move { running.run(&stopped).await });
        Self { tunneler, stop, task: AbortOnDropHandle::new(task) }
    }

    /// A tunneler that hosts every service that its identity may host.
    async fn host(network: &Network) -> Self {
        // All identities may dial the service; its ports are left to the tunneler of clients.
        let options = Options { offer: false, ..Options::default() };
        Self::start(network, "host", &["hosts"], options).await
    }

    /// A tunneler that offers these services at ports.
    async fn proxy(network: &Network, ports: &[(&str, Protocol)]) -> Self {
        let named = ports.iter().map(|(service, protocol)| NamedPort {
            service: (*service).to_owned(),
            port: 0,
            protocol: *protocol,
        });
        let options = Options { host: false, named: named.collect(), ..Options::default() };
        Self::start(network, "client", &[], options).await
    }

    /// The address at which a service is offered.
    async fn port(&self, service: &str) -> SocketAddr {
        let found = async || {
            let ports = self.tunneler.ports();
            ports.into_iter().find(|port| port.service == service)?.listening.ok()
        };
        until_some(found).await
    }

    /// Waits until a service can be dialed here.
    async fn hosts(&self, service: &str) {
        until_some(async || {
            let status = self.tunneler.status();
            let found = status.services.into_iter().find(|one| one.name == service)?;
            found.hosting.iter().any(|host| host.terminators > 0).then_some(())
        })
        .await;
    }

    async fn stop(self) {
        self.stop.cancel();
        soon(self.task).await.unwrap();
        assert_eq!(self.tunneler.drained(crate::network::LONG).await, 0);
    }
}

/// A service that identities with the attribute `hosts` may host, and all identities may dial.
async fn service(
    network: &Network,
    name: &str,
    encrypted: bool,
    configs: &[(&str, Value)],
) -> String {
    let mut ids = Vec::new();
    for (kind, data) in configs {
        let config = json!({"name": format!("{name} {kind}"), "configTypeId": kind, "data": data});
        ids.push(network.create(&resource::config::CONFIG_KIND, &config).await);
    }
    let body = json!({"name": name, "encryptionRequired": encrypted, "configs": ids});
    let id = network.create(&resource::service::KIND, &body).await;
    for (kind, roles) in [("Dial", "#all"), ("Bind", "#hosts")] {
        let policy = json!({"name": format!("{name} {kind}"), "type": kind, "semantic": "AnyOf",
            "identityRoles": [roles], "serviceRoles": [format!("@{id}")]});
        network.create(&resource::service_policy::KIND, &policy).await;
    }
    id
}

fn at(protocol: &str, port: u16) -> Value {
    json!({"protocol": protocol, "address": "127.0.0.1", "port": port})
}

/// An application that answers with all its input, once that has ended.
async fn application() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut heard = Vec::new();
                stream.read_to_end(&mut heard).await?;
                stream.write_all(&heard).await?;
                stream.shutdown().await
            });
        }
    });
    port
}

/// An application that sends every datagram back.
async fn reflector() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = socket.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut buffer = vec![0; 65_536];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let _ = socket.send_to(&buffer[..length], from).await;
        }
    });
    port
}

/// Sends this many bytes, ends, and reads the answer to its end.
async fn talk(at: SocketAddr, length: usize) -> std::io::Result<()> {
    let data: Vec<u8> = (0..length).map(|n| (n * 7 + n / 255) as u8).collect();
    let (mut reader, mut writer) = TcpStream::connect(at).await?.into_split();
    let sent = data.clone();
    let writing = tokio::spawn(async move {
        writer.write_all(&sent).await?;
        writer.shutdown().await.map(|()| writer)
    });
    let mut read = Vec::new();
    reader.read_to_end(&mut read).await?;
    writing.await.unwrap()?;
    if read == data { Ok(()) } else { Err(std::io::Error::other(format!("{} bytes", read.len()))) }
}

/// Sends and reads until that succeeds: routers hear of services and terminators after the controller.
async fn talked(at: SocketAddr, length: usize) {
    until_some(async || soon(talk(at, length)).await.ok()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_are_followed() {
    let network = Network::start().await;
    let (host, client) = (
        Running::host(&network).await,
        Running::start(&network, "client", &[], Options { host: false, ..Options::default() })
            .await,
    );
    let taken = crate::network::free_port();
    let proxy = json!({"port": taken, "protocols": ["tcp"], "binding": "127.0.0.1"});
    let port = application().await;
    let configs = [(HOST_V1, at("tcp", port)), (PROXY_V1, proxy)];
    let id = service(&network, "later", true, &configs).await;
    host.hosts("later").await;
    let at = client.port("later").await;
    assert_eq!(at.port(), taken);
    talked(at, 10_000).await;

    network.admin.delete(&resource::service::KIND, &id).await.unwrap();
    until_some(async || client.tunneler.ports().is_empty().then_some(())).await;
    until_some(async || host.tunneler.status().services.is_empty().then_some(())).await;
    until_some(async || TcpStream::connect(at).await.err()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_identity_that_is_deleted_serves_nothing_any_more() {
    let network = Network::start().await;
    service(&network, "echo", true, &[(HOST_V1, at("tcp", application().await))]).await;
    let host = Running::host(&network).await;
    let client = Running::proxy(&network, &[("echo", Protocol::Tcp)]).await;
    host.hosts("echo").await;
    let at = client.port("echo").await;
    talked(at, 10_000).await;
    for (name, running) in [("client", &client), ("host", &host)] {
        let filter = format!("name = \"{name}\"");
        let found: Vec<Value> =
            network.admin.list(&resource::identity::KIND, Some(&filter)).await.unwrap();
        let id = found[0]["id"].as_str().unwrap();
        network.admin.delete(&resource::identity::KIND, id).await.unwrap();
        // A service that was named to the tunneler stays in its status, with the reason.
        until_some(async || {
            let status = running.tunneler.status();
            status.services.iter().all(|service| service.unavailable.is_some()).then_some(())
        })
        .await;
        assert!(running.tunneler.ports().is_empty());
    }
    let left = client.tunneler.status().services;
    let names: Vec<_> = left.iter().map(|service| service.name.as_str()).collect();
    assert_eq!(names, ["echo"]);
    assert!(host.tunneler.status().services.is_empty());
    until_some(async || TcpStream::connect(at).await.err()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_forwards_is_told_what_the_service_is_known_as() {
    let network = Network::start().await;
    let port = application().await;
    let forward = json!({
        "forwardProtocol": true, "allowedProtocols": ["tcp"], "forwardAddress": true,
        "allowedAddresses": ["localhost"], "forwardPort": true,
        "allowedPortRanges": [{"low": port, "high": port}],
    });
    let intercept = |name: &str| {
        json!({"protocols": ["tcp"], "addresses": [name],
            "portRanges": [{"low": port, "high": port}]})
    };
    let both = |name: &str| [(HOST_V1, forward.clone()), (INTERCEPT_V1, intercept(name))];
    service(&network, "allowed", true, &both("localhost")).await;
    service(&network, "refused", true, &both("127.0.0.1")).await;
    let host = Running::host(&network).await;
    let client =
        Running::proxy(&network, &[("allowed", Protocol::Tcp), ("refused", Protocol::Tcp)]).await;
    for name in ["allowed", "refused"] {
        host.hosts(name).await;
    }
    talked(client.port("allowed").await, 10_000).await;
    let failed = || {
        let status = host.tunneler.status();
        status.services.iter().find(|one| one.name == "refused").unwrap().hosted.failed
    };
    let at = client.port("refused").await;
    until_some(async || {
        let refused = soon(talk(at, 10)).await.unwrap_err();
        // The client must not take the refusal for an empty answer.
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionReset, "{refused}");
        (failed() > 0).then_some(())
    })
    .await;
}

/// The only server that hosts ask: a mail server for every name.
struct Mail;

impl FindRecords for Mail {
    fn find(&self, question: RecordQuestion) -> BoxFuture<'_, Option<Records>> {
        let data = RecordData::Mx { preference: 10, host: format!("mail.{}.", question.name) };
        let found = vec![DnsRecord { ttl: 300, data }];
        async move { Some(Records { code: Records::FOUND, found }) }.boxed()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_answer_questions_for_records_as_tunnelers_in_c_ask_them() {
    weft_tunnel::find_records_by(Arc::new(Mail));
    let mut network = Network::start().await;
    network.stop_router().await;
    network.proxy_mode(&[]);
    let forward = json!({
        "protocol": "tcp", "port": 1, "forwardAddress": true, "allowedAddresses": ["*.corp.example"],
    });
    for (name, encrypted) in [("secret", true), ("plain", false)] {
        service(&network, name, encrypted, &[(HOST_V1, forward.clone())]).await;
    }
    // The router hosts this service.
    let id = service(&network, "routers", true, &[(HOST_V1, forward)]).await;
    let policy = json!({"name": "routers host", "type": "Bind", "semantic": "AnyOf",
        "identityRoles": ["#all"], "serviceRoles": [format!("@{id}")]});
    network.create(&resource::service_policy::KIND, &policy).await;
    network.start_router().await;
    let mut host = None;
    let file = network.identity_file_of("asker", &[]).await;
    let endpoint = soon(Endpoint::builder().build(file)).await.unwrap();
    for name in ["routers", "secret", "plain"] {
        if name == "secret" {
            host = Some(Running::host(&network).await);
        }
        let connection = until_some(async || {
            let app_data = Bytes::from_static(br#"{"connType":"resolver"}"#);
            let options = DialOptions::new().app_data(app_data);
            endpoint.dial_with(name, options).await.ok()
        })
        .await;
        let (mut reader, mut writer) = connection.into_split();
        for (id, asked, status) in [(1, "corp.example", 0), (2, "evil.example", 3)] {
            let question = json!({"id": id, "recursive": 1, "status": 0, "answer": [],
                "question": [{"name": asked, "type": 15}]});
            writer.write_all(question.to_string().as_bytes()).await.unwrap();
            let answer = soon(reader.read_message()).await.unwrap().unwrap();
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            assert_eq!(
                (&answer["id"], &answer["status"]),
                (&json!(id), &json!(status)),
                "{answer}"
            );
            let found = json!([{"name": "corp.example", "type": 15, "ttl": 300, "priority": 10,
                "data": "mail.corp.example."}]);
            assert_eq!(answer["answer"], if status == 0 { found } else { json!([]) });
        }
        // The conversation is over when the dialer has ended.
        writer.shutdown().await.unwrap();
        drop((reader, writer));
    }
    let host = host.unwrap();
    assert_eq!(host.tunneler.drained(crate::network::LONG).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_checks_move_terminators() {
    let mut network = Network::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut host_v1 = at("tcp", port);
    host_v1["listenOptions"] = json!({"cost": 7});
    host_v1["portChecks"] = json!([{
        "address": format!("127.0.0.1:{port}"), "interval": "100ms", "timeout": "1s", "actions": [
            {"trigger": "fail", "action": "mark unhealthy", "consecutiveEvents": 2},
            {"trigger": "fail", "action": "increase cost 5"},
            {"trigger": "change", "action": "send event"},
            {"trigger": "pass", "action": "mark healthy"},
            {"trigger": "pass", "action": "decrease cost 1000"},
        ],
    }]);
    service(&network, "checked", false, &[(HOST_V1, host_v1)]).await;
    let _host = Running::host(&network).await;
    // The router hosts the service, too.
    let all = network.list(&resource::identity::KIND).await;
    let own = all.iter().find(|one| one["name"] == "router1").unwrap();
    let id = own["id"].as_str().unwrap();
    network.patch(&resource::identity::KIND, id, &json!({"roleAttributes": ["hosts"]})).await;
    let is = async |wanted: fn(&Value) -> bool| {
        until_some(async || {
            let all = network.list(&resource::terminator::KIND).await;
            (all.len() == 2 && all.iter().all(wanted)).then_some(())
        })
        .await;
    };
    is(|one| one["precedence"] == "default" && one["cost"] == 7).await;
    drop(listener);
    is(|one| one["precedence"] == "failed" && one["cost"].as_u64() > Some(7)).await;
    let _listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    is(|one| one["precedence"] == "default" && one["cost"] == 7).await;
    network.stop_router().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_offers_services_at_ports() {
    let mut network = Network::start().await;
    network.stop_router().await;
    let [stream, datagrams] = [(); 2].map(|()| crate::network::free_port());
    network.proxy_mode(&[("web", stream, false), ("dns", datagrams, true)]);
    let (web, dns) = (application().await, reflector().await);
    service(&network, "web", true, &[(HOST_V1, at("tcp", web))]).await;
    service(&network, "dns", true, &[(HOST_V1, at("udp", dns))]).await;
    network.start_router().await;
    let host = Running::host(&network).await;
    host.hosts("web").await;
    host.hosts("dns").await;
    let to = SocketAddr::from(([127, 0, 0, 1], stream));
    talked(to, 1).await;
    soon(talk(to, 1_000_000)).await.unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(("127.0.0.1", datagrams)).await.unwrap();
    until_some(async || {
        socket.send(&[7; 3000]).await.ok()?;
        let mut buffer = [0; 4000];
        let answer = tokio::time::timeout(Duration::from_secs(1), socket.recv(&mut buffer)).await;
        (answer.ok()?.ok()? == 3000).then_some(())
    })
    .await;
    // Streams that have ended leave no circuit.
    let router = network.router();
    until_some(async || (router.data().counts().0 <= 1).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_proves_who_its_tunneler_is_as_host_and_as_dialer() {
    let mut network = Network::start().await;
    network.stop_router().await;
    let [stream, datagrams, own] = [(); 3].map(|()| crate::network::free_port());
    network.proxy_mode(&[("web", stream, false), ("dns", datagrams, true), ("own", own, false)]);
    let (web, dns) = (application().await, reflector().await);
    service(&network, "web", true, &[(HOST_V1, at("tcp", web))]).await;
    service(&network, "dns", true, &[(HOST_V1, at("udp", dns))]).await;
    // The router hosts this service.
    let id = service(&network, "own", true, &[(HOST_V1, at("tcp", web))]).await;
    let policy = json!({"name": "routers host", "type": "Bind", "semantic": "AnyOf",
        "identityRoles": ["#all"], "serviceRoles": [format!("@{id}")]});
    network.create(&resource::service_policy::KIND, &policy).await;
    for name in ["web", "dns", "own"] {
        network.demand(name).await;
    }
    network.start_router().await;
    let dialer = network.endpoint("dialer").await;
    let mut connection = until_some(async || dialer.dial("own").await.ok()).await;
    assert_eq!(soon(connection.peer()).await.unwrap().unwrap().name, "router1");
    let (mut reader, mut writer) = connection.into_split();
    writer.write_all(b"hello").await.unwrap();
    writer.shutdown().await.unwrap();
    let mut said = String::new();
    soon(reader.read_to_string(&mut said)).await.unwrap();
    assert_eq!(said, "hello");

    let host = Running::host(&network).await;
    host.hosts("web").await;
    host.hosts("dns").await;
    let to = |port| SocketAddr::from(([127, 0, 0, 1], port));
    // Twice: the second time both ends have met.
    for _ in 0..2 {
        talked(to(stream), 1_000_000).await;
    }
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(to(datagrams)).await.unwrap();
    until_some(async || {
        socket.send(&[7; 3000]).await.ok()?;
        let mut buffer = [0; 4000];
        let answer = tokio::time::timeout(Duration::from_secs(1), socket.recv(&mut buffer)).await;
        (answer.ok()?.ok()? == 3000).then_some(())
    })
    .await;
    // From this router's tunneler to this router's tunneler.
    talked(to(own), 100_000).await;
    // No router that cannot prove itself would be told of by the controller, and no terminator would be made.
    let terminators = network.list(&resource::terminator::KIND).await;
    assert!(terminators.iter().any(|it| it["binding"] == "tunnel"));
    network.stop_router().await;
}
