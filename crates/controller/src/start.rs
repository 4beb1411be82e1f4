//! Starting a controller: load and check the rows, seed what every network has, load the sessions
//! of before, and only then be there for routers and clients.

use std::sync::{Arc, Weak};
use std::time::Duration;

use weft_contract::ErrorCode;
use weft_identity::SealKey;
use weft_model::entity::{AuthPolicy, Authenticator, Identity, UpdbCredential};
use weft_model::{ApplyError, Base, Entity, Id, Revision, Snapshot, Timeline};
use weft_store::{OpenError, ReadError};

use crate::auth::keyring::{self, Keyring};
use crate::auth::password::Hasher;
use crate::auth::router_texts::RouterTexts;
use crate::auth::sessions::{Sessions, stands};
use crate::auth::tickets::Tickets;
use crate::domain::integrity::Integrity;
use crate::domain::registry::Registry;
use crate::domain::resources::database::Snapshots;
use crate::domain::seeds;
use crate::domain::upgrade;
use crate::domain::writer::{Deadlines, Writer};
use crate::online::Online;
use crate::random::Ids;
use crate::turns::Turns;
use crate::{Caller, Controller, Core, Failure, Settings};

/// Rows that go from the reading thread to the other together, and how many such batches may wait.
const LOAD_BATCH: usize = 1024;
const LOAD_AHEAD: usize = 16;
/// Lists that look at much, and slow signatures, at a time for each processor.
const SCANS: usize = 2;
const SIGNINGS: usize = 1;
/// How often sessions are looked at for their end (docs/protocol/auth.md 10.3).
const ENDS: Duration = Duration::from_secs(1);
/// Of those times, how often the rest is done.
const SWEEP: u32 = 5;

