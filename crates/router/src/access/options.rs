//! Settings of the access half.

use std::path::PathBuf;
use std::time::Duration;

use weft_config::RouterConfig;

/// The options of the access half.
#[derive(Debug, Clone)]
pub(crate) struct AccessOptions {
    /// Id of the router, which is the id of its own identity.
    pub(crate) router_id: String,
    /// True if the data model is needed: the router has an edge or a tunneler.
    pub(crate) required: bool,
    /// The file of the model.
    pub(crate) db: Option<PathBuf>,
    /// The interval at which the model is written.
    pub(crate) save_interval: Duration,
    /// How long an SDK may wait for its session to be announced.
    pub(crate) lookup_timeout: Duration,
}

impl AccessOptions {
    /// The options from a file, for a router of this id.
    pub(crate) fn new(config: &RouterConfig, router_id: &str) -> Self {
        use weft_config::router::Listener;
        // A session is the same at every listener, so that the longest wait counts.
        let lookup = config.listeners.iter().filter_map(|listener| match listener {
            Listener::Edge(edge) => Some(edge.lookup_api_session_timeout),
            _ => None,
        });
        // A listener for SDKs is not opened without the section `edge`.
        let needs = |listener: &Listener| matches!(listener, Listener::Tunnel(_));
        let edge = config.edge.as_ref();
        Self {
            router_id: router_id.to_owned(),
            required: edge.is_some() || config.listeners.iter().any(needs),
            db: edge.map(|edge| edge.db.clone()),
            save_interval: edge.map_or(Duration::from_secs(30), |edge| edge.db_save_interval),
            lookup_timeout: lookup.max().unwrap_or(Duration::from_secs(5)),
        }
    }
}
