//! Posture data that controllers of one network tell each other: a client reports to one of them, and dials at any.
//!
//! ```text
//! a client reports -> tables -> journal -> every other controller -> its tables, and what follows from a change
//! ```
//!
//! Of two values of one thing the one counts that was reported first at a later time. A controller that replaces a value
//! gives its own a later time than that one had, so that clocks which differ do not bring a former value back. A controller
//! hands on what it has heard from others, too; what a controller knows already is no change there, and goes no further.
//!
//! A report may come before its session, which comes through etcd: it is kept for a while without one.

use std::time::Duration;

use hashbrown::HashSet;
use tokio::sync::watch;
use weft_model::{Id, Timestamp};

use super::journal::{Journal, PostureOwner};
use super::{DevicePosture, EndpointState, Owners, PostureReport, Postures, Tables};
use crate::handle::Auth;

/// How long posture data of another controller is kept without a session of its identity.
const UNKNOWN: Duration = Duration::from_secs(30);

/// Posture data on its way to another controller.
#[derive(Debug, Clone)]
pub enum SharedPosture {
    /// What is known of the device of an identity.
    Device {
        /// The identity.
        identity: Id,
        /// The reports, each with its posture check and the time since which it is unchanged.
        reports: Vec<(String, Timestamp, PostureReport)>,
    },
    /// When the device of an API session woke, and was unlocked.
    Endpoint {
        /// The API session.
        session: Id,
        /// The times.
        state: EndpointState,
    },
}

impl DevicePosture {
    /// All reports.
    fn reports(&self) -> Vec<(String, Timestamp, PostureReport)> {
        let os = self.os.iter();
        let os = os.map(|it| (it.check.clone(), it.since, PostureReport::Os(it.value.clone())));
        let mac = self.mac.iter();
        let mac = mac.map(|it| (it.check.clone(), it.since, PostureReport::Mac(it.value.clone())));
        let domain = self.domain.iter();
        let domain =
            domain.map(|it| (it.check.clone(), it.since, PostureReport::Domain(it.value.clone())));
        let processes = self.processes.iter().map(|(path, it)| {
            let report = PostureReport::Process(path.clone(), it.value.clone());
            (it.check.clone(), it.since, report)
        });
        os.chain(mac).chain(domain).chain(processes).collect()
    }
}

impl Tables {
    /// The data of an owner; none if it is forgotten.
    fn shared(&self, owner: &PostureOwner) -> Option<SharedPosture> {
        Some(match owner {
            PostureOwner::Identity(identity) => SharedPosture::Device {
                identity: identity.clone(),
                reports: self.devices.of(identity)?.reports(),
            },
            PostureOwner::Session(session) => SharedPosture::Endpoint {
                session: session.clone(),
                state: *self.endpoints.get(session)?,
            },
        })
    }

    /// Whether the data of an owner came from elsewhere a moment ago, and waits for its session.
    pub(super) fn waits(&self, id: &Id, owner: fn(Id) -> PostureOwner) -> bool {
        !self.arrived.is_empty() && self.arrived.contains_key(&owner(id.clone()))
    }

    /// Owners that came from elsewhere so long ago that they must have a session by now.
    pub(super) fn take_settled(&mut self, now: Timestamp) -> Owners {
        let mut settled = Owners::default();
        self.arrived.retain(|owner, at| {
            let is_settled = at.plus(UNKNOWN) <= now;
            if is_settled {
                match owner.clone() {
                    PostureOwner::Identity(id) => settled.identities.insert(id),
                    PostureOwner::Session(id) => settled.sessions.insert(id),
                };
            }
            !is_settled
        });
        settled
    }
}

