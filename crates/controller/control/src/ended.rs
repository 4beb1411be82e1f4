//! Ends circuits and terminators of service sessions that have ended
//! (docs/protocol/edge-control-plane.md 10.1).
//!
//! Routers from 2.0 on end them themselves when they hear of the end of the session; for older routers
//! the controller does. A router that was away, or too far behind, has missed the end. When all sessions
//! are sent to such a router again, the controller ends its circuits and terminators without session,
//! whatever its release.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use weft_auth::Auth;
use weft_kernel::{Caller, Result};
use weft_model::entity::{self, PolicyType, Terminator};
use weft_model::{Id, Kind};
use weft_network::circuits::Circuit;
use weft_network::terminators::{Refused, Terminators};

use super::session::RouterSession;

/// Binding of terminators of SDKs.
pub(super) const EDGE: &str = "edge";
/// Terminators removed in one change set.
const BATCH: usize = 100;
/// The wait before the next try if the change could not be written.
const RETRY: Duration = Duration::from_secs(5);

/// Whether a router is of a release before 2.0.
pub(super) fn is_old(session: &RouterSession) -> bool {
    session.router.release().is_some_and(|release| !release.at_least(2, 0, 0))
}

/// Ends circuits and terminators of ended service sessions at a router that does not do so itself.
pub(super) fn with_sessions(session: &RouterSession, ended: &[Arc<entity::ServiceSession>]) {
    if !is_old(session) {
        return;
    }
    let ids = ended.iter().map(|it| it.base.id.as_str()).collect();
    session.plane.network.end_circuits_of(&ids, &session.router.id);
    of_earlier_run(session, ended);
    if ended.iter().any(|it| it.session_type == PolicyType::Bind) {
        session.unfounded.notify_one();
    }
}

/// Ends circuits of an earlier run of this controller that may be of ended sessions. Routers do not
/// tell the session of a circuit, and those that only confirm circuits do not tell its identity
/// and its service either: then the circuit ends with the first session that ends and is older than
/// the controller's knowledge of the circuit. A circuit stays while the identity of the ended session
/// has another session for its service.
fn of_earlier_run(session: &RouterSession, ended: &[Arc<entity::ServiceSession>]) {
    let (network, router) = (&session.plane.network, &session.router.id);
    let sessions = session.plane.auth.sessions();
    let is_last = |it: &entity::ServiceSession| {
        it.session_type == PolicyType::Dial
            && !sessions.has_service(&it.identity_id, &it.service_id, PolicyType::Dial)
    };
    let ended: Vec<_> = ended.iter().filter(|it| is_last(it)).collect();
    if ended.is_empty() {
        return;
    }
    let mut circuits = network.circuits().at(router);
    circuits.retain(|it| {
        it.is_of_earlier_run()
            && (!it.has_ends() || it.path.first() == Some(router))
            && ended.iter().any(|session| may_be_of(it, session))
    });
    let count = circuits.iter().filter(|it| network.remove_circuit(&it.id, true)).count();
    if count > 0 {
        tracing::info!(%router, count, "circuits of before the start of the controller ended with their sessions");
    }
}

/// Whether a circuit may be of a session, by the identity and the service that routers told of it.
fn may_be_of(circuit: &Circuit, session: &entity::ServiceSession) -> bool {
    session.base.created_at <= circuit.created_at
        && circuit.dialer().is_none_or(|dialer| *dialer == *session.identity_id.as_str())
        && (circuit.service.is_empty() || circuit.service == session.service_id)
}

/// Ends circuits and terminators at the router whose service session does not exist.
pub(super) fn unheard(session: &RouterSession) {
    let (network, router) = (&session.plane.network, &session.router.id);
    let sessions = session.plane.auth.sessions();
    let dialed = network
        .circuits()
        .at(router)
        .into_iter()
        .filter(|it| it.is_of_session && it.path.first() == Some(router))
        .filter(|circuit| sessions.service(&circuit.client).is_none());
    let ended = dialed.filter(|circuit| network.remove_circuit(&circuit.id, true)).count();
    if ended > 0 {
        tracing::info!(%router, ended, "circuits ended, because the router had missed the end of their sessions");
    }
    session.unfounded.notify_one();
}

