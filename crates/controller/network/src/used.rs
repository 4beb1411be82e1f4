//! The use of services and terminators: dials, and bytes that routers report.

use hashbrown::HashMap;
use parking_lot::Mutex;
use weft_metrics::usage::{USAGE_DIRECTIONS, UsageDirection};
use weft_model::Id;

/// Most pairs of service and terminator that are counted separately.
const MAX_DIALED: usize = 50_000;
/// Most services whose bytes are counted separately.
const MAX_SERVICES: usize = 20_000;
/// Most terminators whose bytes are counted separately.
const MAX_TERMINATORS: usize = 50_000;
/// The ways that are counted for a terminator: data from its host, and to its host.
pub(super) const OF_HOST: [UsageDirection; 2] =
    [UsageDirection::EgressRx, UsageDirection::EgressTx];
/// Most bytes that a circuit can carry one way in a minute: some 146 Gbit/s.
const MOST_IN_A_MINUTE: u64 = 1 << 40;
/// Longest interval of a report, in minutes.
const LONGEST: u64 = 60;

/// Counts since the controller's start.
#[derive(Debug, Default)]
pub(crate) struct UseCounts(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Dials by terminator, then by service.
    dials: HashMap<Id, HashMap<Id, Dials>>,
    /// Number of these pairs.
    pairs: usize,
    bytes: HashMap<Id, [u64; USAGE_DIRECTIONS.len()]>,
    /// Bytes by terminator, in the order of [`OF_HOST`].
    to: HashMap<Id, [u64; OF_HOST.len()]>,
}

/// Dials of one service at one terminator.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dials {
    /// Dials that succeeded.
    pub(crate) good: u64,
    /// Dials that failed.
    pub(crate) bad: u64,
}

/// Whether a circuit can carry so many bytes one way in so many seconds.
pub(super) fn is_possible(bytes: u64, seconds: u64) -> bool {
    bytes <= MOST_IN_A_MINUTE * seconds.div_ceil(60).clamp(1, LONGEST)
}

impl UseCounts {
    /// Counts a dial.
    pub(crate) fn dialed(&self, service: &Id, terminator: &Id, is_good: bool) {
        let inner = &mut *self.0.lock();
        let known = inner.dials.get_mut(terminator).and_then(|of| of.get_mut(service));
        let dials = match known {
            Some(known) => known,
            None if inner.pairs >= MAX_DIALED => return,
            None => {
                inner.pairs += 1;
                inner
                    .dials
                    .entry(terminator.clone())
                    .or_default()
                    .entry(service.clone())
                    .or_default()
            }
        };
        if is_good {
            dials.good += 1;
        } else {
            dials.bad += 1;
        }
    }

