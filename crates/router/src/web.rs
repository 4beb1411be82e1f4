//! The HTTP servers of a router: health checks and metrics, for every client that reaches the port.
//!
//! Metrics are read at most once a second, however many clients ask; health checks show the outcome of
//! their last run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weft_channel::{Accepted, ConnectionHandler, ListenerLimits, Listeners, Registration, clock};
use weft_config::{BindPoint, WebApi, WebServer};
use weft_identity::LiveIdentity;
use weft_metrics::{Exposition, names};
use weft_web::{
    ConnectionTerms, Peer, PeerQuota, Scraper, Scrapes, Site, StartError, Text, health,
};

use crate::data::DataHalf;
use crate::health::Health;

/// Most connections in all, and from one address.
const CONNECTIONS: usize = 1024;
const CONNECTIONS_PER_SOURCE: usize = 128;
/// Most connections that have not sent a request yet.
const PENDING: usize = 256;
const PENDING_PER_SOURCE: usize = 64;
/// Time limits for the head of the first request, and for answering a request.
const FIRST_REQUEST: Duration = Duration::from_secs(10);
const WORKING: Duration = Duration::from_secs(10);
/// How long a text of metrics serves all clients.
const FRESH: Duration = Duration::from_secs(1);
/// Longest text of metrics, in bytes.
const MAX_TEXT: usize = 32 << 20;

/// The HTTP servers of a router.
pub(crate) struct WebServers {
    registrations: Vec<Registration>,
    identities: Vec<Arc<LiveIdentity>>,
    scrapers: Vec<Arc<Scraper>>,
    stopping: CancellationToken,
}

/// The sources of answers.
pub(crate) struct Sources {
    pub(crate) router_id: String,
    pub(crate) health: Arc<Health>,
    pub(crate) data: Arc<DataHalf>,
    /// The latest texts of metrics, without and with times.
    pub(crate) texts: [Mutex<Option<(Instant, Bytes)>>; 2],
}

impl WebServers {
    /// Starts the servers of a `web` section. Returns when every bind point listens.
    pub(crate) async fn start(
        servers: &[WebServer],
        sources: Sources,
        process: &Arc<LiveIdentity>,
        listeners: &Listeners,
    ) -> Result<Self, StartError> {
        let mut started = Self {
            registrations: Vec::new(),
            identities: Vec::new(),
            scrapers: Vec::new(),
            stopping: CancellationToken::new(),
        };
        let sources = Arc::new(sources);
        let grace = Duration::from_secs(2);
        let scrapes = Scrapes::default();
        let connections = PeerQuota::new(CONNECTIONS, CONNECTIONS_PER_SOURCE, grace);
        for config in servers {
            let own = weft_web::own_identity(config)?;
            started.identities.extend(own.clone());
            let identity = own.unwrap_or_else(|| Arc::clone(process));
            let apis: Arc<[Api]> = apis(config)?.into();
            started.scrapers.extend(apis.iter().filter_map(|api| match api {
                Api::Metrics { scraper, .. } => scraper.clone(),
                Api::Health => None,
            }));
            for point in &config.bind_points {
                let BindPoint::Underlay { interface, address, .. } = point else {
                    continue;
                };
                // Clients that check the router's health may ignore names, so that a missing name is
                // only logged.
                if let Err(problem) = weft_web::check_name(&config.name, address, &identity) {
                    tracing::warn!(%problem, "a server of the section web has no certificate for its name");
                }
                let site = Arc::new(Door {
                    sources: Arc::clone(&sources),
                    apis: Arc::clone(&apis),
                    scrapes: scrapes.clone(),
                    terms: ConnectionTerms {
                        options: config.options.clone(),
                        connections: Arc::clone(&connections),
                        first_request: FIRST_REQUEST,
                        working: WORKING,
                        stopping: started.stopping.clone(),
                        stopped: started.stopping.clone(),
                    },
                });
                let tls = weft_web::tls(&config.name, &config.options, &identity)?;
                let limits = ListenerLimits {
                    pending: PENDING,
                    pending_per_source: PENDING_PER_SOURCE,
                    connections: CONNECTIONS,
                    ..ListenerLimits::default()
                };
                let source = Arc::new(move || Some(Arc::clone(&tls)));
                let handler = Arc::new(Handler { site, tasks: TaskTracker::new() });
                let registration = listeners
                    .listen(&interface.to_string(), limits, weft_web::PROTOCOLS, source, handler)
                    .await
                    .map_err(|source| StartError::Bind { server: config.name.clone(), source })?;
                let local = registration.local_addr();
                tracing::info!(server = %config.name, %local, %address, "web server listens");
                started.registrations.push(registration);
            }
        }
        Ok(started)
    }

    /// Reads the identity files of single servers, and the certificates of clients that may read
    /// metrics, again.
    pub(crate) async fn reload(&self) {
        let scrapers = self.scrapers.clone();
        let read = move || scrapers.iter().for_each(|scraper| scraper.reload());
        // Errors of the files have been logged.
        let _ = tokio::task::spawn_blocking(read).await;
        for identity in &self.identities {
            let files = Arc::clone(identity);
            let looked = tokio::task::spawn_blocking(move || files.reload_if_changed()).await;
            if let Ok(Err(problem)) = looked {
                tracing::warn!(
                    %problem,
                    "the changed identity files cannot be used; the former certificates stay \
                     in use"
                );
            }
        }
    }

    /// Stops listening and ends connections.
    pub(crate) fn stop(&self) {
        self.stopping.cancel();
    }
}

/// An API of a bind point.
#[derive(Debug)]
enum Api {
    Health,
    Metrics { scraper: Option<Arc<Scraper>>, with_times: bool },
}

