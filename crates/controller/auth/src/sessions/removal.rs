//! Takes sessions out of the tables. A change of the model may end all of them at once: the lock is
//! held for a few at a time, so that requests get their turn in between.

use std::sync::Arc;

use parking_lot::RwLockWriteGuard;
use weft_kernel::events::EndCause;
use weft_model::entity::{ApiSession, ServiceSession};
use weft_model::{Id, Kind};

use super::services::{LOGIN, referring};
use super::told_ends::ToldEnds;
use super::{PART, SWEEP_BATCH, SessionNotice, Sessions, Tables};

/// If more sessions end together than this, and more than remain, routers are told of those that
/// remain: one list instead of a notice of each end to each router.
const BULK: usize = 4096;

impl Sessions {
    /// Ends sessions, with the service sessions in them.
    pub fn end(&self, ids: &[Id]) {
        self.end_because(ids, &EndCause::Other);
    }

    /// Ends sessions, of which there may be many, and says why.
    pub(crate) fn end_because(&self, ids: &[Id], cause: &EndCause) {
        self.end_with(ids, Some(cause));
    }

    /// Sessions have ended at another controller, which revokes their tokens and tells the events.
    pub(super) fn ended_elsewhere(&self, ids: &[Id]) {
        self.end_with(ids, None);
    }

    /// Ends sessions, here for this cause, or as another controller did.
    fn end_with(&self, ids: &[Id], cause: Option<&EndCause>) {
        // Routers are told of sessions with opaque tokens; the others end by revocations.
        let opaque = |tables: &Tables, id: &Id| !is_by_tokens(tables, id);
        let are_told = self.are_told(ids, opaque, |tables| tables.api.len());
        let _gathering = (ids.len() > SWEEP_BATCH).then(|| self.0.unrevoked.gather());
        let (mut rest, mut told) = (ids, self.told_ends());
        self.0.progress.begin(ids.len());
        while !rest.is_empty() {
            let left = self.end_some(rest, are_told, cause.is_some().then_some(&mut told));
            self.0.progress.ended(rest.len() - left.len());
            rest = left;
        }
        if let Some(cause) = cause {
            self.tell_together(cause, told);
        }
        self.0.halves.release(ids);
        if !are_told {
            self.tell(SessionNotice::Resync);
        }
    }

    /// Ends sessions whose end was noted by a run that was killed before they went.
    pub(super) fn end_noted(&self) {
        let all = self.all();
        let noted = all.iter().filter(|session| self.0.unrevoked.has(&session.base.id));
        let noted: Vec<Id> = noted.map(|session| session.base.id.clone()).collect();
        self.end(&noted);
    }

    /// Ends service sessions.
    pub fn remove_services(&self, ids: &[Id]) {
        let are_told = self.are_told(ids, |_, _| true, |tables| tables.service.len());
        for ids in ids.chunks(PART) {
            let mut tables = self.0.tables.write();
            let removed = ids.iter().filter_map(|id| self.take_service(&mut tables, id));
            let removed: Vec<_> = removed.collect();
            if are_told {
                self.tell_services(&removed);
            }
            RwLockWriteGuard::unlock_fair(tables);
        }
        if !are_told {
            self.tell(SessionNotice::Resync);
        }
    }

    /// Whether routers are told of each of these ends, as far as they are concerned by it.
    fn are_told(
        &self,
        ids: &[Id],
        concern: impl Fn(&Tables, &Id) -> bool,
        count: impl Fn(&Tables) -> usize,
    ) -> bool {
        if ids.len() <= BULK {
            return true;
        }
        let mut ended = 0;
        for some in ids.chunks(SWEEP_BATCH) {
            let tables = self.0.tables.read();
            ended += some.iter().filter(|id| concern(&tables, id)).count();
        }
        ended <= BULK || ended <= count(&self.0.tables.read()) / 2
    }

