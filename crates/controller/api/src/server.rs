//! Starts and stops the server: bind points, their TLS, and the state that connections share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hyper::header::HeaderValue;
use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use weft_channel::{Accepted, ConnectionHandler, Listeners, Registration};
use weft_config::controller::StoreCheck;
use weft_config::{BindPoint, WebServer};
use weft_controller::Controller;
use weft_identity::LiveIdentity;
use weft_limits::LogLines;
use weft_web::{ConnectionTerms, PeerQuota, Scraper, Scrapes, StartError};

use crate::answer::Signature;
use crate::compress::Compressor;
use crate::files::{Origins, mounts};
use crate::health;
use crate::limits::ApiLimits;
use crate::oidc::Doorway;
use crate::routes::Routes;
use crate::site::{MetricsDoor, Shared, Site};
use crate::texts::Texts;
use crate::urls::answered;

/// Time for connections to end after they were told to.
const CUT: Duration = Duration::from_secs(1);

/// The parts that a server needs.
#[derive(Debug)]
pub struct Setup {
    /// The controller that answers.
    pub controller: Controller,
    /// The identity of the process, for servers without an identity of their own.
    pub identity: Arc<LiveIdentity>,
    /// The listening sockets of the process, so that other protocols can share a bind point.
    pub listeners: Arc<Listeners>,
    /// The limits on peers.
    pub limits: ApiLimits,
    /// The check of the store.
    pub store_check: StoreCheck,
}

impl Setup {
    /// These parts, with the default limits.
    pub fn new(
        controller: Controller,
        identity: Arc<LiveIdentity>,
        listeners: Arc<Listeners>,
    ) -> Self {
        let limits = ApiLimits::default();
        Self { controller, identity, listeners, limits, store_check: StoreCheck::default() }
    }
}

/// The running server. Dropping it stops listening, and connections finish their requests;
/// [`ApiServer::shutdown`] waits for them.
#[derive(Debug)]
pub struct ApiServer {
    connections: Arc<PeerQuota>,
    registrations: Vec<Registration>,
    identities: Vec<Arc<LiveIdentity>>,
    scrapers: Vec<Arc<Scraper>>,
    shared: Arc<Shared>,
    _stopping: DropGuard,
}

impl ApiServer {
    /// Starts the servers of a `web` section. Returns when every bind point listens.
    pub async fn start(servers: &[WebServer], setup: Setup) -> Result<Self, StartError> {
        let Setup { controller, identity, listeners, limits, store_check } = setup;
        let stopping = CancellationToken::new();
        let shared = Arc::new(Shared {
            routes: Routes::new(),
            signature: Signature::new(&controller),
            requests: PeerQuota::new(limits.requests, limits.requests_per_source, limits.grace),
            files: PeerQuota::new(limits.files, limits.files_per_source, limits.grace),
            compressor: Compressor::new(),
            origins: Origins::default(),
            faults: Mutex::new(LogLines::new(Instant::now())),
            failures: Mutex::new(LogLines::new(Instant::now())),
            bodies: PeerQuota::new(limits.body_bytes, limits.body_bytes_per_source, limits.grace),
            answers: PeerQuota::new(
                limits.answer_bytes,
                limits.answer_bytes_per_source,
                limits.grace,
            ),
            scrapes: Scrapes::default(),
            texts: Texts::default(),
            health: health::begin(&controller, store_check, stopping.clone()),
            stopping: stopping.clone(),
            stopped: CancellationToken::new(),
            tasks: TaskTracker::new(),
            operations: TaskTracker::new(),
            controller,
            limits,
        });
        let connections = PeerQuota::new(
            shared.limits.connections,
            shared.limits.connections_per_source,
            shared.limits.grace,
        );
        let mut server = Self {
            connections,
            registrations: Vec::new(),
            identities: Vec::new(),
            scrapers: Vec::new(),
            shared,
            _stopping: stopping.drop_guard(),
        };
        for config in servers {
            server.add(config, servers, &identity, &listeners).await?;
        }
        Ok(server)
    }

