//! The machine of the presence of routers under its lock.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::machine::{Input, Machine, Output};
use crate::clock;

/// The machine of the presence of routers, shared by all tasks.
#[derive(Debug)]
pub(crate) struct SharedMachine {
    pub(super) machine: Mutex<Machine>,
    /// Held while it is carried out what follows from a connection or its end, so that the end of one connection does
    /// not undo what the next one reported.
    pub(super) coming_or_going: Mutex<()>,
    /// Notified when something is due sooner than all before.
    pub(super) sooner: Notify,
}

impl SharedMachine {
    pub(crate) fn new(churn_limit: Duration, report_time: Duration) -> Self {
        let machine = Mutex::new(Machine::new(churn_limit, report_time));
        Self { machine, coming_or_going: Mutex::default(), sooner: Notify::new() }
    }

    /// Gives the machine an input, and says what follows from it.
    pub(super) fn step(&self, input: Input<'_>) -> Vec<Output> {
        let mut machine = self.machine.lock();
        let before = machine.next_due();
        let outputs = machine.step(clock::now(), input);
        let next = machine.next_due();
        drop(machine);
        if next.is_some_and(|next| before.is_none_or(|before| next < before)) {
            self.sooner.notify_one();
        }
        outputs
    }
}
