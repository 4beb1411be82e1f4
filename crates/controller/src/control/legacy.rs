//! Opaque API sessions, of which edge routers know only what they are told
//! (protocol: edge-control-plane 10).

use std::sync::Arc;

use tokio::sync::mpsc;
use weft_channel::{Lane, SendError};
use weft_model::entity::ApiSession;
use weft_wire::edge_ctrl::{
    self, ApiSessionAdded, ApiSessionHeartbeat, ApiSessionRemoved, ApiSessionUpdated,
    SessionRemoved, SyncState, ValidateSessionsRequest,
};
use weft_wire::{Message, ProtoBody, WireError};

use super::ended;
use super::session::Session;
use crate::auth::resolve::is_complete;
use crate::auth::sessions::{Ended, LegacySession, SessionNotice, SessionSubscription};

/// Sessions in one message of a full state.
const PART: usize = 100;
/// Ids of service sessions in one message.
const IDS: usize = 1_000;
/// Most ids of ended service sessions that wait for a router.
const UNSAID: usize = 100_000;
/// Most tokens that a message of a router may name.
const MAX_NAMED: usize = 10_000;

/// Tells a router of all sessions, and then of every change, until its channel closes. `asked` are
/// service sessions that the router asked about and that have ended.
pub(crate) async fn feed(session: &Arc<Session>, asked: mpsc::Receiver<Vec<String>>) {
    // Followed before they are listed, so that none is missed in between.
    let notices = session.plane.controller.sessions().subscribe();
    let mut feed = Feed { session, notices, asked, unsaid: Vec::new() };
    let mut next = Some(Next::Everything);
    while let Some(step) = next {
        match feed.say(step).await {
            Ok(()) => {}
            Err(SendError::Closed(_)) => return,
            Err(problem @ SendError::TooLarge { .. }) => {
                tracing::error!(router = %session.router.id, %problem, "sessions cannot be sent");
            }
            Err(problem) => {
                tracing::warn!(router = %session.router.id, %problem, "sessions not sent, all are sent again");
                session.resync.notify_one();
            }
        }
        next = feed.next().await;
    }
}

enum Next {
    Everything,
    Notice(SessionNotice),
    Ended(Vec<String>),
}

/// What one router is told of sessions.
struct Feed<'a> {
    session: &'a Session,
    notices: SessionSubscription,
    asked: mpsc::Receiver<Vec<String>>,
    /// Service sessions that have ended and of which the router was not told yet.
    unsaid: Vec<String>,
}

impl Feed<'_> {
    async fn next(&mut self) -> Option<Next> {
        tokio::select! {
            notice = self.notices.next() => match notice? {
                SessionNotice::Resync => Some(Next::Everything),
                notice => Some(Next::Notice(notice)),
            },
            Some(ended) = self.asked.recv() => Some(Next::Ended(ended)),
            () = self.session.resync.notified() => Some(Next::Everything),
        }
    }

    async fn say(&mut self, next: Next) -> Result<(), SendError> {
        match next {
            Next::Everything => {
                ended::unheard(self.session);
                self.say_ended().await?;
                full_state(self.session).await
            }
            Next::Ended(ids) => {
                self.unsaid.extend(ids);
                self.say_ended().await
            }
            Next::Notice(SessionNotice::ServiceRemoved(removed)) => {
                ended::with_sessions(self.session, &removed);
                self.unsaid.extend(removed.iter().map(|it| it.base.id.to_string()));
                self.say_ended().await
            }
            Next::Notice(notice) => tell(self.session, notice).await,
        }
    }

    /// Tells of the service sessions that have ended; what does not get through stays for later.
    async fn say_ended(&mut self) -> Result<(), SendError> {
        let over = self.unsaid.len().saturating_sub(UNSAID);
        self.unsaid.drain(..over);
        while !self.unsaid.is_empty() {
            let count = self.unsaid.len().min(IDS);
            let ids = self.unsaid[..count].to_vec();
            // Both lists hold the ids: routers of each generation look at another one.
            let removed = SessionRemoved { tokens: ids.clone(), ids };
            self.session.router.channel.send(removed.to_message()).await?;
            self.unsaid.drain(..count);
        }
        Ok(())
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
        SessionNotice::ServiceRemoved(_) | SessionNotice::Resync => Ok(()),
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

/// A router names sessions in use: that is activity, and their identities are connected.
pub(crate) fn on_heartbeat(session: &Session, message: &Message) -> Result<(), WireError> {
    let tokens = ApiSessionHeartbeat::from_message(message)?.tokens;
    let controller = &session.plane.controller;
    let now = controller.now();
    let mut unknown = Vec::new();
    for token in tokens.into_iter().take(MAX_NAMED) {
        match controller.sessions().touch_token(&token, now) {
            Some(known) => {
                session.put_identity(&known.identity_id, true);
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

/// A router asks which service sessions have ended. The answer follows what it is told anyway; if
/// too many answers wait it is told everything anew, upon which it asks again.
pub(crate) fn on_validate(session: &Session, message: &Message) -> Result<(), WireError> {
    let asked = ValidateSessionsRequest::from_message(message)?.session_tokens;
    let sessions = session.plane.controller.sessions();
    let ended = asked.into_iter().filter(|id| sessions.service(id).is_none());
    let ended: Vec<String> = ended.collect();
    if !ended.is_empty() && session.ended.try_send(ended).is_err() {
        session.resync.notify_one();
    }
    Ok(())
}
