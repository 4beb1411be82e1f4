//! From a router's file to a running router.

use std::path::Path;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weft_config::{Loaded, RouterConfig};
use weft_router::{Router, Runtimes};
use weft_spans::Spans;

use super::warn;
use crate::agent::DebugOps;
use crate::check::{self, Purpose};
use crate::cli::AgentOptions;
use crate::failure::{Failure, Result, chain};
use crate::profile::Profiles;
use crate::service::{HangUps, Manager};
use crate::spans::Export;
use crate::{agent, build};

/// Longest time for stopping after the grace period. The service manager is told both together.
const STOPPING: Duration = Duration::from_secs(7);

/// Reads a router's file and logs the warnings about it.
pub(crate) fn load(file: &Path) -> Result<RouterConfig> {
    let loaded = RouterConfig::from_path(file)?;
    warn(&loaded);
    let Loaded { config, .. } = loaded;
    Ok(config)
}

/// Starts a router with runtimes of its own.
pub(crate) async fn start(config: &RouterConfig, spans: Spans) -> Result<Router> {
    let runtimes = Runtimes::own()
        .map_err(|error| Failure::new(format!("cannot start the router's threads: {error}")))?;
    Router::start_as(&build::of_router(), config, runtimes, spans).await.map_err(|error| {
        let text = chain(&error);
        let failure = match error.is_of_the_file() {
            true => Failure::usage(text),
            false => Failure::new(text),
        };
        failure.during("the router cannot start")
    })
}

/// Reads a router's file and checks everything that it refers to. If anything is wrong, nothing is
/// started.
fn load_to_start(file: &Path) -> Result<RouterConfig> {
    let mut examined = RouterConfig::examine_path(file)?;
    check::router(&mut examined, Purpose::Start);
    let loaded = check::accept(examined)?;
    warn(&loaded);
    Ok(loaded.config)
}

/// Runs a router until it is told to stop; then circuits have a grace period to end.
pub(crate) async fn run(
    file: &Path,
    grace: Duration,
    agent: (&AgentOptions, DebugOps),
    stop: &CancellationToken,
) -> Result<()> {
    let hang_ups = HangUps::listen()?;
    let mut manager = Manager::of_process();
    let config = load_to_start(file)?;
    let export = Export::start("weft-router");
    let signals = (&hang_ups, stop);
    let run = run_traced(&config, grace, agent, signals, &mut manager, export.spans());
    let done = Box::pin(run).await;
    export.end().await;
    done
}

async fn run_traced(
    config: &RouterConfig,
    grace: Duration,
    (agent, debug_ops): (&AgentOptions, DebugOps),
    (hang_ups, stop): (&HangUps, &CancellationToken),
    manager: &mut Manager,
    spans: Spans,
) -> Result<()> {
    let profiles = Profiles::start(&config.debugging)?;
    let router = start(config, spans).await?;
    let _agent = agent::of_router(agent, &router, debug_ops, stop);
    let reached = tokio::select! {
        reached = router.reach_controller() => reached.map_err(|error| Failure::caused_by(&error)),
        () = stop.cancelled() => Ok(()),
    };
    if reached.is_ok() {
        // The router may have been told to stop while it started.
        if !stop.is_cancelled() {
            tracing::info!(id = %router.id(), "router runs");
            manager.up(router.runtimes());
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = hang_ups.follow(manager, async || {
            router.reload().await;
            Some("identity files")
        }) => {}
        }
        tracing::info!("router stops");
        manager.stopping(grace + STOPPING);
        router.drain(grace).await;
    }
    router.shutdown().await;
    profiles.finish().await;
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_only_the_start_finds_in_a_file_is_a_mistake_of_the_file() {
        let text = "v: 3\nidentity: {cert: /no/cert, key: /no/key, ca: /no/ca}\nctrl: {endpoint: 'tls:c:1'}\n";
        let none = |_: &str| None;
        let config = RouterConfig::from_str(text, Path::new("r.yml"), &none).unwrap().config;
        let failure = start(&config, Spans::off()).await.unwrap_err();
        assert_eq!(failure.report(), Failure::usage("").report(), "{failure}");
        assert_ne!(failure.report(), Failure::new("").report());
    }
}
