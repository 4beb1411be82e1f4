//! A router, put together of its two halves.

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{runtime, sync::watch};
use weft_channel::{AcceptOptions, ListenerLimits, Listeners, RegisterError, TlsSource};
use weft_config::{
    AddressKind, RouterConfig, XgressOptions,
    router::{EdgeListener, Listener, TunnelMode},
};
use weft_identity::{
    AltServerCert, IdentitySection, LiveIdentity,
    tls::{ClientAuth, ClientTls, ServerTls, client_config, server_config},
};
use weft_wire::{Address, Scheme, VersionInfo};

use crate::{
    access::{AccessHalf, AccessOptions},
    control::{ControlHalf, ControlOptions, EdgeAddresses, Parts},
    controllers::Controllers,
    data::{DataHalf, DataOptions, EdgeLimits},
    enroll,
    forwarder::FIN_HOLD,
    link::LinkOptions,
    seam::LinkListener,
};

/// What a router says about its build.
#[derive(Debug, Clone)]
pub struct Build {
    /// The release of the original that weft stands for, `vX.Y.Z`. Peers compare it to know what they
    /// may say (protocol: control-plane 2.1).
    pub version: String,
    /// Revision of the sources.
    pub revision: String,
    /// When it was built.
    pub build_date: String,
}

impl Default for Build {
    fn default() -> Self {
        Self {
            version: "v2.1.0".into(),
            revision: format!("weft-{}", env!("CARGO_PKG_VERSION")),
            build_date: "unknown".into(),
        }
    }
}

impl From<&Build> for VersionInfo {
    fn from(build: &Build) -> Self {
        let arch = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Self {
            version: build.version.clone(),
            revision: build.revision.clone(),
            build_date: build.build_date.clone(),
            os: std::env::consts::OS.to_owned(),
            arch: arch.to_owned(),
        }
    }
}

/// Most time for a TLS handshake, whatever the file says: as much as a hello may be given.
const MAX_HANDSHAKE: Duration = Duration::from_secs(60);

/// Where a router does its work. Payloads move on one runtime; controllers, judgements and reports
/// have another, so that neither delays a payload.
#[derive(Debug)]
pub struct Runtimes {
    data: runtime::Handle,
    control: runtime::Handle,
    /// Ended with the router.
    own: Vec<runtime::Runtime>,
}

impl Runtimes {
    /// Runtimes of the router's own: as many threads for data as there are processors, one or two
    /// for control.
    ///
    /// # Errors
    /// When threads cannot be made.
    pub fn own() -> std::io::Result<Self> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let make = |name: &str, threads: usize| {
            runtime::Builder::new_multi_thread()
                .thread_name(name)
                .worker_threads(threads)
                .enable_all()
                .build()
        };
        let data = make("weft-data", processors)?;
        let control = make("weft-control", if processors > 8 { 2 } else { 1 })?;
        let handles = (data.handle().clone(), control.handle().clone());
        Ok(Self { data: handles.0, control: handles.1, own: vec![data, control] })
    }

    /// Runtimes of somebody else.
    #[must_use]
    pub fn given(data: runtime::Handle, control: runtime::Handle) -> Self {
        Self { data, control, own: Vec::new() }
    }
}

impl Drop for Runtimes {
    fn drop(&mut self) {
        // Waiting for threads is not allowed where the router may be dropped.
        self.own.drain(..).for_each(runtime::Runtime::shutdown_background);
    }
}

/// Why a router did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The identity of the file cannot be used.
    #[error("{0}; a router gets its certificates by enrolling (`weft router enroll`)")]
    Identity(weft_identity::Error),
    /// The certificate names no router.
    #[error(
        "the client certificate of the identity has no common name, which is the id of a router"
    )]
    Nameless,
    /// The certificate is not valid for what SDKs are told.
    #[error("invalid listeners.binding.advertise: {0}")]
    Advertise(weft_identity::Error),
    /// TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(weft_identity::Error),
    /// An edge listener.
    #[error("error listening [edge]: {0}")]
    Listen(#[from] RegisterError),
    /// A link listener.
    #[error("error listening [link.listeners]: {0}")]
    Link(RegisterError),
    /// No controller in time.
    #[error("unable to connect to any controllers before timeout ({0:?}, ctrl.startupTimeout)")]
    NoController(Duration),
}

