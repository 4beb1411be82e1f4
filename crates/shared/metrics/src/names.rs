//! Every metric of weft's controllers and routers: name, kind, unit and meaning.
//!
//! In a name `{link}`, `{router}` and `{request}` stand for an id, or for a path and a method.
//! `docs/metrics.md` is the same table for operators; a test compares them. The names are facts of
//! OpenZiti (docs/protocol/operations.md 5.2), except those that begin with `weft.`.

mod patterns;

pub use patterns::{Pattern, find, of_router, split};

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum MetricKind {
    /// A value at one moment.
    Gauge,
    /// A rate of events.
    Meter,
    /// A distribution of values.
    Histogram,
    /// A distribution of times, and a rate.
    Timer,
}

impl MetricKind {
    /// The kind's name in lower case.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// A metric's entry in the tables.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The name, or the pattern of the names.
    pub name: &'static str,
    /// The kind.
    pub kind: MetricKind,
    /// The unit.
    pub unit: &'static str,
    /// The meaning, one sentence for operators.
    pub meaning: &'static str,
}

const fn gauge(name: &'static str, unit: &'static str, meaning: &'static str) -> Named {
    Named { name, kind: MetricKind::Gauge, unit, meaning }
}

const fn meter(name: &'static str, unit: &'static str, meaning: &'static str) -> Named {
    Named { name, kind: MetricKind::Meter, unit, meaning }
}

const fn histogram(name: &'static str, unit: &'static str, meaning: &'static str) -> Named {
    Named { name, kind: MetricKind::Histogram, unit, meaning }
}

const fn timer(name: &'static str, meaning: &'static str) -> Named {
    Named { name, kind: MetricKind::Timer, unit: "ns", meaning }
}

