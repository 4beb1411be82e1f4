//! Posture data that clients report, and its effect on access (docs/protocol/auth.md 18;
//! docs/protocol/management-api.md 7.6).
//!
//! Clients with opaque sessions report to the controller; others report to routers, which judge it
//! themselves. Posture data and refusals are kept in memory while a session uses the device, and
//! lost when the process ends. Operating system, domain, hardware addresses and processes belong to
//! the identity; waking, unlocking and the code of the second factor belong to the API session.
//!
//! - [`Postures`]: the posture data; [`exchange`], `journal`: what controllers tell each other of it;
//! - [`viewer`]: the part of it that counts for one decision;
//! - `responses`: reports of clients; `queries`: the checks that clients are asked; `refusals`:
//!   refused services with reasons; `judgements`: the checks as they are judged now, for people; `refused`, `kept`:
//!   bounds on memory; [`EndTimes`]: the times at
//!   which grants end.

pub mod exchange;
mod journal;
mod judgements;
mod kept;
pub mod queries;
pub mod refusals;
mod refused;
pub mod responses;
pub mod viewer;
pub mod wanted;

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use parking_lot::RwLock;
use tokio::sync::watch;
use weft_contract::resource::posture_data::FailedServiceRequest;
use weft_model::entity::ApiSession;
use weft_model::posture::{OsReport, ProcessReport};
use weft_model::{Id, Timestamp};

use super::ending::EndTimes;
use super::sessions::EndedSessions;
use crate::posture::journal::{Journal, PostureOwner};

/// Most processes of one identity.
const PROCESSES: usize = 256;
/// Most bytes of the processes of one identity.
const PROCESS_BYTES: usize = 256 * 1024;

/// A reported value, with its check and times.
#[derive(Debug, Clone)]
pub struct ReportedValue<T> {
    /// The posture check of the report.
    pub check: String,
    /// The time of the last report.
    pub at: Timestamp,
    /// The time since which the value is unchanged.
    since: Timestamp,
    /// The value.
    pub value: T,
}

/// A report of a client.
#[derive(Debug, Clone)]
pub enum PostureReport {
    /// The operating system of the device.
    Os(OsReport),
    /// The hardware addresses of the device.
    Mac(Vec<String>),
    /// The domain of the device.
    Domain(String),
    /// A process, by its path.
    Process(String, ProcessReport),
    /// Whether the device woke, or was unlocked.
    EndpointState {
        /// Whether the device woke.
        woken: bool,
        /// Whether the device was unlocked.
        unlocked: bool,
    },
}

/// The posture data of an identity.
#[derive(Debug, Clone, Default)]
pub struct DevicePosture {
    /// The operating system of the device.
    pub os: Option<ReportedValue<OsReport>>,
    /// The hardware addresses of the device.
    pub mac: Option<ReportedValue<Vec<String>>>,
    /// The domain of the device.
    pub domain: Option<ReportedValue<String>>,
    /// The processes of the device, by path.
    pub processes: BTreeMap<String, ReportedValue<ProcessReport>>,
}

/// When the device of an API session last woke and was unlocked.
#[derive(Debug, Clone, Copy, Default)]
pub struct EndpointState {
    /// When the device woke.
    pub woken_at: Option<Timestamp>,
    /// When the device was unlocked.
    pub unlocked_at: Option<Timestamp>,
}

/// The posture data of all clients. Clones share it.
#[derive(Clone, Default)]
pub struct Postures(Arc<RwLock<Tables>>, watch::Sender<u64>);

#[derive(Default)]
struct Tables {
    devices: kept::Devices,
    endpoints: HashMap<Id, EndpointState>,
    refusals: refused::Refusals,
    ending: EndTimes,
    /// The owners of data that was kept since the last look at them: their end may have been told before.
    fresh: Owners,
    /// The changes, for other controllers; none while nobody follows them.
    journal: Option<Journal>,
    /// Owners that another controller has told of, and when.
    arrived: HashMap<PostureOwner, Timestamp>,
    /// Set while another controller may know more than this one: the identities whose sessions have stayed because of that.
    excused: Option<HashSet<Id>>,
    /// The session that has reported last of each device.
    reporters: HashMap<Id, Id>,
}

/// Owners of posture data: identities, API sessions, service sessions.
#[derive(Debug, Default)]
struct Owners {
    identities: HashSet<Id>,
    sessions: HashSet<Id>,
    services: HashSet<Id>,
}

fn size_of_process(path: &str, report: &ProcessReport) -> usize {
    let signers = report.signer_fingerprints.iter().map(String::len);
    path.len() + report.hash.len() + signers.sum::<usize>()
}

