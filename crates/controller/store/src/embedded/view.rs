//! Reads while the file cannot be opened again.
//!
//! Opening a file writes to it, which a full disk may refuse even for blocks that exist (file systems
//! that copy on write). The commit that counts is whole all the same, and a view shows it: the file
//! opened with all writes kept in memory. A view does not tell whether a refused commit happened,
//! because only the next opening of the file decides that; so the log is not read from it.

use std::sync::atomic::Ordering;
use std::time::Instant;

use parking_lot::{RwLockReadGuard, RwLockWriteGuard};
use redb::Database;

use super::failure::{Failure, guarded};
use super::file::{Opening, Shared};

impl Shared {
    /// Runs `work` as [`Shared::read`] does, or on a view if the file cannot be opened again. For values
    /// that do not depend on which of the last commits counts.
    pub(super) fn look<T>(
        &self,
        mut work: impl FnMut(&Database) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let failure = match self.read(&mut work) {
            Err(failure) if failure.breaks() => failure,
            done => return done,
        };
        let view = self.view();
        match view.as_ref().and_then(|view| view.as_ref()) {
            Some(database) => guarded(|| work(database)),
            // Somebody has opened it meanwhile.
            None if !self.broken.load(Ordering::Acquire) => self.read(work),
            None => Err(failure),
        }
    }

    /// The view, which is opened if there is none.
    fn view(&self) -> Option<RwLockReadGuard<'_, Option<Database>>> {
        let view = self.view.read();
        if view.is_some() {
            return Some(view);
        }
        drop(view);
        // Nobody opens the file again meanwhile.
        let database = self.database.write();
        if database.is_some() || self.closed.load(Ordering::Acquire) {
            return None;
        }
        let mut view = self.view.write();
        if view.is_none() {
            self.viewing.check(Instant::now()).ok()?;
            let opened = guarded(|| (self.open)(Opening::ToRead));
            self.viewing.note(opened.as_ref());
            *view = Some(opened.ok()?);
            tracing::warn!(file = %self.path().display(), "the store cannot be opened for writing; it is read as it is");
        }
        Some(RwLockWriteGuard::downgrade(view))
    }
}
