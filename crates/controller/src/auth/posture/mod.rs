//! What clients say of their devices, and what follows for their access
//! (docs/protocol/auth.md 18; docs/protocol/management-api.md 7.6).
//!
//! Clients with opaque sessions tell the controller; the others tell the routers, which judge
//! them by themselves. Class Memory: what is known of a device is kept as long as somebody is
//! logged in with it, and gone with the process; so are the refusals. Operating system, domain, hardware addresses and
//! processes belong to the identity; waking, unlocking and the second factor to the API session.
//!
//! - [`Postures`]: the facts; [`Viewer`]: those that count for one look at the model;
//! - `responses`: how they come in; `queries`: what is asked of clients; `refusals`: what was
//!   refused and why; `refused`: how much of that is remembered; `kept`: how much of the facts is;
//!   [`Ending`]: when what was granted ends by itself.

mod kept;
pub(crate) mod queries;
pub(crate) mod refusals;
mod refused;
pub(crate) mod responses;

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::RwLock;
use weft_contract::resource::posture_data::FailedServiceRequest;
use weft_model::access::{self, Decision, Facts, PolicyFacts, Posture, Standing};
use weft_model::entity::{ApiSession, Identity, PolicyType, PostureCheck, SdkInfo, Session};
use weft_model::posture::{Check, OsReport, PostureData, ProcessReport};
use weft_model::{Id, Snapshot, Timestamp};

use super::ending::Ending;
use crate::Controller;
use crate::domain::view::Context;

/// Processes that are remembered of one identity.
const PROCESSES: usize = 256;
/// Bytes of what processes are like that are remembered of one identity.
const PROCESS_BYTES: usize = 256 * 1024;
/// The C SDK and its first version that can ask for codes (docs/protocol/management-api.md 7.6).
const ASKING_SDK: (&str, [u64; 3]) = ("ziti-sdk-c", [0, 25, 0]);

/// Something a client said, for which check, and when.
#[derive(Debug, Clone)]
pub(crate) struct Told<T> {
    /// The posture check it answered.
    pub(crate) check: String,
    /// When it was last said.
    pub(crate) at: Timestamp,
    /// Since when it has been the same.
    since: Timestamp,
    /// What.
    pub(crate) value: T,
}

/// One thing a client said.
#[derive(Debug, Clone)]
pub(crate) enum Report {
    Os(OsReport),
    Mac(Vec<String>),
    Domain(String),
    Process(String, ProcessReport),
    EndpointState { woken: bool, unlocked: bool },
}

/// What is known of the device of an identity.
#[derive(Debug, Clone, Default)]
pub(crate) struct Device {
    pub(crate) os: Option<Told<OsReport>>,
    pub(crate) mac: Option<Told<Vec<String>>>,
    pub(crate) domain: Option<Told<String>>,
    /// By path.
    pub(crate) processes: BTreeMap<String, Told<ProcessReport>>,
}

/// When the device of an API session last woke and was unlocked.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EndpointState {
    pub(crate) woken_at: Option<Timestamp>,
    pub(crate) unlocked_at: Option<Timestamp>,
}

