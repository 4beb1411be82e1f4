//! Encrypted bytes on their way to the socket.

use std::convert::Infallible;
use std::io::{self, Write};

/// Most bytes that wait: a batch, one large payload and their records.
const MOST: usize = 128 * 1024;
/// The first memory for bytes.
const LEAST: usize = 4 * 1024;

/// Encrypted bytes that the socket has not taken yet, in `start..end`.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Outgoing {
    /// True if the socket has taken everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Adds bytes, written by `write`; `None` if there is no room for so many. After an error nothing is added.
    pub(super) fn add<E>(
        &mut self,
        count: usize,
        write: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        let end = self.end.checked_add(count).filter(|end| *end <= MOST)?;
        if self.bytes.len() < end {
            self.bytes.resize(end.next_power_of_two().clamp(LEAST, MOST), 0);
        }
        let done = write(self.bytes.get_mut(self.end..end)?);
        if done.is_ok() {
            self.end = end;
        }
        Some(done)
    }

    /// Adds bytes that are there already; false if there is no room for them.
    pub(super) fn append(&mut self, bytes: &[u8]) -> bool {
        let copy = |place: &mut [u8]| {
            place.copy_from_slice(bytes);
            Ok::<_, Infallible>(())
        };
        self.add(bytes.len(), copy).is_some()
    }

    /// Bytes that may be added.
    pub(super) fn room(&self) -> usize {
        MOST - self.end
    }

    /// Writes as many bytes as the socket takes. Returns their number.
    pub(crate) fn write_to(&mut self, socket: &mut impl Write) -> io::Result<usize> {
        let written = socket.write(self.bytes.get(self.start..self.end).unwrap_or_default())?;
        self.start = (self.start + written).min(self.end);
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
        }
        Ok(written)
    }

    /// True if memory can be freed.
    pub(crate) fn can_give_back(&self) -> bool {
        self.is_empty() && !self.bytes.is_empty()
    }

    /// Frees the memory while nothing waits.
    pub(crate) fn give_back(&mut self) {
        if self.can_give_back() {
            *self = Self::default();
        }
    }
}