/// Metrics of routers.
pub const ROUTER: &[Named] = &[
    meter("ingress.rx.bytesrate", "bytes/s", "data from dialing applications"),
    meter("ingress.rx.msgrate", "payloads/s", "payloads from dialing applications"),
    histogram("ingress.rx.msgsize", "bytes", "size of payloads from dialing applications"),
    meter("ingress.tx.bytesrate", "bytes/s", "data to dialing applications"),
    meter("ingress.tx.msgrate", "payloads/s", "payloads to dialing applications"),
    histogram("ingress.tx.msgsize", "bytes", "size of payloads to dialing applications"),
    meter("egress.rx.bytesrate", "bytes/s", "data from hosting applications"),
    meter("egress.rx.msgrate", "payloads/s", "payloads from hosting applications"),
    histogram("egress.rx.msgsize", "bytes", "size of payloads from hosting applications"),
    meter("egress.tx.bytesrate", "bytes/s", "data to hosting applications"),
    meter("egress.tx.msgrate", "payloads/s", "payloads to hosting applications"),
    histogram("egress.tx.msgsize", "bytes", "size of payloads to hosting applications"),
    meter("fabric.rx.bytesrate", "bytes/s", "bodies of circuits' messages from all links"),
    meter("fabric.rx.msgrate", "messages/s", "circuits' messages from all links"),
    histogram("fabric.rx.msgsize", "bytes", "size of bodies of circuits' messages from all links"),
    meter("fabric.tx.bytesrate", "bytes/s", "bodies of circuits' messages to all links"),
    meter("fabric.tx.msgrate", "messages/s", "circuits' messages to all links"),
    histogram("fabric.tx.msgsize", "bytes", "size of bodies of circuits' messages to all links"),
    meter("link.{link}.rx.bytesrate", "bytes/s", "bodies of circuits' messages from the link"),
    meter("link.{link}.rx.msgrate", "messages/s", "circuits' messages from the link"),
    histogram(
        "link.{link}.rx.msgsize",
        "bytes",
        "size of bodies of circuits' messages from the link",
    ),
    meter("link.{link}.tx.bytesrate", "bytes/s", "bodies of circuits' messages to the link"),
    meter("link.{link}.tx.msgrate", "messages/s", "circuits' messages to the link"),
    histogram(
        "link.{link}.tx.msgsize",
        "bytes",
        "size of bodies of circuits' messages to the link",
    ),
    histogram("link.{link}.latency", "ns", "round trips of the link's heartbeats"),
    histogram(
        "link.{link}.queue_time",
        "ns",
        "time that payloads wait for the link, sampled one at a time",
    ),
    meter(
        "link.dropped_msgs:{link}",
        "messages/s",
        "messages that were dropped because too many waited for the link",
    ),
    meter(
        "link.dropped_fwd_msgs:{link}",
        "messages/s",
        "dropped messages that were forwarded: all of `link.dropped_msgs`",
    ),
    meter("xgress.rx.acks", "acks/s", "acks that came to ends of circuits on this router"),
    meter("xgress.tx.acks", "acks/s", "acks that ends of circuits on this router sent"),
    meter(
        "xgress.retransmissions",
        "payloads/s",
        "payloads that ends of circuits on this router sent again",
    ),
    meter("xgress.dropped_payloads", "messages/s", "messages dropped where too many waited"),
    meter("xgress.payload_duplicates", "payloads/s", "payloads that had been received before"),
    gauge(
        "xgress.tx_unacked_payload_bytes",
        "bytes",
        "bytes that ends on this router sent, not acknowledged yet",
    ),
    gauge(
        "xgress.tx_unacked_payloads",
        "payloads",
        "payloads that ends on this router sent, not acknowledged yet",
    ),
    gauge("xgress.blocked_by_local_window", "ends", "ends whose own window is full"),
    gauge("xgress.blocked_by_remote_window", "ends", "ends whose peer has no room"),
    meter("edge.connect.successes", "connections/s", "SDKs that were accepted"),
    meter("edge.connect.failures", "connections/s", "SDKs that were refused"),
    meter("edge.disconnects", "connections/s", "connections of SDKs that ended"),
    meter("edge.invalid_api_tokens", "connections/s", "SDKs whose session was not accepted"),
    gauge("edge.connections", "connections", "connections of SDKs"),
    meter("faults.circuit", "faults/s", "messages of circuits without a route"),
    meter("faults.link", "faults/s", "routes over links that do not exist"),
    gauge("ctrl_limiter.in_process", "requests", "requests for terminators in progress"),
    gauge("ctrl_limiter.window_size", "requests", "most requests for terminators in progress"),
    gauge("pool.route.handler.queue_size", "routes", "routes that wait for their dial"),
    gauge("pool.route.handler.busy_workers", "routes", "routes that are being dialed"),
    gauge("pool.route.handler.worker_count", "routes", "most routes that are dialed at once"),
    timer("pool.route.handler.work_timer", "time to set up a route, dial included"),
    gauge("pool.link.dialer.busy_workers", "links", "links that are being dialed"),
    gauge("pool.link.dialer.worker_count", "links", "most links that are dialed at once"),
    timer("pool.link.dialer.work_timer", "time to dial a link, handshakes included"),
    gauge("weft.circuits", "circuits", "circuits through this router"),
    gauge("weft.links", "links", "links that stand"),
    meter("weft.links.refused", "links/s", "links of other routers that were refused"),
    meter("weft.routes.refused", "routes/s", "routes of controllers with too many ways"),
    gauge("weft.controllers", "controllers", "controllers that are connected"),
    gauge("weft.buffered_bytes", "bytes", "data of circuits that waits in this router"),
    meter(
        "weft.edge.refused",
        "refusals/s",
        "channels and listeners of identities that had as many as they may have",
    ),
    meter("weft.dials.successes", "dials/s", "dials of hosts that were answered"),
    meter("weft.dials.failures", "dials/s", "dials of hosts that failed"),
    meter("weft.dropped.malformed", "messages/s", "messages that did not follow their encoding"),
    meter("weft.dropped.foreign", "messages/s", "messages over links their circuit does not take"),
    meter(
        "weft.reports.dropped",
        "reports/s",
        "reports, or parts, that no controller took in time",
    ),
    gauge(
        "weft.metrics.not_measured",
        "names",
        "metrics that are not measured, because there are too many",
    ),
    gauge(
        "weft.certificate.seconds_left",
        "seconds",
        "time until the first of the router's own certificates ends; negative after that",
    ),
    gauge("weft.memory.resident", "bytes", "memory of the process"),
    gauge("weft.threads", "threads", "threads of the process"),
    gauge("weft.open_files", "files", "open files and sockets of the process"),
];