/// The facts. Clones are the same facts.
#[derive(Clone, Default)]
pub(crate) struct Postures(Arc<RwLock<Tables>>);

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
    fn changed_at(&self) -> Option<Timestamp> {
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
    fn record(&self, session: &ApiSession, reports: Vec<(String, Report)>, now: Timestamp) -> bool {
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
    pub(crate) fn device(&self, identity: &Id) -> Device {
        self.0.read().devices.of(identity).cloned().unwrap_or_default()
    }

    /// When the device of an API session last woke and was unlocked.
    pub(crate) fn endpoint(&self, session: &Id) -> EndpointState {
        self.0.read().endpoints.get(session).copied().unwrap_or_default()
    }

    /// The refusals of an identity, the last one first.
    pub(crate) fn refusals(&self, identity: &Id) -> Vec<Arc<FailedServiceRequest>> {
        self.0.read().refusals.of(identity)
    }

    fn refused(&self, identity: &Id, refusal: FailedServiceRequest) {
        let refused = refused::Refused::new(refusal);
        self.0.write().refusals.put(identity, refused);
    }

    /// The grant of a service session ends then, if nothing is heard of the client.
    fn ends(&self, session: &Id, at: Timestamp) {
        self.0.write().ending.put(session, at);
    }

    /// The service sessions whose grants have ended.
    fn take_ended(&self, now: Timestamp) -> Vec<Id> {
        self.0.write().ending.take(now)
    }

    /// Forgets the devices and refusals of who is not logged in any more, and what belongs to API
    /// sessions and service sessions that have ended. Reports wait for what is to be forgotten, not
    /// for the search.
    fn retain(
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
    pub(crate) fn forget(&self, identity: &Id) {
        let mut tables = self.0.write();
        tables.devices.forget(identity);
        tables.refusals.forget(identity);
    }
}

/// Whose access is judged, and what is known of the device.
#[derive(Debug, Clone)]
pub(crate) struct Viewer {
    /// The identity.
    pub(crate) identity: Id,
    data: PostureData,
    /// When something of it last changed.
    changed_at: Option<Timestamp>,
    /// The client cannot ask for codes.
    is_old: bool,
    /// Posture checks take part at all.
    is_judged: bool,
}

impl Viewer {
    /// An identity in one of its sessions; without one it has given no code.
    pub(crate) fn new(
        controller: &Controller,
        identity: &Id,
        session: Option<&ApiSession>,
    ) -> Self {
        let is_judged = controller.settings().posture_checks;
        let has_checks = !controller.snapshot().table(weft_model::Kind::PostureCheck).is_empty();
        if !is_judged || !has_checks {
            return Self {
                identity: identity.clone(),
                data: PostureData::default(),
                changed_at: None,
                is_old: false,
                is_judged,
            };
        }
        let device = controller.postures().device(identity);
        let mut changed_at = device.changed_at();
        let mut data = PostureData::default();
        data.mac_addresses = device.mac.map(|told| told.value).unwrap_or_default();
        data.os = device.os.map(|told| told.value);
        data.domain = device.domain.map(|told| told.value);
        let processes = device.processes.into_iter();
        data.processes = processes.map(|(path, told)| (path, told.value)).collect();
        if let Some(session) = session {
            let state = controller.postures().endpoint(&session.base.id);
            state.woken_at.into_iter().for_each(|at| data.woken(at));
            state.unlocked_at.into_iter().for_each(|at| data.unlocked(at));
            session.mfa_passed_at.into_iter().for_each(|at| data.mfa_passed(at));
            let times = [state.woken_at, state.unlocked_at, session.mfa_passed_at];
            changed_at = changed_at.max(times.into_iter().flatten().max());
        }
        let sdk = session.and_then(|session| session.sdk_info.as_ref());
        let is_old = !sdk.is_some_and(can_ask);
        Self { identity: identity.clone(), data, changed_at, is_old, is_judged }
    }

    /// Whoever asks: in the session that is used.
    pub(crate) fn of_caller(context: &Context) -> Self {
        let login = context.caller().login();
        let identity = login.map(|login| Id::new(&login.identity)).unwrap_or_default();
        let session = login.and_then(|login| context.sessions().by_id(&login.session.id));
        Self::new(context.controller(), &identity, session.as_deref())
    }

    /// What is known of the device.
    pub(crate) fn data(&self) -> &PostureData {
        &self.data
    }

    /// A check as it counts for this client.
    fn check<'c>(&self, check: &'c PostureCheck) -> Check<'c> {
        let mut ready = check.check();
        if let Check::Mfa { timeout, .. } = &mut ready
            && self.is_old
            && check.mfa.ignore_legacy_endpoints
        {
            *timeout = None;
        }
        ready
    }

    /// Whether it may dial or host a service, and why not.
    pub(crate) fn decide(
        &self,
        snapshot: &Snapshot,
        service: &str,
        action: PolicyType,
        now: Timestamp,
    ) -> Decision {
        let posture = match self.is_judged {
            true => Posture::Known(&self.data),
            false => Posture::Ignored,
        };
        let facts = Seen { snapshot, viewer: self };
        access::decide(&facts, self.identity.as_str(), service, action, posture, now)
    }
}

/// Whether a client can ask for codes when they time out.
fn can_ask(sdk: &SdkInfo) -> bool {
    let (name, least) = ASKING_SDK;
    if sdk.kind != name {
        return false;
    }
    let text = sdk.version.trim_start_matches('v');
    let text = text.split(['-', '+']).next().unwrap_or_default();
    let mut parts = text.split('.').map(|part| part.parse::<u64>().unwrap_or(0));
    let found: [u64; 3] = std::array::from_fn(|_| parts.next().unwrap_or(0));
    found >= least
}

