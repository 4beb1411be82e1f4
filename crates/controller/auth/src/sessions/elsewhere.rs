//! What other controllers do to sessions that all of them share.
//!
//! Whatever is told, the tables get the session as the store has it at that moment, under the lock of the tables: neither a
//! change of this controller is undone, nor does an ended session come back.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use weft_model::entity::{ApiSession, Identity};
use weft_model::{Change, Entity, Id, Kind, Timestamp};
use weft_store::{CommitError, LiveChange, LiveListener, Sharing};

use super::{CERTIFICATES, Inner, SessionNotice, Sessions};
use crate::factors::is_complete;
use crate::handle::Auth;

/// The time after which a session that came from elsewhere is judged by the model. Until then the model may lack what the
/// session rests on, because changes of the model come by themselves.
const SETTLED: Duration = Duration::from_secs(10);
/// Longest wait for what others have done.
const PATIENCE: Duration = Duration::from_secs(1);
/// Shortest time between two questions for what others have done: anybody can cause them.
const BETWEEN: Duration = Duration::from_millis(20);

impl Auth {
    /// Whether this controller knows what the others have done to the model and to sessions. It asks etcd, and waits for 2 s
    /// at most. Always true for a controller that is alone.
    pub(crate) async fn knows_latest(&self) -> bool {
        if !self.is_member() {
            return true;
        }
        let model = async {
            let store = &self.kernel().settings().store;
            let head = match store.confirm(self.kernel().snapshot().revision()).await {
                Ok(()) => return true,
                Err(CommitError::Stale { head }) => head,
                Err(_) => return false,
            };
            while self.kernel().snapshot().revision() < head {
                tokio::time::sleep(BETWEEN).await;
            }
            true
        };
        self.sessions().catch_up().await
            && tokio::time::timeout(PATIENCE, model).await.unwrap_or(false)
    }
}

impl Sessions {
    /// Takes over what other controllers have done since the sessions were loaded, and from now on. The call reads all
    /// sessions, if others share them.
    pub(crate) fn follow_others(&self) {
        if self.0.store.live().sharing() == Sharing::Alone {
            return;
        }
        let weak: Weak<Inner> = Arc::downgrade(&self.0);
        let heard = move |change: LiveChange<'_>| {
            let Some(sessions) = weak.upgrade().map(Sessions) else { return };
            match change {
                LiveChange::Changes(changes) => sessions.take_over(changes),
                LiveChange::StartOver => sessions.take_over_all(),
            }
        };
        self.0.store.live().listen(LiveListener { heard: Box::new(heard), merge });
        self.take_over_all();
    }

    /// Whether other controllers know the sessions, too.
    pub(crate) fn are_shared(&self) -> bool {
        self.0.store.live().sharing() == Sharing::Together
    }

    /// Waits until everything is here that others had done to sessions before the call, for 1 s at most; false if that is
    /// not certain. Callers that come meanwhile wait for one question together.
    pub async fn catch_up(&self) -> bool {
        match self.0.store.live().sharing() {
            Sharing::Alone => return true,
            Sharing::CutOff => return false,
            Sharing::Together => {}
        }
        let came = Instant::now();
        let asking = async {
            let mut asked = self.0.caught_up.lock().await;
            if let Some((asked, is_certain)) = *asked {
                if asked > came {
                    return is_certain;
                }
                tokio::time::sleep(BETWEEN.saturating_sub(asked.elapsed())).await;
            }
            // Noted at once: nobody asks again at once after a question that is given up.
            let begun = Instant::now();
            *asked = Some((begun, false));
            let is_certain = self.0.store.live().catch_up().await.is_ok();
            *asked = Some((begun, is_certain));
            is_certain
        };
        tokio::time::timeout(PATIENCE, asking).await.unwrap_or(false)
    }

    /// Takes over changes, in their order.
    fn take_over(&self, changes: &[Change]) {
        let now = self.0.kernel.get().map(|kernel| kernel.now()).unwrap_or_default();
        let is_end = |change: &Change| matches!(change, Change::Delete(..));
        for some in changes.chunk_by(|one, next| is_end(one) == is_end(next)) {
            for change in some {
                match change {
                    Change::Put(theirs @ Entity::ApiSession(_)) => {
                        self.take_over_login(theirs, now)
                    }
                    Change::Put(theirs @ Entity::ServiceSession(_)) => {
                        self.take_over_service(theirs);
                    }
                    _ => {}
                }
            }
            let ended = |kind: Kind| -> Vec<Id> {
                let ended = some.iter().filter(|it| is_end(it) && it.kind() == kind);
                ended.map(|end| end.id().clone()).collect()
            };
            self.ended_elsewhere(&ended(Kind::ApiSession));
            self.remove_services(&ended(Kind::ServiceSession));
        }
    }

    /// A session of another controller with what waits here to be told of it; none if it has ended, or cannot be read.
    fn joined(&self, theirs: &Entity) -> Option<Entity> {
        self.0.store.live().join(theirs).unwrap_or_else(|error| {
            tracing::warn!(session = %theirs.id(), %error, "a session of another controller cannot be read, and is not known here");
            None
        })
    }

    fn take_over_login(&self, theirs: &Entity, now: Timestamp) {
        let id = theirs.id();
        let session = {
            let mut tables = self.0.tables.write();
            let Some(latest) = self.joined(theirs) else { return };
            let Some(session) = latest.get::<ApiSession>().cloned() else { return };
            let known = tables.api.get(id).and_then(|it| it.get::<ApiSession>());
            if known == Some(&session) {
                return;
            }
            if let Err(error) = tables.api.put(latest) {
                tracing::warn!(session = %id, %error, "a session of another controller contradicts one that is here, and is left out");
                return;
            }
            let at = self.look_at(&tables, &session, now).min(now.plus(SETTLED));
            tables.ending.put(id, at);
            self.tell(SessionNotice::Updated(Arc::clone(&session)));
            session
        };
        let is_whole = self.0.kernel.get().is_some_and(|kernel| {
            let snapshot = kernel.snapshot();
            snapshot.get::<Identity>(&session.identity_id).is_some()
                && is_complete(&snapshot, &session)
        });
        if is_whole {
            self.waits_no_more(id);
        }
    }

    fn take_over_service(&self, theirs: &Entity) {
        let mut tables = self.0.tables.write();
        let Some(latest) = self.joined(theirs) else { return };
        if let Err(error) = tables.service.put(latest) {
            tracing::warn!(session = %theirs.id(), %error, "a service session of another controller contradicts one that is here, and is left out");
        }
    }

    /// Changes were missed: takes over all sessions that there are, and ends those that there are no more.
    fn take_over_all(&self) {
        let (logins, services) = (self.all(), self.all_services());
        let mut found = Vec::new();
        if let Err(error) = self.0.store.live().load(&mut |entity| found.push(entity)) {
            tracing::error!(%error, "the sessions of other controllers cannot be read; those that began or ended meanwhile are not known here");
            return;
        }
        let there: hashbrown::HashSet<(Kind, Id)> =
            found.iter().map(|entity| (entity.kind(), entity.id().clone())).collect();
        // What began here while they were read is not among them.
        let has_ended = |kind: Kind, id: &Id| {
            !there.contains(&(kind, id.clone()))
                && matches!(self.0.store.live().latest(kind, id), Ok(None))
        };
        let logins = logins.iter().map(|it| &it.base.id);
        let logins: Vec<Id> =
            logins.filter(|id| has_ended(Kind::ApiSession, id)).cloned().collect();
        let services = services.iter().map(|it| &it.base.id);
        let services = services.filter(|id| has_ended(Kind::ServiceSession, id));
        let services: Vec<Id> = services.cloned().collect();
        self.ended_elsewhere(&logins);
        self.remove_services(&services);
        let changes: Vec<Change> = found.into_iter().map(Change::Put).collect();
        self.take_over(&changes);
    }
}