/// Metrics of controllers.
pub const CONTROLLER: &[Named] = &[
    histogram("ctrl.latency:{router}", "ns", "round trips of heartbeats with the router"),
    meter("ctrl.rx.bytesrate:{router}", "bytes/s", "bodies of messages from the router"),
    meter("ctrl.rx.msgrate:{router}", "messages/s", "messages from the router"),
    histogram("ctrl.rx.msgsize:{router}", "bytes", "size of bodies of messages from the router"),
    meter("ctrl.tx.bytesrate:{router}", "bytes/s", "bodies of messages to the router"),
    meter("ctrl.tx.msgrate:{router}", "messages/s", "messages to the router"),
    histogram("ctrl.tx.msgsize:{router}", "bytes", "size of bodies of messages to the router"),
    timer("{request}", "time of requests with this method and path; ids stand as `:id`"),
    timer("api-session.create", "time of logins"),
    timer("session.create", "time to create service sessions"),
    timer("services.list", "time to list a client's services"),
    gauge("weft.api_sessions", "sessions", "API sessions"),
    gauge(
        "weft.api_sessions.to_end",
        "sessions",
        "API sessions that are ending together and have not ended yet",
    ),
    gauge(
        "weft.api_sessions.ended_together",
        "sessions",
        "API sessions that ended more than 512 together, or while the controller was away, since its start",
    ),
    gauge(
        "weft.api_sessions.to_revoke",
        "sessions",
        "ended API sessions with signed tokens of which routers are still to be told",
    ),
    gauge(
        "weft.api_sessions.to_revoke_singly",
        "sessions",
        "ended API sessions of lists, which are kept until their tokens end for routers that know no lists",
    ),
    gauge("weft.sessions", "sessions", "service sessions"),
    gauge("weft.circuits", "circuits", "circuits of this controller"),
    gauge(
        "weft.circuits.waiting_for_a_move",
        "circuits",
        "circuits that wait for their move to another path",
    ),
    gauge(
        "weft.circuits.waiting_for_a_path",
        "circuits",
        "circuits that have no path or could not take it",
    ),
    gauge(
        "weft.circuits.refused",
        "circuits",
        "circuits that were refused, because their dialer has as many as it may have",
    ),
    gauge(
        "weft.terminators.refused",
        "terminators",
        "terminators that were refused, because their host or router has as many as it may have",
    ),
    gauge("weft.links", "links", "links of the network"),
    gauge("weft.routers.connected", "routers", "routers that are connected"),
    gauge(
        "weft.routers.refused_reports",
        "reports",
        "refused reports of routers: of others, or beyond a limit",
    ),
    gauge("weft.metrics.names", "values", "values of routers that are kept"),
    gauge(
        "weft.metrics.refused",
        "values",
        "values of routers that were refused: of others, or without room",
    ),
    gauge(
        "weft.metrics.left_out",
        "values",
        "values that did not fit into the last text of `/metrics`",
    ),
    gauge(
        "weft.metrics.not_measured",
        "names",
        "metrics that are not measured, because there are too many",
    ),
    gauge("weft.model.identities", "identities", "identities of the network"),
    gauge("weft.model.routers", "routers", "routers of the network"),
    gauge("weft.model.services", "services", "services of the network"),
    gauge("weft.model.terminators", "terminators", "terminators of the network"),
    gauge("weft.model.revision", "revisions", "the revision of the model"),
    gauge(
        "weft.cluster.controllers",
        "controllers",
        "controllers that are alive, this one included",
    ),
    gauge(
        "weft.cluster.writable",
        "0 or 1",
        "1 if this controller can write; 0 if it does not reach what several share, or what they share stands against its copy",
    ),
    gauge(
        "weft.cluster.lag",
        "changes",
        "changes of other controllers that this one is known to lack",
    ),
    gauge(
        "weft.cluster.writes",
        "batches",
        "batches of changes that etcd has taken from this controller",
    ),
    gauge(
        "weft.cluster.write_micros",
        "microseconds",
        "the time until these were answered, in all: `rate()` of it by that of the batches is the mean",
    ),
    gauge(
        "weft.cluster.conflicts",
        "batches",
        "batches for which another controller was first, and which were decided anew",
    ),
    gauge(
        "weft.cluster.failures",
        "batches",
        "batches that etcd has refused, or not answered in time",
    ),
    gauge(
        "weft.certificate.seconds_left",
        "seconds",
        "time until the first certificate of the controller or its signer ends; negative after that",
    ),
    gauge("weft.memory.resident", "bytes", "memory of the process"),
    gauge("weft.threads", "threads", "threads of the process"),
    gauge("weft.open_files", "files", "open files and sockets of the process"),
];