/// Removes terminators at the router without a bind session, whenever it is notified; never
/// returns.
pub(super) async fn remove_unfounded(session: &RouterSession) {
    loop {
        session.unfounded.notified().await;
        while let Err(problem) = try_remove_unfounded(session).await {
            tracing::warn!(
                router = %session.router.id, %problem,
                "terminators of ended sessions were not removed; it is tried again"
            );
            if !problem.is_busy() {
                break;
            }
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// Removes those terminators, and ends the circuits to them.
async fn try_remove_unfounded(session: &RouterSession) -> Result<(), Refused> {
    let (auth, router) = (&session.plane.auth, &session.router.id);
    // Their sessions may have begun elsewhere.
    while !auth.sessions().catch_up().await {
        tokio::time::sleep(RETRY).await;
    }
    let snapshot = auth.kernel().with_held();
    let own = snapshot.referring::<Terminator>(Terminator::ROUTER, router);
    // Sessions are known wherever they began, at controllers that share them.
    let may_stay = |it: &Terminator| match auth.is_member() {
        true => !is_of_session(it) || has_session(auth, it),
        false => is_founded(auth, it),
    };
    let unfounded = own.filter(|it| !may_stay(it));
    let unfounded: Vec<Arc<Terminator>> = unfounded.cloned().collect();
    for batch in unfounded.chunks(BATCH) {
        let ids: Vec<Id> = batch.iter().map(|it| it.base.id.clone()).collect();
        let seen: HashMap<Id, Arc<Terminator>> = ids.iter().cloned().zip(batch.to_vec()).collect();
        // The decision compares with the terminators seen before: one that has changed since is
        // left for another time.
        let pick = move |it: &Terminator| seen.get(&it.base.id).is_some_and(|seen| **seen == *it);
        let caller = Caller::own("terminators whose sessions have ended");
        Terminators::of(auth.kernel()).remove_if(caller, router, &ids, pick).await?;
        put_back(auth, batch).await?;
        let snapshot = auth.kernel().with_held();
        let removed = ids.iter().filter(|id| snapshot.get::<Terminator>(id).is_none());
        let removed: Vec<&Id> = removed.collect();
        tracing::info!(%router, count = removed.len(), "terminators of ended sessions were removed");
        removed.into_iter().for_each(|id| session.plane.network.end_circuits_to(id));
    }
    Ok(())
}

/// Puts terminators back whose host bound again before they were removed.
pub async fn put_back(auth: &Auth, removed: &[Arc<Terminator>]) -> Result<()> {
    let founded = removed.iter().filter(|it| is_founded(auth, it));
    let founded: Vec<Arc<Terminator>> = founded.cloned().collect();
    if founded.is_empty() {
        return Ok(());
    }
    let caller = Caller::own("terminators whose hosts are back");
    let done = auth.kernel().decide_or_hold(&caller, move |decision| {
        for terminator in &founded {
            let tip = decision.tip();
            let has_ends = tip.contains(Kind::Service, &terminator.service_id)
                && tip.contains(Kind::Router, &terminator.router_id);
            if has_ends && !tip.contains(Kind::Terminator, &terminator.base.id) {
                decision.put((**terminator).clone());
            }
        }
        Ok(())
    });
    done.await
}

/// Whether a terminator may stay: its service session exists, or this controller cannot know the
/// session, because the SDK may have bound through a controller with other sessions, or because the host is no
/// SDK.
pub(super) fn is_founded(auth: &Auth, terminator: &Terminator) -> bool {
    let is_bound_here =
        is_of_session(terminator) && *terminator.source_ctrl == *auth.kernel().settings().id;
    !is_bound_here || has_session(auth, terminator)
}

/// Whether an SDK has made a terminator in a service session.
fn is_of_session(terminator: &Terminator) -> bool {
    terminator.base.is_system && *terminator.binding == *EDGE
}

fn has_session(auth: &Auth, terminator: &Terminator) -> bool {
    let (host, service) = (&terminator.host_id, &terminator.service_id);
    auth.sessions().has_service(host, service, PolicyType::Bind)
}
