//! Paths, circuits and the control plane: `network` and `ctrl` (docs/protocol/config.md 4.3, 4.5).

use std::time::Duration;

use weft_wire::{Address, Scheme};

use crate::channel_options::{ChannelOptions, Heartbeats};
use crate::section::Section;

/// Paths and circuits.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkConfig {
    /// The interval of checks of the network. Default 60s.
    pub cycle: Duration,
    /// Time limit of a route. Default 10s.
    pub route_timeout: Duration,
    /// Further attempts at making a circuit. Default 2.
    pub create_circuit_retries: u32,
    /// How long an announced link may be missing. Default 10s.
    pub pending_link_timeout: Duration,
    /// Lowest cost of a router on a path. 0..=65535, default 10.
    pub min_router_cost: u16,
    /// The time after a connect in which a second connection of the same router is refused; 0 = it
    /// replaces the first. Default 1m.
    pub router_connect_churn_limit: Duration,
    /// Latency of a link that was not measured yet. Default 65s.
    pub initial_link_latency: Duration,
    /// The interval of reports of metrics. Default 1m.
    pub metrics_report_interval: Duration,
    /// Age at which metrics of an interval are complete. Default 80s.
    pub interval_age_threshold: Duration,
    /// Share of circuits that may be moved in one check, 0 to 1. Default 0.02.
    pub smart_reroute_fraction: f64,
    /// Most circuits moved in one check. Default 4.
    pub smart_reroute_cap: u32,
    /// A circuit is moved if the cost of its new path is less by at least this. Default 15.
    pub smart_min_cost_delta: u32,
    /// Most messages to routers that wait. 0..=1000000, default 100.
    pub router_messaging_queue: u32,
    /// Workers that send them. 1..=10000, default 100.
    pub router_messaging_workers: u32,
    /// Names or ids of routers whose own bindings (`transport`, `proxy`) may dial and host every
    /// service; `*` = all routers. Default none: only services that the policies of a router's
    /// tunneler allow.
    pub unrestricted_bindings: Vec<String>,
    /// What each identity may fill.
    pub per_identity: PerIdentity,
}

/// What each identity may fill. An identity's tags may say otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerIdentity {
    /// Most terminators that an identity hosts, at all routers together. At least 1, default 25000.
    pub max_terminators: u32,
    /// Most circuits that an identity dials at a time, at all routers together. At least 1, default 25000.
    pub max_circuits: u32,
}

impl Default for PerIdentity {
    /// Room for a tunneler that hosts 10,000 services at two routers, and for a gateway with 20,000 circuits.
    fn default() -> Self {
        Self { max_terminators: 25_000, max_circuits: 25_000 }
    }
}

impl PerIdentity {
    fn read(section: &Section<'_>) -> Self {
        let default = Self::default();
        let count = |key: &'static str, default: u32| section.int(key, default, 1..=1_000_000);
        Self {
            max_terminators: count("maxTerminators", default.max_terminators),
            max_circuits: count("maxCircuits", default.max_circuits),
        }
    }
}

impl NetworkConfig {
    pub(super) fn read(section: &Section<'_>) -> Self {
        section.ignore(&["enableLegacyLinkMgmt"]);
        let secs = |key: &'static str, default: u64| {
            Duration::from_secs(section.int(key, default, 1..=31_536_000))
        };
        let smart = section.section("smart");
        let messaging = section.section("routerMessaging");
        let age = section.duration("intervalAgeThreshold", Duration::ZERO);
        Self {
            cycle: secs("cycleSeconds", 60),
            route_timeout: secs("routeTimeoutSeconds", 10),
            create_circuit_retries: section.int("createCircuitRetries", 2, 0..=1000),
            pending_link_timeout: secs("pendingLinkTimeoutSeconds", 10),
            min_router_cost: section.int("minRouterCost", 10, 0..=65_535),
            router_connect_churn_limit: section
                .duration("routerConnectChurnLimit", Duration::from_secs(60)),
            initial_link_latency: section.duration("initialLinkLatency", Duration::from_secs(65)),
            metrics_report_interval: section
                .duration("metricsReportInterval", Duration::from_secs(60)),
            interval_age_threshold: if age.is_zero() { Duration::from_secs(80) } else { age },
            smart_reroute_fraction: smart.number("rerouteFraction", 0.02, 0.0..=1.0),
            smart_reroute_cap: smart.int("rerouteCap", 4, 0..=1_000_000),
            smart_min_cost_delta: smart.int("minCostDelta", 15, 0..=i64::from(u32::MAX)),
            router_messaging_queue: messaging.int("queueSize", 100, 0..=1_000_000),
            router_messaging_workers: messaging.int("maxWorkers", 100, 1..=10_000),
            unrestricted_bindings: section.texts("unrestrictedBindings"),
            per_identity: PerIdentity::read(&section.section("perIdentity")),
        }
    }
}

