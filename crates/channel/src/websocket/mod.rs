//! WebSockets below the TLS of a channel, for programs in browsers (docs/protocol/channel.md 14).
//!
//! ```text
//!  TCP -> outer TLS (no client certificate) -> GET /ws -> binary messages -> inner TLS -> frames
//! ```
//!
//! The outer TLS belongs to the browser's WebSocket. The inner TLS authenticates the client; its
//! bytes are in binary messages, whose borders have no meaning.

mod accept;
mod line;
mod outer;
mod upgrade;

use std::time::Duration;

pub use accept::WebSocketAcceptor;
pub(crate) use line::{Arrived, WebSocketLine};
pub(crate) use upgrade::dial;

/// The path at which WebSockets are served.
const PATH: &str = "/ws";
/// Largest message of a peer whose session is not accepted yet, in bytes: its parts are collected
/// in memory.
const UNJUDGED_MESSAGE: usize = 64 * 1024;
/// Largest message of other peers, in bytes. TLS sends records of 16 KiB, so that no peer needs
/// large messages.
const MESSAGE: usize = 256 * 1024;
/// Most bytes that are read at once.
const READ_AT_ONCE: usize = 64 * 1024;

/// The options of WebSockets.
#[derive(Debug, Clone, Copy)]
pub struct WebSocketOptions {
    /// Time limit for reading the request.
    pub read_timeout: Duration,
    /// Time limit for writing the answer.
    pub write_timeout: Duration,
    /// Time limit for the inner TLS handshake.
    pub handshake_timeout: Duration,
    /// The interval of pings to the client; zero sends none.
    pub ping_interval: Duration,
    /// The time after which a client without an answer counts as gone.
    pub pong_timeout: Duration,
    /// Bytes that are read at once.
    pub read_buffer: usize,
    /// Bytes that are collected before they are written.
    pub write_buffer: usize,
}

impl Default for WebSocketOptions {
    fn default() -> Self {
        Self {
            read_timeout: Duration::from_secs(5),
            write_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(10),
            ping_interval: Duration::from_secs(54),
            pong_timeout: Duration::from_secs(60),
            read_buffer: 4096,
            write_buffer: 4096,
        }
    }
}

impl WebSocketOptions {
    fn read_at_once(&self) -> usize {
        self.read_buffer.clamp(512, READ_AT_ONCE)
    }

    fn config(&self) -> tungstenite::protocol::WebSocketConfig {
        // A buffer of 0 bytes reads nothing, and unknown peers would fill one without a limit.
        let write = self.write_buffer.min(MESSAGE);
        tungstenite::protocol::WebSocketConfig::default()
            .read_buffer_size(self.read_at_once())
            .write_buffer_size(write)
            .max_write_buffer_size(write + 4 * MESSAGE)
            .max_message_size(Some(UNJUDGED_MESSAGE))
            .max_frame_size(Some(UNJUDGED_MESSAGE))
    }
}
