//! Starting and stopping: bind points, their TLS, and what all connections share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hyper::header::HeaderValue;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use weft_channel::{Accepted, ConnectionHandler, Listeners, RegisterError, Registration};
use weft_config::web::{TlsVersion, WebOptions};
use weft_config::{BindPoint, HostPort, WebApi, WebServer};
use weft_contract::Api;
use weft_controller::Controller;
use weft_identity::tls::{ALPN_H2, ALPN_HTTP1, ClientAuth, ServerTls, server_config_of_versions};
use weft_identity::{AltServerCert, IdentitySection, LiveIdentity};

use crate::Limits;
use crate::answer::Signature;
use crate::compress::Compressor;
use crate::files::{Mount, mounts};
use crate::places::Places;
use crate::routes::Routes;
use crate::urls::{answered, served};

/// Protocols of a bind point; the empty one is for clients that offer none.
const PROTOCOLS: &[&str] = &["h2", "http/1.1", ""];
/// How long connections may take to end once they were cut.
const CUT: Duration = Duration::from_secs(1);

/// What a server is started with.
#[derive(Debug)]
pub struct Setup {
    /// Who answers.
    pub controller: Controller,
    /// The identity of the process, for servers without one of their own.
    pub identity: Arc<LiveIdentity>,
    /// The sockets of the process: other protocols may share a bind point.
    pub listeners: Arc<Listeners>,
    /// What peers may take up.
    pub limits: Limits,
}

impl Setup {
    /// With the default limits.
    pub fn new(
        controller: Controller,
        identity: Arc<LiveIdentity>,
        listeners: Arc<Listeners>,
    ) -> Self {
        Self { controller, identity, listeners, limits: Limits::default() }
    }
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The identity of a server is not there or not whole.
    #[error("web server `{server}`: {source}")]
    Identity {
        /// The server.
        server: String,
        /// What is wrong.
        source: weft_identity::Error,
    },
    /// No certificate names the host that clients are told to call.
    #[error(
        "web server `{server}`: address not valid {address}: no server certificate names this \
         host; use one that does, or tell clients another address"
    )]
    Name {
        /// The server.
        server: String,
        /// The address.
        address: HostPort,
    },
    /// The address cannot be listened on.
    #[error("web server `{server}`: {source}")]
    Bind {
        /// The server.
        server: String,
        /// What is wrong.
        source: RegisterError,
    },
}

/// The running server. When dropped it stops listening, and its connections finish what they are
/// at; [`ApiServer::shutdown`] waits for that.
#[derive(Debug)]
pub struct ApiServer {
    registrations: Vec<Registration>,
    identities: Vec<Arc<LiveIdentity>>,
    shared: Arc<Shared>,
    _stopping: DropGuard,
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) controller: Controller,
    pub(crate) limits: Limits,
    pub(crate) routes: Routes,
    pub(crate) signature: Signature,
    pub(crate) connections: Arc<Places>,
    pub(crate) requests: Arc<Places>,
    pub(crate) files: Arc<Places>,
    pub(crate) compressor: Compressor,
    pub(crate) bodies: Arc<Places>,
    /// No more requests are taken.
    pub(crate) stopping: CancellationToken,
    /// Whoever is still there is cut.
    pub(crate) stopped: CancellationToken,
    tasks: TaskTracker,
}

/// One bind point.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) shared: Arc<Shared>,
    /// The APIs that are served here, in the order in which they are asked.
    pub(crate) apis: Vec<Api>,
    /// The applications that are served here.
    pub(crate) mounts: Arc<[Mount]>,
    pub(crate) options: WebOptions,
    /// Where clients are told to go instead.
    pub(crate) new_address: Option<HeaderValue>,
}

impl ApiServer {
    /// Starts the servers of a `web` section. Returns when every bind point listens.
    pub async fn start(servers: &[WebServer], setup: Setup) -> Result<Self, StartError> {
        let Setup { controller, identity, listeners, limits } = setup;
        let stopping = CancellationToken::new();
        let shared = Arc::new(Shared {
            routes: Routes::new(),
            signature: Signature::new(&controller),
            connections: Places::new(
                limits.connections,
                limits.connections_per_source,
                limits.grace,
            ),
            requests: Places::new(limits.requests, limits.requests_per_source, limits.grace),
            files: Places::new(limits.files, limits.files_per_source, limits.grace),
            compressor: Compressor::new(),
            bodies: Places::new(limits.body_bytes, limits.body_bytes_per_source, limits.grace),
            stopping: stopping.clone(),
            stopped: CancellationToken::new(),
            tasks: TaskTracker::new(),
            controller,
            limits,
        });
        let mut server = Self {
            registrations: Vec::new(),
            identities: Vec::new(),
            shared,
            _stopping: stopping.drop_guard(),
        };
        for config in servers {
            server.add(config, &identity, &listeners).await?;
        }
        Ok(server)
    }

