//! The state that all connections share, and the services of one bind point.

use std::sync::Arc;

use hyper::header::HeaderValue;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weft_config::{WebApi, WebServer};
use weft_contract::Api;
use weft_controller::Controller;
use weft_limits::LogLines;
use weft_web::health::HealthCheck;
use weft_web::{ConnectionTerms, PeerQuota, Scraper, Scrapes, StartError};

use crate::answer::Signature;
use crate::compress::Compressor;
use crate::files::{Mount, Origins};
use crate::limits::ApiLimits;
use crate::oidc::Doorway;
use crate::routes::Routes;
use crate::texts::Texts;

/// The state that all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) controller: Controller,
    pub(crate) limits: ApiLimits,
    pub(crate) routes: Routes,
    pub(crate) signature: Signature,
    pub(crate) requests: Arc<PeerQuota>,
    pub(crate) files: Arc<PeerQuota>,
    pub(crate) compressor: Compressor,
    pub(crate) origins: Origins,
    /// Lines of the log about requests that failed by a fault of the program (500), which anybody can repeat.
    pub(crate) faults: Mutex<LogLines>,
    /// The same for all other statuses from 501: something was not there or not ready. They are many while it is not, and
    /// have to hide no fault.
    pub(crate) failures: Mutex<LogLines>,
    pub(crate) bodies: Arc<PeerQuota>,
    pub(crate) answers: Arc<PeerQuota>,
    pub(crate) scrapes: Scrapes,
    pub(crate) texts: Texts,
    pub(crate) health: Arc<HealthCheck>,
    /// Cancelled when no more requests are accepted.
    pub(crate) stopping: CancellationToken,
    /// Cancelled when all connections have to close.
    pub(crate) stopped: CancellationToken,
    /// The connections.
    pub(crate) tasks: TaskTracker,
    /// The operations that are being carried out, whether or not their callers still wait.
    pub(crate) operations: TaskTracker,
}

/// One bind point.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) shared: Arc<Shared>,
    /// The APIs of this bind point, in the order in which they are asked.
    pub(crate) apis: Vec<Api>,
    /// The applications of this bind point.
    pub(crate) mounts: Arc<[Mount]>,
    pub(crate) terms: ConnectionTerms,
    /// Access to metrics at this bind point.
    pub(crate) metrics: MetricsDoor,
    /// The OIDC provider, if the server serves it.
    pub(crate) oidc: Option<Arc<Doorway>>,
    /// The address that clients are told to use instead of the one that they connected to.
    pub(crate) new_address: Option<HeaderValue>,
}

/// Access to metrics at a bind point.
#[derive(Debug, Clone, Default)]
pub(crate) struct MetricsDoor {
    /// The client that may read metrics; none means everybody.
    pub(crate) scraper: Option<Arc<Scraper>>,
    /// Whether samples have timestamps.
    pub(crate) with_times: bool,
}

impl MetricsDoor {
    pub(crate) fn of(config: &WebServer) -> Result<Self, StartError> {
        for api in &config.apis {
            let WebApi::Metrics { scrape_cert, include_timestamps } = api else { continue };
            let load = |path: &std::path::PathBuf| Scraper::load(path).map(Arc::new);
            let scraper = scrape_cert.as_ref().map(load).transpose();
            let scraper = scraper
                .map_err(|source| StartError::Scraper { server: config.name.clone(), source })?;
            return Ok(Self { scraper, with_times: *include_timestamps });
        }
        Ok(Self::default())
    }
}
