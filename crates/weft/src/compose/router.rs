//! From a router's file to a running router.

use std::{path::Path, time::Duration};

use tokio_util::sync::CancellationToken;
use weft_config::{Loaded, RouterConfig};
use weft_router::{Router, Runtimes};

use super::warn;
use crate::{
    build,
    check::{self, Purpose},
    failure::{Failure, chain},
    profile::Profiles,
    service::{HangUps, Manager},
};

/// How long stopping takes beyond the grace period, at most.
const STOPPING: Duration = Duration::from_secs(5);

/// Reads a router's file and says what is worth a word about it.
pub(crate) fn load(file: &Path) -> Result<RouterConfig, Failure> {
    let loaded = RouterConfig::from_path(file)?;
    warn(&loaded);
    let Loaded { config, .. } = loaded;
    Ok(config)
}

/// Starts a router with runtimes of its own.
pub(crate) async fn start(config: &RouterConfig) -> Result<Router, Failure> {
    let runtimes = Runtimes::own()
        .map_err(|error| Failure::new(format!("cannot start the router's threads: {error}")))?;
    Router::start_as(&build::of_router(), config, runtimes)
        .await
        .map_err(|error| Failure::new(chain(&error)).during("the router cannot start"))
}

/// Reads a router's file and looks at everything it names. Nothing is started while anything is
/// wrong.
fn load_to_start(file: &Path) -> Result<RouterConfig, Failure> {
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
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let hang_ups = HangUps::listen()?;
    let mut manager = Manager::of_process();
    let config = load_to_start(file)?;
    let profiles = Profiles::start(&config.debugging)?;
    let router = start(&config).await?;
    let reached = tokio::select! {
        reached = router.reach_controller() => reached.map_err(|error| Failure::new(chain(&error))),
        () = stop.cancelled() => Ok(()),
    };
    if reached.is_ok() {
        // Who is to stop before it was up is not up any more.
        if !stop.is_cancelled() {
            tracing::info!(id = %router.id(), "router runs");
            manager.up(router.runtimes());
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = hang_ups.follow(&manager, async || router.reload().await) => {}
        }
        tracing::info!("router stops");
        manager.stopping(grace + STOPPING);
        router.drain(grace).await;
    }
    router.shutdown().await;
    profiles.finish().await;
    reached
}