impl Postures {
    /// The number of the last change, whenever there is one. Changes are counted from the first call on; what is known
    /// then counts as changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        let mut tables = self.0.write();
        if tables.journal.is_none() {
            let devices = tables.devices.identities().cloned().map(PostureOwner::Identity);
            let sessions = tables.endpoints.keys().cloned().map(PostureOwner::Session);
            let mut journal = Journal::default();
            for owner in devices.chain(sessions) {
                journal.note(owner);
            }
            tables.journal = Some(journal);
        }
        self.1.subscribe()
    }

    /// Posture data that has changed after the change of this number, of `most` owners at most, and the number to go on with.
    pub fn changed_after(&self, number: u64, most: usize) -> (Vec<SharedPosture>, u64) {
        let tables = self.0.read();
        let Some(journal) = &tables.journal else { return (Vec::new(), number) };
        let mut found = Vec::new();
        for (at, owner) in journal.after(number) {
            if found.len() == most {
                return (found, at - 1);
            }
            found.extend(tables.shared(owner));
        }
        (found, journal.last())
    }

    /// Notes changes, of which other controllers are told.
    pub(super) fn note(&self, tables: &mut Tables, owners: impl IntoIterator<Item = PostureOwner>) {
        let Some(journal) = &mut tables.journal else { return };
        for owner in owners {
            let last = journal.note(owner);
            self.1.send_replace(last);
        }
    }

    /// Takes over what another controller knows. The owners whose data has changed by it.
    fn take_over(&self, told: Vec<SharedPosture>, now: Timestamp) -> Vec<PostureOwner> {
        let mut tables = self.0.write();
        let mut changed = Vec::new();
        for shared in told {
            let (owner, is_new) = match shared {
                SharedPosture::Device { identity, reports } => {
                    let mut is_new = false;
                    for (check, since, report) in reports {
                        is_new |= tables.devices.take_over(&identity, check, report, since);
                    }
                    (PostureOwner::Identity(identity), is_new)
                }
                SharedPosture::Endpoint { session, state: told } => {
                    let state = tables.endpoints.entry(session.clone()).or_default();
                    let before = (state.woken_at, state.unlocked_at);
                    // No device has woken in the future, whatever the clock of another controller shows.
                    state.woken_at = state.woken_at.max(told.woken_at.map(|at| at.min(now)));
                    state.unlocked_at =
                        state.unlocked_at.max(told.unlocked_at.map(|at| at.min(now)));
                    let is_new = before != (state.woken_at, state.unlocked_at);
                    (PostureOwner::Session(session), is_new)
                }
            };
            // Its session may be on its way, also if a former one has just ended.
            tables.arrived.insert(owner.clone(), now);
            if is_new {
                changed.push(owner);
            }
        }
        self.note(&mut tables, changed.iter().cloned());
        changed
    }

    /// Whether nobody may be refused because nothing is known of the device of an identity: another controller may know it.
    pub(super) fn is_unsure_of(&self, identity: &Id) -> bool {
        let tables = self.0.read();
        tables.excused.is_some() && tables.devices.of(identity).is_none()
    }

    /// Notes an identity whose sessions have stayed, although its checks fail.
    pub(super) fn excuse(&self, identity: &Id) {
        if let Some(excused) = &mut self.0.write().excused {
            excused.insert(identity.clone());
        }
    }
}

impl Auth {
    /// Takes over posture data that another controller knows, with what follows from it.
    pub fn take_over_posture(&self, told: Vec<SharedPosture>) {
        for changed in self.postures().take_over(told, self.kernel().now()) {
            match changed {
                PostureOwner::Identity(identity) => self.posture_changed(&identity),
                PostureOwner::Session(session) => {
                    if let Some(session) = self.sessions().by_id(session.as_str()) {
                        self.posture_changed(&session.identity_id);
                    }
                }
            }
        }
    }

    /// Notes whether this controller has heard the posture data of all others that are alive. Until then, no service session
    /// ends because nothing is known of a device. The identities whose sessions have stayed for that reason are to be
    /// judged ([`Self::judge_excused`]).
    #[must_use]
    pub fn heard_all_postures(&self, has_heard: bool) -> Vec<Id> {
        let is_whole = self.postures().0.read().excused.is_none();
        if has_heard == is_whole {
            return Vec::new();
        }
        let next = (!has_heard).then(HashSet::new);
        let excused = std::mem::replace(&mut self.postures().0.write().excused, next);
        excused.into_iter().flatten().collect()
    }

