//! WebSockets below the TLS of a channel, for programs in browsers (docs/protocol/channel.md 14).
//!
//! ```text
//!  TCP -> outer TLS (no client certificate) -> GET /ws -> binary messages -> inner TLS -> frames
//! ```
//!
//! The outer TLS is what a browser's WebSocket brings along. Who the client is shows the inner one,
//! whose bytes travel in binary messages; where a message begins and ends means nothing.

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
/// Largest message of somebody whose session was not found good yet: what is put together of it
/// lies in memory.
const UNJUDGED_MESSAGE: usize = 64 * 1024;
/// Largest message of the others. TLS sends records of 16 KiB, so that nobody needs large ones.
const MESSAGE: usize = 256 * 1024;
/// Most bytes that are read at once.
const READ_AT_ONCE: usize = 64 * 1024;

/// How WebSockets are served.
#[derive(Debug, Clone, Copy)]
pub struct WebSocketOptions {
    /// Time for the request to come.
    pub read_timeout: Duration,
    /// Time for the answer to be taken.
    pub write_timeout: Duration,
    /// Time for the inner TLS handshake.
    pub handshake_timeout: Duration,
    /// How often the client is asked whether it is there; zero is never.
    pub ping_interval: Duration,
    /// A client that has not answered for so long is gone.
    pub pong_timeout: Duration,
    /// Bytes that are read at once.
    pub read_buffer: usize,
    /// Bytes that are gathered before they are written.
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
        // A buffer of nothing reads nothing, and one without end is a stranger's to fill.
        let write = self.write_buffer.min(MESSAGE);
        tungstenite::protocol::WebSocketConfig::default()
            .read_buffer_size(self.read_at_once())
            .write_buffer_size(write)
            .max_write_buffer_size(write + 4 * MESSAGE)
            .max_message_size(Some(UNJUDGED_MESSAGE))
            .max_frame_size(Some(UNJUDGED_MESSAGE))
    }
}
