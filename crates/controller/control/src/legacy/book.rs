//! Decides which router is told of which sessions.
//!
//! ```text
//! notices of sessions --+                      +--> `Pending` of a router --> its feed
//!                       +--> [`Book`], one task+--> `Pending` of another
//! changes of the model -+
//! ```
//!
//! A router is told of a session only while edge router policies let the session's identity use the
//! router. Each session is encoded once. The notices to each router depend on three things that
//! change together, under one lock: the sessions, the snapshot with the policies, and the
//! identities that each connected router serves in that snapshot.

mod changes;
mod state;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;
use state::{Feed, State};
pub(super) use state::{SessionCursor, Written};
use weft_auth::Auth;
use weft_auth::sessions::{SessionNotice, SessionSubscription};
use weft_kernel::{Notice, Subscription};
use weft_model::entity::Router;
use weft_model::{Id, Snapshot};
use weft_wire::edge_ctrl::AddedSessions;

use super::pending::{Batch, Pause, Pending};

/// Ended service sessions that all routers are told of while the lock is held once: with 2,000
/// routers it takes some 10 ms, for which the requests of routers wait.
const ENDS: usize = 50;
/// Ended sessions that all routers are told of while the lock is held once. Routers share a list of
/// them.
const ENDS_TOGETHER: usize = 500;

/// Sessions, routers, and which router is told of which session.
pub(crate) struct Book {
    controller: Auth,
    state: RwLock<State>,
    /// Number of attached routers.
    attached: AtomicUsize,
}

/// The notices to a router over one connection; dropping it ends them.
pub(super) struct Attached {
    book: Arc<Book>,
    connection: u64,
    pending: Arc<Pending>,
    pause: Pause,
    /// Sessions with this number or a higher one are newer, and come as notices.
    later: u64,
}

impl Attached {
    /// The next notices, about `most` sessions at most; none if the router has to be told everything
    /// again.
    pub(super) async fn next(&mut self, most: usize) -> Option<Batch> {
        self.pause.over().await;
        let batch = self.pending.next(most).await?;
        let ended: usize = batch.ended.iter().map(|ended| ended.sessions.len()).sum();
        let sessions = ended + batch.removed.len() + batch.added.len() + batch.updated.len();
        let routers = self.book.attached.load(Ordering::Relaxed);
        self.pause.begin(sessions >= most, routers);
        Some(batch)
    }

    /// Notes that all sessions of the router were written.
    pub(super) fn reported(&self) {
        self.pending.reported();
    }

    /// Writes sessions that the router may know and that existed when it was attached, from a place
    /// on, until the message is full or enough was examined.
    pub(super) fn write(
        &self,
        from: SessionCursor,
        message: &mut AddedSessions,
        full: usize,
    ) -> Written {
        self.book.state.read().write((self.connection, self.later), from, message, full)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.book.attached.fetch_sub(1, Ordering::Relaxed);
        // The router may have been attached again meanwhile.
        let mut state = self.book.state.write();
        let is_own = |feed: &Feed| Arc::ptr_eq(&feed.pending, &self.pending);
        if state.feeds.get(&self.connection).is_some_and(is_own) {
            state.feeds.remove(&self.connection);
        }
    }
}

impl Book {
    /// A book of the current sessions, and the task that follows the changes.
    pub(crate) fn open(controller: Auth) -> (Arc<Self>, impl Future<Output = ()> + Send) {
        // The subscription begins before the sessions are listed, so that none is missed.
        let notices = controller.sessions().subscribe();
        let (snapshot, changes) = controller.kernel().subscribe();
        let mut state = State::new(snapshot);
        controller.legacy_sessions().into_iter().for_each(|it| state.put(it));
        let (state, attached) = (RwLock::new(state), AtomicUsize::new(0));
        let book = Arc::new(Self { controller, state, attached });
        let following = Arc::clone(&book).follow(notices, changes);
        (book, following)
    }

