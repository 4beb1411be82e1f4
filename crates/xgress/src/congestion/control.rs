//! What a sender asks of congestion control, and tells it.

use std::fmt;
use std::time::{Duration, Instant};

use crate::Path;

/// A payload's view of deliveries when it was sent. Times are nanoseconds since the circuit began.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SentMark {
    /// When it was sent.
    pub(super) sent_at: u64,
    /// Bytes delivered by then.
    pub(super) delivered: u64,
    /// When the last of them was.
    pub(super) delivered_at: u64,
    /// When the latest payload among them had been sent.
    pub(super) delivered_sent_at: u64,
    /// The application was the bottleneck then.
    pub(super) idle: bool,
}

/// What an ack took out of flight.
#[derive(Debug)]
pub(crate) struct Acked {
    pub(crate) payloads: u64,
    pub(crate) bytes: u64,
    /// The mark of the payload among them that was sent last.
    pub(crate) newest: SentMark,
    /// Its round-trip time, if it was sent only once.
    pub(crate) rtt: Option<Duration>,
    /// Bytes on their way after this ack.
    pub(crate) in_flight: u64,
}

/// What decides how much is sent when. All counts are bytes with bookkeeping.
pub(crate) trait Congestion: fmt::Debug + Send + Sync {
    /// How much may be on its way.
    fn window(&self) -> u64;

    /// When the next payload may go; `None` is at once.
    fn next_send(&self) -> Option<Instant> {
        None
    }

    /// How much may be unacknowledged together with what the peer has not read yet.
    fn outstanding(&self) -> u64 {
        u64::MAX
    }

    /// A payload is sent, `again` or for the first time, beside `in_flight` on their way. Returns
    /// what it remembers for its ack.
    fn on_sent(&mut self, bytes: u64, in_flight: u64, again: bool, now: Instant) -> SentMark;

    /// An ack came that took something out of flight.
    fn on_acked(&mut self, acked: &Acked, now: Instant);

    /// So many payloads are lost, found out now.
    fn on_lost(&mut self, _payloads: u64) {}

    /// What is sent goes another way from now on: what was learnt of the one before is void.
    fn on_path_changed(&mut self, _now: Instant) {}

    /// There is room in the window and nothing to send, beside `in_flight` on their way.
    fn on_idle(&mut self, _in_flight: u64) {}

    /// What it makes of the path.
    fn path(&self) -> Path;
}
