//! Whether the database is in order: everything is looked at, and mended if that is wanted, while
//! the controller goes on (docs/protocol/management-api.md 7.10).
//!
//! Four things are compared with each other, each in a file of its own:
//!
//! - [`stored`]: what lies on the disk with what is in memory, row by row, with its checksums,
//!   counts, cold fields, log, sessions and notes;
//! - [`model`]: the indexes in memory with the entities they are made of, and references with what
//!   they name;
//! - [`together`]: entities that are made, renamed and deleted together; what every network has;
//! - [`sessions`]: sessions with what they hang on.
//!
//! One run at a time. What it has found can be read while it runs.

mod model;
mod sessions;
mod stored;
mod together;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use parking_lot::Mutex;
use weft_contract::ErrorCode;
use weft_contract::resource::database::MAX_RESULTS;
use weft_model::Timestamp;

use crate::failure::Failure;
use crate::{Caller, Controller};

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
    pub(crate) fn start(&self, controller: &Controller, fixing: bool) -> Result<(), Failure> {
        {
            let mut run = self.0.lock();
            if run.in_progress {
                let reason = "a check of the database is running; its results say when it is done";
                return Err(Failure::because(ErrorCode::RateLimited, reason));
            }
            let started = Some(controller.now());
            *run = Run { in_progress: true, fixing, started, ..Run::default() };
        }
        let (work, report) = (controller.clone(), Report(self.clone()));
        let own = tokio::spawn(async move { work.examine(fixing, &report).await });
        let (integrity, controller) = (self.clone(), controller.clone());
        tokio::spawn(async move {
            let error = match own.await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error),
                Err(error) => Some(format!("the check ended in a fault: {error}")),
            };
            if let Some(error) = &error {
                tracing::error!(error, "the database could not be checked");
            }
            let mut run = integrity.0.lock();
            run.in_progress = false;
            run.ended = Some(controller.now());
            run.error = error;
        });
        Ok(())
    }
}

/// Takes up what is found.
#[derive(Debug, Clone)]
struct Report(Integrity);

impl Report {
    fn found(&self, description: impl Into<String>, fixed: bool) {
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

impl Controller {
    /// Looks at everything. Faults are reported, what keeps it from looking is an error.
    async fn examine(&self, fix: bool, report: &Report) -> Result<(), String> {
        self.examine_stored(fix, report).await?;
        self.examine_indexes(fix, report).await?;
        self.examine_seeds(fix, report).await;
        self.examine_references(fix, report).await;
        self.examine_together(fix, report).await;
        self.examine_sessions(fix, report).await
    }

    /// Has a change decided, and says whether it was done.
    async fn mends(
        &self,
        fix: bool,
        decide: impl Fn(&mut super::decision::Decision<'_>) -> Result<(), Failure>
        + Send
        + Sync
        + 'static,
    ) -> bool {
        if !fix {
            return false;
        }
        match self.decide(&Caller::own("fix of the database"), decide).await {
            Ok(_) => true,
            Err(failure) => {
                tracing::warn!(%failure, "a fault of the database was not mended");
                false
            }
        }
    }
}
