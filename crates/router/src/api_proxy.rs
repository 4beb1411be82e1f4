//! A proxy to the controller's API: `edge.apiProxy` (docs/protocol/config.md 5.8).
//!
//! TLS of clients ends here, with the router's server certificate, and a new TLS connection leads to
//! the controller once the client has sent something. The bytes in between pass unchanged; certificates of clients are
//! not passed on.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;
use weft_channel::{Accepted, ConnectionHandler, ListenerLimits, Listeners, RegisterError};
use weft_config::HostPort;
use weft_config::router::ApiProxy;
use weft_identity::LiveIdentity;
use weft_identity::tls::{
    ALPN_HTTP1, ClientAuth, ClientTls, ServerTls, Trust, client_config, server_config,
};
use weft_proxy::Proxies;
use weft_web::PeerQuota;

/// Most connections at the same time.
const MOST: usize = 256;
/// Most connections of one source.
const MOST_OF_A_SOURCE: usize = MOST / 4;
/// How long a connection keeps its permit while others want one; after that those go first on which least is said.
const GRACE: Duration = Duration::from_secs(2);
/// Longest time for a handshake on either side.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// A connection ends when no byte has come from either side for this long.
const IDLE: Duration = Duration::from_secs(60);
/// Bytes that are read at once.
const BUFFER: usize = 8 * 1024;
/// Longest life of a connection. Clients dial again.
const LIFE: Duration = Duration::from_secs(600);

/// The values that all connections share.
struct Proxy {
    upstream: HostPort,
    /// The proxies on the way to the upstream.
    proxies: Proxies,
    connect: TlsConnector,
    quota: Arc<PeerQuota>,
    stop: CancellationToken,
}

/// Accepts the connections of clients.
struct Door(Arc<Proxy>);

/// Why the proxy does not start.
#[derive(Debug, thiserror::Error)]
pub enum ApiProxyError {
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] weft_identity::Error),
    /// The address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] RegisterError),
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
) -> Result<SocketAddr, ApiProxyError> {
    let server = ServerTls { alpn: &[ALPN_HTTP1], client_auth: ClientAuth::None };
    let server = Arc::new(server_config(identity, &server)?);
    // The router shows no certificate of its own: the controller would take the router for the
    // client.
    let client = ClientTls {
        alpn: &[ALPN_HTTP1],
        trust: Trust::Identity(Arc::clone(identity)),
        identity: None,
        to_controllers: true,
    };
    let door = Door(Arc::new(Proxy {
        upstream: config.upstream.clone(),
        proxies,
        connect: TlsConnector::from(Arc::new(client_config(&client)?)),
        quota: PeerQuota::new(MOST, MOST_OF_A_SOURCE, GRACE),
        stop: stop.clone(),
    }));
    let limits = ListenerLimits { connections: 2 * MOST, ..ListenerLimits::default() };
    let tls = Arc::new(move || Some(Arc::clone(&server)));
    let protocols = ["http/1.1", ""];
    let (bind, door) = (config.listener.to_string(), Arc::new(door));
    let registration = Listeners::new().listen(&bind, limits, &protocols, tls, door).await?;
    let bound = registration.local_addr();
    tokio::spawn(async move {
        stop.cancelled().await;
        drop(registration);
    });
    Ok(bound)
}

impl ConnectionHandler for Door {
    fn handle(&self, connection: Accepted) -> BoxFuture<'static, ()> {
        let proxy = Arc::clone(&self.0);
        Box::pin(async move {
            let stop = proxy.stop.clone();
            let served = Box::pin(serve(&proxy, connection));
            let _ = stop.run_until_cancelled(served).await;
        })
    }
}

async fn serve(proxy: &Proxy, connection: Accepted) {
    let Accepted { stream, remote: from, pending, slot: _slot, .. } = connection;
    let Some(permit) = proxy.quota.take(from.ip()) else {
        tracing::debug!(%from, "a connection to the API is closed: there are too many");
        return;
    };
    drop(pending);
    // A client that waits for an answer may be silent; so may one that only keeps the permit.
    let (waiting, taken_back) = permit.waits();
    let carried = carry(proxy, stream, |bytes| waiting.came(bytes));
    let ended = tokio::select! {
        ended = timeout(LIFE, carried) => ended,
        _ = taken_back => {
            tracing::debug!(%from, "a connection to the API made way for others");
            return;
        }
    };
    match ended {
        Ok(Err(problem)) => tracing::debug!(%from, %problem, "a connection to the API broke"),
        Ok(Ok(())) => {}
        Err(_) => tracing::debug!(%from, "a connection to the API lasted too long"),
    }
}

/// Passes the bytes of a client to the controller and back. `came` is told of all bytes.
async fn carry(
    proxy: &Proxy,
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    came: impl Fn(usize),
) -> io::Result<()> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let mut first = vec![0; BUFFER];
    let count = timeout(IDLE, client.read(&mut first)).await.map_err(late)??;
    if count == 0 {
        return Ok(());
    }
    came(count);
    let mut server = timeout(HANDSHAKE, connect(proxy)).await.map_err(late)??;
    server.write_all(first.get(..count).unwrap_or_default()).await?;
    server.flush().await?;
    drop(first);
    pass(client, server, came).await
}

