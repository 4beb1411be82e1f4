//! Ends sessions by time: when they are idle, have reached their longest life, or their certificate
//! has expired.

use std::sync::Arc;
use std::time::Duration;

use weft_kernel::events::EndCause;
use weft_model::entity::ApiSession;
use weft_model::{Id, Snapshot, Timestamp};
use weft_store::Sharing;

use super::{SWEEP_BATCH, Sessions, Tables, stands};

/// The time after which sessions are looked at again that could not be judged.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// The shortest step of time.
const STEP: Duration = Duration::from_millis(1);

impl Sessions {
    /// The end of a session if it is not used again.
    pub(super) fn end_of(&self, tables: &Tables, session: &ApiSession) -> Timestamp {
        // A session by signed tokens ends with these.
        if let Some(login) = &session.tokens {
            return login.ends_at;
        }
        let used = tables.last_activity(session).max(self.used_elsewhere(session));
        let idle = used.plus(self.0.timeout);
        self.last_end(session).map_or(idle, |last| last.min(idle))
    }

    /// The end of a session that is used until then; `None` if it has no such end.
    pub fn last_end(&self, session: &ApiSession) -> Option<Timestamp> {
        if let Some(login) = &session.tokens {
            return login.last_end;
        }
        let begun = session.base.created_at;
        let longest = self.0.longest.map(|longest| begun.plus(longest));
        // Who has left the provider's company gets no fresh token.
        let by_token =
            session.external.signer_id.as_ref().map(|_| begun.plus(self.0.longest_by_token));
        [longest, by_token].into_iter().flatten().min()
    }

    /// The end of a session if it is not used again, by the present tables.
    pub fn expires_at(&self, session: &ApiSession) -> Timestamp {
        self.end_of(&self.0.tables.read(), session)
    }

    /// The next time to check a session: its end, or that of one of its certificates.
    pub(super) fn look_at(
        &self,
        tables: &Tables,
        session: &ApiSession,
        now: Timestamp,
    ) -> Timestamp {
        let certificates = session.certificates.iter().map(|certificate| certificate.not_after);
        let second = session.external.second_until;
        let next = certificates.chain(second).filter(|at| *at > now).min();
        let end = self.end_of(tables, session);
        next.map_or(end, |next| next.min(end))
    }

    /// Schedules the checks of all sessions, and drops those that have ended already; shared ones are judged when it is known
    /// what others have done.
    pub(super) fn expect_ends(&self, now: Timestamp) {
        let ended: Vec<Id> = {
            let mut tables = self.0.tables.write();
            let sessions = tables.api.iter().filter_map(|entity| entity.get::<ApiSession>());
            let sessions: Vec<Arc<ApiSession>> = sessions.cloned().collect();
            for session in &sessions {
                let at = self.look_at(&tables, session, now);
                tables.ending.put(&session.base.id, at);
            }
            if self.0.store.live().sharing() != Sharing::Alone {
                return;
            }
            let ended = sessions.iter().filter(|it| self.end_of(&tables, it) <= now);
            ended.map(|session| session.base.id.clone()).collect()
        };
        self.end(&ended);
    }

    /// Whether the time of a session may be over.
    pub(crate) fn has_due(&self, now: Timestamp) -> bool {
        self.0.tables.read().ending.has_due(now.plus(STEP))
    }

    /// Has sessions whose time may be over looked at again later, because it is not known what other controllers have done
    /// to them.
    pub(crate) fn put_off_due(&self, now: Timestamp) {
        let due = self.0.tables.write().ending.take(now.plus(STEP));
        for some in due.chunks(SWEEP_BATCH) {
            let mut tables = self.0.tables.write();
            some.iter().for_each(|id| tables.ending.put(id, now.plus(LOOK_AGAIN)));
        }
    }

    /// Has all sessions judged soon, because the model may lack what they rest on.
    pub(crate) fn judge_soon(&self, now: Timestamp) {
        for some in self.all().chunks(SWEEP_BATCH) {
            let mut tables = self.0.tables.write();
            some.iter().for_each(|it| tables.ending.put(&it.base.id, now.plus(LOOK_AGAIN)));
        }
    }

    /// Ends sessions whose time is over or whose certificate may not be used any more.
    pub fn end_due(&self, snapshot: &Snapshot, now: Timestamp) {
        let due = self.0.tables.write().ending.take(now.plus(STEP));
        let mut ended = Vec::new();
        for due in due.chunks(SWEEP_BATCH) {
            let (mut stay, mut lapsed) = (Vec::new(), Vec::new());
            {
                let mut tables = self.0.tables.write();
                for id in due {
                    let session = tables.api.get(id).and_then(|it| it.get::<ApiSession>());
                    let Some(session) = session.cloned() else { continue };
                    if self.end_of(&tables, &session) <= now || !stands(snapshot, &session, now) {
                        ended.push(id.clone());
                        continue;
                    }
                    let at = self.look_at(&tables, &session, now);
                    tables.ending.put(id, at);
                    if session.external.second_until.is_some_and(|until| until <= now) {
                        lapsed.push(id);
                    } else if session.certificates.iter().any(|it| it.not_after <= now) {
                        stay.push(id);
                    }
                }
            }
            // Sessions whose second factor counts no more for routers.
            for id in lapsed {
                self.change(id, now, |session| {
                    session.external.second_signer = None;
                    session.external.second_until = None;
                });
            }
            // Sessions that lost one of their certificates.
            stay.into_iter().for_each(|id| self.updated(id));
        }
        self.end_because(&ended, &EndCause::Time);
    }
}