impl<T: PartialEq> ReportedValue<T> {
    /// The value after a report, and whether it is new.
    fn after(before: Option<&Self>, check: String, at: Timestamp, value: T) -> (Self, bool) {
        let same = before.filter(|before| before.value == value);
        // The clock of another controller may have given the former value a later time.
        let next = before.map_or(at, |before| at.max(Timestamp(before.since.0.saturating_add(1))));
        let since = same.map_or(next, |same| same.since);
        let is_new = same.is_none();
        (Self { check, at, since, value }, is_new)
    }
}

impl DevicePosture {
    /// Keeps a report. True if it changed anything.
    fn put(&mut self, check: String, report: PostureReport, at: Timestamp) -> bool {
        fn say<T: PartialEq>(
            slot: &mut Option<ReportedValue<T>>,
            check: String,
            at: Timestamp,
            value: T,
        ) -> bool {
            let (told, is_new) = ReportedValue::after(slot.as_ref(), check, at, value);
            *slot = Some(told);
            is_new
        }
        match report {
            PostureReport::Os(value) => say(&mut self.os, check, at, value),
            PostureReport::Mac(value) => say(&mut self.mac, check, at, value),
            PostureReport::Domain(value) => say(&mut self.domain, check, at, value),
            PostureReport::Process(path, value) => {
                let known = self.processes.get(&path);
                let others = self.processes.iter().filter(|(other, _)| **other != path);
                let others = others.map(|(path, told)| size_of_process(path, &told.value));
                let bytes = others.sum::<usize>() + size_of_process(&path, &value);
                if bytes > PROCESS_BYTES || known.is_none() && self.processes.len() >= PROCESSES {
                    return false;
                }
                let (told, is_new) = ReportedValue::after(known, check, at, value);
                self.processes.insert(path, told);
                is_new
            }
            PostureReport::EndpointState { .. } => false,
        }
    }

    /// Whether a report that another controller has had first at a time counts. The same value has the later of both times
    /// from now on, so that all controllers have the same one.
    fn wants(&mut self, report: &PostureReport, since: Timestamp) -> bool {
        fn wants<T: PartialEq + std::fmt::Debug>(
            known: Option<&mut ReportedValue<T>>,
            value: &T,
            since: Timestamp,
        ) -> bool {
            match known {
                None => true,
                Some(known) if known.value == *value => {
                    known.since = known.since.max(since);
                    false
                }
                // Of two values of one time, the same one counts everywhere.
                Some(known) if known.since == since => {
                    format!("{:?}", known.value) < format!("{value:?}")
                }
                Some(known) => known.since < since,
            }
        }
        match report {
            PostureReport::Os(value) => wants(self.os.as_mut(), value, since),
            PostureReport::Mac(value) => wants(self.mac.as_mut(), value, since),
            PostureReport::Domain(value) => wants(self.domain.as_mut(), value, since),
            PostureReport::Process(path, value) => {
                wants(self.processes.get_mut(path), value, since)
            }
            PostureReport::EndpointState { .. } => false,
        }
    }

    /// The time of the last change.
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
    /// Keeps reports of a client. True if any of them changed anything.
    pub(super) fn record(
        &self,
        session: &ApiSession,
        reports: Vec<(String, PostureReport)>,
        now: Timestamp,
    ) -> bool {
        let mut tables = self.0.write();
        tables.fresh.identities.insert(session.identity_id.clone());
        tables.fresh.sessions.insert(session.base.id.clone());
        let (mut told, mut changed) = (Vec::new(), Vec::new());
        let (identity, reporter) = (&session.identity_id, &session.base.id);
        // Another controller may have forgotten the device after a former session.
        if tables.journal.is_some() && tables.reporters.get(identity) != Some(reporter) {
            tables.reporters.insert(identity.clone(), reporter.clone());
            told.push(PostureOwner::Identity(identity.clone()));
        }
        for (check, report) in reports {
            if let PostureReport::EndpointState { woken, unlocked } = report {
                let state = tables.endpoints.entry(session.base.id.clone()).or_default();
                state.woken_at = state.woken_at.max(woken.then_some(now));
                state.unlocked_at = state.unlocked_at.max(unlocked.then_some(now));
                if woken || unlocked {
                    changed.push(PostureOwner::Session(session.base.id.clone()));
                }
            } else if tables.devices.put(&session.identity_id, check, report, now) {
                changed.push(PostureOwner::Identity(session.identity_id.clone()));
            }
        }
        let is_new = !changed.is_empty();
        told.extend(changed);
        told.dedup();
        self.note(&mut tables, told);
        is_new
    }

    /// The posture data of an identity.
    pub fn device(&self, identity: &Id) -> DevicePosture {
        self.0.read().devices.of(identity).cloned().unwrap_or_default()
    }

