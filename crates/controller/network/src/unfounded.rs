//! Terminators whose host has lost its right to host.
//!
//! The router of a terminator removes it when its host loses the right. A router may be late with
//! that, or never do it. Until the terminator is gone, dials are not led to it; a terminator that is
//! still there after `NetworkOptions::unfounded_life` is removed by the controller.
//!
//! A terminator that an administrator made has no host, and always counts as founded. It is not dialed either if its
//! service demands that both ends prove who they are.

use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use weft_model::access::{Posture, decide};
use weft_model::entity::{PolicyType, Service, Terminator};
use weft_model::{Id, Snapshot, Timestamp};

/// Most terminators that wait for their removal. A dial that meets more of them avoids them as well;
/// they are noted by a later dial.
const MOST: usize = 10_000;

/// Whether the host of a terminator may host its service.
///
/// The posture of a client that hosts is the concern of its session, and is not looked at here. A
/// router that hosts has no posture data, so its posture checks fail.
pub(crate) fn is_founded(snapshot: &Snapshot, terminator: &Terminator, now: Timestamp) -> bool {
    if !terminator.base.is_system {
        return true;
    }
    if lacks_proof(snapshot, terminator) {
        return false;
    }
    if terminator.host_id.is_empty() {
        return true;
    }
    let posture = match &*terminator.binding {
        "edge" => Posture::Ignored,
        _ => Posture::Unknown,
    };
    let (host, service) = (terminator.host_id.as_str(), terminator.service_id.as_str());
    decide(snapshot, host, service, PolicyType::Bind, posture, now).is_granted()
}

/// Whether the service demands that its ends prove themselves, and the host cannot.
pub fn lacks_proof(snapshot: &Snapshot, terminator: &Terminator) -> bool {
    !terminator.host_proves && demands_proof(snapshot, &terminator.service_id)
}

/// Whether the service demands that its ends prove themselves.
pub fn demands_proof(snapshot: &Snapshot, service: &Id) -> bool {
    snapshot.get::<Service>(service).is_some_and(|service| service.authenticated_ends)
}

/// Whether a dial may use a terminator: its host must have the right to host the service over this router. A terminator
/// at a router that the policies do not let the host use for the service is not removed: the router does not know these
/// policies, and would not make the terminator again after they have changed back.
pub(crate) fn may_be_dialed(snapshot: &Snapshot, terminator: &Terminator, now: Timestamp) -> bool {
    let (host, service) = (&terminator.host_id, &terminator.service_id);
    let needs_right = terminator.base.is_system && !host.is_empty();
    is_founded(snapshot, terminator, now)
        && !lacks_proof(snapshot, terminator)
        && (!needs_right || snapshot.is_router_usable(host, service, &terminator.router_id))
}

/// Unfounded terminators that dials have met, and the time of the first such dial.
#[derive(Debug, Default)]
pub(crate) struct Unfounded(Mutex<HashMap<Id, Instant>>);

impl Unfounded {
    pub(crate) fn note(&self, id: &Id, now: Instant) {
        let mut noted = self.0.lock();
        if noted.len() < MOST || noted.contains_key(id) {
            noted.entry_ref(id).or_insert(now);
        }
    }

    /// Takes the terminators that were noted at least so long ago.
    pub(crate) fn due(&self, now: Instant, life: Duration) -> Vec<Id> {
        let is_due = |_: &Id, since: &mut Instant| now.duration_since(*since) >= life;
        self.0.lock().extract_if(is_due).map(|(id, _)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Duration = Duration::from_secs(60);

    #[test]
    fn a_terminator_is_due_once_and_at_the_end_of_its_life() {
        let (unfounded, start) = (Unfounded::default(), Instant::now());
        unfounded.note(&Id::new("t"), start);
        unfounded.note(&Id::new("t"), start + LIFE / 2);
        assert!(unfounded.due(start + LIFE / 2, LIFE).is_empty());
        assert_eq!(unfounded.due(start + LIFE, LIFE), [Id::new("t")]);
        assert!(unfounded.due(start + LIFE, LIFE).is_empty());
    }

    #[test]
    fn noted_terminators_are_limited() {
        let (unfounded, start) = (Unfounded::default(), Instant::now());
        (0..=MOST).for_each(|at| unfounded.note(&Id::new(&format!("t{at}")), start));
        assert_eq!(unfounded.due(start + LIFE, LIFE).len(), MOST);
    }
}
