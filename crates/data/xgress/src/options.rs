//! The figures of an end, with the documented defaults (docs/protocol/data-plane.md 7.7).

use std::time::Duration;

/// The congestion control of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowKind {
    /// A fixed number of bytes.
    Fixed(u64),
    /// By the delivery rate and the round-trip time of the empty path, with pacing.
    Adaptive,
    /// Like the original, by the `txPortal` options.
    Original,
}

/// Options of an [`End`](crate::End). The names follow the configuration; defaults are those of
/// the original (docs/protocol/data-plane.md 7.7). Sizes are bytes.
///
/// Two options of the original have no effect here and are left out: `txQueueSize` (payloads pass
/// through no queue) and `txPortalDupAckScale` (unused by the original, too).
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// `mtu`: the most bytes of a payload with its header; larger ones are cut. 0 cuts none.
    pub mtu: u32,
    /// `txPortalStartSize`: the window at the start ([`WindowKind::Original`]).
    pub tx_start_size: u64,
    /// `txPortalMinSize`: the smallest window.
    pub tx_min_size: u64,
    /// `txPortalMaxSize`: the largest window, and the limit of unacknowledged bytes plus the bytes
    /// that the peer reports as buffered.
    pub tx_max_size: u64,
    /// `txPortalIncreaseThresh`: payloads acknowledged per increase ([`WindowKind::Original`]).
    pub tx_increase_thresh: u32,
    /// `txPortalIncreaseScale`: the part of the acknowledged bytes that an increase adds
    /// ([`WindowKind::Original`]).
    pub tx_increase_scale: f64,
    /// `txPortalRetxThresh`: payloads sent again per decrease ([`WindowKind::Original`]).
    pub tx_retx_thresh: u32,
    /// `txPortalRetxScale`: the part of the window that a decrease leaves
    /// ([`WindowKind::Original`]).
    pub tx_retx_scale: f64,
    /// `txPortalDupAckThresh`: after this many duplicate acks the factor of the time-out
    /// ([`retx_scale`](Self::retx_scale)) goes up by 0.2.
    pub tx_dup_ack_thresh: u32,
    /// `rxBufferSize`: payloads beyond this many buffered bytes are refused.
    pub rx_buffer_size: u64,
    /// `retxStartMs`: the time-out before the round-trip time is known, at least 200 ms.
    pub retx_start: Duration,
    /// `retxScale`: the time-out is at least this factor times the smoothed round-trip time.
    pub retx_scale: f64,
    /// `retxAddMs`: added to the time-out.
    pub retx_add: Duration,
    /// `retxMaxMs`: the longest time-out; zero sets no limit.
    pub retx_max: Duration,
    /// `maxRttScale`: one sample of the round-trip time counts at most this many times the smoothed
    /// one; 0 sets no limit.
    pub max_rtt_scale: u32,
    /// `maxCloseWaitMs`: how long a closing end waits for acknowledgements without progress.
    pub max_close_wait: Duration,
    /// `circuitStartTimeout`: how long the terminating end waits for the circuit's first payload.
    /// A second or less turns it off.
    pub circuit_start_timeout: Duration,
    /// The congestion control.
    pub window: WindowKind,
    /// `randomDrops`, `drop1InN`: the owner of the end drops one in this number of arriving
    /// payloads, for tests; 0 drops none. The end itself uses no random numbers.
    pub lost_one_in: u32,
    /// True if the application exchanges datagrams: empty payloads are then delivered.
    pub datagrams: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mtu: 0,
            tx_start_size: 4 << 20,
            tx_min_size: 16 << 10,
            tx_max_size: 4 << 20,
            tx_increase_thresh: 28,
            tx_increase_scale: 1.0,
            tx_retx_thresh: 64,
            tx_retx_scale: 0.75,
            tx_dup_ack_thresh: 64,
            rx_buffer_size: 4 << 20,
            retx_start: Duration::from_millis(200),
            retx_scale: 1.5,
            retx_add: Duration::ZERO,
            retx_max: Duration::from_secs(10),
            max_rtt_scale: 4,
            max_close_wait: Duration::from_secs(30),
            circuit_start_timeout: Duration::from_secs(180),
            window: WindowKind::Adaptive,
            lost_one_in: 0,
            datagrams: false,
        }
    }
}
