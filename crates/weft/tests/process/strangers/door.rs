//! Ways into a network that no well-behaved client would take.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use weft_identity::{
    Identity, IdentityFile, IdentitySection, LiveIdentity, TrustBundle,
    tls::{ClientTls, client_config},
};
use weft_wire::{
    FrameLimits, Message,
    frame::{Decoder, HEAD_LEN, encode},
};

use crate::{
    network::Place,
    wait::{PATIENCE, within},
};

/// Deadlines of a handshake and of a hello are 5 s. Sooner than this it was none; later it is late,
/// though machines are busy.
pub(super) const NOT_BEFORE: Duration = Duration::from_secs(2);
pub(super) const NOT_AFTER: Duration = Duration::from_secs(40);

/// A port and the protocol that is asked for there.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) name: &'static str,
    pub(super) port: u16,
    tls: Arc<rustls::ClientConfig>,
}

/// The doors of a network: the APIs, the control plane, the edge.
pub(super) struct Doors {
    pub(super) api: Door,
    pub(super) control: Door,
    pub(super) edge: Door,
}

impl Doors {
    /// As an enrolled identity sees them.
    pub(super) fn of(place: &Place, identity: &IdentityFile) -> Self {
        Self::with(place, &identity.section())
    }

    /// As somebody with these keys sees them.
    pub(super) fn with(place: &Place, keys: &IdentitySection) -> Self {
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

    /// All of them.
    pub(super) fn all(&self) -> [&Door; 3] {
        [&self.api, &self.control, &self.edge]
    }
}

impl Door {
    /// The APIs as a stranger sees them who has nothing but the bundle.
    pub(super) fn anonymous(place: &Place, bundle: TrustBundle) -> Self {
        let tls = client_config(&ClientTls::anonymous(bundle, &[b"http/1.1"])).unwrap();
        Self { name: "api", port: place.control, tls: Arc::new(tls) }
    }

    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// A connection without a word.
    pub(super) async fn knock(&self) -> TcpStream {
        self.knock_from(Ipv4Addr::LOCALHOST).await.unwrap()
    }

    /// The same from another address of this machine.
    pub(super) async fn knock_from(&self, source: Ipv4Addr) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((source, 0).into())?;
        socket.connect(self.address()).await
    }

    /// A connection whose TLS is done.
    pub(super) async fn enter(&self) -> TlsStream<TcpStream> {
        let name = "localhost".try_into().unwrap();
        let entered = TlsConnector::from(Arc::clone(&self.tls)).connect(name, self.knock().await);
        within("TLS", PATIENCE, entered).await.unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    /// What TLS says first.
    pub(super) fn client_hello(&self) -> Vec<u8> {
        let name = "localhost".try_into().unwrap();
        let mut tls = rustls::ClientConnection::new(Arc::clone(&self.tls), name).unwrap();
        let mut hello = Vec::new();
        tls.write_tls(&mut hello).unwrap();
        hello
    }
}

/// Reads until the other side has cut the connection, however it did; tells what it said and how
/// long that took.
pub(super) async fn until_cut(stream: &mut (impl AsyncRead + Unpin)) -> (Vec<u8>, Duration) {
    let begun = Instant::now();
    let mut said = Vec::new();
    // A reset is as good an end as any.
    let _ = within("it is cut", PATIENCE, stream.read_to_end(&mut said)).await;
    (said, begun.elapsed())
}

/// Sends a piece every now and then, as if there were much to come; tells when the other side has
/// cut the connection.
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