/// Makes one session of two that were changed at two controllers at once: what was changed last counts, but no refresh
/// token comes back, no certificate is lost, and no use forgotten.
fn merge(theirs: &Entity, ours: &Entity) -> Entity {
    let (Some(theirs), Some(ours)) = (theirs.get::<ApiSession>(), ours.get::<ApiSession>()) else {
        return ours.clone();
    };
    // Of two changes of one time all controllers keep the same one.
    let order = ours.base.updated_at.cmp(&theirs.base.updated_at);
    let row = |session: &Arc<ApiSession>| Entity::from(Arc::clone(session)).to_row();
    let order = order.then_with(|| row(ours).cmp(&row(theirs)));
    let (newer, older) = match order.is_ge() {
        true => (ours, theirs),
        false => (theirs, ours),
    };
    let mut merged = (**newer).clone();
    merged.last_activity_at = newer.last_activity_at.max(older.last_activity_at);
    merged.had_certificate |= older.had_certificate;
    if older.mfa_passed_at > merged.mfa_passed_at {
        merged.is_mfa_complete = older.is_mfa_complete;
        merged.mfa_passed_at = older.mfa_passed_at;
    }
    if merged.next_credential.is_empty() {
        merged.next_credential.clone_from(&older.next_credential);
    }
    if older.external.second_until > merged.external.second_until {
        merged.external.second_signer.clone_from(&older.external.second_signer);
        merged.external.second_until = older.external.second_until;
    }
    for certificate in &older.certificates {
        let is_known = |it: &_| *it == *certificate;
        if merged.certificates.len() < CERTIFICATES && !merged.certificates.iter().any(is_known) {
            merged.certificates.push(certificate.clone());
        }
    }
    if let (Some(tokens), Some(others)) = (&mut merged.tokens, &older.tokens) {
        let mut signed_by = [&tokens.signed_by[..], &others.signed_by].concat();
        signed_by.sort_unstable();
        signed_by.dedup();
        if others.refresh_number > tokens.refresh_number {
            tokens.clone_from(others);
        }
        tokens.signed_by = signed_by;
    }
    merged.into()
}

#[cfg(test)]
mod tests {
    use weft_model::Base;
    use weft_model::entity::TokenLogin;

    use super::*;

    fn session(updated: i64, refresh_number: u64, kid: &str) -> ApiSession {
        let base = Base::new(Id::new("s"), Timestamp(1));
        ApiSession {
            base: Base { updated_at: Timestamp(updated), ..base },
            last_activity_at: Timestamp(100 - updated),
            tokens: Some(Box::new(TokenLogin {
                refresh_number,
                signed_by: vec![kid.into()],
                ..TokenLogin::default()
            })),
            ..ApiSession::default()
        }
    }

    #[test]
    fn of_two_changes_the_last_one_counts_and_no_refresh_token_comes_back() {
        let refreshed = session(5, 8, "theirs");
        let passed = ApiSession {
            is_mfa_complete: true,
            mfa_passed_at: Some(Timestamp(4)),
            ..session(4, 7, "ours")
        };
        for (theirs, ours) in [(&refreshed, &passed), (&passed, &refreshed)] {
            let merged = merge(&theirs.clone().into(), &ours.clone().into());
            let merged = merged.get::<ApiSession>().unwrap();
            assert!(merged.is_mfa_complete);
            assert_eq!(merged.last_activity_at, Timestamp(96));
            let tokens = merged.tokens.as_ref().unwrap();
            assert_eq!(tokens.refresh_number, 8);
            assert_eq!(tokens.signed_by.len(), 2);
        }
    }
}
