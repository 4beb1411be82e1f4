//! What all connections share, and what a bind point serves.

use std::sync::Arc;

use hyper::header::HeaderValue;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weft_config::{WebApi, WebServer};
use weft_contract::Api;
use weft_controller::Controller;
use weft_web::health::Check;
use weft_web::{Places, Scraper, Scrapes, StartError, Terms};

use crate::answer::Signature;
use crate::compress::Compressor;
use crate::files::Mount;
use crate::limits::Limits;
use crate::routes::Routes;
use crate::texts::Texts;

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) controller: Controller,
    pub(crate) limits: Limits,
    pub(crate) routes: Routes,
    pub(crate) signature: Signature,
    pub(crate) requests: Arc<Places>,
    pub(crate) files: Arc<Places>,
    pub(crate) compressor: Compressor,
    pub(crate) bodies: Arc<Places>,
    pub(crate) scrapes: Scrapes,
    pub(crate) texts: Texts,
    pub(crate) health: Arc<Check>,
    /// No more requests are taken.
    pub(crate) stopping: CancellationToken,
    /// Whoever is still there is cut.
    pub(crate) stopped: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

/// One bind point.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) shared: Arc<Shared>,
    /// The APIs that are served here, in the order in which they are asked.
    pub(crate) apis: Vec<Api>,
    /// The applications that are served here.
    pub(crate) mounts: Arc<[Mount]>,
    pub(crate) terms: Terms,
    /// Who may read metrics here.
    pub(crate) metrics: MetricsDoor,
    /// Where clients are told to go instead.
    pub(crate) new_address: Option<HeaderValue>,
}

/// How metrics are served at a bind point.
#[derive(Debug, Clone, Default)]
pub(crate) struct MetricsDoor {
    /// Who may read them; none is everybody.
    pub(crate) scraper: Option<Arc<Scraper>>,
    /// Whether samples carry the time.
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
