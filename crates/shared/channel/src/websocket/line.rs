//! A WebSocket as a stream of bytes, blocking and non-blocking.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tungstenite::error::{CapacityError, Error, ProtocolError};
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, Role};
use tungstenite::{Message, WebSocket};

use super::outer::OuterTls;
use super::{MESSAGE, WebSocketOptions};

/// The data of pings to clients.
const PING: &[u8] = b"browzerkeepalive";
/// Most reads before other tasks have their turn.
const READS_PER_POLL: usize = 32;
/// Most bytes of one message that is sent.
const SENT_AT_ONCE: usize = 16 * 1024;

/// The result of a turn of reading.
#[derive(Debug)]
pub(crate) enum Arrived {
    /// Data, and the number of bytes read from the socket for it.
    Data(Bytes, usize),
    /// The number of bytes that were read, without any data yet; there may be more to read.
    Nothing(usize),
    /// There is nothing to read now.
    Blocked,
    /// The peer has closed the connection.
    End,
}

/// A WebSocket whose messages carry a stream of bytes.
pub(crate) struct WebSocketLine {
    socket: WebSocket<OuterTls>,
    /// Data that was read and not taken yet.
    rest: Bytes,
    /// Bytes of incomplete messages: the bytes that were read, less those of complete messages.
    held: usize,
    /// Most bytes of one read; so many may be left behind the end of a message.
    read_at_once: usize,
    /// Bytes of the mask in the header of the peer's frames.
    mask: usize,
    /// True if bytes were taken that may not be written to the socket yet.
    unflushed: bool,
    /// The state of pings; `None` if the peer is sent none.
    keep_alive: Option<KeepAlive>,
}

#[derive(Debug)]
struct KeepAlive {
    interval: std::time::Duration,
    timeout: std::time::Duration,
    next: Instant,
    /// The time of the peer's last message.
    heard: Instant,
    /// True if the connection was read since the last ping.
    is_read: bool,
}

impl WebSocketLine {
    /// A WebSocket after its opening handshake. `read` has the bytes that followed the handshake.
    pub(super) fn new(
        outer: OuterTls,
        role: Role,
        read: Vec<u8>,
        options: &WebSocketOptions,
    ) -> Self {
        let config = Some(options.config());
        let now = Instant::now();
        // Only servers send pings, as in the original.
        let asks = role == Role::Server && !options.ping_interval.is_zero();
        let keep_alive = asks.then(|| KeepAlive {
            interval: options.ping_interval,
            timeout: options.pong_timeout,
            next: now + options.ping_interval,
            heard: now,
            is_read: true,
        });
        Self {
            rest: Bytes::new(),
            held: read.len(),
            read_at_once: options.read_at_once().max(read.len()),
            // Only clients mask their frames.
            mask: if role == Role::Server { 4 } else { 0 },
            socket: WebSocket::from_partially_read(outer, read, role, config),
            unflushed: false,
            keep_alive,
        }
    }

    /// The TCP socket.
    pub(crate) fn tcp(&self) -> io::Result<&TcpStream> {
        self.socket.get_ref().socket()
    }

    /// Moves the socket to the runtime that the caller has entered.
    pub(crate) fn rebind(&mut self) -> io::Result<()> {
        self.socket.get_mut().rebind()
    }

    /// The peer's session was accepted: its messages may be larger.
    pub(crate) fn judged(&mut self) {
        self.socket.set_config(|config| {
            config.max_message_size = Some(MESSAGE);
            config.max_frame_size = Some(MESSAGE);
        });
    }

    /// Reads the bytes that have arrived, up to a turn's share.
    pub(crate) fn receive(&mut self) -> io::Result<Arrived> {
        if !self.rest.is_empty() {
            return Ok(Arrived::Data(std::mem::take(&mut self.rest), 0));
        }
        if let Some(keep_alive) = &mut self.keep_alive {
            keep_alive.is_read = true;
        }
        self.socket.get_mut().begin_turn();
        let read = self.socket.read();
        let outer = self.socket.get_ref();
        self.held += outer.decrypted();
        let taken = outer.taken();
        let message = match read {
            Ok(message) => message,
            Err(error) => return self.not_read(error),
        };
        self.came_out(&message);
        match message {
            Message::Binary(data) if !data.is_empty() => Ok(Arrived::Data(data, taken)),
            Message::Ping(_) => {
                // The answer to a ping is ready to be written.
                self.unflushed = true;
                Ok(Arrived::Nothing(taken))
            }
            Message::Pong(_) => {
                if let Some(keep_alive) = &mut self.keep_alive {
                    keep_alive.heard = Instant::now();
                }
                Ok(Arrived::Nothing(taken))
            }
            Message::Close(_) => {
                // The answer to a close is ready to be written, and ends the WebSocket.
                self.unflushed = true;
                let _ = self.flush();
                Ok(Arrived::End)
            }
            Message::Text(_) => {
                Err(self.refuse(CloseCode::Unsupported, "text in place of binary messages"))
            }
            Message::Binary(_) | Message::Frame(_) => Ok(Arrived::Nothing(taken)),
        }
    }

    /// Bytes that are held until the rest of their message arrives.
    pub(crate) fn held(&self) -> usize {
        self.held + self.rest.len()
    }

