//! From a controller's file to a running controller.
//!
//! The controller starts from the inside out: keys, store, model with its sessions, network, and then
//! the sockets. It stops in the reverse order. The APIs and the control plane may share one socket:
//! ALPN tells them apart.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weft_api::{ApiServer, Setup, base_urls};
use weft_channel::{ListenerLimits, Listeners, Registration, TraceFile};
use weft_config::{ControllerConfig, Loaded};
use weft_control::{ControlOptions, ControlPlane, DialerOptions};
use weft_controller::{Addresses, Controller, Durations, GuessLimits, Settings};
use weft_identity::{Identity, LiveIdentity};
use weft_model::Timestamp;
use weft_network::{Network, NetworkOptions};
use weft_store::{Embedded, OpenError, Options, Store};

use super::exchange::{self, Files, Following};
use super::keys::{self, Material};
pub(crate) use super::offline::Reach;
use super::offline::keep_to_loopback;
use super::{cluster, ending, session_key, shown, warn};
use crate::check::{self, Purpose};
use crate::cli::AgentOptions;
use crate::failure::{Failure, Result};
use crate::fetch::Fetcher;
use crate::profile::Profiles;
use crate::service::{HangUps, Manager};
use crate::spans::Export;
use crate::{agent, build};

/// Longest time for stopping, which the service manager is told.
const STOPPING: Duration = Duration::from_secs(17);
/// Most connections of routers that have not authenticated yet, in all and from one address.
const PENDING: usize = 1024;
const PENDING_PER_SOURCE: usize = 256;
/// Time for the last traced messages to reach their file.
const TRACED: Duration = Duration::from_secs(2);
/// Time for requests in progress once the controller stops.
const DRAIN: Duration = Duration::from_secs(5);
/// Time after that for operations that are being carried out, such as the change of a whole network. The
/// times of a stop together are shorter than `TimeoutStopSec=` in docs/systemd/weft-controller.service.
const OPERATIONS: Duration = Duration::from_secs(60);

/// Longest time for a TLS handshake, whatever the file says.
const MAX_HANDSHAKE: Duration = Duration::from_secs(60);
/// The time in which routers connect after a move and learn the keys of this controller: they try again every 5 minutes, and
/// those of OpenZiti 1.6 may take half a minute then.
const ROUTERS_LEARN_FOR: Duration = Duration::from_secs(360);

/// A controller without sockets: enough for `init`. [`Core::serve`] opens the sockets.
pub(crate) struct Core {
    config: ControllerConfig,
    identity: Arc<LiveIdentity>,
    /// Certificate and key of the edge signer.
    signer: Arc<LiveIdentity>,
    store: Arc<dyn Store>,
    controller: Controller,
}

impl Core {
    /// Checks the file, opens the store and loads the model; a controller that starts needs a store that
    /// exists, else a new one is made. If anything is wrong with the file, no
    /// database is opened and no key is made.
    pub(crate) async fn open(file: &Path, purpose: Purpose) -> Result<Self> {
        Box::pin(Self::open_reaching(file, purpose, Reach::Everywhere)).await
    }

    /// [`Core::open`] of a controller that may have to keep to loopback.
    pub(crate) async fn open_reaching(file: &Path, purpose: Purpose, reach: Reach) -> Result<Self> {
        let mut examined = ControllerConfig::examine_path(file)?;
        // The sockets of the file are not those that are opened.
        let looked_at = if reach == Reach::Loopback { Purpose::Advice } else { purpose };
        check::controller(&mut examined, looked_at);
        let loaded = check::accept(examined)?;
        warn(&loaded);
        let Loaded { mut config, .. } = loaded;
        if reach == Reach::Loopback {
            keep_to_loopback(&mut config)?;
        }
        if purpose == Purpose::Start && config.storage.cluster.is_none() {
            there_is(&config.storage.database)?;
        }
        let section = config.identity.clone().with_controller_defaults();
        let identity = LiveIdentity::load(section)?;
        let signer = LiveIdentity::load(keys::signer_section(&config)?)?;
        let id = id_of(&identity)?;
        let store = open_store(&config, (&id, purpose)).await?;
        let settings = settings(&config, &identity, &signer, (id, Arc::clone(&store)))?;
        let settings = Settings { joins: purpose == Purpose::Start, ..settings };
        let controller = Controller::start(settings)
            .await
            .map_err(|error| Failure::caused_by(&error).during("the controller cannot start"))?;
        Ok(Self { config, identity, signer, store, controller })
    }

