//! Judges the access of an identity to services, with its posture data.

use std::sync::{Arc, OnceLock};

use roaring::RoaringBitmap;
use weft_model::access::{
    self, AccessDecision, Denial, Facts, JudgedPolicy, PolicyFacts, Posture, Standing,
};
use weft_model::entity::{
    ApiSession, Identity, PolicyType, PostureCheck, SdkInfo, Service, ServicePolicy, ServiceSession,
};
use weft_model::posture::{Check, PostureData};
use weft_model::{Id, Kind, Snapshot, Table, Timestamp};

use crate::end_statement::lacks_proof;
use crate::handle::Auth;

/// The name of the C SDK, and its first version that can ask its user for a code of the second
/// factor again (docs/protocol/management-api.md 7.6).
const ASKING_SDK: (&str, [u64; 3]) = ("ziti-sdk-c", [0, 25, 0]);

/// An identity whose access is judged, with its posture data.
#[derive(Debug, Clone)]
pub struct Viewer {
    /// The identity.
    pub identity: Id,
    pub(super) data: PostureData,
    /// The time of the last change of its posture data.
    pub(super) changed_at: Option<Timestamp>,
    /// Whether the client cannot ask its user for a code of the second factor again.
    pub(super) is_old: bool,
    /// Whether this controller judges posture checks.
    pub(super) is_judged: bool,
    /// Whether routers judge the posture checks of the services that the identity dials and hosts: clients with a signed
    /// token that are connected to routers of OpenZiti alone give their data to these (docs/protocol/sdk.md 12.2).
    is_left_to_routers: bool,
    /// The service policies that hold the identity, once they were asked for.
    held: OnceLock<Held>,
}

