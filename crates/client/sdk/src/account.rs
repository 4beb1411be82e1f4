//! The identity at the controllers: login, services, service sessions.
//!
//! API sessions are those of OpenID Connect or the opaque ones of the client API (docs/protocol/auth.md 9, 10, 15;
//! docs/protocol/sdk.md 15.0, 15.1). One controller is used at a time; if it cannot be reached, the
//! next one is tried.
//!
//! - `following`: follows the files of the identity's certificate;
//! - `keeping`: keeps the session from its end;
//! - `login`: logins;
//! - `proving`: reports about this device, and codes of the second factor, for posture checks;
//! - `renewing`: renewal of the identity's certificate;
//! - `sessions`: service sessions.

mod following;
mod keeping;
mod login;
mod proving;
mod renewing;
mod sessions;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use weft_client::{About, ClientApi, Credentials, Tls, chain};
use weft_contract::Timestamp;
use weft_contract::entity::DialBind;
use weft_contract::resource::edge_router::EdgeRouterCommon;
use weft_contract::resource::identity::IdentityDetail;
use weft_contract::resource::service::ServiceDetail;
use weft_contract::resource::session::ApiSessionDetail;
use weft_identity::{ExpectedRouter, IdentityFile, LiveIdentity};

use self::sessions::KeptSession;
use crate::error::{Error, Result};
use crate::posture::Reporter;
use crate::proofs::Proofs;
use crate::renewal::{Extension, Renewal};
use crate::service::Service;
use crate::settings::LoginSettings;
use crate::shown::Shown;

/// Most services and service sessions of one identity that are remembered.
const MAX_REMEMBERED: usize = 65_536;

/// The logins, services and service sessions of an identity.
#[derive(Debug)]
pub(crate) struct Account {
    apis: Vec<ClientApi>,
    current: AtomicUsize,
    about: About,
    credentials: Credentials,
    /// The session that routers are shown.
    shown: watch::Sender<Option<Shown>>,
    /// Notified when another controller is used.
    turned: Notify,
    /// Held during a login, so that there is one at a time.
    login: tokio::sync::Mutex<()>,
    known: Mutex<AccountState>,
    /// The services that were read last.
    services: watch::Sender<Arc<Vec<Service>>>,
    /// Reports about this device for posture checks.
    posture: Reporter,
    /// Codes of the second factor for posture checks.
    proofs: Proofs,
    renewal: Renewal,
}

#[derive(Debug, Default)]
struct AccountState {
    identity: Option<String>,
    /// The time without a request after which the controller ends the API session.
    session_lasts: Option<Duration>,
    /// The controller's last answer about the certificate.
    extension: Extension,
    services: HashMap<String, Arc<ServiceDetail>>,
    /// The ids of services that demand that both ends prove themselves.
    demanding: HashSet<String>,
    changed_at: Option<Timestamp>,
    /// The services were read, since they were last forgotten.
    has_services: bool,
    sessions: HashMap<(String, DialBind), KeptSession>,
    /// By name: the routers that service sessions named last, and their keys. Older sessions may name older keys.
    routers: HashMap<String, ExpectedRouter>,
}

/// A controller, and the value of `current` that selects it.
#[derive(Clone, Copy)]
struct Used<'a> {
    api: &'a ClientApi,
    number: usize,
}

impl Account {
    pub(crate) fn new(
        file: &IdentityFile,
        identity: &Arc<LiveIdentity>,
        about: About,
        login: &LoginSettings,
        renewal: Renewal,
    ) -> Result<Self> {
        let tls = Tls::Identity(Arc::clone(identity));
        let credentials = login.credentials(file)?;
        let second_tokens = login.second_tokens(file);
        let api = |url: &str| {
            let api = ClientApi::new(url.parse()?, &tls)?.with_codes(login.codes.clone());
            let api = api.with_second_tokens(second_tokens.clone());
            Ok(api.with_protocol(login.protocol).for_routers())
        };
        let apis: Result<Vec<_>> = file.controllers().map(api).collect();
        Ok(Self {
            apis: apis?,
            current: AtomicUsize::new(0),
            about,
            credentials,
            shown: watch::Sender::default(),
            turned: Notify::new(),
            login: tokio::sync::Mutex::new(()),
            known: Mutex::default(),
            services: watch::Sender::default(),
            posture: Reporter::default(),
            proofs: Proofs::default(),
            renewal,
        })
    }

    /// The controller in use.
    fn api(&self) -> Result<&ClientApi> {
        self.used().map(|used| used.api)
    }

