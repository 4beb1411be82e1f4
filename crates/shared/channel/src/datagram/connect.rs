//! Dials over DTLS: tries the addresses of a host one after the other.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use weft_dtls::{Connection, DtlsSettings};

use super::inbox::Inbox;
use super::options::{DatagramDial, LONGEST};
use super::peer::{DtlsPeer, OnDrop, Path};
use super::socket;
use crate::lookup::Asker;

/// Connects to the first address of the host that completes the handshake. Each has an equal part of
/// the dial's time.
pub(crate) async fn dial(
    (host, port): (&str, u16),
    (asker, from): (Asker<'_>, Option<IpAddr>),
    timeout: Duration,
    with: &DatagramDial,
) -> io::Result<DtlsPeer> {
    let mut addresses = crate::resolve_for(asker, host, port).await?;
    addresses.retain(|remote| from.is_none_or(|from| from.is_ipv4() == remote.is_ipv4()));
    let each = timeout / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for remote in addresses {
        let now = tokio::time::Instant::now().into_std();
        let settings = DtlsSettings { server_name: sni(host), ..with.settings.clone() };
        let connection = Connection::client(settings, now).map_err(io::Error::other)?;
        let connecting = async {
            let socket = socket::connect(remote, from, &with.options).await?;
            let local = socket.local_addr()?;
            let (socket, inbox) = (Arc::new(socket), Arc::new(Inbox::default()));
            let reading = tokio::spawn(read(Arc::clone(&socket), Arc::clone(&inbox)));
            let _end = OnDrop::new(move || reading.abort());
            let path = Path {
                socket: Arc::clone(&socket),
                is_connected: true,
                remote,
                local,
                inbox,
                _end,
            };
            let mut peer = DtlsPeer::new(path, connection, with.options);
            tokio::select! {
                shaken = peer.shake() => shaken?,
                refused = refused(&socket) => return Err(refused),
            }
            Ok(peer)
        };
        match tokio::time::timeout(each, connecting).await {
            Ok(Ok(peer)) => return Ok(peer),
            Ok(Err(error)) => failure = error,
            Err(_) => failure = io::Error::new(io::ErrorKind::TimedOut, "no answer in time"),
        }
    }
    Err(failure)
}

/// Waits until the network refuses a datagram of this socket, and returns why.
async fn refused(socket: &UdpSocket) -> io::Error {
    loop {
        if let Err(error) = socket.ready(Interest::ERROR).await {
            return error;
        }
        let taken = socket.try_io(Interest::ERROR, || {
            let error = SockRef::from(socket).take_error()?;
            Err::<(), _>(error.unwrap_or_else(|| io::ErrorKind::WouldBlock.into()))
        });
        match taken {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return error,
            _ => {}
        }
    }
}

/// The name that is told to the listener; addresses are not told.
fn sni(host: &str) -> Option<String> {
    host.parse::<std::net::IpAddr>().is_err().then(|| host.to_owned())
}

/// Reads the socket until it is dropped.
async fn read(socket: Arc<UdpSocket>, inbox: Arc<Inbox>) {
    let mut buffer = vec![0; LONGEST + 1];
    loop {
        match socket.recv(&mut buffer).await {
            Ok(length) if length <= LONGEST => {
                inbox.push(buffer.get(..length).unwrap_or_default());
            }
            Ok(_) => {}
            // An ICMP error: no socket listened, perhaps only for a moment. Heartbeats decide.
            Err(error) => {
                tracing::trace!(%error, "a UDP socket failed");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
}
