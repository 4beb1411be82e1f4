//! Sessions against what they hang on: their identity, their login, their service.

use weft_model::Id;
use weft_model::entity::{Identity, Service};

use super::Report;
use crate::Controller;

impl Controller {
    pub(super) async fn examine_sessions(&self, fix: bool, report: &Report) -> Result<(), String> {
        let (snapshot, sessions) = (self.snapshot(), self.sessions());
        let indexes = sessions.index_faults();
        if !indexes.is_empty() {
            let fixed = fix && sessions.rebuild_indexes();
            indexes.into_iter().for_each(|text| report.found(text, fixed));
        }
        let mut ended = false;
        for session in sessions.all() {
            let (id, identity) = (&session.base.id, &session.identity_id);
            if snapshot.get::<Identity>(identity).is_some() {
                continue;
            }
            if fix {
                sessions.end(std::slice::from_ref(id));
                ended = true;
            }
            report.found(described("API session", id, "identity", identity), fix);
        }
        for session in sessions.all_services() {
            let (id, login, service) =
                (&session.base.id, &session.api_session_id, &session.service_id);
            let lack = if sessions.by_id(login.as_str()).is_none() {
                described("session", id, "API session", login)
            } else if snapshot.get::<Service>(service).is_none() {
                described("session", id, "service", service)
            } else {
                continue;
            };
            if fix {
                sessions.remove_services(std::slice::from_ref(id));
                ended = true;
            }
            report.found(lack, fix);
        }
        if ended {
            let flushed = self.settings().store.live().flush().await;
            flushed.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

fn described(what: &str, id: &Id, of: &str, missing: &Id) -> String {
    format!("{what} {id} hangs on {of} {missing}, which does not exist")
}