    /// Ends the first few of these sessions; returns the others. `told` is none if they ended at another controller.
    fn end_some<'i>(
        &self,
        ids: &'i [Id],
        are_told: bool,
        mut told: Option<&mut ToldEnds>,
    ) -> &'i [Id] {
        let live = self.0.store.live();
        let mut tables = self.0.tables.write();
        let (mut ended, mut services, mut of_tokens) = (Vec::new(), Vec::new(), Vec::new());
        let mut rest = ids;
        while let [id, others @ ..] = rest
            && ids.len() - rest.len() + services.len() + of_tokens.len() < PART
        {
            rest = others;
            let is_by_tokens = is_by_tokens(&tables, id);
            let inside = self.take_services_of(&mut tables, id);
            let of_its_kind = if is_by_tokens { &mut of_tokens } else { &mut services };
            of_its_kind.extend(inside);
            tables.forget_activity(live, id);
            tables.ending.remove(id);
            tables.former.remove(id);
            if let Some(removed) = tables.api.remove(id) {
                let session = removed.get::<ApiSession>();
                let tokens = session.and_then(|it| it.tokens.as_ref());
                // Noted before the session goes, so that a kill in between loses neither.
                if let Some((session, login)) = session.zip(tokens.filter(|_| told.is_some())) {
                    self.0.unrevoked.add(live, id, &session.identity_id, login.ends_at);
                }
                live.delete(Kind::ApiSession, id);
                if let Some(session) = session {
                    if let Some(told) = &mut told {
                        self.tell_end(session, told);
                    }
                    tables.whole.remove(&session.identity_id, id);
                    tables.ended.login(id.clone(), session.identity_id.clone());
                }
                if !is_by_tokens {
                    ended.push(id.clone());
                }
            }
        }
        if are_told {
            self.tell_services(&services);
            let parts = of_tokens.chunks(SWEEP_BATCH);
            parts.for_each(|part| self.tell(SessionNotice::ServicesOfTokens(part.to_vec())));
            if !ended.is_empty() {
                self.tell(SessionNotice::Removed(ended));
            }
        }
        // Requests that wait for the lock have it before the next part.
        RwLockWriteGuard::unlock_fair(tables);
        rest
    }

    /// Sends notices about ended service sessions. A single login may have had thousands.
    fn tell_services(&self, ended: &[Arc<ServiceSession>]) {
        let parts = ended.chunks(SWEEP_BATCH);
        parts.for_each(|part| self.tell(SessionNotice::ServiceRemoved(part.to_vec())));
    }

    /// Takes the service sessions of a login out of the tables, and returns them.
    fn take_services_of(&self, tables: &mut Tables, login: &Id) -> Vec<Arc<ServiceSession>> {
        let inside = referring(&tables.service, LOGIN, login);
        inside.iter().filter_map(|it| self.take_service(tables, &it.base.id)).collect()
    }

    fn take_service(&self, tables: &mut Tables, id: &Id) -> Option<Arc<ServiceSession>> {
        let removed = tables.service.remove(id)?;
        self.0.store.live().delete(Kind::ServiceSession, id);
        tables.ended.service(id.clone());
        let removed = removed.get::<ServiceSession>().cloned()?;
        tables.by_former_token.remove(&removed.token);
        Some(removed)
    }
}

fn is_by_tokens(tables: &Tables, id: &Id) -> bool {
    let session = tables.api.get(id).and_then(|it| it.get::<ApiSession>());
    session.is_some_and(|session| session.tokens.is_some())
}

#[cfg(test)]
mod tests {
    use weft_identity::SealKey;
    use weft_kernel::Durations;
    use weft_model::{Base, Timestamp};
    use weft_store::Memory;

    use super::*;
    use crate::sessions::SessionSubscription;
    use crate::sessions::half::no_logins;

    const NOW: Timestamp = Timestamp(1_000_000);

    /// So many logins.
    fn logins(count: usize) -> (Sessions, Vec<Id>) {
        let key = Arc::new(SealKey::random().unwrap());
        let store = Arc::new(Memory::new());
        let sessions =
            Sessions::load(store, key, &Durations::default(), 0, no_logins(), NOW).unwrap();
        let ids: Vec<Id> = (0..count).map(|number| Id::new(&format!("s{number:06}"))).collect();
        for id in &ids {
            let login = ApiSession {
                base: Base::new(id.clone(), NOW),
                // An identity has not many.
                identity_id: id.clone(),
                last_activity_at: NOW,
                ..ApiSession::default()
            };
            sessions.open(login, id.as_str(), |_| true).unwrap();
        }
        (sessions, ids)
    }

