//! Whether the clock of this controller agrees with those of the others.
//!
//! Tokens and certificates say when they begin and end, and a revocation says which tokens it ends. A controller whose
//! clock is wrong would sign what the others and routers take for ended, or for good for too long: it says so, and signs
//! nothing while its clock is far off. Most controllers are right; of two nobody can say which one is wrong.

use std::sync::atomic::Ordering;

use weft_kernel::{Failure, Result};
use weft_model::Timestamp;
use weft_store::Alive;

use super::clock_watch::{Clock, RIGHT, judge};
use crate::handle::Auth;

impl Auth {
    /// Compares the clock of this controller with those of the others. To be called at intervals.
    pub fn compare_clock(&self) {
        let Some(alive) = self.kernel().settings().store.alive() else { return };
        let alive = alive.borrow().clone();
        // What was known last stays while nobody is heard of.
        if !alive.is_heard {
            return;
        }
        let error = alive.clocks.own_error();
        // What was said while there were more goes on to count.
        let is_judged = !alive.clocks.is_disputed(RIGHT);
        match is_judged.then(|| judge(&self.0.clock.own, error)).flatten() {
            Some(Clock::FarOff) => tracing::error!(
                ahead_by_seconds = seconds(error),
                "the clock of this controller differs from those of the others: it signs no tokens and certificates until \
                 its clock is right. Have the machine get the time from a time server"
            ),
            Some(Clock::Off) => tracing::warn!(
                ahead_by_seconds = seconds(error),
                "the clock of this controller differs from those of the others: tokens may end too early or too late. Have \
                 the machine get the time from a time server"
            ),
            Some(Clock::Right) => {
                tracing::info!("the clock of this controller agrees with the others again")
            }
            None => {}
        }
        self.compare_clocks_of_others(&alive);
    }

    fn compare_clocks_of_others(&self, alive: &Alive) {
        let Some((run, ahead)) = alive.clocks.farthest() else { return };
        let controller =
            alive.controllers.iter().find(|it| it.run == run).map(|it| it.name.as_str());
        let changed = judge(&self.0.clock.others, ahead);
        let Some(controller) = controller.filter(|_| changed.is_some_and(|it| it != Clock::Right))
        else {
            return;
        };
        tracing::warn!(
            controller,
            ahead_by_seconds = seconds(ahead),
            "the clock of another controller differs from the one of this controller"
        );
    }

    /// The time by which something ends for all controllers: that of the clock in the middle, or of the slower one of two.
    /// None while it is not known what the clocks of the others show.
    pub(crate) fn agreed_now(&self) -> Option<Timestamp> {
        let (now, store) = (self.kernel().now(), &self.kernel().settings().store);
        let Some(alive) = store.alive().filter(|_| store.presence().run != 0) else {
            return Some(now);
        };
        let alive = alive.borrow();
        let is_known = alive.is_heard && alive.clocks.is_complete();
        is_known.then(|| Timestamp(now.0.saturating_sub(alive.clocks.own_lead())))
    }

    /// Whether the clock of this controller is so wrong that it signs nothing.
    pub fn is_clock_far_off(&self) -> bool {
        Clock::of(self.0.clock.own.load(Ordering::Acquire)) == Clock::FarOff
    }

    /// # Errors
    /// If the clock of this controller is so wrong that nothing may be signed with its time.
    pub(crate) fn may_sign(&self) -> Result<()> {
        match self.is_clock_far_off() {
            true => Err(Failure::unwritable(
                "the clock of this controller is wrong, so that it signs nothing: ask another one",
            )),
            false => Ok(()),
        }
    }
}

fn seconds(millis: i64) -> f64 {
    millis as f64 / 1e3
}
