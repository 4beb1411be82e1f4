//! The routes that wait for a worker, and the reports that wait for controllers.

use std::sync::Arc;

use parking_lot::Mutex;
use weft_circuit::now;
use weft_limits::LogLines;
use weft_metrics::{Counter, Histogram};
use weft_wire::Message;

use super::dial_slots::DialSlots;
use crate::control::faults::{Faults, Holds};
use crate::seam::{ControllerId, NotObeyed};

/// Routes that were refused because they have too many ways: their number, and a bounded number of log lines.
#[derive(Debug)]
pub(in crate::control) struct OversizedRoutes {
    count: Arc<Counter>,
    lines: Mutex<LogLines>,
}

impl Default for OversizedRoutes {
    fn default() -> Self {
        Self { count: Arc::default(), lines: Mutex::new(LogLines::new(now())) }
    }
}

impl OversizedRoutes {
    /// Counts a route.
    pub(super) fn note(&self, controller: &ControllerId, circuit: &str, why: &NotObeyed) {
        self.count.one();
        if let Some(left_out) = self.lines.lock().due(now()) {
            tracing::warn!(%controller, circuit, %why, left_out, "a route is refused: its controller is faulty or hostile");
        }
    }

    /// How many there were since the start.
    pub(in crate::control) fn count(&self) -> Arc<Counter> {
        Arc::clone(&self.count)
    }
}

/// The routes that wait for a worker, and the reports that wait for controllers.
#[derive(Debug)]
pub(crate) struct Routes {
    /// The slots of routes that dial.
    pub(in crate::control) dial_slots: Arc<DialSlots>,
    /// Reports that wait for controllers.
    pub(super) faults: Faults,
    /// How long it took to set routes up.
    pub(super) times: Arc<Histogram>,
    /// The routes that were refused because they have too many ways.
    pub(in crate::control) oversized: OversizedRoutes,
}

impl Routes {
    pub(crate) fn new(workers: usize, queue: usize) -> Self {
        Self {
            dial_slots: DialSlots::new(workers, queue),
            faults: Faults::default(),
            times: Arc::new(Histogram::times()),
            oversized: OversizedRoutes::default(),
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
