//! The times when sessions were last used. They are stored at intervals, apart from the sessions:
//! only the time of each used session is written.

use bytes::Bytes;
use hashbrown::HashMap;
use weft_model::{Id, Timestamp};
use weft_store::{LiveStore, ReadError, Space};

/// The space of notes with the last activity, by session.
pub(super) const ACTIVITY: Space = Space(2);

/// The last activity of one session.
#[derive(Debug, Clone, Copy)]
pub(super) struct Activity {
    pub(super) at: Timestamp,
    pub(super) is_stored: bool,
}

/// Loads the times that an earlier run stored.
pub(super) fn load(live: &dyn LiveStore) -> Result<HashMap<Id, Activity>, ReadError> {
    let read = |(id, note): (String, Bytes)| {
        let at = Timestamp(i64::from_be_bytes(note[..].try_into().ok()?));
        Some((Id::new(&id), Activity { at, is_stored: true }))
    };
    Ok(live.notes(ACTIVITY)?.into_iter().filter_map(read).collect())
}
