//! Applies changes of the model to sessions.

use std::sync::Arc;

use weft_kernel::Notice;
use weft_kernel::events::EndCause;
use weft_model::entity::{
    ApiSession, AuthPolicy, Authenticator, Ca, ExtJwtSigner, Identity, Service,
};
use weft_model::{Change, Entity, Id, Kind, Snapshot, Timestamp};

use super::{SessionNotice, Sessions, stands};
use crate::factors::{is_complete, rests_on};
use crate::handle::{Auth, WeakAuth};
use crate::sessions::stands::VIRTUAL;

/// Ends sessions after changes of the model: identities deleted or disabled; authenticators or CAs
/// of logins deleted or changed; methods forbidden; services deleted. Sends notices about
/// certificates that were added or removed.
pub(crate) async fn follow_model(weak: WeakAuth) {
    let Some((_, mut subscription)) = weak.upgrade().map(|auth| auth.kernel().subscribe()) else {
        return;
    };
    while let Some(notice) = subscription.next().await {
        let Some(auth) = weak.upgrade() else { return };
        let (sessions, now) = (auth.sessions(), auth.kernel().now());
        match notice {
            Notice::Resync(_) => {
                auth.service_changes().everybody(now);
                let is_certain = is_certain(&auth, CERTAIN).await;
                resync_aside(&auth, now, is_certain).await;
            }
            Notice::Change(published) => {
                auth.service_changes().follow(&published, now);
                auth.follow_members(&published.before, &published.after, &published.changes);
                let changes = || published.changes.iter().flat_map(|set| &set.changes);
                let is_asked = auth.is_member() && changes().any(rests_on_more);
                let is_certain = !is_asked || is_certain(&auth, 1).await;
                for change in changes() {
                    let at = (&published.before, &published.after);
                    if may_end_many(change) {
                        follow_aside(&auth, at, change, (now, is_certain)).await;
                    } else {
                        let present = auth.kernel().snapshot();
                        follow(sessions, (at.0, at.1), &present, change, (now, is_certain));
                    }
                    if let Change::Delete(Kind::Identity | Kind::Router, id) = change {
                        auth.kernel().online().forget(id.as_str());
                        auth.postures().forget(id);
                    }
                }
                if !is_certain {
                    sessions.judge_soon(now);
                }
                let touched = sessions.services_touched(&published);
                auth.end_ungranted(&auth.kernel().snapshot(), &touched);
            }
        }
    }
}

/// Most questions to etcd after changes of the model were missed, before sessions are judged later.
const CERTAIN: u32 = 5;

/// Whether this controller knows what others have done to sessions, and the entities on which sessions depend. It asks etcd
/// `tries` times at most.
async fn is_certain(auth: &Auth, tries: u32) -> bool {
    for _ in 0..tries {
        if auth.knows_latest().await {
            return true;
        }
    }
    false
}

/// Whether sessions of many identities may end by a change.
fn may_end_many(change: &Change) -> bool {
    matches!(change.kind(), Kind::AuthPolicy | Kind::Ca | Kind::ExtJwtSigner)
}

/// Whether sessions are judged anew after a change. A session may depend on a later change of the model, which comes to a
/// controller of several by another way than the session.
fn rests_on_more(change: &Change) -> bool {
    match change {
        Change::Delete(..) => false,
        Change::Put(entity) => matches!(
            entity.kind(),
            Kind::Identity | Kind::AuthPolicy | Kind::Authenticator | Kind::Ca | Kind::ExtJwtSigner
        ),
        Change::Cold { .. } => false,
    }
}

/// Follows a change by which many sessions may end: to judge and end 100,000 takes a second, in which the threads of the
/// APIs go on.
async fn follow_aside(
    auth: &Auth,
    (before, after): (&Arc<Snapshot>, &Arc<Snapshot>),
    change: &Change,
    now: (Timestamp, bool),
) {
    let (sessions, change) = (auth.sessions().clone(), change.clone());
    let (before, after) = (Arc::clone(before), Arc::clone(after));
    let kernel = auth.kernel().clone();
    let work = move || follow(&sessions, (&before, &after), &kernel.snapshot(), &change, now);
    if let Err(error) = tokio::task::spawn_blocking(work).await {
        tracing::error!(%error, "sessions that a change ends may go on; restart the controller, which judges all sessions");
    }
}

