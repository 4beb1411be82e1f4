//! Access to a network's ports in ways that no well-behaved client uses.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use weft_identity::tls::{ClientTls, client_config};
use weft_identity::{Identity, IdentityFile, IdentitySection, LiveIdentity, TrustBundle};
use weft_wire::frame::{Decoder, HEAD_LEN, encode};
use weft_wire::{FrameLimits, Message};

use crate::network::NetworkFolder;
use crate::wait::{PATIENCE, within};

/// Handshakes and hellos have deadlines of 5 s. A connection that is cut before 2 s was cut for another
/// reason; one that is open after 40 s, on a busy machine, had no deadline.
pub(super) const NOT_BEFORE: Duration = Duration::from_secs(2);
pub(super) const NOT_AFTER: Duration = Duration::from_secs(40);

/// A port, and the protocol to ask for.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) name: &'static str,
    pub(super) port: u16,
    tls: Arc<rustls::ClientConfig>,
}

/// The doors of a network: APIs, control plane, edge.
pub(super) struct Doors {
    pub(super) api: Door,
    pub(super) control: Door,
    pub(super) edge: Door,
}

impl Doors {
    /// The doors for an enrolled identity.
    pub(super) fn of(place: &NetworkFolder, identity: &IdentityFile) -> Self {
        Self::with(place, &identity.section())
    }

    /// The doors for these keys.
    pub(super) fn with(place: &NetworkFolder, keys: &IdentitySection) -> Self {
        let identity = LiveIdentity::fixed(Identity::load(keys).unwrap());
        let door = |name, port, alpn: &[&[u8]]| {
            let tls = client_config(&ClientTls::of_identity(&identity, alpn)).unwrap();
            Door { name, port, tls: Arc::new(tls) }
        };
        Self {
            api: door("api", place.control, &[b"http/1.1"]),
            control: door("control", place.control, &[b"ziti-ctrl"]),
            edge: door("edge", place.router, &[b"ziti-edge"]),
        }
    }

    pub(super) fn all(&self) -> [&Door; 3] {
        [&self.api, &self.control, &self.edge]
    }
}

impl Door {
    /// The door of the APIs for a stranger who only has the bundle.
    pub(super) fn anonymous(place: &NetworkFolder, bundle: TrustBundle) -> Self {
        let tls = client_config(&ClientTls::anonymous(bundle, &[b"http/1.1"])).unwrap();
        Self { name: "api", port: place.control, tls: Arc::new(tls) }
    }

    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// A connection without any data.
    pub(super) async fn knock(&self) -> TcpStream {
        self.knock_from(Ipv4Addr::LOCALHOST).await.unwrap()
    }

    /// [`Door::knock`] from another address of this machine.
    pub(super) async fn knock_from(&self, source: Ipv4Addr) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((source, 0).into())?;
        socket.connect(self.address()).await
    }

    /// A connection after its TLS handshake.
    pub(super) async fn enter(&self) -> TlsStream<TcpStream> {
        let name = "localhost".try_into().unwrap();
        let entered = TlsConnector::from(Arc::clone(&self.tls)).connect(name, self.knock().await);
        within("TLS", PATIENCE, entered).await.unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    /// The first message of a TLS handshake.
    pub(super) fn client_hello(&self) -> Vec<u8> {
        let name = "localhost".try_into().unwrap();
        let mut tls = rustls::ClientConnection::new(Arc::clone(&self.tls), name).unwrap();
        let mut hello = Vec::new();
        tls.write_tls(&mut hello).unwrap();
        hello
    }
}

/// Reads until the server has closed the connection in any way; returns the data and the time it
/// took.
pub(super) async fn until_cut(stream: &mut (impl AsyncRead + Unpin)) -> (Vec<u8>, Duration) {
    let begun = Instant::now();
    let mut said = Vec::new();
    // A reset is an end like any other.
    let _ = within("it is cut", PATIENCE, stream.read_to_end(&mut said)).await;
    (said, begun.elapsed())
}

/// Sends a byte at intervals, as if much was to come; returns when the server has cut the
/// connection.
pub(super) async fn trickle<S>(stream: S, bytes: &[u8], every: Duration) -> Duration
where
    S: AsyncRead + AsyncWrite,
{
    let (mut reader, mut writer) = tokio::io::split(stream);
    let drip = async {
        for byte in bytes {
            if writer.write_all(std::slice::from_ref(byte)).await.is_err()
                || writer.flush().await.is_err()
            {
                break;
            }
            tokio::time::sleep(every).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        (_, took) = until_cut(&mut reader) => took,
        () = drip => Duration::ZERO,
    }
}

/// Sends a frame and reads one.
pub(super) async fn exchange(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    message: &Message,
) -> Message {
    stream.write_all(&encode(message)).await.unwrap();
    stream.flush().await.unwrap();
    read(stream).await
}

/// Reads a frame.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Message {
    let mut decoder = Decoder::new(FrameLimits::MESSAGES);
    let reading = async {
        let mut piece = vec![0; HEAD_LEN];
        loop {
            stream.read_exact(&mut piece).await.unwrap();
            if let Some(message) = decoder.decode(&mut &piece[..]).unwrap() {
                return message;
            }
            piece.resize(decoder.missing(), 0);
        }
    };
    within("a message", PATIENCE, reading).await
}
