//! The routes that wait for a worker, and the reports that wait for controllers.

use std::sync::Arc;

use weft_metrics::Histogram;
use weft_wire::Message;

use super::dial_slots::DialSlots;
use crate::control::faults::{Faults, Holds};
use crate::seam::ControllerId;

/// The routes that wait for a worker, and the reports that wait for controllers.
#[derive(Debug)]
pub(crate) struct Routes {
    /// The slots of routes that dial.
    pub(in crate::control) dial_slots: Arc<DialSlots>,
    /// Reports that wait for controllers.
    pub(super) faults: Faults,
    /// How long it took to set routes up.
    pub(super) times: Arc<Histogram>,
}

impl Routes {
    pub(crate) fn new(workers: usize, queue: usize) -> Self {
        Self {
            dial_slots: DialSlots::new(workers, queue),
            faults: Faults::default(),
            times: Arc::new(Histogram::times()),
        }
    }

    /// How long it took to set routes up.
    pub(in crate::control) fn times(&self) -> Arc<Histogram> {
        Arc::clone(&self.times)
    }

    /// Queues a report of a link for a controller, in order with its other reports.
    pub(in crate::control) fn push_link(
        &self,
        controller: &ControllerId,
        news: Message,
        holds: Holds,
    ) {
        self.faults.push_link(controller, news, holds);
    }

    /// Drops the reports for controllers that are not connected and that `stays` does not name.
    pub(in crate::control) fn retain_reports(&self, stays: impl Fn(&ControllerId) -> bool) {
        self.faults.retain(stays);
    }
}
