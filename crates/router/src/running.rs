//! A running router: its addresses, its state, and its end.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime;
use tokio_util::sync::{CancellationToken, DropGuard};
use weft_channel::Registration;

use crate::access::AccessHalf;
use crate::control::ControlHalf;
use crate::controllers::Controllers;
use crate::data::DataHalf;
use crate::health::Health;
use crate::managed::ManagedLinks;
use crate::runtimes::Runtimes;
use crate::start::StartError;
use crate::web::WebServers;

/// The interval at which a draining router counts its circuits, and the longest wait for controllers
/// to hear that its terminators are removed.
const DRAIN_LOOK: Duration = Duration::from_millis(50);
const TOLD: Duration = Duration::from_secs(2);
/// The longest wait of a router that stops for its controllers to have the cut circuits forgotten.
const CUT: Duration = Duration::from_secs(1);
/// How long the last traced messages may take to reach their file.
const TRACED: Duration = Duration::from_secs(2);

/// A running router.
pub struct Router {
    pub(crate) id: String,
    pub(crate) control: ControlHalf,
    pub(crate) access: AccessHalf,
    pub(crate) data: Arc<DataHalf>,
    pub(crate) controllers: Arc<Controllers>,
    pub(crate) edge: Vec<SocketAddr>,
    pub(crate) ingress: Vec<SocketAddr>,
    pub(crate) links: Vec<SocketAddr>,
    /// Listeners for controllers.
    pub(crate) taking: Vec<Registration>,
    /// Applies managed settings, once the router has begun.
    pub(crate) managed: Option<ManagedLinks>,
    pub(crate) api_proxy: Option<SocketAddr>,
    /// Ends the tasks that belong to neither half.
    pub(crate) stop: CancellationToken,
    pub(crate) startup_timeout: Option<Duration>,
    pub(crate) web: Option<WebServers>,
    pub(crate) health: Arc<Health>,
    pub(crate) _checks: DropGuard,
    pub(crate) runtimes: Runtimes,
}

impl Router {
    /// The address of the proxy to the controller's API, if the router has one.
    #[must_use]
    pub fn api_proxy_address(&self) -> Option<SocketAddr> {
        self.api_proxy
    }

    /// The addresses at which other routers dial this router.
    #[must_use]
    pub fn link_addresses(&self) -> &[SocketAddr] {
        &self.links
    }

    /// Id of the router.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The addresses for programs without an SDK, in the order of the file.
    #[must_use]
    pub fn ingress_addresses(&self) -> &[SocketAddr] {
        &self.ingress
    }

    /// The addresses at which SDKs connect.
    #[must_use]
    pub fn edge_addresses(&self) -> &[SocketAddr] {
        &self.edge
    }

    /// Waits until the router is online: it is connected to a controller and has the data model.
    pub async fn online(&self) {
        let mut online = self.access.online();
        // The sender lives as long as the router, so that waiting cannot fail.
        let _ = online.wait_for(|online| *online).await;
    }

    /// Waits for the first controller, as long as the configuration says (`ctrl.startupTimeout`).
    ///
    /// # Errors
    /// When no controller was reached in time; the program should then end.
    pub async fn reach_controller(&self) -> Result<(), StartError> {
        let mut changes = self.controllers.changes();
        let connected = async {
            while self.controllers.all().is_empty() {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        let Some(limit) = self.startup_timeout else {
            connected.await;
            return Ok(());
        };
        let reached = tokio::time::timeout(limit, connected).await;
        reached.map_err(|_| StartError::NoController(limit))
    }

    /// The data half, for its counts.
    #[must_use]
    pub fn data(&self) -> &Arc<DataHalf> {
        &self.data
    }

    /// Checks at once for changed identity files, instead of within a second.
    pub async fn reload(&self) {
        self.control.reload().await;
        if let Some(web) = &self.web {
            web.reload().await;
        }
    }

    /// The runtimes that the router works on.
    #[must_use]
    pub fn runtimes(&self) -> Vec<runtime::Handle> {
        let mut all = self.runtimes.data.all();
        all.push(self.runtimes.control.clone());
        all
    }

    /// Accepts nothing new, removes the terminators, and waits until the circuits have ended, but no
    /// longer than `grace`.
    pub async fn drain(&self, grace: Duration) {
        // The order matters: the data half refuses routes until a controller has heard of the drain.
        self.data.drain();
        self.control.drain();
        let (begun, mut told) = (tokio::time::Instant::now(), 0);
        loop {
            let (circuits, _) = self.data.counts();
            let passed = begun.elapsed();
            // A controller that is away learns of the removal when it finds the router gone.
            let has_told = self.control.removals() == 0 || passed >= TOLD;
            if circuits == 0 && has_told {
                return;
            }
            if passed >= grace {
                tracing::info!(
                    circuits,
                    "the grace period is over: the circuits that are left are cut"
                );
                return;
            }
            if told != circuits {
                told = circuits;
                tracing::info!(circuits, left = ?(grace - passed), "waiting for circuits to end");
            }
            tokio::time::sleep(DRAIN_LOOK).await;
        }
    }

    /// Waits until the controllers have heard of the circuits that were cut, and have them forgotten; but no
    /// longer than [`CUT`].
    async fn ends_told(&self) {
        let told = async {
            while self.control.is_connected() && self.data.ending_here() > 0 {
                tokio::time::sleep(DRAIN_LOOK).await;
            }
        };
        let _ = tokio::time::timeout(CUT, told).await;
    }

    /// Stops the router: no new connections at first, then none at all; the data model is written.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        self.taking.clear();
        if let Some(web) = &self.web {
            web.stop();
        }
        self.data.cut();
        self.ends_told().await;
        self.data.shutdown();
        self.control.shutdown().await;
        self.data.gone().await;
        if let Some(trace) = self.data.trace() {
            trace.flush(TRACED).await;
        }
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("id", &self.id).finish_non_exhaustive()
    }
}
