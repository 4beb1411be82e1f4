//! Circuits in a router: `forwarder` (docs/protocol/config.md 5.11).

use std::time::Duration;

use crate::duration;
use crate::section::Section;

/// Circuits in a router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwarderConfig {
    /// Interval of reports of faulted circuits; none = they are not reported. Default 15s.
    pub fault_tx_interval: Option<Duration>,
    /// The time without payloads after which a circuit is idle. Default 60s.
    pub idle_circuit_timeout: Duration,
    /// Interval of reports of idle circuits; none = they are not reported. Default 60s.
    pub idle_tx_interval: Option<Duration>,
    /// Most link dials that wait. 1..=10000, default 1000.
    pub link_dial_queue: u32,
    /// Most link dials at once. 1..=10000, default 32.
    pub link_dial_workers: u32,
    /// Most rate limited requests that wait. 1..=50000, default 5000.
    pub rate_limited_queue: u32,
    /// Most rate limited requests at once. 1..=10000, default 5.
    pub rate_limited_workers: u32,
    /// How long a circuit that its controller has ended has to be quiet before it is taken down.
    /// Default 5s.
    pub xgress_close_check_interval: Duration,
    /// Wait before an application is dialed. Default 0.
    pub xgress_dial_dwell_time: Duration,
    /// Most dials of applications that wait. 1..=10000, default 1000.
    pub xgress_dial_queue: u32,
    /// Most dials of applications at once. 1..=10000, default 128.
    pub xgress_dial_workers: u32,
    /// An application's connection ends when the application leaves sent data unacknowledged for
    /// this long, or accepts none of the waiting data, even if its system answers. None = it may
    /// accept nothing while its circuit lives, and the system notices one that has vanished.
    /// Default none.
    pub xgress_user_timeout: Option<Duration>,
    /// Interval of probes of link latency beside heartbeats; none = no probes. Default none, at
    /// least 1s.
    pub latency_probe_interval: Option<Duration>,
    /// A link over which nothing comes for this long is closed. At least 5s, default 10s: its circuits move before their
    /// ends give up.
    pub unresponsive_link_timeout: Duration,
}

/// Longest time in ms, 24 days: the system accepts no longer one for a socket.
const MAX_MS: i64 = i32::MAX as i64;

impl ForwarderConfig {
    pub(super) fn read(section: &Section<'_>) -> Self {
        let ms = |key: &'static str, default: u64| {
            Duration::from_millis(section.int_clamped(key, default, 0..=MAX_MS))
        };
        let count = |key: &'static str, default: u32, high: i64| {
            let number = section.any_int(key);
            section.describe(key, "integer", default.to_string(), format!("1..{high}"));
            let Some(number) = number else { return default };
            if (1..=high).contains(&number) {
                return u32::try_from(number).unwrap_or(default);
            }
            section.problem(
                key,
                format!(
                    "invalid 'forwarder' stanza (invalid value for '{key}', expected integer \
                     between 1 and {high})"
                ),
            );
            default
        };
        Self {
            fault_tx_interval: unless_zero(ms("faultTxInterval", 15_000)),
            idle_circuit_timeout: ms("idleCircuitTimeout", 60_000),
            idle_tx_interval: unless_zero(ms("idleTxInterval", 60_000)),
            link_dial_queue: count("linkDialQueueLength", 1000, 10_000),
            link_dial_workers: count("linkDialWorkerCount", 32, 10_000),
            rate_limited_queue: count("rateLimitedQueueLength", 5000, 50_000),
            rate_limited_workers: count("rateLimitedWorkerCount", 5, 10_000),
            xgress_close_check_interval: ms("xgressCloseCheckInterval", 5000),
            xgress_dial_dwell_time: ms("xgressDialDwellTime", 0),
            xgress_dial_queue: count("xgressDialQueueLength", 1000, 10_000),
            xgress_dial_workers: count("xgressDialWorkerCount", 128, 10_000),
            xgress_user_timeout: unless_zero(ms("xgressUserTimeout", 0)),
            latency_probe_interval: latency_probe_interval(section),
            unresponsive_link_timeout: unresponsive_link_timeout(section),
        }
    }
}

fn unless_zero(duration: Duration) -> Option<Duration> {
    (!duration.is_zero()).then_some(duration)
}

/// Reads the interval of probes; 0 means no probes. A number below 1000 ms becomes 1000 ms: generated
/// files have such numbers, which were meant as seconds.
fn latency_probe_interval(section: &Section<'_>) -> Option<Duration> {
    let ms: u64 = section.int_clamped("latencyProbeInterval", 0, 0..=MAX_MS);
    if (1..1000).contains(&ms) {
        section.warn("latencyProbeInterval", format!("{ms} ms is too often, 1000 is used"));
        section.in_effect("latencyProbeInterval", "1000");
    }
    (ms > 0).then(|| Duration::from_millis(ms.max(1000)))
}

/// A duration, or an integer in milliseconds.
fn unresponsive_link_timeout(section: &Section<'_>) -> Duration {
    const KEY: &str = "unresponsiveLinkTimeout";
    let default = Duration::from_secs(10);
    let timeout = if section.is_int(KEY) {
        Duration::from_millis(section.int_clamped(KEY, 10_000, 0..=MAX_MS))
    } else {
        section.duration(KEY, default)
    };
    section.describe(KEY, "duration", "10s", "at least 5s; an integer is in ms");
    if timeout >= Duration::from_secs(5) {
        return timeout;
    }
    let shown = duration::show_duration(timeout);
    section.problem(KEY, format!("invalid duration {shown} for '{KEY}', must be >= 5s"));
    default
}
