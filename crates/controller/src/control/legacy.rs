//! Opaque API sessions, of which edge routers know only what they are told
//! (protocol: edge-control-plane 10).

use std::collections::HashSet;
use std::sync::Arc;

use weft_channel::{Lane, SendError};
use weft_model::Id;
use weft_model::entity::ApiSession;
use weft_wire::edge_ctrl::{
    self, ApiSessionAdded, ApiSessionHeartbeat, ApiSessionRemoved, ApiSessionUpdated,
    SessionRemoved, SyncState, ValidateSessionsRequest,
};
use weft_wire::{Message, ProtoBody, WireError};

use super::session::Session;
use crate::auth::resolve::is_complete;
use crate::auth::sessions::{Ended, LegacySession, SessionNotice, SessionSubscription};

/// Sessions in one message of a full state.
const PART: usize = 100;
/// Most tokens that a message of a router may name.
const MAX_NAMED: usize = 10_000;

/// Tells a router of all sessions, and then of every change, until its channel closes.
pub(crate) async fn feed(session: &Arc<Session>) {
    // Followed before they are listed, so that none is missed in between.
    let mut notices = session.plane.controller.sessions().subscribe();
    if full_state(session).await.is_err() {
        return;
    }
    while let Some(next) = next(session, &mut notices).await {
        let sent = match next {
            Next::Everything => full_state(session).await,
            Next::Notice(notice) => tell(session, notice).await,
        };
        match sent {
            Ok(()) => {}
            Err(SendError::Closed(_)) => return,
            Err(problem) => {
                tracing::warn!(router = %session.router.id, %problem, "sessions not sent, all are sent again");
                session.resync.notify_one();
            }
        }
    }
}

enum Next {
    Everything,
    Notice(SessionNotice),
}

async fn next(session: &Session, notices: &mut SessionSubscription) -> Option<Next> {
    tokio::select! {
        notice = notices.next() => match notice? {
            SessionNotice::Resync => Some(Next::Everything),
            notice => Some(Next::Notice(notice)),
        },
        () = session.resync.notified() => Some(Next::Everything),
    }
}

fn to_wire(session: LegacySession) -> edge_ctrl::ApiSession {
    edge_ctrl::ApiSession {
        token: session.token.to_string(),
        cert_fingerprints: session.fingerprints,
        id: session.id.to_string(),
        identity_id: session.identity.to_string(),
    }
}

/// All sessions in parts. There is always a last one, also without any session: a router that gets
/// it drops what it still holds from before.
async fn full_state(session: &Session) -> Result<(), SendError> {
    let controller = &session.plane.controller;
    let id = controller.ids().ordered(controller.now()).to_string();
    let sessions: Vec<_> = controller.legacy_sessions().into_iter().map(to_wire).collect();
    let count = sessions.len().div_ceil(PART).max(1);
    let mut sessions = sessions.into_iter();
    for sequence in 0..count {
        let api_sessions: Vec<_> = sessions.by_ref().take(PART).collect();
        let part = ApiSessionAdded { is_full_state: true, api_sessions };
        let is_last = sequence + 1 == count;
        let state = SyncState { id: id.clone(), is_last, sequence: sequence as u64 };
        session.router.channel.send(part.to_message_at(&state)).await?;
    }
    Ok(())
}

async fn tell(session: &Session, notice: SessionNotice) -> Result<(), SendError> {
    let channel = &session.router.channel;
    match notice {
        SessionNotice::Added(added) => {
            let Some(api_sessions) = shown(session, &added) else { return Ok(()) };
            let controller = &session.plane.controller;
            let id = controller.ids().ordered(controller.now()).to_string();
            let state = SyncState { id, is_last: true, sequence: 0 };
            let added = ApiSessionAdded { is_full_state: false, api_sessions };
            channel.send(added.to_message_at(&state)).await
        }
        SessionNotice::Updated(updated) => {
            let message = match shown(session, &updated) {
                Some(api_sessions) => ApiSessionUpdated { api_sessions }.to_synced_message(),
                // Something is asked of its client again: for routers it has ended.
                None => removed(&[Ended::of(&updated)]),
            };
            channel.send(message).await
        }
        SessionNotice::Removed(ended) => channel.send(removed(&ended)).await,
        SessionNotice::ServiceRemoved(ids) => {
            end_circuits(session, &ids);
            channel.send(removed_service_sessions(&ids)).await
        }
        SessionNotice::Resync => Ok(()),
    }
}

fn removed(ended: &[Ended]) -> Message {
    let removed = ApiSessionRemoved {
        tokens: ended.iter().map(|session| session.token.to_string()).collect(),
        ids: ended.iter().map(|session| session.id.to_string()).collect(),
    };
    removed.to_message()
}

/// A session as routers know it, if nothing more is asked of its client.
fn shown(session: &Session, changed: &ApiSession) -> Option<Vec<edge_ctrl::ApiSession>> {
    let controller = &session.plane.controller;
    is_complete(&controller.snapshot(), changed)
        .then(|| vec![to_wire(controller.legacy_session(changed))])
}

/// Both lists hold the ids: routers of each generation look at another one.
fn removed_service_sessions<T: ToString>(ids: &[T]) -> Message {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    SessionRemoved { tokens: ids.clone(), ids }.to_message()
}

/// Routers before 2.0 do not end what a service session made (protocol: edge-control-plane 10.1).
fn end_circuits(session: &Session, ids: &[Id]) {
    let is_old = session.router.release().is_some_and(|release| !release.at_least(2, 0, 0));
    if !is_old {
        return;
    }
    let ids: HashSet<&str> = ids.iter().map(Id::as_str).collect();
    session.plane.network.end_circuits(|client, nodes| {
        nodes.first() == Some(&session.router.id) && ids.contains(client)
    });
}

/// A router names sessions in use: that is activity, and their identities are connected.
pub(crate) fn on_heartbeat(session: &Session, message: &Message) -> Result<(), WireError> {
    let tokens = ApiSessionHeartbeat::from_message(message)?.tokens;
    let controller = &session.plane.controller;
    let now = controller.now();
    let mut unknown = Vec::new();
    for token in tokens.into_iter().take(MAX_NAMED) {
        match controller.sessions().touch_token(&token, now) {
            Some(known) => {
                let router = &session.router.id;
                controller.online().put_identity(&known.identity_id, router, true, now);
                session.connected.lock().insert(known.identity_id.clone());
            }
            None => unknown.push(token),
        }
    }
    if !unknown.is_empty() {
        let removed = ApiSessionRemoved { tokens: unknown, ids: Vec::new() };
        session.send(Lane::Default, removed.to_message());
    }
    Ok(())
}

/// A router asks which service sessions have ended.
pub(crate) fn on_validate(session: &Session, message: &Message) -> Result<(), WireError> {
    let asked = ValidateSessionsRequest::from_message(message)?.session_tokens;
    let sessions = session.plane.controller.sessions();
    let ended = asked.into_iter().take(MAX_NAMED).filter(|id| sessions.service(id).is_none());
    let ended: Vec<String> = ended.collect();
    if !ended.is_empty() {
        session.send(Lane::Default, removed_service_sessions(&ended));
    }
    Ok(())
}
