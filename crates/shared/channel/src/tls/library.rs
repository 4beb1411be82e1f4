//! A session whose records rustls makes, for peers that have TLS 1.2 only.

use std::fmt;

use rustls::Error;

use super::fault::Fault;
use super::outgoing::Outgoing;
use super::unbuffered::{Step, Unbuffered};

/// Most bytes that are sealed at once.
const AT_ONCE: usize = 64 * 1024;
/// Most bytes of the body of a record of TLS 1.2.
pub(super) const MOST_OLD_BODY: usize = 16 * 1024 + 2048;
/// Most bytes of records that rustls has not done with: one message of the handshake. rustls has no limit of its own here.
const MOST_INCOMING: usize = 64 * 1024 + 5 + MOST_OLD_BODY;

/// A session whose records rustls makes.
pub(crate) struct Library {
    tls: Unbuffered,
    /// Bytes of the peer that rustls has not done with.
    incoming: Vec<u8>,
    /// Data that is collected to be sealed.
    gathered: Vec<u8>,
    /// Sealed bytes that found no room.
    sealed: Vec<u8>,
    /// True after an error, when rustls must not be called again.
    is_broken: bool,
}

impl Library {
    /// A session after the handshake.
    pub(super) fn new(tls: Unbuffered) -> Self {
        Self {
            tls,
            incoming: Vec::new(),
            gathered: Vec::new(),
            sealed: Vec::new(),
            is_broken: false,
        }
    }

    /// Takes a record of the peer, and adds its data to `plain`. True if the peer has ended TLS.
    pub(crate) fn open(&mut self, record: &[u8], plain: &mut Vec<u8>) -> Result<bool, Fault> {
        self.incoming.extend_from_slice(record);
        if self.incoming.len() > MOST_INCOMING {
            self.is_broken = true;
            return Err(Fault::malformed("a message of the handshake that is too long"));
        }
        while !self.is_broken {
            match self.tls.step(&mut self.incoming, &mut self.sealed, plain) {
                Ok(Step::Again | Step::Send) => {}
                Ok(Step::Receive | Step::Ready) => return Ok(false),
                Ok(Step::Closed) => return Ok(true),
                Err(error) => {
                    self.is_broken = true;
                    self.tls.take_alert(&mut self.incoming, &mut self.sealed);
                    return Err(Fault::internal(error));
                }
            }
        }
        Ok(true)
    }

    /// Seals as many of these bytes as there is room for, from the front. Returns their number.
    pub(crate) fn seal<'a>(
        &mut self,
        slices: impl Iterator<Item = &'a [u8]>,
        out: &mut Outgoing,
    ) -> Result<usize, Error> {
        if self.is_broken {
            return Err(Error::General("the session has failed before".to_owned()));
        }
        if !self.settle(out) {
            return Ok(0);
        }
        self.gathered.clear();
        for slice in slices {
            let room = AT_ONCE - self.gathered.len();
            self.gathered.extend_from_slice(slice.get(..room.min(slice.len())).unwrap_or_default());
        }
        let (tls, incoming) = (&mut self.tls, &mut self.incoming);
        let sealed = tls.seal(incoming, Some(&self.gathered), &mut self.sealed);
        self.is_broken = !matches!(sealed, Ok(true));
        self.settle(out);
        if sealed? {
            Ok(self.gathered.len())
        } else {
            Err(Error::General("the peer has to be heard first".to_owned()))
        }
    }

    /// Passes on what rustls has to say; false if there is no room for it yet.
    pub(crate) fn settle(&mut self, out: &mut Outgoing) -> bool {
        if out.append(&self.sealed) {
            self.sealed.clear();
        }
        self.sealed.is_empty()
    }

    /// Ends TLS.
    pub(crate) fn close(&mut self, out: &mut Outgoing) {
        if !self.is_broken {
            // Without the end, the peer learns of it from the socket.
            let _ = self.tls.seal(&mut self.incoming, None, &mut self.sealed);
        }
        self.settle(out);
    }

    /// Frees memory.
    pub(crate) fn give_back(&mut self) {
        self.gathered = Vec::new();
        self.incoming.shrink_to_fit();
        self.sealed.shrink_to_fit();
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").finish_non_exhaustive()
    }
}
