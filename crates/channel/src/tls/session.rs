//! The state of TLS after the handshake.

use super::library::Library;
use super::records::Records;

/// The state of TLS after the handshake.
#[derive(Debug)]
pub(crate) enum Session {
    Records(Box<Records>),
    Library(Box<Library>),
}
