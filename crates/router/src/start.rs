//! The start of a router, which puts it together from its two halves.

mod error;
mod settings;
mod tls;
mod without_effect;

use std::sync::Arc;

pub use error::StartError;
use settings::{MAX_HANDSHAKE, data_options, edge_limits, edge_listeners, websocket_options};
pub use tls::check_advertised;
use tls::{WebSocketTls, edge_tls};
use tokio_util::sync::CancellationToken;
use weft_channel::{Listeners, TlsSource, TraceFile};
use weft_config::RouterConfig;
use weft_config::router::{EdgeListener, Listener};
use weft_identity::LiveIdentity;
use weft_identity::tls::{ClientAuth, ClientTls, ServerTls, client_config, server_config};
use weft_spans::Spans;
use weft_wire::ctrl::CtrlChanListener;
use weft_wire::hello::alpn;
use weft_wire::{Address, Scheme, VersionInfo};
pub use without_effect::without_effect;

use crate::access::{AccessHalf, AccessOptions};
use crate::build::Build;
use crate::control::{self, ControlHalf, ControlOptions, EdgeAddresses, Listens, Parts};
use crate::controllers::Controllers;
use crate::data::{DataHalf, DataOptions};
use crate::health::Health;
use crate::link::{self, LinkOptions};
use crate::managed::{self, ManagedLinks};
use crate::running::Router;
use crate::runtimes::Runtimes;
use crate::seam::LinkListener;
use crate::web::{Sources, WebServers};
use crate::{api_proxy, enroll};

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
        let version = VersionInfo::from(build);
        let identity = LiveIdentity::load(config.identity.clone()).map_err(StartError::Identity)?;
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
            runtimes,
        };
        let listens = match router.open(config, &identity).await {
            Ok(open) => open,
            Err(error) => {
                // A failed start closes everything that it has opened.
                router.shutdown().await;
                return Err(error);
            }
        };
        router.control.begin(router.data.clone(), listens);
        if let Some(managed) = router.managed.take() {
            router.runtimes.control.spawn(managed.follow());
        }
        tracing::info!(router = %router.id, edge = ?router.edge, links = ?router.links, "router started");
        Ok(router)
    }

    /// Opens every listener; returns the listeners for controllers to be told of.
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
            let started =
                api_proxy::start(proxy, identity, control::proxies(config), self.stop.clone());
            self.api_proxy = Some(started.await.map_err(StartError::ApiProxy)?);
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
        let is_websocket = |one: &EdgeListener| one.address.scheme == Scheme::Wss;
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
            let bind = listener.address.host_port();
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

    /// Starts to link with other routers; returns the listeners for controllers to be told of.
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
            threads: self.runtimes.data.clone(),
            control_runtime: self.runtimes.control.clone(),
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
        for listener in served.filter(|one| link::links_over(one.bind.scheme)) {
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
        for listener in served.filter(|one| one.bind.scheme == Scheme::Tls) {
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
}
