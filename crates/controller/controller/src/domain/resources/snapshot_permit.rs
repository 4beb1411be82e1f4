//! Limits snapshots of the database: one at a time, and [`PAUSE`] from the start of one to the next.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use weft_contract::ErrorCode;
use weft_kernel::{Failure, Result};
use weft_model::Timestamp;

/// Shortest time from the start of a snapshot that was written to the start of the next one.
pub(crate) const PAUSE: Duration = Duration::from_secs(60);

/// Whether a snapshot is being written, and when the last one was begun.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshots(Arc<Mutex<State>>);

#[derive(Debug, Default)]
pub(crate) struct State {
    writing: bool,
    last: Option<Timestamp>,
}

/// The right to write a snapshot; it ends when it is dropped.
pub(crate) struct SnapshotPermit(Snapshots);

impl Snapshots {
    /// Takes the right to write a snapshot; fails while another one is written, and for [`PAUSE`]
    /// after the start of the last one.
    pub(crate) fn permit(&self, now: Timestamp) -> Result<SnapshotPermit> {
        let mut state = self.0.lock();
        if state.writing {
            let reason = "a snapshot is being written";
            return Err(Failure::because(ErrorCode::RateLimited, reason));
        }
        // A clock that was set back since the last snapshot ends the pause.
        let last = state.last.filter(|last| *last <= now);
        let left = last.map_or(Duration::ZERO, |last| PAUSE.saturating_sub(now.since(last)));
        if !left.is_zero() {
            let reason = format!("the last snapshot is less than {} s old", PAUSE.as_secs());
            let failure = Failure::because(ErrorCode::RateLimited, reason);
            return Err(failure.with_retry_after(left));
        }
        state.writing = true;
        Ok(SnapshotPermit(self.clone()))
    }
}

impl SnapshotPermit {
    pub(crate) fn written(&self, now: Timestamp) {
        self.0.0.lock().last = Some(now);
    }
}

impl Drop for SnapshotPermit {
    fn drop(&mut self) {
        self.0.0.lock().writing = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_keeps_no_snapshot_waiting() {
        let (snapshots, now) = (Snapshots::default(), Timestamp(1_000_000));
        snapshots.permit(now).unwrap().written(now);
        assert!(snapshots.permit(now).is_err());
        assert!(snapshots.permit(now.plus(PAUSE - Duration::from_millis(1))).is_err());
        assert!(snapshots.permit(now.plus(PAUSE)).is_ok());
        assert!(snapshots.permit(Timestamp(now.0 - 3_600_000)).is_ok());
    }
}
