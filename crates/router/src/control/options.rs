//! Settings of the control half.

use std::{ops::RangeInclusive, path::PathBuf, time::Duration};

use weft_channel::{HeartbeatOptions, HttpProxy};
use weft_config::RouterConfig;
use weft_limits::WindowOptions;
use weft_spans::Spans;
use weft_wire::{Address, VersionInfo};

use super::interfaces::InterfaceReports;
use super::metrics::ReportOptions;

/// Settings of the control half.
#[derive(Debug, Clone)]
pub(crate) struct ControlOptions {
    /// Id of the router: the common name of its client certificate.
    pub(crate) router_id: String,
    /// What it says about its build.
    pub(crate) version: VersionInfo,
    /// Where controllers are, unless the endpoints file knows better.
    pub(crate) endpoints: Vec<Address>,
    /// Where addresses that controllers send are kept.
    pub(crate) endpoints_file: PathBuf,
    /// Interface, or address of one, to dial from.
    pub(crate) bind: Option<String>,
    /// A proxy through which controllers are dialed.
    pub(crate) proxy: Option<HttpProxy>,
    /// Limit of a dial, hello included.
    pub(crate) connect_timeout: Duration,
    /// How long a controller may take nothing of what is to be written to it; `None` for ever.
    pub(crate) write_timeout: Option<Duration>,
    /// Limit of a request where nothing else is said.
    pub(crate) request_timeout: Duration,
    /// Heartbeats to controllers.
    pub(crate) heartbeat: HeartbeatOptions,
    /// Dials of applications at once.
    pub(crate) route_workers: usize,
    /// Dials of applications that may wait.
    pub(crate) route_queue: usize,
    /// Requests for terminators under way, as far as controllers keep up.
    pub(crate) limiter: WindowOptions,
    /// The same at most.
    pub(crate) limited_workers: usize,
    /// Requests for terminators that may wait.
    pub(crate) limited_queue: usize,
    /// How long an established terminator waits for the controller to ask about it after a
    /// reconnect, before it is made again.
    pub(crate) validation_wait: Duration,
    /// How long a request for a terminator may stay without answer.
    pub(crate) terminator_timeout: Duration,
    /// How controllers are told of the machine's network interfaces; `None` if they are not.
    pub(crate) interfaces: Option<InterfaceReports>,
    /// Whether controllers are told who is connected.
    pub(crate) connect_events: bool,
    /// Most changes of who is connected that are gathered.
    pub(crate) connect_events_queue: usize,
    /// How long changes of who is connected are gathered.
    pub(crate) connect_events_batch: Duration,
    /// How often everybody connected is reported.
    pub(crate) connect_events_full: Duration,
    /// Most service sessions in one question.
    pub(crate) session_chunk: usize,
    /// Waits between two such questions.
    pub(crate) session_pause: RangeInclusive<Duration>,
    /// How often opaque API sessions in use are reported.
    pub(crate) session_heartbeat: Duration,
    /// Reports of what is measured.
    pub(crate) reports: ReportOptions,
    /// Where spans of dials go.
    pub(crate) spans: Spans,
}

/// Where an edge listener is, and where SDKs find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EdgeAddresses {
    /// Where it is bound.
    pub(crate) address: Address,
    /// Where SDKs reach it.
    pub(crate) advertise: Address,
}

impl ControlOptions {
    /// The settings of a file, for a router of this id.
    pub(crate) fn new(config: &RouterConfig, router_id: &str, version: VersionInfo) -> Self {
        let ctrl = &config.ctrl;
        let heartbeats = &ctrl.heartbeats;
        let limiter = &ctrl.rate_limiter;
        let unlimited = if limiter.enabled { limiter.max_size } else { u32::MAX };
        let edge = config.edge.as_ref();
        let session = edge.map(|edge| edge.heartbeat_interval);
        let pause = edge.map(|edge| {
            let (low, high) =
                (edge.session_validate_min_interval, edge.session_validate_max_interval);
            low..=high.max(low)
        });
        Self {
            router_id: router_id.to_owned(),
            version,
            endpoints: ctrl
                .endpoints
                .iter()
                .filter_map(|one| one.to_string().parse().ok())
                .collect(),
            endpoints_file: ctrl.endpoints_file.clone(),
            bind: ctrl.bind.clone(),
            proxy: proxy(config),
            connect_timeout: ctrl.options.connect_timeout,
            write_timeout: ctrl.options.write_timeout,
            request_timeout: ctrl.default_request_timeout,
            heartbeat: HeartbeatOptions {
                send_interval: heartbeats.send_interval,
                check_interval: heartbeats.check_interval,
                close_unresponsive: heartbeats.close_unresponsive,
                ..HeartbeatOptions::CONTROL
            },
            route_workers: config.forwarder.xgress_dial_workers as usize,
            route_queue: config.forwarder.xgress_dial_queue as usize,
            limiter: WindowOptions {
                min_size: limiter.min_size,
                max_size: unlimited,
                timeout: limiter.timeout,
                success_threshold: limiter.success_threshold,
                increase_factor: limiter.increase_factor,
                decrease_factor: limiter.decrease_factor,
                increase_check_interval: limiter.increase_check_interval,
                decrease_check_interval: limiter.decrease_check_interval,
            },
            limited_workers: config.forwarder.rate_limited_workers as usize,
            limited_queue: config.forwarder.rate_limited_queue as usize,
            validation_wait: Duration::from_secs(10),
            terminator_timeout: Duration::from_secs(30),
            interfaces: config.interface_discovery.enabled.then_some(InterfaceReports {
                check: config.interface_discovery.check_interval,
                at_least: config.interface_discovery.min_report_interval,
            }),
            connect_events: config.connect_events.enabled,
            connect_events_queue: config.connect_events.max_queued as usize,
            connect_events_batch: config.connect_events.batch_interval,
            connect_events_full: config.connect_events.full_sync_interval,
            session_chunk: edge.map_or(1000, |edge| edge.session_validate_chunk as usize),
            session_pause: pause.unwrap_or(Duration::ZERO..=Duration::ZERO),
            session_heartbeat: session.unwrap_or(Duration::from_secs(60)),
            reports: ReportOptions {
                interval: config.metrics.report_interval,
                queue: config.metrics.message_queue as usize,
                age: config.metrics.interval_age_threshold,
            },
            spans: Spans::off(),
        }
    }
}

/// The proxy of a file, through which controllers and other routers are dialed.
pub(crate) fn proxy(config: &RouterConfig) -> Option<HttpProxy> {
    config.proxy.as_ref().map(|proxy| HttpProxy {
        host: proxy.address.host.clone(),
        port: proxy.address.port,
        credentials: proxy.credentials.clone(),
    })
}
