//! A proxy to the controller's API: `edge.apiProxy` (docs/protocol/config.md 5.8).
//!
//! TLS of clients ends here, with the router's server certificate, and a new TLS connection leads to
//! the controller. The bytes in between pass unchanged; certificates of clients are not passed on.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use rustls_pki_types::ServerName;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::sync::CancellationToken;
use weft_config::{
    HostPort,
    router::{ApiProxy, IngressAddress, IngressKind},
};
use weft_identity::{
    LiveIdentity,
    tls::{ALPN_HTTP1, ClientAuth, ClientTls, ServerTls, Trust, client_config, server_config},
};

use crate::bindings::ingress::bind_streams;

/// Most connections at the same time.
const MOST: usize = 256;
/// Longest time for a handshake on either side.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Longest life of a connection. Clients dial again; an idle connection does not keep its place
/// longer.
const LIFE: Duration = Duration::from_secs(600);
/// Wait after the system refused to open another connection.
const PAUSE: Duration = Duration::from_millis(200);

/// The values that all connections share.
struct Proxy {
    upstream: HostPort,
    accept: TlsAcceptor,
    connect: TlsConnector,
}

/// Listens on the configured address and returns the address in use. Listening ends with `stop`.
///
/// # Errors
/// When the address cannot be listened on, or TLS cannot be set up.
pub(crate) async fn start(
    config: &ApiProxy,
    identity: &Arc<LiveIdentity>,
    stop: CancellationToken,
) -> io::Result<SocketAddr> {
    let server = ServerTls { alpn: &[ALPN_HTTP1], client_auth: ClientAuth::None };
    let server = server_config(identity, &server).map_err(io::Error::other)?;
    // The router shows no certificate of its own: the controller would take the router for the
    // client.
    let client = ClientTls {
        alpn: &[ALPN_HTTP1],
        trust: Trust::Identity(Arc::clone(identity)),
        identity: None,
    };
    let client = client_config(&client).map_err(io::Error::other)?;
    let proxy = Arc::new(Proxy {
        upstream: config.upstream.clone(),
        accept: TlsAcceptor::from(Arc::new(server)),
        connect: TlsConnector::from(Arc::new(client)),
    });
    let address = IngressAddress { kind: IngressKind::Tls, at: config.listener.clone() };
    let listener = bind_streams(&address).await?;
    let bound = listener.local_addr()?;
    tokio::spawn(async move {
        let _ = stop.run_until_cancelled(accept(listener, proxy, &stop)).await;
    });
    Ok(bound)
}

async fn accept(listener: TcpListener, proxy: Arc<Proxy>, stop: &CancellationToken) {
    let places = Arc::new(Semaphore::new(MOST));
    loop {
        // A connection is accepted only when there is a place for it; others wait in the system's
        // queue.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, from)) => {
                let (proxy, stop) = (Arc::clone(&proxy), stop.clone());
                tokio::spawn(async move {
                    let _ = stop.run_until_cancelled(serve(&proxy, stream, from, place)).await;
                });
            }
            Err(problem) => {
                tracing::debug!(%problem, "a connection to the API is not accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn serve(proxy: &Proxy, stream: TcpStream, from: SocketAddr, _place: OwnedSemaphorePermit) {
    match timeout(LIFE, carry(proxy, stream)).await {
        Ok(Err(problem)) => tracing::debug!(%from, %problem, "a connection to the API broke"),
        Ok(Ok(())) => {}
        Err(_) => tracing::debug!(%from, "a connection to the API lasted too long"),
    }
}

async fn carry(proxy: &Proxy, stream: TcpStream) -> io::Result<()> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let mut client = timeout(HANDSHAKE, proxy.accept.accept(stream)).await.map_err(late)??;
    let mut server = timeout(HANDSHAKE, connect(proxy)).await.map_err(late)??;
    copy_bidirectional(&mut client, &mut server).await.map(|_| ())
}

async fn connect(proxy: &Proxy) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let HostPort { host, port } = &proxy.upstream;
    let found = weft_channel::resolve(host, *port).await?;
    let stream = weft_channel::connect(found, None).await?;
    let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
    proxy.connect.connect(name, stream).await
}
