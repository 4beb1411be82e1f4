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
pub(crate) mod run;
mod sessions;
mod stored;
#[cfg(test)]
mod tests;
mod together;

use weft_kernel::Failure;

use crate::domain::integrity::run::Report;
use crate::{Caller, Controller};

impl Controller {
    /// Begins to look at everything; refused while that goes on already.
    pub(crate) fn check_integrity(&self, fixing: bool) -> Result<(), Failure> {
        let report = self.integrity().begin(fixing, self.now())?;
        let work = self.clone();
        let own = tokio::spawn(async move { work.examine(fixing, &report).await });
        let controller = self.clone();
        tokio::spawn(async move {
            let error = match own.await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error),
                Err(error) => Some(format!("the check ended in a fault: {error}")),
            };
            if let Some(error) = &error {
                tracing::error!(error, "the database could not be checked");
            }
            controller.integrity().end(error, controller.now());
        });
        Ok(())
    }

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
        decide: impl Fn(&mut weft_kernel::decision::Decision<'_>) -> Result<(), Failure>
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
