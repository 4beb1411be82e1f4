//! The transport of a connection's frames: a stream of TLS, or datagrams of DTLS.

use std::io::{self, IoSlice};
use std::net::SocketAddr;

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::datagram::DatagramPump;
use crate::error::CloseReason;
use crate::pump::{Received, TlsPump};

/// The transport of a connection's frames.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every connection is one over TLS")]
pub(crate) enum Transport {
    Tls(TlsPump),
    Datagrams(Box<DatagramPump>),
    #[cfg(any(test, feature = "memory"))]
    Memory(Box<crate::memory::pump::MemoryPump>),
}

impl Transport {
    /// Moves the socket to the runtime that the caller has entered. A socket of datagrams stays.
    pub(crate) fn rebind(&mut self) -> io::Result<()> {
        match self {
            Self::Tls(pump) => pump.rebind(),
            Self::Datagrams(_) => Ok(()),
            #[cfg(any(test, feature = "memory"))]
            Self::Memory(_) => Ok(()),
        }
    }

    /// The TCP socket, if there is one.
    pub(crate) fn stream(&self) -> Option<io::Result<&TcpStream>> {
        match self {
            Self::Tls(pump) => Some(pump.stream()),
            Self::Datagrams(_) => None,
            #[cfg(any(test, feature = "memory"))]
            Self::Memory(_) => None,
        }
    }

    /// The address of the peer, and that of this side.
    pub(crate) fn addresses(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        match self {
            Self::Tls(pump) => {
                pump.stream().and_then(|tcp| Ok((tcp.peer_addr()?, tcp.local_addr()?)))
            }
            Self::Datagrams(pump) => Ok(pump.addresses()),
            #[cfg(any(test, feature = "memory"))]
            Self::Memory(pump) => Ok(pump.addresses()),
        }
    }

    /// The peer's session was accepted.
    pub(crate) fn judged(&mut self) {
        if let Self::Tls(pump) = self {
            pump.judged();
        }
    }

    /// Bytes held below the frames until the rest of their message arrives.
    pub(crate) fn held(&self) -> usize {
        match self {
            Self::Tls(pump) => pump.held(),
            Self::Datagrams(_) => 0,
            #[cfg(any(test, feature = "memory"))]
            Self::Memory(_) => 0,
        }
    }

    /// The time at which [`keep_alive`](Self::keep_alive) is to be called.
    pub(crate) fn keep_alive_at(&self) -> Option<Instant> {
        match self {
            Self::Tls(pump) => pump.keep_alive_at(),
            Self::Datagrams(_) => None,
            #[cfg(any(test, feature = "memory"))]
            Self::Memory(_) => None,
        }
    }

    /// Sends a keep-alive message when it is due.
    pub(crate) fn keep_alive(&mut self, now: Instant) -> Result<(), CloseReason> {
        match self {
            Self::Tls(pump) => pump.keep_alive(now),
            Self::Datagrams(_) => Ok(()),
            #[cfg(any(test, feature = "memory"))]
            Self::Memory(_) => Ok(()),
        }
    }

    /// The decrypted bytes that are there; `None` when the peer has ended the connection.
    pub(crate) fn plaintext(&mut self) -> Result<Option<&[u8]>, CloseReason> {
        match self {
            Self::Tls(pump) => pump.plaintext(),
            Self::Datagrams(pump) => Ok(pump.plaintext()),
            #[cfg(any(test, feature = "memory"))]
            Self::Memory(pump) => Ok(pump.plaintext()),
        }
    }

    /// Removes decrypted bytes from the front.
    pub(crate) fn consume(&mut self, bytes: usize) {
        match self {
            Self::Tls(pump) => pump.consume(bytes),
            Self::Datagrams(pump) => pump.consume(bytes),
            #[cfg(any(test, feature = "memory"))]
            Self::Memory(pump) => pump.consume(bytes),
        }
    }

    /// True if there are bytes to decrypt.
    pub(crate) fn has_input(&self) -> bool {
        match self {
            Self::Tls(pump) => pump.has_input(),
            Self::Datagrams(_) => false,
            #[cfg(any(test, feature = "memory"))]
            Self::Memory(_) => false,
        }
    }

    /// Decrypts some of them.
    pub(crate) fn decrypt(&mut self) -> Result<(), CloseReason> {
        match self {
            Self::Tls(pump) => pump.decrypt(),
            Self::Datagrams(_) => Ok(()),
            #[cfg(any(test, feature = "memory"))]
            Self::Memory(_) => Ok(()),
        }
    }

    /// Reads the socket once.
    pub(crate) fn receive(&mut self) -> Result<Received, CloseReason> {
        match self {
            Self::Tls(pump) => pump.receive(),
            Self::Datagrams(pump) => Ok(pump.receive()),
            #[cfg(any(test, feature = "memory"))]
            Self::Memory(pump) => Ok(pump.receive()),
        }
    }

    /// The time at which [`give_back`](Self::give_back) is to be called.
    pub(crate) fn idle_at(&self) -> Option<Instant> {
        match self {
            Self::Tls(pump) => pump.idle_at(),
            Self::Datagrams(_) => None,
            #[cfg(any(test, feature = "memory"))]
            Self::Memory(_) => None,
        }
    }

    /// Frees buffers if the connection has been idle; true if it did.
    pub(crate) fn give_back(&mut self, now: Instant) -> bool {
        match self {
            Self::Tls(pump) => pump.give_back(now),
            Self::Datagrams(_) => false,
            #[cfg(any(test, feature = "memory"))]
            Self::Memory(_) => false,
        }
    }

    /// Encrypts as much of `slices` as there is room for.
    pub(crate) fn encrypt(&mut self, slices: &[IoSlice<'_>]) -> Result<usize, CloseReason> {
        match self {
            Self::Tls(pump) => pump.encrypt(slices),
            Self::Datagrams(pump) => pump.encrypt(slices),
            #[cfg(any(test, feature = "memory"))]
            Self::Memory(pump) => Ok(pump.encrypt(slices)),
        }
    }

    /// Writes encrypted bytes until none are left or the socket takes no more. Returns whether none
    /// are left, and how many were written.
    pub(crate) fn flush(&mut self) -> Result<(bool, usize), CloseReason> {
        match self {
            Self::Tls(pump) => pump.flush(),
            Self::Datagrams(pump) => pump.flush(),
            #[cfg(any(test, feature = "memory"))]
            Self::Memory(pump) => Ok(pump.flush()),
        }
    }

    /// Tells the peer of the end, if the socket takes it at once.
    pub(crate) fn say_goodbye(&mut self) {
        match self {
            Self::Tls(pump) => pump.say_goodbye(),
            Self::Datagrams(pump) => pump.say_goodbye(),
            #[cfg(any(test, feature = "memory"))]
            Self::Memory(_) => {}
        }
    }

    /// Waits until the socket can be read or written.
    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<()> {
        match self {
            Self::Tls(pump) => pump.ready(interest).await,
            Self::Datagrams(pump) => pump.ready(interest).await,
            #[cfg(any(test, feature = "memory"))]
            Self::Memory(pump) => {
                pump.ready(interest).await;
                Ok(())
            }
        }
    }
}