    /// [`Core::open`] for work on the database of a controller that is stopped; makes no database.
    pub(crate) async fn open_existing(file: &Path) -> Result<Self> {
        there_is(&own_file(file)?)?;
        Box::pin(Self::open(file, Purpose::Advice)).await
    }

    pub(crate) fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Logs the passwords that were set while the controller was stopped.
    fn tell_of_passwords(&self) {
        match self.controller.take_reset_passwords() {
            Ok(set) => set.iter().for_each(|(whose, at)| {
                tracing::warn!(
                    login = whose,
                    at,
                    "the password was set by `weft controller password` while the controller was stopped"
                );
            }),
            Err(error) => tracing::warn!(%error, "passwords that were set meanwhile cannot be told"),
        }
    }

    /// Waits until everything is on the disk and closes the database. Dropping the store would not
    /// close it: tasks of the controller hold the store until the process ends.
    pub(crate) async fn close(self) -> Result<()> {
        self.store.close().await.map_err(|error| Failure::caused_by(&error))
    }

    /// Time for a TLS handshake at any socket.
    fn handshake_timeout(&self) -> Duration {
        self.config.tls.handshake_timeout.min(MAX_HANDSHAKE)
    }

    /// Opens the sockets. If that fails, the database is closed.
    pub(crate) async fn serve(self) -> Result<RunningController> {
        let store = Arc::clone(&self.store);
        let served = self.open_sockets().await;
        if served.is_err()
            && let Err(error) = store.close().await
        {
            tracing::warn!(%error, "the database could not be closed");
        }
        served
    }

    async fn open_sockets(self) -> Result<RunningController> {
        let controller = self.controller.clone();
        let export = Export::start("weft-controller");
        let options = NetworkOptions::from(&self.config.network);
        let options = NetworkOptions { spans: export.spans(), ..options };
        let network = controller.start_network(options);
        let mut options = ControlOptions::from(&self.config);
        if let Some(path) = &self.config.debugging.trace {
            let file = TraceFile::create(path, &controller.kernel().settings().id);
            let file = file.map_err(|error| Failure::new(format!("{}: {error}", path.display())));
            options.trace = Some(file.map_err(|error| error.during("trace.path"))?);
        }
        let trace = options.trace.clone();
        let control = ControlPlane::start(controller.auth(), network.clone(), options)
            .await
            .map_err(|error| Failure::caused_by(&error))?;
        let listeners = Arc::new(Listeners::new());
        let mut setup = Setup::new(controller, Arc::clone(&self.identity), Arc::clone(&listeners));
        setup.limits.handshake_timeout = self.handshake_timeout();
        setup.store_check = self.config.store_check.clone();
        let api = ApiServer::start(&self.config.web, setup)
            .await
            .map_err(|error| Failure::caused_by(&error))?;
        let registration = listen(&control, &self, &listeners).await?;
        control.dial_controllers(&self.identity)?;
        let dialer = &self.config.ctrl.dialer;
        if dialer.enabled {
            control.dial_routers(&self.identity, DialerOptions::from(dialer))?;
        }
        let files = Files {
            own: Arc::clone(&self.identity),
            signer: Arc::clone(&self.signer),
            web: api.identities().to_vec(),
        };
        let ending = ending::watch(files.all(), &self.controller);
        let reload = exchange::follow(self.config.clone(), files, self.controller.clone());
        Ok(RunningController {
            core: self,
            network,
            control,
            registration,
            api,
            reload,
            ending,
            trace,
            export,
        })
    }
}

/// A controller that listens.
pub(crate) struct RunningController {
    core: Core,
    network: Network,
    control: ControlPlane,
    registration: Option<Registration>,
    api: ApiServer,
    reload: Following,
    ending: ending::Watch,
    trace: Option<TraceFile>,
    export: Export,
}

impl RunningController {
    pub(crate) fn controller(&self) -> &Controller {
        self.core.controller()
    }

    /// Address of the APIs that clients are told (`edge.api.address`).
    pub(crate) fn api_address(&self) -> &str {
        &self.controller().kernel().settings().addresses.api
    }

    /// Reads the identity files again, and the certificates of clients that may read metrics.
    async fn reload(&self) {
        self.reload.now().await;
        self.api.reload().await;
    }

