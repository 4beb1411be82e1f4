//! Health checks, metrics and reports to the controller (docs/protocol/config.md 5.10).

use std::time::Duration;

use crate::section::Section;

/// The shortest interval of checks and reports.
const OFTEN: Duration = Duration::from_millis(100);

/// Health checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthChecks {
    /// The interval of pings to the controller, at least 100 ms. Default 30s.
    pub ctrl_ping_interval: Duration,
    /// Time limit of an answer. Default 15s.
    pub ctrl_ping_timeout: Duration,
    /// Wait before the first ping. Default 15s.
    pub ctrl_ping_initial_delay: Duration,
    /// The interval of checks of links, at least 100 ms. Default 5s.
    pub link_interval: Duration,
    /// Wait before the first check of links. Default 1s.
    pub link_initial_delay: Duration,
    /// The number of links below which the check fails. Default 0: it never fails.
    pub min_links: u32,
}

impl HealthChecks {
    pub(super) fn read(section: &Section<'_>) -> Self {
        let ping = section.section("ctrlPingCheck");
        let link = section.section("linkCheck");
        Self {
            ctrl_ping_interval: ping.duration_above_zero(
                "interval",
                Duration::from_secs(30),
                OFTEN,
            ),
            ctrl_ping_timeout: ping.duration("timeout", Duration::from_secs(15)),
            ctrl_ping_initial_delay: ping.duration("initialDelay", Duration::from_secs(15)),
            link_interval: link.duration_above_zero("interval", Duration::from_secs(5), OFTEN),
            link_initial_delay: link.duration("initialDelay", Duration::from_secs(1)),
            min_links: link.int("minLinks", 0, 0..=1_000_000),
        }
    }
}

/// Reports of metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsConfig {
    /// The interval of reports to the controller, at least 100 ms. Default 1m.
    pub report_interval: Duration,
    /// Age at which an interval of usage is complete. Default 80s.
    pub interval_age_threshold: Duration,
    /// Most reports that wait. Default 10.
    pub message_queue: u32,
    /// Most events of usage that wait. At least 16, default 256.
    pub event_queue: u32,
    /// True if the delay of payloads inside the router is measured. Default false.
    pub data_delay: bool,
}

impl MetricsConfig {
    pub(super) fn read(section: &Section<'_>) -> Self {
        Self {
            report_interval: section.duration_above_zero(
                "reportInterval",
                Duration::from_secs(60),
                OFTEN,
            ),
            interval_age_threshold: section
                .duration("intervalAgeThreshold", Duration::from_secs(80)),
            message_queue: section.int("messageQueueSize", 10, 0..=1_000_000),
            event_queue: section.int("eventQueueSize", 256, 16..=1_000_000),
            data_delay: section.flag("enableDataDelayMetric", false),
        }
    }
}

/// Events of connecting identities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectEvents {
    /// True if they are sent. Default true.
    pub enabled: bool,
    /// The interval at which changes are sent. 250ms..=10m, default 3s.
    pub batch_interval: Duration,
    /// The interval at which all identities are sent again. 1s..=24h, default 5m.
    pub full_sync_interval: Duration,
    /// Most events that wait. 0..=10000000, default 100000.
    pub max_queued: u32,
}

impl ConnectEvents {
    pub(super) fn read(section: &Section<'_>) -> Self {
        const MOST: i64 = 10_000_000;
        let queued = section.any_int("maxQueuedEvents").unwrap_or(100_000);
        section.describe("maxQueuedEvents", "integer", "100000", "0..10000000");
        let max_queued = queued.clamp(0, MOST);
        if queued != max_queued {
            section.warn("maxQueuedEvents", format!("out of bounds, {max_queued} is used"));
            section.in_effect("maxQueuedEvents", max_queued.to_string());
        }
        Self {
            enabled: section.flag("enabled", true),
            batch_interval: section.duration_clamped(
                "batchInterval",
                Duration::from_secs(3),
                Duration::from_millis(250)..=Duration::from_secs(600),
            ),
            full_sync_interval: section.duration_clamped(
                "fullSyncInterval",
                Duration::from_secs(300),
                Duration::from_secs(1)..=Duration::from_secs(24 * 3600),
            ),
            max_queued: max_queued as u32,
        }
    }
}

/// Reports of network interfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceDiscovery {
    /// True if they are sent. Default true.
    pub enabled: bool,
    /// The interval at which interfaces are read, at least 1s. Default 1m.
    pub check_interval: Duration,
    /// The longest time between two reports. Default 24h.
    pub min_report_interval: Duration,
}

impl InterfaceDiscovery {
    pub(super) fn read(section: &Section<'_>) -> Self {
        Self {
            enabled: !section.flag("disabled", false),
            check_interval: section.duration_above_zero(
                "checkInterval",
                Duration::from_secs(60),
                Duration::from_secs(1),
            ),
            min_report_interval: section
                .duration("minReportInterval", Duration::from_secs(24 * 3600)),
        }
    }
}
