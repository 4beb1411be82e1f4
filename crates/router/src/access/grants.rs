//! The grants of this router, indexed by identity and by service. A change of an identity or of a
//! service therefore takes time in proportion to the grants that it concerns, however many other
//! grants there are.

use std::collections::{HashMap, HashSet};

use super::touched::Touched;
use crate::seam::Use;

/// A grant: identity, service and use.
pub(super) type Granted = (String, String, Use);

/// The grants of this router.
#[derive(Debug, Default)]
pub(super) struct Grants {
    by_identity: HashMap<String, HashSet<(String, Use)>>,
    by_service: HashMap<String, HashSet<(String, Use)>>,
}

impl Grants {
    pub(super) fn insert(&mut self, identity: &str, service: &str, purpose: Use) {
        let of_identity = self.by_identity.entry(identity.to_owned()).or_default();
        if of_identity.insert((service.to_owned(), purpose)) {
            let of_service = self.by_service.entry(service.to_owned()).or_default();
            of_service.insert((identity.to_owned(), purpose));
        }
    }

    /// Judges the grants again that a change may concern, and removes the grants that are no longer
    /// allowed.
    pub(super) fn judge_anew(
        &mut self,
        touched: &Touched,
        still: impl Fn(&str, &str, Use) -> bool,
    ) -> Vec<Granted> {
        let mut lost = Vec::new();
        let mut judge = |identity: &str, service: &str, purpose: Use| {
            if !still(identity, service, purpose) {
                lost.push((identity.to_owned(), service.to_owned(), purpose));
            }
        };
        if touched.all {
            for (identity, granted) in &self.by_identity {
                granted.iter().for_each(|(service, purpose)| judge(identity, service, *purpose));
            }
        } else {
            for identity in &touched.identities {
                let granted = self.by_identity.get(identity).into_iter().flatten();
                granted.for_each(|(service, purpose)| judge(identity, service, *purpose));
            }
            for service in &touched.services {
                let granted = self.by_service.get(service).into_iter().flatten();
                let others = granted.filter(|(identity, _)| !touched.identities.contains(identity));
                others.for_each(|(identity, purpose)| judge(identity, service, *purpose));
            }
        }
        for (identity, service, purpose) in &lost {
            take(&mut self.by_identity, identity, service, *purpose);
            take(&mut self.by_service, service, identity, *purpose);
        }
        lost
    }

    /// Removes the grants of an identity.
    pub(super) fn forget(&mut self, identity: &str) {
        for (service, purpose) in self.by_identity.remove(identity).into_iter().flatten() {
            take(&mut self.by_service, &service, identity, purpose);
        }
    }
}

fn take(from: &mut HashMap<String, HashSet<(String, Use)>>, key: &str, other: &str, purpose: Use) {
    if let Some(set) = from.get_mut(key) {
        set.remove(&(other.to_owned(), purpose));
        if set.is_empty() {
            from.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn touched(identities: &[&str], services: &[&str]) -> Touched {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Touched { identities: set(identities), services: set(services), ..Touched::default() }
    }

    #[test]
    fn only_what_a_change_touches_is_judged() {
        let mut grants = Grants::default();
        for identity in 0..100 {
            for service in 0..10 {
                grants.insert(&format!("i{identity}"), &format!("s{service}"), Use::Dial);
            }
        }
        grants.insert("i1", "s1", Use::Bind);
        let judged = Cell::new(0);
        let judge = |grants: &mut Grants, touched: &Touched, lost: &str| {
            judged.set(0);
            let still = |_: &str, service: &str, _: Use| {
                judged.set(judged.get() + 1);
                service != lost
            };
            (grants.judge_anew(touched, still).len(), judged.get())
        };
        assert_eq!(judge(&mut grants, &touched(&["i1"], &[]), ""), (0, 11));
        assert_eq!(judge(&mut grants, &touched(&["none"], &["none"]), ""), (0, 0));
        // Each of them once: 101 of the service, 9 more of the identity.
        assert_eq!(judge(&mut grants, &touched(&["i1"], &["s1"]), "s1"), (101, 110));
        assert_eq!(judge(&mut grants, &touched(&[], &["s1"]), ""), (0, 0), "they are gone");
        assert_eq!(judge(&mut grants, &Touched::all(), ""), (0, 900));
        (0..100).filter(|identity| *identity != 7).for_each(|it| grants.forget(&format!("i{it}")));
        grants.forget("none");
        assert_eq!(judge(&mut grants, &Touched::all(), ""), (0, 9));
        assert_eq!(grants.by_service.len(), 9);
    }
}
