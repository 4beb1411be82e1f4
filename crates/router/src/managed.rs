//! Settings for links that a controller keeps for this router (`managedConfig`;
//! docs/protocol/edge-control-plane.md 6.2, docs/protocol/management-api.md 8).
//!
//! The router's file comes first: a setting that the file does not allow or has itself is not taken from a
//! controller. A config with a mistake is not taken either, and the settings taken before it stay.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weft_channel::{Listeners, TlsSource};
use weft_config::RouterConfig;
use weft_config::router::{LinkConfig, LinkListener as ListenerConfig};

use crate::access::ManagedConfigs;
use crate::control::ControlHalf;
use crate::link::datagram::Socket;
use crate::link::{Links, links_over};
use crate::seam::LinkListener;

/// The config type of links.
pub(crate) const LINK: &str = "router.link.v1";
/// How often listening on an address in use is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// True if a controller may set how this router links: the file allows it and has no links of its own.
pub(crate) fn links_are_managed(config: &RouterConfig) -> bool {
    let link = &config.link;
    config.allows_managed(LINK) && link.listeners.is_empty() && link.dialers.is_empty()
}

/// Applies the settings for links that controllers send.
pub(crate) struct ManagedLinks {
    pub(crate) links: Arc<Links>,
    pub(crate) control: ControlHalf,
    pub(crate) sockets: Arc<Listeners>,
    pub(crate) tls: TlsSource,
    pub(crate) wanted: watch::Receiver<ManagedConfigs>,
    /// The longest silence of a link, where the config does not set one.
    pub(crate) unresponsive: Duration,
    /// Cancelled when nothing new is accepted any more.
    pub(crate) draining: CancellationToken,
}

/// An open listener.
struct Open {
    config: ListenerConfig,
    told: LinkListener,
    _registration: Socket,
}

impl ManagedLinks {
    /// Applies each new config until the router drains.
    pub(crate) async fn follow(self) {
        let draining = self.draining.clone();
        let _ = draining.run_until_cancelled(self.run()).await;
    }

    async fn run(mut self) {
        let mut open = Vec::new();
        let mut seen: Option<String> = None;
        let mut setup = None;
        loop {
            let told = self.wanted.borrow_and_update().get(LINK).cloned();
            if told != seen {
                setup = self.read(told.as_deref()).or(setup);
                seen = told;
                if let Some(setup) = &setup {
                    self.links.set_up(LinkConfig::clone(setup));
                }
            }
            let is_complete = match &setup {
                Some(setup) => self.listen(setup, &mut open).await,
                None => true,
            };
            let changed = self.wanted.changed();
            let waited = match is_complete {
                true => changed.await,
                false => tokio::time::timeout(RETRY, changed).await.unwrap_or(Ok(())),
            };
            if waited.is_err() {
                return;
            }
        }
    }

    /// Reads a config; `None` if it has a mistake. Without a config there are no links.
    fn read(&self, json: Option<&str>) -> Option<LinkConfig> {
        match LinkConfig::from_managed(json.unwrap_or("{}"), self.unresponsive) {
            Ok((config, warnings)) => {
                let (listeners, dialers) = (config.listeners.len(), config.dialers.len());
                tracing::info!(
                    listeners,
                    dialers,
                    warnings,
                    "settings for links of a controller are in use ({LINK})"
                );
                Some(config)
            }
            Err(problem) => {
                tracing::error!(
                    problem,
                    "settings for links of a controller have a mistake and are not used ({LINK})"
                );
                None
            }
        }
    }

    /// Opens and closes listeners. False if one of them could not be opened.
    async fn listen(&self, setup: &LinkConfig, open: &mut Vec<Open>) -> bool {
        let wanted: Vec<_> =
            setup.listeners.iter().filter(|one| links_over(one.bind.scheme)).collect();
        let before = open.len();
        open.retain(|one| wanted.contains(&&one.config));
        let (mut is_other, mut is_complete) = (open.len() != before, true);
        for config in wanted {
            if open.iter().any(|one| one.config == *config) {
                continue;
            }
            match self.links.listen(&self.sockets, config, self.tls.clone()).await {
                Ok((_, told, registration)) => {
                    open.push(Open { config: config.clone(), told, _registration: registration });
                    is_other = true;
                }
                Err(problem) => {
                    tracing::error!(
                        %problem,
                        "a listener for links that a controller set could not be opened; it is \
                         tried again ({LINK})"
                    );
                    is_complete = false;
                }
            }
        }
        if is_other {
            let told = open.iter().map(|one| one.told.clone());
            self.control.set_link_listeners(told.collect());
        }
        is_complete
    }
}
