//! The listening side: from a TLS connection to a channel.

use std::io;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::{WebSocketOptions, upgrade};
use crate::TlsSource;
use crate::accept::{ChannelAcceptor, HelloGate};
use crate::listener::{Accepted, Arrival, ConnectionHandler};
use crate::tls::{self, Secured};

/// Makes WebSockets of TLS connections, and channels of WebSockets, asking a gate.
pub struct WebSocketAcceptor<G> {
    channels: ChannelAcceptor<G>,
    tls: TlsSource,
    options: WebSocketOptions,
}

impl<G: HelloGate> WebSocketAcceptor<G> {
    /// An acceptor with these settings for the inner TLS.
    pub fn new(channels: ChannelAcceptor<G>, tls: TlsSource, options: WebSocketOptions) -> Self {
        Self { channels, tls, options }
    }
}

impl<G: HelloGate> ConnectionHandler for WebSocketAcceptor<G> {
    fn handle(&self, connection: Accepted) -> BoxFuture<'static, ()> {
        let (channels, tls, options) = (self.channels.clone(), self.tls.clone(), self.options);
        Box::pin(async move {
            let remote = connection.remote;
            match upgrade(connection, &tls, &options).await {
                Ok(connection) => channels.take(connection).await,
                Err(problem) => tracing::debug!(peer = %remote, %problem, "no WebSocket was made"),
            }
        })
    }
}

async fn upgrade(
    connection: Accepted,
    tls: &TlsSource,
    options: &WebSocketOptions,
) -> io::Result<Arrival<Secured>> {
    let Accepted { stream, remote, local, protocol, pending, slot } = connection;
    let line = upgrade::accept(stream, options).await?;
    let config: Arc<rustls::ServerConfig> =
        tls().ok_or_else(|| io::Error::other("TLS is not configured yet"))?;
    let shaking = tls::accept(&config, line, Vec::new());
    let shaken = tokio::time::timeout(options.handshake_timeout, shaking).await;
    let late = || io::Error::new(io::ErrorKind::TimedOut, "TLS handshake not done in time");
    let stream = Secured::from(shaken.map_err(|_| late())??);
    Ok(Arrival { stream, remote, local, protocol, pending, slot })
}
