//! What clients say of their devices, and what follows for their access
//! (docs/protocol/auth.md 18; docs/protocol/management-api.md 7.6).
//!
//! Clients with opaque sessions tell the controller; the others tell the routers, which judge
//! them by themselves. Class Memory: what is known of a device is kept as long as somebody is
//! logged in with it, and gone with the process; so are the refusals. Operating system, domain, hardware addresses and
//! processes belong to the identity; waking, unlocking and the second factor to the API session.
//!
//! - [`Postures`]: the facts; [`viewer`]: those that count for one look at the model;
//! - `responses`: how they come in; `queries`: what is asked of clients; `refusals`: what was
//!   refused and why; `refused`: how much of that is remembered; `kept`: how much of the facts is;
//!   [`Ending`]: when what was granted ends by itself.

mod kept;
pub mod queries;
pub mod refusals;
mod refused;
pub mod responses;
pub mod viewer;
pub mod wanted;

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::RwLock;
use weft_contract::resource::posture_data::FailedServiceRequest;
use weft_model::entity::ApiSession;
use weft_model::posture::{OsReport, ProcessReport};
use weft_model::{Id, Timestamp};

use super::ending::Ending;

/// Processes that are remembered of one identity.
const PROCESSES: usize = 256;
/// Bytes of what processes are like that are remembered of one identity.
const PROCESS_BYTES: usize = 256 * 1024;

/// Something a client said, for which check, and when.
#[derive(Debug, Clone)]
pub struct Told<T> {
    /// The posture check it answered.
    pub check: String,
    /// When it was last said.
    pub at: Timestamp,
    /// Since when it has been the same.
    since: Timestamp,
    /// What.
    pub value: T,
}

/// One thing a client said.
#[derive(Debug, Clone)]
pub enum Report {
    /// Its operating system.
    Os(OsReport),
    /// Its hardware addresses.
    Mac(Vec<String>),
    /// Its domain.
    Domain(String),
    /// A process, by its path.
    Process(String, ProcessReport),
    /// It woke, or was unlocked.
    EndpointState {
        /// It woke.
        woken: bool,
        /// It was unlocked.
        unlocked: bool,
    },
}

/// What is known of the device of an identity.
#[derive(Debug, Clone, Default)]
pub struct Device {
    /// Its operating system.
    pub os: Option<Told<OsReport>>,
    /// Its hardware addresses.
    pub mac: Option<Told<Vec<String>>>,
    /// Its domain.
    pub domain: Option<Told<String>>,
    /// By path.
    pub processes: BTreeMap<String, Told<ProcessReport>>,
}

/// When the device of an API session last woke and was unlocked.
#[derive(Debug, Clone, Copy, Default)]
pub struct EndpointState {
    /// When it woke.
    pub woken_at: Option<Timestamp>,
    /// When it was unlocked.
    pub unlocked_at: Option<Timestamp>,
}

/// The facts. Clones are the same facts.
#[derive(Clone, Default)]
pub struct Postures(Arc<RwLock<Tables>>);

#[derive(Default)]
struct Tables {
    devices: kept::Devices,
    endpoints: HashMap<Id, EndpointState>,
    refusals: refused::Refusals,
    ending: Ending,
}

fn size_of_process(path: &str, report: &ProcessReport) -> usize {
    let signers = report.signer_fingerprints.iter().map(String::len);
    path.len() + report.hash.len() + signers.sum::<usize>()
}

impl<T: PartialEq> Told<T> {
    /// Something said, after what was said before; and whether it is anything new.
    fn after(before: Option<&Self>, check: String, at: Timestamp, value: T) -> (Self, bool) {
        let same = before.filter(|before| before.value == value);
        let since = same.map_or(at, |same| same.since);
        let is_new = same.is_none();
        (Self { check, at, since, value }, is_new)
    }
}

impl Device {
    /// Takes a report in. True if it says anything new.
    fn put(&mut self, check: String, report: Report, at: Timestamp) -> bool {
        fn say<T: PartialEq>(
            slot: &mut Option<Told<T>>,
            check: String,
            at: Timestamp,
            value: T,
        ) -> bool {
            let (told, is_new) = Told::after(slot.as_ref(), check, at, value);
            *slot = Some(told);
            is_new
        }
        match report {
            Report::Os(value) => say(&mut self.os, check, at, value),
            Report::Mac(value) => say(&mut self.mac, check, at, value),
            Report::Domain(value) => say(&mut self.domain, check, at, value),
            Report::Process(path, value) => {
                let known = self.processes.get(&path);
                let others = self.processes.iter().filter(|(other, _)| **other != path);
                let others = others.map(|(path, told)| size_of_process(path, &told.value));
                let bytes = others.sum::<usize>() + size_of_process(&path, &value);
                if bytes > PROCESS_BYTES || known.is_none() && self.processes.len() >= PROCESSES {
                    return false;
                }
                let (told, is_new) = Told::after(known, check, at, value);
                self.processes.insert(path, told);
                is_new
            }
            Report::EndpointState { .. } => false,
        }
    }

