//! Flow control options of circuits, shared by `dialers` and `listeners` of a router
//! (docs/protocol/config.md 5.5).

use std::time::Duration;

use crate::section::Section;

/// Flow control of a circuit's end. Sizes are bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct XgressOptions {
    /// Largest payload; 0 = no limit.
    pub mtu: u32,
    /// True if payloads are dropped at random, for tests.
    pub random_drops: bool,
    /// One in this number of payloads is dropped, if `random_drops` is set.
    pub drop_1_in_n: u32,
    /// Most payloads that wait to be sent: read and checked, without effect.
    pub tx_queue_size: u32,
    /// True if the file has a key of the window (`txPortal...`).
    pub tx_portal_named: bool,
    /// Window at the start.
    pub tx_portal_start_size: u32,
    /// Smallest window.
    pub tx_portal_min_size: u32,
    /// Largest window.
    pub tx_portal_max_size: u32,
    /// The number of acknowledged payloads after which the window grows.
    pub tx_portal_increase_thresh: u32,
    /// The part of the acknowledged bytes by which the window grows: 1 = by as many.
    pub tx_portal_increase_scale: f64,
    /// The number of retransmissions after which the window shrinks.
    pub tx_portal_retx_thresh: u32,
    /// The factor by which the window shrinks after retransmissions.
    pub tx_portal_retx_scale: f64,
    /// The number of duplicate acks after which `retx_scale` goes up by 0.2.
    pub tx_portal_dup_ack_thresh: u32,
    /// A factor for duplicate acks: read and checked, without effect.
    pub tx_portal_dup_ack_scale: f64,
    /// Most received bytes that are out of order or unread; payloads beyond are refused.
    pub rx_buffer_size: u32,
    /// Wait before a retransmission while the round-trip time is unknown; at least 200 ms are
    /// waited.
    pub retx_start: Duration,
    /// The wait before a retransmission is at least this factor times the smoothed round-trip time.
    pub retx_scale: f64,
    /// Time that is added to the wait before a retransmission.
    pub retx_add: Duration,
    /// Longest wait before a retransmission; 0s = no limit.
    pub retx_max: Duration,
    /// One sample of the round-trip time counts at most this many times the smoothed one; 0 = no limit.
    pub max_rtt_scale: u32,
    /// How long a closing end waits for payloads under way.
    pub max_close_wait: Duration,
    /// Time limit for making a circuit.
    pub get_circuit_timeout: Duration,
    /// How long the host's end waits for the first payload of a new circuit; 1s or less = for ever.
    pub circuit_start_timeout: Duration,
    /// Time limit for dialing the application; none = that of the system.
    pub connect_timeout: Option<Duration>,
}

impl Default for XgressOptions {
    fn default() -> Self {
        Self {
            mtu: 0,
            random_drops: false,
            drop_1_in_n: 100,
            tx_queue_size: 1,
            tx_portal_named: false,
            tx_portal_start_size: 4_194_304,
            tx_portal_min_size: 16_384,
            tx_portal_max_size: 4_194_304,
            tx_portal_increase_thresh: 28,
            tx_portal_increase_scale: 1.0,
            tx_portal_retx_thresh: 64,
            tx_portal_retx_scale: 0.75,
            tx_portal_dup_ack_thresh: 64,
            tx_portal_dup_ack_scale: 0.9,
            rx_buffer_size: 4_194_304,
            retx_start: Duration::from_millis(200),
            retx_scale: 1.5,
            retx_add: Duration::ZERO,
            retx_max: Duration::from_secs(10),
            max_rtt_scale: 4,
            max_close_wait: Duration::from_secs(30),
            get_circuit_timeout: Duration::from_secs(30),
            circuit_start_timeout: Duration::from_secs(180),
            connect_timeout: None,
        }
    }
}

/// The keys of the original's window.
const TX_PORTAL: [&str; 9] = [
    "txPortalStartSize",
    "txPortalMinSize",
    "txPortalMaxSize",
    "txPortalIncreaseThresh",
    "txPortalIncreaseScale",
    "txPortalRetxThresh",
    "txPortalRetxScale",
    "txPortalDupAckThresh",
    "txPortalDupAckScale",
];

