//! A router, put together from its two halves.

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use tokio::runtime;
use tokio_util::sync::{CancellationToken, DropGuard};
use weft_channel::{
    AcceptOptions, ListenerLimits, Listeners, RegisterError, Registration, TlsSource, TraceFile,
    WebSocketOptions,
};
use weft_config::{
    AddressKind, RouterConfig,
    router::{EdgeListener, Listener, WssOptions},
};
use weft_identity::{
    Identity, LiveIdentity,
    tls::{ClientAuth, ClientTls, ServerTls, client_config, server_config},
};
use weft_spans::Spans;
use weft_web::identity_section;
use weft_wire::{Address, Scheme, VersionInfo, ctrl::CtrlChanListener, hello::alpn};

use crate::{
    access::{AccessHalf, AccessOptions},
    api_proxy,
    control::{self, ControlHalf, ControlOptions, EdgeAddresses, Listens, Parts},
    controllers::Controllers,
    data::{DataHalf, DataOptions, EdgeLimits},
    enroll,
    forwarder::FIN_HOLD,
    health::Health,
    link::{self, LinkOptions},
    managed::{self, ManagedLinks},
    seam::LinkListener,
    web::{Sources, WebServers},
};

/// The build of a router, as it announces it.
#[derive(Debug, Clone)]
pub struct Build {
    /// The release of OpenZiti that this build corresponds to, `vX.Y.Z`. Peers compare it to decide
    /// which messages they may send (docs/protocol/control-plane.md 2.1).
    pub version: String,
    /// Revision of the sources.
    pub revision: String,
    /// The time of the build.
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

/// The interval at which a draining router counts its circuits, and the longest wait for controllers
/// to hear that its terminators are removed.
const DRAIN_LOOK: Duration = Duration::from_millis(50);
const TOLD: Duration = Duration::from_secs(2);
/// How long the last traced messages may take to reach their file.
const TRACED: Duration = Duration::from_secs(2);
/// Longest time for a TLS handshake, whatever the file says: the most that a hello may be given.
const MAX_HANDSHAKE: Duration = Duration::from_secs(60);

/// The runtimes of a router. Payloads move on one; control channels, decisions on access and reports
/// have another, so that they do not delay payloads.
#[derive(Debug)]
pub struct Runtimes {
    data: runtime::Handle,
    control: runtime::Handle,
    /// Runtimes that end with the router.
    own: Vec<runtime::Runtime>,
}

impl Runtimes {
    /// Makes runtimes of the router's own: as many threads for data as there are processors, and one
    /// or two for control.
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

