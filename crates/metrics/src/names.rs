//! Every metric that a program of weft has: its name, what it counts and in what unit.
//!
//! In a name `{link}`, `{router}` and `{request}` stand for an id, or for a path and a method.
//! `docs/metrics.md` is the same table for operators; a test compares them. The names are facts of
//! OpenZiti (protocol: operations 5.2), but for those that begin with `weft.`.

use std::collections::HashMap;
use std::sync::LazyLock;

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// How much there is.
    Gauge,
    /// How often something happens.
    Meter,
    /// How values are distributed.
    Histogram,
    /// How long something takes, and how often it happens.
    Timer,
}

impl Kind {
    /// A word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Meter => "meter",
            Self::Histogram => "histogram",
            Self::Timer => "timer",
        }
    }
}

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// Its name, or the pattern of its names.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Of what it counts.
    pub unit: &'static str,
    /// What it says.
    pub meaning: &'static str,
}

const fn gauge(name: &'static str, unit: &'static str, meaning: &'static str) -> Named {
    Named { name, kind: Kind::Gauge, unit, meaning }
}

const fn meter(name: &'static str, unit: &'static str, meaning: &'static str) -> Named {
    Named { name, kind: Kind::Meter, unit, meaning }
}

const fn histogram(name: &'static str, unit: &'static str, meaning: &'static str) -> Named {
    Named { name, kind: Kind::Histogram, unit, meaning }
}

const fn timer(name: &'static str, meaning: &'static str) -> Named {
    Named { name, kind: Kind::Timer, unit: "ns", meaning }
}