    /// Stops in order: no new connections, requests finish, routers are disconnected, everything
    /// reaches the disk.
    pub(crate) async fn shutdown(self) -> Result<()> {
        let Self { core, network, control, registration, api, reload, ending, trace, export } =
            self;
        drop((reload, ending));
        control.stop();
        drop(registration);
        api.shutdown(DRAIN, OPERATIONS).await;
        network.stop().await;
        if let Some(trace) = trace {
            trace.flush(TRACED).await;
        }
        let closed = core.close().await;
        export.end().await;
        closed
    }
}

/// Listens for routers where the file says.
async fn listen(
    control: &ControlPlane,
    core: &Core,
    listeners: &Listeners,
) -> Result<Option<Registration>> {
    let Some(listener) = &core.config.ctrl.listener else { return Ok(None) };
    let bind = listener.host_port();
    let tls = ControlPlane::tls(&core.identity)?;
    let handshake_timeout = core.handshake_timeout();
    let limits = ListenerLimits {
        pending: PENDING,
        pending_per_source: PENDING_PER_SOURCE,
        handshake_timeout,
        ..ListenerLimits::default()
    };
    let registration = control
        .listen(listeners, &bind, limits, tls)
        .await
        .map_err(|error| Failure::caused_by(&error).during("ctrl.listener"))?;
    tracing::info!(local = %registration.local_addr(), "control plane listens");
    Ok(Some(registration))
}

/// The material of the keys at the start, read from the files before any server runs.
fn material(
    config: &ControllerConfig,
    identity: &LiveIdentity,
    signer: &LiveIdentity,
) -> Result<Material> {
    let own = keys::with_identity(config).filter_map(|server| server.identity.as_ref());
    let load = |section| Identity::load(section).map(Arc::new);
    let web = own.map(load).collect::<weft_identity::Result<_>>()?;
    Ok(Material { own: identity.current(), signer: signer.current(), web })
}

fn settings(
    config: &ControllerConfig,
    identity: &LiveIdentity,
    signer: &LiveIdentity,
    (id, store): (String, Arc<dyn Store>),
) -> Result<Settings> {
    let keys = keys::of(config, &material(config, identity, signer)?)?;
    // A network that begins here has no other controller that would have the key.
    let is_shared = config.storage.cluster.is_some() && store.heads().borrow().0 > 0;
    let settings = Settings::new(id, store, keys, addresses(config));
    let settings = Settings {
        durations: durations(config),
        shown: shown::controller(config),
        snapshot_folder: config.snapshot_folder.clone(),
        unrestricted_bindings: config.network.unrestricted_bindings.clone(),
        build: build::of_controller(),
        shared: cluster::shared(config)?,
        stale_for: config.storage.cluster.as_ref().map_or(settings.stale_for, |it| it.stale_for),
        routers_learn_for: ROUTERS_LEARN_FOR,
        way_back_until: config
            .way_back_until
            .map(|until| Timestamp::from_secs(until.unix_timestamp())),
        ..settings
    };
    Ok(match &config.edge {
        Some(edge) => Settings {
            session_key: session_key::of(edge, is_shared)?,
            totp_issuer: edge.totp_hostname.clone(),
            login_limiter: edge.auth_rate_limiter.clone(),
            logins: edge.logins.clone(),
            guess_limits: GuessLimits {
                per_name: edge.wrong_passwords_per_name,
                per_address: edge.wrong_passwords_per_address,
            },
            jwks_fetch: edge.jwks_fetch.clone(),
            key_source: Arc::new(Fetcher::new(edge.jwks_fetch.clone())),
            external_tokens: edge.external_tokens.clone(),
            router_names: edge.enrollment.router_names.clone(),
            posture_checks: !edge.disable_posture_checks,
            ..settings
        },
        None => settings,
    })
}

/// The file of a controller: its database, or its copy of what several share.
pub(crate) fn own_file(file: &Path) -> Result<PathBuf> {
    let Loaded { config, .. } = ControllerConfig::from_path(file)?;
    Ok(config.storage.database)
}

/// Refuses a database that does not exist, or is empty: a controller that runs without its network would
/// know neither its identities nor its administrator.
fn there_is(database: &Path) -> Result<()> {
    let place = database.display();
    let found = match std::fs::metadata(database) {
        Ok(found) if found.len() > 0 => return Ok(()),
        Ok(_) => format!("the database at {place} is empty"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            format!("there is no database at {place}")
        }
        // Opening it names the problem.
        Err(_) => return Ok(()),
    };
    Err(Failure::new(format!(
        "{found}: is the path right, is its disk mounted? A new network is made by `weft controller \
         init`"
    )))
}

