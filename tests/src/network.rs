//! A whole network in this process: a controller with its APIs and its control plane, an edge
//! router enrolled with it, identities that are enrolled by token.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weft_api::{ApiServer, Setup, base_urls};
use weft_channel::{ListenerLimits, Listeners, Registration};
use weft_client::{Credentials, ManagementClient, Tls};
use weft_config::router::{Listener, ProxiedService, ProxyProtocol, TunnelMode};
use weft_config::web::WebOptions;
use weft_config::{BindPoint, HostPort, ProcessEnvironment, RouterConfig, WebApi, WebServer};
use weft_contract::{Kind, resource};
use weft_control::ControlPlane;
use weft_control::{ControlOptions, DialerOptions};
use weft_controller::{Addresses, Controller, Keys, Settings};
use weft_identity::{
    Authority, AuthoritySpec, Identity, KeyAlgorithm, KeyedChain, Leaf, LiveIdentity, PrivateKey,
    Purpose, San, SealKey, SpiffeId, Subject, TrustBundle,
};
use weft_network::{Network as Circuits, NetworkOptions};
use weft_router::{Router, Runtimes};
use weft_sdk::{Context, IdentityFile};
use weft_store::{Memory, Store};
use weft_wire::Scheme;

/// Longer than anything here should take.
pub(crate) const LONG: Duration = Duration::from_secs(60);
const PASSWORD: &str = "geheimnis";
/// The router whose own bindings may use every service.
pub(crate) const UNRESTRICTED: &str = "ingress";
const TRUST_DOMAIN: &str = "weft.test";

pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, work).await.expect("took too long")
}

/// Tries until it works.
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

/// The parts of a controller, for starting it again.
struct Seed {
    keys: Keys,
    session_key: Arc<SealKey>,
    identity: Arc<LiveIdentity>,
    store: Arc<dyn Store>,
    /// Where APIs and control plane are, together.
    port: u16,
}

/// A controller that is up.
struct Running {
    circuits: Circuits,
    control: ControlPlane,
    _registration: Registration,
    api: ApiServer,
    controller: Controller,
}