    /// Counts bytes of circuits of a service, by the names of [`USAGE_DIRECTIONS`].
    pub(crate) fn carried<'a>(&self, service: &Id, values: impl Iterator<Item = (&'a str, u64)>) {
        let inner = &mut *self.0.lock();
        if inner.bytes.len() >= MAX_SERVICES && !inner.bytes.contains_key(service) {
            return;
        }
        let bytes = inner.bytes.entry(service.clone()).or_default();
        for (name, more) in values {
            let at = USAGE_DIRECTIONS.iter().position(|direction| *direction == name);
            if let Some(all) = at.and_then(|at| bytes.get_mut(at)) {
                // Charts can deal with a counter that begins again at 0, and not with one that
                // stands still.
                *all = all.wrapping_add(more);
            }
        }
    }

    /// Counts bytes of circuits to a terminator, by the names of [`USAGE_DIRECTIONS`]; those between its host
    /// and the router count.
    pub(crate) fn carried_to<'a>(
        &self,
        terminator: &Id,
        values: impl Iterator<Item = (&'a str, u64)>,
    ) {
        let inner = &mut *self.0.lock();
        for (name, more) in values {
            let is_it = |direction: &UsageDirection| {
                USAGE_DIRECTIONS.get(*direction as usize) == Some(&name)
            };
            let Some(at) = OF_HOST.iter().position(is_it) else { continue };
            if inner.to.len() >= MAX_TERMINATORS && !inner.to.contains_key(terminator) {
                return;
            }
            let bytes = inner.to.entry(terminator.clone()).or_default();
            if let Some(all) = bytes.get_mut(at) {
                *all = all.wrapping_add(more);
            }
        }
    }

    /// Dials, by service and terminator.
    pub(crate) fn dials(&self) -> Vec<((Id, Id), Dials)> {
        let inner = self.0.lock();
        let pairs = inner.dials.iter().flat_map(|(terminator, of)| {
            of.iter().map(|(service, dials)| ((service.clone(), terminator.clone()), *dials))
        });
        pairs.collect()
    }

    /// Bytes by service, in the order of [`USAGE_DIRECTIONS`].
    pub(crate) fn bytes(&self) -> Vec<(Id, [u64; USAGE_DIRECTIONS.len()])> {
        let inner = self.0.lock();
        inner.bytes.iter().map(|(service, bytes)| (service.clone(), *bytes)).collect()
    }

    /// Bytes by terminator, in the order of [`OF_HOST`].
    pub(crate) fn bytes_to(&self) -> Vec<(Id, [u64; OF_HOST.len()])> {
        let inner = self.0.lock();
        inner.to.iter().map(|(terminator, bytes)| (terminator.clone(), *bytes)).collect()
    }

    /// Removes the counts of a deleted terminator.
    pub(super) fn forget_terminator(&self, terminator: &Id) {
        let inner = &mut *self.0.lock();
        inner.pairs -= inner.dials.remove(terminator).map_or(0, |of| of.len());
        inner.to.remove(terminator);
    }

    /// Removes the counts of services and terminators that do not exist any more.
    pub(crate) fn keep(
        &self,
        is_service: impl Fn(&Id) -> bool,
        is_terminator: impl Fn(&Id) -> bool,
    ) {
        let inner = &mut *self.0.lock();
        inner.bytes.retain(|service, _| is_service(service));
        inner.to.retain(|terminator, _| is_terminator(terminator));
        inner.dials.retain(|terminator, of| {
            of.retain(|service, _| is_service(service));
            !of.is_empty() && is_terminator(terminator)
        });
        inner.pairs = inner.dials.values().map(HashMap::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dials_and_bytes_are_counted_and_forgotten() {
        let (used, s, t) = (UseCounts::default(), Id::new("s"), Id::new("t"));
        used.dialed(&s, &t, true);
        used.dialed(&s, &t, true);
        used.dialed(&s, &t, false);
        assert_eq!(used.dials(), [((s.clone(), t.clone()), Dials { good: 2, bad: 1 })]);
        used.carried(&s, [("ingress.rx", 5), ("fabric.tx", 2), ("nothing", 9)].into_iter());
        used.carried(&s, [("ingress.rx", u64::MAX)].into_iter());
        assert_eq!(used.bytes(), [(s.clone(), [4, 0, 0, 0, 0, 2])], "it begins anew");
        used.carried_to(&t, [("egress.tx", 7), ("ingress.rx", 5), ("nothing", 9)].into_iter());
        assert_eq!(used.bytes_to(), [(t.clone(), [0, 7])]);
        used.forget_terminator(&t);
        assert!(used.dials().is_empty() && used.bytes_to().is_empty());
        used.keep(|_| false, |_| true);
        assert!(used.bytes().is_empty());
    }

    #[test]
    fn pairs_are_bounded_and_those_that_are_gone_make_room() {
        let (used, s) = (UseCounts::default(), Id::new("s"));
        let terminator = |at: usize| Id::new(&format!("t{at}"));
        for at in 0..MAX_DIALED + 1 {
            used.dialed(&s, &terminator(at), true);
        }
        let last = terminator(MAX_DIALED);
        let is_known = |used: &UseCounts, id: &Id| used.dials().iter().any(|((_, of), _)| of == id);
        assert!(used.dials().len() == MAX_DIALED && !is_known(&used, &last));
        used.forget_terminator(&terminator(0));
        used.dialed(&s, &last, true);
        assert!(is_known(&used, &last));
        // Counts of a terminator whose deletion was missed are removed by the next `keep`.
        used.keep(|_| true, |id| *id == last);
        assert_eq!(used.dials().len(), 1);
        used.dialed(&s, &terminator(1), true);
        assert_eq!(used.dials().len(), 2);
    }

    #[test]
    fn terminators_whose_bytes_count_are_bounded() {
        let used = UseCounts::default();
        let terminator = |at: usize| Id::new(&format!("t{at}"));
        let carry = |at| used.carried_to(&terminator(at), [("egress.rx", 1)].into_iter());
        (0..MAX_TERMINATORS + 1).for_each(carry);
        assert_eq!(used.bytes_to().len(), MAX_TERMINATORS);
        used.keep(|_| true, |id| *id == terminator(0));
        carry(MAX_TERMINATORS);
        assert_eq!(used.bytes_to().len(), 2);
    }

    #[test]
    fn more_than_a_line_can_carry_is_impossible() {
        assert!(is_possible(0, 0) && is_possible(MOST_IN_A_MINUTE, 60));
        assert!(!is_possible(MOST_IN_A_MINUTE + 1, 60) && is_possible(MOST_IN_A_MINUTE + 1, 61));
        assert!(!is_possible(u64::MAX, u64::MAX));
    }
}
