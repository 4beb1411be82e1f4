//! One check of the database, and its findings.

use std::sync::Arc;

use parking_lot::Mutex;
use weft_contract::ErrorCode;
use weft_contract::resource::database::MAX_RESULTS;
use weft_kernel::{Failure, Result};
use weft_model::Timestamp;

/// The last check, running or ended. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Integrity(Arc<Mutex<Run>>);

/// The state of a check.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Run {
    /// Whether the check is running.
    pub(crate) in_progress: bool,
    /// Whether the check mends the faults that it finds.
    pub(crate) fixing: bool,
    /// When the check began; none if there was no check since the start of the controller.
    pub(crate) started: Option<Timestamp>,
    /// When the check ended.
    pub(crate) ended: Option<Timestamp>,
    /// The error that stopped the check before its end.
    pub(crate) error: Option<String>,
    /// The first [`MAX_RESULTS`] faults that the check found.
    pub(crate) results: Vec<Found>,
    /// Whether the check found more faults than are kept.
    pub(crate) too_many: bool,
}

/// A fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// A description of the fault.
    pub(crate) description: String,
    /// Whether the fault was mended.
    pub(crate) fixed: bool,
}

impl Integrity {
    /// The state of the last check.
    pub(crate) fn last(&self) -> Run {
        self.0.lock().clone()
    }

    /// Starts a check; refused while another one runs.
    pub(crate) fn begin(&self, fixing: bool, now: Timestamp) -> Result<Report> {
        let mut run = self.0.lock();
        if run.in_progress {
            let reason = "a check of the database is running; its results say when it is done";
            return Err(Failure::because(ErrorCode::RateLimited, reason));
        }
        *run = Run { in_progress: true, fixing, started: Some(now), ..Run::default() };
        Ok(Report(self.clone()))
    }

    /// Marks the check as ended.
    pub(crate) fn end(&self, error: Option<String>, now: Timestamp) {
        let mut run = self.0.lock();
        run.in_progress = false;
        run.ended = Some(now);
        run.error = error;
    }
}

/// Takes the findings of a running check.
#[derive(Debug, Clone)]
pub(crate) struct Report(pub(crate) Integrity);

impl Report {
    pub(crate) fn found(&self, description: impl Into<String>, fixed: bool) {
        let description = description.into();
        tracing::warn!(description, fixed, "the check of the database found a fault");
        let mut run = self.0.0.lock();
        if run.results.len() < MAX_RESULTS {
            run.results.push(Found { description, fixed });
        } else {
            run.too_many = true;
        }
    }
}