/// A running router.
pub struct Router {
    id: String,
    control: ControlHalf,
    access: AccessHalf,
    data: Arc<DataHalf>,
    controllers: Arc<Controllers>,
    edge: Vec<SocketAddr>,
    links: Vec<SocketAddr>,
    startup_timeout: Option<Duration>,
    _runtimes: Runtimes,
}

impl Router {
    /// Starts a router of a configuration: listens for SDKs, then begins to connect to controllers.
    ///
    /// # Errors
    /// When the identity cannot be used or an address cannot be listened on. That no controller is
    /// reached is no error; see [`Router::online`].
    pub async fn start(config: &RouterConfig, runtimes: Runtimes) -> Result<Self, StartError> {
        Self::start_as(&Build::default(), config, runtimes).await
    }

    /// As [`Router::start`], of a program that knows its build.
    ///
    /// # Errors
    /// The same.
    pub async fn start_as(
        build: &Build,
        config: &RouterConfig,
        runtimes: Runtimes,
    ) -> Result<Self, StartError> {
        warn_not_acted_upon(config);
        let version = VersionInfo::from(build);
        let identity =
            LiveIdentity::load(identity_section(config)).map_err(StartError::Identity)?;
        let id = identity.current().name().ok_or(StartError::Nameless)?.to_owned();
        let controllers = Arc::new(Controllers::new(config.ctrl.heartbeats.unresponsive_after));
        let access =
            AccessHalf::new(AccessOptions::new(config, &id), identity.clone(), controllers.clone());
        let control = ControlHalf::new(Parts {
            options: ControlOptions::new(config, &id, version.clone()),
            identity: identity.clone(),
            names: config.csr.as_ref().map(enroll::names),
            controllers: controllers.clone(),
            access: access.clone(),
            runtime: runtimes.control.clone(),
        })
        .map_err(StartError::Tls)?;
        let options = data_options(config, &id, version, &runtimes);
        let data = DataHalf::start(options, Arc::new(control.clone()), Arc::new(access.clone()));
        let mut router = Self {
            id,
            control,
            access,
            data,
            controllers,
            edge: Vec::new(),
            links: Vec::new(),
            startup_timeout: config.ctrl.startup_timeout,
            _runtimes: runtimes,
        };
        let sockets = Listeners::new();
        let listeners = router.listen(config, &identity, &sockets).await?;
        let links = router.link(config, &identity, &sockets).await?;
        router.control.begin(router.data.clone(), listeners, links);
        tracing::info!(router = %router.id, edge = ?router.edge, links = ?router.links, "router started");
        Ok(router)
    }

    /// Listens for SDKs; answers what controllers are told.
    async fn listen(
        &mut self,
        config: &RouterConfig,
        identity: &Arc<LiveIdentity>,
        sockets: &Listeners,
    ) -> Result<Vec<EdgeAddresses>, StartError> {
        let tls = edge_tls(identity, &self.access)?;
        let mut told = Vec::new();
        for listener in edge_listeners(config) {
            identity
                .current()
                .check_host(&listener.advertise.host)
                .map_err(StartError::Advertise)?;
            let bind = listener.address.host_port().to_string();
            // Connections are accepted on the runtime that reads them.
            let limits = edge_limits(config, listener);
            let bound = self.data.listen_edge(sockets, &bind, limits, tls.clone()).await?;
            let address = |host: &str, port: u16| {
                let port = if port == 0 { bound.port() } else { port };
                Address::new(Scheme::Tls, host, port)
            };
            told.push(EdgeAddresses {
                address: address(&listener.address.host, listener.address.port),
                advertise: address(&listener.advertise.host, listener.advertise.port),
            });
            self.edge.push(bound);
        }
        Ok(told)
    }

