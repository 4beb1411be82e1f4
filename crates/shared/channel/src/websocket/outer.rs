//! The outer TLS of a WebSocket, non-blocking: an operation that cannot be done now fails with
//! `WouldBlock`.

use std::io::{self, Read, Write};

use tokio::net::TcpStream;

use crate::socket;

/// Most bytes that are read from the socket before other tasks have their turn.
const READ_PER_TURN: usize = 64 * 1024;

/// Most bytes that TLS may hold for the socket: they count as accepted by the peer.
const TLS_BUFFER: usize = 32 * 1024;

/// A socket and the TLS state above it.
#[derive(Debug)]
pub(crate) struct OuterTls {
    /// `None` only while it moves to another runtime.
    socket: Option<TcpStream>,
    tls: rustls::Connection,
    /// Bytes read from the socket in this turn.
    taken: usize,
    /// Decrypted bytes that were read in this turn.
    read: usize,
}

impl OuterTls {
    pub(super) fn new(socket: TcpStream, mut tls: rustls::Connection) -> Self {
        tls.set_buffer_limit(Some(TLS_BUFFER));
        Self { socket: Some(socket), tls, taken: 0, read: 0 }
    }

    pub(super) fn socket(&self) -> io::Result<&TcpStream> {
        self.socket.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Moves the socket to the runtime that the caller has entered.
    pub(super) fn rebind(&mut self) -> io::Result<()> {
        self.socket.as_mut().map_or_else(|| Err(io::ErrorKind::NotConnected.into()), socket::rebind)
    }

    /// Begins a turn of reading.
    pub(super) fn begin_turn(&mut self) {
        (self.taken, self.read) = (0, 0);
    }

    /// Decrypted bytes that were read in this turn.
    pub(super) fn decrypted(&self) -> usize {
        self.read
    }

    /// Bytes read from the socket in this turn.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    /// True if the turn's share is used up.
    pub(super) fn turn_is_over(&self) -> bool {
        self.taken >= READ_PER_TURN
    }

    /// Writes encrypted bytes, as far as the socket takes them.
    fn push(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
            match self.tls.write_tls(&mut Unblocking(socket)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends the end of TLS, if the socket takes it at once.
    pub(super) fn say_goodbye(&mut self) {
        self.tls.send_close_notify();
        let _ = self.push();
    }
}

impl Read for OuterTls {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(out) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A cut connection is noticed anyway, because the inner TLS has an end of its own.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => {
                    self.read += read.as_ref().copied().unwrap_or(0);
                    return read;
                }
            }
            if self.turn_is_over() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
            let count = match self.tls.read_tls(&mut Unblocking(socket)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            self.taken += count;
            if let Err(problem) = self.tls.process_new_packets() {
                // Sends the peer the alert, if the socket takes it.
                let _ = self.push();
                return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
            }
        }
    }
}

impl Write for OuterTls {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.push()?;
        let count = self.tls.writer().write(data)?;
        if count == 0 && !data.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match self.push() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(count),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.push()
    }
}

/// A socket in non-blocking mode.
struct Unblocking<'a>(&'a TcpStream);

impl Read for Unblocking<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(out)
    }
}

impl Write for Unblocking<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.try_write(data)
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