/// What routers have.
pub const ROUTER: &[Named] = &[
    meter("ingress.rx.bytesrate", "bytes/s", "data that applications who dialed sent"),
    meter("ingress.rx.msgrate", "payloads/s", "the same in payloads"),
    histogram("ingress.rx.msgsize", "bytes", "the size of these payloads"),
    meter("ingress.tx.bytesrate", "bytes/s", "data that applications who dialed were sent"),
    meter("ingress.tx.msgrate", "payloads/s", "the same in payloads"),
    histogram("ingress.tx.msgsize", "bytes", "the size of these payloads"),
    meter("egress.rx.bytesrate", "bytes/s", "data that hosting applications sent"),
    meter("egress.rx.msgrate", "payloads/s", "the same in payloads"),
    histogram("egress.rx.msgsize", "bytes", "the size of these payloads"),
    meter("egress.tx.bytesrate", "bytes/s", "data that hosting applications were sent"),
    meter("egress.tx.msgrate", "payloads/s", "the same in payloads"),
    histogram("egress.tx.msgsize", "bytes", "the size of these payloads"),
    meter(
        "fabric.rx.bytesrate",
        "bytes/s",
        "bodies of circuits' messages that came over all links",
    ),
    meter("fabric.rx.msgrate", "messages/s", "the same in messages"),
    histogram("fabric.rx.msgsize", "bytes", "the size of these bodies"),
    meter(
        "fabric.tx.bytesrate",
        "bytes/s",
        "bodies of circuits' messages that left over all links",
    ),
    meter("fabric.tx.msgrate", "messages/s", "the same in messages"),
    histogram("fabric.tx.msgsize", "bytes", "the size of these bodies"),
    meter(
        "link.{link}.rx.bytesrate",
        "bytes/s",
        "bodies of circuits' messages that came over the link",
    ),
    meter("link.{link}.rx.msgrate", "messages/s", "the same in messages"),
    histogram("link.{link}.rx.msgsize", "bytes", "the size of these bodies"),
    meter(
        "link.{link}.tx.bytesrate",
        "bytes/s",
        "bodies of circuits' messages that left over the link",
    ),
    meter("link.{link}.tx.msgrate", "messages/s", "the same in messages"),
    histogram("link.{link}.tx.msgsize", "bytes", "the size of these bodies"),
    histogram("link.{link}.latency", "ns", "round trips of the link's heartbeats"),
    histogram(
        "link.{link}.queue_time",
        "ns",
        "how long payloads wait for the link, by one at a time",
    ),
    meter(
        "link.dropped_msgs:{link}",
        "messages/s",
        "messages that were dropped because too many waited for the link",
    ),
    meter(
        "link.dropped_fwd_msgs:{link}",
        "messages/s",
        "those of them that were forwarded, which is all",
    ),
    meter("xgress.rx.acks", "acks/s", "acks that came to ends of circuits on this router"),
    meter("xgress.tx.acks", "acks/s", "acks that ends of circuits on this router sent"),
    meter("xgress.retransmissions", "payloads/s", "payloads that such ends sent again"),
    meter("xgress.dropped_payloads", "messages/s", "messages dropped where too many waited"),
    meter(
        "xgress.payload_duplicates",
        "payloads/s",
        "payloads that came although they had come before",
    ),
    gauge("xgress.tx_unacked_payload_bytes", "bytes", "sent by such ends and not acknowledged"),
    gauge("xgress.tx_unacked_payloads", "payloads", "the same in payloads"),
    gauge("xgress.blocked_by_local_window", "ends", "ends whose own window is full"),
    gauge("xgress.blocked_by_remote_window", "ends", "ends whose peer has no room"),
    meter("edge.connect.successes", "connections/s", "SDKs that were let in"),
    meter("edge.connect.failures", "connections/s", "SDKs that were refused"),
    meter("edge.disconnects", "connections/s", "connections of SDKs that ended"),
    meter("edge.invalid_api_tokens", "connections/s", "SDKs whose session was not good"),
    gauge("edge.connections", "connections", "connections of SDKs"),
    meter("faults.circuit", "faults/s", "messages of circuits that had no way on"),
    meter("faults.link", "faults/s", "routes over links that are not there"),
    gauge("ctrl_limiter.in_process", "requests", "requests for terminators under way"),
    gauge("ctrl_limiter.window_size", "requests", "how many may be"),
    gauge("pool.route.handler.queue_size", "routes", "routes that wait for their dial"),
    gauge("pool.route.handler.busy_workers", "routes", "routes that are being dialed"),
    gauge("pool.route.handler.worker_count", "routes", "how many may be dialed at once"),
    timer("pool.route.handler.work_timer", "how long setting up a route takes, dial included"),
    gauge("pool.link.dialer.busy_workers", "links", "links that are being dialed"),
    gauge("pool.link.dialer.worker_count", "links", "how many may be dialed at once"),
    timer("pool.link.dialer.work_timer", "how long dialing a link takes, handshakes included"),
    gauge("weft.circuits", "circuits", "circuits through this router"),
    gauge("weft.links", "links", "links that stand"),
    gauge("weft.controllers", "controllers", "controllers that are connected"),
    gauge("weft.buffered_bytes", "bytes", "data of circuits that waits in this router"),
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
        "metrics that are not measured: there are too many",
    ),
    gauge("weft.memory.resident", "bytes", "memory of the process"),
    gauge("weft.threads", "threads", "threads of the process"),
    gauge("weft.open_files", "files", "open files and sockets of the process"),
];

