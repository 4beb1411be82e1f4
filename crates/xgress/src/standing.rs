//! How an end stands: what an operator is shown of a circuit that is slow or hangs.

use std::time::Duration;

/// How an end stands at one moment. Bytes count with their bookkeeping unless said otherwise.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    /// Bytes that may be on their way.
    pub window: u64,
    /// Bytes that are on their way, as far as is known.
    pub on_the_way: u64,
    /// Bytes that are sent and not acknowledged.
    pub unacknowledged: u64,
    /// Payloads that were not sent yet.
    pub waiting: usize,
    /// Payloads that are known to be lost and were not sent again yet.
    pub lost: usize,
    /// The sequence of the next new payload.
    pub next_sent: i32,
    /// Bytes of data that the peer says it has buffered.
    pub peer_unread: u32,
    /// Payloads that were acknowledged, and those among them a second time.
    pub acknowledged: u64,
    /// Payloads that were acknowledged again.
    pub acknowledged_again: u64,
    /// Payloads that were sent again.
    pub copies: u64,
    /// How long ago the last of them was.
    pub since_copy: Option<Duration>,
    /// How long ago something was acknowledged.
    pub since_progress: Duration,
    /// Without an ack for this long, a copy asks.
    pub timeout: Duration,
    /// The smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Something waits that the window has no room for.
    pub blocked_by_window: bool,
    /// Something waits that the peer has no room for.
    pub blocked_by_peer: bool,
    /// Something waits for its time.
    pub paced_for: Option<Duration>,
    /// What congestion control makes of the path.
    pub path: Path,
    /// Bytes of data that arrived and wait to be read.
    pub unread: u64,
    /// Payloads that arrived and wait to be read.
    pub unread_payloads: usize,
    /// The sequence that is read next.
    pub next_read: i32,
    /// The highest sequence that arrived.
    pub highest_read: i32,
    /// How long ago anything arrived from the other end; `None` before anything did.
    pub since_heard: Option<Duration>,
}

/// What congestion control makes of the path.
#[derive(Debug, Clone, Default)]
pub struct Path {
    /// Its phase.
    pub phase: &'static str,
    /// Bytes per second that it delivers, at most, of late.
    pub rate: Option<u64>,
    /// The round-trip time of the empty path.
    pub empty_rtt: Option<Duration>,
}
