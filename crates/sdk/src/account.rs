//! The identity at the controllers: login, services, service sessions.
//!
//! API sessions are the opaque ones of the client API (docs/protocol/auth.md 9, 10;
//! docs/protocol/sdk.md 15.0, 15.1). One controller is used at a time; if it cannot be reached, the
//! next one is tried.

use crate::error::{Error, Result};
use crate::service::Service;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::watch;
use weft_client::{About, ClientApi, Credentials, Tls};
use weft_contract::Timestamp;
use weft_contract::entity::DialBind;
use weft_contract::resource::edge_router::EdgeRouterCommon;
use weft_contract::resource::identity::IdentityDetail;
use weft_contract::resource::service::ServiceDetail;
use weft_contract::resource::service_session::SessionDetail;
use weft_identity::{IdentityFile, LiveIdentity};

/// Most services and service sessions of one identity that are remembered.
const MAX_REMEMBERED: usize = 65_536;

/// The logins, services and service sessions of an identity.
#[derive(Debug)]
pub(crate) struct Account {
    apis: Vec<ClientApi>,
    current: AtomicUsize,
    about: About,
    /// Held during a login, so that there is one at a time.
    login: tokio::sync::Mutex<()>,
    known: Mutex<Known>,
    /// The services that were read last.
    services: watch::Sender<Arc<Vec<Service>>>,
}

#[derive(Debug, Default)]
struct Known {
    identity: Option<String>,
    services: HashMap<String, Arc<ServiceDetail>>,
    changed_at: Option<Timestamp>,
    sessions: HashMap<(String, DialBind), KeptSession>,
}

