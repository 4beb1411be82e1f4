//! Checks the database while the controller runs, and mends faults if asked to
//! (docs/protocol/management-api.md 7.10).
//!
//! The check compares four pairs, each in a file of its own:
//!
//! - [`stored`]: rows on the disk with the model in memory: checksums, counts, cold fields, log,
//!   sessions, notes;
//! - [`model`]: indexes in memory with their entities, and references with the entities that they
//!   name;
//! - [`together`]: entities that are made, renamed and deleted together, and the entities that
//!   every network has;
//! - [`sessions`]: sessions with their identities, logins and services.
//!
//! Only one check runs at a time. Its findings can be read while it runs.

mod model;
pub(crate) mod run;
mod sessions;
mod stored;
#[cfg(test)]
mod tests;
mod together;

use weft_kernel::Result;

use crate::domain::integrity::run::Report;
use crate::{Caller, Controller};

impl Controller {
    /// Starts a check; refused while another one runs.
    pub(crate) fn check_integrity(&self, fixing: bool) -> Result<()> {
        let report = self.integrity().begin(fixing, self.kernel().now())?;
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
                tracing::error!(error, "the check of the database was stopped by an error");
            }
            controller.integrity().end(error, controller.kernel().now());
        });
        Ok(())
    }

    /// Runs all comparisons. Faults go into the report; an error is returned only if the comparison
    /// itself failed.
    async fn examine(&self, fix: bool, report: &Report) -> Result<(), String> {
        self.examine_stored(fix, report).await?;
        self.examine_indexes(fix, report).await?;
        self.examine_seeds(fix, report).await;
        self.examine_references(fix, report).await;
        self.examine_together(fix, report).await;
        self.examine_sessions(fix, report).await
    }

    /// Submits a change that mends a fault, and returns whether it was made.
    async fn mends(
        &self,
        fix: bool,
        decide: impl Fn(&mut weft_kernel::decision::Decision<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> bool {
        if !fix {
            return false;
        }
        match self.kernel().decide(&Caller::own("fix of the database"), decide).await {
            Ok(_) => true,
            Err(failure) => {
                tracing::warn!(%failure, "a fault of the database was not mended; the next fix tries again");
                false
            }
        }
    }
}
