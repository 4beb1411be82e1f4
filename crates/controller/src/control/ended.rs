//! What service sessions leave with a router when they end: circuits and terminators
//! (protocol: edge-control-plane 10.1).
//!
//! Routers from 2.0 end it by themselves when they hear of it; for older ones this is done here.
//! A router that was away, or too far behind, did not hear of it: whatever its generation, what
//! stands on a session that is gone is ended when it is told everything anew.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use weft_model::Id;
use weft_model::entity::{self, PolicyType, Terminator};

use super::session::Session;
use super::terminators::EDGE;

/// Terminators removed in one change.
const BATCH: usize = 100;

/// Service sessions have ended, and the router does not end by itself what they made.
pub(super) fn with_sessions(session: &Session, ended: &[Arc<entity::Session>]) {
    let is_old = session.router.release().is_some_and(|release| !release.at_least(2, 0, 0));
    if !is_old {
        return;
    }
    let ids: HashSet<&str> = ended.iter().map(|it| it.base.id.as_str()).collect();
    session.plane.network.end_circuits(|client, nodes| {
        nodes.first() == Some(&session.router.id) && ids.contains(client)
    });
    let binds = ended.iter().filter(|it| it.session_type == PolicyType::Bind);
    let hosted: BTreeSet<_> = binds.map(|it| (&it.identity_id, &it.service_id)).collect();
    if !hosted.is_empty() {
        remove_unfounded(session, |it| hosted.contains(&(&it.host_id, &it.service_id)));
    }
}

/// Ends what stands at the router on service sessions that are gone.
pub(super) fn unheard(session: &Session) {
    let (network, router) = (&session.plane.network, &session.router.id);
    let sessions = session.plane.controller.sessions();
    let dialed = network
        .circuits()
        .matching(|it| it.is_of_session && it.path.first() == Some(router))
        .into_iter()
        .filter(|circuit| sessions.service(&circuit.client).is_none());
    let ended = dialed.filter(|circuit| network.remove_circuit(&circuit.id, true)).count();
    if ended > 0 {
        tracing::info!(%router, ended, "circuits ended whose sessions ended unheard");
    }
    remove_unfounded(session, |_| true);
}

/// Removes those of the picked terminators for which no bind session stands any more, with the
/// circuits to them.
fn remove_unfounded(session: &Session, pick: impl Fn(&Terminator) -> bool) {
    let (snapshot, router) = (session.plane.controller.snapshot(), session.router.id.clone());
    let own = snapshot.referring::<Terminator>(Terminator::ROUTER, &router);
    let unfounded = own.filter(|it| pick(it) && !is_founded(session, it));
    let ids: Vec<Id> = unfounded.map(|it| it.base.id.clone()).collect();
    if ids.is_empty() {
        return;
    }
    tracing::info!(%router, count = ids.len(), "removing terminators whose sessions have ended");
    let network = session.plane.network.clone();
    session.plane.network.spawn(async move {
        for batch in ids.chunks(BATCH) {
            let done = network.controller().remove_terminators(&router, batch).await;
            if let Err(problem) = done {
                tracing::warn!(%router, %problem, "terminators whose sessions have ended not removed");
            }
        }
        let ids: HashSet<Id> = ids.into_iter().collect();
        network.remove_circuits_where(|circuit| ids.contains(&circuit.terminator));
    });
}

/// Whether a terminator stands on a session, or on none that this controller would know of: one
/// that an SDK bound through another controller, or that is no SDK's.
pub(super) fn is_founded(session: &Session, terminator: &Terminator) -> bool {
    let controller = &session.plane.controller;
    let is_bound_here = terminator.base.is_system
        && *terminator.binding == *EDGE
        && *terminator.source_ctrl == *controller.settings().id;
    !is_bound_here
        || controller.sessions().has_service(
            &terminator.host_id,
            &terminator.service_id,
            PolicyType::Bind,
        )
}