#[cfg(any(test, feature = "testing"))]
thread_local! {
    static EVALUATED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How often viewers evaluated the policies of their identity on this thread.
#[cfg(any(test, feature = "testing"))]
pub fn evaluated() -> u64 {
    EVALUATED.get()
}

/// The service policies that hold an identity, and the tables that say so.
#[derive(Debug, Clone)]
struct Held {
    policies: RoaringBitmap,
    tables: [Arc<Table>; 2],
}

impl Held {
    fn tables(snapshot: &Snapshot) -> [&Arc<Table>; 2] {
        [Kind::Identity, Kind::ServicePolicy].map(|kind| snapshot.shared_table(kind))
    }

    fn of(snapshot: &Snapshot, identity: &Id) -> Self {
        #[cfg(any(test, feature = "testing"))]
        EVALUATED.set(EVALUATED.get() + 1);
        let policies = snapshot.holding::<ServicePolicy>(ServicePolicy::IDENTITIES, identity);
        Self { policies, tables: Self::tables(snapshot).map(Arc::clone) }
    }

    fn is_of(&self, snapshot: &Snapshot) -> bool {
        let mut tables = self.tables.iter().zip(Self::tables(snapshot));
        tables.all(|(own, other)| Arc::ptr_eq(own, other))
    }
}

impl Viewer {
    /// An identity in one of its API sessions. Without a session it has given no code of a second
    /// factor.
    pub fn new(auth: &Auth, identity: &Id, session: Option<&ApiSession>) -> Self {
        let is_judged = auth.kernel().settings().posture_checks;
        let has_checks = !auth.kernel().snapshot().table(Kind::PostureCheck).is_empty();
        if !is_judged || !has_checks {
            return Self {
                identity: identity.clone(),
                data: PostureData::default(),
                changed_at: None,
                is_old: false,
                is_judged,
                is_left_to_routers: false,
                held: OnceLock::new(),
            };
        }
        let device = auth.postures().device(identity);
        let mut changed_at = device.changed_at();
        let has_signed_token = session.is_some_and(|session| session.tokens.is_some());
        let is_left_to_routers = has_signed_token
            && changed_at.is_none()
            && auth.kernel().online().leaves_posture_to_routers(identity);
        let mut data = PostureData::default();
        data.mac_addresses = device.mac.map(|told| told.value).unwrap_or_default();
        data.os = device.os.map(|told| told.value);
        data.domain = device.domain.map(|told| told.value);
        let processes = device.processes.into_iter();
        data.processes = processes.map(|(path, told)| (path, told.value)).collect();
        if let Some(session) = session {
            let state = auth.postures().endpoint(&session.base.id);
            state.woken_at.into_iter().for_each(|at| data.woken(at));
            state.unlocked_at.into_iter().for_each(|at| data.unlocked(at));
            session.mfa_passed_at.into_iter().for_each(|at| data.mfa_passed(at));
            let times = [state.woken_at, state.unlocked_at, session.mfa_passed_at];
            changed_at = changed_at.max(times.into_iter().flatten().max());
        }
        let sdk = session.and_then(|session| session.sdk_info.as_ref());
        let is_old = !sdk.is_some_and(can_ask);
        let (identity, held) = (identity.clone(), OnceLock::new());
        Self { identity, data, changed_at, is_old, is_judged, is_left_to_routers, held }
    }

    /// The same viewer at a router which leaves posture checks to the controller.
    #[must_use]
    pub fn judged_here(self) -> Self {
        Self { is_left_to_routers: false, ..self }
    }

    /// The posture data.
    pub fn data(&self) -> &PostureData {
        &self.data
    }

    /// The service policies that hold the identity and a service. The policies of the identity are
    /// evaluated once, because a client lists thousands of services.
    pub fn policies_with<'s>(
        &self,
        snapshot: &'s Snapshot,
        service: &Id,
    ) -> Vec<(u32, &'s Arc<ServicePolicy>)> {
        let held = self.held.get_or_init(|| Held::of(snapshot, &self.identity));
        match held.is_of(snapshot) {
            true => {
                let side = ServicePolicy::SERVICES;
                let both = &held.policies & snapshot.holding::<ServicePolicy>(side, service);
                both.iter().filter_map(|ordinal| Some((ordinal, snapshot.at(ordinal)?))).collect()
            }
            false => snapshot.service_policies_between(&self.identity, service),
        }
    }

    /// A posture check as it holds for this client: a check of the second factor may have no
    /// timeout for clients that cannot ask for a code again.
    pub(super) fn check<'c>(&self, check: &'c PostureCheck) -> Check<'c> {
        let mut ready = check.check();
        if let Check::Mfa { timeout, .. } = &mut ready
            && self.is_old
            && check.mfa.ignore_legacy_endpoints
        {
            *timeout = None;
        }
        ready
    }

    /// The decision whether the identity may dial or host a service, without posture checks that routers judge.
    pub fn decide(
        &self,
        snapshot: &Snapshot,
        service: &str,
        action: PolicyType,
        now: Timestamp,
    ) -> AccessDecision {
        let facts = Seen { snapshot, viewer: self };
        let posture = if self.is_left_to_routers { Posture::Ignored } else { self.posture() };
        access::decide(&facts, self.identity.as_str(), service, action, posture, now)
    }

    /// The policies that hold the identity and a service, with what comes of their posture checks.
    pub(super) fn judge(
        &self,
        snapshot: &Snapshot,
        service: &str,
        action: PolicyType,
        now: Timestamp,
    ) -> Vec<JudgedPolicy> {
        let facts = Seen { snapshot, viewer: self };
        access::judge(&facts, self.identity.as_str(), service, action, self.posture(), now)
    }

    fn posture(&self) -> Posture<'_> {
        match self.is_judged {
            true => Posture::Known(&self.data),
            false => Posture::Ignored,
        }
    }
}

/// Whether a policy might grant what was denied, if more were known of the device.
fn may_pass(decision: &AccessDecision) -> bool {
    let AccessDecision::Denied(Denial::Posture(policies)) = decision else { return false };
    let mut policies = policies.iter();
    policies.any(|policy| policy.checks.iter().all(|check| check.failure.is_of_device()))
}

