//! Options of channels: queue lengths and timeouts, and heartbeats
//! (docs/protocol/channel.md 11.1, 15.4).

use std::time::Duration;

use crate::section::Section;

/// Options of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelOptions {
    /// Most messages that wait to be sent on one connection. Default 4 (links and edge: 64).
    pub out_queue_size: usize,
    /// Most connections that wait to be accepted. 1..=5000, default 1.
    pub max_queued_connects: usize,
    /// Most handshakes under way at once. 1..=1000, default 16.
    pub max_outstanding_connects: usize,
    /// Time limit of a handshake. 30ms..=60s, default 5s.
    pub connect_timeout: Duration,
    /// How long the peer may accept no bytes while some are to be written. Default 30s; 0s = for
    /// ever.
    pub write_timeout: Option<Duration>,
}

impl Default for ChannelOptions {
    fn default() -> Self {
        Self {
            out_queue_size: 4,
            max_queued_connects: 1,
            max_outstanding_connects: 16,
            connect_timeout: Duration::from_secs(5),
            write_timeout: Some(Duration::from_secs(30)),
        }
    }
}

/// The treatment of a value outside of its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutOfBounds {
    /// The value is a mistake.
    Refused,
    /// The bound is used instead, with a warning, because the original accepts the value.
    Clamped,
}

impl ChannelOptions {
    /// Reads the options of a section, which may have other keys, too.
    pub(crate) fn read(section: &Section<'_>) -> Self {
        Self::read_with(section, OutOfBounds::Refused)
    }

    /// Reads the options of channels that the original does not check.
    pub(crate) fn read_lenient(section: &Section<'_>) -> Self {
        Self::read_with(section, OutOfBounds::Clamped)
    }

    fn read_with(section: &Section<'_>, out_of_bounds: OutOfBounds) -> Self {
        let default = Self::default();
        let connect_timeout = if section.has("connectTimeout") {
            let bounds = Duration::from_millis(30)..=Duration::from_secs(60);
            section.any_int("connectTimeoutMs");
            section.describe("connectTimeoutMs", "integer", "5000", "30..60000, in ms");
            let (key, usual) = ("connectTimeout", default.connect_timeout);
            match out_of_bounds {
                OutOfBounds::Refused => section.duration_in(key, usual, bounds),
                OutOfBounds::Clamped => section.duration_clamped(key, usual, bounds),
            }
        } else {
            section.describe("connectTimeout", "duration", "5s", "30ms..1m");
            Duration::from_millis(connect_timeout_ms(section, out_of_bounds))
        };
        let count = |key: &'static str, usual: usize, bounds| match out_of_bounds {
            OutOfBounds::Refused => section.int(key, usual, bounds),
            OutOfBounds::Clamped => section.int_clamped(key, usual, bounds),
        };
        let write_timeout = section.opt_duration("writeTimeout").or(default.write_timeout);
        section.describe("writeTimeout", "duration", "30s", "0s: no limit");
        Self {
            out_queue_size: count("outQueueSize", default.out_queue_size, 0..=1_000_000),
            max_queued_connects: count("maxQueuedConnects", default.max_queued_connects, 1..=5000),
            max_outstanding_connects: count(
                "maxOutstandingConnects",
                default.max_outstanding_connects,
                1..=1000,
            ),
            connect_timeout,
            write_timeout: write_timeout.filter(|time| !time.is_zero()),
        }
    }

    /// Reads the options of links and edge listeners: the default length of the queue is 64.
    pub(crate) fn read_long(section: &Section<'_>) -> Self {
        let mut options = Self::read_lenient(section);
        section.describe("outQueueSize", "integer", "64", "0..1000000");
        if options.out_queue_size == Self::default().out_queue_size {
            options.out_queue_size = 64;
            section.in_effect("outQueueSize", "64");
        }
        options
    }
}

fn connect_timeout_ms(section: &Section<'_>, out_of_bounds: OutOfBounds) -> u64 {
    const DEFAULT: u64 = 5000;
    if out_of_bounds == OutOfBounds::Clamped {
        let ms = section.int_clamped("connectTimeoutMs", DEFAULT, 30..=60_000);
        section.describe("connectTimeoutMs", "integer", "5000", "30..60000, in ms");
        return ms;
    }
    let asked = section.any_int("connectTimeoutMs");
    section.describe("connectTimeoutMs", "integer", "5000", "30..60000, in ms");
    match asked {
        None => DEFAULT,
        Some(ms) if ms < 30 => {
            section.problem("connectTimeoutMs", "connectTimeoutMs must be at least 30 ms");
            DEFAULT
        }
        Some(ms) if ms > 60_000 => {
            section.problem("connectTimeoutMs", "connectTimeoutMs must be at most 60000 ms");
            DEFAULT
        }
        Some(ms) => ms.unsigned_abs(),
    }
}

/// Heartbeats of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeats {
    /// The interval at which heartbeats are sent. Default 10s.
    pub send_interval: Duration,
    /// The interval at which a channel checks if a heartbeat is due. Default 1s.
    pub check_interval: Duration,
    /// The channel closes when the other end has answered nothing for this long; none = never.
    pub close_unresponsive: Option<Duration>,
    /// The other end counts as unresponsive after this long without an answer. Default 5s.
    pub unresponsive_after: Duration,
}

impl Default for Heartbeats {
    fn default() -> Self {
        Self {
            send_interval: Duration::from_secs(10),
            check_interval: Duration::from_secs(1),
            close_unresponsive: Some(Duration::from_secs(30)),
            unresponsive_after: Duration::from_secs(5),
        }
    }
}

impl Heartbeats {
    /// Reads heartbeats; absent values are those of `default`.
    pub(crate) fn read(section: &Section<'_>, default: &Self) -> Self {
        const CLOSE: &str = "closeUnresponsiveTimeout";
        let close = default.close_unresponsive;
        let asked = section.duration_or_never(CLOSE, Duration::ZERO);
        let usual = close.map_or_else(|| "never".to_owned(), crate::duration::show_duration);
        section.describe(CLOSE, "duration", usual, "0 or less: never");
        Self {
            send_interval: section.duration("sendInterval", default.send_interval),
            check_interval: check_interval(section, default.check_interval),
            close_unresponsive: if section.has(CLOSE) { asked } else { close },
            unresponsive_after: section.duration("unresponsiveAfter", default.unresponsive_after),
        }
    }
}

/// The interval of checks, at least 10 ms: an interval of 0 would keep a connection busy with checks.
fn check_interval(section: &Section<'_>, default: Duration) -> Duration {
    const KEY: &str = "checkInterval";
    const LEAST: Duration = Duration::from_millis(10);
    let interval = section.duration(KEY, default);
    section.describe(KEY, "duration", crate::duration::show_duration(default), "at least 10ms");
    if interval < LEAST {
        let shown = crate::duration::show_duration(interval);
        section.warn(KEY, format!("{shown} is too often, 10ms is used"));
        section.in_effect(KEY, "10ms");
    }
    interval.max(LEAST)
}