    /// Links with other routers; answers what controllers are told of its listeners.
    async fn link(
        &mut self,
        config: &RouterConfig,
        identity: &Arc<LiveIdentity>,
        sockets: &Listeners,
    ) -> Result<Vec<LinkListener>, StartError> {
        if config.link.listeners.is_empty() && config.link.dialers.is_empty() {
            return Ok(Vec::new());
        }
        let client = ClientTls::of_identity(identity, &[]);
        let tls = Arc::new(client_config(&client).map_err(StartError::Tls)?);
        let options = LinkOptions {
            router_id: self.id.clone(),
            config: config.link.clone(),
            dial_workers: config.forwarder.link_dial_workers as usize,
            report_interval: config.metrics.report_interval,
            probe_interval: config.forwarder.latency_probe_interval,
            data_runtime: self._runtimes.data.clone(),
            control_runtime: self._runtimes.control.clone(),
        };
        let control = Arc::new(self.control.clone());
        self.data.begin_links(options, control, identity.clone(), tls);
        let server = ServerTls { alpn: &[], client_auth: ClientAuth::Require };
        let server = Arc::new(server_config(identity, &server).map_err(StartError::Tls)?);
        let server: TlsSource = Arc::new(move || Some(server.clone()));
        let mut told = Vec::new();
        let served = config.link.listeners.iter();
        for listener in served.filter(|one| one.bind.kind == AddressKind::Tls) {
            if let Err(problem) = identity.current().check_host(&listener.advertise.host) {
                tracing::warn!(
                    advertise = %listener.advertise, %problem,
                    "link.listeners.advertise: other routers will not believe the certificate"
                );
            }
            let listened = self.data.listen_links(sockets, listener, server.clone()).await;
            if let Some((bound, listener)) = listened.map_err(StartError::Link)? {
                self.links.push(bound);
                told.push(listener);
            }
        }
        Ok(told)
    }

    /// Where other routers connect.
    #[must_use]
    pub fn link_addresses(&self) -> &[SocketAddr] {
        &self.links
    }

    /// Id of the router.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where SDKs connect.
    #[must_use]
    pub fn edge_addresses(&self) -> &[SocketAddr] {
        &self.edge
    }

    /// Waits until the router can do its work: it is connected to a controller and has the data
    /// model.
    pub async fn online(&self) {
        let mut online = self.access.online();
        // The sender lives as long as the router.
        let _ = online.wait_for(|online| *online).await;
    }

    /// Whether the router can do its work, now and whenever that changes.
    #[must_use]
    pub fn online_changes(&self) -> watch::Receiver<bool> {
        self.access.online()
    }

