//! Counts reports of routers about things that are not theirs, and reports beyond limits. Such
//! a report is refused where it arrives; this module counts it by router and logs it at intervals.
//!
//! A single misreport is harmless: the router has not heard yet that a link is gone. A growing
//! count means a router that lies, or a router with a state restored from elsewhere.

use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use strum::{IntoStaticStr, VariantArray};
use weft_model::Id;

use crate::clock;

/// Shortest time between two log lines about one router and one kind of report.
const QUIET: Duration = Duration::from_secs(300);
/// Longest part of a report in the log, in characters.
const SHOWN: usize = 64;

/// The kinds of refused reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "camelCase")]
pub(crate) enum Misreport {
    /// A link whose id is that of another router's link.
    #[strum(serialize = "linkOfAnotherRouter")]
    ForeignLink,
    /// A link to a router that is not in the model.
    #[strum(serialize = "linkToUnknownRouter")]
    LinkToNobody,
    /// A link above the limit of links of one router.
    TooManyLinks,
    /// A link above the limit of links between two routers.
    #[strum(serialize = "tooManyParallelLinks")]
    TooManyParallel,
    /// A link with an invalid id or text.
    MalformedLink,
    /// A fault or a state of a link that does not end at the router.
    #[strum(serialize = "faultOfForeignLink")]
    LinkFault,
    /// A fault of a circuit that does not go over the router.
    #[strum(serialize = "faultOfForeignCircuit")]
    CircuitFault,
    /// A circuit with an invalid id.
    MalformedCircuit,
    /// The latency of a link that does not end at the router.
    #[strum(serialize = "latencyOfForeignLink")]
    Latency,
    /// More metrics than one router can have.
    TooManyMetrics,
    /// Bytes of a circuit that does not go over the router.
    #[strum(serialize = "usageOfForeignCircuit")]
    Usage,
    /// Bytes of a circuit that this run of the controller does not know and has not made: the circuit of
    /// an earlier run that ended before it was adopted, or of another controller. No fault of the router,
    /// so only counted.
    #[strum(serialize = "usageOfUnknownCircuit")]
    UnknownUsage,
    /// Listeners for links that are too many or too long, or are reported too often.
    #[strum(serialize = "tooManyLinkListeners")]
    LinkListeners,
    /// A terminator of another router.
    #[strum(serialize = "terminatorOfAnotherRouter")]
    Terminator,
}

impl Misreport {
    /// The name of the kind in inspections and logs.
    fn as_str(self) -> &'static str {
        self.into()
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    times: u64,
    /// The count and the time of the last log line.
    named: Option<(u64, Instant)>,
}

/// Counts by router. Only routers of the model connect, and counts of deleted routers are removed.
#[derive(Debug, Default)]
pub(crate) struct Misreports(Mutex<HashMap<Id, [Count; Misreport::VARIANTS.len()]>>);

impl Misreports {
    /// Counts reports of a router; `what` is the example in the log line.
    pub(crate) fn count(&self, router: &Id, kind: Misreport, times: usize, what: &str) {
        if times == 0 {
            return;
        }
        let named = {
            let mut routers = self.0.lock();
            let counts = routers.entry(router.clone()).or_default();
            let count = &mut counts[kind as usize];
            count.times = count.times.saturating_add(times as u64);
            let is_due = count.named.is_none_or(|(_, at)| clock::since(at) >= QUIET);
            let more = count.times - count.named.map_or(0, |(times, _)| times);
            if is_due {
                count.named = Some((count.times, clock::now()));
            }
            is_due.then_some((more, count.times))
        };
        if let Some((more, in_all)) = named {
            let (report, what): (_, String) = (kind.as_str(), what.chars().take(SHOWN).collect());
            if kind == Misreport::UnknownUsage {
                tracing::debug!(%router, report, what, more, in_all, "bytes of a circuit count for no service: the circuit is of another controller, or ended while this one was away");
                return;
            }
            tracing::warn!(%router, report, what, more, in_all, "a report of a router is refused: it concerns something that is not the router's, or is beyond a limit");
        }
    }

    /// The counts of each router, by the name of the kind.
    pub(crate) fn all(&self) -> Vec<(Id, Vec<(&'static str, u64)>)> {
        let routers = self.0.lock();
        let mut all: Vec<_> = routers
            .iter()
            .map(|(router, counts)| {
                let kinds = Misreport::VARIANTS
                    .iter()
                    .map(|kind| (kind.as_str(), counts[*kind as usize].times));
                (router.clone(), kinds.filter(|(_, times)| *times > 0).collect())
            })
            .collect();
        all.sort_unstable();
        all
    }

    /// The sum of all counts.
    pub(crate) fn total(&self) -> u64 {
        self.0.lock().values().flatten().map(|count| count.times).sum()
    }

    /// Removes the counts of a deleted router.
    pub(crate) fn forget(&self, router: &Id) {
        self.0.lock().remove(router);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_counted_by_router_and_kind() {
        let (misreports, r1, r2) = (Misreports::default(), Id::new("r1"), Id::new("r2"));
        misreports.count(&r2, Misreport::Latency, 0, "");
        assert!(misreports.all().is_empty());
        misreports.count(&r2, Misreport::Latency, 3, "l1");
        misreports.count(&r1, Misreport::ForeignLink, 1, "l1");
        misreports.count(&r2, Misreport::Latency, 2, "l1");
        misreports.count(&r2, Misreport::CircuitFault, 1, "c1");
        let of_r2 = vec![("faultOfForeignCircuit", 1), ("latencyOfForeignLink", 5)];
        assert_eq!(misreports.all(), [(r1, vec![("linkOfAnotherRouter", 1)]), (r2.clone(), of_r2)]);
        assert_eq!(misreports.total(), 7);
        misreports.forget(&r2);
        assert_eq!(misreports.total(), 1);
    }

    #[test]
    fn every_kind_has_a_place_of_its_own() {
        for (at, kind) in Misreport::VARIANTS.iter().enumerate() {
            assert_eq!(*kind as usize, at);
        }
    }
}