/// What controllers have.
pub const CONTROLLER: &[Named] = &[
    histogram("ctrl.latency:{router}", "ns", "round trips of heartbeats with the router"),
    meter("ctrl.rx.bytesrate:{router}", "bytes/s", "bodies of messages that the router sent"),
    meter("ctrl.rx.msgrate:{router}", "messages/s", "the same in messages"),
    histogram("ctrl.rx.msgsize:{router}", "bytes", "the size of these bodies"),
    meter("ctrl.tx.bytesrate:{router}", "bytes/s", "bodies of messages that the router was sent"),
    meter("ctrl.tx.msgrate:{router}", "messages/s", "the same in messages"),
    histogram("ctrl.tx.msgsize:{router}", "bytes", "the size of these bodies"),
    timer("{request}", "how long requests of this method to this path took; ids stand as `:id`"),
    timer("api-session.create", "how long logging in took"),
    timer("session.create", "how long making a session for a service took"),
    timer("services.list", "how long listing the services of a client took"),
    gauge("weft.api_sessions", "sessions", "sessions of clients"),
    gauge("weft.sessions", "sessions", "sessions for services"),
    gauge("weft.circuits", "circuits", "circuits of this controller"),
    gauge(
        "weft.circuits.waiting_for_a_move",
        "circuits",
        "circuits that wait to take another path",
    ),
    gauge("weft.circuits.waiting_for_a_path", "circuits", "circuits that look for another path"),
    gauge("weft.links", "links", "links of the network"),
    gauge("weft.routers.connected", "routers", "routers that are connected"),
    gauge("weft.routers.refused_reports", "reports", "what routers said of what is not theirs"),
    gauge("weft.metrics.names", "values", "values of routers that are kept"),
    gauge(
        "weft.metrics.refused",
        "values",
        "values of routers that are no router's or found no room",
    ),
    gauge(
        "weft.metrics.left_out",
        "values",
        "values that found no place in the last text of `/metrics`",
    ),
    gauge(
        "weft.metrics.not_measured",
        "names",
        "metrics that are not measured: there are too many",
    ),
    gauge("weft.model.identities", "identities", "identities of the network"),
    gauge("weft.model.routers", "routers", "routers of the network"),
    gauge("weft.model.services", "services", "services of the network"),
    gauge("weft.model.terminators", "terminators", "terminators of the network"),
    gauge("weft.model.revision", "revisions", "the revision of the model"),
    gauge("weft.memory.resident", "bytes", "memory of the process"),
    gauge("weft.threads", "threads", "threads of the process"),
    gauge("weft.open_files", "files", "open files and sockets of the process"),
];

/// What routers of the original have beside these, and routers of weft do not.
pub const OTHER_ROUTERS: &[(&str, Kind)] = &[
    ("ctrl_limiter.work_timer", Kind::Timer),
    ("edge.invalid_api_tokens_during_sync", Kind::Meter),
    ("link.dropped_rtx_msgs:{link}", Kind::Meter),
    ("link.dropped_xg_msgs:{link}", Kind::Meter),
    ("pool.link.dialer.queue_size", Kind::Gauge),
    ("pool.listener.ctrl.busy_workers", Kind::Gauge),
    ("pool.listener.ctrl.queue_size", Kind::Gauge),
    ("pool.listener.ctrl.work_timer", Kind::Timer),
    ("pool.listener.ctrl.worker_count", Kind::Gauge),
    ("pool.listener.link.busy_workers", Kind::Gauge),
    ("pool.listener.link.queue_size", Kind::Gauge),
    ("pool.listener.link.work_timer", Kind::Timer),
    ("pool.listener.link.worker_count", Kind::Gauge),
    ("pool.listener.xgress_edge.busy_workers", Kind::Gauge),
    ("pool.listener.xgress_edge.queue_size", Kind::Gauge),
    ("pool.listener.xgress_edge.work_timer", Kind::Timer),
    ("pool.listener.xgress_edge.worker_count", Kind::Gauge),
    ("pool.rate_limiter.busy_workers", Kind::Gauge),
    ("pool.rate_limiter.queue_size", Kind::Gauge),
    ("pool.rate_limiter.work_timer", Kind::Timer),
    ("pool.rate_limiter.worker_count", Kind::Gauge),
    ("pool.rdm.handler.busy_workers", Kind::Gauge),
    ("pool.rdm.handler.queue_size", Kind::Gauge),
    ("pool.rdm.handler.work_timer", Kind::Timer),
    ("pool.rdm.handler.worker_count", Kind::Gauge),
    ("pool.terminator_validation.busy_workers", Kind::Gauge),
    ("pool.terminator_validation.queue_size", Kind::Gauge),
    ("pool.terminator_validation.work_timer", Kind::Timer),
    ("pool.terminator_validation.worker_count", Kind::Gauge),
    ("xgress.ack_duplicates", Kind::Meter),
    ("xgress.ack_failures", Kind::Meter),
    ("xgress.acks.queue_size", Kind::Gauge),
    ("xgress.blocked_by_local_window_rate", Kind::Meter),
    ("xgress.blocked_by_remote_window_rate", Kind::Meter),
    ("xgress.blocked_time", Kind::Timer),
    ("xgress.edge.dropped_acks", Kind::Meter),
    ("xgress.edge.dropped_msgs", Kind::Meter),
    ("xgress.edge.dropped_payloads", Kind::Meter),
    ("xgress.retransmission_failures", Kind::Meter),
    ("xgress.tx_write_time", Kind::Timer),
    ("xgress_edge.long_data_queue_time", Kind::Timer),
    ("xgress_edge_tunnel.terminator.create_timer", Kind::Timer),
];

