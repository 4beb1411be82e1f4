//! Writes the changes of terminators that are held ([`Kernel::hold_theirs`](weft_kernel::Kernel::hold_theirs)) once etcd
//! can be written again. Every controller writes what it holds; whatever another one has written changes nothing.

use std::time::Duration;

use weft_kernel::{Caller, Failure};
use weft_model::{Change, Kind};

use crate::network::Network;

/// Most changes in one change set.
const BATCH: usize = 200;
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(250);

impl Network {
    /// Waits for changes that are held, and writes them; never returns.
    pub(crate) async fn write_held(self) {
        let kernel = &self.0.kernel;
        let (mut last, mut most) = (kernel.last_held(), BATCH);
        loop {
            last.mark_unchanged();
            if !kernel.holds_any() {
                if last.changed().await.is_err() {
                    return;
                }
                continue;
            }
            if kernel.is_cut_off() {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            most = match self.try_write_held(most).await {
                Ok(()) => BATCH,
                Err(failure) if matches!(failure.status(), 429 | 503) => {
                    tracing::debug!(%failure, "changes of terminators are held on");
                    tokio::time::sleep(PAUSE).await;
                    most
                }
                // One of them is refused: the others are written by themselves.
                Err(_) => 1,
            };
        }
    }

    async fn try_write_held(&self, most: usize) -> Result<(), Failure> {
        let kernel = &self.0.kernel;
        let held = kernel.held_after(0, most);
        let numbers: Vec<u64> = held.iter().map(|it| it.number).collect();
        let (first, count) = (held.first().map(|it| it.change.id().clone()), held.len());
        let caller = Caller::own("changes of terminators while etcd could not be written");
        let done = kernel.decide(&caller, move |decision| {
            let tip = decision.tip();
            for change in held.iter().filter_map(|it| it.settled(tip)) {
                match change {
                    Change::Put(terminator) => decision.put(terminator.clone()),
                    Change::Delete(_, id) => decision.delete(Kind::Terminator, id)?,
                    Change::Cold { .. } => {}
                }
            }
            Ok(())
        });
        match done.await {
            Ok(_) => {
                tracing::info!(
                    count,
                    "changes of terminators are written that were made while etcd could not be written"
                );
            }
            Err(failure) if count > 1 || matches!(failure.status(), 429 | 503) => {
                return Err(failure);
            }
            Err(failure) => {
                tracing::warn!(terminator = ?first, %failure, "the change of a terminator that was made while etcd could not be written is refused, and is dropped");
            }
        }
        kernel.release_held(numbers);
        Ok(())
    }
}
