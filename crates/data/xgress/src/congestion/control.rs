//! The interface between a sender and its congestion control.

use std::fmt;
use std::time::{Duration, Instant};

use crate::PathState;

/// The deliveries at the time when a payload was sent. Times are nanoseconds since the circuit
/// began.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SentMark {
    /// The time at which the payload was sent.
    pub(super) sent_at: u64,
    /// Bytes delivered by that time.
    pub(super) delivered: u64,
    /// The time of the last delivery.
    pub(super) delivered_at: u64,
    /// The time at which the latest payload of that delivery had been sent.
    pub(super) delivered_sent_at: u64,
    /// The payload's bytes.
    pub(super) bytes: u64,
    /// True if the application limited the rate at that time.
    pub(super) idle: bool,
}

/// The payloads that an ack took out of flight.
#[derive(Debug)]
pub(crate) struct Acked {
    pub(crate) payloads: u64,
    pub(crate) bytes: u64,
    /// The mark of the payload among them that was sent last.
    pub(crate) newest: SentMark,
    /// The round-trip time of that payload, if it was sent only once.
    pub(crate) rtt: Option<Duration>,
    /// Bytes on their way after this ack.
    pub(crate) in_flight: u64,
}

/// Decides when how much is sent. All counts are bytes with bookkeeping.
pub(crate) trait Congestion: fmt::Debug + Send + Sync {
    /// Bytes that may be on their way.
    fn window(&self) -> u64;

    /// The time at which the next payload may be sent; `None` means at once.
    fn next_send(&self) -> Option<Instant> {
        None
    }

    /// Most unacknowledged bytes together with the peer's unread bytes.
    fn outstanding(&self) -> u64 {
        u64::MAX
    }

    /// True if the path is too short for pacing.
    fn is_near(&self) -> bool {
        false
    }

    /// Called when a payload is sent, `again` or for the first time, with `in_flight` other bytes
    /// on their way. Returns the mark to keep until its ack.
    fn on_sent(&mut self, bytes: u64, in_flight: u64, again: bool, now: Instant) -> SentMark;

    /// Called for an ack that took payloads out of flight.
    fn on_acked(&mut self, acked: &Acked, now: Instant);

    /// Called when this many payloads are found to be lost.
    fn on_lost(&mut self, _payloads: u64) {}

    /// Called when the path has changed: samples of the former path are void.
    fn on_path_changed(&mut self, _now: Instant) {}

    /// Called when the circuit sends over another connection, with the time at which that began. Circuits of one
    /// connection look at the empty path at the same time.
    fn on_joined(&mut self, _began: Instant) {}

    /// Called when the window has room and nothing is to be sent, with `in_flight` bytes on their
    /// way.
    fn on_idle(&mut self, _in_flight: u64) {}

    /// The path as the congestion control sees it.
    fn path(&self) -> PathState;
}
