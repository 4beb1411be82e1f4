//! The direction of this side's application: its bytes become payloads, and small writes one payload together.
//!
//! A write that finds no payload waiting becomes a payload at once, so that no write is delayed in the hope
//! of another one. While payloads wait for the window or for the channel, small writes are gathered: they
//! leave as one payload as soon as none waits before them, or they fill one.
//!
//! Payloads are sealed outside of the circuit's lock where the application's task does that: it takes the
//! [`Pen`] out, and with it all that is gathered, and puts it back together with the payloads.

use bytes::{Bytes, BytesMut};
use weft_e2e::Error;
use weft_xgress::PAYLOAD_SIZE;

use crate::sealing::Outward;

/// Writes of up to so many bytes are gathered; a longer one is worth a payload of its own.
const SMALL: usize = PAYLOAD_SIZE / 2;

/// Why data of the application was not taken.
#[derive(Debug)]
pub(crate) enum Unwritten {
    /// There is no room.
    Full,
    /// This direction has ended.
    Ended,
    /// The data cannot be sealed, so that the circuit was given up.
    Sealing(Error),
}

/// The written bytes that are not in a payload yet, with the pen that makes payloads of them.
#[derive(Debug)]
pub(super) struct Writing {
    /// `None` while the application's task has it.
    pen: Option<Pen>,
}

/// Makes payloads of the application's bytes.
#[derive(Debug)]
pub(super) struct Pen {
    outward: Outward,
    /// Bytes of small writes, at most [`PAYLOAD_SIZE`].
    gathered: BytesMut,
}

impl Writing {
    /// A direction whose payloads are made by `outward`.
    pub(super) fn new(outward: Outward) -> Self {
        Self { pen: Some(Pen { outward, gathered: BytesMut::new() }) }
    }

    /// Gathers a small write while payloads wait; returns the number of bytes that were taken. `None` if the
    /// write is to become a payload.
    pub(super) fn gather(&mut self, data: &[u8], payloads_wait: bool) -> Option<usize> {
        let gathered = &mut self.pen.as_mut()?.gathered;
        let room = PAYLOAD_SIZE.saturating_sub(gathered.len());
        // The write that fills the payload makes it: outside of the lock, and not later on the channel's task.
        if !payloads_wait || data.len() > SMALL || data.len() >= room {
            return None;
        }
        gathered.extend_from_slice(data);
        Some(data.len())
    }

    /// The payload of all that is gathered; `None` if nothing is.
    pub(super) fn gathered(&mut self) -> Option<Result<Bytes, Error>> {
        self.pen.as_mut()?.gathered()
    }

    /// The sealed end of the direction, if the peer expects one. To be called once.
    pub(super) fn last(&mut self) -> Option<Bytes> {
        self.pen.as_mut()?.outward.last()
    }

    /// Hands out the pen; only the application's task takes it.
    pub(super) fn take(&mut self) -> Option<Pen> {
        self.pen.take()
    }

    /// Takes the pen back.
    pub(super) fn put_back(&mut self, pen: Pen) {
        self.pen = Some(pen);
    }
}

impl Pen {
    /// The bytes of a write of a stream that the next payloads take: no more than fill the gathered payload,
    /// if the write is small.
    pub(super) fn share<'a>(&self, data: &'a [u8]) -> &'a [u8] {
        let fills = !self.gathered.is_empty() && data.len() <= SMALL;
        let room = if fills { PAYLOAD_SIZE - self.gathered.len() } else { PAYLOAD_SIZE };
        data.get(..room).unwrap_or(data)
    }

    /// The payloads of all that is gathered and of `data`: one together if `is_stream` and `data` is small.
    pub(super) fn payloads(
        &mut self,
        data: &[u8],
        is_stream: bool,
    ) -> Result<impl Iterator<Item = Bytes> + use<>, Error> {
        let joins = is_stream && !self.gathered.is_empty() && data.len() <= SMALL;
        if joins {
            self.gathered.extend_from_slice(data);
        }
        let gathered = self.gathered().transpose()?;
        let own = if joins { None } else { Some(self.outward.message(data)?) };
        Ok(gathered.into_iter().chain(own))
    }

    fn gathered(&mut self) -> Option<Result<Bytes, Error>> {
        let gathered = std::mem::take(&mut self.gathered);
        (!gathered.is_empty()).then(|| self.outward.gathered(gathered))
    }
}

#[cfg(test)]
mod tests;
