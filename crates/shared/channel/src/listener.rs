//! Listening sockets, each shared by the protocols registered on it.
//!
//! Several protocols may listen on one `host:port`; the ALPN of the TLS handshake decides on the
//! protocol of a connection (docs/protocol/channel.md 3.1). The socket belongs to the registrations: it
//! closes with the last one.
//!
//! ```text
//! accept -> door of the socket: until the peer has named its protocol
//!        -> door of the protocol: until the peer is authenticated
//!        -> connections of the protocol
//! ```
//!
//! Clients of one protocol therefore take no places from those of another, except for the time until
//! they have named their protocol. A connection that arrives while the door of the socket is full waits
//! in a line, or takes a place of its own if its source is known (see [`crate::door`]).

mod accepting;
mod introduction;
mod protocol;
mod registered;

use std::collections::HashMap;
use std::sync::{Arc, Weak};

pub(crate) use introduction::taken_back;
pub use protocol::{Accepted, ConnectionHandler, ConnectionSlot, ProtocolHandler, TlsSource};
pub(crate) use protocol::{Arrival, ChannelHandler};
pub use registered::{ListenerLimits, RegisterError, Registration, SharedListener};

/// The listening sockets of a process, by the exact text of their addresses.
#[derive(Debug, Default)]
pub struct Listeners {
    sockets: tokio::sync::Mutex<HashMap<String, Weak<SharedListener>>>,
}

impl Listeners {
    /// Without any socket.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers protocols on `bind` (`host:port`), opening the socket if it is not open. The limits
    /// are those of the protocols; the socket has those of the first call.
    pub async fn listen(
        &self,
        bind: &str,
        limits: ListenerLimits,
        protocols: &[&str],
        tls: TlsSource,
        handler: impl Into<ProtocolHandler>,
    ) -> Result<Registration, RegisterError> {
        let mut sockets = self.sockets.lock().await;
        sockets.retain(|_, socket| socket.strong_count() > 0);
        let open = sockets.get(bind).and_then(Weak::upgrade).filter(|known| known.is_open());
        let listener = match open {
            Some(listener) => listener,
            None => {
                let listener = SharedListener::bind(bind, limits).await?;
                sockets.insert(bind.to_owned(), Arc::downgrade(&listener));
                listener
            }
        };
        listener.register_with(limits, protocols, tls, handler)
    }
}
