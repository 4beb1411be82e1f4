//! How services are used: dials by terminator, bytes as routers report them.

use hashbrown::HashMap;
use parking_lot::Mutex;
use weft_metrics::usage::WAYS;
use weft_model::Id;

/// Pairs of service and terminator that are told apart.
const MAX_DIALED: usize = 50_000;
/// Services whose bytes are told apart.
const MAX_SERVICES: usize = 20_000;

/// Counts since the controller's start.
#[derive(Debug, Default)]
pub(super) struct Used(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    dials: HashMap<(Id, Id), Dials>,
    bytes: HashMap<Id, [u64; WAYS.len()]>,
}

/// Dials of one service at one terminator.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dials {
    /// Those that came to stand.
    pub(super) good: u64,
    /// Those that did not.
    pub(super) bad: u64,
}

impl Used {
    /// A dial came to stand, or did not.
    pub(super) fn dialed(&self, service: &Id, terminator: &Id, is_good: bool) {
        let inner = &mut *self.0.lock();
        let key = (service.clone(), terminator.clone());
        if inner.dials.len() >= MAX_DIALED && !inner.dials.contains_key(&key) {
            return;
        }
        let dials = inner.dials.entry(key).or_default();
        if is_good {
            dials.good += 1;
        } else {
            dials.bad += 1;
        }
    }

    /// Circuits of a service carried so much, by the names of [`WAYS`].
    pub(super) fn carried<'a>(&self, service: &Id, values: impl Iterator<Item = (&'a str, u64)>) {
        let inner = &mut *self.0.lock();
        if inner.bytes.len() >= MAX_SERVICES && !inner.bytes.contains_key(service) {
            return;
        }
        let bytes = inner.bytes.entry(service.clone()).or_default();
        for (name, more) in values {
            let at = WAYS.iter().position(|way| *way == name);
            if let Some(all) = at.and_then(|at| bytes.get_mut(at)) {
                *all = all.saturating_add(more);
            }
        }
    }

    /// Dials, by service and terminator.
    pub(super) fn dials(&self) -> Vec<((Id, Id), Dials)> {
        let inner = self.0.lock();
        inner.dials.iter().map(|(key, dials)| (key.clone(), *dials)).collect()
    }

    /// Bytes by service, in the order of [`WAYS`].
    pub(super) fn bytes(&self) -> Vec<(Id, [u64; WAYS.len()])> {
        let inner = self.0.lock();
        inner.bytes.iter().map(|(service, bytes)| (service.clone(), *bytes)).collect()
    }

    /// A terminator was deleted.
    pub(super) fn forget_terminator(&self, terminator: &Id) {
        self.0.lock().dials.retain(|(_, of), _| of != terminator);
    }

    /// Forgets services that are not there any more.
    pub(super) fn keep_services(&self, exists: impl Fn(&Id) -> bool) {
        let inner = &mut *self.0.lock();
        inner.bytes.retain(|service, _| exists(service));
        inner.dials.retain(|(service, _), _| exists(service));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dials_and_bytes_are_counted_and_forgotten() {
        let (used, s, t) = (Used::default(), Id::new("s"), Id::new("t"));
        used.dialed(&s, &t, true);
        used.dialed(&s, &t, true);
        used.dialed(&s, &t, false);
        assert_eq!(used.dials(), [((s.clone(), t.clone()), Dials { good: 2, bad: 1 })]);
        used.carried(&s, [("ingress.rx", 5), ("fabric.tx", 2), ("nothing", 9)].into_iter());
        used.carried(&s, [("ingress.rx", u64::MAX)].into_iter());
        assert_eq!(used.bytes(), [(s.clone(), [u64::MAX, 0, 0, 0, 0, 2])]);
        used.forget_terminator(&t);
        assert!(used.dials().is_empty());
        used.keep_services(|_| false);
        assert!(used.bytes().is_empty());
    }
}
