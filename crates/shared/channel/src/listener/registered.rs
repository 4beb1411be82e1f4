//! A listening socket, and the protocols that are registered on it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use weft_limits::LogLines;

use super::protocol::{ProtocolHandler, TlsSource};
use crate::door::{Door, DoorLimits, KnownSources};

/// The limits of a listening socket, or of a protocol on it, for peers that are not authenticated.
#[derive(Debug, Clone, Copy)]
pub struct ListenerLimits {
    /// Most connections whose handshake or hello is not complete. The same number of further
    /// connections waits in a line.
    pub pending: usize,
    /// Most such connections from one source: one address of IPv4, one /64 network of IPv6.
    pub pending_per_source: usize,
    /// How long such a connection keeps its place while others want one. After that it is closed when
    /// another connection needs the place.
    pub grace: Duration,
    /// Time limit for the TLS handshake.
    pub handshake_timeout: Duration,
    /// Most connections in all. Further ones are closed at once.
    pub connections: usize,
}

impl ListenerLimits {
    pub(crate) fn door(&self, known: &Arc<KnownSources>) -> Arc<Door> {
        let (places, per_source, grace) = (self.pending, self.pending_per_source, self.grace);
        Door::new(DoorLimits { slots: places, per_source, grace }, Arc::clone(known))
    }
}

impl Default for ListenerLimits {
    fn default() -> Self {
        Self {
            pending: 512,
            pending_per_source: 64,
            grace: Duration::from_secs(2),
            handshake_timeout: Duration::from_secs(5),
            connections: 65536,
        }
    }
}

/// Why a protocol was not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The protocol is registered already.
    #[error("handler for protocol[{protocol}] already exists on {bind}")]
    Taken {
        /// The protocol.
        protocol: String,
        /// The address.
        bind: String,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {bind}: {source}")]
    Bind {
        /// The address.
        bind: String,
        /// The error of the system.
        source: io::Error,
    },
}

/// One listening socket.
pub struct SharedListener {
    pub(super) bind: String,
    pub(super) local: SocketAddr,
    pub(super) limits: ListenerLimits,
    pub(super) protocols: Mutex<HashMap<String, Protocol>>,
    pub(super) known: Arc<KnownSources>,
    pub(super) door: Arc<Door>,
    pub(super) accepting: Mutex<Option<tokio::task::AbortHandle>>,
    /// The lines of the log about peers that were too many.
    pub(super) refusals: Mutex<LogLines>,
}

/// A registered protocol.
#[derive(Clone)]
pub(super) struct Protocol {
    pub(super) tls: TlsSource,
    pub(super) handler: ProtocolHandler,
    pub(super) handshake_timeout: Duration,
    pub(super) door: Arc<Door>,
    pub(super) connections: Arc<Semaphore>,
}

/// Protocols registered on a socket; removed when dropped.
pub struct Registration {
    listener: Arc<SharedListener>,
    protocols: Vec<String>,
}

impl Registration {
    /// The address of the socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut protocols = self.listener.protocols.lock();
        for protocol in &self.protocols {
            protocols.remove(protocol);
        }
        // The socket closes with its last protocol, also while connections are being served.
        if protocols.is_empty() {
            self.listener.close();
        }
    }
}

impl Drop for SharedListener {
    fn drop(&mut self) {
        self.close();
    }
}

impl SharedListener {
    fn close(&self) {
        if let Some(task) = self.accepting.lock().take() {
            task.abort();
        }
    }

    /// True until the socket is closed.
    pub(super) fn is_open(&self) -> bool {
        self.accepting.lock().is_some()
    }

    /// The address of the socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Registers protocols with the limits of the socket; the empty name is for connections without
    /// ALPN. All are registered, or none.
    pub fn register(
        self: &Arc<Self>,
        protocols: &[&str],
        tls: TlsSource,
        handler: impl Into<ProtocolHandler>,
    ) -> Result<Registration, RegisterError> {
        self.register_with(self.limits, protocols, tls, handler)
    }

    /// Registers protocols that share limits of their own.
    pub(super) fn register_with(
        self: &Arc<Self>,
        limits: ListenerLimits,
        protocols: &[&str],
        tls: TlsSource,
        handler: impl Into<ProtocolHandler>,
    ) -> Result<Registration, RegisterError> {
        let mut known = self.protocols.lock();
        if let Some(taken) = protocols.iter().find(|protocol| known.contains_key(**protocol)) {
            return Err(RegisterError::Taken {
                protocol: (*taken).to_owned(),
                bind: self.bind.clone(),
            });
        }
        let entry = Protocol {
            tls,
            handler: handler.into(),
            handshake_timeout: limits.handshake_timeout,
            door: limits.door(&self.known),
            connections: Arc::new(Semaphore::new(limits.connections.max(1))),
        };
        for protocol in protocols {
            known.insert((*protocol).to_owned(), entry.clone());
        }
        let protocols = protocols.iter().map(|protocol| (*protocol).to_owned()).collect();
        Ok(Registration { listener: self.clone(), protocols })
    }

    /// The protocol for a client that offers these, and the name of it in the answer
    /// (docs/protocol/channel.md 3.1, rules 2 and 3).
    pub(super) fn select(&self, offered: Option<Vec<&[u8]>>) -> Option<(String, Protocol)> {
        let known = self.protocols.lock();
        let entry = |name: &str| known.get_key_value(name);
        let offered = offered.unwrap_or_default();
        let found = if offered.is_empty() {
            let only = known.iter().next().filter(|_| known.len() == 1);
            only.or_else(|| entry(""))
        } else {
            let names = offered.iter().rev().filter_map(|name| std::str::from_utf8(name).ok());
            names.filter(|name| !name.is_empty()).find_map(entry)
        };
        found.map(|(name, protocol)| (name.clone(), protocol.clone()))
    }
}

impl fmt::Debug for SharedListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedListener").field("bind", &self.bind).finish_non_exhaustive()
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("bind", &self.listener.bind)
            .field("protocols", &self.protocols)
            .finish()
    }
}
