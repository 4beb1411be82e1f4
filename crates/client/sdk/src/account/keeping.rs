//! Keeps the session of the identity from its end: refreshes its tokens in time, and tells who shows them to routers
//! (docs/protocol/auth.md 15.5, docs/protocol/sdk.md 11.1).

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use weft_client::chain;

use super::Account;
use crate::jitter::jittered;
use crate::shown::Shown;

/// The first and the longest wait after a refresh that failed.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

impl Account {
    /// The session as it is shown to routers, once logged in.
    pub(crate) fn shown(&self) -> Option<Shown> {
        self.api().ok().and_then(Shown::of)
    }

    /// The session that was shown last, and every other session and token after it.
    pub(crate) fn shown_changes(&self) -> watch::Receiver<Option<Shown>> {
        self.shown.subscribe()
    }

    /// [`Account::shown`], also for [`Account::shown_changes`].
    pub(crate) fn show(&self) -> Option<Shown> {
        self.publish();
        self.shown()
    }

    fn publish(&self) {
        self.shown.send_if_modified(|shown| {
            // Asked for while nobody else publishes, so that the newest one stays. Between two sessions the former one is
            // shown.
            let now = self.shown().filter(|now| shown.as_ref() != Some(now));
            let is_new = now.is_some();
            *shown = now.or_else(|| shown.take());
            is_new
        });
    }

    /// Keeps the session from its end, for as long as the endpoint exists.
    pub(crate) async fn keep_session(&self) {
        let mut failures = 0;
        let mut not_before = Instant::now();
        loop {
            let Ok(used) = self.used() else { return };
            let mut changes = used.api.session_changes();
            self.publish();
            let due = used.api.refresh_due();
            let due = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due.max(not_before)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = changes.changed() => continue,
                () = self.turned.notified() => continue,
                () = due => {}
            }
            let former = used.api.session_key();
            let Err(problem) = used.api.refresh().await else {
                failures = 0;
                if former != used.api.session_key() {
                    tracing::debug!(identity = self.identity_name(), "logged in again");
                }
                continue;
            };
            let (first, longest) = WAITS;
            let wait = first.saturating_mul(1 << failures.min(10)).min(longest);
            failures += 1;
            not_before = Instant::now() + jittered(wait);
            tracing::debug!(problem = chain(&problem), "the session could not be refreshed");
        }
    }
}
