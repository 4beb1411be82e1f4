//! The direction of this side's application: its bytes become payloads, and small writes one payload together.
//!
//! A write that finds no payload waiting becomes a payload at once, so that no write is delayed in the hope
//! of another one. While payloads wait for the window or for the channel, small writes are gathered: they
//! leave as one payload as soon as none waits before them, or they fill one.
//!
//! Payloads are sealed outside of the circuit's lock where the application's task does that: it takes the
//! [`Pen`] out, and with it all that is gathered, and puts it back together with the payloads.

use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use weft_e2e::Error;
use weft_xgress::{PAYLOAD_SIZE, WriteError};

use super::{Circuit, Transport};
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

/// What was written and is no payload yet, and what makes payloads.
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

impl Circuit {
    /// Seals the application's data from now on. The preface is sent before all other payloads, as soon as
    /// the circuit has room.
    pub(crate) fn seal(&self, outward: Outward, preface: Bytes) {
        self.change(|inner, _| {
            inner.writing = Writing::new(outward);
            inner.preface = Some(preface);
        });
    }

    /// Waits until data can be taken; an error once this direction has ended. The room is promised: the next
    /// write is taken, although the window may shrink and other circuits may use the memory up meanwhile.
    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        let mut inner = self.inner.lock();
        let ready = inner.machine.writable();
        inner.machine.promised = matches!(ready, Poll::Ready(Ok(())));
        if ready.is_pending() {
            inner.wake_to_write(cx);
        }
        ready
    }

    /// Takes a beginning of `data` for the stream, as soon as there is room; returns its length.
    pub(crate) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<Result<usize, Unwritten>> {
        let mut inner = self.inner.lock();
        match inner.machine.writable() {
            Poll::Pending => {
                inner.wake_to_write(cx);
                return Poll::Pending;
            }
            Poll::Ready(Err(_)) => return Poll::Ready(Err(Unwritten::Ended)),
            Poll::Ready(Ok(())) => {}
        }
        let state = &mut inner.machine;
        state.promised = false;
        let waits = state.transport.has_waiting();
        if let Some(taken) = state.writing.gather(data, waits) {
            // A payload waits, so that the outlet knows the circuit already.
            return Poll::Ready(Ok(taken));
        }
        let Some(pen) = state.writing.take() else { return Poll::Ready(Err(Unwritten::Full)) };
        drop(inner);
        let data = pen.share(data);
        Poll::Ready(self.make(pen, data, true).map(|()| data.len()))
    }

    /// Takes all of `data` as one message, if there is room or some was promised.
    pub(crate) fn write_message(&self, data: &[u8]) -> Result<(), Unwritten> {
        let pen = {
            let mut inner = self.inner.lock();
            match inner.machine.writable() {
                Poll::Pending => return Err(Unwritten::Full),
                Poll::Ready(Err(_)) => return Err(Unwritten::Ended),
                Poll::Ready(Ok(())) => {
                    inner.machine.promised = false;
                    inner.machine.writing.take().ok_or(Unwritten::Full)?
                }
            }
        };
        self.make(pen, data, false)
    }

    /// Makes payloads, and puts the pen back.
    fn make(&self, mut pen: Pen, data: &[u8], is_stream: bool) -> Result<(), Unwritten> {
        // Outside of the circuit's lock. No other task writes, so that the room stays.
        let payloads = pen.payloads(data, is_stream);
        self.change(|state, _| {
            state.writing.put_back(pen);
            match payloads {
                Ok(mut payloads) => payloads
                    .try_for_each(|payload| state.transport.write(payload))
                    .map_err(|_| Unwritten::Ended),
                Err(problem) => {
                    state.abort();
                    Err(Unwritten::Sealing(problem))
                }
            }
        })
    }

    /// Ends the application's direction, behind all that was written, however full the window is.
    pub(crate) fn finish(&self) {
        self.change(|inner, now| {
            inner.flush();
            if let Some(last) = inner.writing.last() {
                let preface = inner.preface.take();
                for payload in preface.into_iter().chain([last]) {
                    // Refused once the direction is over, when it is not needed.
                    let _ = inner.transport.write(payload);
                }
            }
            match &mut inner.transport {
                Transport::Own(end) => end.finish(now),
                Transport::Routed(routed) => routed.finish(),
            }
        });
    }
}

#[cfg(test)]
mod tests;