/// A service session, and the API session that it was made in.
#[derive(Debug, Clone)]
struct KeptSession {
    detail: Arc<SessionDetail>,
    api_token: Option<String>,
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
    ) -> Result<Self> {
        let tls = Tls::Identity(Arc::clone(identity));
        let apis: Result<Vec<_>> =
            file.controllers().map(|url| Ok(ClientApi::new(url.parse()?, &tls)?)).collect();
        Ok(Self {
            apis: apis?,
            current: AtomicUsize::new(0),
            about,
            login: tokio::sync::Mutex::new(()),
            known: Mutex::default(),
            services: watch::Sender::default(),
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
        let _ = self.current.compare_exchange(number, next, order, order);
    }

    /// Logs in, unless there is an API session.
    pub(crate) async fn ensure_login(&self) -> Result<()> {
        if self.api()?.token().is_some() {
            return Ok(());
        }
        let _one = self.login.lock().await;
        if self.api()?.token().is_some() {
            return Ok(());
        }
        let mut last = None;
        for _ in 0..self.apis.len() {
            let used = self.used()?;
            match used.api.login(Credentials::Certificate, self.about.clone()).await {
                Ok(session) => {
                    tracing::debug!(identity = %session.identity.name, "logged in");
                    self.known.lock().identity = Some(session.identity.name);
                    return Ok(());
                }
                Err(error) => last = Some(error),
            }
            self.turn_from(used);
        }
        let last = last.map_or(Error::Closed("no controller".to_owned()), |error| {
            Error::NotLoggedIn(Arc::new(error))
        });
        Err(last)
    }

    /// The token of the API session, once logged in.
    pub(crate) fn token(&self) -> Option<String> {
        self.api().ok().and_then(ClientApi::token)
    }

    /// The name of the identity, once logged in.
    pub(crate) fn identity_name(&self) -> Option<String> {
        self.known.lock().identity.clone()
    }

    /// Checks that the API session is valid, logs in again if it is not, and keeps it alive.
    pub(crate) async fn check_session(&self) -> Result<()> {
        self.ensure_login().await?;
        let used = self.used()?;
        self.watch(used, used.api.current_session().await).map(|_| ())
    }

    /// Reads the services again if they have changed. To be called at intervals.
    pub(crate) async fn refresh(&self) -> Result<()> {
        self.check_session().await?;
        let used = self.used()?;
        let changed_at = self.watch(used, used.api.services_changed_at().await)?;
        if self.known.lock().changed_at == Some(changed_at) {
            return Ok(());
        }
        self.read_services().await?;
        self.known.lock().changed_at = Some(changed_at);
        Ok(())
    }

    /// The identity has no services, until they are read again.
    pub(crate) fn forget_services(&self) {
        let mut known = self.known.lock();
        known.changed_at = None;
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
        self.ensure_login().await?;
        let used = self.used()?;
        let services = self.watch(used, used.api.services().await)?;
        let services: Vec<_> = services.into_iter().take(MAX_REMEMBERED).map(Arc::new).collect();
        let mut known = self.known.lock();
        known.services =
            services.iter().map(|service| (service.name.clone(), Arc::clone(service))).collect();
        let kept: std::collections::HashSet<&str> =
            services.iter().map(|service| service.base.id.as_str()).collect();
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

    /// The services that were read last, and every change of them.
    pub(crate) fn service_changes(&self) -> watch::Receiver<Arc<Vec<Service>>> {
        self.services.subscribe()
    }

    /// The identity's entity, read now.
    pub(crate) async fn identity(&self) -> Result<IdentityDetail> {
        self.ensure_login().await?;
        let used = self.used()?;
        self.watch(used, used.api.current_identity().await)
    }

    /// The service of this name; the controller is asked if it is unknown.
    pub(crate) async fn service(&self, name: &str, wanted: DialBind) -> Result<Arc<ServiceDetail>> {
        self.ensure_login().await?;
        let known = self.known.lock().services.get(name).cloned();
        if let Some(service) = known.filter(|service| service.permissions.contains(&wanted)) {
            return Ok(service);
        }
        let used = self.used()?;
        let found = self.watch(used, used.api.service_named(name).await)?;
        let Some(found) = found.map(Arc::new) else {
            self.known.lock().services.remove(name);
            return Err(Error::ServiceUnknown { service: name.to_owned() });
        };
        let mut known = self.known.lock();
        if known.services.len() < MAX_REMEMBERED || known.services.contains_key(name) {
            known.services.insert(name.to_owned(), Arc::clone(&found));
        }
        if found.permissions.contains(&wanted) {
            return Ok(found);
        }
        let action = if wanted == DialBind::Bind { "bind" } else { "dial" };
        Err(Error::NotPermitted { service: name.to_owned(), action })
    }

    /// The service session; it is made if there is none.
    pub(crate) async fn session(
        &self,
        service: &ServiceDetail,
        wanted: DialBind,
    ) -> Result<Arc<SessionDetail>> {
        self.ensure_login().await?;
        match self.known_session(service, wanted) {
            Some(known) => Ok(known),
            None => self.make_session(service, wanted).await,
        }
    }

    /// The service session that was made or read last in the present API session.
    fn known_session(
        &self,
        service: &ServiceDetail,
        wanted: DialBind,
    ) -> Option<Arc<SessionDetail>> {
        let api_token = self.token();
        let mut known = self.known.lock();
        let session = known.sessions.get(&(service.base.id.clone(), wanted))?;
        if session.api_token == api_token {
            return Some(Arc::clone(&session.detail));
        }
        known.sessions.clear();
        None
    }

    async fn make_session(
        &self,
        service: &ServiceDetail,
        wanted: DialBind,
    ) -> Result<Arc<SessionDetail>> {
        let used = self.used()?;
        let made = self.watch(used, used.api.create_session(&service.base.id, wanted).await);
        let detail = Arc::new(made.map_err(|error| self.no_session(error, service, wanted))?);
        self.remember((service.base.id.clone(), wanted), Arc::clone(&detail));
        Ok(detail)
    }

    /// The service session with the present routers, made or read now.
    pub(crate) async fn session_now(
        &self,
        service: &ServiceDetail,
        wanted: DialBind,
    ) -> Result<Arc<SessionDetail>> {
        self.ensure_login().await?;
        let Some(known) = self.known_session(service, wanted) else {
            return self.make_session(service, wanted).await;
        };
        let used = self.used()?;
        let read = self.watch(used, used.api.session(&known.base.id).await);
        let Ok(mut detail) = read else {
            self.forget_session(&service.base.id, wanted);
            return self.session(service, wanted).await;
        };
        // Some controllers return the token only when the session is made.
        if detail.token.is_empty() {
            detail.token.clone_from(&known.token);
        }
        let detail = Arc::new(detail);
        self.remember((service.base.id.clone(), wanted), Arc::clone(&detail));
        Ok(detail)
    }

    /// Forgets a service session, because a router refused it.
    pub(crate) fn forget_session(&self, service_id: &str, wanted: DialBind) {
        let mut known = self.known.lock();
        known.sessions.remove(&(service_id.to_owned(), wanted));
        known.services.retain(|_, service| service.base.id != service_id);
    }

    /// The routers that the identity may connect to.
    pub(crate) async fn edge_routers(&self) -> Result<Vec<EdgeRouterCommon>> {
        self.ensure_login().await?;
        let used = self.used()?;
        let routers = self.watch(used, used.api.edge_routers().await)?;
        Ok(routers.into_iter().map(|router| router.router).collect())
    }

    /// Ends the API session.
    pub(crate) async fn logout(&self) -> Result<()> {
        Ok(self.api()?.logout().await?)
    }

    fn remember(&self, key: (String, DialBind), detail: Arc<SessionDetail>) {
        let mut known = self.known.lock();
        if known.sessions.len() < MAX_REMEMBERED || known.sessions.contains_key(&key) {
            known.sessions.insert(key, KeptSession { detail, api_token: self.token() });
        }
    }

    /// Turns to the next controller if the used one cannot be reached.
    fn watch<T>(&self, used: Used<'_>, done: weft_client::Result<T>) -> Result<T> {
        done.map_err(|error| {
            if error.is_temporary() {
                self.turn_from(used);
            }
            error.into()
        })
    }

    fn no_session(&self, error: Error, service: &ServiceDetail, wanted: DialBind) -> Error {
        let Error::Controller(refusal) = &error else { return error };
        let name = service.name.clone();
        match refusal.api().map(|api| (api.status, api.code())) {
            Some((404, _)) => {
                self.forget_session(&service.base.id, wanted);
                Error::ServiceUnknown { service: name }
            }
            Some((_, "NO_EDGE_ROUTERS_AVAILABLE")) => {
                Error::NoEdgeRouters { service: name, reason: refusal.to_string() }
            }
            _ => {
                self.forget_session(&service.base.id, wanted);
                error
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::controller::Pki;
    use std::net::{Ipv4Addr, SocketAddr};

    /// The account of an identity with two controllers that are never asked.
    fn account() -> Account {
        let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut file = Pki::new().identity("tester", address(1));
        file.apis = vec![file.api.clone(), format!("https://{}", address(2))];
        let identity = LiveIdentity::load(file.section()).unwrap();
        Account::new(&file, &identity, About::default()).unwrap()
    }

    #[test]
    fn calls_that_fail_together_turn_to_the_next_controller_once() {
        let account = account();
        assert_eq!(account.apis.len(), 2);
        let lost = || {
            Err::<(), _>(weft_client::Error::Connection {
                action: "reach",
                url: String::new(),
                reason: String::new(),
                timeout: false,
            })
        };
        let (one, other) = (account.used().unwrap(), account.used().unwrap());
        account.watch(one, lost()).unwrap_err();
        account.watch(other, lost()).unwrap_err();
        assert_eq!(account.api().unwrap().address().port(), 2);
        account.watch(account.used().unwrap(), lost()).unwrap_err();
        assert_eq!(account.api().unwrap().address().port(), 1);
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