/// Metrics that OpenZiti's routers have and weft's routers have not.
pub const OTHER_ROUTERS: &[(&str, MetricKind)] = &[
    ("ctrl_limiter.work_timer", MetricKind::Timer),
    ("edge.invalid_api_tokens_during_sync", MetricKind::Meter),
    ("link.dropped_rtx_msgs:{link}", MetricKind::Meter),
    ("link.dropped_xg_msgs:{link}", MetricKind::Meter),
    ("pool.link.dialer.queue_size", MetricKind::Gauge),
    ("pool.listener.ctrl.busy_workers", MetricKind::Gauge),
    ("pool.listener.ctrl.queue_size", MetricKind::Gauge),
    ("pool.listener.ctrl.work_timer", MetricKind::Timer),
    ("pool.listener.ctrl.worker_count", MetricKind::Gauge),
    ("pool.listener.link.busy_workers", MetricKind::Gauge),
    ("pool.listener.link.queue_size", MetricKind::Gauge),
    ("pool.listener.link.work_timer", MetricKind::Timer),
    ("pool.listener.link.worker_count", MetricKind::Gauge),
    ("pool.listener.xgress_edge.busy_workers", MetricKind::Gauge),
    ("pool.listener.xgress_edge.queue_size", MetricKind::Gauge),
    ("pool.listener.xgress_edge.work_timer", MetricKind::Timer),
    ("pool.listener.xgress_edge.worker_count", MetricKind::Gauge),
    ("pool.rate_limiter.busy_workers", MetricKind::Gauge),
    ("pool.rate_limiter.queue_size", MetricKind::Gauge),
    ("pool.rate_limiter.work_timer", MetricKind::Timer),
    ("pool.rate_limiter.worker_count", MetricKind::Gauge),
    ("pool.rdm.handler.busy_workers", MetricKind::Gauge),
    ("pool.rdm.handler.queue_size", MetricKind::Gauge),
    ("pool.rdm.handler.work_timer", MetricKind::Timer),
    ("pool.rdm.handler.worker_count", MetricKind::Gauge),
    ("pool.terminator_validation.busy_workers", MetricKind::Gauge),
    ("pool.terminator_validation.queue_size", MetricKind::Gauge),
    ("pool.terminator_validation.work_timer", MetricKind::Timer),
    ("pool.terminator_validation.worker_count", MetricKind::Gauge),
    ("xgress.ack_duplicates", MetricKind::Meter),
    ("xgress.ack_failures", MetricKind::Meter),
    ("xgress.acks.queue_size", MetricKind::Gauge),
    ("xgress.blocked_by_local_window_rate", MetricKind::Meter),
    ("xgress.blocked_by_remote_window_rate", MetricKind::Meter),
    ("xgress.blocked_time", MetricKind::Timer),
    ("xgress.edge.dropped_acks", MetricKind::Meter),
    ("xgress.edge.dropped_msgs", MetricKind::Meter),
    ("xgress.edge.dropped_payloads", MetricKind::Meter),
    ("xgress.retransmission_failures", MetricKind::Meter),
    ("xgress.tx_write_time", MetricKind::Timer),
    ("xgress_edge.long_data_queue_time", MetricKind::Timer),
    ("xgress_edge_tunnel.terminator.create_timer", MetricKind::Timer),
];

/// A counter that only the text for Prometheus has.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// The name.
    pub name: &'static str,
    /// The labels.
    pub labels: &'static str,
    /// The meaning, one sentence for operators.
    pub meaning: &'static str,
}

impl Counted {
    /// The name in Prometheus' text.
    #[must_use]
    pub fn exported(&self) -> String {
        crate::prometheus::exported(self.name)
    }
}

/// Counters of controllers: how the network is used.
pub const USE: &[Counted] = &[
    Counted {
        name: "service.dial.success",
        labels: "service_id, terminator_id",
        meaning: "dials of the service that came to stand at the terminator",
    },
    Counted {
        name: "service.dial.fail",
        labels: "service_id, terminator_id",
        meaning: "dials that did not, because a router or the host refused or did not answer",
    },
    Counted {
        name: "service.bytes",
        labels: "service_id, direction",
        meaning: "data of the service's circuits, as routers report it; the direction is `ingress.rx` and so on",
    },
    Counted {
        name: "terminator.bytes",
        labels: "terminator_id, direction",
        meaning: "data between the terminator's host and its router, as routers report it: `egress.rx` comes from the host, `egress.tx` goes to it",
    },
];
