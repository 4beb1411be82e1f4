//! From a place to the handler: a peer names its protocol, and TLS makes its handshake.

use std::io;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::StartHandshake;

use super::protocol::{Accepted, Arrival, ConnectionSlot, Handles};
use super::registered::{Protocol, SharedListener};
use crate::door::{PendingSlot, TakenBack};
use crate::first_words::FirstWords;
use crate::line::Waiting;
use crate::{clock, tls};

impl SharedListener {
    /// Passes a connection to its handler, once it has named its protocol.
    pub(super) async fn serve(
        self: Arc<Self>,
        waiting: Waiting,
        entered: (PendingSlot, TakenBack),
    ) {
        let (remote, bind) = (waiting.remote, self.bind.clone());
        let shaken = self.shake(waiting, entered).await;
        drop(self);
        let (handling, mut back) = match shaken {
            Ok(done) => done,
            Err(problem) => {
                match problem {
                    NotServed::TooMany(Some(left_out)) => tracing::warn!(
                        peer = %remote, bind,
                        "connection closed: {problem}; {left_out} more were since the last such line"
                    ),
                    _ => tracing::debug!(peer = %remote, bind, "connection closed: {problem}"),
                }
                return;
            }
        };
        tokio::select! {
            () = handling => {}
            () = taken_back(&mut back) => {
                let problem = NotServed::TakenBack;
                tracing::debug!(peer = %remote, bind, "connection closed: {problem}");
            }
        }
    }

    /// Makes the handshake: the work of the protocol's handler for the connection.
    async fn shake(
        &self,
        waiting: Waiting,
        (first, mut back): (PendingSlot, TakenBack),
    ) -> Result<(BoxFuture<'static, ()>, TakenBack), NotServed> {
        let Waiting { socket, remote } = waiting;
        let (since, local) = (Instant::now(), socket.local_addr()?);
        let deadline = since + self.limits.handshake_timeout;
        let words = within(deadline, &mut back, self.first_words(socket));
        let (words, protocol, name) = words.await?;
        let entering = protocol.door.enter_in_turn(remote.ip(), &first);
        let entering = async { Ok(entering.await) };
        let (pending, mut back) = within(deadline, &mut back, entering).await?;
        // The next connection may name its protocol.
        drop(first);
        let permit = protocol.connections.clone().try_acquire_owned();
        let too_many = |_| NotServed::TooMany(self.refusals.lock().due(clock::now()));
        let slot = ConnectionSlot::new(permit.map_err(too_many)?);
        let config = (protocol.tls)().ok_or(NotServed::NoTls)?;
        let config = with_alpn(&config, name.as_bytes());
        let deadline = since + protocol.handshake_timeout;
        let FirstWords { socket, accepted, received } = words;
        let handling = match protocol.handler.0 {
            Handles::Connections(handler) => {
                let start = StartHandshake::from_parts(accepted, socket);
                let stream = within(deadline, &mut back, start.into_stream(config)).await?.into();
                handler.handle(Accepted { stream, remote, local, protocol: name, pending, slot })
            }
            Handles::Channels(handler) => {
                let shaken = tls::accept(&config, socket, received);
                let stream = within(deadline, &mut back, shaken).await?.into();
                handler.handle(Arrival { stream, remote, local, protocol: name, pending, slot })
            }
        };
        Ok((handling, back))
    }

    /// Reads the first message of TLS, which names the protocol.
    async fn first_words(&self, socket: TcpStream) -> io::Result<(FirstWords, Protocol, String)> {
        let words = FirstWords::read(socket).await?;
        let offered: Option<Vec<Vec<u8>>> =
            words.accepted.client_hello().alpn().map(|names| names.map(<[u8]>::to_vec).collect());
        let names = offered.as_ref().map(|names| names.iter().map(Vec::as_slice).collect());
        if let Some((name, protocol)) = self.select(names) {
            return Ok((words, protocol, name));
        }
        self.refuse_alpn(words).await;
        let names: Vec<_> = offered.iter().flatten().map(|n| String::from_utf8_lossy(n)).collect();
        let text = format!("no handler for requested protocols {names:?}");
        Err(io::Error::new(io::ErrorKind::ConnectionRefused, text))
    }

    /// Has TLS tell the peer that none of its protocols is served here.
    async fn refuse_alpn(&self, words: FirstWords) {
        let any = self
            .protocols
            .lock()
            .iter()
            .find(|(name, _)| !name.is_empty())
            .map(|(name, protocol)| (name.clone(), protocol.tls.clone()));
        if let Some((name, tls)) = any
            && let Some(config) = tls()
        {
            let start = StartHandshake::from_parts(words.accepted, words.socket);
            let _ = start.into_stream(with_alpn(&config, name.as_bytes())).await;
        }
    }
}

/// A copy of these TLS settings with one ALPN protocol, or with none if the name is empty.
fn with_alpn(config: &Arc<rustls::ServerConfig>, name: &[u8]) -> Arc<rustls::ServerConfig> {
    let mut config = rustls::ServerConfig::clone(config);
    config.alpn_protocols = if name.is_empty() { Vec::new() } else { vec![name.to_vec()] };
    Arc::new(config)
}

/// Why a connection is not passed to its handler.
#[derive(Debug, thiserror::Error)]
enum NotServed {
    #[error("TLS handshake failed: {0}")]
    Io(#[from] io::Error),
    #[error("TLS handshake not done in time")]
    Timeout,
    #[error("the peer was not admitted in time, and other peers wait for its place")]
    TakenBack,
    /// With the number of log lines that were left out before, if this one is due.
    #[error("too many connections")]
    TooMany(Option<u64>),
    #[error("TLS is not configured yet")]
    NoTls,
}

/// Waits for `work`, but only until the deadline, and while the peer has its place.
async fn within<T>(
    deadline: Instant,
    back: &mut TakenBack,
    work: impl Future<Output = io::Result<T>>,
) -> Result<T, NotServed> {
    tokio::select! {
        done = tokio::time::timeout_at(deadline, work) => {
            Ok(done.map_err(|_| NotServed::Timeout)??)
        }
        () = taken_back(back) => Err(NotServed::TakenBack),
    }
}

/// Resolves when the place is taken back; never after it was released.
pub(crate) async fn taken_back(back: &mut TakenBack) {
    if back.await.is_err() {
        std::future::pending().await
    }
}