/// A snapshot with the checks as they count for one client.
struct Seen<'a> {
    snapshot: &'a Snapshot,
    viewer: &'a Viewer,
}

impl Facts for Seen<'_> {
    fn standing(&self, identity: &str, now: Timestamp) -> Standing {
        self.snapshot.standing(identity, now)
    }

    fn has_service(&self, service: &str) -> bool {
        self.snapshot.has_service(service)
    }

    fn policies(&self, identity: &str, service: &str, action: PolicyType) -> Vec<PolicyFacts<'_>> {
        let mut policies = self.snapshot.policies(identity, service, action);
        let checks = policies.iter_mut().flat_map(|policy| &mut policy.checks);
        for (id, check) in checks {
            if let Some(stored) = self.snapshot.get::<PostureCheck>(&Id::new(id)) {
                *check = Some(self.viewer.check(stored));
            }
        }
        policies
    }
}

impl Controller {
    /// Whoever is logged in with a session.
    pub(crate) fn viewer(&self, session: &ApiSession) -> Viewer {
        Viewer::new(self, &session.identity_id, Some(session))
    }

    /// Whether a login may go on using a service; remembers when that ends by itself.
    fn is_still_granted(
        &self,
        snapshot: &Snapshot,
        login: &ApiSession,
        session: &Session,
        now: Timestamp,
    ) -> bool {
        let service = session.service_id.as_str();
        let decision = self.viewer(login).decide(snapshot, service, session.session_type, now);
        self.remember_end(&session.base.id, &decision);
        decision.is_granted()
    }

    /// Remembers when the grant of a service session ends by itself.
    pub(crate) fn remember_end(&self, session: &Id, decision: &Decision) {
        if let Decision::Granted { until: Some(until), .. } = decision {
            self.postures().ends(session, *until);
        }
    }

    /// Ends the service sessions among these that are granted no more. Routers leave those of
    /// opaque logins to the controller (docs/protocol/edge-control-plane.md 12.1).
    pub(crate) fn end_ungranted(&self, snapshot: &Snapshot, picked: &[Arc<Session>]) {
        let now = self.now();
        let ungranted = picked.iter().filter(|session| {
            let login = self.sessions().by_id(session.api_session_id.as_str());
            login.is_none_or(|login| !self.is_still_granted(snapshot, &login, session, now))
        });
        let ended: Vec<Id> = ungranted.map(|session| session.base.id.clone()).collect();
        self.sessions().remove_services(&ended);
    }

    /// What is known of the devices of an identity has changed.
    pub(crate) fn posture_changed(&self, identity: &Id) {
        let snapshot = self.snapshot();
        if snapshot.table(weft_model::Kind::PostureCheck).is_empty() {
            return;
        }
        if let Some(ordinal) = snapshot.ordinal_of::<Identity>(identity) {
            self.service_changes().one(ordinal, self.now());
        }
        self.end_ungranted(&snapshot, &self.sessions().services_of_identity(identity));
    }

    /// Ends what has timed out, and forgets the devices of who is gone.
    pub(crate) fn sweep_postures(&self) {
        let now = self.now();
        let ended = self.postures().take_ended(now);
        if !ended.is_empty() {
            let snapshot = self.snapshot();
            let sessions = ended.iter().filter_map(|id| self.sessions().service(id.as_str()));
            let sessions: Vec<Arc<Session>> = sessions.collect();
            for session in &sessions {
                if let Some(ordinal) = snapshot.ordinal_of::<Identity>(&session.identity_id) {
                    self.service_changes().one(ordinal, now);
                }
            }
            self.end_ungranted(&snapshot, &sessions);
        }
        let sessions = self.sessions();
        self.postures().retain(
            |identity| sessions.is_logged_in(identity),
            |session| sessions.by_id(session.as_str()).is_some(),
            |session| sessions.service(session.as_str()).is_some(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_can_ask_are_told_by_their_sdk() {
        let sdk = |kind: &str, version: &str| SdkInfo {
            kind: kind.into(),
            version: version.into(),
            ..SdkInfo::default()
        };
        for (kind, version, can) in [
            ("ziti-sdk-c", "0.25.0", true),
            ("ziti-sdk-c", "v1.2.3-rc1", true),
            ("ziti-sdk-c", "0.24.9", false),
            ("ziti-sdk-c", "", false),
            ("ziti-sdk-golang", "1.0.0", false),
        ] {
            assert_eq!(can_ask(&sdk(kind, version)), can, "{kind} {version}");
        }
    }
}
