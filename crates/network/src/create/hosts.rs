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
/// Most of these that one identity dials: it keeps no other from the host.
const TO_ONE_BY_ONE: usize = TO_ONE / 2;

/// The router of the dialer and the host, and the dialing identity for its part of these circuits.
type Key = (Id, Id, Option<Id>);

/// The circuits in the making by router of the dialer and host, of all dialers and of each.
#[derive(Debug, Default)]
pub(crate) struct Hosts(Mutex<HashMap<Key, usize>>);

/// The place of a circuit among those to its host. Given back when dropped.
#[derive(Debug)]
pub(super) struct ToHost<'h> {
    hosts: &'h Hosts,
    keys: [Key; 2],
}

impl Hosts {
    /// A place for a circuit of a dialing identity from a router to a terminator; none if its host, or the dialer at this
    /// host, has its share. A terminator without a host counts by itself.
    pub(super) fn take(
        &self,
        router: &Id,
        to: &Terminator,
        dialer: Option<&Id>,
    ) -> Option<ToHost<'_>> {
        let host = if to.host_id.is_empty() { &to.base.id } else { &to.host_id };
        let key = |dialer| (router.clone(), host.clone(), dialer);
        // Dials without an identity are those of routers' own bindings: they count as one dialer's.
        let keys = [key(None), key(Some(dialer.cloned().unwrap_or_default()))];
        let mut counts = self.0.lock();
        let has_room = |key: &Key, most| counts.get(key).is_none_or(|count| *count < most);
        if !has_room(&keys[0], TO_ONE) || !has_room(&keys[1], TO_ONE_BY_ONE) {
            return None;
        }
        for key in &keys {
            *counts.entry(key.clone()).or_insert(0) += 1;
        }
        Some(ToHost { hosts: self, keys })
    }
}

impl Drop for ToHost<'_> {
    fn drop(&mut self) {
        let mut counts = self.hosts.0.lock();
        for key in &self.keys {
            if let Some(count) = counts.get_mut(key) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(key);
                }
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
        let [alice, bob, carol] = ["alice", "bob", "carol"].map(Id::new);
        let all = |by: &Id| -> Vec<_> {
            (0..600).map_while(|n| hosts.take(&near, of(n), Some(by))).collect()
        };
        let held = all(&alice);
        assert_eq!(held.len(), 128, "one dialer leaves half to the others");
        let others = [all(&bob), all(&carol)];
        assert_eq!(others.each_ref().map(Vec::len), [128, 0]);
        assert!(hosts.take(&near, &terminator("t3", "good"), Some(&alice)).is_some());
        assert!(hosts.take(&near, &terminator("t1", ""), None).is_some());
        assert!(
            hosts.take(&far, &one, Some(&alice)).is_some(),
            "each router has places of its own"
        );
        drop((held, others));
        assert!(hosts.take(&near, &one, Some(&carol)).is_some());
        assert!(hosts.0.lock().is_empty());
    }
}
