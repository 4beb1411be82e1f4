//! A proxy to the controller's API: `edge.apiProxy` (docs/protocol/config.md 5.8).
//!
//! TLS of clients ends here, with the router's server certificate, and a new TLS connection leads to
//! the controller. The bytes in between pass unchanged; certificates of clients are not passed on.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep_until, timeout},
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
use weft_proxy::Proxies;
use weft_web::{Place, Places};

use crate::bindings::ingress::bind_streams;

/// Most connections at the same time.
const MOST: usize = 256;
/// Most connections of one source.
const MOST_OF_A_SOURCE: usize = MOST / 4;
/// Longest time for a handshake on either side.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// A connection ends when no byte has come from either side for this long.
const IDLE: Duration = Duration::from_secs(60);
/// Bytes that are read at once.
const BUFFER: usize = 8 * 1024;
/// Longest life of a connection. Clients dial again.
const LIFE: Duration = Duration::from_secs(600);
/// Wait after the system refused to open another connection.
const PAUSE: Duration = Duration::from_millis(200);

/// The values that all connections share.
struct Proxy {
    upstream: HostPort,
    /// The proxies on the way to the upstream.
    proxies: Proxies,
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
    proxies: Proxies,
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
        proxies,
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
    // The places of each source. A place stays with its connection for as long as the connection
    // may last.
    let shares = Places::new(MOST, MOST_OF_A_SOURCE, LIFE);
    loop {
        // A connection is accepted only when there is a place for it; others wait in the system's
        // queue.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, from)) => {
                let Some(share) = shares.take(from.ip()) else {
                    tracing::debug!(%from, "a connection to the API is closed: its source has too many");
                    continue;
                };
                let (proxy, stop) = (Arc::clone(&proxy), stop.clone());
                let held = (place, share);
                tokio::spawn(async move {
                    let _ = stop.run_until_cancelled(serve(&proxy, stream, from, held)).await;
                });
            }
            Err(problem) => {
                tracing::debug!(%problem, "a connection to the API is not accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn serve(
    proxy: &Proxy,
    stream: TcpStream,
    from: SocketAddr,
    _held: (OwnedSemaphorePermit, Place),
) {
    match timeout(LIFE, carry(proxy, stream)).await {
        Ok(Err(problem)) => tracing::debug!(%from, %problem, "a connection to the API broke"),
        Ok(Ok(())) => {}
        Err(_) => tracing::debug!(%from, "a connection to the API lasted too long"),
    }
}

async fn carry(proxy: &Proxy, stream: TcpStream) -> io::Result<()> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let client = timeout(HANDSHAKE, proxy.accept.accept(stream)).await.map_err(late)??;
    let server = timeout(HANDSHAKE, connect(proxy)).await.map_err(late)??;
    pass(client, server).await
}

/// Passes bytes both ways until both sides have ended, or no byte has come for [`IDLE`].
async fn pass(
    client: impl AsyncRead + AsyncWrite,
    server: impl AsyncRead + AsyncWrite,
) -> io::Result<()> {
    let last = Mutex::new(Instant::now());
    let ((from_client, to_client), (from_server, to_server)) = (split(client), split(server));
    let both = async {
        tokio::try_join!(copy(from_client, to_server, &last), copy(from_server, to_client, &last))
    };
    tokio::select! {
        done = both => done.map(|_| ()),
        () = idle(&last) => Err(io::Error::new(io::ErrorKind::TimedOut, "idle for too long")),
    }
}

/// Passes bytes one way until their end, which is passed on, too. Notes when bytes came last.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    last: &Mutex<Instant>,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        *last.lock() = Instant::now();
        to.write_all(buffer.get(..read).unwrap_or_default()).await?;
        to.flush().await?;
    }
}

/// Waits until no byte has come for [`IDLE`].
async fn idle(last: &Mutex<Instant>) {
    loop {
        let end = *last.lock() + IDLE;
        if end <= Instant::now() {
            return;
        }
        sleep_until(end).await;
    }
}

async fn connect(proxy: &Proxy) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let HostPort { host, port } = &proxy.upstream;
    let through = proxy.proxies.for_https(host, *port).map_err(io::Error::other)?;
    let stream = weft_channel::reach((host, *port), through, None).await?;
    let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
    proxy.connect.connect(name, stream).await
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use tokio::{io::duplex, time::sleep};
    use weft_identity::{
        Authority, AuthoritySpec, Identity, KeyAlgorithm, KeyedChain, Leaf, PrivateKey, Purpose,
        San, Subject, TrustBundle,
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_when_neither_side_has_sent_for_a_minute() {
        let ((mut client, near), (far, mut server)) = (duplex(64), duplex(64));
        let passing = tokio::spawn(pass(near, far));
        let begun = Instant::now();
        let mut said = [0; 5];
        for _ in 0..2 {
            sleep(IDLE - Duration::from_secs(1)).await;
            client.write_all(b"hello").await.unwrap();
            server.read_exact(&mut said).await.unwrap();
            sleep(IDLE - Duration::from_secs(1)).await;
            server.write_all(b"hello").await.unwrap();
            client.read_exact(&mut said).await.unwrap();
        }
        let ended = passing.await.unwrap();
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), 4 * (IDLE - Duration::from_secs(1)) + IDLE);
    }

    #[tokio::test(start_paused = true)]
    async fn one_side_may_end_before_the_other() {
        let ((mut client, near), (far, mut server)) = (duplex(64), duplex(64));
        let passing = tokio::spawn(pass(near, far));
        client.shutdown().await.unwrap();
        let mut rest = Vec::new();
        server.read_to_end(&mut rest).await.unwrap();
        server.write_all(b"bye").await.unwrap();
        drop(server);
        client.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"bye");
        passing.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_source_has_a_share_of_the_connections() {
        let now = SystemTime::now();
        let root = Authority::make_root(&AuthoritySpec::new("root"), now).unwrap();
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let sans = vec![San::Dns("localhost".to_owned())];
        let subject = Subject::common_name("router");
        let leaf = Leaf::for_key(key.public(), &subject, sans, Purpose::Both, now).unwrap();
        let chain = KeyedChain::new(vec![root.issue(&leaf).unwrap()], key).unwrap();
        let bundle = TrustBundle::new([root.certificate().clone()]);
        let identity = LiveIdentity::fixed(Identity::new(Some(chain.clone()), vec![chain], bundle));
        let config = ApiProxy {
            listener: HostPort { host: "127.0.0.1".to_owned(), port: 0 },
            upstream: HostPort { host: "localhost".to_owned(), port: 1 },
        };
        let (proxies, stop) = (Proxies::default(), CancellationToken::new());
        let at = start(&config, &identity, proxies, stop).await.unwrap();
        let mut open = Vec::new();
        for _ in 0..MOST_OF_A_SOURCE {
            open.push(TcpStream::connect(at).await.unwrap());
        }
        // The handshakes of the others may last longer than this.
        let mut over = TcpStream::connect(at).await.unwrap();
        let closed = timeout(HANDSHAKE / 2, over.read(&mut [0])).await;
        assert!(closed.is_ok_and(|read| !read.is_ok_and(|bytes| bytes > 0)));
    }
}