/// A name, or the pattern of names that differ by the link or router that they are of.
#[derive(Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Before and after the id; a name that has none is all before it.
    before: &'static str,
    after: Option<&'static str>,
    metric: String,
    kind: Kind,
}

impl Pattern {
    fn new(name: &'static str, kind: Kind) -> Self {
        let Some((before, rest)) = name.split_once('{') else {
            return Self { before: name, after: None, metric: name.to_owned(), kind };
        };
        let after = rest.split_once('}').map_or("", |(_, after)| after);
        let metric = format!("{}{after}", before.trim_end_matches(['.', ':']));
        Self { before, after: Some(after), metric, kind }
    }

    /// The name of the metric without the link or router.
    #[must_use]
    pub fn metric(&self) -> &str {
        &self.metric
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The id within a name that has one. There are names in which it comes last, behind a colon:
    /// no id has one itself.
    fn id<'n>(&self, name: &'n str) -> Option<&'n str> {
        let id = name.strip_prefix(self.before)?.strip_suffix(self.after?)?;
        (!id.is_empty() && !id.contains(':')).then_some(id)
    }
}

/// The patterns of some names, looked up by name.
struct Patterns {
    whole: HashMap<&'static str, Pattern>,
    with_id: Vec<Pattern>,
}

impl Patterns {
    fn of(names: impl Iterator<Item = (&'static str, Kind)>) -> Self {
        let (mut whole, mut with_id) = (HashMap::new(), Vec::new());
        for (name, kind) in names {
            let pattern = Pattern::new(name, kind);
            match pattern.after {
                None => drop(whole.insert(name, pattern)),
                Some(_) => with_id.push(pattern),
            }
        }
        Self { whole, with_id }
    }

    fn with_id<'n>(&self, name: &'n str) -> Option<(&Pattern, &'n str)> {
        // No other name has an id.
        if !name.starts_with("link.") && !name.starts_with("ctrl.") {
            return None;
        }
        self.with_id.iter().find_map(|pattern| Some((pattern, pattern.id(name)?)))
    }
}

/// The metric of some router that has this name, and the link that it is of.
#[must_use]
pub fn of_router(name: &str) -> Option<(&'static Pattern, Option<&str>)> {
    static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| Patterns::of(of_routers()));
    if let Some(whole) = PATTERNS.whole.get(name) {
        return Some((whole, None));
    }
    PATTERNS.with_id(name).map(|(pattern, id)| (pattern, Some(id)))
}

fn of_routers() -> impl Iterator<Item = (&'static str, Kind)> {
    ROUTER.iter().map(|named| (named.name, named.kind)).chain(OTHER_ROUTERS.iter().copied())
}

/// Something that only grows, for Prometheus alone.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// Its name.
    pub name: &'static str,
    /// Its labels.
    pub labels: &'static str,
    /// What it says.
    pub meaning: &'static str,
}

impl Counted {
    /// Its name for Prometheus.
    #[must_use]
    pub fn exported(&self) -> String {
        crate::prometheus::exported(self.name)
    }
}

/// What controllers count of the network's use.
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
];

