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
/// Most bytes that wait for the socket besides those that are collected: answers to pings of a peer that does not read
/// them, and one message. Further answers are left out.
const UNSENT: usize = 64 * 1024;
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
            .max_write_buffer_size(write + UNSENT)
            .max_message_size(Some(UNJUDGED_MESSAGE))
            .max_frame_size(Some(UNJUDGED_MESSAGE))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read, Write};

    use tungstenite::protocol::Role;
    use tungstenite::{Error, WebSocket};

    use super::*;

    /// A client that has sent pings and reads no answers, until it is let to.
    struct Pinging {
        pings: io::Cursor<Vec<u8>>,
        is_deaf: bool,
        heard: usize,
    }

    impl Read for Pinging {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            match self.pings.read(out)? {
                0 => Err(io::ErrorKind::WouldBlock.into()),
                count => Ok(count),
            }
        }
    }

    impl Write for Pinging {
        fn write(&mut self, data: &[u8]) -> io::Result<usize> {
            if self.is_deaf {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.heard += data.len();
            Ok(data.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn few_answers_wait_for_a_client_that_reads_none() {
        // The longest ping, masked with zeros.
        let ping = [&[0x89, 0x80 | 125, 0, 0, 0, 0][..], &[7; 125]].concat();
        let pings = io::Cursor::new(ping.repeat(20_000));
        let client = Pinging { pings, is_deaf: true, heard: 0 };
        let config = WebSocketOptions::default().config();
        let mut socket = WebSocket::from_raw_socket(client, Role::Server, Some(config));
        let blocked = loop {
            if let Err(problem) = socket.read() {
                break problem;
            }
        };
        assert!(
            matches!(blocked, Error::Io(ref error) if error.kind() == io::ErrorKind::WouldBlock)
        );
        socket.get_mut().is_deaf = false;
        socket.flush().unwrap();
        let held = socket.get_ref().heard;
        assert!((127..=72 * 1024).contains(&held), "{held} bytes were held");
    }
}
