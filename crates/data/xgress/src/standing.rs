//! The state of an end, shown to operators for a circuit that is slow or hangs.

use std::time::Duration;

/// The state of an end at one moment. Bytes include their bookkeeping unless said otherwise.
#[derive(Debug, Clone, Default)]
pub struct EndSnapshot {
    /// Bytes that may be on their way.
    pub window: u64,
    /// Bytes on their way, not counting payloads that are known to be lost.
    pub on_the_way: u64,
    /// Bytes that are sent and not acknowledged.
    pub unacknowledged: u64,
    /// Payloads that were not sent yet.
    pub waiting: usize,
    /// Payloads that are known to be lost and were not sent again yet.
    pub lost: usize,
    /// The sequence number of the next new payload.
    pub next_sent: i32,
    /// Bytes of data that the peer reports as buffered.
    pub peer_unread: u32,
    /// Payloads that were acknowledged for the first time.
    pub acknowledged: u64,
    /// Payloads that were acknowledged again.
    pub acknowledged_again: u64,
    /// Payloads that were sent again.
    pub copies: u64,
    /// The time since the last copy.
    pub since_copy: Option<Duration>,
    /// The time since the last progress.
    pub since_progress: Duration,
    /// The time-out: without an ack for this long, a copy is sent.
    pub timeout: Duration,
    /// The smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// True if a payload waits because the window is full.
    pub blocked_by_window: bool,
    /// True if a payload waits because the peer has no room.
    pub blocked_by_peer: bool,
    /// The time for which pacing delays the next payload.
    pub paced_for: Option<Duration>,
    /// The path as the congestion control sees it.
    pub path: PathState,
    /// Bytes of data that arrived and wait to be read.
    pub unread: u64,
    /// Payloads that arrived and wait to be read.
    pub unread_payloads: usize,
    /// The sequence number to be read next.
    pub next_read: i32,
    /// The highest sequence number that arrived.
    pub highest_read: i32,
    /// The time since the last message from the other end; `None` before the first.
    pub since_heard: Option<Duration>,
}

/// The path as the congestion control sees it.
#[derive(Debug, Clone, Default)]
pub struct PathState {
    /// The phase.
    pub phase: &'static str,
    /// The highest delivery rate of late, in bytes per second.
    pub rate: Option<u64>,
    /// The round-trip time of the empty path.
    pub empty_rtt: Option<Duration>,
}
