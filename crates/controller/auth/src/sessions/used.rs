//! Notes the use of sessions, and stores the times.

use std::sync::Arc;

use bytes::Bytes;
use weft_model::entity::ApiSession;
use weft_model::{Id, Timestamp};
use weft_store::{LivePut, LiveStore, Sharing};

use crate::sessions::activity::{ACTIVITY, Activity};
use crate::sessions::{SWEEP_BATCH, Sessions, Tables};

/// Controllers that share sessions tell each other of a use once in this part of the idle time.
const UNTOLD: u32 = 4;

impl Tables {
    pub(crate) fn last_activity(&self, session: &ApiSession) -> Timestamp {
        let known = self.active.get(&session.base.id);
        known.map_or(session.last_activity_at, |it| it.at.max(session.last_activity_at))
    }

    /// Forgets the activity of a session that has ended.
    pub(crate) fn forget_activity(&mut self, live: &dyn LiveStore, id: &Id) {
        if self.active.remove(id).is_some_and(|it| it.is_stored) {
            live.put_note(ACTIVITY, id.as_str(), None);
        }
    }
}

impl Sessions {
    /// Notes that a session was used.
    pub fn touch(&self, id: &Id, now: Timestamp) {
        self.touch_all(std::slice::from_ref(id), now);
    }

    /// Notes that sessions were used.
    pub fn touch_all(&self, ids: &[Id], now: Timestamp) {
        let mut tables = self.0.tables.write();
        for id in ids {
            if tables.api.ordinal(id).is_none() {
                continue;
            }
            let fresh = Activity { at: now, is_stored: false };
            let known = tables.active.entry(id.clone()).or_insert(fresh);
            // The flag that a note is stored stays, so that the note is deleted with the session.
            *known = Activity { at: now, ..*known };
            tables.used.insert(id.clone());
        }
    }

    /// The last activity of a session.
    pub fn last_activity(&self, session: &ApiSession) -> Timestamp {
        self.0.tables.read().last_activity(session)
    }

    /// Stores the activity of sessions; called at intervals.
    pub fn sweep(&self, now: Timestamp) {
        let used = {
            let mut tables = self.0.tables.write();
            // A clock that was set back since the last time ends the interval.
            let flushed = tables.flushed;
            if (flushed..flushed.plus(self.0.flush)).contains(&now) {
                return;
            }
            tables.flushed = now;
            std::mem::take(&mut tables.used)
        };
        let used: Vec<Id> = used.into_iter().collect();
        for ids in used.chunks(SWEEP_BATCH) {
            let mut tables = self.0.tables.write();
            for id in ids {
                // The session may have ended meanwhile.
                let Some(activity) = tables.active.get_mut(id) else { continue };
                activity.is_stored = true;
                let at = activity.at;
                let note = Bytes::copy_from_slice(&at.0.to_be_bytes());
                self.0.store.live().put_note(ACTIVITY, id.as_str(), Some(note));
                self.share_use(&mut tables, id, at);
            }
        }
    }

    /// Tells other controllers that a session is used, if they do not know of a use that is less than a quarter of its idle
    /// time ago.
    fn share_use(&self, tables: &mut Tables, id: &Id, at: Timestamp) {
        if self.0.store.live().sharing() == Sharing::Alone {
            return;
        }
        let session = tables.api.get(id).and_then(|it| it.get::<ApiSession>());
        let known = session.filter(|it| it.last_activity_at.plus(self.0.timeout / UNTOLD) < at);
        if let Some(session) = known {
            let session = ApiSession { last_activity_at: at, ..(**session).clone() };
            // A session that is refused keeps its former row; the reason is in the log.
            drop(self.keep_as(tables, &Arc::new(session), LivePut::Use));
        }
    }

    /// The latest use of a session at other controllers that they need not have told.
    pub(super) fn used_elsewhere(&self, session: &ApiSession) -> Timestamp {
        match self.0.store.live().sharing() {
            Sharing::Alone => session.last_activity_at,
            Sharing::Together | Sharing::CutOff => {
                session.last_activity_at.plus(self.0.timeout / UNTOLD + self.0.flush)
            }
        }
    }

    /// Forgets the activity of sessions that do not exist, as after a kill between two writes.
    pub(crate) fn drop_stray_activity(&self) {
        let mut tables = self.0.tables.write();
        let strays = tables.active.keys().filter(|id| tables.api.ordinal(id).is_none());
        let strays: Vec<Id> = strays.cloned().collect();
        for id in &strays {
            tables.forget_activity(self.0.store.live(), id);
        }
    }
}