    /// When the device of an API session last woke and was unlocked.
    pub fn endpoint(&self, session: &Id) -> EndpointState {
        self.0.read().endpoints.get(session).copied().unwrap_or_default()
    }

    /// The refusals of an identity, the latest first.
    pub fn refusals(&self, identity: &Id) -> Vec<Arc<FailedServiceRequest>> {
        self.0.read().refusals.of(identity)
    }

    pub(super) fn refused(&self, identity: &Id, refusal: FailedServiceRequest) {
        let refused = refused::SizedRefusal::new(refusal);
        let mut tables = self.0.write();
        tables.fresh.identities.insert(identity.clone());
        tables.refusals.put(identity, refused);
    }

    /// Notes the time at which the grant of a service session ends unless the client reports
    /// before.
    pub(super) fn ends(&self, session: &Id, at: Timestamp) {
        let mut tables = self.0.write();
        tables.fresh.services.insert(session.clone());
        tables.ending.put(session, at);
    }

    /// Takes out the service sessions whose grants have ended.
    pub(super) fn take_ended(&self, now: Timestamp) -> Vec<Id> {
        self.0.write().ending.take(now)
    }

    /// Forgets posture data and refusals of identities without a session, and data of sessions that
    /// have ended. All of them are asked for.
    pub(super) fn retain(
        &self,
        is_identity: impl Fn(&Id) -> bool,
        is_session: impl Fn(&Id) -> bool,
        is_service: impl Fn(&Id) -> bool,
    ) {
        let all = {
            let tables = self.0.read();
            let known = tables.devices.identities().chain(tables.refusals.identities());
            let known = known.filter(|id| !tables.waits(id, PostureOwner::Identity));
            let sessions = tables.endpoints.keys();
            let sessions = sessions.filter(|id| !tables.waits(id, PostureOwner::Session)).cloned();
            Owners {
                identities: known.cloned().collect(),
                sessions: sessions.collect(),
                services: tables.ending.sessions().cloned().collect(),
            }
        };
        self.retain_among(all, is_identity, is_session, is_service);
    }

    /// Forgets the data of sessions that have ended, and of identities whose last session has. Only those are asked for
    /// whose end is told here, those whose data is new since the last call, and those of whom another controller has told
    /// some time before `now`; none of the latter while this controller does not hear of sessions.
    pub(super) fn retain_after(
        &self,
        gone: EndedSessions,
        now: Option<Timestamp>,
        is_identity: impl Fn(&Id) -> bool,
        is_session: impl Fn(&Id) -> bool,
        is_service: impl Fn(&Id) -> bool,
    ) {
        let mut owners = {
            let mut tables = self.0.write();
            let settled = now.map(|now| tables.take_settled(now)).unwrap_or_default();
            let mut owners = std::mem::take(&mut tables.fresh);
            owners.identities.extend(settled.identities);
            owners.sessions.extend(settled.sessions);
            owners
        };
        if gone.is_cut {
            return self.retain(is_identity, is_session, is_service);
        }
        owners.services.extend(gone.services);
        for (session, identity) in gone.logins {
            owners.sessions.insert(session);
            owners.identities.insert(identity);
        }
        {
            let tables = self.0.read();
            let has = |identity: &Id| {
                tables.devices.of(identity).is_some() || tables.refusals.has(identity)
            };
            owners.identities.retain(|id| has(id) && !tables.waits(id, PostureOwner::Identity));
            owners.sessions.retain(|id| {
                tables.endpoints.contains_key(id) && !tables.waits(id, PostureOwner::Session)
            });
            owners.services.retain(|session| tables.ending.contains(session));
        }
        self.retain_among(owners, is_identity, is_session, is_service);
    }

    /// Forgets the data of these owners, unless they are there. Whether they are is asked without the lock, so that
    /// reports and dials wait only for the lists and the removal.
    fn retain_among(
        &self,
        among: Owners,
        is_identity: impl Fn(&Id) -> bool,
        is_session: impl Fn(&Id) -> bool,
        is_service: impl Fn(&Id) -> bool,
    ) {
        let Owners { mut identities, mut sessions, mut services } = among;
        identities.retain(|identity| !is_identity(identity));
        sessions.retain(|session| !is_session(session));
        services.retain(|session| !is_service(session));
        if identities.is_empty() && sessions.is_empty() && services.is_empty() {
            return;
        }
        let mut tables = self.0.write();
        // An identity may have logged in and reported again since the search.
        for identity in identities.iter().filter(|identity| !is_identity(identity)) {
            tables.forget(identity);
        }
        for session in &sessions {
            tables.endpoints.remove(session);
            tables.forgotten(&PostureOwner::Session(session.clone()));
        }
        services.iter().for_each(|session| tables.ending.remove(session));
    }

