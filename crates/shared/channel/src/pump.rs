//! Bytes between a socket and its TLS state, without waiting.
//!
//! The buffer into which the socket is read holds several records. They are opened where they stand. The buffer grows
//! while reads fill it and is given back when the connection is idle.

use std::io::{self, IoSlice, Read};
use std::ops::Range;
use std::time::Duration;

use socket2::{SockRef, Socket};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::carrier::Carrier;
use crate::error::CloseReason;
use crate::tls::{Fault, Opened, Outgoing, Session};
use crate::websocket::Arrived;

const SMALLEST_BUFFER: usize = 4 * 1024;
const LARGEST_BUFFER: usize = 64 * 1024;
/// After this many reads in a row that filled only a fraction of the buffer, it is halved.
const SMALL_READS: u8 = 64;
/// The buffers are freed after this time without data.
const IDLE: Duration = Duration::from_secs(5);

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
    session: Session,
    /// Bytes of the socket: sealed ones that are not opened yet, in `start..end`.
    input: Vec<u8>,
    start: usize,
    end: usize,
    /// Data of a record that was opened in `input`, as far as it is not taken yet.
    opened: Range<usize>,
    /// Data that rustls has opened, taken before that in `input`, and its bytes that are taken already.
    plain: Vec<u8>,
    taken: usize,
    /// True if the peer has ended TLS.
    is_over: bool,
    out: Outgoing,
    /// Length of the buffer at the next allocation.
    wanted: usize,
    /// The number of reads in a row that filled little of the buffer.
    small_reads: u8,
    /// True if bytes were received or sent since `last_used`. The clock is read once per turn, by the caller.
    was_used: bool,
    last_used: Instant,
}

