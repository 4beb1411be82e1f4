//! Sockets of listeners for datagrams, UDP or in the file system, and their clients.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::{fmt, io};

use tokio::net::UdpSocket;
#[cfg(unix)]
use tokio::net::UnixDatagram;

/// A sender of datagrams to a listener.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Talker {
    /// An address.
    Ip(SocketAddr),
    /// The path of a program's socket; `None` for programs whose sockets have no path. These are not
    /// told apart, and nothing can be sent to them.
    Local(Option<Arc<Path>>),
}

impl Talker {
    /// The address, unless it is a program of this machine with a socket in the file system.
    pub(crate) fn ip(&self) -> Option<SocketAddr> {
        match self {
            Self::Ip(address) => Some(*address),
            Self::Local(_) => None,
        }
    }

    /// The source for limits by source. All programs of this machine are one source.
    pub(crate) fn source(&self) -> IpAddr {
        match self {
            Self::Ip(address) => weft_limits::source_of(address.ip()),
            Self::Local(_) => Ipv6Addr::LOCALHOST.into(),
        }
    }
}

impl fmt::Display for Talker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Local(Some(path)) => path.display().fmt(f),
            Self::Local(None) => f.write_str("a program of this machine"),
        }
    }
}

/// The socket of a listener for datagrams.
#[derive(Debug)]
pub(crate) enum TalkSocket {
    Udp(UdpSocket),
    #[cfg(unix)]
    Local(LocalSocket),
}

/// A socket in the file system.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct LocalSocket {
    socket: UnixDatagram,
    _file: SocketFile,
}

/// The file of a socket; removed when dropped.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: std::path::PathBuf,
    /// Device and number of the file, so that a successor's file is not removed.
    is: (u64, u64),
}

#[cfg(unix)]
impl SocketFile {
    fn of(path: &Path) -> io::Result<(u64, u64)> {
        use std::os::unix::fs::MetadataExt as _;
        let file = std::fs::symlink_metadata(path)?;
        Ok((file.dev(), file.ino()))
    }
}

#[cfg(unix)]
impl Drop for SocketFile {
    fn drop(&mut self) {
        if Self::of(&self.path).is_ok_and(|is| is == self.is) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl TalkSocket {
    /// Listens at a path. A socket without a reader, left by a killed program, is replaced; any
    /// other file is not.
    #[cfg(unix)]
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::FileTypeExt as _;
        let is_socket =
            std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
        if is_socket {
            let asking = std::os::unix::net::UnixDatagram::unbound()?;
            if let Err(error) = asking.connect(path)
                && error.kind() == io::ErrorKind::ConnectionRefused
            {
                std::fs::remove_file(path)?;
            }
        }
        let socket = UnixDatagram::bind(path)?;
        let is = SocketFile::of(path)?;
        Ok(Self::Local(LocalSocket { socket, _file: SocketFile { path: path.to_owned(), is } }))
    }

    #[cfg(not(unix))]
    pub(crate) fn at(_: &Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The address of this side, if it is one of the network.
    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Udp(socket) => socket.local_addr().ok(),
            #[cfg(unix)]
            Self::Local(_) => None,
        }
    }

    /// Waits until a datagram may be there.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Udp(socket) => socket.readable().await,
            #[cfg(unix)]
            Self::Local(local) => local.socket.readable().await,
        }
    }

    /// Reads a datagram that is there.
    pub(crate) fn try_receive(&self, into: &mut [u8]) -> io::Result<(usize, Talker)> {
        match self {
            Self::Udp(socket) => {
                socket.try_recv_from(into).map(|(count, peer)| (count, Talker::Ip(peer)))
            }
            #[cfg(unix)]
            Self::Local(local) => {
                let (count, peer) = local.socket.try_recv_from(into)?;
                Ok((count, Talker::Local(peer.as_pathname().map(Arc::from))))
            }
        }
    }

    /// Sends a datagram.
    pub(crate) async fn send(&self, data: &[u8], to: &Talker) -> io::Result<()> {
        match (self, to) {
            (Self::Udp(socket), Talker::Ip(peer)) => socket.send_to(data, peer).await.map(drop),
            #[cfg(unix)]
            (Self::Local(local), Talker::Local(Some(path))) => {
                // Without waiting, and past the runtime: a program that does not read must hold up
                // neither this side nor the answers to others.
                let to = socket2::SockAddr::unix(path)?;
                socket2::SockRef::from(&local.socket).send_to(data, &to).map(drop)
            }
            _ => Err(io::ErrorKind::AddrNotAvailable.into()),
        }
    }
}

impl From<UdpSocket> for TalkSocket {
    fn from(socket: UdpSocket) -> Self {
        Self::Udp(socket)
    }
}
