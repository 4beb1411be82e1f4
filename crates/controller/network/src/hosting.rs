//! Whether the host of a terminator may host its service.
//!
//! The router of a terminator removes it when its host loses the right. A router may be late with that, or never do it.
//! Until the terminator is gone, dials are not led to it; `standing` says when the controller removes it.
//!
//! A terminator that an administrator made has no host, and always counts as founded. It is not dialed either if its
//! service demands that both ends prove who they are.

use weft_model::access::{Posture, decide};
use weft_model::entity::{PolicyType, Service, Terminator};
use weft_model::{Id, Snapshot, Timestamp};

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