impl Network {
    /// Controller and router, the router online; everybody may use every router.
    pub(crate) async fn start() -> Self {
        let seed = Seed::new();
        let running = seed.start().await;
        running.controller.init_admin("Default Admin", "admin", PASSWORD).await.unwrap();
        let admin = seed.log_in().await;
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
        network.enroll_router().await;
        network.start_router().await;
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

    /// The router that runs.
    pub(crate) fn router(&self) -> &Router {
        self.router.as_ref().unwrap()
    }

    /// Has the router offer services at ports, from its next start on: name, port, and whether it is
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
            running.api.shutdown(Duration::from_secs(5)).await;
            running.circuits.stop().await;
        }
    }

    pub(crate) async fn start_controller(&mut self) {
        self.controller = Some(self.seed.start().await);
    }

    /// Changes entities while the controller is stopped, by one that no router reaches.
    pub(crate) async fn change_unseen(&mut self, change: impl AsyncFnOnce(&ManagementClient)) {
        assert!(self.controller.is_none(), "the controller is stopped");
        let port = std::mem::replace(&mut self.seed.port, free_port());
        self.start_controller().await;
        change(&self.seed.log_in().await).await;
        self.stop_controller().await;
        self.seed.port = port;
    }

    /// Makes an entity and tells its id.
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

    /// Has the controller that is up dial routers, without much waiting.
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

    /// The network of circuits, of the controller that is up.
    pub(crate) fn circuits(&self) -> &Circuits {
        &self.controller.as_ref().unwrap().circuits
    }

    /// A service at an address that a router dials, which no policy gives to anybody.
    pub(crate) async fn at_address(&self, name: &str, router: &Peer, binding: &str, address: &str) {
        let service = json!({"name": name, "encryptionRequired": false});
        let service = self.create(&resource::service::KIND, &service).await;
        let terminator = json!({"service": service, "router": router.id, "binding": binding,
            "address": address});
        self.create(&resource::terminator::KIND, &terminator).await;
    }

    /// A service that everybody may dial and host.
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

    /// All entities of a kind.
    pub(crate) async fn list(&self, kind: &Kind) -> Vec<Value> {
        self.admin.list(kind, None).await.unwrap()
    }

    /// A new identity, enrolled and logged in.
    pub(crate) async fn context(&self, name: &str) -> Context {
        soon(Context::from_identity(self.identity_file(name).await)).await.unwrap()
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
        let tls = weft_identity::tls::ClientTls { alpn: &[], trust, identity: None };
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

    /// Where a controller that dials it finds it; it knows of no controller that it reaches itself.
    pub(crate) fn waits_at(&mut self, port: u16) {
        self.takes_controllers_at(port);
        self.config.ctrl.endpoints =
            vec![format!("tls:localhost:{}", free_port()).parse().unwrap()];
        self.config.ctrl.endpoints_file = self._home.path().join("nobody.yml");
    }

    /// Has controllers dial it at a port.
    pub(crate) fn takes_controllers_at(&mut self, port: u16) {
        let text = format!(
            "v: 3\nidentity: {{cert: a, key: b, ca: c}}\nctrl: {{endpoint: 'tls:c:1', listeners: \
             [{{bind: 'tls:127.0.0.1:{port}', advertise: 'tls:localhost:{port}'}}]}}\n"
        );
        self.config.ctrl.listeners = read(&text, Path::new("unused")).ctrl.listeners;
    }

    /// Has SDKs connect over WebSockets only.
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

impl Seed {
    fn new() -> Self {
        let now = SystemTime::now();
        let spec = |name: &str| AuthoritySpec {
            trust_domain: Some(TRUST_DOMAIN.to_owned()),
            ..AuthoritySpec::new(name)
        };
        let root = Authority::make_root(&spec("root"), now).unwrap();
        let signer = root.make_intermediate(&spec("signer"), now).unwrap();
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let sans = vec![
            San::Uri(SpiffeId::controller(TRUST_DOMAIN, "ctrl1").to_string()),
            San::Dns("localhost".into()),
            San::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        ];
        let subject = Subject::common_name("ctrl1");
        let leaf = Leaf::for_key(key.public(), &subject, sans, Purpose::Both, now).unwrap();
        let chain = vec![signer.issue(&leaf).unwrap(), signer.certificate().clone()];
        let chain = KeyedChain::new(chain, key).unwrap();
        let bundle = TrustBundle::new([root.certificate().clone(), signer.certificate().clone()]);
        let identity = Identity::new(Some(chain.clone()), vec![chain.clone()], bundle.clone());
        let keys = Keys {
            session: chain.clone(),
            tokens: None,
            enrollment: chain,
            authority: signer,
            bundle,
            trust_domain: TRUST_DOMAIN.into(),
        };
        let store = Arc::new(Memory::new());
        let session_key = Arc::new(SealKey::random().unwrap());
        let identity = LiveIdentity::fixed(identity);
        Self { keys, session_key, identity, store, port: free_port() }
    }

    fn web(&self) -> WebServer {
        WebServer {
            name: "all".into(),
            bind_points: vec![BindPoint::Underlay {
                interface: HostPort { host: "127.0.0.1".into(), port: self.port },
                address: HostPort { host: "localhost".into(), port: self.port },
                new_address: None,
            }],
            apis: vec![
                WebApi::EdgeManagement,
                WebApi::EdgeClient,
                WebApi::Fabric,
                WebApi::HealthChecks,
                WebApi::Metrics { scrape_cert: None, include_timestamps: false },
            ],
            identity: None,
            options: WebOptions::default(),
        }
    }

    /// A client of the administrator.
    async fn log_in(&self) -> ManagementClient {
        let address = format!("localhost:{}", self.port).parse().unwrap();
        let tls = Tls::Anonymous(self.keys.bundle.clone());
        let admin = ManagementClient::new(address, &tls).unwrap();
        admin.login(&Credentials::password("admin", PASSWORD).unwrap()).await.unwrap();
        admin
    }

    async fn start(&self) -> Running {
        let web = self.web();
        let addresses = Addresses {
            api: format!("localhost:{}", self.port),
            ctrl: vec![format!("tls:localhost:{}", self.port)],
            apis: base_urls(std::slice::from_ref(&web)),
        };
        let settings = Settings {
            session_key: Some(Arc::clone(&self.session_key)),
            unrestricted_bindings: vec![UNRESTRICTED.into()],
            ..Settings::new("ctrl1", Arc::clone(&self.store), self.keys.clone(), addresses)
        };
        let controller = Controller::start(settings).await.unwrap();
        let circuits = controller.start_network(NetworkOptions::default());
        let options = ControlOptions::default();
        let control = ControlPlane::start(&controller, circuits.clone(), options);
        let control = control.await.unwrap();
        let listeners = Arc::new(Listeners::new());
        let tls = ControlPlane::tls(&self.identity).unwrap();
        let bind = format!("127.0.0.1:{}", self.port);
        let registration = until_some(async || {
            let limits = ListenerLimits::default();
            control.listen(&listeners, &bind, limits, Arc::clone(&tls)).await.ok()
        })
        .await;
        let setup =
            Setup::new(controller.clone(), Arc::clone(&self.identity), Arc::clone(&listeners));
        let api = ApiServer::start(&[web], setup).await.unwrap();
        Running { circuits, control, _registration: registration, api, controller }
    }
}

fn router_config(home: &Path, controller: u16, port: u16) -> RouterConfig {
    let edge = format!(
        "edge: {{csr: {{sans: {{dns: [localhost], ip: [127.0.0.1]}}}}}}\n\
         dialers: [{{binding: transport}}]\nlisteners:\n\
         - {{binding: edge, address: 'tls:127.0.0.1:{port}', options: {{advertise: 'localhost:{port}'}}}}\n\
         - {{binding: tunnel, options: {{mode: host}}}}\n",
    );
    read(&format!("{}{edge}", common(home, controller)), home)
}

/// A router that takes links and opens them.
fn linking_config(
    home: &Path,
    controller: u16,
    edge: u16,
    link: u16,
    advertised: u16,
) -> RouterConfig {
    let more = format!(
        "edge: {{csr: {{sans: {{dns: [localhost], ip: [127.0.0.1]}}}}}}\n\
         dialers: [{{binding: transport}}]\nlisteners:\n\
         - {{binding: edge, address: 'tls:127.0.0.1:{edge}', options: {{advertise: 'localhost:{edge}'}}}}\n\
         link:\n  listeners:\n\
         \x20 - {{binding: transport, bind: 'tls:127.0.0.1:{link}', advertise: 'tls:127.0.0.1:{advertised}'}}\n\
         \x20 dialers:\n  - {{binding: transport, startupDelay: 100ms, healthyDialBackoff: \
         {{minRetryInterval: 100ms, maxRetryInterval: 1s}}}}\n",
    );
    read(&format!("{}{more}", common(home, controller)), home)
}

/// The sections of every router's file.
fn common(home: &Path, controller: u16) -> String {
    format!(
        "v: 3\nidentity: {{cert: {0}/client.pem, server_cert: {0}/server.pem, key: {0}/key.pem, \
         ca: {0}/ca.pem}}\nctrl: {{endpoint: 'tls:localhost:{controller}'}}\n",
        home.display()
    )
}

fn read(text: &str, home: &Path) -> RouterConfig {
    let loaded = RouterConfig::from_str(text, &home.join("router.yml"), &ProcessEnvironment);
    loaded.unwrap().config
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