/// Passes bytes both ways until both sides have ended, or no byte has come for [`IDLE`].
async fn pass(
    client: impl AsyncRead + AsyncWrite,
    server: impl AsyncRead + AsyncWrite,
    came: impl Fn(usize),
) -> io::Result<()> {
    let last = Mutex::new(Instant::now());
    let came = |bytes| {
        *last.lock() = Instant::now();
        came(bytes);
    };
    let ((from_client, to_client), (from_server, to_server)) = (split(client), split(server));
    let both = async {
        tokio::try_join!(copy(from_client, to_server, &came), copy(from_server, to_client, &came))
    };
    tokio::select! {
        done = both => done.map(|_| ()),
        () = idle(&last) => Err(io::Error::new(io::ErrorKind::TimedOut, "idle for too long")),
    }
}

/// Passes bytes one way until their end, which is passed on, too.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    came: &impl Fn(usize),
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        came(read);
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
    let stream =
        weft_channel::reach(weft_channel::Asker::Process, (host, *port), through, None).await?;
    let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
    proxy.connect.connect(name, stream).await
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use tokio::io::duplex;
    use tokio::net::{TcpListener, TcpSocket};
    use tokio::time::sleep;
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::client::TlsStream;
    use weft_identity::{
        Authority, AuthoritySpec, Identity, KeyAlgorithm, KeyPurpose, KeyedChain, Leaf, PrivateKey,
        San, SubjectName, TrustBundle,
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_when_neither_side_has_sent_for_a_minute() {
        let ((mut client, near), (far, mut server)) = (duplex(64), duplex(64));
        let passing = tokio::spawn(pass(near, far, |_| {}));
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
        let passing = tokio::spawn(pass(near, far, |_| {}));
        client.shutdown().await.unwrap();
        let mut rest = Vec::new();
        server.read_to_end(&mut rest).await.unwrap();
        server.write_all(b"bye").await.unwrap();
        drop(server);
        client.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"bye");
        passing.await.unwrap().unwrap();
    }

    /// An identity for a server at `localhost`.
    fn identity() -> Arc<LiveIdentity> {
        let now = SystemTime::now();
        let root = Authority::make_root(&AuthoritySpec::new("root"), now).unwrap();
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let sans = vec![San::Dns("localhost".to_owned())];
        let subject = SubjectName::common_name("router");
        let leaf = Leaf::for_key(key.public(), &subject, sans, KeyPurpose::Both, now).unwrap();
        let chain = KeyedChain::new(vec![root.issue(&leaf).unwrap()], key).unwrap();
        let bundle = TrustBundle::new([root.certificate().clone()]);
        LiveIdentity::fixed(Identity::new(Some(chain.clone()), vec![chain], bundle))
    }

    /// The address of a server that answers each connection with what it says first.
    async fn echo(identity: &Arc<LiveIdentity>) -> u16 {
        let server = ServerTls { alpn: &[ALPN_HTTP1], client_auth: ClientAuth::None };
        let accept = TlsAcceptor::from(Arc::new(server_config(identity, &server).unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let accept = accept.clone();
                tokio::spawn(async move {
                    let mut stream = accept.accept(stream).await.unwrap();
                    let mut said = [0; 5];
                    stream.read_exact(&mut said).await.unwrap();
                    stream.write_all(&said).await.unwrap();
                    let _ = stream.read(&mut said).await;
                });
            }
        });
        port
    }

    /// A TLS connection from a source to the proxy.
    async fn client(
        identity: &Arc<LiveIdentity>,
        source: [u8; 4],
        at: SocketAddr,
    ) -> io::Result<TlsStream<TcpStream>> {
        let tls = ClientTls {
            alpn: &[ALPN_HTTP1],
            trust: Trust::Identity(Arc::clone(identity)),
            identity: None,
            to_controllers: false,
        };
        let socket = TcpSocket::new_v4()?;
        socket.bind((source, 0).into())?;
        let stream = socket.connect(at).await?;
        let connect = TlsConnector::from(Arc::new(client_config(&tls).unwrap()));
        connect.connect(ServerName::try_from("localhost").unwrap(), stream).await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn silent_connections_of_many_sources_make_way_for_those_who_speak() {
        let identity = identity();
        let config = ApiProxy {
            listener: HostPort { host: "127.0.0.1".to_owned(), port: 0 },
            upstream: HostPort { host: "localhost".to_owned(), port: echo(&identity).await },
        };
        let stop = CancellationToken::new();
        let at = start(&config, &identity, Proxies::default(), stop).await.unwrap();
        // Four sources open as many connections as they may, half of them without a handshake, and say nothing.
        let mut silent = (Vec::new(), Vec::new());
        for number in 0..2 * MOST {
            let source = [127, 0, 0, 2 + (number % 4) as u8];
            if number % 2 == 0 {
                let socket = TcpSocket::new_v4().unwrap();
                socket.bind((source, 0).into()).unwrap();
                silent.0.push(socket.connect(at).await.unwrap());
            } else {
                silent.1.extend(client(&identity, source, at).await);
            }
        }
        for _ in 0..9 {
            let begun = Instant::now();
            let mut said = [0; 5];
            // While all permits are safe, a client is refused, and comes again.
            while said != *b"hello" {
                assert!(begun.elapsed() < 10 * GRACE, "nobody made way");
                let Ok(mut stream) = client(&identity, [127, 0, 0, 9], at).await else { continue };
                let answered = async {
                    stream.write_all(b"hello").await?;
                    stream.read_exact(&mut said).await
                };
                let _ = timeout(HANDSHAKE, answered).await;
            }
        }
    }
}
