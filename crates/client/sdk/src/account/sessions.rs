//! The service sessions of an identity: made once for each service, remembered, and read again when their routers may
//! have changed.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::Instant;
use weft_contract::entity::DialBind;
use weft_contract::resource::service::ServiceDetail;
use weft_contract::resource::service_session::SessionDetail;
use weft_identity::ExpectedRouter;

use super::{Account, MAX_REMEMBERED};
use crate::addresses::are_usable;
use crate::error::{Error, Result};
use crate::jitter::jittered;
use crate::proofs::{is_for_posture, wants_code};

/// The time for which the routers of a service session are taken for known, on average.
const ROUTERS_KNOWN: Duration = Duration::from_secs(3600);

/// The longest time for which a dial waits for routers to be read again while it knows some.
const ROUTERS_READ: Duration = Duration::from_secs(3);

/// The time until routers that could not be read are read again.
const ROUTERS_UNREAD: Duration = Duration::from_secs(60);

/// A service session, and the API session that it was made in.
#[derive(Debug, Clone)]
pub(super) struct KeptSession {
    pub(super) detail: Arc<SessionDetail>,
    /// What tells the API session from others.
    api_session: Option<String>,
    /// The time at which it was made, or its routers were read.
    read: Instant,
    /// The time from which its routers are read again before it is used.
    pub(super) outdated: Instant,
}

/// A service session that is known.
#[derive(Debug)]
struct KnownSession {
    detail: Arc<SessionDetail>,
    read: Instant,
    /// Its routers were read long ago, or may have changed.
    is_outdated: bool,
}

impl Account {
    /// The service session; it is made if there is none. If its routers were read long ago, or none of them
    /// could be used then, they are read again.
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

    /// The service session with the routers of this time or a later one, which are read if they are older.
    pub(crate) async fn session_since(
        &self,
        service: &ServiceDetail,
        wanted: DialBind,
        since: Instant,
    ) -> Result<Arc<SessionDetail>> {
        match self.known_session(service, wanted) {
            Some(known) if known.read >= since => Ok(known.detail),
            _ => self.session_now(service, wanted).await,
        }
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

    /// The service session that was made or read last in the present API session.
    fn known_session(&self, service: &ServiceDetail, wanted: DialBind) -> Option<KnownSession> {
        let api_session = self.session_key();
        let mut known = self.known.lock();
        let session = known.sessions.get(&(service.base.id.clone(), wanted))?;
        if session.api_session == api_session {
            let is_outdated = Instant::now() >= session.outdated;
            let (detail, read) = (Arc::clone(&session.detail), session.read);
            return Some(KnownSession { detail, read, is_outdated });
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

    /// The router that proves to be the one of this name; `None` if the controller does not tell: those of OpenZiti do
    /// not.
    pub(crate) fn expected_router(&self, name: &str) -> Option<ExpectedRouter> {
        self.known.lock().routers.get(name).cloned()
    }

    pub(super) fn remember(&self, key: (String, DialBind), detail: Arc<SessionDetail>) {
        let mut known = self.known.lock();
        for router in &detail.edge_routers {
            let (name, is_offline) = (&router.router.name, router.server_keys.is_empty());
            let room = known.routers.len() < MAX_REMEMBERED || known.routers.contains_key(name);
            let is_known = known.routers.get(name).is_some_and(|known| known.id() == router.id);
            // The keys of a router that is offline are not told.
            if !router.id.is_empty() && room && !(is_offline && is_known) {
                let expected = ExpectedRouter::new(&router.id, router.server_keys.iter().cloned());
                known.routers.insert(name.clone(), expected);
            }
        }
        if known.sessions.len() < MAX_REMEMBERED || known.sessions.contains_key(&key) {
            let known_for = match are_usable(&detail.edge_routers) {
                true => jittered(ROUTERS_KNOWN),
                false => Duration::ZERO,
            };
            let read = Instant::now();
            let outdated = read + known_for;
            let session = KeptSession { detail, api_session: self.session_key(), read, outdated };
            known.sessions.insert(key, session);
        }
    }

    /// Lets the routers of a service session be read again after a while, and not with the next dial.
    fn postpone_routers(&self, service: &ServiceDetail, wanted: DialBind) {
        let mut known = self.known.lock();
        if let Some(session) = known.sessions.get_mut(&(service.base.id.clone(), wanted)) {
            session.outdated = Instant::now() + jittered(ROUTERS_UNREAD);
        }
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
                let reason = "the controller names none".to_owned();
                Error::NoEdgeRouters { service: name, reason, cause: Some(Box::new(error)) }
            }
            Some((_, "INVALID_POSTURE")) => {
                Error::Posture { service: name, cause: Box::new(error) }
            }
            _ => {
                self.forget_session(&service.base.id, wanted);
                error
            }
        }
    }
}