    /// Waits for the first controller, as long as the configuration says (`ctrl.startupTimeout`).
    ///
    /// # Errors
    /// When none was reached in time; a program should end then.
    pub async fn reach_controller(&self) -> Result<(), StartError> {
        let mut changes = self.controllers.changes();
        let connected = async {
            while self.controllers.all().is_empty() {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        let Some(limit) = self.startup_timeout else {
            connected.await;
            return Ok(());
        };
        let reached = tokio::time::timeout(limit, connected).await;
        reached.map_err(|_| StartError::NoController(limit))
    }

    /// The data half, for its figures.
    #[must_use]
    pub fn data(&self) -> &Arc<DataHalf> {
        &self.data
    }

    /// Stops cleanly: no new connections, then none at all; the data model is written.
    pub async fn shutdown(self) {
        self.data.shutdown();
        self.control.shutdown().await;
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("id", &self.id).finish_non_exhaustive()
    }
}

fn identity_section(config: &RouterConfig) -> IdentitySection {
    let section = config.identity.clone();
    let alternative = |one: weft_config::AltServerCert| AltServerCert {
        server_cert: one.server_cert,
        server_key: one.server_key,
    };
    IdentitySection {
        section: section.section,
        cert: section.cert,
        server_cert: section.server_cert,
        key: section.key,
        server_key: section.server_key,
        ca: section.ca,
        alt_server_certs: section.alt_server_certs.into_iter().map(alternative).collect(),
    }
}

/// The listeners for SDKs that are served.
fn edge_listeners(config: &RouterConfig) -> impl Iterator<Item = &EdgeListener> {
    let listeners = config.edge.is_some().then_some(config.listeners.as_slice());
    listeners.unwrap_or_default().iter().filter_map(|listener| match listener {
        Listener::Edge(edge) if edge.address.kind == AddressKind::Tls => Some(edge),
        _ => None,
    })
}

/// What the file says of handshakes and hellos (protocol: channel 3, 7.1, 15.4). How many may be
/// under way at once it can only raise: with the few that the original allows, as many strangers
/// who say nothing would keep everybody else out.
fn edge_limits(config: &RouterConfig, listener: &EdgeListener) -> EdgeLimits {
    let (channel, usual) = (&listener.channel, ListenerLimits::default());
    let at_once = channel.max_outstanding_connects.saturating_add(channel.max_queued_connects);
    EdgeLimits {
        listener: ListenerLimits {
            pending: usual.pending.max(at_once),
            handshake_timeout: config.tls_handshake_timeout.min(MAX_HANDSHAKE),
            ..usual
        },
        hello: AcceptOptions { hello_timeout: channel.connect_timeout, ..AcceptOptions::default() },
        write_timeout: channel.write_timeout,
    }
}

fn data_options(
    config: &RouterConfig,
    id: &str,
    version: VersionInfo,
    runtimes: &Runtimes,
) -> DataOptions {
    let xgress = edge_listeners(config).next().map(|edge| edge.options.clone());
    DataOptions {
        router_id: id.to_owned(),
        version,
        xgress: xgress.unwrap_or_default(),
        forwarder: config.forwarder.clone(),
        fin_hold: FIN_HOLD,
        tunnel: config.listeners.iter().find_map(|one| match one {
            Listener::Tunnel(options) => Some((**options).clone()),
            _ => None,
        }),
        data_runtime: runtimes.data.clone(),
        control_runtime: runtimes.control.clone(),
    }
}

/// SDKs must show a certificate that leads to an authority of the data model; whether it is the
/// session's is judged later.
fn edge_tls(identity: &Arc<LiveIdentity>, access: &AccessHalf) -> Result<TlsSource, StartError> {
    let access = access.clone();
    let judge = move |chain: &[rustls_pki_types::CertificateDer<'_>]| access.admits_chain(chain);
    let tls = ServerTls { alpn: &[], client_auth: ClientAuth::Judge(Arc::new(judge)) };
    let config = Arc::new(server_config(identity, &tls).map_err(StartError::Tls)?);
    Ok(Arc::new(move || Some(config.clone())))
}

/// Names once what the file asks for and this release does not do.
fn warn_not_acted_upon(config: &RouterConfig) {
    for (key, why) in not_acted_upon(config) {
        tracing::warn!(key, "not acted upon: {why}");
    }
}

fn not_acted_upon(config: &RouterConfig) -> Vec<(&'static str, &'static str)> {
    let mut out = Vec::new();
    let mut warn = |wanted: bool, key: &'static str, why: &'static str| {
        // Several listeners of a sort are told of once.
        if wanted && !out.contains(&(key, why)) {
            out.push((key, why));
        }
    };
    let other = |kind: AddressKind| kind != AddressKind::Tls;
    let listeners = config.link.listeners.iter().any(|one| other(one.bind.kind));
    warn(listeners, "link.listeners.bind", "routers link over tls only");
    warn(!config.web.is_empty(), "web", "health checks of routers are not served yet");
    warn(config.proxy.is_some(), "proxy", "controllers are dialed directly");
    warn(!config.ctrl.listeners.is_empty(), "ctrl.listeners", "routers dial, controllers do not");
    warn(
        !config.managed_config.is_empty(),
        "managedConfig",
        "configs of controllers are not taken",
    );
    let named =
        config.ctrl.bind.as_ref().is_some_and(|bind| bind.parse::<std::net::IpAddr>().is_err());
    warn(named, "ctrl.bind", "give an IP address, names of interfaces are not looked up");
    let api_proxy = config.edge.as_ref().is_some_and(|edge| edge.api_proxy.is_some());
    warn(api_proxy, "edge.apiProxy", "the API is not proxied");
    let own = |options: &XgressOptions| *options != XgressOptions::default();
    warn(
        config.dialers.iter().any(|dialer| own(&dialer.options)),
        "dialers.options",
        "circuits that end here take the flow control of the edge listener",
    );
    for listener in &config.listeners {
        if let Listener::Edge(edge) = listener {
            let (used, default) = (&edge.options, XgressOptions::default());
            let cut = "payloads are not cut, an mtu is not kept";
            warn(used.mtu != 0, "listeners[edge].options.mtu", cut);
            let random = "payloads are not dropped for tests";
            warn(used.random_drops, "listeners[edge].options.randomDrops", random);
            let queue = "nothing waits in a queue of its own to be handed over";
            let own_queue = used.tx_queue_size != default.tx_queue_size;
            warn(own_queue, "listeners[edge].options.txQueueSize", queue);
        }
        let (key, why) = match listener {
            Listener::Edge(edge) if edge.address.kind != AddressKind::Tls => {
                ("listeners[edge].address", "SDKs are served over tls only")
            }
            Listener::Tunnel(tunnel) if matches!(tunnel.mode, TunnelMode::Tproxy(_)) => {
                ("listeners[tunnel].options.mode", "services are hosted, none are intercepted yet")
            }
            Listener::Transport { udp: false, .. } => ("listeners[transport]", "not served"),
            Listener::Transport { udp: true, .. } => ("listeners[transport_udp]", "not served"),
            Listener::Proxy(proxy) if proxy.udp => ("listeners[proxy_udp]", "not served"),
            Listener::Proxy(_) => ("listeners[proxy]", "not served"),
            _ => continue,
        };
        warn(true, key, why);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits_of(options: &str, more: &str) -> EdgeLimits {
        let text = format!(
            "v: 3\nidentity: {{cert: a, key: b, ca: c}}\nctrl: {{endpoint: 'tls:localhost:1'}}\n\
             edge: {{}}\nlisteners: [{{binding: edge, address: 'tls:0.0.0.0:3022', \
             options: {{advertise: 'localhost:3022'{options}}}}}]\n{more}"
        );
        let path = std::path::Path::new("router.yaml");
        let none = |_: &str| None;
        let config = RouterConfig::from_str(&text, path, &none).unwrap().config;
        edge_limits(&config, edge_listeners(&config).next().unwrap())
    }

    #[test]
    fn the_file_sets_the_deadlines_of_strangers() {
        let five = Duration::from_secs(5);
        let usual = limits_of("", "");
        assert_eq!((usual.listener.handshake_timeout, usual.hello.hello_timeout), (five, five));
        assert_eq!(usual.listener.pending, ListenerLimits::default().pending);

        let set = limits_of(", connectTimeoutMs: 700", "tls: {handshakeTimeout: 2s}");
        assert_eq!(set.listener.handshake_timeout, Duration::from_secs(2));
        assert_eq!(set.hello.hello_timeout, Duration::from_millis(700));
        assert_eq!(set.write_timeout, Some(Duration::from_secs(30)));
        assert_eq!(limits_of(", writeTimeout: 0s", "").write_timeout, None);
        let set =
            limits_of(", connectTimeout: 9s, writeTimeout: 1m", "tls: {handshakeTimeout: 24h}");
        assert_eq!(set.write_timeout, Some(Duration::from_secs(60)));
        assert_eq!(set.listener.handshake_timeout, MAX_HANDSHAKE);
        assert_eq!(set.hello.hello_timeout, Duration::from_secs(9));
    }

    #[test]
    fn what_a_file_asks_for_in_vain_is_named_once() {
        let text = "v: 3\nidentity: {cert: a, key: b, ca: c}\nctrl: {endpoint: 'tls:localhost:1'}\n\
            dialers: [{binding: udp}, {binding: transport, options: {txPortalMaxSize: 99999}}]\n\
            listeners:\n\
            - {binding: proxy, address: 'tcp:0.0.0.0:1', service: a}\n\
            - {binding: proxy, address: 'tcp:0.0.0.0:2', service: b}\n\
            - {binding: proxy_udp, address: 'udp:0.0.0.0:1', service: a}\n\
            - {binding: transport_udp, address: 'udp:0.0.0.0:3'}\n\
            - {binding: tunnel, options: {mode: tproxy}}\n";
        let none = |_: &str| None;
        let read = |text: &str| {
            let path = std::path::Path::new("router.yaml");
            not_acted_upon(&RouterConfig::from_str(text, path, &none).unwrap().config)
        };
        let keys: Vec<&str> = read(text).into_iter().map(|(key, _)| key).collect();
        let expected = [
            "dialers.options",
            "listeners[proxy]",
            "listeners[proxy_udp]",
            "listeners[transport_udp]",
            "listeners[tunnel].options.mode",
        ];
        assert_eq!(keys, expected);
        let text = text.replace(", options: {txPortalMaxSize: 99999}", "");
        assert_eq!(read(&text).first().unwrap().0, "listeners[proxy]");
    }

    #[test]
    fn the_file_can_only_raise_how_many_strangers_wait() {
        let pending = |options: &str| limits_of(options, "").listener.pending;
        assert_eq!(pending(", maxOutstandingConnects: 1"), 512);
        assert_eq!(pending(", maxOutstandingConnects: 1000, maxQueuedConnects: 500"), 1500);
    }
}
