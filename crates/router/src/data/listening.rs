//! The listeners of the data half: for SDKs, for programs without an SDK, and for other routers.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use weft_channel::{
    ChannelAcceptor, Listeners, RegisterError, TlsSource, WebSocketAcceptor, WebSocketOptions,
};
use weft_config::router::{IngressKind, IngressListener};
use weft_identity::LiveIdentity;
use weft_wire::hello::alpn;

use super::DataHalf;
use super::options::{EdgeLimits, end_options};
use crate::bindings::edge::{Dialed, EdgeGate};
use crate::bindings::ingress::{
    self, DatagramEnds, DatagramLimits, Ingress, IngressOptions, StreamLimits, serve_datagrams,
    serve_streams,
};
use crate::control::ControlHalf;
use crate::link::datagram::Socket;
use crate::link::{LinkOptions, Links};
use crate::seam;

/// How often identity files are checked for changes.
const LOOK: Duration = Duration::from_secs(1);

impl DataHalf {
    /// Listens for SDKs on `bind` (`host:port`; port 0 takes a free one).
    ///
    /// # Errors
    /// When the address cannot be listened on, or is taken by another protocol.
    pub async fn listen_edge(
        &self,
        listeners: &Listeners,
        bind: &str,
        limits: EdgeLimits,
        tls: TlsSource,
    ) -> Result<SocketAddr, RegisterError> {
        let gate = self.edge_gate(&limits);
        let acceptor = Arc::new(ChannelAcceptor::new(gate, limits.hello));
        // Go SDKs offer no protocol at all.
        let protocols = [alpn::EDGE, ""];
        let listening = listeners.listen(bind, limits.listener, &protocols, tls, acceptor);
        let registration = Socket::from(listening.await?);
        let address = registration.local_addr();
        self.listening.lock().push(registration);
        Ok(address)
    }

    fn edge_gate(&self, limits: &EdgeLimits) -> EdgeGate {
        let dialed = Dialed {
            end: end_options(&limits.circuits),
            timeout: limits.circuits.get_circuit_timeout,
        };
        EdgeGate {
            binding: Arc::clone(&self.edge),
            write_timeout: limits.write_timeout,
            dialed: Arc::new(dialed),
        }
    }

    /// Listens for SDKs in browsers, over WebSockets. `tls` is the TLS of the WebSockets, `inner`
    /// the TLS inside them, in which SDKs authenticate.
    ///
    /// # Errors
    /// As for [`Self::listen_edge`].
    pub async fn listen_edge_websockets(
        &self,
        listeners: &Listeners,
        bind: &str,
        limits: EdgeLimits,
        tls: TlsSource,
        inner: TlsSource,
        options: WebSocketOptions,
    ) -> Result<SocketAddr, RegisterError> {
        let gate = self.edge_gate(&limits);
        let channels = ChannelAcceptor::new(gate, limits.hello);
        let acceptor = Arc::new(WebSocketAcceptor::new(channels, inner, options));
        let listening = listeners.listen(bind, limits.listener, &["http/1.1"], tls, acceptor);
        let registration = Socket::from(listening.await?);
        let address = registration.local_addr();
        self.listening.lock().push(registration);
        Ok(address)
    }

    /// Listens for programs without an SDK. `tls` is the TLS of `tls:` addresses.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub(crate) async fn listen_ingress(
        &self,
        config: &IngressListener,
        tls: Arc<rustls::ServerConfig>,
    ) -> io::Result<Option<SocketAddr>> {
        let ingress = Ingress::new(
            Arc::clone(&self.forwarder),
            Arc::clone(&self.control),
            IngressOptions {
                name: format!("{} {}", config.binding(), config.address),
                service: config.service.clone(),
                end: end_options(&config.options),
                circuit_timeout: config.options.get_circuit_timeout,
                peer_timeout: self.options.forwarder.xgress_user_timeout,
                threads: self.options.threads.clone(),
            },
        );
        let address = config.address.clone();
        let (draining, stop) = (self.draining.clone(), self.stop.clone());
        // A socket has to be made on the runtime that it is used on.
        let begun = self.options.threads.first().spawn(async move {
            if address.kind.is_datagram() {
                let socket = ingress::bind_datagrams(&address).await?;
                let bound = socket.local_addr();
                let ends = DatagramEnds { draining, stop };
                tokio::spawn(serve_datagrams(ingress, socket, DatagramLimits::default(), ends));
                return Ok(bound);
            }
            let listener = ingress::bind_streams(&address).await?;
            let bound = listener.local_addr().ok();
            let tls = (address.kind == IngressKind::Tls).then_some(tls);
            tokio::spawn(serve_streams(ingress, listener, tls, StreamLimits::default(), draining));
            Ok(bound)
        });
        begun.await.map_err(io::Error::other)?
    }

    /// Starts to link with the other routers that controllers announce. Only the first call has an
    /// effect.
    pub(crate) fn begin_links(
        &self,
        options: LinkOptions,
        control: Arc<ControlHalf>,
        identity: Arc<LiveIdentity>,
        tls: Arc<rustls::ClientConfig>,
    ) {
        let make = || {
            let (forwarder, stop) = (Arc::clone(&self.forwarder), self.stop.clone());
            Links::start(options, forwarder, control.clone(), control, identity, tls, stop)
        };
        self.links.get_or_init(make);
    }

    /// Listens for other routers. Returns the addresses in use and the listener that other routers
    /// are told of.
    ///
    /// # Errors
    /// When the address cannot be listened on, or is taken by another protocol.
    pub(crate) async fn listen_links(
        &self,
        listeners: &Listeners,
        config: &weft_config::router::LinkListener,
        tls: TlsSource,
    ) -> Result<Option<(SocketAddr, seam::LinkListener)>, RegisterError> {
        let Some(links) = self.links.get() else { return Ok(None) };
        let (bound, told, registration) = links.listen(listeners, config, tls).await?;
        self.listening.lock().push(registration);
        Ok(Some((bound, told)))
    }

    /// Follows the files of an identity that change while the router runs: later handshakes use the
    /// new ones.
    pub(crate) fn follow(&self, identity: Arc<LiveIdentity>) {
        let stop = self.stop.clone();
        self.options.control_runtime.spawn(async move {
            // The same error is logged once.
            let mut complaint = String::new();
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(LOOK) => {}
                }
                let looked = Arc::clone(&identity);
                let changed = tokio::task::spawn_blocking(move || looked.reload_if_changed());
                match changed.await {
                    Ok(Ok(true)) => {
                        complaint.clear();
                        tracing::info!("new certificates of transport.wss.identity are in use");
                    }
                    Ok(Err(problem)) if problem.to_string() != complaint => {
                        complaint = problem.to_string();
                        tracing::warn!(
                            %problem,
                            "the changed files of transport.wss.identity cannot be used; the \
                             former certificates stay in use"
                        );
                    }
                    _ => {}
                }
            }
        });
    }
}