/// The id of a controller.
fn id_of(identity: &LiveIdentity) -> Result<String> {
    let current = identity.current();
    current.name().map(ToString::to_string).ok_or_else(|| {
        Failure::new(
            "the certificate of the section `identity` has no common name, which is the id of the \
             controller",
        )
    })
}

/// How the database is opened.
pub(super) fn options(config: &ControllerConfig) -> Options {
    Options { log_limit: config.router_data_model.log_size as usize, ..Options::default() }
}

async fn open_store(
    config: &ControllerConfig,
    (id, purpose): (&str, Purpose),
) -> Result<Arc<dyn Store>> {
    let path = &config.storage.database;
    let options = options(config);
    if let Some(cluster) = &config.storage.cluster {
        let open = Box::pin(cluster::open(cluster, path, options, (id, purpose)));
        return Ok(Arc::new(open.await?));
    }
    let store = Embedded::open(path, options).map_err(|error| {
        let failure = Failure::caused_by(&error).during(format!("db {}", path.display()));
        match error {
            OpenError::Damaged(_) => failure.and(
                "`weft controller restore FILE SNAPSHOT` restores a snapshot, and keeps what was the \
                 database",
            ),
            _ => failure,
        }
    })?;
    Ok(Arc::new(store))
}

fn addresses(config: &ControllerConfig) -> Addresses {
    let api = config.edge.as_ref().and_then(|edge| edge.api_address.as_ref());
    // Routers are told the advertised address, or without one the address that is listened on.
    let ctrl = config.ctrl.advertise_address.as_ref().or(config.ctrl.listener.as_ref());
    Addresses {
        api: api.map(ToString::to_string).unwrap_or_default(),
        ctrl: ctrl.iter().map(ToString::to_string).collect(),
        apis: base_urls(&config.web, config.edge.as_ref().is_some_and(|it| it.oidc.announced)),
    }
}

fn durations(config: &ControllerConfig) -> Durations {
    let Some(edge) = &config.edge else { return Durations::default() };
    Durations {
        session: edge.session_timeout,
        longest_session: edge.session_lifetime,
        longest_by_token: edge.external_tokens.session_max_duration,
        identity_enrollment: edge.enrollment.identity_duration,
        router_enrollment: edge.enrollment.router_duration,
        activity_flush: edge.activity_update_interval,
        external_session: edge.oidc.external_session,
        access_token: edge.oidc.access,
        id_token: edge.oidc.id,
        refresh_token: edge.oidc.refresh,
        longest_token: edge.oidc.refresh.max(edge.oidc.access),
        token_key: edge.token_key,
        token_key_known: Durations::default().token_key_known,
        unreported: edge.identity_status.unknown_timeout,
        revocation_purge: edge.oidc.revocation_enforcer_frequency,
    }
}

/// Runs a controller until it is told to stop.
pub(crate) async fn run(
    file: &Path,
    reach: Reach,
    agent: &AgentOptions,
    stop: &CancellationToken,
) -> Result<()> {
    let hang_ups = HangUps::listen()?;
    let mut manager = Manager::of_process();
    let core = Core::open_reaching(file, Purpose::Start, reach).await?;
    if !core.controller().has_default_admin() {
        core.close().await?;
        return Err(Failure::new(format!(
            "the controller has no administrator yet: `weft controller init {}` makes one",
            file.display()
        )));
    }
    core.tell_of_passwords();
    // Steps that may fail come before the first client is served.
    let profiles = match Profiles::start(&core.config.debugging) {
        Ok(profiles) => profiles,
        Err(failure) => {
            core.close().await?;
            return Err(failure);
        }
    };
    let running = core.serve().await?;
    tracing::info!(id = %running.controller().kernel().settings().id, "controller runs");
    if reach == Reach::Loopback {
        tracing::info!("offline: the controller listens at 127.0.0.1 only, and dials no router");
    }
    let _agent = agent::of_controller(agent, running.controller());
    manager.up(vec![tokio::runtime::Handle::current()]);
    let mut end = Ok(());
    tokio::select! {
        () = stop.cancelled() => {}
        why = cluster::must_end(running.controller()) => end = Err(why),
        () = hang_ups.follow(&manager, async || {
            running.reload().await;
            Some("identity files")
        }) => {}
    }
    tracing::info!("controller stops");
    manager.stopping(STOPPING);
    profiles.finish().await;
    running.shutdown().await.and(end)
}