/// Reads the limit of samples of the round-trip time; 0 means no limit. With 1 the smoothed time could
/// never grow, so that 2 is used.
fn max_rtt_scale(section: &Section<'_>, default: u32) -> u32 {
    match section.int("maxRttScale", default, 0..=1000) {
        1 => {
            section.in_effect("maxRttScale", "2");
            2
        }
        scale => scale,
    }
}

impl XgressOptions {
    /// Reads the options of a section, which may have other keys, too.
    pub(crate) fn read(section: &Section<'_>) -> Self {
        const ANY: std::ops::RangeInclusive<i64> = 0..=u32::MAX as i64;
        let default = Self::default();
        let ms = |key: &'static str, default: Duration| {
            Duration::from_millis(section.int(key, default.as_millis() as u64, 0..=86_400_000))
        };
        let scale = |key: &'static str, default| section.number(key, default, 0.0..=1000.0);
        let options = Self {
            mtu: section.int("mtu", default.mtu, ANY),
            random_drops: section.flag("randomDrops", default.random_drops),
            drop_1_in_n: section.int("drop1InN", default.drop_1_in_n, 1..=i64::from(u32::MAX)),
            tx_queue_size: section.int("txQueueSize", default.tx_queue_size, ANY),
            tx_portal_named: TX_PORTAL.iter().any(|key| section.has(key)),
            tx_portal_start_size: section.int(
                "txPortalStartSize",
                default.tx_portal_start_size,
                1..=i64::from(u32::MAX),
            ),
            tx_portal_min_size: section.int("txPortalMinSize", default.tx_portal_min_size, ANY),
            tx_portal_max_size: section.int("txPortalMaxSize", default.tx_portal_max_size, ANY),
            tx_portal_increase_thresh: section.int(
                "txPortalIncreaseThresh",
                default.tx_portal_increase_thresh,
                ANY,
            ),
            tx_portal_increase_scale: scale(
                "txPortalIncreaseScale",
                default.tx_portal_increase_scale,
            ),
            tx_portal_retx_thresh: section.int(
                "txPortalRetxThresh",
                default.tx_portal_retx_thresh,
                ANY,
            ),
            tx_portal_retx_scale: scale("txPortalRetxScale", default.tx_portal_retx_scale),
            tx_portal_dup_ack_thresh: section.int(
                "txPortalDupAckThresh",
                default.tx_portal_dup_ack_thresh,
                ANY,
            ),
            tx_portal_dup_ack_scale: scale("txPortalDupAckScale", default.tx_portal_dup_ack_scale),
            rx_buffer_size: section.int("rxBufferSize", default.rx_buffer_size, ANY),
            retx_start: ms("retxStartMs", default.retx_start),
            retx_scale: scale("retxScale", default.retx_scale),
            retx_add: ms("retxAddMs", default.retx_add),
            retx_max: ms("retxMaxMs", default.retx_max),
            max_rtt_scale: max_rtt_scale(section, default.max_rtt_scale),
            max_close_wait: ms("maxCloseWaitMs", default.max_close_wait),
            get_circuit_timeout: section.duration("getCircuitTimeout", default.get_circuit_timeout),
            circuit_start_timeout: section
                .duration("circuitStartTimeout", default.circuit_start_timeout),
            connect_timeout: None,
        };
        options.in_order(section)
    }

    /// Makes the smallest window no larger than the largest; a file with only the largest sets
    /// both.
    fn in_order(mut self, section: &Section<'_>) -> Self {
        let most = self.tx_portal_max_size;
        if self.tx_portal_min_size <= most {
            return self;
        }
        let (key, text) = match section.has("txPortalMinSize") {
            true => ("txPortalMinSize", "is larger than txPortalMaxSize"),
            false => {
                ("txPortalMaxSize", "is less than txPortalMinSize, which the file does not name")
            }
        };
        section.warn(key, format!("{key} {text}: {most} is used for both"));
        section.in_effect("txPortalMinSize", most.to_string());
        self.tx_portal_min_size = most;
        self
    }

    /// Like [`XgressOptions::read`], for dialers of applications.
    pub(crate) fn read_dialer(section: &Section<'_>) -> Self {
        let connect_timeout = section.opt_duration("connectTimeout").filter(|time| !time.is_zero());
        Self { connect_timeout, ..Self::read(section) }
    }
}
