//! Bytes between a socket and its TLS state, without waiting.
//!
//! rustls takes 4 KiB from the socket per call; a larger buffer below it saves most system calls of
//! a busy connection. The buffer grows while reads fill it and is given back when the connection
//! is idle.

use crate::carrier::Carrier;
use crate::error::CloseReason;
use crate::websocket::Arrived;
use socket2::{SockRef, Socket};
use std::io::{self, BufRead, IoSlice, Read, Write};
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::Instant;

const SMALLEST_BUFFER: usize = 4 * 1024;
const LARGEST_BUFFER: usize = 64 * 1024;
/// After this many reads in a row that filled only a fraction of the buffer, it is halved.
const SMALL_READS: u8 = 64;
/// The read buffer is freed after this time without data.
const IDLE: Duration = Duration::from_secs(5);
/// Most bytes that rustls may hold between the batch and the socket: a batch and one large payload.
const TLS_BUFFER: usize = 96 * 1024;

/// The result of reading the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    Bytes(usize),
    Blocked,
    End,
}

/// A connection, and the TLS state above it.
#[derive(Debug)]
pub(crate) struct TlsPump {
    carrier: Carrier,
    tls: rustls::Connection,
    /// Ciphertext that TLS has not taken yet, in `start..end`.
    input: Vec<u8>,
    start: usize,
    end: usize,
    /// Length of the buffer at the next allocation.
    wanted: usize,
    /// The number of reads in a row that filled little of the buffer.
    small_reads: u8,
    last_read: Instant,
}

impl TlsPump {
    pub(crate) fn new(carrier: impl Into<Carrier>, mut tls: rustls::Connection) -> Self {
        tls.set_buffer_limit(Some(TLS_BUFFER));
        Self {
            carrier: carrier.into(),
            tls,
            input: Vec::new(),
            start: 0,
            end: 0,
            wanted: SMALLEST_BUFFER,
            small_reads: 0,
            last_read: Instant::now(),
        }
    }

    /// Moves the socket to the runtime that the caller has entered.
    pub(crate) fn rebind(&mut self) -> io::Result<()> {
        self.carrier.rebind()
    }

    /// The TCP socket.
    pub(crate) fn stream(&self) -> io::Result<&TcpStream> {
        self.carrier.tcp()
    }

    /// The peer's session was accepted.
    pub(crate) fn judged(&mut self) {
        self.carrier.judged();
    }

    /// Bytes held below TLS until the rest of their message arrives.
    pub(crate) fn held(&self) -> usize {
        self.carrier.held()
    }

    /// The time at which [`keep_alive`](Self::keep_alive) is to be called.
    pub(crate) fn keep_alive_at(&self) -> Option<Instant> {
        self.carrier.keep_alive_at()
    }

    /// Sends a keep-alive message when it is due.
    pub(crate) fn keep_alive(&mut self, now: Instant) -> Result<(), CloseReason> {
        self.carrier.keep_alive(now).map_err(|error| CloseReason::io(&error))
    }

    /// The decrypted bytes that are there; `None` when the peer has ended TLS.
    pub(crate) fn plaintext(&mut self) -> Result<Option<&[u8]>, CloseReason> {
        match self.tls.reader().into_first_chunk() {
            Ok([]) => Ok(None),
            Ok(chunk) => Ok(Some(chunk)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Some(&[])),
            Err(error) => Err(CloseReason::io(&error)),
        }
    }

