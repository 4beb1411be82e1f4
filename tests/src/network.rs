//! A whole network in this process: a controller with its APIs and its control plane, an edge
//! router enrolled with it, identities that are enrolled by token.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weft_client::ManagementClient;
use weft_config::RouterConfig;
use weft_config::router::{Listener, ProxiedService, ProxyProtocol, TunnelMode};
use weft_contract::{Kind, resource};
use weft_control::DialerOptions;
use weft_controller::{Controller, Keys};
use weft_identity::LiveIdentity;
use weft_network::Network as Circuits;
use weft_router::{Router, Runtimes};
use weft_sdk::{Endpoint, IdentityFile};
use weft_wire::Scheme;

use crate::router_files::{common, linking_config, read, router_config};
use crate::seed::{Running, Seed};

/// Time limit for every wait of these tests.
pub(crate) const LONG: Duration = Duration::from_secs(60);
pub(crate) const PASSWORD: &str = "geheimnis";
/// The router whose own bindings may use every service.
pub(crate) const UNRESTRICTED: &str = "ingress";

pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, work).await.expect("took too long")
}

/// Tries an action until it succeeds.
pub(crate) async fn until_some<T>(mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    soon(async {
        loop {
            if let Some(done) = attempt().await {
                return done;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
}

/// A network that is up.
pub(crate) struct Network {
    pub(crate) admin: ManagementClient,
    router: Option<Router>,
    router_config: RouterConfig,
    controller: Option<Running>,
    seed: Seed,
    _home: TempDir,
}

impl Network {
    /// Starts controller and router, and waits until the router is online; identities may use all routers.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// [`Network::start`] with a controller whose settings were changed.
    pub(crate) async fn start_with(change: impl FnOnce(&mut Seed)) -> Self {
        let mut seed = Seed::new();
        change(&mut seed);
        let running = Box::pin(seed.start()).await;
        running.controller.init_admin("Default Admin", "admin", PASSWORD).await.unwrap();
        let admin = Box::pin(seed.log_in()).await;
        let home = tempfile::tempdir().unwrap();
        let router_config = router_config(home.path(), seed.port, free_port());
        let mut network = Self {
            admin,
            router: None,
            router_config,
            controller: Some(running),
            seed,
            _home: home,
        };
        Box::pin(network.enroll_router()).await;
        Box::pin(network.start_router()).await;
        network
    }

    async fn enroll_router(&self) {
        for (kind, roles) in [
            (&resource::edge_router_policy::KIND, "identityRoles"),
            (&resource::service_edge_router_policy::KIND, "serviceRoles"),
        ] {
            let all = json!({"name": "all", "semantic": "AnyOf",
                roles: ["#all"], "edgeRouterRoles": ["#all"]});
            self.create(kind, &all).await;
        }
        let body = json!({"name": "router1", "isTunnelerEnabled": true});
        let id = self.create(&resource::edge_router::KIND, &body).await;
        let router: Value = self.admin.get(&resource::edge_router::KIND, &id).await.unwrap();
        let token = router["enrollmentJwt"].as_str().unwrap();
        weft_router::enroll::enroll(&self.router_config, token).await.unwrap();
    }

    pub(crate) async fn start_router(&mut self) {
        let handle = tokio::runtime::Handle::current();
        // The socket of a router that was stopped is free a moment later.
        let router = until_some(async || {
            let runtimes = Runtimes::given(handle.clone(), handle.clone());
            Router::start(&self.router_config, runtimes).await.ok()
        })
        .await;
        soon(router.online()).await;
        self.router = Some(router);
    }

    /// The running router.
    pub(crate) fn router(&self) -> &Router {
        self.router.as_ref().unwrap()
    }

    /// Lets the router offer services at ports, from its next start on: name, port, and whether the port is
    /// for datagrams.
    pub(crate) fn proxy_mode(&mut self, services: &[(&str, u16, bool)]) {
        let services = services.iter().map(|(name, port, datagrams)| ProxiedService {
            name: (*name).to_owned(),
            port: *port,
            protocol: if *datagrams { ProxyProtocol::Udp } else { ProxyProtocol::Tcp },
        });
        for listener in &mut self.router_config.listeners {
            if let Listener::Tunnel(tunnel) = listener {
                tunnel.mode = TunnelMode::Proxy;
                tunnel.services = services.clone().collect();
            }
        }
    }

    pub(crate) async fn stop_router(&mut self) {
        if let Some(router) = self.router.take() {
            soon(router.shutdown()).await;
        }
    }

    /// Stops the controller and starts it again on its store.
    pub(crate) async fn restart_controller(&mut self) {
        self.stop_controller().await;
        self.start_controller().await;
    }

    pub(crate) async fn stop_controller(&mut self) {
        if let Some(running) = self.controller.take() {
            running.control.stop();
            running.api.shutdown(Duration::from_secs(5), Duration::from_secs(5)).await;
            running.circuits.stop().await;
        }
    }

    pub(crate) async fn start_controller(&mut self) {
        self.controller = Some(self.seed.start().await);
    }

    /// Changes entities while the controller is stopped, by a controller on the same store that no router
    /// reaches.
    pub(crate) async fn change_unseen(&mut self, change: impl AsyncFnOnce(&ManagementClient)) {
        assert!(self.controller.is_none(), "the controller is stopped");
        let port = std::mem::replace(&mut self.seed.port, free_port());
        self.start_controller().await;
        change(&self.seed.log_in().await).await;
        self.stop_controller().await;
        self.seed.port = port;
    }

    /// Makes an entity and returns its id.
    pub(crate) async fn create(&self, kind: &Kind, body: &Value) -> String {
        let made: Value =
            self.admin.call(kind.create().unwrap(), &[], &[], Some(body)).await.unwrap();
        made["id"].as_str().unwrap().to_owned()
    }

    /// Changes an entity.
    pub(crate) async fn patch(&self, kind: &Kind, id: &str, body: &Value) {
        let patch = kind.patch().unwrap();
        let _: Value = self.admin.call(patch, &[id], &[], Some(body)).await.unwrap();
    }

    /// The file of a router without edge, whose keys and certificates lie in a folder.
    pub(crate) fn transit_config(&self, home: &Path) -> RouterConfig {
        let csr =
            "csr: {sans: {dns: [localhost]}}\ndialers: [{binding: udp}, {binding: transport}]\n";
        read(&format!("{}{csr}", common(home, self.seed.port)), home)
    }

    /// A further edge router, enrolled and online, that links with all others.
    pub(crate) async fn another_router(&self, name: &str) -> Peer {
        let link = free_port();
        self.router_behind(name, link, link).await
    }

    /// Starts a router like `another_router`; other routers are told to link with it at
    /// `advertised`.
    pub(crate) async fn router_behind(&self, name: &str, link: u16, advertised: u16) -> Peer {
        let mut peer = self.enrolled_router(name, link, advertised).await;
        peer.start().await;
        peer
    }

    /// Enrolls such a router without starting it.
    pub(crate) async fn enrolled_router(&self, name: &str, link: u16, advertised: u16) -> Peer {
        let body = json!({"name": name, "isTunnelerEnabled": false});
        let id = self.create(&resource::edge_router::KIND, &body).await;
        let router: Value = self.admin.get(&resource::edge_router::KIND, &id).await.unwrap();
        let token = router["enrollmentJwt"].as_str().unwrap();
        let home = tempfile::tempdir().unwrap();
        let config = linking_config(home.path(), self.seed.port, free_port(), link, advertised);
        weft_router::enroll::enroll(&config, token).await.unwrap();
        Peer { id, config, router: None, _home: home }
    }

    /// Lets the running controller dial routers, with short waits.
    pub(crate) fn dial_routers(&self) {
        let options = DialerOptions {
            groups: vec!["default".into()],
            dial_delay: Duration::ZERO,
            min_retry_interval: Duration::from_millis(50),
            max_retry_interval: Duration::from_millis(500),
            retry_backoff_factor: 1.5,
            fast_failure_window: Duration::from_millis(200),
            max_workers: 4,
            queue_size: 32,
        };
        let running = self.controller.as_ref().unwrap();
        running.control.dial_routers(&self.seed.identity, options).unwrap();
    }

    /// The identity that the controller shows.
    pub(crate) fn controller_identity(&self) -> Arc<LiveIdentity> {
        Arc::clone(&self.seed.identity)
    }

    /// The port at which the router listens for SDKs.
    pub(crate) fn edge_port(&self) -> u16 {
        let listeners = self.router_config.listeners.iter();
        let mut ports = listeners.filter_map(|listener| match listener {
            Listener::Edge(edge) => Some(edge.address.port),
            _ => None,
        });
        ports.next().unwrap()
    }

    /// The part `network` (links, circuits) of the running controller.
    pub(crate) fn circuits(&self) -> &Circuits {
        &self.controller.as_ref().unwrap().circuits
    }

    /// The running controller.
    pub(crate) fn controller(&self) -> &Controller {
        &self.controller.as_ref().unwrap().controller
    }

    /// What the controller shows, signs with and believes.
    pub(crate) fn keys(&self) -> &Keys {
        &self.seed.keys
    }

    /// The store of the controller.
    pub(crate) fn store(&self) -> &dyn weft_store::Store {
        &*self.seed.store
    }

    /// Port of the APIs.
    pub(crate) fn port(&self) -> u16 {
        self.seed.port
    }

    /// A service at an address that a router dials, without any service policy.
    pub(crate) async fn at_address(&self, name: &str, router: &Peer, binding: &str, address: &str) {
        let service = json!({"name": name, "encryptionRequired": false});
        let service = self.create(&resource::service::KIND, &service).await;
        let terminator = json!({"service": service, "router": router.id, "binding": binding,
            "address": address});
        self.create(&resource::terminator::KIND, &terminator).await;
    }

    /// A service that all identities may dial and host.
    pub(crate) async fn service(&self, name: &str, encrypted: bool) {
        let service = json!({"name": name, "encryptionRequired": encrypted});
        let id = self.create(&resource::service::KIND, &service).await;
        for kind in ["Dial", "Bind"] {
            let policy = json!({"name": format!("{name} {kind}"), "type": kind,
                "semantic": "AnyOf", "identityRoles": ["#all"],
                "serviceRoles": [format!("@{id}")]});
            self.create(&resource::service_policy::KIND, &policy).await;
        }
    }

    /// Has a service demand that both ends prove who they are.
    pub(crate) async fn demand(&self, name: &str) {
        let kind = &resource::service::KIND;
        let filter = format!("name=\"{name}\"");
        let found: Vec<Value> = self.admin.list(kind, Some(&filter)).await.unwrap();
        let id = found[0]["id"].as_str().unwrap();
        self.patch(kind, id, &json!({"authenticatedEnds": true})).await;
    }

    /// All entities of a kind.
    pub(crate) async fn list(&self, kind: &Kind) -> Vec<Value> {
        self.admin.list(kind, None).await.unwrap()
    }

    /// A new identity, enrolled and logged in.
    pub(crate) async fn endpoint(&self, name: &str) -> Endpoint {
        soon(Endpoint::from_identity(self.identity_file(name).await)).await.unwrap()
    }

    /// A new identity, enrolled.
    pub(crate) async fn identity_file(&self, name: &str) -> IdentityFile {
        self.identity_file_of(name, &[]).await
    }

    /// A new identity with these attributes, enrolled.
    pub(crate) async fn identity_file_of(&self, name: &str, roles: &[&str]) -> IdentityFile {
        let body = json!({"name": name, "type": "Default", "isAdmin": false,
            "roleAttributes": roles, "enrollment": {"ott": true}});
        let id = self.create(&resource::identity::KIND, &body).await;
        let identity: Value = self.admin.get(&resource::identity::KIND, &id).await.unwrap();
        let token = identity.pointer("/enrollment/ott/jwt").and_then(Value::as_str).unwrap();
        soon(weft_sdk::enroll(token)).await.unwrap()
    }
}

/// A further router of a network.
pub(crate) struct Peer {
    pub(crate) id: String,
    config: RouterConfig,
    router: Option<Router>,
    _home: TempDir,
}

impl Network {
    /// The answer of a controller, or of a router's server, to a GET: status and body.
    pub(crate) async fn get(&self, port: Option<u16>, path: &str) -> (u16, String) {
        let trust = weft_identity::tls::Trust::Bundle(self.seed.keys.bundle.clone());
        let tls = weft_identity::tls::ClientTls {
            alpn: &[],
            trust,
            identity: None,
            to_controllers: false,
        };
        let tls = Arc::new(weft_identity::tls::client_config(&tls).unwrap());
        let to = ("127.0.0.1", port.unwrap_or(self.seed.port));
        let socket = tokio::net::TcpStream::connect(to).await.unwrap();
        let name = "localhost".to_owned().try_into().unwrap();
        let connector = tokio_rustls::TlsConnector::from(tls);
        let mut stream = soon(connector.connect(name, socket)).await.unwrap();
        let asked = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(asked.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        // The peer may end TLS without its closing message after the answer.
        let _ = soon(stream.read_to_end(&mut bytes)).await;
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }
}

impl Peer {
    /// Changes its file, before it is started.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut RouterConfig)) {
        change(&mut self.config);
    }

    pub(crate) async fn start(&mut self) {
        let handle = tokio::runtime::Handle::current();
        let router = until_some(async || {
            let runtimes = Runtimes::given(handle.clone(), handle.clone());
            Router::start(&self.config, runtimes).await.ok()
        })
        .await;
        soon(router.online()).await;
        self.router = Some(router);
    }

    pub(crate) async fn stop(&mut self) {
        if let Some(router) = self.router.take() {
            soon(router.shutdown()).await;
        }
    }

    /// Adds to its listeners and dialers those of a piece of a file.
    pub(crate) fn configure(&mut self, more: &str) {
        let home = Path::new("unused");
        let more = read(&format!("{}{more}", common(home, 1)), home);
        self.config.listeners.extend(more.listeners);
        self.config
            .dialers
            .retain(|known| more.dialers.iter().all(|one| one.binding != known.binding));
        self.config.dialers.extend(more.dialers);
    }

    /// Lets the router wait for controllers at a port; it has no address of a controller that it can reach.
    pub(crate) fn waits_at(&mut self, port: u16) {
        self.takes_controllers_at(port);
        self.config.ctrl.endpoints =
            vec![format!("tls:localhost:{}", free_port()).parse().unwrap()];
        self.config.ctrl.endpoints_file = self._home.path().join("nobody.yml");
    }

    /// Lets controllers dial the router at a port.
    pub(crate) fn takes_controllers_at(&mut self, port: u16) {
        let text = format!(
            "v: 3\nidentity: {{cert: a, server_cert: a, key: b, ca: c}}\nctrl: {{endpoint: 'tls:c:1', listeners: \
             [{{bind: 'tls:127.0.0.1:{port}', advertise: 'tls:localhost:{port}'}}]}}\n"
        );
        self.config.ctrl.listeners = read(&text, Path::new("unused")).ctrl.listeners;
    }

    /// Lets SDKs connect to the router over WebSockets only.
    pub(crate) fn websockets_only(&mut self) {
        for listener in &mut self.config.listeners {
            if let Listener::Edge(edge) = listener {
                edge.address.scheme = Scheme::Wss;
            }
        }
    }

    /// The identity that the router shows.
    pub(crate) fn identity(&self) -> Arc<LiveIdentity> {
        LiveIdentity::load(self.config.identity.clone()).unwrap()
    }

    pub(crate) fn router(&self) -> &Router {
        self.router.as_ref().unwrap()
    }
}

/// Ports below the kernel's range for clients: a listener that is down for a moment finds its port free again.
const PORTS: std::ops::Range<u16> = 10_000..15_000;

/// A port that is not in use, and that no other network of this program is given.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let span = PORTS.end - PORTS.start;
    // Programs that run at the same time begin at different ports.
    let first = (std::process::id() as u16).wrapping_mul(97) % span;
    for _ in 0..span {
        let port = PORTS.start + (first + NEXT.fetch_add(1, Ordering::Relaxed) % span) % span;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}
