//! The identity at the controllers: login, services, service sessions.
//!
//! API sessions are the opaque ones of the client API (docs/protocol/auth.md 9, 10;
//! docs/protocol/sdk.md 15.0, 15.1). One controller is used at a time; if it cannot be reached, the
//! next one is tried.
//!
//! - `login`: logins;
//! - `proving`: reports about this device, and codes of the second factor, for posture checks;
//! - `renewing`: renewal of the identity's certificate.

mod login;
mod proving;
mod renewing;

use crate::error::{Error, Result};
use crate::jitter::jittered;
use crate::posture::Reporter;
use crate::proofs::{Proofs, is_for_posture, wants_code};
use crate::renewal::{Extension, Renewal};
use crate::service::Service;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use weft_client::{About, ClientApi, Codes, Tls};
use weft_contract::Timestamp;
use weft_contract::entity::DialBind;
use weft_contract::resource::edge_router::EdgeRouterCommon;
use weft_contract::resource::identity::IdentityDetail;
use weft_contract::resource::service::ServiceDetail;
use weft_contract::resource::service_session::SessionDetail;
use weft_contract::resource::session::ApiSessionDetail;
use weft_identity::{IdentityFile, LiveIdentity};

/// Most services and service sessions of one identity that are remembered.
const MAX_REMEMBERED: usize = 65_536;

/// The time for which the routers of a service session are taken for known, on average.
const ROUTERS_KNOWN: Duration = Duration::from_secs(3600);

/// The longest time for which a dial waits for routers to be read again while it knows some.
const ROUTERS_READ: Duration = Duration::from_secs(3);

/// The time until routers that could not be read are read again.
const ROUTERS_UNREAD: Duration = Duration::from_secs(60);

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
    /// Reports about this device for posture checks.
    posture: Reporter,
    /// Codes of the second factor for posture checks.
    proofs: Proofs,
    renewal: Renewal,
}

#[derive(Debug, Default)]
struct Known {
    identity: Option<String>,
    /// The time without a request after which the controller ends the API session.
    session_lasts: Option<Duration>,
    /// The controller's last answer about the certificate.
    extension: Extension,
    services: HashMap<String, Arc<ServiceDetail>>,
    changed_at: Option<Timestamp>,
    /// The services were read, since they were last forgotten.
    has_services: bool,
    sessions: HashMap<(String, DialBind), KeptSession>,
}

/// A service session, and the API session that it was made in.
#[derive(Debug, Clone)]
struct KeptSession {
    detail: Arc<SessionDetail>,
    api_token: Option<String>,
    /// The time from which its routers are read again before it is used.
    outdated: Instant,
}