fn apis(config: &WebServer) -> Result<Vec<Api>, StartError> {
    let mut apis = Vec::new();
    for api in &config.apis {
        match api {
            WebApi::HealthChecks => apis.push(Api::Health),
            WebApi::Metrics { scrape_cert, include_timestamps } => {
                let load = |path: &std::path::PathBuf| Scraper::load(path).map(Arc::new);
                let scraper = scrape_cert.as_ref().map(load).transpose();
                let scraper = scraper.map_err(|source| StartError::Scraper {
                    server: config.name.clone(),
                    source,
                })?;
                apis.push(Api::Metrics { scraper, with_times: *include_timestamps });
            }
            _ => {}
        }
    }
    Ok(apis)
}

/// One bind point.
struct Door {
    sources: Arc<Sources>,
    apis: Arc<[Api]>,
    scrapes: Scrapes,
    terms: ConnectionTerms,
}

impl Site for Door {
    type ResponseBody = Text;

    fn terms(&self) -> &ConnectionTerms {
        &self.terms
    }

    async fn exchange(&self, peer: &Arc<Peer>, request: Request<Incoming>) -> Response<Text> {
        let _working = peer.begin();
        let uri = request.uri();
        let is_below = |base: &str| {
            uri.path()
                .strip_prefix(base)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        for api in self.apis.iter() {
            match api {
                Api::Health if is_below("/health-checks") => {
                    let mut query = uri.query().unwrap_or_default().split('&');
                    let is_short = query.any(|pair| pair == "type=short");
                    let seen = self.sources.health.seen();
                    let text = health::pretty(&health::answer(&seen, is_short));
                    return answer(StatusCode::OK, "application/json", text.into());
                }
                Api::Metrics { scraper, with_times } if is_below("/metrics") => {
                    let kind = "text/plain; version=0.0.4; charset=utf-8";
                    let leaf = peer.certificates.first();
                    let now = clock::time_of_day();
                    if scraper.as_ref().is_some_and(|one| !one.admits(leaf, now)) {
                        return answer(StatusCode::UNAUTHORIZED, kind, Bytes::new().into());
                    }
                    let Some(scrape) = self.scrapes.begin(peer) else {
                        let text = Bytes::from_static(b"too many read metrics at this moment\n");
                        return answer(StatusCode::TOO_MANY_REQUESTS, "text/plain", text.into());
                    };
                    let text = scrape.body(self.sources.metrics(*with_times));
                    return answer(StatusCode::OK, kind, text);
                }
                Api::Health | Api::Metrics { .. } => {}
            }
        }
        answer(StatusCode::NOT_FOUND, "text/plain", Bytes::from_static(b"not found\n").into())
    }
}

impl Sources {
    fn metrics(&self, with_times: bool) -> Bytes {
        // Other clients wait meanwhile, and get the same text.
        let [without, with] = &self.texts;
        let mut last = if with_times { with } else { without }.lock();
        if let Some((_, text)) = last.as_ref().filter(|(at, _)| clock::since(*at) < FRESH) {
            return text.clone();
        }
        let at =
            with_times.then(|| u64::try_from(clock::since_1970().as_millis()).unwrap_or_default());
        let mut to = Exposition::new(MAX_TEXT);
        let peers = self.data.link_peers();
        for (name, value) in &self.data.measures().read() {
            let (metric, entity) = names::split(name);
            let ends = entity.and_then(|link| peers.get(link));
            let mut labels = Vec::with_capacity(4);
            if let Some((source, target)) = ends {
                labels.push(("sourceRouterId", source.as_str()));
                labels.push(("targetRouterId", target.as_str()));
            }
            labels.push(("source_id", self.router_id.as_str()));
            labels.extend(entity.map(|entity| ("source_entity_id", entity)));
            to.add(metric, value, &labels, at);
        }
        let text = Bytes::from(to.text());
        *last = Some((clock::now(), text.clone()));
        text
    }
}

fn answer(status: StatusCode, kind: &'static str, text: Text) -> Response<Text> {
    let mut response = Response::new(text);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Gives the connections of a bind point to its site.
struct Handler {
    site: Arc<Door>,
    tasks: TaskTracker,
}

impl ConnectionHandler for Handler {
    fn handle(&self, connection: Accepted) -> BoxFuture<'static, ()> {
        let site = Arc::clone(&self.site);
        self.tasks.track_future(weft_web::serve(site, connection)).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bindings::edge::tests::data_half;
    use crate::controllers::Controllers;
    use crate::health::tests::rare;
    use crate::tests::support::later;

    /// The times of all values in a text, in milliseconds since 1970.
    fn times(text: &Bytes) -> Vec<u64> {
        let text = str::from_utf8(text).unwrap();
        let values = text.lines().filter(|line| !line.starts_with('#'));
        values.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
    }

    #[tokio::test]
    async fn values_have_the_time_of_their_text_which_serves_for_a_second() {
        let (data, runtime) = (data_half().await, tokio::runtime::Handle::current());
        let controllers = Arc::new(Controllers::new(FRESH));
        let health = Health::start(rare(), controllers, &data, &runtime, CancellationToken::new());
        let sources =
            Sources { router_id: "r1".to_owned(), health, data, texts: Default::default() };
        let day = Duration::from_secs(24 * 3600);
        let first = sources.metrics(true);
        assert_eq!(sources.metrics(true), first);
        later(day).await;
        let (first, second) = (times(&first), times(&sources.metrics(true)));
        let (Some(earlier), Some(later)) = (first.last(), second.last()) else {
            panic!("no values: {first:?}, {second:?}");
        };
        let after = Duration::from_millis(later - earlier);
        assert!(after.abs_diff(day) < day / 2, "{after:?}");
        assert!(second.iter().all(|at| at == later), "{second:?}");
    }
}
