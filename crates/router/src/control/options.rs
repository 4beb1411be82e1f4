//! Settings of the control half.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use weft_channel::{HeartbeatOptions, HttpProxy};
use weft_config::RouterConfig;
use weft_limits::WindowOptions;
use weft_proxy::Proxies;
use weft_spans::Spans;
use weft_wire::{Address, VersionInfo};

/// Settings of the control half.
#[derive(Debug, Clone)]
pub(crate) struct ControlOptions {
    /// Id of the router: the common name of its client certificate.
    pub(crate) router_id: String,
    /// The build that the router announces.
    pub(crate) version: VersionInfo,
    /// The addresses of controllers in the configuration; the endpoints file comes first.
    pub(crate) endpoints: Vec<Address>,
    /// The file for addresses that controllers send.
    pub(crate) endpoints_file: PathBuf,
    /// The interface, or its address, to dial from.
    pub(crate) bind: Option<String>,
    /// A proxy through which controllers are dialed.
    pub(crate) proxy: Option<HttpProxy>,
    /// Time limit of a dial, including the hello.
    pub(crate) connect_timeout: Duration,
    /// How long a controller may accept none of the bytes to be written to it; `None` for ever.
    pub(crate) write_timeout: Option<Duration>,
    /// Time limit of requests without one of their own, and how long a controller may be silent while a circuit is
    /// asked for.
    pub(crate) request_timeout: Duration,
    /// The heartbeats to controllers.
    pub(crate) heartbeat: HeartbeatOptions,
    /// Most dials of applications at once.
    pub(crate) route_workers: usize,
    /// Most dials of applications that wait.
    pub(crate) route_queue: usize,
    /// The window of requests for terminators, which adapts to the controllers.
    pub(crate) limiter: WindowOptions,
    /// Most requests for terminators at once.
    pub(crate) limited_workers: usize,
    /// Most requests for terminators that wait.
    pub(crate) limited_queue: usize,
    /// How long an established terminator waits for the controller's question after a reconnect,
    /// before it is made again.
    pub(crate) validation_wait: Duration,
    /// Longest wait for the answer to a request for a terminator.
    pub(crate) terminator_timeout: Duration,
    /// The reports of the machine's network interfaces; `None` without reports.
    pub(crate) interfaces: Option<InterfaceReports>,
    /// True if controllers are told which identities are connected.
    pub(crate) connect_events: bool,
    /// Most changes of connected identities in one report.
    pub(crate) connect_events_queue: usize,
    /// The interval of reports of changes of connected identities.
    pub(crate) connect_events_batch: Duration,
    /// The interval of reports of all connected identities.
    pub(crate) connect_events_full: Duration,
    /// Most service sessions in one question.
    pub(crate) session_chunk: usize,
    /// The pause between two such questions.
    pub(crate) session_pause: RangeInclusive<Duration>,
    /// The interval at which opaque API sessions in use are reported.
    pub(crate) session_heartbeat: Duration,
    /// The reports of measurements.
    pub(crate) reports: ReportOptions,
    /// The recorder for spans of dials.
    pub(crate) spans: Spans,
}

/// The interval at which network interfaces are read, and the longest time between two reports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InterfaceReports {
    pub(crate) check: Duration,
    pub(crate) at_least: Duration,
}

/// The options of the reports of measurements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReportOptions {
    /// The interval of reports.
    pub(crate) interval: Duration,
    /// Most reports that wait.
    pub(crate) queue: usize,
    /// The age at which an interval of usage is reported.
    pub(crate) age: Duration,
}

/// The addresses of an edge listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EdgeAddresses {
    /// The address that it is bound to.
    pub(crate) address: Address,
    /// The address that SDKs dial.
    pub(crate) advertise: Address,
}

impl ControlOptions {
    /// The options from a file, for a router of this id.
    pub(crate) fn new(config: &RouterConfig, router_id: &str, version: VersionInfo) -> Self {
        let ctrl = &config.ctrl;
        let heartbeats = &ctrl.heartbeats;
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
            limiter: ctrl.rate_limiter.in_effect(),
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

/// The proxies for requests of HTTP to controllers: that of the file, or else those that the environment
/// names.
pub(crate) fn proxies(config: &RouterConfig) -> Proxies {
    proxy(config).map_or_else(Proxies::of_process, Proxies::always)
}

/// The proxy of a file, through which controllers and other routers are dialed.
pub(crate) fn proxy(config: &RouterConfig) -> Option<HttpProxy> {
    config.proxy.as_ref().map(|proxy| HttpProxy {
        host: proxy.address.host.clone(),
        port: proxy.address.port,
        credentials: proxy.credentials.clone(),
        named_by: "`proxy` of the file",
    })
}
