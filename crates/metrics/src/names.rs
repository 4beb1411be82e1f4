//! Every metric that a program of weft has: its name, what it counts and in what unit.
//!
//! In a name `{link}`, `{router}` and `{request}` stand for an id, or for a path and a method.
//! `docs/metrics.md` is the same table for operators; a test compares them. The names are facts of
//! OpenZiti (protocol: operations 5.2), but for those that begin with `weft.`.

use std::collections::HashSet;
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
        "how long messages wait for the link: what waits by what leaves, every 5 s",
    ),
    meter(
        "link.dropped_msgs:{link}",
        "messages/s",
        "messages that were dropped because too many waited for the link",
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
    gauge("xgress.blocked_by_local_window", "ends", "ends whose own window is full"),
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
    gauge("weft.circuits", "circuits", "circuits through this router"),
    gauge("weft.links", "links", "links that stand"),
    gauge("weft.controllers", "controllers", "controllers that are connected"),
    gauge("weft.buffered_bytes", "bytes", "data of circuits that waits in this router"),
    meter("weft.dials.successes", "dials/s", "dials of hosts that were answered"),
    meter("weft.dials.failures", "dials/s", "dials of hosts that failed"),
    meter("weft.dropped.malformed", "messages/s", "messages that did not follow their encoding"),
    meter("weft.dropped.foreign", "messages/s", "messages over links their circuit does not take"),
    meter("weft.reports.dropped", "reports/s", "reports that no controller took in time"),
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
    gauge("weft.circuits.waiting_for_a_path", "circuits", "circuits that look for another path"),
    gauge("weft.links", "links", "links of the network"),
    gauge("weft.routers.connected", "routers", "routers that are connected"),
    gauge("weft.routers.refused_reports", "reports", "what routers said of what is not theirs"),
    gauge("weft.metrics.names", "names", "metrics of routers that are kept"),
    gauge("weft.metrics.refused", "names", "metrics of routers that found no room"),
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
pub const OTHER_ROUTERS: &[&str] = &[
    "ctrl_limiter.work_timer",
    "edge.invalid_api_tokens_during_sync",
    "link.dropped_fwd_msgs:{link}",
    "link.dropped_rtx_msgs:{link}",
    "link.dropped_xg_msgs:{link}",
    "pool.link.dialer.queue_size",
    "pool.link.dialer.work_timer",
    "pool.listener.ctrl.busy_workers",
    "pool.listener.ctrl.queue_size",
    "pool.listener.ctrl.work_timer",
    "pool.listener.ctrl.worker_count",
    "pool.rate_limiter.busy_workers",
    "pool.rate_limiter.queue_size",
    "pool.rate_limiter.work_timer",
    "pool.rate_limiter.worker_count",
    "pool.rdm.handler.busy_workers",
    "pool.rdm.handler.queue_size",
    "pool.rdm.handler.work_timer",
    "pool.rdm.handler.worker_count",
    "xgress.ack_duplicates",
    "xgress.ack_failures",
    "xgress.acks.queue_size",
    "xgress.blocked_by_local_window_rate",
    "xgress.blocked_by_remote_window",
    "xgress.blocked_by_remote_window_rate",
    "xgress.blocked_time",
    "xgress.edge.dropped_acks",
    "xgress.edge.dropped_msgs",
    "xgress.edge.dropped_payloads",
    "xgress.retransmission_failures",
    "xgress.tx_unacked_payloads",
    "xgress.tx_write_time",
    "xgress_edge.long_data_queue_time",
    "xgress_edge_tunnel.terminator.create_timer",
];

/// Whether some router has a metric of this name.
#[must_use]
pub fn is_of_router(name: &str) -> bool {
    static WHOLE: LazyLock<HashSet<&str>> = LazyLock::new(|| patterns().collect());
    if !name.starts_with("link.") {
        return WHOLE.contains(name);
    }
    patterns().any(|pattern| pattern.starts_with("link.") && matches(pattern, name))
}

fn patterns() -> impl Iterator<Item = &'static str> {
    ROUTER.iter().map(|named| named.name).chain(OTHER_ROUTERS.iter().copied())
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
        (self.name != "{request}").then(|| crate::prometheus::exported(&split(&name).0))
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
pub fn split(name: &str) -> (String, Option<&str>) {
    let whole = || (name.to_owned(), None);
    if name.starts_with("ctrl.") {
        return match name.split_once(':') {
            Some((metric, id)) => (metric.to_owned(), Some(id)),
            None => whole(),
        };
    }
    let Some(rest) = name.strip_prefix("link.") else { return whole() };
    if let Some((metric, id)) = name.split_once(':') {
        return (metric.to_owned(), Some(id));
    }
    let words = if name.ends_with("latency") || name.ends_with("queue_time") { 1 } else { 2 };
    // Ids may have dots.
    let mut from_the_right = rest.rmatch_indices('.').map(|(at, _)| at);
    match from_the_right.nth(words - 1) {
        Some(at) => (format!("link{}", &rest[at..]), Some(&rest[..at])),
        None => whole(),
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
        ] {
            assert_eq!(split(name), (metric.to_owned(), id), "{name}");
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
        for name in
            ["xgress.ack_failures", "link.l1.latency", "link.dropped_xg_msgs:l1", "weft.links"]
        {
            assert!(is_of_router(name), "{name}");
        }
        for name in ["", "link.l1", "link.l1.evil", "xgress.evil", "ctrl.latency:r1"] {
            assert!(!is_of_router(name), "{name}");
        }
        let of = |name| find(CONTROLLER, name).map(|named| named.name);
        assert_eq!(of("/edge/client/v1/services.GET"), Some("{request}"));
        assert_eq!(of("elsewhere"), None);
    }
}
