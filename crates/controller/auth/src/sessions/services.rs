//! Service sessions, which are in the same tables as their logins.

use std::sync::Arc;

use weft_kernel::{Failure, Published, Result};
use weft_model::entity::{PolicyType, ServiceSession};
use weft_model::{Entity, Id, Table, Timestamp};

use super::former_tokens::note_token;
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
        let api = self.0.tables.read().api.clone();
        let mut strays = self.all_services();
        strays.retain(|session| api.ordinal(&session.api_session_id).is_none());
        let strays: Vec<Id> = strays.iter().map(|session| session.base.id.clone()).collect();
        self.remove_services(&strays);
    }

    /// A service session by id.
    pub fn service(&self, id: &str) -> Option<Arc<ServiceSession>> {
        self.0.tables.read().service.get(&Id::new(id))?.get::<ServiceSession>().cloned()
    }

    /// The session of an opaque token, which OpenZiti gave.
    pub fn service_of_token(&self, token: &str) -> Option<Arc<ServiceSession>> {
        let tables = self.0.tables.read();
        let id = tables.by_former_token.get(token)?;
        let session = tables.service.get(id)?.get::<ServiceSession>()?;
        (*session.token == *token).then(|| Arc::clone(session))
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

    /// The number of sessions for a service.
    pub fn count_for(&self, service: &Id) -> u64 {
        self.0.tables.read().service.count_referrers(SERVICE, service)
    }

    /// The sessions for a service, ordered by id.
    pub fn services_for(&self, service: &Id) -> Vec<Arc<ServiceSession>> {
        referring(&self.service_table(), SERVICE, service)
    }

    /// The sessions whose grant a change of the model can end.
    pub(super) fn services_touched(&self, published: &Published) -> Vec<Arc<ServiceSession>> {
        touched::by(&self.service_table(), published)
    }

    /// The service sessions of this moment. However many are looked at, the lock of the tables is held no longer than for
    /// one: a clone of a table shares everything.
    fn service_table(&self) -> Table {
        self.0.tables.read().service.clone()
    }

    /// All service sessions, ordered by id.
    pub fn all_services(&self) -> Vec<Arc<ServiceSession>> {
        let table = self.service_table();
        table.iter().filter_map(|entity| entity.get::<ServiceSession>().cloned()).collect()
    }

    /// The number of service sessions.
    pub fn count_services(&self) -> usize {
        self.0.tables.read().service.len()
    }

    /// The time at which the oldest existing service session was made.
    pub(crate) fn oldest_service(&self) -> Option<Timestamp> {
        let table = self.service_table();
        let all = table.iter().filter_map(|entity| entity.get::<ServiceSession>());
        all.map(|session| session.base.created_at).min()
    }

    /// The existing session of the same login, type and service, or else the new one. Refused once
    /// the login has ended, or if the new session contradicts another one.
    pub fn service_or(&self, new: ServiceSession) -> Result<Arc<ServiceSession>> {
        let mut tables = self.0.tables.write();
        let login = tables.api.ordinal(&new.api_session_id);
        login.ok_or_else(|| Failure::unauthorized("the session has ended"))?;
        let links = [(LOGIN, &new.api_session_id), (SERVICE, &new.service_id)];
        let known = tables.service.referring_both(links[0], links[1]);
        let mut known = known.filter_map(|it| it.get::<ServiceSession>());
        let same = known.find(|it| it.session_type == new.session_type).cloned();
        drop(known);
        if let Some(same) = same {
            return Ok(same);
        }
        if tables.service.count_referrers(IDENTITY, &new.identity_id) >= self.0.services.most {
            drop(tables);
            return Err(self.0.services.refuse(&new.identity_id));
        }
        self.keep_service(&mut tables, new)
    }

    fn keep_service(
        &self,
        tables: &mut Tables,
        session: ServiceSession,
    ) -> Result<Arc<ServiceSession>> {
        let session = Arc::new(session);
        let entity = Entity::from(Arc::clone(&session));
        note_token(&mut tables.by_former_token, &entity);
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

#[cfg(test)]
mod tests {
    use weft_identity::SealKey;
    use weft_kernel::Durations;
    use weft_model::Base;
    use weft_model::entity::ApiSession;
    use weft_store::Memory;

    use super::*;
    use crate::sessions::half::no_logins;

    #[test]
    fn an_identity_has_so_many_service_sessions_and_keeps_no_other_from_them() {
        let (key, store) = (Arc::new(SealKey::random().unwrap()), Arc::new(Memory::new()));
        let now = Timestamp(1_000_000);
        let mut sessions =
            Sessions::load(store, key, &Durations::default(), 0, no_logins(), now).unwrap();
        Arc::get_mut(&mut sessions.0).unwrap().services.most = 3;
        let identity = |login: &str| Id::new(&login[..1]);
        for login in ["a1", "a2", "b1"] {
            let session = ApiSession {
                base: Base::new(Id::new(login), now),
                identity_id: identity(login),
                last_activity_at: now,
                ..ApiSession::default()
            };
            sessions.open(session, login, |_| true).unwrap();
        }
        let ask = |login: &str, service: &str| {
            let id = Id::new(&format!("{login} {service}"));
            sessions.service_or(ServiceSession {
                token: id.as_str().into(),
                base: Base::new(id, now),
                api_session_id: Id::new(login),
                identity_id: identity(login),
                service_id: Id::new(service),
                ..ServiceSession::default()
            })
        };
        for (login, service) in [("a1", "s1"), ("a1", "s2"), ("a2", "s1")] {
            ask(login, service).unwrap();
        }
        let refused = ask("a2", "s2").unwrap_err();
        assert_eq!(refused.status(), 429);
        assert!(refused.to_string().contains("identity a has 3 service sessions"), "{refused}");
        assert!(ask("a1", "s1").is_ok(), "it exists");
        assert!(ask("b1", "s1").is_ok());
        sessions.end(&[Id::new("a1")]);
        assert!(ask("a2", "s2").is_ok());
    }
}
