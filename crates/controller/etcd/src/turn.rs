//! The turn of a controller that has lost too often.
//!
//! Of controllers that append at once one is first, and the others decide again on what it has written. One that is far
//! from etcd would lose against busy ones that are near it for as long as these write. So after some losses in a row it
//! takes the turn: a key of which every append of another controller demands that it is not there. The key is there only
//! while that controller reads what was written last, decides and appends, which deletes the key.
//!
//! ```text
//!  nobody has it ──a controller loses the third time──> it has it ──its append, 1 s, the end of the lease──> nobody
//! ```

use std::time::Duration;

use parking_lot::Mutex;

/// The interval at which others look whether the turn is over, and how long they do.
pub(crate) const LOOK: Duration = Duration::from_millis(20);
pub(crate) const PATIENCE: Duration = Duration::from_millis(1_400);

/// Whether this controller has the turn.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// The revision of etcd that has made the key.
    held: Mutex<Option<i64>>,
}

impl Turn {
    pub(crate) fn held(&self) -> Option<i64> {
        *self.held.lock()
    }

    pub(crate) fn begins(&self, revision: i64) {
        *self.held.lock() = Some(revision);
    }

    /// An append was accepted, which has deleted the key.
    pub(crate) fn over(&self) {
        *self.held.lock() = None;
    }

    /// The key is gone without an append.
    pub(crate) fn lost(&self, revision: i64) -> bool {
        let mut held = self.held.lock();
        let is_same = *held == Some(revision);
        if is_same {
            *held = None;
        }
        is_same
    }
}
