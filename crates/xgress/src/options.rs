//! The figures of an end, with the documented defaults (protocol: data-plane 7.7).

use std::time::Duration;

/// How an end sizes its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowKind {
    /// So many bytes, always.
    Fixed(u64),
    /// After delivery rate and round-trip time.
    Adaptive,
}

/// Options of an [`End`](crate::End). The names follow the configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// `txPortalStartSize`: the window at first.
    pub tx_start_size: u64,
    /// `txPortalMinSize`: the window never gets smaller (nor smaller than 128 KiB).
    pub tx_min_size: u64,
    /// `txPortalMaxSize`: the window never gets larger, and what is unacknowledged plus what the
    /// peer reports as buffered stays below it.
    pub tx_max_size: u64,
    /// `rxBufferSize`: payloads that would exceed it are not taken.
    pub rx_buffer_size: u64,
    /// `retxStartMs`: the time-out before the round-trip time is known.
    pub retx_start: Duration,
    /// `retxAddMs`: added to the time-out.
    pub retx_add: Duration,
    /// `retxMaxMs`: the longest time-out; zero is none.
    pub retx_max: Duration,
    /// `maxCloseWaitMs`: how long a closing end waits for acknowledgements without progress.
    pub max_close_wait: Duration,
    /// `circuitStartTimeout`: how long the terminating end waits for the circuit's first payload.
    /// A second or less turns it off.
    pub circuit_start_timeout: Duration,
    /// How the window is sized.
    pub window: WindowKind,
    /// The application exchanges datagrams: empty payloads are handed over.
    pub datagrams: bool,
    /// Both ends are in one process and hand payloads over directly: nothing is lost, nothing is
    /// resent, nothing dropped.
    pub in_process: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tx_start_size: 4 << 20,
            tx_min_size: 16 << 10,
            tx_max_size: 4 << 20,
            rx_buffer_size: 4 << 20,
            retx_start: Duration::from_millis(200),
            retx_add: Duration::ZERO,
            retx_max: Duration::from_secs(10),
            max_close_wait: Duration::from_secs(30),
            circuit_start_timeout: Duration::from_secs(180),
            window: WindowKind::Adaptive,
            datagrams: false,
            in_process: false,
        }
    }
}
