//! An identity in the network: logged in, with its services and routers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use weft_client::chain;
use weft_identity::{IdentityFile, KeyAlgorithm, LiveIdentity, PrivateKey, RenewableFile};

use crate::account::Account;
use crate::bind_options::BindOptions;
use crate::builder::EndpointBuilder;
use crate::connection::Connection;
use crate::dial::{self, DialOptions};
use crate::ends::Ends;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::inner::{Guard, Inner};
use crate::listener::Listener;
use crate::renewal::Renewal;
use crate::routers::DRAIN_LIMIT;
use crate::service::Service;
use crate::settings::Settings;

/// Longest wait for the controller's answer to a logout. A session without one ends by itself.
const LOGOUT_LIMIT: Duration = Duration::from_secs(2);

/// An identity in the network. Clones are the same endpoint.
///
/// It stays logged in, keeps the connections to the routers that it has used, and connects again by
/// itself. Connections and listeners keep it alive. When the last handle of all of them is dropped,
/// written data is still sent, and then the connections to routers are closed.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub(crate) guard: Arc<Guard>,
}

impl Endpoint {
    /// Logs in with the identity of this file, and makes its endpoint.
    ///
    /// # Errors
    /// When the file cannot be read, or no controller accepts the identity.
    ///
    /// # Cancel safety
    /// Cancel safe, as [`EndpointBuilder::load`] is.
    pub async fn load(path: impl AsRef<Path>) -> Result<Self> {
        EndpointBuilder::new().load(path).await
    }

    /// Logs in with this identity, and makes its endpoint.
    ///
    /// # Errors
    /// As [`Endpoint::load`].
    ///
    /// # Cancel safety
    /// Cancel safe, as [`EndpointBuilder::build`] is.
    pub async fn from_identity(identity: IdentityFile) -> Result<Self> {
        EndpointBuilder::new().build(identity).await
    }

    /// Makes an endpoint with options other than the defaults.
    #[must_use]
    pub fn builder() -> EndpointBuilder {
        EndpointBuilder::new()
    }

    pub(crate) async fn start(
        file: IdentityFile,
        renewable: Option<RenewableFile>,
        settings: Settings,
    ) -> Result<Self> {
        let identity = LiveIdentity::load(file.section())?;
        let renewal = Renewal::new(Arc::clone(&identity), renewable, settings.renews_certificate);
        let ends = Ends::new(settings.proves_end)?;
        let about = settings.about(&file, ends.key());
        let account = Account::new(&file, &identity, about, &settings.login, renewal)?;
        Box::pin(account.ensure_login()).await?;
        let inner = Inner::start(settings, account, ends, identity);
        Ok(Self { guard: Arc::new(Guard { inner }) })
    }

    /// The name of the identity.
    #[must_use]
    pub fn identity_name(&self) -> String {
        self.guard.inner.account.identity_name().unwrap_or_default()
    }

    /// The services that the identity may use, read now.
    ///
    /// # Errors
    /// When the controller cannot be reached.
    ///
    /// # Cancel safety
    /// Cancel safe: a call that is given up changes nothing.
    pub async fn services(&self) -> Result<Vec<Service>> {
        self.guard.inner.check_open()?;
        let services = Box::pin(self.guard.inner.account.read_services()).await?;
        Ok(services.iter().map(|service| Service::of(service)).collect())
    }

    /// The services that the identity may use, as they were read last, and every change of them. The
    /// list is empty until they are read for the first time, which begins with this call; then the
    /// endpoint checks at intervals ([`EndpointBuilder::refresh_interval`]).
    #[must_use]
    pub fn service_changes(&self) -> watch::Receiver<Arc<Vec<Service>>> {
        if !self.guard.inner.account.has_services() {
            self.guard.inner.reads_services.notify_one();
        }
        self.guard.inner.account.service_changes()
    }

    /// Why the services could not be read the last time that the endpoint tried; `None` if they could, so that
    /// [`Endpoint::service_changes`] has the present ones.
    #[must_use]
    pub fn problem(&self) -> Option<Error> {
        self.guard.inner.problem.lock().clone()
    }

    /// The identity's entity, read now.
    ///
    /// # Errors
    /// When the controller cannot be reached.
    ///
    /// # Cancel safety
    /// Cancel safe: a call that is given up changes nothing.
    pub async fn identity(&self) -> Result<Identity> {
        self.guard.inner.check_open()?;
        Ok(Identity::of(Box::pin(self.guard.inner.account.identity()).await?))
    }