    /// The socket addresses of the bind points, in the order of the section.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.registrations.iter().map(Registration::local_addr)
    }

    /// The identities that servers have for themselves; whoever watches the files of the process
    /// reloads these too.
    pub fn identities(&self) -> &[Arc<LiveIdentity>] {
        &self.identities
    }

    /// Stops listening, lets requests that are worked on finish, and cuts those that are not done
    /// within the bound.
    pub async fn shutdown(mut self, within: Duration) {
        self.registrations.clear();
        let shared = Arc::clone(&self.shared);
        shared.stopping.cancel();
        shared.tasks.close();
        if tokio::time::timeout(within, shared.tasks.wait()).await.is_ok() {
            return;
        }
        tracing::warn!(
            left = shared.tasks.len(),
            "connections cut: requests were not done in time"
        );
        shared.stopped.cancel();
        let _ = tokio::time::timeout(CUT, shared.tasks.wait()).await;
    }

    async fn add(
        &mut self,
        config: &WebServer,
        process: &Arc<LiveIdentity>,
        listeners: &Listeners,
    ) -> Result<(), StartError> {
        let name = &config.name;
        let is_missing = |api: &&WebApi| served(api).is_none() && !matches!(api, WebApi::Files(_));
        for api in config.apis.iter().filter(is_missing) {
            let binding = api.binding();
            tracing::warn!(server = %name, binding, "this API is not served yet");
        }
        let apis = answered(&config.apis);
        let mounts = mounts(&config.apis, &apis);
        let identity = self.identity(config, process)?;
        for point in &config.bind_points {
            let BindPoint::Underlay { interface, address, new_address } = point else {
                tracing::warn!(server = %name, "bind points inside the network are not served yet");
                continue;
            };
            check_name(config, address, &identity)?;
            let site = Arc::new(Site {
                shared: Arc::clone(&self.shared),
                apis: apis.clone(),
                mounts: Arc::clone(&mounts),
                options: config.options.clone(),
                new_address: new_address
                    .as_ref()
                    .and_then(|to| HeaderValue::from_str(&format!("https://{to}")).ok()),
            });
            let tls = tls(config, &identity)?;
            let limits = self.shared.limits.listener();
            let source = Arc::new(move || Some(Arc::clone(&tls)));
            let handler = Arc::new(Handler(site));
            let registration = listeners
                .listen(&interface.to_string(), limits, PROTOCOLS, source, handler)
                .await
                .map_err(|source| StartError::Bind { server: name.clone(), source })?;
            let local = registration.local_addr();
            let files: Vec<_> = mounts.iter().map(|mount| mount.files.root()).collect();
            tracing::info!(server = %name, %local, %address, ?apis, ?files, "web server listens");
            self.registrations.push(registration);
        }
        Ok(())
    }

    /// The identity of a server: its own, or that of the process.
    fn identity(
        &mut self,
        config: &WebServer,
        process: &Arc<LiveIdentity>,
    ) -> Result<Arc<LiveIdentity>, StartError> {
        let Some(section) = &config.identity else { return Ok(Arc::clone(process)) };
        let section = to_section(section);
        let identity = section
            .require_web()
            .and_then(|()| LiveIdentity::load(section))
            .map_err(|source| StartError::Identity { server: config.name.clone(), source })?;
        self.identities.push(Arc::clone(&identity));
        Ok(identity)
    }
}

/// Clients would refuse a certificate that does not name the address they are told
/// (protocol: config 3.2).
fn check_name(
    config: &WebServer,
    address: &HostPort,
    identity: &LiveIdentity,
) -> Result<(), StartError> {
    let host = address.host.split('%').next().unwrap_or_default();
    let is_named = identity.current().servers().iter().any(|chain| chain.leaf().covers_host(host));
    if is_named {
        return Ok(());
    }
    Err(StartError::Name { server: config.name.clone(), address: address.clone() })
}

/// A certificate is asked for and not required; what it is worth is decided by each operation
/// (protocol: auth 1.2).
fn tls(config: &WebServer, identity: &Arc<LiveIdentity>) -> Result<Arc<ServerConfig>, StartError> {
    let tls = ServerTls { alpn: &[ALPN_H2, ALPN_HTTP1], client_auth: ClientAuth::Request };
    let options = &config.options;
    let wanted = |version: &TlsVersion| (options.min_tls..=options.max_tls).contains(version);
    let known = [(TlsVersion::V1_2, &TLS12), (TlsVersion::V1_3, &TLS13)];
    let versions: Vec<&'static SupportedProtocolVersion> =
        known.into_iter().filter(|(version, _)| wanted(version)).map(|(_, it)| it).collect();
    server_config_of_versions(identity, &tls, &versions)
        .map(Arc::new)
        .map_err(|source| StartError::Identity { server: config.name.clone(), source })
}

fn to_section(section: &weft_config::IdentitySection) -> IdentitySection {
    let alt = |alt: &weft_config::AltServerCert| AltServerCert {
        server_cert: alt.server_cert.clone(),
        server_key: alt.server_key.clone(),
    };
    IdentitySection {
        section: section.section.clone(),
        cert: section.cert.clone(),
        server_cert: section.server_cert.clone(),
        key: section.key.clone(),
        server_key: section.server_key.clone(),
        ca: section.ca.clone(),
        alt_server_certs: section.alt_server_certs.iter().map(alt).collect(),
    }
}

/// Gives the connections of a bind point to its site.
struct Handler(Arc<Site>);

impl ConnectionHandler for Handler {
    fn handle(&self, connection: Accepted) -> BoxFuture<'static, ()> {
        let site = Arc::clone(&self.0);
        let tasks = site.shared.tasks.clone();
        tasks.track_future(site.serve(connection)).boxed()
    }
}
