//! The machine of adopted circuits under its lock.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::machine::Machine;
use crate::clock;

/// The machine of adopted circuits, shared by all tasks.
#[derive(Debug)]
pub(crate) struct Adoption {
    pub(super) machine: Mutex<Machine>,
    /// Notified when a path is to be looked at sooner than all before.
    pub(super) sooner: Notify,
    /// The start of the controller. Adopted circuits are older than all connections.
    pub(super) start: Instant,
    /// Until then, routers may not have connected since the start of the controller.
    pub(super) early_until: Instant,
}

impl Adoption {
    /// No circuits; the controller starts now.
    pub(crate) fn new(return_time: Duration) -> Self {
        let start = clock::now();
        let machine = Mutex::new(Machine::new(start, return_time));
        Self { machine, sooner: Notify::new(), start, early_until: start + return_time }
    }
}