/// Judges all sessions anew, in which the threads of the APIs go on.
async fn resync_aside(auth: &Auth, now: Timestamp, is_certain: bool) {
    let auth = auth.clone();
    let work = move || {
        let snapshot = auth.kernel().snapshot();
        match is_certain {
            true => {
                resync(auth.sessions(), &snapshot, now);
                let all = auth.sessions().all_services();
                auth.end_ungranted(&snapshot, &all);
            }
            false => {
                let is_disabled = |session: &ApiSession| {
                    let identity = snapshot.get::<Identity>(&session.identity_id);
                    identity.is_some_and(|identity| identity.is_disabled(now))
                };
                auth.sessions().retain(&EndCause::Other, |session| !is_disabled(session));
                auth.sessions().tell(SessionNotice::Resync);
                auth.sessions().judge_soon(now);
            }
        }
        forget_deleted(&auth);
    };
    if let Err(error) = tokio::task::spawn_blocking(work).await {
        tracing::error!(%error, "sessions that changes end may go on; restart the controller, which judges all sessions");
    }
}

fn resync(sessions: &Sessions, snapshot: &Snapshot, now: Timestamp) {
    sessions.retain(&EndCause::Other, |session| stands(snapshot, session, now));
    let lost = sessions.all_services().into_iter();
    let lost = lost.filter(|it| snapshot.get::<Service>(&it.service_id).is_none());
    sessions.remove_services(&lost.map(|it| it.base.id.clone()).collect::<Vec<_>>());
    sessions.tell(SessionNotice::Resync);
}

/// Forgets the state of identities and routers whose deletion was in a lost batch. The present
/// snapshot is asked, because there may already be state of identities that are newer than the
/// snapshot of the notice.
fn forget_deleted(auth: &Auth) {
    let is_identity = |id: &Id| auth.kernel().snapshot().contains(Kind::Identity, id);
    let is_router = |id: &Id| auth.kernel().snapshot().contains(Kind::Router, id);
    auth.kernel().online().retain(is_identity, is_router);
    auth.postures().retain(is_identity, |_| true, |_| true);
    for identity in auth.sessions().all_told().iter().filter(|id| !is_identity(id)) {
        auth.sessions().forget(identity);
    }
}

/// Follows a change. Sessions are judged by the `present` snapshot: a change may be followed late, and sessions may have
/// begun meanwhile that rest on later changes. Unless it is certain that the snapshot has all that sessions rest on, they are
/// judged later.
fn follow(
    sessions: &Sessions,
    (before, after): (&Snapshot, &Snapshot),
    present: &Snapshot,
    change: &Change,
    (now, is_certain): (Timestamp, bool),
) {
    let holds = |session: &ApiSession| !is_certain || stands(present, session, now);
    let cause = EndCause::Change(change.kind(), change.id().clone());
    match change {
        Change::Delete(Kind::Identity, id) => {
            sessions.end_of_identity(id);
            sessions.forget(id);
        }
        Change::Delete(Kind::Service, id) => {
            let of = sessions.services_for(id);
            sessions.remove_services(&of.iter().map(|it| it.base.id.clone()).collect::<Vec<_>>());
        }
        Change::Put(Entity::Identity(identity)) if identity.is_disabled(now) => {
            sessions.end_of_identity(&identity.base.id);
        }
        Change::Put(Entity::Identity(identity)) => {
            let Some(old) = before.get::<Identity>(&identity.base.id) else {
                // It may have logged in already, at a controller that has known it for a moment longer.
                return sessions.changed_around(&identity.base.id);
            };
            let is_anew = old.auth_policy_id != identity.auth_policy_id;
            if is_anew
                || old.external_id != identity.external_id
                || old.enrolled_by != identity.enrolled_by
            {
                sessions.end_where(&identity.base.id, |it| !holds(it));
            }
            if is_anew {
                let own = sessions.of_identity(&identity.base.id);
                sessions.asked_anew(before, after, &own, &cause);
            }
        }
        Change::Put(Entity::AuthPolicy(policy)) => {
            let Some(old) = before.get::<AuthPolicy>(&policy.base.id) else { return };
            let rules = |it: &AuthPolicy| (it.cert.clone(), it.updb.clone(), it.ext_jwt.clone());
            if rules(old) != rules(policy) {
                sessions.retain(&cause, |session| holds(session));
            }
            if old.secondary != policy.secondary {
                sessions.asked_anew(before, after, &sessions.all(), &cause);
            }
        }
        Change::Put(Entity::Authenticator(authenticator)) => {
            let fingerprint = |it: &Authenticator| Some(Arc::clone(&it.cert.as_ref()?.fingerprint));
            let key = |it: &Authenticator| Some(it.cert.as_ref()?.public_key_print.clone());
            let old = before.get::<Authenticator>(&authenticator.base.id);
            if old
                .is_some_and(|old| old.updb != authenticator.updb || key(old) != key(authenticator))
            {
                sessions.end_where(&authenticator.identity_id, |it| !holds(it));
            }
            if old.is_none_or(|old| fingerprint(old) != fingerprint(authenticator)) {
                sessions.changed_around(&authenticator.identity_id);
            }
        }
        Change::Delete(Kind::Authenticator, id) => {
            let gone = before.get::<Authenticator>(id).map(|gone| &gone.identity_id);
            if let Some(identity) = gone.filter(|id| after.get::<Identity>(id).is_some()) {
                sessions.end_where(identity, |session| session.authenticator_id == *id);
                sessions.changed_around(identity);
            }
        }
        Change::Put(Entity::Ca(ca)) => {
            let Some(old) = before.get::<Ca>(&ca.base.id) else { return };
            let claims_anew = old.external_id_claim != ca.external_id_claim;
            sessions.retain(&cause, |session| {
                let is_its_own = session.ca_id.as_ref() == Some(&ca.base.id);
                let is_older = session.base.created_at <= ca.base.updated_at;
                let is_claimed = claims_anew && is_older && session.authenticator_id == VIRTUAL;
                !is_its_own || (!is_claimed && holds(session))
            });
        }
        Change::Put(Entity::ExtJwtSigner(signer)) => {
            let id = &signer.base.id;
            let Some(old) = before.get::<ExtJwtSigner>(id) else { return };
            sessions.retain(&cause, |session| !is_of_signer(session, id) || holds(session));
            let is_same = old.enabled == signer.enabled && names_alike(old, signer);
            if !is_same {
                sessions.second_factor_ended(id, &cause, now);
            }
        }
        Change::Delete(Kind::ExtJwtSigner, id) => {
            sessions.retain(&cause, |session| !is_of_signer(session, id));
            sessions.second_factor_ended(id, &cause, now);
        }
        Change::Delete(Kind::Ca, id) => {
            sessions.retain(&cause, |session| session.ca_id.as_ref() != Some(id));
        }
        _ => {}
    }
}