    /// When anything of it last changed.
    pub(super) fn changed_at(&self) -> Option<Timestamp> {
        let single = [
            self.os.as_ref().map(|told| told.since),
            self.mac.as_ref().map(|told| told.since),
            self.domain.as_ref().map(|told| told.since),
        ];
        let processes = self.processes.values().map(|told| told.since);
        single.into_iter().flatten().chain(processes).max()
    }
}

impl Postures {
    /// Remembers what a client said. True if any of it is new.
    pub(super) fn record(
        &self,
        session: &ApiSession,
        reports: Vec<(String, Report)>,
        now: Timestamp,
    ) -> bool {
        let mut tables = self.0.write();
        let mut is_new = false;
        for (check, report) in reports {
            if let Report::EndpointState { woken, unlocked } = report {
                let state = tables.endpoints.entry(session.base.id.clone()).or_default();
                state.woken_at = state.woken_at.max(woken.then_some(now));
                state.unlocked_at = state.unlocked_at.max(unlocked.then_some(now));
                is_new |= woken || unlocked;
            } else {
                is_new |= tables.devices.put(&session.identity_id, check, report, now);
            }
        }
        is_new
    }

    /// What is known of the device of an identity.
    pub fn device(&self, identity: &Id) -> Device {
        self.0.read().devices.of(identity).cloned().unwrap_or_default()
    }

    /// When the device of an API session last woke and was unlocked.
    pub fn endpoint(&self, session: &Id) -> EndpointState {
        self.0.read().endpoints.get(session).copied().unwrap_or_default()
    }

    /// The refusals of an identity, the last one first.
    pub fn refusals(&self, identity: &Id) -> Vec<Arc<FailedServiceRequest>> {
        self.0.read().refusals.of(identity)
    }

    pub(super) fn refused(&self, identity: &Id, refusal: FailedServiceRequest) {
        let refused = refused::Refused::new(refusal);
        self.0.write().refusals.put(identity, refused);
    }

    /// The grant of a service session ends then, if nothing is heard of the client.
    pub(super) fn ends(&self, session: &Id, at: Timestamp) {
        self.0.write().ending.put(session, at);
    }

    /// The service sessions whose grants have ended.
    pub(super) fn take_ended(&self, now: Timestamp) -> Vec<Id> {
        self.0.write().ending.take(now)
    }

    /// Forgets the devices and refusals of who is not logged in any more, and what belongs to API
    /// sessions and service sessions that have ended. Reports wait for what is to be forgotten, not
    /// for the search.
    pub(super) fn retain(
        &self,
        is_identity: impl Fn(&Id) -> bool,
        is_session: impl Fn(&Id) -> bool,
        is_service: impl Fn(&Id) -> bool,
    ) {
        let (identities, sessions, services) = {
            let tables = self.0.read();
            let known = tables.devices.identities().chain(tables.refusals.identities());
            let gone = known.filter(|identity| !is_identity(identity));
            let ended = tables.endpoints.keys().filter(|session| !is_session(session));
            let services = tables.ending.sessions().filter(|session| !is_service(session));
            let services = services.cloned().collect::<Vec<_>>();
            (gone.cloned().collect::<Vec<_>>(), ended.cloned().collect::<Vec<_>>(), services)
        };
        if identities.is_empty() && sessions.is_empty() && services.is_empty() {
            return;
        }
        let mut tables = self.0.write();
        // Somebody may have logged in again meanwhile and told what counts now.
        for identity in identities.iter().filter(|identity| !is_identity(identity)) {
            tables.devices.forget(identity);
            tables.refusals.forget(identity);
        }
        for session in &sessions {
            tables.endpoints.remove(session);
        }
        services.iter().for_each(|session| tables.ending.remove(session));
    }

    /// Forgets an identity.
    pub fn forget(&self, identity: &Id) {
        let mut tables = self.0.write();
        tables.devices.forget(identity);
        tables.refusals.forget(identity);
    }
}
