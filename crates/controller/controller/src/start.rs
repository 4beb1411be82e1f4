//! Starts a controller: loads and checks the rows, seeds a new network, loads the sessions, and
//! then accepts routers and clients.

use std::sync::Arc;

use weft_auth::{Auth, housekeeping, token_keys};
use weft_contract::ErrorCode;
use weft_kernel::{Kernel, ModelLoadError, Result};
use weft_model::entity::{AuthPolicy, Authenticator, ControllerMember, Identity, UpdbCredential};
use weft_model::{ApplyError, Base, Id};
use weft_network::{Network, NetworkOptions};
use weft_store::{OpenError, ReadError};

use crate::controller::Core;
use crate::domain::integrity::run::Integrity;
use crate::domain::operations::registry;
use crate::domain::resources::fabric::circuit::answer;
use crate::domain::resources::router_texts::RouterTexts;
use crate::domain::resources::snapshot_permit::Snapshots;
use crate::domain::{seeds, upgrade};
use crate::logins::OfSessions;
use crate::{Caller, Controller, Failure, Settings};

/// Why a controller cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The rows of the model cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The rows of the sessions cannot be read.
    #[error("sessions of the last run: {0}")]
    Live(#[from] ReadError),
    /// Two rows contradict each other, such as two entities with one name.
    #[error("the store is damaged: {0}; keep a copy of the file and restore the last backup")]
    Contradiction(#[from] ApplyError),
    /// The seeds could not be written.
    #[error("the first entities could not be written: {0}")]
    Seed(Failure),
    /// Somebody has removed the controller from the network.
    #[error("{}", weft_auth::members::REMOVED)]
    Removed,
    /// A key cannot sign.
    #[error("the signing key: {0}")]
    Key(#[from] weft_identity::Error),
    /// The runtime is going down.
    #[error("the controller was stopped while it started")]
    Stopped,
}

impl From<ModelLoadError> for StartError {
    fn from(error: ModelLoadError) -> Self {
        match error {
            ModelLoadError::Open(error) => Self::Open(error),
            ModelLoadError::Contradiction(error) => Self::Contradiction(error),
            ModelLoadError::Stopped => Self::Stopped,
        }
    }
}

impl From<token_keys::LoadError> for StartError {
    fn from(error: token_keys::LoadError) -> Self {
        match error {
            token_keys::LoadError::Read(error) => Self::Live(error),
            token_keys::LoadError::Key(error) => Self::Key(error),
        }
    }
}

impl Controller {
    /// Starts a network without routers. The fabric API shows its routers, links and circuits until
    /// the last owner of the network drops it.
    pub fn start_network(&self, options: NetworkOptions) -> Network {
        let logins = Arc::new(OfSessions(self.auth().sessions().clone()));
        let network = Network::start(self.kernel().clone(), logins, options);
        self.0.network.store(Some(Arc::new(network.weak())));
        let controller = self.clone();
        network.answers_calls(Box::new(move |call| {
            let controller = controller.clone();
            Box::pin(async move { answer(&controller, call).await })
        }));
        network
    }

    /// Loads the model and starts. Returns when operations can be served.
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        let store = Arc::clone(&settings.store);
        let snapshot = tokio::task::spawn_blocking(move || weft_kernel::load(&*store))
            .await
            .map_err(|_| StartError::Stopped)??;
        let authority = settings.first_keys.authority.certificate().der().clone();
        let own = snapshot.get::<ControllerMember>(&Id::new(&settings.id));
        let is_shared = settings.store.alive().is_some();
        if is_shared && own.is_some_and(|own| !own.admits(&authority)) {
            return Err(StartError::Removed);
        }
        let joins = settings.joins;
        let is_new = snapshot.get::<AuthPolicy>(&Id::new(AuthPolicy::DEFAULT_ID)).is_none();
        let auth = Auth::load(Kernel::start(settings, snapshot))?;
        let controller = Self(Arc::new(Core {
            auth,
            registry: registry(),
            router_texts: RouterTexts::default(),
            network: arc_swap::ArcSwapOption::empty(),
            snapshots: Snapshots::default(),
            integrity: Integrity::default(),
            plans: crate::domain::change::limiter(),
        }));
        if is_new {
            controller.seed().await.map_err(StartError::Seed)?;
        } else {
            controller.upgrade().await;
        }
        let auth = controller.auth();
        let known = match auth.is_member() {
            true if joins => auth.write_member(true).await,
            true => Ok(()),
            false => auth.be_alone().await,
        };
        if let Err(failure) = known {
            tracing::warn!(%failure, "the network does not know yet which controllers it has");
        }
        housekeeping::begin(controller.auth());
        Ok(controller)
    }

    /// Makes the default auth policy and the built-in config types (docs/protocol/management-api.md
    /// 8).
    async fn seed(&self) -> Result<()> {
        let now = self.kernel().now();
        self.kernel()
            .decide(&Caller::own("seed"), move |decision| {
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

    /// Applies the changes of [`upgrade`](crate::domain::upgrade). A failure is logged and the
    /// controller runs on, because nothing depends on them; the next start tries again.
    async fn upgrade(&self) {
        let done = self.kernel().decide(&Caller::own("upgrade"), upgrade::decide).await;
        if let Err(failure) = done {
            tracing::warn!(%failure, "the network was not brought up to date with this release; it is tried again at the next start");
        }
    }

    /// Whether the default administrator exists.
    pub fn has_default_admin(&self) -> bool {
        self.kernel().snapshot().list::<Identity>().any(|identity| identity.is_default_admin)
    }

    /// Makes the default administrator; fails if there is one (docs/protocol/auth.md 3). Returns
    /// the id of the identity.
    pub async fn init_admin(&self, name: &str, username: &str, password: &str) -> Result<Id> {
        for (field, text, least) in
            [("name", name, 4), ("username", username, 4), ("password", password, 5)]
        {
            let length = text.chars().count();
            if !(least..=100).contains(&length) {
                let reason = format!("must be {least} to 100 characters long");
                return Err(Failure::field(field, reason, ""));
            }
        }
        let now = self.kernel().now();
        let hashed = self.auth().hasher().hash(password, self.kernel().ids().bytes()).await?;
        let identity = Identity {
            base: Base::new(self.kernel().ids().entity(), now),
            name: name.into(),
            auth_policy_id: Id::new(AuthPolicy::DEFAULT_ID),
            is_admin: true,
            is_default_admin: true,
            ..Identity::default()
        };
        let id = identity.base.id.clone();
        let authenticator = Authenticator {
            base: Base::new(self.kernel().ids().entity(), now),
            identity_id: id.clone(),
            updb: Some(Box::new(UpdbCredential {
                username: username.into(),
                password: hashed.password,
                salt: hashed.salt,
                ..UpdbCredential::default()
            })),
            cert: None,
        };
        self.kernel()
            .decide(&Caller::own("init"), move |decision| {
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
}
