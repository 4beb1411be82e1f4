//! The circuits in the making to each host, for each router of dialers.
//!
//! A host that does not answer keeps a circuit in the making until the time for its dial is over. Circuits to it
//! therefore have a share of the places of a router: others are made in the rest.

use hashbrown::HashMap;
use parking_lot::Mutex;
use weft_model::Id;
use weft_model::entity::Terminator;

/// Most circuits of one router in the making at the same time.
pub const AT_ONCE: usize = 1024;
/// Most of them that one identity dials: a dial to a host that does not answer takes seconds.
pub const BY_ONE: usize = AT_ONCE / 2;
/// Most of them to the terminators of one identity.
const TO_ONE: usize = AT_ONCE / 4;

/// The circuits in the making by router of the dialer and host.
#[derive(Debug, Default)]
pub(crate) struct Hosts(Mutex<HashMap<(Id, Id), usize>>);

/// The place of a circuit among those to its host. Given back when dropped.
#[derive(Debug)]
pub(super) struct ToHost<'h> {
    hosts: &'h Hosts,
    key: (Id, Id),
}

impl Hosts {
    /// A place for a circuit from a router to a terminator; none if its host has its share. A terminator without a host
    /// counts by itself.
    pub(super) fn take(&self, router: &Id, to: &Terminator) -> Option<ToHost<'_>> {
        let host = if to.host_id.is_empty() { &to.base.id } else { &to.host_id };
        let key = (router.clone(), host.clone());
        let mut counts = self.0.lock();
        match counts.get_mut(&key) {
            Some(count) if *count >= TO_ONE => return None,
            Some(count) => *count += 1,
            None => drop(counts.insert(key.clone(), 1)),
        }
        Some(ToHost { hosts: self, key })
    }
}

impl Drop for ToHost<'_> {
    fn drop(&mut self) {
        let mut counts = self.hosts.0.lock();
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_model::{Base, Timestamp};

    #[test]
    fn a_host_has_a_quarter_of_the_places_of_a_router_and_is_forgotten() {
        let terminator = |id: &str, host: &str| {
            let base = Base::new(Id::new(id), Timestamp(0));
            Terminator { base, host_id: Id::new(host), ..Terminator::default() }
        };
        let (hosts, near, far) = (Hosts::default(), Id::new("near"), Id::new("far"));
        let (one, other) = (terminator("t1", "bad"), terminator("t2", "bad"));
        let of = |n: usize| if n.is_multiple_of(2) { &one } else { &other };
        let held: Vec<_> = (0..600).map_while(|n| hosts.take(&near, of(n))).collect();
        assert_eq!(held.len(), 256);
        assert!(hosts.take(&near, &terminator("t3", "good")).is_some());
        assert!(hosts.take(&near, &terminator("t1", "")).is_some());
        assert!(hosts.take(&far, &one).is_some(), "each router has places of its own");
        drop(held);
        assert!(hosts.take(&near, &one).is_some());
        assert!(hosts.0.lock().is_empty());
    }
}