    fn used(&self) -> Result<Used<'_>> {
        let number = self.current.load(Ordering::Relaxed);
        let no_controller = || Error::Closed("the identity names no controller".to_owned());
        let api = self.apis.get(number % self.apis.len().max(1)).ok_or_else(no_controller)?;
        Ok(Used { api, number })
    }

    /// Turns to the next controller, unless another call has done so since this one was used.
    fn turn_from(&self, Used { number, .. }: Used<'_>) {
        let (next, order) = (number.wrapping_add(1), Ordering::Relaxed);
        if self.current.compare_exchange(number, next, order, order).is_ok() {
            if let Ok(used) = self.used()
                && let Err(problem) = used.api.present_again()
            {
                tracing::debug!(
                    problem = chain(&problem),
                    "the certificate of the session cannot be shown"
                );
            }
            self.turned.notify_one();
        }
    }

    /// A text that stays the same as long as the API session is the same one; `None` before the login.
    fn session_key(&self) -> Option<String> {
        self.api().ok().and_then(ClientApi::session_key)
    }

    /// The name of the identity, once logged in.
    pub(crate) fn identity_name(&self) -> Option<String> {
        self.known.lock().identity.clone()
    }

    /// Checks that the API session is valid, logs in again if it is not, and keeps it alive.
    pub(crate) async fn check_session(&self) -> Result<()> {
        let session = self.ask(|api| api.current_session().boxed()).await?;
        self.note_session(&session);
        Ok(())
    }

    fn note_session(&self, session: &ApiSessionDetail) {
        let lasts = session.expiration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let lasts = lasts.filter(|seconds| *seconds > 0).map(Duration::from_secs);
        self.known.lock().session_lasts = lasts;
        self.note_extension(Extension::of(session, self.session_key().unwrap_or_default()));
    }

    /// The interval of refreshes: the wanted one, or a shorter one that keeps the API session alive.
    pub(crate) fn refresh_interval(&self, wanted: Duration) -> Duration {
        let most = self.known.lock().session_lasts.map_or(wanted, |lasts| lasts / 2);
        wanted.min(most.max(Duration::from_secs(1)))
    }

    /// Reads the services again if they have changed. To be called at intervals.
    pub(crate) async fn refresh(&self) -> Result<()> {
        self.check_session().await?;
        let changed_at = self.ask(|api| api.services_changed_at().boxed()).await?;
        if self.known.lock().changed_at == Some(changed_at) {
            return Ok(());
        }
        self.read_services().await?;
        let (mut known, now) = (self.known.lock(), Instant::now());
        known.changed_at = Some(changed_at);
        // The change may have been one of routers.
        known.sessions.values_mut().for_each(|session| session.outdated = now);
        Ok(())
    }

    /// The identity has no services, until they are read again.
    pub(crate) fn forget_services(&self) {
        let mut known = self.known.lock();
        known.changed_at = None;
        known.has_services = false;
        known.services.clear();
        known.sessions.retain(|_, _| false);
        drop(known);
        self.services.send_if_modified(|before| {
            let changed = !before.is_empty();
            if changed {
                *before = Arc::default();
            }
            changed
        });
    }

    /// All services that the identity may use, read now.
    pub(crate) async fn read_services(&self) -> Result<Vec<Arc<ServiceDetail>>> {
        let services = self.ask(|api| api.services().boxed()).await?;
        let services: Vec<_> = services.into_iter().take(MAX_REMEMBERED).map(Arc::new).collect();
        let mut known = self.known.lock();
        known.has_services = true;
        known.services =
            services.iter().map(|service| (service.name.clone(), Arc::clone(service))).collect();
        let demanding = services.iter().filter(|service| service.authenticated_ends);
        known.demanding = demanding.map(|service| service.base.id.clone()).collect();
        let kept: HashSet<&str> = services.iter().map(|service| service.base.id.as_str()).collect();
        known.sessions.retain(|(service, _), _| kept.contains(service.as_str()));
        drop(known);
        let seen: Vec<Service> = services.iter().map(|service| Service::of(service)).collect();
        self.services.send_if_modified(|before| {
            let changed = **before != seen;
            if changed {
                *before = Arc::new(seen);
            }
            changed
        });
        Ok(services)
    }

    /// True once the services were read.
    pub(crate) fn has_services(&self) -> bool {
        self.known.lock().has_services
    }

    /// The services that were read last, and every change of them.
    pub(crate) fn service_changes(&self) -> watch::Receiver<Arc<Vec<Service>>> {
        self.services.subscribe()
    }

    /// The identity's entity, read now.
    pub(crate) async fn identity(&self) -> Result<IdentityDetail> {
        self.ask(|api| api.current_identity().boxed()).await
    }

    /// The service of this name; the controller is asked if it is unknown.
    pub(crate) async fn service(&self, name: &str, wanted: DialBind) -> Result<Arc<ServiceDetail>> {
        self.ensure_login().await?;
        let known = self.known.lock().services.get(name).cloned();
        if let Some(service) = known.filter(|service| service.permissions.contains(&wanted)) {
            return Ok(service);
        }
        let Some(found) = self.read_service(name).await? else {
            return Err(Error::ServiceUnknown { service: name.to_owned() });
        };
        if found.permissions.contains(&wanted) {
            return Ok(found);
        }
        let action = if wanted == DialBind::Bind { "bind" } else { "dial" };
        Err(Error::NotPermitted { service: name.to_owned(), action })
    }

    /// The service of this name, read now.
    async fn read_service(&self, name: &str) -> Result<Option<Arc<ServiceDetail>>> {
        let found = self.ask(|api| api.service_named(name).boxed()).await?;
        let mut known = self.known.lock();
        let Some(found) = found.map(Arc::new) else {
            known.services.remove(name);
            return Ok(None);
        };
        match found.authenticated_ends {
            true if known.demanding.len() < MAX_REMEMBERED => {
                known.demanding.insert(found.base.id.clone());
            }
            true => {}
            false => {
                known.demanding.remove(&found.base.id);
            }
        }
        if known.services.len() < MAX_REMEMBERED || known.services.contains_key(name) {
            known.services.insert(name.to_owned(), Arc::clone(&found));
        }
        Ok(Some(found))
    }

    /// Whether the service of this id demanded that both ends prove themselves when it was read last.
    pub(crate) fn demands_proof(&self, service_id: &str) -> bool {
        self.known.lock().demanding.contains(service_id)
    }

    /// The routers that the identity may connect to.
    pub(crate) async fn edge_routers(&self) -> Result<Vec<EdgeRouterCommon>> {
        let routers = self.ask(|api| api.edge_routers().boxed()).await?;
        Ok(routers.into_iter().map(|router| router.router).collect())
    }

    /// Ends the API session.
    pub(crate) async fn logout(&self) -> Result<()> {
        Ok(self.api()?.logout().await?)
    }

    /// Asks the controller in use, and the next one if that cannot be reached.
    pub(crate) async fn ask<'a, T>(
        &'a self,
        call: impl Fn(&'a ClientApi) -> BoxFuture<'a, weft_client::Result<T>>,
    ) -> Result<T> {
        self.ensure_login().await?;
        let used = self.used()?;
        match self.watch(used, call(used.api).await) {
            Err(Error::Controller(problem)) if may_another(&problem) && self.apis.len() > 1 => {
                self.ensure_login().await?;
                let next = self.used()?;
                self.watch(next, call(next.api).await)
            }
            Err(Error::Controller(problem))
                if problem.is_unauthorized() && used.api.token().is_none() =>
            {
                // The login of the call was refused, too. One with a renewed certificate may not be.
                self.ensure_login().await?;
                let next = self.used()?;
                self.watch(next, call(next.api).await)
            }
            done => done,
        }
    }

    /// Turns to the next controller if the used one cannot be reached.
    fn watch<T>(&self, used: Used<'_>, done: weft_client::Result<T>) -> Result<T> {
        done.map_err(|error| {
            if may_another(&error) {
                self.turn_from(used);
            }
            error.into()
        })
    }
}