    /// Removes decrypted bytes from the front.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.tls.reader().consume(bytes);
    }

    /// True if there is ciphertext to decrypt.
    pub(crate) fn has_input(&self) -> bool {
        self.start < self.end
    }

    /// Decrypts some of the ciphertext.
    pub(crate) fn decrypt(&mut self) -> Result<(), CloseReason> {
        let mut input = self.input.get(self.start..self.end).unwrap_or_default();
        let taken = self.tls.read_tls(&mut input).map_err(|error| CloseReason::io(&error))?;
        self.start += taken;
        if let Err(error) = self.tls.process_new_packets() {
            // Sends the peer the alert, if the socket takes it.
            let _ = self.flush();
            return Err(CloseReason::tls(&error));
        }
        if taken == 0 {
            // Bytes after the end of TLS are not part of the connection.
            self.start = self.end;
        }
        Ok(())
    }

    /// Reads the socket once. Must only be called when no ciphertext is left to decrypt.
    pub(crate) fn receive(&mut self) -> Result<Received, CloseReason> {
        let stream = match &mut self.carrier {
            Carrier::Tcp(stream) => &*stream,
            Carrier::WebSocket(line) => {
                return match line.receive().map_err(|error| CloseReason::io(&error))? {
                    Arrived::Data(data, taken) => {
                        self.input.clear();
                        self.input.extend_from_slice(&data);
                        (self.start, self.end) = (0, data.len());
                        self.last_read = Instant::now();
                        Ok(Received::Bytes(taken))
                    }
                    Arrived::Nothing(taken) => Ok(Received::Bytes(taken)),
                    Arrived::Blocked => Ok(Received::Blocked),
                    Arrived::End => Ok(Received::End),
                };
            }
        };
        let (input, wanted) = (&mut self.input, self.wanted);
        let socket = SockRef::from(stream);
        let mut received = None;
        // A read that does not fill the buffer has emptied the socket. The error `WouldBlock` makes
        // tokio forget that the socket was readable, which saves a further read that finds nothing.
        let outcome = stream.try_io(Interest::READABLE, || {
            // The buffer is allocated here, where there is something to read: idle sockets have none.
            if input.len() != wanted {
                *input = vec![0; wanted];
            }
            let mut socket: &Socket = &socket;
            let bytes = socket.read(input)?;
            received = Some(bytes);
            if bytes > 0 && bytes < input.len() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(())
        });
        let Some(bytes) = received else {
            return match outcome {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Received::Bytes(0)),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    Err(CloseReason::io(&error))
                }
                _ => Ok(Received::Blocked),
            };
        };
        if bytes == 0 {
            return Ok(Received::End);
        }
        (self.start, self.end) = (0, bytes);
        self.last_read = Instant::now();
        self.adapt(bytes);
        Ok(Received::Bytes(bytes))
    }

    /// Grows the buffer when a read fills it, and shrinks it when many reads fill little of it.
    fn adapt(&mut self, bytes: usize) {
        if bytes >= self.wanted / 4 {
            self.small_reads = 0;
            if bytes == self.wanted {
                self.wanted = (self.wanted * 2).min(LARGEST_BUFFER);
            }
            return;
        }
        self.small_reads += 1;
        if self.small_reads >= SMALL_READS {
            self.small_reads = 0;
            self.wanted = (self.wanted / 2).max(SMALLEST_BUFFER);
        }
    }

    /// The time at which [`give_back`](Self::give_back) is to be called; `None` if there is no
    /// buffer to free.
    pub(crate) fn idle_at(&self) -> Option<Instant> {
        (!self.input.is_empty() && !self.has_input()).then(|| self.last_read + IDLE)
    }

    /// Frees the read buffer if the connection has been idle; true if it did.
    pub(crate) fn give_back(&mut self, now: Instant) -> bool {
        let idle = !self.has_input() && self.idle_at().is_some_and(|at| at <= now);
        if idle {
            self.input = Vec::new();
            self.wanted = SMALLEST_BUFFER;
        }
        idle
    }

    /// Encrypts as much of `slices` as TLS has room for.
    pub(crate) fn encrypt(&mut self, slices: &[IoSlice<'_>]) -> Result<usize, CloseReason> {
        self.tls.writer().write_vectored(slices).map_err(|error| CloseReason::io(&error))
    }

    /// Writes encrypted bytes until none are left or the socket takes no more. Returns whether none
    /// are left, and how many were written.
    pub(crate) fn flush(&mut self) -> Result<(bool, usize), CloseReason> {
        let mut written = 0;
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.carrier) {
                Ok(0) => return Err(CloseReason::Peer),
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok((false, written));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(CloseReason::io(&error)),
            }
        }
        match self.carrier.push() {
            Ok(()) => Ok((true, written)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok((false, written)),
            Err(error) => Err(CloseReason::io(&error)),
        }
    }

    /// Sends the end of TLS, if the socket takes it at once.
    pub(crate) fn say_goodbye(&mut self) {
        self.tls.send_close_notify();
        let _ = self.flush();
        self.carrier.say_goodbye();
    }

    /// Waits until the socket can be read or written.
    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<()> {
        self.carrier.ready(interest).await
    }
}