/// A service session that is known.
#[derive(Debug)]
struct KnownSession {
    detail: Arc<SessionDetail>,
    /// Its routers were read long ago, or may have changed.
    is_outdated: bool,
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
        codes: Option<&Codes>,
        renewal: Renewal,
    ) -> Result<Self> {
        let tls = Tls::Identity(Arc::clone(identity));
        let api = |url: &str| Ok(ClientApi::new(url.parse()?, &tls)?.with_codes(codes.cloned()));
        let apis: Result<Vec<_>> = file.controllers().map(api).collect();
        Ok(Self {
            apis: apis?,
            current: AtomicUsize::new(0),
            about,
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
        let _ = self.current.compare_exchange(number, next, order, order);
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
        let session = self.ask(|api| api.current_session().boxed()).await?;
        self.note_session(&session);
        Ok(())
    }

    fn note_session(&self, session: &ApiSessionDetail) {
        let lasts = session.expiration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let lasts = lasts.filter(|seconds| *seconds > 0).map(Duration::from_secs);
        self.known.lock().session_lasts = lasts;
        self.note_extension(Extension::of(session));
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
        if known.services.len() < MAX_REMEMBERED || known.services.contains_key(name) {
            known.services.insert(name.to_owned(), Arc::clone(&found));
        }
        Ok(Some(found))
    }

    /// The service session; it is made if there is none. If its routers were read long ago, they are
    /// read again.
    pub(crate) async fn session(
        &self,
        service: &ServiceDetail,
        wanted: DialBind,
    ) -> Result<Arc<SessionDetail>> {
        self.ensure_login().await?;
        let Some(known) = self.known_session(service, wanted) else {
            return self.make_session(service, wanted).await;
        };
        if !known.is_outdated {
            return Ok(known.detail);
        }
        let read = tokio::time::timeout(ROUTERS_READ, self.session_now(service, wanted)).await;
        let is_away = match &read {
            Ok(Err(Error::Controller(problem))) => problem.is_temporary(),
            Ok(_) => false,
            Err(_) => true,
        };
        match read {
            Ok(read) if !is_away => read,
            // The known routers are good enough while no controller can be reached.
            _ => {
                self.postpone_routers(service, wanted);
                Ok(known.detail)
            }
        }
    }

    /// Lets the routers of a service session be read again after a while, and not with the next dial.
    fn postpone_routers(&self, service: &ServiceDetail, wanted: DialBind) {
        let mut known = self.known.lock();
        if let Some(session) = known.sessions.get_mut(&(service.base.id.clone(), wanted)) {
            session.outdated = Instant::now() + jittered(ROUTERS_UNREAD);
        }
    }

    /// The service session that was made or read last in the present API session.
    fn known_session(&self, service: &ServiceDetail, wanted: DialBind) -> Option<KnownSession> {
        let api_token = self.token();
        let mut known = self.known.lock();
        let session = known.sessions.get(&(service.base.id.clone(), wanted))?;
        if session.api_token == api_token {
            let is_outdated = Instant::now() >= session.outdated;
            return Some(KnownSession { detail: Arc::clone(&session.detail), is_outdated });
        }
        known.sessions.clear();
        None
    }

    async fn make_session(
        &self,
        service: &ServiceDetail,
        wanted: DialBind,
    ) -> Result<Arc<SessionDetail>> {
        self.answer_checks_of(service).await;
        let make = || self.ask(|api| api.create_session(&service.base.id, wanted).boxed());
        let mut made = make().await;
        if made.as_ref().is_err_and(is_for_posture) {
            // The controller has lost the reports, or the service has a check that was not known.
            self.posture.forget();
            if let Some(service) = self.read_service(&service.name).await? {
                self.answer_checks_of(&service).await;
                made = make().await;
                if made.as_ref().is_err_and(is_for_posture) && wants_code(&service) {
                    self.prove().await.map_err(|error| error.for_posture(&service.name))?;
                    made = make().await;
                }
            }
        }
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
        let known = known.detail;
        let mut detail = match self.ask(|api| api.session(&known.base.id).boxed()).await {
            Ok(detail) => detail,
            Err(Error::Controller(problem)) if problem.is_temporary() => {
                return Err(Error::Controller(problem));
            }
            Err(_) => {
                self.forget_session(&service.base.id, wanted);
                return Box::pin(self.make_session(service, wanted)).await;
            }
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
        let routers = self.ask(|api| api.edge_routers().boxed()).await?;
        Ok(routers.into_iter().map(|router| router.router).collect())
    }

    /// Ends the API session.
    pub(crate) async fn logout(&self) -> Result<()> {
        Ok(self.api()?.logout().await?)
    }

    fn remember(&self, key: (String, DialBind), detail: Arc<SessionDetail>) {
        let mut known = self.known.lock();
        if known.sessions.len() < MAX_REMEMBERED || known.sessions.contains_key(&key) {
            let outdated = Instant::now() + jittered(ROUTERS_KNOWN);
            let session = KeptSession { detail, api_token: self.token(), outdated };
            known.sessions.insert(key, session);
        }
    }

    /// Asks the controller in use, and the next one if that cannot be reached.
    async fn ask<'a, T>(
        &'a self,
        call: impl Fn(&'a ClientApi) -> BoxFuture<'a, weft_client::Result<T>>,
    ) -> Result<T> {
        self.ensure_login().await?;
        let used = self.used()?;
        match self.watch(used, call(used.api).await) {
            Err(Error::Controller(problem)) if problem.is_temporary() && self.apis.len() > 1 => {
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
            Some((_, "INVALID_POSTURE")) => {
                Error::Posture { service: name, reason: refusal.to_string() }
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
        let renewal = Renewal::new(Arc::clone(&identity), None, true);
        Account::new(&file, &identity, About::default(), None, renewal).unwrap()
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