    /// Forgets the posture data of an identity.
    pub fn forget(&self, identity: &Id) {
        self.0.write().forget(identity);
    }
}

impl Tables {
    /// Forgets the posture data of an identity.
    fn forget(&mut self, identity: &Id) {
        self.devices.forget(identity);
        self.refusals.forget(identity);
        self.reporters.remove(identity);
        self.forgotten(&PostureOwner::Identity(identity.clone()));
    }

    fn forgotten(&mut self, owner: &PostureOwner) {
        self.arrived.remove(owner);
        if let Some(journal) = &mut self.journal {
            journal.forget(owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_model::Base;

    use super::*;

    #[test]
    fn what_has_ended_is_forgotten_and_looked_for_without_the_lock() {
        let postures = Postures::default();
        let now = Timestamp(1_000);
        for name in ["stays", "ends"] {
            let id = Id::new(name);
            let base = Base::new(id.clone(), now);
            let session = ApiSession { base, identity_id: id.clone(), ..ApiSession::default() };
            let endpoint = PostureReport::EndpointState { woken: true, unlocked: false };
            let reports = [PostureReport::Domain("here".into()), endpoint];
            let reports = reports.map(|report| (String::new(), report)).into();
            assert!(postures.record(&session, reports, now));
            postures.refused(&id, FailedServiceRequest::default());
            postures.ends(&id, now.plus(std::time::Duration::from_secs(1)));
        }
        let known = || {
            let tables = postures.0.read();
            let identities = tables.devices.identities().chain(tables.refusals.identities());
            let mut all: Vec<Id> = identities.cloned().collect();
            all.extend(tables.endpoints.keys().cloned());
            all.extend(tables.ending.sessions().cloned());
            all.sort_unstable();
            all.iter().map(Id::to_string).collect::<Vec<_>>()
        };
        assert_eq!(known(), ["ends", "ends", "ends", "ends", "stays", "stays", "stays", "stays"]);
        let has_begun = std::cell::Cell::new(0);
        let stays = |id: &Id| {
            has_begun.set(has_begun.get() + 1);
            // The identities are asked for once more, before they are removed.
            assert!(has_begun.get() > 6 || postures.0.try_write().is_some());
            *id == "stays"
        };
        postures.retain(stays, stays, stays);
        assert_eq!(known(), ["stays"; 4]);
    }

    #[test]
    fn owners_that_stay_are_not_asked_for_again() {
        let postures = Postures::default();
        let now = Timestamp(1_000);
        let id = |number: usize| Id::new(&format!("i{number:03}"));
        let keep = |number: usize| {
            let id = id(number);
            let base = Base::new(id.clone(), now);
            let session = ApiSession { base, identity_id: id.clone(), ..ApiSession::default() };
            let endpoint = PostureReport::EndpointState { woken: true, unlocked: false };
            let reports = [PostureReport::Domain("here".into()), endpoint];
            let reports = reports.map(|report| (String::new(), report)).into();
            postures.record(&session, reports, now);
            postures.refused(&id, FailedServiceRequest::default());
            postures.ends(&id, now);
        };
        (0..100).for_each(keep);
        let asked = std::cell::Cell::new(0);
        let sweep = |gone: EndedSessions, ended: &[Id]| {
            asked.set(0);
            let stays = |id: &Id| {
                asked.set(asked.get() + 1);
                !ended.contains(id)
            };
            postures.retain_after(gone, Some(now), stays, stays, stays);
            asked.get()
        };
        assert_eq!(sweep(EndedSessions::default(), &[]), 300, "their data is new");
        assert_eq!(sweep(EndedSessions::default(), &[]), 0);
        let logins = vec![(id(7), id(7)), (id(8), id(8)), (id(500), id(500))];
        let gone = EndedSessions { logins, services: vec![id(7)], ..EndedSessions::default() };
        // One of them has another session. The others are asked for once more before they are removed.
        assert_eq!(sweep(gone, &[id(7)]), 2 + 2 + 1 + 1);
        assert!(postures.device(&id(7)).domain.is_none() && postures.refusals(&id(7)).is_empty());
        assert!(postures.endpoint(&id(7)).woken_at.is_none());
        assert!(postures.device(&id(8)).domain.is_some());
        // Data that comes after the end of its owner was told is forgotten, too.
        keep(7);
        assert_eq!(sweep(EndedSessions::default(), &[id(7)]), 3 + 1);
        assert!(postures.device(&id(7)).domain.is_none());
        assert_eq!(postures.take_ended(now.plus(std::time::Duration::from_secs(1))).len(), 99);
        // If too many have ended, all are asked for.
        let all = sweep(EndedSessions { is_cut: true, ..EndedSessions::default() }, &[]);
        assert_eq!(all, 99 + 99);
    }
}
