//! What routers reported that is not theirs to report. It is refused where it comes in; here it is
//! counted per router, and named in the log once in a while.
//!
//! Some of it is nobody's fault: a router that learns late that a link is gone. A count that grows is
//! a router that lies, or one whose state was restored from elsewhere.

use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use weft_model::Id;

use crate::clock;

/// Least time between two log lines about one router and one kind of report.
const QUIET: Duration = Duration::from_secs(300);
/// Longest text of a report that is shown, in characters.
const SHOWN: usize = 64;

/// What was reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misreport {
    /// A link whose id is that of another router's link.
    ForeignLink,
    /// A link to a router that does not exist.
    LinkToNobody,
    /// A link beyond those that one router may have.
    TooManyLinks,
    /// A link beyond those that two routers may have between them.
    TooManyParallel,
    /// A link with an id or a text that no link has.
    MalformedLink,
    /// A fault or a state of a link that does not end at the router.
    LinkFault,
    /// The end of a circuit that does not go over the router.
    CircuitFault,
    /// A circuit with an id that no circuit has.
    MalformedCircuit,
    /// The latency of a link that does not end at the router.
    Latency,
    /// More metrics than one router may have.
    TooManyMetrics,
    /// Bytes of a circuit that does not go over the router.
    Usage,
}

impl Misreport {
    const ALL: [Self; 11] = [
        Self::ForeignLink,
        Self::LinkToNobody,
        Self::TooManyLinks,
        Self::TooManyParallel,
        Self::MalformedLink,
        Self::LinkFault,
        Self::CircuitFault,
        Self::MalformedCircuit,
        Self::Latency,
        Self::TooManyMetrics,
        Self::Usage,
    ];

    /// Its name in inspections and logs.
    fn as_str(self) -> &'static str {
        match self {
            Self::ForeignLink => "linkOfAnotherRouter",
            Self::LinkToNobody => "linkToUnknownRouter",
            Self::TooManyLinks => "tooManyLinks",
            Self::TooManyParallel => "tooManyParallelLinks",
            Self::MalformedLink => "malformedLink",
            Self::LinkFault => "faultOfForeignLink",
            Self::CircuitFault => "faultOfForeignCircuit",
            Self::MalformedCircuit => "malformedCircuit",
            Self::Latency => "latencyOfForeignLink",
            Self::TooManyMetrics => "tooManyMetrics",
            Self::Usage => "usageOfForeignCircuit",
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    times: u64,
    /// How often it was when it was named last, and when that was.
    named: Option<(u64, Instant)>,
}

/// Counts by router. Only routers that exist connect, and those that are deleted are forgotten.
#[derive(Debug, Default)]
pub(crate) struct Misreports(Mutex<HashMap<Id, [Count; Misreport::ALL.len()]>>);

impl Misreports {
    /// A router reported something so often; `what` is named.
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
            tracing::warn!(%router, report, what, more, in_all, "report of a router refused: it is not the router's");
        }
    }

    /// What each router reported so far: names of reports and how often.
    pub(crate) fn all(&self) -> Vec<(Id, Vec<(&'static str, u64)>)> {
        let routers = self.0.lock();
        let mut all: Vec<_> = routers
            .iter()
            .map(|(router, counts)| {
                let kinds =
                    Misreport::ALL.iter().map(|kind| (kind.as_str(), counts[*kind as usize].times));
                (router.clone(), kinds.filter(|(_, times)| *times > 0).collect())
            })
            .collect();
        all.sort_unstable();
        all
    }

    /// How many there were in all.
    pub(crate) fn total(&self) -> u64 {
        self.0.lock().values().flatten().map(|count| count.times).sum()
    }

    /// A router was deleted.
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
        for (at, kind) in Misreport::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
        }
    }
}