    /// A login dials so many services.
    fn dial(sessions: &Sessions, login: &Id, services: std::ops::Range<usize>) -> Vec<Id> {
        let ids = services.map(|number| {
            let id = Id::new(&format!("{login}-{number:06}"));
            sessions.plant_service(ServiceSession {
                base: Base::new(id.clone(), NOW),
                api_session_id: login.clone(),
                token: id.as_str().into(),
                service_id: Id::new(&format!("service{number}")),
                ..ServiceSession::default()
            });
            id
        });
        ids.collect()
    }

    /// The ids in each notice about ends; none for a notice to start over.
    fn told(told: &mut SessionSubscription) -> Vec<Option<Vec<Id>>> {
        let notices = std::iter::from_fn(|| told.try_next().ok());
        let ids = notices.map(|notice| match notice {
            SessionNotice::Removed(ids) => Some(ids),
            SessionNotice::ServiceRemoved(ended) => {
                Some(ended.iter().map(|it| it.base.id.clone()).collect())
            }
            SessionNotice::Resync => None,
            other => panic!("{other:?}"),
        });
        ids.collect()
    }

    #[test]
    fn no_notice_names_many_sessions() {
        let (sessions, logins) = logins(3 * SWEEP_BATCH);
        let mut services = dial(&sessions, &logins[7], 0..SWEEP_BATCH + 100);
        services.extend(dial(&sessions, &logins[3], 0..2));
        let (alone, inside) = services.split_at(SWEEP_BATCH + 50);
        let mut notices = sessions.subscribe();
        sessions.remove_services(alone);
        let ended = &logins[..2 * SWEEP_BATCH + 1];
        sessions.end(ended);
        let told = told(&mut notices);
        assert!(told.iter().all(|ids| ids.as_ref().unwrap().len() <= SWEEP_BATCH));
        let mut told: Vec<Id> = told.into_iter().flatten().flatten().collect();
        let mut all = [alone, inside, ended].concat();
        told.sort_unstable();
        all.sort_unstable();
        assert_eq!(told, all);
        assert_eq!(sessions.counts().api_sessions, SWEEP_BATCH as u64 - 1);
        assert_eq!(sessions.counts().service_sessions, 0);
    }

    #[test]
    fn one_notice_tells_that_most_of_very_many_sessions_have_ended() {
        let (sessions, logins) = logins(BULK + 2);
        let services = dial(&sessions, &logins[0], 0..BULK + 2);
        let mut notices = sessions.subscribe();
        sessions.remove_services(&services[1..]);
        assert_eq!(told(&mut notices), [None]);
        sessions.end(&logins[1..]);
        assert_eq!(told(&mut notices), [None]);
        assert_eq!(sessions.counts().api_sessions, 1);
        assert_eq!(sessions.counts().service_sessions, 1);
        // The last one is told.
        sessions.end(&logins[..1]);
        assert_eq!(told(&mut notices), [&services[..1], &logins[..1]].map(|it| Some(it.to_vec())));
    }

    #[test]
    fn requests_have_their_turn_between_the_parts_of_many_ends() {
        let (sessions, logins) = logins(3 * PART + 1);
        // To look at all sessions takes the lock for a moment only.
        let is_free = || sessions.0.tables.try_write().is_some();
        sessions.look_at_all(|_| assert!(is_free()));
        sessions.retain(&EndCause::Other, |_| is_free());
        assert_eq!(sessions.count(), logins.len());
        // Each notice is sent under the lock of its part.
        let mut notices = sessions.subscribe();
        sessions.end(&logins);
        let parts: Vec<usize> =
            told(&mut notices).into_iter().flatten().map(|it| it.len()).collect();
        assert_eq!(parts, [PART, PART, PART, 1]);
    }

    #[test]
    fn sessions_that_are_to_end_are_counted_until_they_have_ended() {
        let (sessions, logins) = logins(3 * PART);
        let to_end = || sessions.end_counts().to_end;
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        std::thread::scope(|scope| {
            let held = sessions.0.tables.read();
            let ends = scope.spawn(|| sessions.end(&logins));
            while to_end() == 0 && std::time::Instant::now() < deadline {
                std::thread::yield_now();
            }
            assert_eq!(to_end(), 3 * PART as u64);
            drop(held);
            ends.join().unwrap();
        });
        assert_eq!(to_end(), 0);
    }
}
