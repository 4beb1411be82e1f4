//! What a controller hears of changes that others have made and that it does not have.
//!
//! A controller that cannot reach what all share goes on with its copy, and cannot know whether others write meanwhile.
//! Routers tell it: each controller seals the index of its data model, and routers of weft hand the highest one on
//! (docs/protocol/control-plane.md 30). Only a controller of the network can make a seal, so that no router stops a
//! controller by a number of its own. One that has been behind for too long would go on granting rights that were withdrawn:
//! it refuses logins and routers, which go to the others, until it has caught up.
//!
//! ```text
//!        a sealed index above the own revision          staleFor
//!  current ----------------------------------> behind ------------> outdated
//!     ^                                           |                     |
//!     +------------ the own revision reaches it --+---------------------+
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weft_kernel::{Failure, Result};

use crate::handle::Auth;

/// What was heard of the changes of others.
#[derive(Debug, Default)]
pub(crate) struct Newer {
    heard: Mutex<Heard>,
    outdated: AtomicBool,
}

/// The highest index that others have told, and since when it is above the own one.
#[derive(Debug, Default)]
struct Heard {
    index: u64,
    behind_since: Option<Instant>,
}

impl Heard {
    /// Compares with the own revision. True if the controller has been behind for this long.
    fn compare(&mut self, own: u64, now: Instant, stale_for: Duration) -> bool {
        if self.index <= own {
            self.behind_since = None;
            return false;
        }
        let since = *self.behind_since.get_or_insert(now);
        now.saturating_duration_since(since) >= stale_for
    }
}

/// What an index is sealed for.
fn subject(timeline: &str, index: u64) -> String {
    format!("index {index} of the data model of timeline {timeline}")
}

impl Auth {
    /// The seal of an index of the data model, for the other controllers; empty if there are none, or if no random numbers
    /// are to be had.
    pub fn seal_index(&self, timeline: &str, index: u64) -> Vec<u8> {
        match self.is_member() {
            true => self.0.sessions.seal(&subject(timeline, index)).unwrap_or_default(),
            false => Vec::new(),
        }
    }

    /// A router hands on an index that another controller has told. False if the seal is not that of a controller of this
    /// network.
    pub fn hear_index(&self, timeline: &str, index: u64, seal: &[u8]) -> bool {
        if !self.is_member() || !self.0.sessions.has_sealed(&subject(timeline, index), seal) {
            return false;
        }
        let mut heard = self.0.newer.heard.lock();
        heard.index = heard.index.max(index);
        true
    }

    /// Compares the revision that this controller has with the indexes that it has heard, which are revisions, too. To be
    /// called at intervals.
    pub fn compare_index(&self, own: u64, now: Instant) {
        let stale_for = self.kernel().settings().stale_for;
        let (is_outdated, heard) = {
            let mut heard = self.0.newer.heard.lock();
            (heard.compare(own, now, stale_for), heard.index)
        };
        let was = self.0.newer.outdated.swap(is_outdated, Ordering::AcqRel);
        match (was != is_outdated, is_outdated) {
            (true, true) => tracing::error!(
                own,
                heard,
                "other controllers have made changes that this one has not been able to read for {stale_for:?}: it refuses \
                 logins and routers until it has caught up. Look whether it reaches etcd"
            ),
            (true, false) => tracing::info!(
                own,
                "this controller has caught up with the others, and takes logins and routers again"
            ),
            (false, _) => {}
        }
    }

    /// Whether this controller has known less than others for so long that it refuses logins and routers.
    pub fn is_outdated(&self) -> bool {
        self.0.newer.outdated.load(Ordering::Acquire)
    }

    /// # Errors
    /// If this controller has known less than others for too long to let anybody in.
    pub(crate) fn admits_logins(&self) -> Result<()> {
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
        assert!(!heard.compare(0, after(0), long));
        heard.index = 8;
        for (own, at, expected) in [
            (7, 0, false),
            (7, 59, false),
            (7, 60, true),
            // Some of the changes are not all of them.
            (7, 70, true),
            (8, 71, false),
            (9, 500, false),
        ] {
            assert_eq!(heard.compare(own, after(at), long), expected, "{own} after {at} s");
        }
        heard.index = 12;
        assert!(!heard.compare(9, after(600), long), "the time begins anew");
        assert!(heard.compare(11, after(660), long));
    }
}
