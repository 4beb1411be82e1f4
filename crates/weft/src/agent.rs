//! The agents of controllers, routers and tunnelers, and `weft agent`, which asks them.
//!
//! ```text
//!  weft agent, ziti agent ──socket──> weft_agent ──> controller | router | tunnel ──> process: what all have
//! ```
//!
//! - [`process`]: the answers that do not depend on the kind of program; [`controller`], [`router`], [`tunnel`]: the
//!   others;
//! - [`client`]: the command.

#[cfg(unix)]
mod client;
#[cfg(unix)]
mod controller;
#[cfg(unix)]
mod process;
#[cfg(unix)]
mod router;
#[cfg(unix)]
mod tunnel;

#[cfg(not(unix))]
use elsewhere as client;
#[cfg(unix)]
pub(crate) use served::{of_controller, of_router, of_tunneler};

use crate::cli::AgentArgs;
use crate::failure::Result;

/// Whether users of this machine may have a router carry out operations for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DebugOps {
    /// They may.
    Allowed,
    /// They may not.
    Refused,
}

/// Runs `weft agent`.
pub(crate) async fn agent(args: AgentArgs) -> Result<()> {
    client::run(args).await
}

#[cfg(unix)]
mod served {
    use std::sync::Arc;

    use tokio_util::sync::CancellationToken;
    use weft_agent::{Application, Served};
    use weft_controller::Controller;
    use weft_router::Router;

    use super::{DebugOps, controller, router, tunnel};
    use crate::cli::AgentOptions;

    /// The agent of a controller that runs.
    pub(crate) fn of_controller(options: &AgentOptions, running: &Controller) -> Option<Served> {
        serve(options, || controller::ControllerAgent::new(running.clone(), &options.alias))
    }

    /// The agent of a router that runs. `stop` is cancelled when the router is decommissioned.
    pub(crate) fn of_router(
        options: &AgentOptions,
        running: &Router,
        debug_ops: DebugOps,
        stop: &CancellationToken,
    ) -> Option<Served> {
        let operator = running.operator();
        serve(options, || {
            router::RouterAgent::new(operator, &options.alias, debug_ops, stop.clone())
        })
    }

    /// The agent of a process of tunnelers, with the state of these.
    pub(crate) fn of_tunneler(
        options: &AgentOptions,
        state: impl Fn() -> serde_json::Value + Send + Sync + 'static,
    ) -> Option<Served> {
        serve(options, || tunnel::TunnelAgent::new(Box::new(state), &options.alias))
    }

    /// Serves an agent, if one is wanted. Without a socket the program runs, too.
    fn serve<A: Application>(options: &AgentOptions, make: impl FnOnce() -> A) -> Option<Served> {
        if !options.enabled {
            return None;
        }
        let place = options.address.clone().unwrap_or_default();
        match Served::start(&place, Arc::new(make())) {
            Ok(served) => {
                tracing::debug!(socket = %served.path().display(), "the agent listens");
                Some(served)
            }
            Err(problem) => {
                tracing::warn!(%problem, "`weft agent` cannot ask this process");
                None
            }
        }
    }
}

/// Systems without such sockets.
#[cfg(not(unix))]
mod elsewhere {
    use tokio_util::sync::CancellationToken;
    use weft_controller::Controller;
    use weft_router::Router;

    use super::DebugOps;
    use crate::cli::{AgentArgs, AgentOptions};
    use crate::failure::{Failure, Result};

    pub(crate) async fn run(_: AgentArgs) -> Result<()> {
        Err(Failure::new("on this system processes have no agent"))
    }

    pub(crate) fn of_controller(_: &AgentOptions, _: &Controller) {}

    pub(crate) fn of_router(_: &AgentOptions, _: &Router, _: DebugOps, _: &CancellationToken) {}

    pub(crate) fn of_tunneler(
        _: &AgentOptions,
        _: impl Fn() -> serde_json::Value + Send + Sync + 'static,
    ) {
    }
}

#[cfg(not(unix))]
pub(crate) use elsewhere::{of_controller, of_router, of_tunneler};