/// The control plane.
#[derive(Debug, Clone, PartialEq)]
pub struct ControlConfig {
    /// The address for routers and other controllers. None only in a file that is refused.
    pub listener: Option<Address>,
    /// Options of the channels.
    pub options: ChannelOptions,
    /// The address that routers and other controllers are told; required in a cluster.
    pub advertise_address: Option<Address>,
    /// The address that routers are told to use from now on.
    pub new_listener: Option<Address>,
    /// Heartbeats to routers.
    pub router_heartbeats: Heartbeats,
    /// Heartbeats to other controllers.
    pub peer_heartbeats: Heartbeats,
    /// Dials to routers that listen for controllers.
    pub dialer: ControlDialer,
}

/// Dials to routers that listen for controllers.
#[derive(Debug, Clone, PartialEq)]
pub struct ControlDialer {
    /// True if such routers are dialed. Default false.
    pub enabled: bool,
    /// Groups; a router's listener must have one of them. Default `default`.
    pub groups: Vec<String>,
    /// Wait before the first dial. Default 30s.
    pub dial_delay: Duration,
    /// Shortest wait between dials. Default 1s.
    pub min_retry_interval: Duration,
    /// Longest wait between dials. Default 5m.
    pub max_retry_interval: Duration,
    /// A connection that closes within this time counts as failed. Default 5s.
    pub fast_failure_window: Duration,
    /// Factor from one wait to the next. Default 1.5.
    pub retry_backoff_factor: f64,
    /// Most dials that wait: read and checked, without effect. At least 1, default 32.
    pub queue_size: u32,
    /// Dials at once. At least 1, default 10.
    pub max_workers: u32,
}

impl ControlConfig {
    pub(super) fn read(root: &Section<'_>) -> Self {
        let section = root.section("ctrl");
        if !root.has("ctrl") {
            root.problem("ctrl", "controllerConfig must provide [ctrl]");
        } else if section.is_present() && !section.has("listener") {
            section.problem(
                "listener",
                "controllerConfig must provide [ctrl/listener], e.g. tls:0.0.0.0:6262",
            );
        }
        let listener = section.address("listener");
        if let Some(scheme) = listener.as_ref().map(|address| address.scheme)
            && scheme != Scheme::Tls
        {
            let text = format!("a controller listens with tls for routers, not {scheme}");
            section.problem("listener", text);
        }
        let options = section.section("options");
        let heartbeats = Heartbeats::default();
        Self {
            listener,
            options: ChannelOptions::read(&options),
            advertise_address: options.address("advertiseAddress"),
            new_listener: options.address("newListener"),
            router_heartbeats: Heartbeats::read(&options.section("routerHeartbeats"), &heartbeats),
            peer_heartbeats: Heartbeats::read(&options.section("peerHeartbeats"), &heartbeats),
            dialer: ControlDialer::read(&section.section("dialer")),
        }
    }
}

impl ControlDialer {
    fn read(section: &Section<'_>) -> Self {
        let secs = Duration::from_secs;
        let groups = section.texts("groups");
        Self {
            enabled: section.flag("enabled", false),
            groups: if groups.is_empty() { vec!["default".to_owned()] } else { groups },
            dial_delay: section.duration("dialDelay", secs(30)),
            min_retry_interval: section.duration("minRetryInterval", secs(1)),
            max_retry_interval: section.duration("maxRetryInterval", secs(300)),
            fast_failure_window: section.duration("fastFailureWindow", secs(5)),
            retry_backoff_factor: section.number("retryBackoffFactor", 1.5, 1.0..=100.0),
            queue_size: section.int("queueSize", 32, 1..=1_000_000),
            max_workers: section.int("maxWorkers", 10, 1..=10_000),
        }
    }
}
