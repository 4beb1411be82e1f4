//! What other controllers do to sessions that all of them share.

use std::sync::{Arc, Weak};
use std::time::Duration;

use weft_model::entity::ApiSession;
use weft_model::{Change, Entity, Id, Kind, Timestamp};
use weft_store::{LiveChange, Sharing};

use super::{Inner, SessionNotice, Sessions};
use crate::resolve::is_complete;

/// The time after which a session that came from elsewhere is judged by the model. Until then the model may lack what the
/// session rests on, because changes of the model come by themselves.
const SETTLED: Duration = Duration::from_secs(10);
/// Longest wait for what others have done.
const PATIENCE: Duration = Duration::from_secs(1);

impl Sessions {
    /// Takes over what other controllers have done since the sessions were loaded, and from now on. The call reads all
    /// sessions, if others share them.
    pub(crate) fn follow_others(&self) {
        if self.0.store.live().sharing() == Sharing::Alone {
            return;
        }
        let weak: Weak<Inner> = Arc::downgrade(&self.0);
        self.0.store.live().listen(Box::new(move |change| {
            let Some(sessions) = weak.upgrade().map(Sessions) else { return };
            match change {
                LiveChange::Changes(changes) => sessions.take_over(changes),
                LiveChange::StartOver => sessions.take_over_all(),
            }
        }));
        self.take_over_all();
    }

    /// Whether other controllers know the sessions, too.
    pub(crate) fn are_shared(&self) -> bool {
        self.0.store.live().sharing() == Sharing::Together
    }

    /// Waits until everything is here that others had done to sessions before the call, for 1 s at most. Callers that come meanwhile
    /// wait for one question together.
    pub async fn catch_up(&self) {
        if !self.are_shared() {
            return;
        }
        let came = std::time::Instant::now();
        let asking = async {
            let mut asked = self.0.caught_up.lock().await;
            if asked.is_none_or(|asked| asked <= came) {
                let begun = std::time::Instant::now();
                if let Err(error) = self.0.store.live().catch_up().await {
                    tracing::debug!(%error, "sessions of other controllers are not known to the last one");
                }
                *asked = Some(begun);
            }
        };
        let _ = tokio::time::timeout(PATIENCE, asking).await;
    }

    /// Takes over changes, in their order.
    fn take_over(&self, changes: &[Change]) {
        let now = self.0.kernel.get().map(|kernel| kernel.now()).unwrap_or_default();
        for change in changes {
            match change {
                Change::Put(Entity::ApiSession(session)) => self.take_over_login(session, now),
                Change::Put(session @ Entity::ServiceSession(_)) => self.take_over_service(session),
                Change::Delete(Kind::ApiSession, id) => {
                    self.ended_elsewhere(std::slice::from_ref(id));
                }
                Change::Delete(Kind::ServiceSession, id) => {
                    self.remove_services(std::slice::from_ref(id));
                }
                _ => {}
            }
        }
    }

    fn take_over_login(&self, session: &Arc<ApiSession>, now: Timestamp) {
        let id = &session.base.id;
        let is_whole = self.0.kernel.get().is_some_and(|it| is_complete(&it.snapshot(), session));
        {
            let mut tables = self.0.tables.write();
            let known = tables.api.get(id).and_then(|it| it.get::<ApiSession>());
            if known == Some(session) {
                return;
            }
            if let Err(error) = tables.api.put(Entity::from(Arc::clone(session))) {
                tracing::warn!(session = %id, %error, "a session of another controller contradicts one that is here, and is left out");
                return;
            }
            let at = self.look_at(&tables, session, now).min(now.plus(SETTLED));
            tables.ending.put(id, at);
            self.tell(SessionNotice::Updated(Arc::clone(session)));
        }
        if is_whole {
            self.waits_no_more(id);
        }
    }

    fn take_over_service(&self, session: &Entity) {
        if let Err(error) = self.0.tables.write().service.put(session.clone()) {
            tracing::warn!(session = %session.id(), %error, "a service session of another controller contradicts one that is here, and is left out");
        }
    }

    /// Changes were missed: takes over all sessions that there are, and ends those that there are no more.
    fn take_over_all(&self) {
        // What begins here while they are read is not among them.
        let (logins, services) = (self.all(), self.all_services());
        let mut found = Vec::new();
        if let Err(error) = self.0.store.live().load(&mut |entity| found.push(entity)) {
            tracing::error!(%error, "the sessions of other controllers cannot be read; those that began or ended meanwhile are not known here");
            return;
        }
        let there: hashbrown::HashSet<(Kind, Id)> =
            found.iter().map(|entity| (entity.kind(), entity.id().clone())).collect();
        let has_ended = |kind: Kind, id: &Id| !there.contains(&(kind, id.clone()));
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