    async fn follow(self: Arc<Self>, mut notices: SessionSubscription, mut changes: Subscription) {
        loop {
            tokio::select! {
                notice = notices.next() => match notice {
                    Some(notice) => self.on_notice(notice).await,
                    None => return,
                },
                change = changes.next() => match change {
                    Some(Notice::Change(published)) => self.state.write().on_change(&published),
                    Some(Notice::Resync(snapshot)) => self.start_over(Some(snapshot)).await,
                    None => return,
                },
            }
        }
    }

    async fn on_notice(self: &Arc<Self>, notice: SessionNotice) {
        match notice {
            SessionNotice::Added(session) | SessionNotice::Updated(session) => {
                let shown = self.controller.legacy_session(&session);
                let mut state = self.state.write();
                match shown {
                    Some(shown) => state.put(shown),
                    // The session lacks a factor now, so that for routers it has ended.
                    None => state.remove(std::slice::from_ref(&session.base.id)),
                }
            }
            SessionNotice::Removed(ended) => {
                for some in ended.chunks(ENDS_TOGETHER) {
                    self.state.write().remove(some);
                    tokio::task::yield_now().await;
                }
            }
            SessionNotice::ServiceRemoved(ended) => {
                for some in ended.chunks(ENDS) {
                    self.state.write().services_ended(some, |_| true);
                    tokio::task::yield_now().await;
                }
            }
            // One end of a session is no work for every router that knows what to do by itself.
            SessionNotice::ServicesOfTokens(ended) => {
                if !self.state.read().feeds.values().any(|feed| feed.is_old) {
                    return;
                }
                for some in ended.chunks(ENDS) {
                    self.state.write().services_ended(some, |feed| feed.is_old);
                    tokio::task::yield_now().await;
                }
            }
            SessionNotice::Resync => self.start_over(None).await,
        }
    }

    /// Changes were missed, or most sessions have ended: all routers are told everything again. There may be so many sessions
    /// that it is done on a thread for long work.
    async fn start_over(self: &Arc<Self>, snapshot: Option<Arc<Snapshot>>) {
        let book = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || book.begin_again(snapshot)).await;
        if let Err(error) = done {
            tracing::error!(%error, "routers are not told of all sessions again; restart the controller");
        }
    }

    fn begin_again(&self, snapshot: Option<Arc<Snapshot>>) {
        // Opening the tokens of all sessions takes long: routers do not wait for it.
        let sessions = self.controller.legacy_sessions();
        let mut state = self.state.write();
        if let Some(snapshot) = snapshot {
            state.snapshot = snapshot;
        }
        state.clear();
        sessions.into_iter().for_each(|it| state.put(it));
    }

    /// Attaches a connected router, so that it is told of changes from now on; an earlier
    /// attachment of this connection ends. `is_old` says whether it is older than 2.0.
    pub(super) fn attach(self: &Arc<Self>, router: &Id, connection: u64, is_old: bool) -> Attached {
        let mut state = self.state.write();
        let later = state.numbers;
        let pending = Arc::new(Pending::new(later, state.together.clone()));
        let feed = Feed {
            router: router.clone(),
            is_old,
            ordinal: state.snapshot.ordinal_of::<Router>(router),
            allowed: state.snapshot.identities_of_router(router),
            pending: Arc::clone(&pending),
        };
        state.feeds.insert(connection, feed);
        drop(state);
        self.attached.fetch_add(1, Ordering::Relaxed);
        Attached { book: Arc::clone(self), connection, pending, pause: Pause::default(), later }
    }

    /// Which of these sessions a router may know.
    pub(super) fn may_know(&self, router: &Id, sessions: &[Id]) -> Vec<bool> {
        let state = self.state.read();
        let allowed = state.snapshot.identities_of_router(router);
        let may = |id: &Id| {
            let ordinal = state.sessions.get(id).and_then(|known| known.ordinal);
            ordinal.is_some_and(|ordinal| allowed.contains(ordinal))
        };
        sessions.iter().map(may).collect()
    }
}

#[cfg(test)]
mod tests;
