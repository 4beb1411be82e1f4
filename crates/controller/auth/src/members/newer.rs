//! What a controller hears of changes that others have made and that it does not have.
//!
//! A controller that cannot reach etcd goes on with its copy, and cannot know whether others write meanwhile. Routers
//! tell it: each controller seals its revision, and routers of weft hand the highest one on
//! (docs/protocol/control-plane.md 30). Only a controller of the network can make a seal, so that no router stops a
//! controller by a number of its own. One that has been behind for too long would go on granting rights that were
//! withdrawn: it refuses logins and routers, which go to the others, until it has caught up. A controller that reaches
//! etcd asks there first: the revision may be of a state that was lost, for example when etcd was put back from a backup.
//!
//! ```text
//!           a sealed revision above the own one      staleFor, and etcd has more or is not reached
//!  current -----------------------------------> behind -----------------------------------> outdated
//!     ^                                            |                                             |
//!     +-- the own revision reaches it, or etcd says that the own one is the newest --------------+
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weft_kernel::{Failure, Result};
use weft_store::CommitError;

use crate::handle::Auth;

/// What was heard of the changes of others.
#[derive(Debug, Default)]
pub(crate) struct Newer {
    heard: Mutex<Heard>,
    outdated: AtomicBool,
}

/// The highest revision that others have told, and since when it is above the own one.
#[derive(Debug, Default)]
struct Heard {
    revision: u64,
    behind_since: Option<Instant>,
}

impl Heard {
    /// Compares with the own revision. True if the controller has been behind for this long; one whose history others do not
    /// share lacks whatever they write.
    fn compare(
        &mut self,
        (own, is_left_behind): (u64, bool),
        now: Instant,
        stale_for: Duration,
    ) -> bool {
        if self.revision <= own && !is_left_behind {
            self.behind_since = None;
            return false;
        }
        let since = *self.behind_since.get_or_insert(now);
        now.saturating_duration_since(since) >= stale_for
    }
}

/// What a revision is sealed for.
fn subject(timeline: &str, revision: u64) -> String {
    format!("revision {revision} of timeline {timeline}")
}

/// How long the question may take whether the own revision is the newest.
const ASK: Duration = Duration::from_secs(2);

impl Auth {
    /// The seal of a revision, for the other controllers. None of a controller that is alone, or that is cut off and cannot
    /// say whether its revision is one of the network.
    pub fn seal_revision(&self, timeline: &str, revision: u64) -> Option<Vec<u8>> {
        let is_together = self.is_member() && !self.is_cut_off();
        is_together.then(|| self.0.sessions.seal(&subject(timeline, revision))).flatten()
    }

    /// A router hands on a revision that another controller has told. False if the seal is not that of a controller of this
    /// network.
    pub fn hear_revision(&self, timeline: &str, revision: u64, seal: &[u8]) -> bool {
        if !self.is_member() || !self.0.sessions.has_sealed(&subject(timeline, revision), seal) {
            return false;
        }
        let mut heard = self.0.newer.heard.lock();
        heard.revision = heard.revision.max(revision);
        true
    }

    /// Compares the revision that this controller has with those that it has heard. To be called at intervals.
    pub async fn compare_revision(&self, now: Instant) {
        let own = self.kernel().snapshot().revision();
        let stale_for = self.kernel().settings().stale_for;
        let is_left_behind = self.is_left_behind();
        let (is_behind, heard) = {
            let mut heard = self.0.newer.heard.lock();
            (heard.compare((own.0, is_left_behind), now, stale_for), heard.revision)
        };
        let is_newest = is_behind && !is_left_behind && {
            let asked = self.kernel().settings().store.confirm(own);
            match tokio::time::timeout(ASK, asked).await {
                Ok(Ok(())) => true,
                // Others write on, and have not come that far either.
                Ok(Err(CommitError::Stale { head })) => head.0 < heard,
                _ => false,
            }
        };
        if is_newest {
            tracing::warn!(
                %own, heard,
                "a router has told of changes that etcd does not have: they were lost, or somebody has the key of the tokens of sessions"
            );
            *self.0.newer.heard.lock() = Heard::default();
        }
        let is_outdated = is_behind && !is_newest;
        let was = self.0.newer.outdated.swap(is_outdated, Ordering::AcqRel);
        match (was != is_outdated, is_outdated) {
            (true, true) => tracing::error!(
                %own, heard,
                "other controllers have made changes that this one has not been able to read for {stale_for:?}: it refuses \
                 logins and routers until it has caught up. Look whether it reaches etcd"
            ),
            (true, false) => tracing::info!(
                %own,
                "this controller has caught up with the others, and takes logins and routers again"
            ),
            (false, _) => {}
        }
    }

    /// Whether others write a history that is not the one of this controller. If nobody writes, all of them go on with what
    /// they have.
    fn is_left_behind(&self) -> bool {
        let store = &self.kernel().settings().store;
        let own = store.presence().run;
        let others_write = || {
            let alive = store.alive()?;
            let alive = alive.borrow();
            Some(alive.is_heard && alive.controllers.iter().any(|it| it.run != own && it.writes))
        };
        store.standing().has_diverged && others_write().unwrap_or_default()
    }

    /// Whether this controller has known less than others for so long that it refuses logins and routers.
    pub fn is_outdated(&self) -> bool {
        self.0.newer.outdated.load(Ordering::Acquire)
    }

    /// # Errors
    /// If this controller has known less than others for too long to let anybody in, or may sign nothing.
    pub(crate) fn admits_logins(&self) -> Result<()> {
        self.may_sign()?;
        match self.is_outdated() {
            true => Err(Failure::unwritable(
                "this controller has not been able to read what others have changed: log in at another one",
            )),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_is_outdated_when_it_was_behind_for_long() {
        let (begun, long) = (Instant::now(), Duration::from_secs(60));
        let after = |seconds| begun + Duration::from_secs(seconds);
        let mut heard = Heard::default();
        assert!(!heard.compare((0, false), after(0), long));
        heard.revision = 8;
        for (own, at, expected) in [
            (7, 0, false),
            (7, 59, false),
            (7, 60, true),
            // Some of the changes are not all of them.
            (7, 70, true),
            (8, 71, false),
            (9, 500, false),
        ] {
            assert_eq!(
                heard.compare((own, false), after(at), long),
                expected,
                "{own} after {at} s"
            );
        }
        heard.revision = 12;
        assert!(!heard.compare((9, false), after(600), long), "the time begins anew");
        assert!(heard.compare((11, false), after(660), long));
        // Others write another history, whatever their revision.
        let mut heard = Heard::default();
        assert!(!heard.compare((11, true), after(700), long));
        assert!(heard.compare((11, true), after(760), long));
        assert!(!heard.compare((11, false), after(761), long));
    }
}
