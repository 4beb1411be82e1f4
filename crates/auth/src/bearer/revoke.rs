//! Tells routers that the tokens of an ended session count no more (docs/protocol/auth.md 16).
//!
//! A session that ends before its tokens leaves a note in the store, in the same order of writes as its own end. This
//! task turns the notes into revocations of the model, which routers follow, and removes the notes afterwards: a kill in
//! between loses nothing.

use std::collections::BTreeMap;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use weft_kernel::{Caller, Failure};
use weft_model::entity::{Revocation, RevocationType};
use weft_model::{Base, Id, Timestamp};
use weft_store::{LiveStore, ReadError, Space};

use crate::handle::{Auth, WeakAuth};

/// The space of notes with sessions whose tokens are still to be revoked.
const UNREVOKED: Space = Space(3);
/// Revocations in one change of the model.
const BATCH: usize = 500;
/// Time until a change that failed is tried again.
const AGAIN: std::time::Duration = std::time::Duration::from_secs(1);

/// Ended sessions whose tokens are still to be revoked, each with the end of its last token.
#[derive(Default)]
pub(crate) struct Unrevoked {
    sessions: Mutex<BTreeMap<Id, Timestamp>>,
    more: Notify,
}

impl Unrevoked {
    /// Those that an earlier run left.
    pub(crate) fn load(live: &dyn LiveStore) -> Result<Self, ReadError> {
        let read = |(id, note): (String, Bytes)| {
            Some((Id::new(&id), Timestamp(i64::from_be_bytes(note[..].try_into().ok()?))))
        };
        let sessions = live.notes(UNREVOKED)?.into_iter().filter_map(read).collect();
        Ok(Self { sessions: Mutex::new(sessions), more: Notify::new() })
    }

    /// Adds a session whose tokens end at `end`.
    pub(crate) fn add(&self, live: &dyn LiveStore, session: &Id, end: Timestamp) {
        let note = Bytes::copy_from_slice(&end.0.to_be_bytes());
        live.put_note(UNREVOKED, session.as_str(), Some(note));
        self.sessions.lock().insert(session.clone(), end);
        self.more.notify_one();
    }

    fn first(&self) -> Vec<(Id, Timestamp)> {
        let sessions = self.sessions.lock();
        sessions.iter().take(BATCH).map(|(id, end)| (id.clone(), *end)).collect()
    }

    fn done(&self, live: &dyn LiveStore, revoked: &[(Id, Timestamp)]) {
        let mut sessions = self.sessions.lock();
        for (id, _) in revoked {
            sessions.remove(id);
            live.put_note(UNREVOKED, id.as_str(), None);
        }
    }
}

/// Revokes the tokens of ended sessions as long as the controller runs.
pub(crate) async fn follow_ends(weak: WeakAuth) {
    loop {
        let Some(auth) = weak.upgrade() else { return };
        let pending = auth.sessions().unrevoked().first();
        if pending.is_empty() {
            let unrevoked = std::sync::Arc::clone(auth.sessions().unrevoked());
            drop(auth);
            // The controller may stop meanwhile, which nobody tells.
            let _ = tokio::time::timeout(AGAIN, unrevoked.more.notified()).await;
            continue;
        }
        if let Err(error) = revoke(&auth, pending).await {
            tracing::warn!(%error, "the tokens of ended sessions are not revoked yet, and routers may accept them; it is tried again");
            drop(auth);
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// Writes the revocations of these sessions, as far as their tokens have not expired.
async fn revoke(auth: &Auth, pending: Vec<(Id, Timestamp)>) -> Result<(), Failure> {
    let now = auth.now();
    let due: Vec<_> = pending.iter().filter(|(_, end)| *end > now).cloned().collect();
    if !due.is_empty() {
        let decide = move |decision: &mut weft_kernel::decision::Decision<'_>| {
            for (id, end) in &due {
                decision.put(Revocation {
                    base: Base::new(id.clone(), decision.now()),
                    revocation_type: RevocationType::ApiSession,
                    expires_at: *end,
                    issued_before: None,
                });
            }
            Ok(())
        };
        auth.decide(&Caller::own("end of sessions"), decide).await?;
    }
    let live = auth.settings().store.live();
    auth.sessions().unrevoked().done(live, &pending);
    Ok(())
}