    /// Uses runtimes of the calling program.
    #[must_use]
    pub fn given(data: runtime::Handle, control: runtime::Handle) -> Self {
        Self { data, control, own: Vec::new() }
    }
}

impl Drop for Runtimes {
    fn drop(&mut self) {
        // The router may be dropped on a runtime's thread, which must not wait for other threads.
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
    /// The client certificate has no name.
    #[error(
        "the client certificate of the identity has no common name, which is the id of a router"
    )]
    Nameless,
    /// The certificate is not valid for an address that SDKs are told.
    #[error("invalid listeners.binding.advertise: {0}")]
    Advertise(weft_identity::Error),
    /// TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(weft_identity::Error),
    /// A listener for SDKs could not be opened.
    #[error("error listening [edge]: {0}")]
    Listen(#[from] RegisterError),
    /// A listener for programs without an SDK could not be opened.
    #[error("error listening [{binding}]: cannot listen on {address}: {source}")]
    Ingress {
        /// The binding.
        binding: &'static str,
        /// The address in the file.
        address: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A listener for links could not be opened.
    #[error("error listening [link.listeners]: {0}")]
    Link(RegisterError),
    /// A listener for controllers could not be opened.
    #[error("error listening [ctrl.listeners]: {0}")]
    Ctrl(RegisterError),
    /// The tunneler cannot intercept traffic.
    #[error(
        "error listening [tunnel], mode tproxy: {0}; mode host only hosts and mode proxy offers \
         services at ports: neither needs a privilege"
    )]
    Tunnel(#[from] weft_tunnel::InterceptError),
    /// The proxy to the controller's API could not be started.
    #[error("error listening [edge.apiProxy.listener]: {0}")]
    ApiProxy(std::io::Error),
    /// The file for traced messages could not be opened.
    #[error("trace.path: {0}")]
    Trace(std::io::Error),
    /// A server of the section `web` could not be started.
    #[error(transparent)]
    Web(#[from] weft_web::StartError),
    /// No controller was reached in this time.
    #[error("unable to connect to any controllers before timeout ({0:?}, ctrl.startupTimeout)")]
    NoController(Duration),
}

impl StartError {
    /// True if the configuration file, or a file that it names, has to be changed before another
    /// start.
    #[must_use]
    pub fn is_of_the_file(&self) -> bool {
        !matches!(self, Self::NoController(_))
    }
}

/// Checks that a certificate which clients of an edge listener are shown has the advertised host: the
/// router's certificate, or for WebSockets that of browsers.
///
/// # Errors
/// When no certificate has the host.
pub fn check_advertised(
    own: &Identity,
    outer: Option<&Identity>,
    host: &str,
) -> Result<(), weft_identity::Error> {
    match (own.check_host(host), outer) {
        (Err(_), Some(outer)) => outer.check_host(host),
        (checked, _) => checked,
    }
}

/// A running router.
pub struct Router {
    id: String,
    control: ControlHalf,
    access: AccessHalf,
    data: Arc<DataHalf>,
    controllers: Arc<Controllers>,
    edge: Vec<SocketAddr>,
    ingress: Vec<SocketAddr>,
    links: Vec<SocketAddr>,
    /// Listeners for controllers.
    taking: Vec<Registration>,
    /// Applies managed settings, once the router has begun.
    managed: Option<ManagedLinks>,
    api_proxy: Option<SocketAddr>,
    /// Ends the tasks that belong to neither half.
    stop: CancellationToken,
    startup_timeout: Option<Duration>,
    web: Option<WebServers>,
    health: Arc<Health>,
    _checks: DropGuard,
    _runtimes: Runtimes,
}

impl Router {
    /// Starts a router of a configuration: listens for SDKs, then starts to connect to controllers.
    ///
    /// # Errors
    /// When the identity cannot be used or an address cannot be listened on. A start without a
    /// reachable controller succeeds; see [`Router::online`].
    pub async fn start(config: &RouterConfig, runtimes: Runtimes) -> Result<Self, StartError> {
        Self::start_as(&Build::default(), config, runtimes, Spans::off()).await
    }

    /// As [`Router::start`], with the program's build and a recorder for spans of dials.
    ///
    /// # Errors
    /// As for [`Router::start`].
    pub async fn start_as(
        build: &Build,
        config: &RouterConfig,
        runtimes: Runtimes,
        spans: Spans,
    ) -> Result<Self, StartError> {
        warn_not_acted_upon(config);
        let version = VersionInfo::from(build);
        let identity =
            LiveIdentity::load(identity_section(&config.identity)).map_err(StartError::Identity)?;
        let id = identity.current().name().ok_or(StartError::Nameless)?.to_owned();
        let controllers = Arc::new(Controllers::new(config.ctrl.heartbeats.unresponsive_after));
        let trace = config.debugging.trace.as_ref().map(|path| TraceFile::create(path, &id));
        let trace = trace.transpose().map_err(StartError::Trace)?;
        let access =
            AccessHalf::new(AccessOptions::new(config, &id), identity.clone(), controllers.clone());
        let options = ControlOptions::new(config, &id, version.clone());
        let control = ControlHalf::new(Parts {
            options: ControlOptions { spans: spans.clone(), ..options },
            trace: trace.clone(),
            identity: identity.clone(),
            names: config.csr.as_ref().map(enroll::names),
            controllers: controllers.clone(),
            access: access.clone(),
            runtime: runtimes.control.clone(),
        })
        .map_err(StartError::Tls)?;
        let client = ClientTls::of_identity(&identity, &[]);
        let client = Arc::new(client_config(&client).map_err(StartError::Tls)?);
        let options = data_options(config, &id, version, &runtimes, client);
        let options = DataOptions { trace, spans, ..options };
        let data = DataHalf::start(options, Arc::new(control.clone()), Arc::new(access.clone()));
        control.register(data.measures());
        let stop = CancellationToken::new();
        let health = Health::start(
            config.health_checks.clone(),
            controllers.clone(),
            &data,
            &runtimes.control,
            stop.clone(),
        );
        let mut router = Self {
            web: None,
            health,
            _checks: stop.drop_guard(),
            id,
            control,
            access,
            data,
            controllers,
            edge: Vec::new(),
            ingress: Vec::new(),
            links: Vec::new(),
            taking: Vec::new(),
            managed: None,
            api_proxy: None,
            stop: CancellationToken::new(),
            startup_timeout: config.ctrl.startup_timeout,
            _runtimes: runtimes,
        };
        let listens = match router.open(config, &identity).await {
            Ok(open) => open,
            Err(error) => {
                // A start that fails closes what it has opened.
                router.shutdown().await;
                return Err(error);
            }
        };
        router.control.begin(router.data.clone(), listens);
        if let Some(managed) = router.managed.take() {
            router._runtimes.control.spawn(managed.follow());
        }
        tracing::info!(router = %router.id, edge = ?router.edge, links = ?router.links, "router started");
        Ok(router)
    }

    /// Opens every listener; returns what controllers are told of them.
    async fn open(
        &mut self,
        config: &RouterConfig,
        identity: &Arc<LiveIdentity>,
    ) -> Result<Listens, StartError> {
        let sockets = Arc::new(Listeners::new());
        let edge = self.listen(config, identity, &sockets).await?;
        let links = self.link(config, identity, &sockets).await?;
        let taking = self.take_controllers(config, identity, &sockets).await?;
        self.listen_ingress(config, identity).await?;
        self.serve_web(config, identity, &sockets).await?;
        if let Some(proxy) = config.edge.as_ref().and_then(|edge| edge.api_proxy.as_ref()) {
            let started = api_proxy::start(proxy, identity, self.stop.clone()).await;
            self.api_proxy = Some(started.map_err(StartError::ApiProxy)?);
        }
        // Interception comes last, because it changes the machine.
        let ctrl = &config.ctrl;
        let configured = ctrl.endpoints.iter().map(|one| (one.host.clone(), one.port));
        let controllers = control::first_addresses(&ctrl.endpoints_file, configured);
        self.controllers.set_addresses(controllers);
        self.data.tunnel(self.controllers.addresses()).await?;
        Ok(Listens { edge, links, controllers: taking })
    }

    /// Listens for SDKs; returns the listeners that controllers are told of.
    async fn listen(
        &mut self,
        config: &RouterConfig,
        identity: &Arc<LiveIdentity>,
        sockets: &Listeners,
    ) -> Result<Vec<EdgeAddresses>, StartError> {
        let tls = edge_tls(identity, &self.access)?;
        let is_websocket = |one: &EdgeListener| one.address.kind == AddressKind::Wss;
        let outer = match edge_listeners(config).any(is_websocket) {
            true => Some(WebSocketTls::new(config, identity)?),
            false => None,
        };
        if let (Some(outer), Some(_)) = (&outer, &config.transport.wss.identity) {
            self.data.follow(outer.identity.clone());
        }
        let mut told = Vec::new();
        for listener in edge_listeners(config) {
            let outer = outer.as_ref().filter(|_| is_websocket(listener));
            let outer_now = outer.map(|outer| outer.identity.current());
            let host = &listener.advertise.host;
            check_advertised(&identity.current(), outer_now.as_deref(), host)
                .map_err(StartError::Advertise)?;
            let bind = listener.address.host_port().to_string();
            // Connections are accepted on the same runtime that reads them.
            let limits = edge_limits(config, listener);
            let (scheme, bound) = if let Some(outer) = outer {
                let options = websocket_options(&config.transport.wss);
                let (outer, inner) = (outer.tls.clone(), tls.clone());
                let data = &self.data;
                let listening =
                    data.listen_edge_websockets(sockets, &bind, limits, outer, inner, options);
                (Scheme::Wss, listening.await?)
            } else {
                (Scheme::Tls, self.data.listen_edge(sockets, &bind, limits, tls.clone()).await?)
            };
            let address = |host: &str, port: u16| {
                let port = if port == 0 { bound.port() } else { port };
                Address::new(scheme, host, port)
            };
            told.push(EdgeAddresses {
                address: address(&listener.address.host, listener.address.port),
                advertise: address(&listener.advertise.host, listener.advertise.port),
            });
            self.edge.push(bound);
        }
        Ok(told)
    }

    /// Listens for programs without an SDK.
    async fn listen_ingress(
        &mut self,
        config: &RouterConfig,
        identity: &Arc<LiveIdentity>,
    ) -> Result<(), StartError> {
        let server = ServerTls { alpn: &[], client_auth: ClientAuth::None };
        let server = Arc::new(server_config(identity, &server).map_err(StartError::Tls)?);
        for listener in &config.listeners {
            let Listener::Ingress(listener) = listener else { continue };
            let bound = self.data.listen_ingress(listener, server.clone()).await;
            let bound = bound.map_err(|source| StartError::Ingress {
                binding: listener.binding(),
                address: listener.address.to_string(),
                source,
            })?;
            self.ingress.extend(bound);
        }
        Ok(())
    }

    /// Starts the servers of the section `web`.
    async fn serve_web(
        &mut self,
        config: &RouterConfig,
        identity: &Arc<LiveIdentity>,
        sockets: &Listeners,
    ) -> Result<(), StartError> {
        if config.web.is_empty() {
            return Ok(());
        }
        let sources = Sources {
            router_id: self.id.clone(),
            health: self.health.clone(),
            data: self.data.clone(),
            texts: Default::default(),
        };
        self.web = Some(WebServers::start(&config.web, sources, identity, sockets).await?);
        Ok(())
    }

    /// Links with other routers; answers what controllers are told of its listeners.
    async fn link(
        &mut self,
        config: &RouterConfig,
        identity: &Arc<LiveIdentity>,
        sockets: &Arc<Listeners>,
    ) -> Result<Vec<LinkListener>, StartError> {
        let are_managed = managed::links_are_managed(config);
        if config.link.listeners.is_empty() && config.link.dialers.is_empty() && !are_managed {
            return Ok(Vec::new());
        }
        let client = ClientTls::of_identity(identity, &[]);
        let tls = Arc::new(client_config(&client).map_err(StartError::Tls)?);
        let options = LinkOptions {
            router_id: self.id.clone(),
            config: config.link.clone(),
            proxy: control::proxy(config),
            dial_workers: config.forwarder.link_dial_workers as usize,
            dial_queue: config.forwarder.link_dial_queue as usize,
            handshake_timeout: config.tls_handshake_timeout.min(MAX_HANDSHAKE),
            datagrams: link::datagram::options(config),
            datagram_handshake_timeout: config.transport.dtls.handshake_timeout,
            probe_interval: config.forwarder.latency_probe_interval,
            data_runtime: self._runtimes.data.clone(),
            control_runtime: self._runtimes.control.clone(),
            trace: self.data.trace(),
        };
        let control = Arc::new(self.control.clone());
        self.data.begin_links(options, control, identity.clone(), tls);
        let server = ServerTls { alpn: &[], client_auth: ClientAuth::Require };
        let server = Arc::new(server_config(identity, &server).map_err(StartError::Tls)?);
        let server: TlsSource = Arc::new(move || Some(server.clone()));
        if let Some(links) = self.data.linking().filter(|_| are_managed) {
            self.managed = Some(ManagedLinks {
                links,
                control: self.control.clone(),
                sockets: Arc::clone(sockets),
                tls: server.clone(),
                wanted: self.access.managed(),
                unresponsive: config.forwarder.unresponsive_link_timeout,
                draining: self.data.draining(),
            });
        }
        let mut told = Vec::new();
        let served = config.link.listeners.iter();
        for listener in served.filter(|one| link::links_over(one.bind.kind)) {
            if let Err(problem) = identity.current().check_host(&listener.advertise.host) {
                tracing::warn!(
                    advertise = %listener.advertise, %problem,
                    "link.listeners.advertise: the server certificate does not have this name, so \
                     that other routers will refuse it"
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

    /// Listens for controllers; returns the listeners that controllers are told of.
    async fn take_controllers(
        &mut self,
        config: &RouterConfig,
        identity: &Arc<LiveIdentity>,
        sockets: &Listeners,
    ) -> Result<Vec<CtrlChanListener>, StartError> {
        let alpn = [alpn::CTRL.as_bytes()];
        let server = ServerTls { alpn: &alpn, client_auth: ClientAuth::Require };
        let server = Arc::new(server_config(identity, &server).map_err(StartError::Tls)?);
        let server: TlsSource = Arc::new(move || Some(server.clone()));
        let handshake = config.tls_handshake_timeout.min(MAX_HANDSHAKE);
        let mut told = Vec::new();
        let served = config.ctrl.listeners.iter();
        for listener in served.filter(|one| one.bind.kind == AddressKind::Tls) {
            if let Err(problem) = identity.current().check_host(&listener.advertise.host) {
                tracing::warn!(
                    advertise = %listener.advertise, %problem,
                    "ctrl.listeners.advertise: the server certificate does not have this name, so \
                     that controllers will refuse it"
                );
            }
            let listened = self.control.listen(sockets, listener, handshake, server.clone()).await;
            let (registration, listener) = listened.map_err(StartError::Ctrl)?;
            self.taking.push(registration);
            told.push(listener);
        }
        Ok(told)
    }

    /// Where the way to the controller's API is, if there is one.
    #[must_use]
    pub fn api_proxy_address(&self) -> Option<SocketAddr> {
        self.api_proxy
    }

    /// The addresses at which other routers dial this router.
    #[must_use]
    pub fn link_addresses(&self) -> &[SocketAddr] {
        &self.links
    }

    /// Id of the router.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The addresses for programs without an SDK, in the order of the file.
    #[must_use]
    pub fn ingress_addresses(&self) -> &[SocketAddr] {
        &self.ingress
    }

    /// The addresses at which SDKs connect.
    #[must_use]
    pub fn edge_addresses(&self) -> &[SocketAddr] {
        &self.edge
    }

    /// Waits until the router is online: it is connected to a controller and has the data model.
    pub async fn online(&self) {
        let mut online = self.access.online();
        // The sender lives as long as the router, so that waiting cannot fail.
        let _ = online.wait_for(|online| *online).await;
    }

    /// Waits for the first controller, as long as the configuration says (`ctrl.startupTimeout`).
    ///
    /// # Errors
    /// When no controller was reached in time; the program should then end.
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

    /// The data half, for its counts.
    #[must_use]
    pub fn data(&self) -> &Arc<DataHalf> {
        &self.data
    }

    /// Checks at once for changed identity files, instead of within a second.
    pub async fn reload(&self) {
        self.control.reload().await;
        if let Some(web) = &self.web {
            web.reload().await;
        }
    }

    /// The runtimes that the router works on.
    #[must_use]
    pub fn runtimes(&self) -> Vec<runtime::Handle> {
        vec![self._runtimes.data.clone(), self._runtimes.control.clone()]
    }

    /// Accepts nothing new, removes the terminators, and waits until the circuits have ended, but no
    /// longer than `grace`.
    pub async fn drain(&self, grace: Duration) {
        // The order matters: the data half refuses routes until a controller has heard of the drain.
        self.data.drain();
        self.control.drain();
        let (begun, mut told) = (tokio::time::Instant::now(), 0);
        loop {
            let (circuits, _) = self.data.counts();
            let passed = begun.elapsed();
            // A controller that is away learns of the removal when it finds the router gone.
            let has_told = self.control.removals() == 0 || passed >= TOLD;
            if circuits == 0 && has_told {
                return;
            }
            if passed >= grace {
                tracing::info!(
                    circuits,
                    "the grace period is over: the circuits that are left are cut"
                );
                return;
            }
            if told != circuits {
                told = circuits;
                tracing::info!(circuits, left = ?(grace - passed), "waiting for circuits to end");
            }
            tokio::time::sleep(DRAIN_LOOK).await;
        }
    }

    /// Stops the router: no new connections at first, then none at all; the data model is written.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        self.taking.clear();
        if let Some(web) = &self.web {
            web.stop();
        }
        self.data.shutdown();
        self.control.shutdown().await;
        self.data.gone().await;
        if let Some(trace) = self.data.trace() {
            trace.flush(TRACED).await;
        }
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The listeners for SDKs that are served.
fn edge_listeners(config: &RouterConfig) -> impl Iterator<Item = &EdgeListener> {
    let listeners = config.edge.is_some().then_some(config.listeners.as_slice());
    listeners.unwrap_or_default().iter().filter_map(|listener| match listener {
        Listener::Edge(edge) => Some(edge),
        _ => None,
    })
}

/// The limits of handshakes and hellos (docs/protocol/channel.md 3, 7.1, 15.4). The file can only
/// raise the number of hellos at the same time: with as few as the original allows, as many silent
/// strangers would keep everybody else out.
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
        circuits: listener.options.clone(),
    }
}

fn data_options(
    config: &RouterConfig,
    id: &str,
    version: VersionInfo,
    runtimes: &Runtimes,
    client_tls: Arc<rustls::ClientConfig>,
) -> DataOptions {
    let xgress = config.listeners.iter().find_map(|one| match one {
        Listener::Tunnel(tunnel) => Some(tunnel.options.clone()),
        _ => None,
    });
    DataOptions {
        router_id: id.to_owned(),
        version,
        xgress: xgress.unwrap_or_default(),
        forwarder: config.forwarder.clone(),
        dialers: config.dialers.clone(),
        client_tls: Some(client_tls),
        fin_hold: FIN_HOLD,
        tunnel: config.listeners.iter().find_map(|one| match one {
            Listener::Tunnel(options) => Some((**options).clone()),
            _ => None,
        }),
        usage_interval: config.metrics.report_interval,
        trace: None,
        spans: Spans::off(),
        data_runtime: runtimes.data.clone(),
        control_runtime: runtimes.control.clone(),
    }
}

/// TLS for SDKs: they have to show a certificate that leads to an authority of the data model. That
/// it is the certificate of their session is checked later.
fn edge_tls(identity: &Arc<LiveIdentity>, access: &AccessHalf) -> Result<TlsSource, StartError> {
    let access = access.clone();
    let judge = move |chain: &[rustls_pki_types::CertificateDer<'_>]| access.admits_chain(chain);
    let tls = ServerTls { alpn: &[], client_auth: ClientAuth::Judge(Arc::new(judge)) };
    let config = Arc::new(server_config(identity, &tls).map_err(StartError::Tls)?);
    Ok(Arc::new(move || Some(config.clone())))
}

/// TLS for browsers: no client certificate is asked for, and the server's certificate may be one that
/// browsers trust (`transport.wss.identity`).
struct WebSocketTls {
    identity: Arc<LiveIdentity>,
    tls: TlsSource,
}

impl WebSocketTls {
    fn new(config: &RouterConfig, identity: &Arc<LiveIdentity>) -> Result<Self, StartError> {
        let identity = match &config.transport.wss.identity {
            Some(section) => {
                LiveIdentity::load(identity_section(section)).map_err(StartError::Tls)?
            }
            None => identity.clone(),
        };
        let tls = ServerTls { alpn: &[], client_auth: ClientAuth::None };
        let config = Arc::new(server_config(&identity, &tls).map_err(StartError::Tls)?);
        Ok(Self { identity, tls: Arc::new(move || Some(config.clone())) })
    }
}

/// A time limit of the file; 0, which means none there, becomes the longest time allowed for
/// strangers.
fn or_most(time: Duration) -> Duration {
    if time.is_zero() { MAX_HANDSHAKE } else { time }
}

/// The options for WebSockets in the file.
fn websocket_options(wss: &WssOptions) -> WebSocketOptions {
    WebSocketOptions {
        read_timeout: or_most(wss.read_timeout),
        write_timeout: or_most(wss.write_timeout),
        handshake_timeout: or_most(wss.handshake_timeout).min(MAX_HANDSHAKE),
        ping_interval: wss.ping_interval,
        pong_timeout: wss.pong_timeout,
        read_buffer: wss.read_buffer as usize,
        write_buffer: wss.write_buffer as usize,
    }
}

/// Warns once of settings in the file that have no effect in this release.
fn warn_not_acted_upon(config: &RouterConfig) {
    for (key, why) in not_acted_upon(config) {
        tracing::warn!(key, "not acted upon: {why}");
    }
}

fn not_acted_upon(config: &RouterConfig) -> Vec<(&'static str, &'static str)> {
    let mut out = Vec::new();
    let mut warn = |wanted: bool, key: &'static str, why: &'static str| {
        // A setting of several listeners is named once.
        if wanted && !out.contains(&(key, why)) {
            out.push((key, why));
        }
    };
    let other = |kind: AddressKind| kind != AddressKind::Tls;
    let listeners = config.link.listeners.iter().any(|one| !link::links_over(one.bind.kind));
    warn(listeners, "link.listeners.bind", "routers link over tls and dtls only");
    let controllers = config.ctrl.listeners.iter().any(|one| other(one.bind.kind));
    warn(controllers, "ctrl.listeners.bind", "controllers dial routers over tls only");
    let managed = &config.managed_config;
    let is_other =
        |allowed: &String| !["all", "router.link", managed::LINK].contains(&allowed.as_str());
    warn(
        managed.iter().any(is_other),
        "managedConfig.allow",
        "controllers set router.link.v1 only",
    );
    let is_read = config.edge.is_some();
    warn(!managed.is_empty() && !is_read, "managedConfig", "it comes with the data model (`edge`)");
    let is_local = config.allows_managed(managed::LINK) && !managed::links_are_managed(config);
    warn(is_local, "managedConfig.allow", "the section `link` of this file counts");
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
    fn no_limit_for_strangers_is_the_most_there_is() {
        let text = "v: 3\nidentity: {cert: a, key: b}\nctrl: {endpoint: 'tls:localhost:1'}\n\
                    transport: {wss: {readTimeout: 0, writeTimeout: 0, handshakeTimeout: 0, pingInterval: 0}}\n";
        let none = |_: &str| None;
        let config = RouterConfig::from_str(text, std::path::Path::new("r.yaml"), &none).unwrap();
        let options = websocket_options(&config.config.transport.wss);
        let times = [options.read_timeout, options.write_timeout, options.handshake_timeout];
        assert_eq!(times, [MAX_HANDSHAKE; 3]);
        assert_eq!(options.ping_interval, Duration::ZERO, "never");
    }

    #[test]
    fn nothing_of_a_tunneler_is_asked_for_in_vain() {
        let text = "v: 3\nidentity: {cert: a, key: b, ca: c}\nctrl: {endpoint: 'tls:localhost:1'}\n\
            listeners:\n\
            - {binding: proxy, address: 'tcp:0.0.0.0:1', service: a}\n\
            - {binding: tunnel, options: {mode: 'tproxy:/bin/divert'}}\n\
            - {binding: tunnel, options: {mode: tproxy, resolver: 'file:///etc/hosts'}}\n\
            - {binding: tunnel, options: {mode: tproxy}}\n";
        let none = |_: &str| None;
        let path = std::path::Path::new("router.yaml");
        let config = RouterConfig::from_str(text, path, &none).unwrap().config;
        assert_eq!(not_acted_upon(&config), []);
    }

    #[test]
    fn the_file_can_only_raise_how_many_strangers_wait() {
        let pending = |options: &str| limits_of(options, "").listener.pending;
        assert_eq!(pending(", maxOutstandingConnects: 1"), 512);
        assert_eq!(pending(", maxOutstandingConnects: 1000, maxQueuedConnects: 500"), 1500);
    }
}