    /// The socket addresses of the bind points, in the order of the section.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.registrations.iter().map(Registration::local_addr)
    }

    /// The identities of single servers. A program that watches its identity files has to reload
    /// these, too.
    pub fn identities(&self) -> &[Arc<LiveIdentity>] {
        &self.identities
    }

    /// Reads the certificates of clients that may read metrics again.
    pub async fn reload(&self) {
        let scrapers = self.scrapers.clone();
        let read = move || scrapers.iter().for_each(|scraper| scraper.reload());
        // Failures were logged.
        let _ = tokio::task::spawn_blocking(read).await;
    }

    /// Stops listening, lets requests in work finish, and closes connections that are not done
    /// within the time. Lists and plans that are being made then are ended, and answered 503. Other operations that
    /// are being carried out have the second time to finish; connections that wait for their clients have not.
    pub async fn shutdown(mut self, within: Duration, operations: Duration) {
        self.registrations.clear();
        let shared = Arc::clone(&self.shared);
        shared.stopping.cancel();
        shared.tasks.close();
        if tokio::time::timeout(within, shared.tasks.wait()).await.is_ok() {
            return;
        }
        shared.controller.end_long_work();
        if self.finish_operations(operations).await {
            return;
        }
        tracing::warn!(
            left = shared.tasks.len(),
            "connections cut: requests were not done in time"
        );
        shared.stopped.cancel();
        let _ = tokio::time::timeout(CUT, shared.tasks.wait()).await;
    }

    /// Waits for the operations that are being carried out, and for their answers. Clients that are
    /// slow to send a request or to take an answer are not waited for. True if no connection is left.
    async fn finish_operations(&self, limit: Duration) -> bool {
        let shared = &self.shared;
        let running = shared.operations.len();
        if running > 0 {
            tracing::info!(
                running,
                ?limit,
                "the stop waits for operations that are being carried out; a second signal ends the process at once"
            );
        }
        shared.operations.close();
        let _ = tokio::time::timeout(limit, shared.operations.wait()).await;
        running > 0 && tokio::time::timeout(CUT, shared.tasks.wait()).await.is_ok()
    }

    async fn add(
        &mut self,
        config: &WebServer,
        all: &[WebServer],
        process: &Arc<LiveIdentity>,
        listeners: &Listeners,
    ) -> Result<(), StartError> {
        let name = &config.name;
        let apis = answered(&config.apis);
        let mounts = mounts(&config.apis, &apis);
        let metrics = MetricsDoor::of(config)?;
        self.scrapers.extend(metrics.scraper.clone());
        let identity = match weft_web::own_identity(config)? {
            Some(own) => {
                self.identities.push(Arc::clone(&own));
                own
            }
            None => Arc::clone(process),
        };
        let oidc = Doorway::of(config, all, &identity);
        for point in &config.bind_points {
            let BindPoint::Underlay { interface, address, new_address } = point else {
                continue;
            };
            weft_web::check_name(&config.name, address, &identity)?;
            let site = Arc::new(Site {
                shared: Arc::clone(&self.shared),
                apis: apis.clone(),
                mounts: Arc::clone(&mounts),
                terms: self.terms(config),
                metrics: metrics.clone(),
                oidc: oidc.clone(),
                new_address: new_address
                    .as_ref()
                    .and_then(|to| HeaderValue::from_str(&format!("https://{to}")).ok()),
            });
            let tls = weft_web::tls(&config.name, &config.options, &identity)?;
            let limits = self.shared.limits.listener();
            let source = Arc::new(move || Some(Arc::clone(&tls)));
            let handler = Arc::new(Handler(site));
            let registration = listeners
                .listen(&interface.to_string(), limits, weft_web::PROTOCOLS, source, handler)
                .await
                .map_err(|source| StartError::Bind { server: name.clone(), source })?;
            let local = registration.local_addr();
            if let Some(oidc) = &oidc {
                oidc.listens_at(local.port());
            }
            let files: Vec<_> = mounts.iter().map(|mount| mount.files.root()).collect();
            tracing::info!(server = %name, %local, %address, ?apis, ?files, "web server listens");
            self.registrations.push(registration);
        }
        Ok(())
    }
}

impl ApiServer {
    /// The terms for connections of a server.
    pub(crate) fn terms(&self, config: &WebServer) -> ConnectionTerms {
        let shared = &self.shared;
        ConnectionTerms {
            options: config.options.clone(),
            connections: Arc::clone(&self.connections),
            first_request: shared.limits.first_request,
            working: shared.limits.handler_timeout.max(shared.limits.document_timeout),
            stopping: shared.stopping.clone(),
            stopped: shared.stopped.clone(),
        }
    }
}

/// Passes the connections of a bind point to its site.
struct Handler(Arc<Site>);

impl ConnectionHandler for Handler {
    fn handle(&self, connection: Accepted) -> BoxFuture<'static, ()> {
        let site = Arc::clone(&self.0);
        let tasks = site.shared.tasks.clone();
        tasks.track_future(weft_web::serve(site, connection)).boxed()
    }
}