/// Why a controller cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The rows cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The sessions of before cannot be read.
    #[error("sessions of the last run: {0}")]
    Live(#[from] ReadError),
    /// Two rows contradict each other.
    #[error("the store is damaged: {0}; keep a copy of the file and restore the last backup")]
    Contradiction(#[from] ApplyError),
    /// The seeds could not be written.
    #[error("the first entities could not be written: {0}")]
    Seed(Failure),
    /// A key cannot sign.
    #[error("the signing key: {0}")]
    Key(#[from] weft_identity::Error),
    /// The runtime is going down.
    #[error("the controller was stopped while it started")]
    Stopped,
}

impl From<keyring::LoadError> for StartError {
    fn from(error: keyring::LoadError) -> Self {
        match error {
            keyring::LoadError::Read(error) => Self::Live(error),
            keyring::LoadError::Key(error) => Self::Key(error),
        }
    }
}

impl Controller {
    /// Loads the model and starts. Returns when reads and writes are possible.
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        let store = Arc::clone(&settings.store);
        let snapshot = tokio::task::spawn_blocking(move || load(&*store))
            .await
            .map_err(|_| StartError::Stopped)??;
        let is_new = snapshot.get::<AuthPolicy>(&Id::new(AuthPolicy::DEFAULT_ID)).is_none();
        let now = settings.clock.now();
        let key = match &settings.session_key {
            Some(key) => Arc::clone(key),
            None => Arc::new(SealKey::random()?),
        };
        let store = Arc::clone(&settings.store);
        let sessions = Sessions::load(store, key, &settings.durations, now)?;
        let (store, keys) = (Arc::clone(&settings.store), settings.first_keys.clone());
        let keyring = Keyring::load(store, keys, &settings.durations, now)?;
        let controller = Self(Arc::new(Core {
            writer: Writer::start(Arc::clone(&settings.store), snapshot, Deadlines::default()),
            registry: Registry::new(),
            ids: Ids::new(Arc::clone(&settings.random)),
            online: Online::default(),
            sessions,
            hasher: Hasher::default(),
            scans: Turns::per_processor(SCANS),
            signing: Turns::per_processor(SIGNINGS),
            admission: crate::auth::admission::Admission::new(&settings.login_limiter),
            lockouts: crate::auth::lockout::Lockouts::default(),
            guesses: crate::auth::guesses::Guesses::new(settings.guess_limits),
            attempts: crate::auth::attempts::Attempts::default(),
            spent: crate::auth::spent::Spent::default(),
            postures: crate::auth::posture::Postures::default(),
            traces: crate::traces::Traces::default(),
            measures: crate::measures::Measures::default(),
            tickets: Tickets::default(),
            router_texts: RouterTexts::default(),
            keyring,
            service_changes: crate::auth::service_changes::ServiceChanges::default(),
            network: arc_swap::ArcSwapOption::empty(),
            snapshots: Snapshots::default(),
            integrity: Integrity::default(),
            started: now,
            settings,
        }));
        if is_new {
            controller.seed().await.map_err(StartError::Seed)?;
        } else {
            controller.upgrade().await;
        }
        controller.sessions().upgrade(&controller.snapshot());
        crate::auth::router_certificate::warn_of_old_names(&controller, &controller.snapshot());
        controller.drop_orphaned_sessions();
        tokio::spawn(crate::auth::sessions::follow_model(controller.clone().weak()));
        tokio::spawn(sweep(controller.clone().weak()));
        tokio::spawn(crate::auth::revocations::purge(controller.clone().weak()));
        tokio::spawn(crate::auth::lapsed::enable(controller.clone().weak()));
        Ok(controller)
    }

    /// A handle that does not keep the controller alive.
    pub(crate) fn weak(self) -> Weak<Core> {
        Arc::downgrade(&self.0)
    }

    /// The default auth policy and the built-in config types (docs/protocol/management-api.md 8).
    async fn seed(&self) -> Result<(), Failure> {
        let now = self.now();
        self.decide(&Caller::own("seed"), move |decision| {
            decision.put(AuthPolicy::default_policy(now));
            for seed in seeds::CONFIG_TYPES {
                let made = seed.make(now);
                decision.put(made.ok_or_else(|| {
                    Failure::unhandled(format!("the schema of {} is no object", seed.name))
                })?);
            }
            Ok(())
        })
        .await
        .map(drop)
    }

    /// What an earlier release left otherwise. A network does not depend on it, so that one that
    /// cannot be written now is run as it is, and brought up to date at another start.
    async fn upgrade(&self) {
        let done = self.decide(&Caller::own("upgrade"), upgrade::decide).await;
        if let Err(failure) = done {
            tracing::warn!(%failure, "the network was not brought up to date with this release; it is tried again at the next start");
        }
    }

    /// Whether somebody is the default admin already.
    pub fn has_default_admin(&self) -> bool {
        self.snapshot().list::<Identity>().any(|identity| identity.is_default_admin)
    }

    /// Makes the default admin, once (docs/protocol/auth.md 3). Returns the id of the identity.
    pub async fn init_admin(
        &self,
        name: &str,
        username: &str,
        password: &str,
    ) -> Result<Id, Failure> {
        for (field, text, least) in
            [("name", name, 4), ("username", username, 4), ("password", password, 5)]
        {
            let length = text.chars().count();
            if !(least..=100).contains(&length) {
                let reason = format!("must be {least} to 100 characters long");
                return Err(Failure::field(field, reason, ""));
            }
        }
        let now = self.now();
        let hashed = self.hasher().hash(password, self.ids().bytes()).await?;
        let identity = Identity {
            base: Base::new(self.ids().entity(), now),
            name: name.into(),
            auth_policy_id: Id::new(AuthPolicy::DEFAULT_ID),
            is_admin: true,
            is_default_admin: true,
            ..Identity::default()
        };
        let id = identity.base.id.clone();
        let authenticator = Authenticator {
            base: Base::new(self.ids().entity(), now),
            identity_id: id.clone(),
            updb: Some(Box::new(UpdbCredential {
                username: username.into(),
                password: hashed.password,
                salt: hashed.salt,
                ..UpdbCredential::default()
            })),
            cert: None,
        };
        self.decide(&Caller::own("init"), move |decision| {
            if decision.view().all::<Identity>().any(|identity| identity.is_default_admin) {
                return Err(Failure::because(
                    ErrorCode::CouldNotValidate,
                    "a default admin exists already",
                ));
            }
            decision.put(identity.clone());
            decision.put(authenticator.clone());
            Ok(())
        })
        .await?;
        Ok(id)
    }

    /// Ends sessions that rest on what is gone: the last run may have ended between the two.
    fn drop_orphaned_sessions(&self) {
        let snapshot = self.snapshot();
        let now = self.now();
        self.sessions().retain(|session| stands(&snapshot, session, now));
    }
}

/// Loads the model: rows are read and checked on one thread while their indexes grow on another.
fn load(store: &dyn weft_store::Store) -> Result<Snapshot, StartError> {
    let (rows, received) = std::sync::mpsc::sync_channel::<Vec<Entity>>(LOAD_AHEAD);
    let snapshot = std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut batch = Vec::with_capacity(LOAD_BATCH);
            let head = store.load(&mut |entity| {
                batch.push(entity);
                if batch.len() == LOAD_BATCH {
                    // Nobody receives any more when a row was refused; that is the answer then.
                    let _ =
                        rows.send(std::mem::replace(&mut batch, Vec::with_capacity(LOAD_BATCH)));
                }
            });
            let _ = rows.send(batch);
            head
        });
        let mut loader = Snapshot::loader(Timeline::default(), Revision::default());
        let put = received.into_iter().flatten().try_for_each(|entity| loader.put(entity));
        // A row that is damaged explains one that is refused.
        let head = reader.join().map_err(|_| StartError::Stopped)??;
        put?;
        loader.set_position(head.timeline, head.revision);
        Ok::<_, StartError>(loader.finish()?)
    })?;
    // Every row is as it was written, so a network can be run with it; who looks is told.
    let dangling = snapshot.dangling();
    if let Some(first) = dangling.first() {
        tracing::warn!(
            count = dangling.len(),
            %first,
            "references lead nowhere; a check of the database names them, its fix takes them out"
        );
    }
    Ok(snapshot)
}

/// Ends sessions without activity, and stores the activity of the others now and then.
async fn sweep(core: Weak<Core>) {
    let mut ticks = tokio::time::interval(ENDS);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for tick in (0..SWEEP).cycle() {
        ticks.tick().await;
        let Some(core) = core.upgrade() else { return };
        core.sessions.end_due(&core.writer.snapshot(), core.settings.clock.now());
        if tick > 0 {
            continue;
        }
        core.sessions.sweep(core.settings.clock.now());
        core.traces.sweep(core.settings.clock.now());
        let controller = Controller(core);
        controller.sweep_postures();
        controller.sweep_keys();
    }
}
