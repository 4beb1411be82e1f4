//! The metric that a name belongs to, and the id in the name.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::{CONTROLLER, MetricKind, Named, OTHER_ROUTERS, ROUTER};

/// A metric's name, split around its id.
#[derive(Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The name before and after the id. `before` is the whole name if it has no id.
    before: &'static str,
    after: Option<&'static str>,
    metric: String,
    kind: MetricKind,
}

impl Pattern {
    fn new(name: &'static str, kind: MetricKind) -> Self {
        let Some((before, rest)) = name.split_once('{') else {
            return Self { before: name, after: None, metric: name.to_owned(), kind };
        };
        let after = rest.split_once('}').map_or("", |(_, after)| after);
        let metric = format!("{}{after}", before.trim_end_matches(['.', ':']));
        Self { before, after: Some(after), metric, kind }
    }

    /// The name without the id.
    #[must_use]
    pub fn metric(&self) -> &str {
        &self.metric
    }

    /// Kind of the metric.
    #[must_use]
    pub fn kind(&self) -> MetricKind {
        self.kind
    }

    /// The id in `name`; `None` if `name` is not of this pattern. Some patterns end with a colon
    /// and the id, which is unambiguous because ids hold no colon.
    fn id<'n>(&self, name: &'n str) -> Option<&'n str> {
        let id = name.strip_prefix(self.before)?.strip_suffix(self.after?)?;
        (!id.is_empty() && !id.contains(':')).then_some(id)
    }
}

/// The patterns of several metrics, looked up by name.
struct Patterns {
    whole: HashMap<&'static str, Pattern>,
    with_id: Vec<Pattern>,
}

impl Patterns {
    fn of(names: impl Iterator<Item = (&'static str, MetricKind)>) -> Self {
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
        // All names with an id begin with one of these.
        if !name.starts_with("link.") && !name.starts_with("ctrl.") {
            return None;
        }
        self.with_id.iter().find_map(|pattern| Some((pattern, pattern.id(name)?)))
    }
}

/// The pattern of a router's metric of this name, and the id in the name.
#[must_use]
pub fn of_router(name: &str) -> Option<(&'static Pattern, Option<&str>)> {
    static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| Patterns::of(of_routers()));
    if let Some(whole) = PATTERNS.whole.get(name) {
        return Some((whole, None));
    }
    PATTERNS.with_id(name).map(|(pattern, id)| (pattern, Some(id)))
}

fn of_routers() -> impl Iterator<Item = (&'static str, MetricKind)> {
    ROUTER.iter().map(|named| (named.name, named.kind)).chain(OTHER_ROUTERS.iter().copied())
}

impl Named {
    /// The name of the metric in Prometheus' text; `None` if each operation has a name of its own.
    #[must_use]
    pub fn exported(&self) -> Option<String> {
        let name = self.name.replace(['{', '}'], "");
        (self.name != "{request}").then(|| crate::prometheus::exported(split(&name).0))
    }
}

/// The entry of the table `of` that a name belongs to.
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

/// Splits the name of a metric into the name without its id, and the id of its link or router.
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
            ("xgress.ack_failures", "xgress.ack_failures", MetricKind::Meter, None),
            ("link.a.b.latency", "link.latency", MetricKind::Histogram, Some("a.b")),
            ("link.dropped_xg_msgs:l1", "link.dropped_xg_msgs", MetricKind::Meter, Some("l1")),
            ("weft.links", "weft.links", MetricKind::Gauge, None),
            (
                "pool.listener.link.work_timer",
                "pool.listener.link.work_timer",
                MetricKind::Timer,
                None,
            ),
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