    /// Connects to a service.
    ///
    /// # Errors
    /// When the service is unknown or may not be dialed, no host offers it, no router can be
    /// reached, or the router or the host refuses.
    ///
    /// # Cancel safety
    /// Cancel safe: a dial that is given up is cancelled at the router, and a host that has accepted it sees its end.
    pub async fn dial(&self, service: &str) -> Result<Connection> {
        self.dial_with(service, DialOptions::default()).await
    }

    /// Connects to a service with these options.
    ///
    /// # Errors
    /// As [`Endpoint::dial`].
    ///
    /// # Cancel safety
    /// As [`Endpoint::dial`].
    pub async fn dial_with(&self, service: &str, options: DialOptions) -> Result<Connection> {
        self.guard.inner.check_open()?;
        dial::dial(&self.guard, service, &options).await
    }

    /// Hosts a service: returns once the first router has accepted the bind. More routers follow,
    /// and all are kept until the listener is dropped.
    ///
    /// # Errors
    /// When the service is unknown or may not be hosted, or no router accepted the bind in time.
    ///
    /// # Cancel safety
    /// Cancel safe: the hosting of a bind that is given up ends at all routers.
    pub async fn bind(&self, service: &str) -> Result<Listener> {
        self.bind_with(service, BindOptions::default()).await
    }

    /// Hosts a service with these options.
    ///
    /// # Errors
    /// As [`Endpoint::bind`].
    ///
    /// # Cancel safety
    /// As [`Endpoint::bind`].
    pub async fn bind_with(&self, service: &str, options: BindOptions) -> Result<Listener> {
        self.guard.inner.check_open()?;
        Box::pin(Listener::open(&self.guard, service, options)).await
    }

    /// The routers that are connected now.
    #[must_use]
    pub fn connected_routers(&self) -> Vec<String> {
        self.guard.inner.routers.connected()
    }

    /// Leaves the network: waits until all data of closed connections has arrived, for 30 s at most,
    /// closes the connections to routers, and ends the API session. Open connections and listeners fail.
    ///
    /// # Errors
    /// [`Error::Undelivered`] if the other ends of connections do not have all data that was written to these, or, with
    /// [`router_flow_control`](EndpointBuilder::router_flow_control), their routers do not. Connections that had failed
    /// before are not counted.
    ///
    /// # Cancel safety
    /// If it is given up once it has begun, the endpoint is closed all the same: data is sent for 30 s more while the runtime
    /// goes on, and the API session ends by itself, later. If it is given up before, it does nothing but drop this handle.
    pub async fn close(self) -> Result<()> {
        self.close_within(DRAIN_LIMIT).await
    }

    /// [`Endpoint::close`] that waits for data at most for `limit`. The end of the API session takes 2 s
    /// more at most, also while the controller does not answer.
    ///
    /// # Errors
    /// As [`Endpoint::close`].
    ///
    /// # Cancel safety
    /// As [`Endpoint::close`].
    pub async fn close_within(self, limit: Duration) -> Result<()> {
        let inner = &self.guard.inner;
        let undelivered = &inner.figures.undelivered;
        let before = undelivered.count();
        inner.cancel.cancel();
        inner.routers.left(limit.min(DRAIN_LIMIT)).await;
        undelivered.count_all();
        let connections = undelivered.count().saturating_sub(before);
        match tokio::time::timeout(LOGOUT_LIMIT, inner.account.logout()).await {
            Ok(Ok(())) => {}
            Ok(Err(problem)) => {
                tracing::debug!(
                    problem = chain(&problem),
                    "the API session could not be ended at the controller"
                );
            }
            Err(_) => tracing::debug!("the controller did not answer a logout in time"),
        }
        match connections {
            0 => Ok(()),
            connections => Err(Error::Undelivered { connections }),
        }
    }
}

/// Enrolls an identity with a one-time token: makes a key, gets a certificate for it, and returns
/// the content of an identity file. The key never leaves this program.
///
/// # Errors
/// When the token cannot be verified or the controller refuses.
///
/// # Cancel safety
/// Not cancel safe: a call that is given up may have used the token, and its certificate is lost.
pub async fn enroll(jwt: &str) -> Result<IdentityFile> {
    let key = PrivateKey::generate(KeyAlgorithm::EcP256)?;
    Ok(weft_client::enroll::enroll_ott(jwt, &key).await?)
}
