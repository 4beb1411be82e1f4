//! From a router's file to a running router.

use std::path::Path;

use tokio_util::sync::CancellationToken;
use weft_config::{Loaded, RouterConfig};
use weft_router::{Router, Runtimes};

use super::warn;
use crate::{
    build,
    check::{self, Purpose},
    failure::{Failure, chain},
};

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

/// Runs a router until it is told to stop.
pub(crate) async fn run(file: &Path, stop: &CancellationToken) -> Result<(), Failure> {
    let router = start(&load_to_start(file)?).await?;
    let reached = tokio::select! {
        reached = router.reach_controller() => reached.map_err(|error| Failure::new(chain(&error))),
        () = stop.cancelled() => Ok(()),
    };
    if reached.is_ok() {
        tracing::info!(id = %router.id(), "router runs");
        stop.cancelled().await;
        tracing::info!("router stops");
    }
    router.shutdown().await;
    reached
}
