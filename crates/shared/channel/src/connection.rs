//! A connection between its hello and its task.

use crate::listener::ConnectionSlot;
use crate::transport::Transport;

/// A connection whose hello is done, before it has its task.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) pump: Transport,
    pub(crate) kind: String,
    /// Held while the connection lives.
    pub(crate) slot: Option<ConnectionSlot>,
}