/// Whether the same tokens name the same identities by both states of a signer.
fn names_alike(one: &ExtJwtSigner, other: &ExtJwtSigner) -> bool {
    let rules = |it: &ExtJwtSigner| {
        let keys = (it.fingerprint.clone(), it.kid.clone(), it.jwks_endpoint.clone());
        let names = (it.claims_property.clone(), it.use_external_id);
        (it.issuer.clone(), it.audience.clone(), keys, names)
    };
    rules(one) == rules(other)
}

/// Whether a session began with a token of a signer.
fn is_of_signer(session: &ApiSession, signer: &Id) -> bool {
    session.external.signer_id.as_ref() == Some(signer)
}

impl Sessions {
    /// Sends notices about the sessions of an identity after a change outside of the sessions: the
    /// identity's certificates, or the factors that it needs.
    pub(crate) fn changed_around(&self, identity: &Id) {
        let tables = self.0.tables.read();
        let sessions = tables.of_identity(identity).into_iter();
        sessions.for_each(|session| self.tell(SessionNotice::Updated(session)));
    }

    /// Handles a change of required factors: routers are told of sessions that are complete now,
    /// and of those that are not any more.
    fn asked_anew(
        &self,
        before: &Snapshot,
        after: &Snapshot,
        sessions: &[Arc<ApiSession>],
        cause: &EndCause,
    ) {
        for session in sessions {
            match (is_complete(before, session), is_complete(after, session)) {
                (false, true) => self.completed(&session.base.id),
                (true, false) => self.updated(&session.base.id),
                _ => {}
            }
        }
        self.end_incomplete(after, sessions, cause);
    }

    /// Ends those of these sessions by signed tokens that lack a factor: their tokens say which factors they have, so
    /// that their clients have to log in again.
    pub(crate) fn end_incomplete(
        &self,
        snapshot: &Snapshot,
        sessions: &[Arc<ApiSession>],
        cause: &EndCause,
    ) {
        let lacking =
            sessions.iter().filter(|it| it.tokens.is_some() && !is_complete(snapshot, it));
        let ids: Vec<Id> = lacking.map(|session| session.base.id.clone()).collect();
        self.end_because(&ids, cause);
    }

    /// Handles a signer whose tokens are no second factor any more. Sessions by signed tokens end, because these say which
    /// factors they have; for routers, other sessions lack the factor until a token is shown again.
    fn second_factor_ended(&self, signer: &Id, cause: &EndCause, now: Timestamp) {
        let mut ended = Vec::new();
        for session in self.all().iter().filter(|session| rests_on(session, signer)) {
            match session.tokens.is_some() {
                true => ended.push(session.base.id.clone()),
                false => drop(self.change(&session.base.id, now, |session| {
                    session.external.second_signer = None;
                    session.external.second_until = None;
                })),
            }
        }
        self.end_because(&ended, cause);
    }

    pub(crate) fn updated(&self, id: &Id) {
        let tables = self.0.tables.read();
        let session = tables.api.get(id).and_then(|entity| entity.get::<ApiSession>());
        if let Some(session) = session {
            self.tell(SessionNotice::Updated(Arc::clone(session)));
        }
    }
}