impl Named {
    /// Its name for Prometheus; `None` if it has one for each operation.
    #[must_use]
    pub fn exported(&self) -> Option<String> {
        let name = self.name.replace(['{', '}'], "");
        (self.name != "{request}").then(|| crate::prometheus::exported(split(&name).0))
    }
}

/// The metric that a name belongs to.
#[must_use]
pub fn find(of: &'static [Named], name: &str) -> Option<&'static Named> {
    of.iter().find(|named| matches(named.name, name))
}

fn matches(pattern: &str, name: &str) -> bool {
    let Some((before, rest)) = pattern.split_once('{') else { return pattern == name };
    let Some((word, after)) = rest.split_once('}') else { return false };
    let within = name.strip_prefix(before).and_then(|name| name.strip_suffix(after));
    within
        .is_some_and(|within| !within.is_empty() && (word != "request" || within.starts_with('/')))
}

/// The name of a metric without the link or router that it is of, and that.
#[must_use]
pub fn split(name: &str) -> (&str, Option<&str>) {
    static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| {
        let own = CONTROLLER.iter().filter(|named| named.name != "{request}");
        Patterns::of(of_routers().chain(own.map(|named| (named.name, named.kind))))
    });
    match PATTERNS.with_id(name) {
        Some((pattern, id)) => (pattern.metric(), Some(id)),
        None => (name, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_where_the_id_stands() {
        for (name, metric, id) in [
            ("link.l1.latency", "link.latency", Some("l1")),
            ("link.a.b.queue_time", "link.queue_time", Some("a.b")),
            ("link.a.b.tx.bytesrate", "link.tx.bytesrate", Some("a.b")),
            ("link.dropped_msgs:l1", "link.dropped_msgs", Some("l1")),
            ("ctrl.latency:r1", "ctrl.latency", Some("r1")),
            ("ctrl.latency", "ctrl.latency", None),
            ("link.x", "link.x", None),
            ("link.latency", "link.latency", None),
            ("ctrl_limiter.in_process", "ctrl_limiter.in_process", None),
            ("link.dropped_msgs:a.latency", "link.dropped_msgs", Some("a.latency")),
            ("link.evil:x.latency", "link.evil:x.latency", None),
        ] {
            assert_eq!(split(name), (metric, id), "{name}");
        }
    }

    #[test]
    fn each_name_stands_in_the_table_once() {
        for table in [ROUTER, CONTROLLER] {
            for (at, named) in table.iter().enumerate() {
                assert!(table[..at].iter().all(|other| other.name != named.name), "{named:?}");
            }
        }
        let of = |name| find(ROUTER, name).map(|named| named.name);
        assert_eq!(of("link.a.b.latency"), Some("link.{link}.latency"));
        assert_eq!(of("link..latency"), None);
        assert_eq!(of("nothing"), None);
        let of = |name| of_router(name).map(|(pattern, id)| (pattern.metric(), pattern.kind(), id));
        for (name, metric, kind, id) in [
            ("xgress.ack_failures", "xgress.ack_failures", Kind::Meter, None),
            ("link.a.b.latency", "link.latency", Kind::Histogram, Some("a.b")),
            ("link.dropped_xg_msgs:l1", "link.dropped_xg_msgs", Kind::Meter, Some("l1")),
            ("weft.links", "weft.links", Kind::Gauge, None),
            ("pool.listener.link.work_timer", "pool.listener.link.work_timer", Kind::Timer, None),
        ] {
            assert_eq!(of(name), Some((metric, kind, id)));
        }
        for name in [
            "",
            "link.l1",
            "link.l1.evil",
            "link.evil:l1.latency",
            "link..latency",
            "link.dropped_msgs:",
            "xgress.evil",
            "ctrl.latency:r1",
        ] {
            assert_eq!(of(name), None, "{name}");
        }
        assert!(OTHER_ROUTERS.iter().all(|(name, _)| find(ROUTER, name).is_none()));
        let of = |name| find(CONTROLLER, name).map(|named| named.name);
        assert_eq!(of("/edge/client/v1/services.GET"), Some("{request}"));
        assert_eq!(of("elsewhere"), None);
    }
}
