//! The end of tunnelers and hosts: open connections have a time limit, then the machine is as it was, and
//! then the identities leave the network.
//!
//! A second signal takes the waits for connections and data away, but not the clean-up of the machine.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use weft_sdk::Endpoint;
use weft_tunnel::{Interception, SourceAddresses};

use crate::failure::{Failure, Result};
use crate::output::{self, counted};
use crate::signals::Stages;

/// Longest time for the removal of interception from the machine.
const CLEAN_UP: Duration = Duration::from_secs(30);
/// Longest wait until source addresses of hosted services are removed from the machine.
const GIVING_BACK: Duration = Duration::from_secs(5);
/// The least time that written data has to arrive, even if the time for connections is over.
const ARRIVING: Duration = Duration::from_secs(3);
/// Longest time of a logout.
const LOGOUT: Duration = Duration::from_secs(2);

/// Longest time that the end may take beyond the time for connections.
pub(super) const STOPPING: Duration =
    CLEAN_UP.saturating_add(ARRIVING).saturating_add(LOGOUT).saturating_add(GIVING_BACK);

/// The end of a command.
pub(super) struct Ending<'a> {
    stages: &'a Stages,
    /// The end of the time for connections.
    deadline: Instant,
}

impl<'a> Ending<'a> {
    /// Waits until no connection is open, for `limit` at most.
    pub(super) async fn drained(
        stages: &'a Stages,
        open: impl Fn() -> u64,
        limit: Duration,
    ) -> Self {
        let now = Instant::now();
        let deadline = now.checked_add(limit).unwrap_or(now);
        if open() > 0 && !stages.hurry.is_cancelled() {
            output::say(format!(
                "waiting {} s for {}; Ctrl-C ends at once",
                limit.as_secs(),
                counted(open(), "connection", "connections")
            ));
        }
        let empty = async {
            while open() > 0 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        unless(&stages.hurry, tokio::time::timeout(limit, empty)).await;
        Self { stages, deadline }
    }

    /// Leaves the network with these identities: what was written has until the end of the time for
    /// connections to arrive.
    pub(super) async fn leave(&self, endpoints: Vec<Endpoint>) {
        let hurry = &self.stages.hurry;
        let left = self.deadline.saturating_duration_since(Instant::now()).max(ARRIVING);
        let limit = if hurry.is_cancelled() { Duration::ZERO } else { left };
        let leave = move |endpoint: Endpoint| async move {
            if let Err(problem) = endpoint.close_within(limit).await {
                tracing::info!(%problem, "connections have ended before all of their data had arrived");
            }
        };
        let leaving: JoinSet<()> = endpoints.into_iter().map(leave).collect();
        let left = leaving.join_all();
        match limit.is_zero() {
            true => drop(left.await),
            false => unless(hurry, left).await,
        }
    }

    /// The result of a command that ended as it was asked to: an interruption if open connections were
    /// not waited for.
    pub(super) fn result(&self) -> Result<()> {
        match self.stages.hurry.is_cancelled() {
            true => Err(Failure::interrupted().unsaid_if_interrupted()),
            false => Ok(()),
        }
    }
}

/// Waits for a future until a token is cancelled.
async fn unless(token: &CancellationToken, future: impl Future) {
    tokio::select! {
        biased;
        () = token.cancelled() => {}
        _ = future => {}
    }
}

/// Removes interception from the machine, if there is any.
pub(super) async fn clean_up(intercept: Option<&Interception>) {
    let Some(intercept) = intercept else { return };
    if tokio::time::timeout(CLEAN_UP, intercept.stop()).await.is_err() {
        tracing::warn!(
            "rules of the firewall could not all be removed; the next start removes them"
        );
    }
}

/// Waits until source addresses of hosted services are removed from the machine.
pub(super) async fn given_back() {
    SourceAddresses::released(GIVING_BACK).await;
}