impl TlsPump {
    /// A connection after the handshake, and the records that followed that.
    pub(crate) fn new(carrier: impl Into<Carrier>, session: Session, mut sealed: Vec<u8>) -> Self {
        sealed.shrink_to_fit();
        Self {
            carrier: carrier.into(),
            session,
            start: 0,
            end: sealed.len(),
            input: sealed,
            opened: 0..0,
            plain: Vec::new(),
            taken: 0,
            is_over: false,
            out: Outgoing::default(),
            wanted: SMALLEST_BUFFER,
            small_reads: 0,
            was_used: true,
            last_used: Instant::now(),
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
        let first = self.plain.get(self.taken..).unwrap_or_default();
        if !first.is_empty() {
            return Ok(Some(first));
        }
        if self.opened.is_empty() && self.is_over {
            return Ok(None);
        }
        Ok(Some(self.input.get(self.opened.clone()).unwrap_or_default()))
    }

    /// Removes decrypted bytes from the front.
    pub(crate) fn consume(&mut self, bytes: usize) {
        if self.taken < self.plain.len() {
            self.taken += bytes;
            if self.taken >= self.plain.len() {
                (self.plain, self.taken) = (Vec::new(), 0);
            }
        } else {
            self.opened.start = (self.opened.start + bytes).min(self.opened.end);
        }
    }

    /// True if there is a whole record to decrypt, or one that has to be refused.
    pub(crate) fn has_input(&self) -> bool {
        if self.is_over {
            return false;
        }
        let sealed = self.input.get(self.start..self.end).unwrap_or_default();
        match self.session.first_record(sealed) {
            Ok(length) => length.is_some_and(|length| length <= sealed.len()),
            Err(_) => true,
        }
    }

    /// Decrypts the next record. Must only be called when all data before it is taken.
    pub(crate) fn decrypt(&mut self) -> Result<(), CloseReason> {
        let decrypted = self.decrypt_next();
        decrypted.map_err(|Fault { alert, error }| {
            // Sends the peer the alert, if the socket takes it.
            if let Session::Records(records) = &mut self.session {
                records.alert(alert, &mut self.out);
            }
            let _ = self.flush();
            CloseReason::tls(&error)
        })
    }

    fn decrypt_next(&mut self) -> Result<(), Fault> {
        let sealed = self.input.get_mut(self.start..self.end).unwrap_or_default();
        let length = self.session.first_record(sealed)?.unwrap_or_default();
        let Some(record) = sealed.get_mut(..length) else { return Ok(()) };
        match &mut self.session {
            Session::Records(records) => match records.open(record)? {
                Opened::Data(place) => {
                    self.opened = self.start + place.start..self.start + place.end;
                }
                Opened::Nothing => {}
                Opened::End => self.is_over = true,
            },
            Session::Library(library) => {
                self.is_over |= library.open(record, &mut self.plain)?;
            }
        }
        self.start += length;
        Ok(())
    }

    /// Makes room behind the beginning of a record.
    fn make_room(&mut self) {
        let rest = self.end - self.start;
        self.input.copy_within(self.start..self.end, 0);
        (self.start, self.end, self.opened) = (0, rest, 0..0);
    }

    /// Reads the socket once. Must only be called when no whole record is left to decrypt and all data is taken.
    pub(crate) fn receive(&mut self) -> Result<Received, CloseReason> {
        self.make_room();
        let stream = match &mut self.carrier {
            Carrier::Tcp(stream) => &*stream,
            Carrier::WebSocket(line) => {
                return match line.receive().map_err(|error| CloseReason::io(&error))? {
                    Arrived::Data(data, taken) => {
                        self.input.truncate(self.end);
                        self.input.extend_from_slice(&data);
                        self.end = self.input.len();
                        self.was_used = true;
                        Ok(Received::Bytes(taken))
                    }
                    Arrived::Nothing(taken) => Ok(Received::Bytes(taken)),
                    Arrived::Blocked => Ok(Received::Blocked),
                    Arrived::End => Ok(Received::End),
                };
            }
        };
        let (input, end) = (&mut self.input, self.end);
        let sealed = input.get(..end).unwrap_or_default();
        let record = self.session.first_record(sealed).ok().flatten().unwrap_or_default();
        let wanted = self.wanted.max(record);
        let socket = SockRef::from(stream);
        let mut received = None;
        // A read that does not fill the buffer has emptied the socket. The error `WouldBlock` makes
        // tokio forget that the socket was readable, which saves a further read that finds nothing.
        let outcome = stream.try_io(Interest::READABLE, || {
            // The buffer is allocated here, where there is something to read: idle sockets have none.
            if input.len() != wanted {
                resize(input, end, wanted);
            }
            let room = input.get_mut(end..).unwrap_or_default();
            let mut socket: &Socket = &socket;
            let bytes = socket.read(room)?;
            received = Some(bytes);
            if bytes > 0 && bytes < room.len() {
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
        self.end += bytes;
        self.was_used = true;
        self.adapt(self.end);
        Ok(Received::Bytes(bytes))
    }

    /// Grows the buffer when a read fills it, and shrinks it when many reads fill little of it.
    fn adapt(&mut self, bytes: usize) {
        if bytes >= self.wanted / 4 {
            self.small_reads = 0;
            if bytes >= self.wanted {
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
        let rest = self.end - self.start;
        let has_buffers = self.input.len() > rest || self.out.can_give_back();
        let is_idle = self.opened.is_empty() && !self.has_input();
        (has_buffers && is_idle).then(|| self.last_used + IDLE)
    }

    /// Frees the buffers if the connection has been idle; true if it did.
    pub(crate) fn give_back(&mut self, now: Instant) -> bool {
        if std::mem::take(&mut self.was_used) {
            self.last_used = now;
        }
        let idle = self.idle_at().is_some_and(|at| at <= now);
        if idle {
            self.input = self.input.get(self.start..self.end).unwrap_or_default().to_vec();
            (self.start, self.end, self.opened) = (0, self.input.len(), 0..0);
            self.out.give_back();
            if let Session::Library(library) = &mut self.session {
                library.give_back();
            }
            self.wanted = SMALLEST_BUFFER;
        }
        idle
    }

    /// Encrypts as much of `slices` as there is room for.
    pub(crate) fn encrypt(&mut self, slices: &[IoSlice<'_>]) -> Result<usize, CloseReason> {
        let slices = slices.iter().map(|slice| &**slice);
        let encrypted = match &mut self.session {
            Session::Records(records) => records.seal(slices, &mut self.out),
            Session::Library(library) => library.seal(slices, &mut self.out),
        };
        encrypted.map_err(|error| CloseReason::tls(&error))
    }

    /// Writes encrypted bytes until none are left or the socket takes no more. Returns whether none
    /// are left, and how many were written.
    pub(crate) fn flush(&mut self) -> Result<(bool, usize), CloseReason> {
        let mut written = 0;
        loop {
            if self.out.is_empty() {
                self.settle()?;
            }
            if self.out.is_empty() {
                break;
            }
            match self.out.write_to(&mut self.carrier) {
                Ok(0) => return Err(CloseReason::Peer),
                Ok(bytes) => {
                    written += bytes;
                    self.was_used = true;
                }
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

    /// Lets TLS say what it has to say besides data.
    fn settle(&mut self) -> Result<(), CloseReason> {
        match &mut self.session {
            Session::Records(records) => {
                records.settle(&mut self.out).map_err(|error| CloseReason::tls(&error))
            }
            Session::Library(library) => {
                library.settle(&mut self.out);
                Ok(())
            }
        }
    }

    /// Sends the end of TLS, if the socket takes it at once.
    pub(crate) fn say_goodbye(&mut self) {
        match &mut self.session {
            Session::Records(records) => records.alert(0, &mut self.out),
            Session::Library(library) => library.close(&mut self.out),
        }
        let _ = self.flush();
        self.carrier.say_goodbye();
    }

    /// Waits until the socket can be read or written.
    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<()> {
        self.carrier.ready(interest).await
    }
}

/// Brings the buffer to a length of `wanted` bytes, of which the first are kept.
fn resize(input: &mut Vec<u8>, kept: usize, wanted: usize) {
    if kept == 0 {
        *input = vec![0; wanted];
    } else {
        input.resize(wanted.max(kept), 0);
    }
}