    /// Subtracts the bytes of a message from those held.
    fn came_out(&mut self, message: &Message) {
        let head = match message.len() {
            0..126 => 2,
            126..0x1_0000 => 4,
            _ => 10,
        };
        self.held = self.held.saturating_sub(message.len() + head + self.mask);
        // The headers of the message's fragments were not subtracted. Behind a complete message of
        // data there is at most the rest of one read. That does not hold behind a ping, which may
        // come between the fragments of a message.
        if message.is_binary() {
            self.held = self.held.min(self.read_at_once);
        }
    }

    fn not_read(&mut self, error: Error) -> io::Result<Arrived> {
        match error {
            Error::Io(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let outer = self.socket.get_ref();
                let is_over = outer.turn_is_over();
                Ok(if is_over { Arrived::Nothing(outer.taken()) } else { Arrived::Blocked })
            }
            Error::Io(error) => Err(error),
            Error::ConnectionClosed
            | Error::AlreadyClosed
            | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => Ok(Arrived::End),
            Error::Capacity(CapacityError::MessageTooLong { max_size, .. }) => {
                let text = format!("messages of more than {max_size} bytes");
                Err(self.refuse(CloseCode::Size, &text))
            }
            Error::Utf8(_) => {
                Err(self.refuse(CloseCode::Unsupported, "text in place of binary messages"))
            }
            other => Err(self.refuse(CloseCode::Protocol, &other.to_string())),
        }
    }

    /// Tells the peer its mistake, if the socket takes it at once.
    fn refuse(&mut self, code: CloseCode, why: &str) -> io::Error {
        let text = format!("WebSocket: {why}");
        // A close frame has at most 123 bytes of reason.
        let reason: String = why.chars().filter(char::is_ascii).take(100).collect();
        let _ = self.socket.close(Some(CloseFrame { code, reason: reason.into() }));
        io::Error::new(io::ErrorKind::InvalidData, text)
    }

    /// Takes bytes to be sent, as one message; takes none while earlier ones are not written.
    pub(crate) fn send(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.flush()?;
        let mut data = Vec::new();
        for slice in slices {
            let room = SENT_AT_ONCE - data.len();
            data.extend_from_slice(slice.get(..slice.len().min(room)).unwrap_or_default());
        }
        if data.is_empty() {
            return Ok(0);
        }
        let count = data.len();
        self.give(Message::Binary(data.into()))?;
        Ok(count)
    }

    fn give(&mut self, message: Message) -> io::Result<()> {
        self.unflushed = true;
        match self.socket.write(message) {
            Ok(()) => Ok(()),
            // The message is taken, though not written yet.
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(into_io(error)),
        }
    }

    /// Writes the bytes that were taken; `WouldBlock` if the socket does not take all of them now.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.unflushed {
            self.socket.flush().map_err(into_io)?;
            self.unflushed = false;
        }
        Ok(())
    }

    /// Closes the connection, if the socket takes the close at once.
    pub(crate) fn say_goodbye(&mut self) {
        let code = CloseCode::Normal;
        let _ = self.socket.close(Some(CloseFrame { code, reason: "".into() }));
        self.socket.get_mut().say_goodbye();
    }

    /// Sends bytes as they are, without the framing of WebSockets.
    #[cfg(test)]
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        io::Write::write_all(self.socket.get_mut(), bytes)?;
        io::Write::flush(self.socket.get_mut())
    }

    /// The time at which [`keep_alive`](Self::keep_alive) is to be called.
    pub(crate) fn keep_alive_at(&self) -> Option<Instant> {
        self.keep_alive.as_ref().map(|one| one.next)
    }

    /// Sends a ping when it is due.
    pub(crate) fn keep_alive(&mut self, now: Instant) -> io::Result<()> {
        let Some(keep_alive) = &mut self.keep_alive else { return Ok(()) };
        if now < keep_alive.next {
            return Ok(());
        }
        keep_alive.next = now + keep_alive.interval;
        if !std::mem::take(&mut keep_alive.is_read) {
            // The peer may have answered: this side does not read at the moment.
            keep_alive.heard = now;
        }
        // A peer that got a late ping may answer late.
        let patience = keep_alive.timeout.max(keep_alive.interval);
        if now.duration_since(keep_alive.heard) > patience {
            let text = format!("WebSocket: no pong for {patience:?}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        self.give(Message::Ping(Bytes::from_static(PING)))
    }
}

fn into_io(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::other(other),
    }
}

impl AsyncRead for WebSocketLine {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        for _ in 0..READS_PER_POLL {
            match self.receive()? {
                Arrived::Data(mut data, _) => {
                    let count = data.len().min(out.remaining());
                    out.put_slice(data.get(..count).unwrap_or_default());
                    data.advance(count);
                    self.rest = data;
                    return Poll::Ready(Ok(()));
                }
                Arrived::End => return Poll::Ready(Ok(())),
                Arrived::Nothing(_) => {
                    // The answer to a ping is written when the socket takes it.
                    let _ = self.flush();
                }
                Arrived::Blocked => ready!(self.tcp()?.poll_read_ready(cx))?,
            }
        }
        // Other tasks have their turn, however many messages without data arrive.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl AsyncWrite for WebSocketLine {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.send(&[io::IoSlice::new(data)]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.tcp()?.poll_write_ready(cx))?;
                }
                sent => return Poll::Ready(sent),
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.flush() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.tcp()?.poll_write_ready(cx))?;
                }
                flushed => return Poll::Ready(flushed),
            }
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(cx))?;
        self.say_goodbye();
        Poll::Ready(Ok(()))
    }
}

impl std::fmt::Debug for WebSocketLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebSocketLine").field("unflushed", &self.unflushed).finish_non_exhaustive()
    }
}