/// Whether another controller may do what one has failed to do. Each would ask the same person for a token.
fn may_another(error: &weft_client::Error) -> bool {
    error.is_temporary() && !matches!(error, weft_client::Error::NoToken { .. })
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use weft_contract::resource::service_session::SessionDetail;

    use super::*;
    use crate::tests::controller::Pki;

    /// The account of an identity with two controllers that are never asked.
    fn account() -> Account {
        let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut file = Pki::new().identity("tester", address(1));
        file.apis = vec![file.api.clone(), format!("https://{}", address(2))];
        let identity = LiveIdentity::load(file.section()).unwrap();
        let renewal = Renewal::new(Arc::clone(&identity), None, true);
        Account::new(&file, &identity, About::default(), &LoginSettings::default(), renewal)
            .unwrap()
    }

    #[test]
    fn calls_that_fail_together_turn_to_the_next_controller_once() {
        let account = account();
        assert_eq!(account.apis.len(), 2);
        let lost = || {
            Err::<(), _>(weft_client::Error::Connection {
                action: "reach",
                url: String::new(),
                source: std::io::Error::other("nothing"),
                timeout: false,
            })
        };
        let (one, other) = (account.used().unwrap(), account.used().unwrap());
        account.watch(one, lost()).unwrap_err();
        account.watch(other, lost()).unwrap_err();
        assert_eq!(account.api().unwrap().address().port(), 2);
        account.watch(account.used().unwrap(), lost()).unwrap_err();
        assert_eq!(account.api().unwrap().address().port(), 1);
        let nobody = weft_client::Error::NoToken { reason: String::new(), may_pass: true };
        account.watch(account.used().unwrap(), Err::<(), _>(nobody)).unwrap_err();
        assert_eq!(account.api().unwrap().address().port(), 1, "the person is the same one");
    }

    #[test]
    fn a_known_session_is_refreshed_when_no_other_one_fits() {
        let account = account();
        let session = |id: &str| {
            let session = serde_json::json!({"id": id, "token": id, "type": "Dial"});
            Arc::new(serde_json::from_value::<SessionDetail>(session).unwrap())
        };
        let (old, new, key) =
            (session("old"), session("new"), |id: usize| (id.to_string(), DialBind::Dial));
        for id in 0..=MAX_REMEMBERED {
            account.remember(key(id), Arc::clone(&old));
        }
        account.remember(key(0), new);
        let known = account.known.lock();
        assert_eq!(known.sessions.len(), MAX_REMEMBERED);
        assert_eq!(known.sessions[&key(0)].detail.token, "new");
    }
}
