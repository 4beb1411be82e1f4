//! When sessions were last used, and how that is stored.

use bytes::Bytes;
use weft_model::entity::ApiSession;
use weft_model::{Id, Timestamp};
use weft_store::Live;

use crate::sessions::activity::{ACTIVITY, Activity};
use crate::sessions::{SWEEP_BATCH, Sessions, Tables};

impl Tables {
    pub(crate) fn last_activity(&self, session: &ApiSession) -> Timestamp {
        let known = self.active.get(&session.base.id);
        known.map_or(session.last_activity_at, |it| it.at.max(session.last_activity_at))
    }

    /// A session is gone.
    pub(crate) fn forget_activity(&mut self, live: &dyn Live, id: &Id) {
        if self.active.remove(id).is_some_and(|it| it.is_stored) {
            live.put_note(ACTIVITY, id.as_str(), None);
        }
    }
}

impl Sessions {
    /// Marks activity of a session.
    pub fn touch(&self, id: &Id, now: Timestamp) {
        self.touch_all(std::slice::from_ref(id), now);
    }

    /// Marks activity of sessions.
    pub fn touch_all(&self, ids: &[Id], now: Timestamp) {
        let mut tables = self.0.tables.write();
        for id in ids {
            if tables.api.ordinal(id).is_none() {
                continue;
            }
            let fresh = Activity { at: now, is_stored: false };
            let known = tables.active.entry(id.clone()).or_insert(fresh);
            // A note that is stored is taken out again with the session.
            *known = Activity { at: now, ..*known };
            tables.used.insert(id.clone());
        }
    }

    /// When a session was last active.
    pub fn last_activity(&self, session: &ApiSession) -> Timestamp {
        self.0.tables.read().last_activity(session)
    }

    /// Now and then stores the activity of the sessions.
    pub fn sweep(&self, now: Timestamp) {
        let used: Vec<Id> = {
            let mut tables = self.0.tables.write();
            if now.since(tables.flushed) < self.0.flush {
                return;
            }
            tables.flushed = now;
            tables.used.drain().collect()
        };
        for ids in used.chunks(SWEEP_BATCH) {
            let mut tables = self.0.tables.write();
            for id in ids {
                // Not of one that has ended meanwhile.
                let Some(activity) = tables.active.get_mut(id) else { continue };
                activity.is_stored = true;
                let note = Bytes::copy_from_slice(&activity.at.0.to_be_bytes());
                self.0.store.live().put_note(ACTIVITY, id.as_str(), Some(note));
            }
        }
    }

    /// Forgets the activity of sessions that are gone, as after a kill between two writes.
    pub(crate) fn drop_stray_activity(&self) {
        let mut tables = self.0.tables.write();
        let strays = tables.active.keys().filter(|id| tables.api.ordinal(id).is_none());
        let strays: Vec<Id> = strays.cloned().collect();
        for id in &strays {
            tables.forget_activity(self.0.store.live(), id);
        }
    }
}
