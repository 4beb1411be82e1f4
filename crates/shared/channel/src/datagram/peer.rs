//! The datagrams of one peer, and the DTLS above them.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::UdpSocket;
use tokio::time::Instant;
use weft_dtls::{Connection, Error};

use super::framing::pack;
use super::inbox::Inbox;
use super::options::DatagramOptions;

/// The way of datagrams to one peer and back.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) socket: Arc<UdpSocket>,
    /// True if the socket sends to this peer only.
    pub(super) is_connected: bool,
    pub(super) remote: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) inbox: Arc<Inbox>,
    /// Ends the way when dropped.
    pub(super) _end: OnDrop,
}

/// Called when a way ends.
pub(super) struct OnDrop(Option<Box<dyn FnOnce() + Send + Sync>>);

impl OnDrop {
    pub(super) fn new(call: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(call)))
    }
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call();
        }
    }
}

impl std::fmt::Debug for OnDrop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnDrop")
    }
}

impl Path {
    /// Sends a datagram if the system takes it now.
    pub(super) fn try_send(&self, datagram: &[u8]) -> io::Result<()> {
        let sent = match self.is_connected {
            true => self.socket.try_send(datagram),
            false => self.socket.try_send_to(datagram, self.remote),
        };
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
            Err(error) => {
                // The datagram counts as lost on its way.
                tracing::trace!(peer = %self.remote, %error, "a datagram was not sent");
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }

    pub(super) async fn send(&self, datagram: &[u8]) -> io::Result<()> {
        loop {
            match self.try_send(datagram) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.socket.writable().await?;
                }
                sent => return sent,
            }
        }
    }
}

/// A DTLS connection with one peer.
#[derive(Debug)]
pub(crate) struct DtlsPeer {
    pub(super) path: Path,
    pub(super) connection: Connection,
    pub(super) options: DatagramOptions,
    /// Frames that overtook the answer to the hello.
    pub(super) overtook: VecDeque<Bytes>,
    /// True once the peer was told of the end.
    is_told: bool,
}

impl Drop for DtlsPeer {
    /// Tells the peer of the end. A peer that is not told keeps its side for as long as it waits for heartbeats, and
    /// what it sends meanwhile is lost.
    fn drop(&mut self) {
        if self.connection.is_established()
            && !self.connection.is_closed()
            && let Some(datagram) = self.goodbye()
        {
            let _ = self.path.try_send(&datagram);
        }
    }
}

/// How long a handshake may still take after an alert that anybody may have sent.
const AFTER_ALERT: Duration = Duration::from_secs(2);

impl DtlsPeer {
    pub(super) fn new(path: Path, connection: Connection, options: DatagramOptions) -> Self {
        Self { path, connection, options, overtook: VecDeque::new(), is_told: false }
    }

    /// The datagram that tells the peer of the end; once.
    pub(super) fn goodbye(&mut self) -> Option<Vec<u8>> {
        if std::mem::replace(&mut self.is_told, true) {
            return None;
        }
        self.connection.close()
    }

    /// Brings the handshake to its end.
    pub(super) async fn shake(&mut self) -> io::Result<()> {
        let mut given_up = None;
        loop {
            self.send_all().await?;
            if self.connection.is_established() {
                return Ok(());
            }
            let due = self.connection.due().map(Instant::from_std);
            if self.connection.unproved_alert().is_some() {
                given_up.get_or_insert_with(|| Instant::now() + AFTER_ALERT);
            }
            tokio::select! {
                () = until(given_up) => {
                    let alert = self.connection.unproved_alert();
                    return Err(io::Error::new(io::ErrorKind::ConnectionAborted, alert.unwrap_or(Error::NotEstablished)));
                }
                datagram = self.path.next() => {
                    let taken = self.connection.input(&datagram, Instant::now().into_std());
                    if let Err(problem) = taken {
                        self.send_all().await?;
                        return Err(io::Error::new(io::ErrorKind::ConnectionAborted, problem));
                    }
                }
                () = until(due) => {
                    let repeated = self.connection.on_time(Instant::now().into_std());
                    repeated.map_err(io::Error::other)?;
                }
            }
        }
    }

    pub(super) async fn send_all(&mut self) -> io::Result<()> {
        while let Some(datagram) = self.connection.datagram() {
            self.path.send(&datagram).await?;
        }
        Ok(())
    }

    /// Sends a frame.
    pub(super) async fn send_frame(&mut self, frame: Vec<u8>) -> io::Result<()> {
        let long = || io::Error::other("the message does not fit into a datagram");
        let data = pack(frame, false).ok_or_else(long)?;
        let datagram = self.connection.seal(&data).map_err(io::Error::other)?;
        self.path.send(&datagram).await
    }
}

impl Path {
    pub(super) async fn next(&self) -> Vec<u8> {
        loop {
            // A peer that sends faster than its datagrams are processed does not keep time limits from passing.
            tokio::task::coop::consume_budget().await;
            self.inbox.arrived().await;
            if let Some(datagram) = self.inbox.pop() {
                return datagram;
            }
        }
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
