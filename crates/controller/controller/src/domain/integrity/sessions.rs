//! Compares sessions with the identity, the login and the service that they depend on.
//!
//! Sessions come and go during the check, and may be younger than the snapshot. A suspect is
//! therefore looked at again with the current state before it is reported.

use weft_auth::sessions::Sessions;
use weft_model::entity::{ApiSession, Identity, Service, ServiceSession};
use weft_model::{Id, Snapshot};

use crate::Controller;
use crate::domain::integrity::run::Report;

/// A session whose identity, login or service seems to be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Suspect {
    Login(Id),
    Service(Id),
}

impl Controller {
    pub(super) async fn examine_sessions(&self, fix: bool, report: &Report) -> Result<(), String> {
        let sessions = self.auth().sessions();
        let indexes = sessions.index_faults();
        if !indexes.is_empty() {
            let fixed = fix && sessions.rebuild_indexes();
            indexes.into_iter().for_each(|text| report.found(text, fixed));
        }
        let suspects = suspects(&self.kernel().snapshot(), sessions);
        if self.examine_suspects(&suspects, fix, report) {
            let flushed = self.kernel().settings().store.live().flush().await;
            flushed.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Looks at suspects again, with the current state of everything. Returns true if it ended a
    /// session.
    pub(super) fn examine_suspects(
        &self,
        suspects: &[Suspect],
        fix: bool,
        report: &Report,
    ) -> bool {
        let sessions = self.auth().sessions();
        let mut ended = false;
        for suspect in suspects {
            let lack = match suspect {
                Suspect::Login(id) => {
                    let known = sessions.by_id(id.as_str());
                    known.and_then(|it| lack_of_login(&self.kernel().snapshot(), &it))
                }
                Suspect::Service(id) => {
                    let known = sessions.service(id.as_str());
                    known.and_then(|it| lack_of_service(&self.kernel().snapshot(), sessions, &it))
                }
            };
            let Some(lack) = lack else { continue };
            if fix {
                match suspect {
                    Suspect::Login(id) => sessions.end(std::slice::from_ref(id)),
                    Suspect::Service(id) => sessions.remove_services(std::slice::from_ref(id)),
                }
                ended = true;
            }
            report.found(lack, fix);
        }
        ended
    }
}

/// Sessions whose identity, login or service is not in a snapshot.
pub(super) fn suspects(snapshot: &Snapshot, sessions: &Sessions) -> Vec<Suspect> {
    let (logins, services) = (sessions.all().into_iter(), sessions.all_services().into_iter());
    let logins = logins.filter(|it| lack_of_login(snapshot, it).is_some());
    let services = services.filter(|it| lack_of_service(snapshot, sessions, it).is_some());
    let logins = logins.map(|it| Suspect::Login(it.base.id.clone()));
    logins.chain(services.map(|it| Suspect::Service(it.base.id.clone()))).collect()
}

fn lack_of_login(snapshot: &Snapshot, session: &ApiSession) -> Option<String> {
    let (id, identity) = (&session.base.id, &session.identity_id);
    let is_there = snapshot.get::<Identity>(identity).is_some();
    (!is_there).then(|| described("API session", id, "identity", identity))
}

fn lack_of_service(
    snapshot: &Snapshot,
    sessions: &Sessions,
    session: &ServiceSession,
) -> Option<String> {
    let (id, login, service) = (&session.base.id, &session.api_session_id, &session.service_id);
    if sessions.by_id(login.as_str()).is_none() {
        return Some(described("session", id, "API session", login));
    }
    let is_there = snapshot.get::<Service>(service).is_some();
    (!is_there).then(|| described("session", id, "service", service))
}

fn described(what: &str, id: &Id, of: &str, missing: &Id) -> String {
    format!("{what} {id} belongs to {of} {missing}, which does not exist")
}
