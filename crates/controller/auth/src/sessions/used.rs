//! Notes the use of sessions, and stores the times.

use bytes::Bytes;
use weft_model::entity::ApiSession;
use weft_model::{Id, Timestamp};
use weft_store::LiveStore;

use crate::sessions::activity::{ACTIVITY, Activity};
use crate::sessions::{SWEEP_BATCH, Sessions, Tables};

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
                let note = Bytes::copy_from_slice(&activity.at.0.to_be_bytes());
                self.0.store.live().put_note(ACTIVITY, id.as_str(), Some(note));
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