/// Whether a client can ask its user for a code again when the last code has timed out.
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

/// A snapshot whose checks are adapted to one client.
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

impl Auth {
    /// The viewer of a session.
    pub fn viewer(&self, session: &ApiSession) -> Viewer {
        Viewer::new(self, &session.identity_id, Some(session))
    }

    /// Whether an API session may go on using the service of a service session. Schedules the time
    /// at which the grant ends by itself.
    fn is_still_granted(
        &self,
        snapshot: &Snapshot,
        login: &ApiSession,
        session: &ServiceSession,
        now: Timestamp,
    ) -> bool {
        let service = session.service_id.as_str();
        // Asked first: what is told meanwhile is judged then.
        let is_unsure = self.postures().is_unsure_of(&login.identity_id);
        let decision = self.viewer(login).decide(snapshot, service, session.session_type, now);
        self.remember_end(&session.base.id, &decision);
        let lacks_proof = snapshot
            .get::<Service>(&session.service_id)
            .is_some_and(|service| lacks_proof(service, login));
        let is_excused = is_unsure && may_pass(&decision);
        if is_excused {
            self.postures().excuse(&login.identity_id);
        }
        (decision.is_granted() || is_excused) && !lacks_proof
    }

    /// Whether another controller, which this one has not heard yet, may know what an identity was denied for.
    pub fn may_be_known_elsewhere(&self, identity: &Id, decision: &AccessDecision) -> bool {
        self.postures().is_unsure_of(identity) && may_pass(decision)
    }

    /// Schedules the time at which the grant of a service session ends by itself.
    pub fn remember_end(&self, session: &Id, decision: &AccessDecision) {
        if let AccessDecision::Granted { until: Some(until), .. } = decision {
            self.postures().ends(session, *until);
        }
    }

    /// Ends the service sessions in `picked` that are no longer granted. The controller has to do
    /// so, because routers do not judge the service sessions of opaque API sessions
    /// (docs/protocol/edge-control-plane.md 12.1).
    pub fn end_ungranted(&self, snapshot: &Snapshot, picked: &[Arc<ServiceSession>]) {
        let now = self.kernel().now();
        let ungranted = picked.iter().filter(|session| {
            let login = self.sessions().by_id(session.api_session_id.as_str());
            login.is_none_or(|login| !self.is_still_granted(snapshot, &login, session, now))
        });
        let ended: Vec<Id> = ungranted.map(|session| session.base.id.clone()).collect();
        self.sessions().remove_services(&ended);
    }

    /// Handles a change of an identity's posture data.
    pub(crate) fn posture_changed(&self, identity: &Id) {
        let snapshot = self.kernel().snapshot();
        if snapshot.table(Kind::PostureCheck).is_empty() {
            return;
        }
        if let Some(ordinal) = snapshot.ordinal_of::<Identity>(identity) {
            self.service_changes().one(ordinal, self.kernel().now());
        }
        self.end_ungranted(&snapshot, &self.sessions().services_of_identity(identity));
    }

    /// Ends grants that have timed out, and forgets posture data of identities whose last session has ended.
    pub fn sweep_postures(&self) {
        let now = self.kernel().now();
        let ended = self.postures().take_ended(now);
        if !ended.is_empty() {
            let snapshot = self.kernel().snapshot();
            let sessions = ended.iter().filter_map(|id| self.sessions().service(id.as_str()));
            let sessions: Vec<Arc<ServiceSession>> = sessions.collect();
            for session in &sessions {
                if let Some(ordinal) = snapshot.ordinal_of::<Identity>(&session.identity_id) {
                    self.service_changes().one(ordinal, now);
                }
            }
            self.end_ungranted(&snapshot, &sessions);
        }
        let sessions = self.sessions();
        self.postures().retain_after(
            sessions.take_ended(),
            (!self.is_cut_off()).then_some(now),
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
