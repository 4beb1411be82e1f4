//! Holds changes of terminators that cannot be written, and writes them later: the part of [`Kernel`] over
//! [`held`](super::held).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use weft_contract::ErrorCode;
use weft_model::{Change, Id, Snapshot};
use weft_store::Sharing;

use crate::caller::Caller;
use crate::decision::Decision;
use crate::failure::{Failure, Result};
use crate::held::{HeldChange, HeldTeller, KIND};
use crate::kernel::Kernel;
use crate::standing;

/// Longest wait until another controller was told a change.
const TELLING: Duration = Duration::from_millis(300);

impl Kernel {
    /// The durable model with the changes of terminators that are held.
    pub fn with_held(&self) -> Arc<Snapshot> {
        match self.holds_any() {
            true => {
                let mut state = self.held().state.lock();
                // Read under the lock: what is not held any more is in it.
                state.view(&self.snapshot())
            }
            false => self.snapshot(),
        }
    }

    /// Whether this controller shares the network with others, and does not hear of their changes.
    pub fn is_cut_off(&self) -> bool {
        self.settings().store.live().sharing() == Sharing::CutOff
    }

    /// Whether changes cannot be written now, in a network that controllers share.
    pub fn cannot_write(&self) -> bool {
        let store = &self.settings().store;
        store.live().sharing() != Sharing::Alone && store.standing().obstacle.is_some()
    }

    /// Decides changes of terminators as [`Self::decide`] does. If they cannot be written, or if what is held may be about
    /// the same terminators, they are decided on the durable model with what is held, and held.
    ///
    /// # Errors
    /// The refusal of `decide`; 503 if too many changes are held; 500 if a change concerns something else than
    /// terminators or contradicts the model.
    pub async fn decide_or_hold(
        &self,
        caller: &Caller,
        decide: impl Fn(&mut Decision<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> Result<()> {
        let decide = Arc::new(decide);
        if !self.holds_any() {
            let durably = Arc::clone(&decide);
            match self.decide(caller, move |decision| durably(decision)).await {
                Err(failure) if was_not_written(&failure) && self.cannot_write() => {}
                done => return done.map(drop),
            }
        }
        let number = self.hold(caller, &*decide)?;
        // Then it is lost only with two controllers.
        if self.held().tellers.load(Ordering::Acquire) > 0 && self.cannot_write() {
            let mut told = self.held().told.subscribe();
            let _ = tokio::time::timeout(TELLING, told.wait_for(|told| *told >= number)).await;
        }
        Ok(())
    }

    /// Says that another controller is told what is held here, until the result is dropped.
    pub fn held_teller(&self) -> HeldTeller {
        self.held().tellers.fetch_add(1, Ordering::AcqRel);
        HeldTeller(Arc::clone(self.held()))
    }

    /// The number of the last change that is held after this.
    fn hold(
        &self,
        caller: &Caller,
        decide: &dyn Fn(&mut Decision<'_>) -> Result<()>,
    ) -> Result<u64> {
        let now = self.now();
        caller.begin()?;
        let mut state = self.held().state.lock();
        let durable = self.snapshot();
        let view = state.view(&durable);
        standing::check(caller, &view, now)?;
        let mut decision = Decision::new(&view, caller, now);
        decide(&mut decision)?;
        let changes = decision.finish()?.changes;
        if changes.iter().any(|change| change.kind() != KIND) {
            return Err(Failure::unhandled("only changes of terminators are held"));
        }
        if !changes.is_empty() {
            state.hold(&durable, now, changes)?;
        }
        self.held().changed(&state);
        Ok(state.last)
    }

    /// Holds what another controller holds, unless something as new is known here. There is no error: what has no room is
    /// left out, and is written by the other controller.
    pub fn hold_theirs(&self, changes: impl IntoIterator<Item = HeldChange>) {
        let now = (!self.cannot_write()).then(|| self.now());
        let mut state = self.held().state.lock();
        let durable = self.snapshot();
        for theirs in changes.into_iter().filter(|theirs| theirs.change.kind() == KIND) {
            state.hold_theirs(&durable, theirs, now);
        }
        self.held().changed(&state);
    }

    /// The number of the last change that was held.
    pub fn last_held(&self) -> watch::Receiver<u64> {
        self.held().last.subscribe()
    }

    /// Whether any change is held.
    pub fn holds_any(&self) -> bool {
        self.held().any.load(Ordering::Acquire)
    }

    /// The changes that are held with higher numbers than this one, the first ones of them.
    pub fn held_after(&self, number: u64, most: usize) -> Vec<HeldChange> {
        let state = self.held().state.lock();
        let after = state.order.range(number.saturating_add(1)..).take(most);
        after.filter_map(|(_, id)| state.changes.get(id).cloned()).collect()
    }

    /// Writes the changes that have been held for the longest time, at most so many, and drops those that contradict the
    /// model. Returns how many were written.
    ///
    /// # Errors
    /// 503 if they cannot be written, another error if one of them is refused. They are held on then.
    pub async fn write_held(&self, most: usize) -> Result<usize> {
        let taken = Arc::new(Mutex::new((Vec::new(), 0)));
        let (kernel, told) = (self.clone(), Arc::clone(&taken));
        let caller = Caller::own("changes of terminators while etcd could not be written");
        self.decide(&caller, move |decision| {
            // Read now: others may have written some of them, or ended what they are about.
            let held = kernel.held_after(0, most);
            let (tip, mut written) = (decision.tip(), 0);
            for change in held.iter().filter_map(|it| it.settled(tip)) {
                written += 1;
                match change {
                    Change::Put(terminator) => decision.put(terminator),
                    Change::Delete(kind, id) => decision.delete(kind, &id)?,
                    Change::Cold { .. } => {}
                }
            }
            *told.lock() = (held.iter().map(|it| it.number).collect(), written);
            Ok(())
        })
        .await?;
        let (taken, written) = std::mem::take(&mut *taken.lock());
        self.drop_held(&taken);
        Ok(written)
    }

    /// Holds the change no longer that has been held for the longest time: it is refused. Returns what it was about.
    pub fn drop_first_held(&self) -> Option<Id> {
        let first = self.held_after(0, 1).pop()?;
        self.drop_held(&[first.number]);
        Some(first.change.id().clone())
    }

    fn drop_held(&self, numbers: &[u64]) {
        let mut state = self.held().state.lock();
        numbers.iter().for_each(|number| state.release(*number));
        // What was dropped is to be seen no more.
        state.view = None;
        self.held().changed(&state);
    }
}

/// Whether a change failed because the log could not be written.
fn was_not_written(failure: &Failure) -> bool {
    matches!(failure.code(), ErrorCode::ClusterNoLeader | ErrorCode::OutcomeUnknown)
}
