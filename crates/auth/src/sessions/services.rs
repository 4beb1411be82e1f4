//! Service sessions, which are in the same tables as their logins.

use std::sync::Arc;

use weft_kernel::{Failure, Published};
use weft_model::entity::{PolicyType, ServiceSession};
use weft_model::{Entity, Id, Table, Timestamp};

use super::{Sessions, Tables, contradiction, touched};

/// Indexes of the links of a service session.
pub(super) const LOGIN: usize = 0;
pub(super) const IDENTITY: usize = 1;
pub(super) const SERVICE: usize = 2;

/// The sessions of a table with a reference to `id`, ordered by id.
pub(super) fn referring(table: &Table, link: usize, id: &Id) -> Vec<Arc<ServiceSession>> {
    let found = table.referring(link, id);
    let mut found: Vec<_> = found.filter_map(|it| it.get::<ServiceSession>().cloned()).collect();
    found.sort_unstable_by(|a, b| a.base.id.cmp(&b.base.id));
    found
}

impl Sessions {
    /// Drops service sessions whose API session is missing, as after a kill between two writes.
    pub(super) fn drop_strays(&self) {
        let strays: Vec<Id> = {
            let tables = self.0.tables.read();
            let all = tables.service.iter().filter_map(|entity| entity.get::<ServiceSession>());
            all.filter(|session| tables.api.ordinal(&session.api_session_id).is_none())
                .map(|session| session.base.id.clone())
                .collect()
        };
        self.remove_services(&strays);
    }

    /// A service session by id.
    pub fn service(&self, id: &str) -> Option<Arc<ServiceSession>> {
        self.0.tables.read().service.get(&Id::new(id))?.get::<ServiceSession>().cloned()
    }

    /// Whether an identity has a session of a type for a service.
    pub fn has_service(&self, identity: &Id, service: &Id, wanted: PolicyType) -> bool {
        let tables = self.0.tables.read();
        let mut own = tables.service.referring_both((IDENTITY, identity), (SERVICE, service));
        own.any(|entity| entity.get::<ServiceSession>().is_some_and(|it| it.session_type == wanted))
    }

    /// The service sessions of an identity, ordered by id.
    pub fn services_of_identity(&self, identity: &Id) -> Vec<Arc<ServiceSession>> {
        referring(&self.0.tables.read().service, IDENTITY, identity)
    }

    /// The sessions for a service, ordered by id.
    pub(crate) fn services_for(&self, service: &Id) -> Vec<Arc<ServiceSession>> {
        referring(&self.0.tables.read().service, SERVICE, service)
    }

    /// The sessions whose grant a change of the model can end.
    pub(super) fn services_touched(&self, published: &Published) -> Vec<Arc<ServiceSession>> {
        touched::by(&self.0.tables.read().service, published)
    }

    /// All service sessions, ordered by id.
    pub fn all_services(&self) -> Vec<Arc<ServiceSession>> {
        let tables = self.0.tables.read();
        tables.service.iter().filter_map(|entity| entity.get::<ServiceSession>().cloned()).collect()
    }

    /// The time at which the oldest existing service session was made.
    pub(crate) fn oldest_service(&self) -> Option<Timestamp> {
        let tables = self.0.tables.read();
        let all = tables.service.iter().filter_map(|entity| entity.get::<ServiceSession>());
        all.map(|session| session.base.created_at).min()
    }

    /// The existing session of the same login, type and service, or else the new one. Refused once
    /// the login has ended, or if the new session contradicts another one.
    pub fn service_or(&self, new: ServiceSession) -> Result<Arc<ServiceSession>, Failure> {
        let mut tables = self.0.tables.write();
        let login = tables.api.ordinal(&new.api_session_id);
        login.ok_or_else(|| Failure::unauthorized("the session has ended"))?;
        let links = [(LOGIN, &new.api_session_id), (SERVICE, &new.service_id)];
        let known = tables.service.referring_both(links[0], links[1]);
        let mut known = known.filter_map(|it| it.get::<ServiceSession>());
        let same = known.find(|it| it.session_type == new.session_type).cloned();
        drop(known);
        same.map_or_else(|| self.keep_service(&mut tables, new), Ok)
    }

    fn keep_service(
        &self,
        tables: &mut Tables,
        session: ServiceSession,
    ) -> Result<Arc<ServiceSession>, Failure> {
        let session = Arc::new(session);
        let entity = Entity::from(Arc::clone(&session));
        tables.service.put(entity.clone()).map_err(contradiction)?;
        self.0.store.live().put(entity);
        Ok(session)
    }

    /// Adds a service session whose login may be missing: a fault for tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn plant_service(&self, session: ServiceSession) {
        drop(self.keep_service(&mut self.0.tables.write(), session));
    }
}