    /// Judges the service sessions of identities, which may take a while.
    pub fn judge_excused(&self, identities: &[Id]) {
        let snapshot = self.kernel().snapshot();
        for identity in identities {
            self.end_ungranted(&snapshot, &self.sessions().services_of_identity(identity));
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_model::Base;
    use weft_model::entity::ApiSession;

    use super::*;

    const EVERYTHING: usize = 1000;

    #[test]
    fn what_was_known_before_anybody_asked_is_told() {
        let one = Postures::default();
        reports(&one, "a", "here", 1_000);
        let _ = one.changes();
        assert_eq!(one.changed_after(0, EVERYTHING).0.len(), 1);
    }

    fn shared() -> Postures {
        let postures = Postures::default();
        let _ = postures.changes();
        postures
    }

    /// A client of an identity reports its domain.
    fn reports(postures: &Postures, identity: &str, domain: &str, now: i64) -> bool {
        let id = Id::new(identity);
        let base = Base::new(id.clone(), Timestamp(now));
        let session = ApiSession { base, identity_id: id, ..ApiSession::default() };
        let report = PostureReport::Domain(domain.to_owned());
        postures.record(&session, vec![(String::new(), report)], Timestamp(now))
    }

    /// Tells another controller everything after a number.
    fn tell(from: &Postures, to: &Postures, after: u64, now: i64) -> (usize, u64) {
        let (told, next) = from.changed_after(after, EVERYTHING);
        (to.take_over(told, Timestamp(now)).len(), next)
    }

    fn domain(postures: &Postures, identity: &str) -> Option<String> {
        postures.device(&Id::new(identity)).domain.map(|it| it.value)
    }

    #[test]
    fn the_last_report_counts_at_every_controller_whatever_their_clocks_show() {
        let (one, two) = (shared(), shared());
        // The clock of the first one is 9 s ahead.
        assert!(reports(&one, "a", "here", 19_000));
        assert_eq!(tell(&one, &two, 0, 10_000), (1, 1));
        assert_eq!(domain(&two, "a").as_deref(), Some("here"));
        // What is told back is no change, and goes no further.
        assert_eq!(tell(&two, &one, 0, 19_000), (0, 1));
        assert_eq!(one.changed_after(1, EVERYTHING).0.len(), 0);
        // The client moves to the second one.
        assert!(reports(&two, "a", "there", 10_500));
        assert_eq!(tell(&two, &one, 1, 19_500).0, 1);
        assert_eq!(domain(&one, "a").as_deref(), Some("there"));
        // The same value has the later time everywhere, and the last one counts: it comes from a controller whose clock is slow.
        let third = shared();
        reports(&third, "a", "there", 30_000);
        assert_eq!(tell(&third, &one, 0, 30_000).0, 0);
        assert!(reports(&one, "a", "moved", 20_000));
        assert_eq!(tell(&one, &third, 0, 30_000).0, 1);
        assert_eq!(tell(&one, &two, 0, 11_000).0, 1);
        assert!(reports(&two, "a", "there", 12_000));
        // The same again changes nothing; an older state that is told late does not, either.
        assert!(!reports(&two, "a", "there", 11_000));
        let late = shared();
        reports(&late, "a", "here", 9_000);
        assert_eq!(tell(&late, &two, 0, 11_000).0, 0);
        assert_eq!(domain(&two, "a").as_deref(), Some("there"));
    }

    #[test]
    fn what_is_told_is_cut_into_parts_and_all_of_it_comes() {
        let (one, two) = (shared(), shared());
        for number in 0..25 {
            reports(&one, &format!("i{number}"), "here", 1_000);
        }
        let (mut number, mut parts) = (0, 0);
        loop {
            let (told, next) = one.changed_after(number, 10);
            if told.is_empty() {
                break;
            }
            assert!(told.len() <= 10);
            two.take_over(told, Timestamp(1_000));
            (number, parts) = (next, parts + 1);
        }
        assert_eq!((number, parts), (25, 3));
        assert!((0..25).all(|number| domain(&two, &format!("i{number}")).is_some()));
    }

    #[test]
    fn of_two_values_of_one_time_all_controllers_keep_the_same() {
        let (one, two) = (shared(), shared());
        reports(&one, "a", "x", 1_000);
        reports(&two, "a", "y", 1_000);
        for _ in 0..2 {
            tell(&one, &two, 0, 1_000);
            tell(&two, &one, 0, 1_000);
        }
        assert_eq!((domain(&one, "a"), domain(&two, "a")), (Some("y".into()), Some("y".into())));
    }

    #[test]
    fn a_new_session_that_reports_the_same_is_told_to_those_who_have_forgotten_the_device() {
        let (one, two) = (shared(), shared());
        reports(&one, "a", "here", 1_000);
        let (_, number) = tell(&one, &two, 0, 1_000);
        two.forget(&Id::new("a"));
        let base = Base::new(Id::new("later"), Timestamp(2_000));
        let session = ApiSession { base, identity_id: Id::new("a"), ..ApiSession::default() };
        let report = (String::new(), PostureReport::Domain("here".to_owned()));
        assert!(!one.record(&session, vec![report.clone()], Timestamp(2_000)), "nothing is new");
        assert_eq!(tell(&one, &two, number, 2_000).0, 1);
        let (_, number) = one.changed_after(0, EVERYTHING);
        one.record(&session, vec![report], Timestamp(3_000));
        assert!(one.changed_after(number, EVERYTHING).0.is_empty(), "once in a session");
    }

    #[test]
    fn data_from_elsewhere_waits_for_its_session_and_is_forgotten_without_one() {
        let (one, two) = (shared(), shared());
        reports(&one, "a", "here", 1_000);
        tell(&one, &two, 0, 1_000);
        let sweep = |now: i64, is_there: bool| {
            let is = |_: &Id| is_there;
            let gone = crate::sessions::EndedSessions::default();
            two.retain_after(gone, Some(Timestamp(now)), is, is, is);
            domain(&two, "a").is_some()
        };
        assert!(sweep(2_000, false) && sweep(30_999, false), "its session may be on its way");
        assert!(!sweep(31_000, false));
        tell(&one, &two, 0, 40_000);
        assert!(
            sweep(80_000, true) && sweep(90_000, false),
            "it is asked for once, and told of its end later"
        );
        let (told, _) = two.changed_after(0, EVERYTHING);
        assert_eq!(told.len(), 1);
        two.forget(&Id::new("a"));
        assert!(two.changed_after(0, EVERYTHING).0.is_empty());
    }
}
