//! A run of the check, and what it finds.

use std::sync::Arc;

use parking_lot::Mutex;
use weft_contract::ErrorCode;
use weft_contract::resource::database::MAX_RESULTS;
use weft_kernel::Failure;
use weft_model::Timestamp;

/// The last run, also while it goes on. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Integrity(Arc<Mutex<Run>>);

/// A run.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Run {
    /// Whether it goes on.
    pub(crate) in_progress: bool,
    /// Whether it mends what it finds.
    pub(crate) fixing: bool,
    /// When it began; there was none if it did not.
    pub(crate) started: Option<Timestamp>,
    /// When it ended.
    pub(crate) ended: Option<Timestamp>,
    /// Why it did not come to its end.
    pub(crate) error: Option<String>,
    /// What it found.
    pub(crate) results: Vec<Found>,
    /// Whether it found more than are kept.
    pub(crate) too_many: bool,
}

/// Something that is not in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// What is wrong.
    pub(crate) description: String,
    /// Whether it was mended.
    pub(crate) fixed: bool,
}

impl Integrity {
    /// The last run.
    pub(crate) fn last(&self) -> Run {
        self.0.lock().clone()
    }

    /// Begins a run; refused while another goes on.
    pub(crate) fn begin(&self, fixing: bool, now: Timestamp) -> Result<Report, Failure> {
        let mut run = self.0.lock();
        if run.in_progress {
            let reason = "a check of the database is running; its results say when it is done";
            return Err(Failure::because(ErrorCode::RateLimited, reason));
        }
        *run = Run { in_progress: true, fixing, started: Some(now), ..Run::default() };
        Ok(Report(self.clone()))
    }

    /// The run has ended.
    pub(crate) fn end(&self, error: Option<String>, now: Timestamp) {
        let mut run = self.0.lock();
        run.in_progress = false;
        run.ended = Some(now);
        run.error = error;
    }
}

/// Takes up what is found.
#[derive(Debug, Clone)]
pub(crate) struct Report(pub(crate) Integrity);

impl Report {
    pub(crate) fn found(&self, description: impl Into<String>, fixed: bool) {
        let description = description.into();
        tracing::warn!(description, fixed, "the database is not in order");
        let mut run = self.0.0.lock();
        if run.results.len() < MAX_RESULTS {
            run.results.push(Found { description, fixed });
        } else {
            run.too_many = true;
        }
    }
}
