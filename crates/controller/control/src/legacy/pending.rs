//! The notices that wait for one router: of each session the latest state only.
//!
//! A client that logs in and out in a loop, or that changes the certificates of a session in a loop,
//! therefore takes one place for each of its sessions, however slowly the router reads. A session
//! that began and ended while it waited is never told. The order of notices about one session stays;
//! sessions are told in the order of their first change that waits.
//!
//! Sessions that end together wait as one list, which routers share, and are told before other changes.
//! Among the sessions of a list is none of which another notice waited.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use weft_model::Id;
use weft_model::entity::ServiceSession;

use super::announced::{AnnouncedSession, EndedTogether, Say};

/// Most sessions, and most ended service sessions, of which a router has yet to be told. A router
/// for which more wait is told everything again.
const MOST: usize = 100_000;
/// Most notices that wait for all routers together, some 2 GB. Above that, a router for which more
/// than [`FEW`] wait is told everything again.
const TOGETHER: usize = 20_000_000;
const FEW: usize = 4_096;
/// The shortest pause after a few notices, so that those of a rush leave together. The first notice
/// after a quiet time does not wait.
const PAUSE: Duration = Duration::from_millis(5);
/// The part of each router in the pause: with 2,000 routers it is 100 ms. A login concerns most
/// routers, and a message costs the same whether it names one session or thirty.
const PAUSE_OF_EACH: Duration = Duration::from_micros(50);
/// The longest pause. A client waits at a router for its session to be announced, 5 s at most.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The notices that wait for one router.
pub(super) struct Pending {
    waiting: Mutex<Waiting>,
    changed: Notify,
    together: Together,
}

/// The number of notices that wait for all routers. Clones share the number.
#[derive(Debug, Clone, Default)]
pub(super) struct Together(Arc<AtomicUsize>);

impl Together {
    /// Notes that so many notices wait for a router instead of `before`; returns those that wait for
    /// all routers.
    fn note(&self, before: usize, after: usize) -> usize {
        match after.checked_sub(before) {
            Some(more) => self.0.fetch_add(more, Ordering::Relaxed) + more,
            None => {
                let fewer = before - after;
                self.0.fetch_sub(fewer, Ordering::Relaxed) - fewer
            }
        }
    }
}

struct Waiting {
    /// While all sessions are reported: the report tells those with lower numbers.
    reported_below: Option<u64>,
    is_closed: bool,
    /// By the order of the first change.
    due: BTreeMap<u64, Due>,
    /// The places of sessions in `due`.
    places: HashMap<Id, u64>,
    next_place: u64,
    services: Vec<Arc<ServiceSession>>,
    ended: Vec<Arc<EndedTogether>>,
}

/// A session of which the router has yet to be told.
struct Due {
    session: Arc<AnnouncedSession>,
    what: What,
    /// Whether the router may know the session already.
    is_known: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Added,
    Updated,
    Removed,
    /// Removed and then added again: the end has effects at the router, so that both are told.
    Replaced,
}

/// Notices that are sent together: first the ended service sessions, then the sessions that ended
/// together, the removed sessions, the added and the updated ones. A session may be among the ended or
/// removed and the added ones.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) services: Vec<Arc<ServiceSession>>,
    pub(super) ended: Vec<Arc<EndedTogether>>,
    pub(super) removed: Vec<Arc<AnnouncedSession>>,
    pub(super) added: Vec<Arc<AnnouncedSession>>,
    pub(super) updated: Vec<Arc<AnnouncedSession>>,
}

impl Pending {
    /// An empty queue of notices for a router to which all sessions with numbers below
    /// `reported_below` are reported.
    pub(super) fn new(reported_below: u64, together: Together) -> Self {
        let waiting = Waiting {
            reported_below: Some(reported_below),
            is_closed: false,
            due: BTreeMap::new(),
            places: HashMap::new(),
            next_place: 0,
            services: Vec::new(),
            ended: Vec::new(),
        };
        Self { waiting: Mutex::new(waiting), changed: Notify::new(), together }
    }

    /// Adds a notice; false if too many wait, so that the router has to be told everything again.
    pub(super) fn tell(&self, say: &Say) -> bool {
        let mut waiting = self.waiting.lock();
        let before = waiting.len();
        match say {
            Say::Added(sessions) => sessions.iter().for_each(|it| waiting.add(it)),
            Say::Updated(session) => waiting.update(session),
            Say::Removed(sessions) => sessions.iter().for_each(|it| waiting.remove(it)),
            Say::Ended(ended) => waiting.end(ended),
            Say::ServiceRemoved(ended) => waiting.services.extend(ended.iter().cloned()),
        }
        let own = waiting.len();
        let all = self.together.note(before, own);
        let fits = waiting.due.len() + sessions_in(&waiting.ended) <= MOST
            && waiting.services.len() <= MOST
            && (all <= TOGETHER || own <= FEW);
        drop(waiting);
        self.changed.notify_one();
        fits
    }

    /// Notes that the report of all sessions is complete.
    pub(super) fn reported(&self) {
        self.waiting.lock().reported_below = None;
    }

    /// Ends the notices: the router is told everything again.
    pub(super) fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.is_closed = true;
        self.together.note(waiting.len(), 0);
        (waiting.due, waiting.places) = Default::default();
        (waiting.services, waiting.ended) = Default::default();
        drop(waiting);
        self.changed.notify_one();
    }

    /// Waits for notices, and takes those about `most` sessions at most; none once they are closed.
    pub(super) async fn next(&self, most: usize) -> Option<Batch> {
        loop {
            {
                let mut waiting = self.waiting.lock();
                if waiting.is_closed {
                    return None;
                }
                if waiting.len() > 0 {
                    let before = waiting.len();
                    let batch = waiting.take(most);
                    self.together.note(before, waiting.len());
                    return Some(batch);
                }
            }
            self.changed.notified().await;
        }
    }
}

impl Waiting {
    /// The number of notices. A list that routers share is one.
    fn len(&self) -> usize {
        self.due.len() + self.services.len() + self.ended.len()
    }

    fn add(&mut self, session: &Arc<AnnouncedSession>) {
        let is_known = self.reported_below.is_some_and(|below| session.number < below);
        self.put(session, What::Added, is_known, |before| match before {
            What::Removed => What::Replaced,
            before => before,
        });
    }

    fn update(&mut self, session: &Arc<AnnouncedSession>) {
        self.put(session, What::Updated, true, |before| match before {
            What::Removed => What::Replaced,
            before => before,
        });
    }

    fn remove(&mut self, session: &Arc<AnnouncedSession>) {
        let place = self.places.get(&session.id);
        let due = place.and_then(|place| self.due.get(place));
        if let (Some(place), Some(Due { what: What::Added, is_known: false, .. })) = (place, due) {
            self.due.remove(place);
            self.places.remove(&session.id);
            return;
        }
        self.put(session, What::Removed, true, |_| What::Removed);
    }

    fn end(&mut self, ended: &Arc<EndedTogether>) {
        let sessions = &ended.sessions;
        if self.places.is_empty() || !sessions.iter().any(|it| self.places.contains_key(&it.id)) {
            self.ended.push(Arc::clone(ended));
        } else {
            sessions.iter().for_each(|it| self.remove(it));
        }
    }

    /// Notes the latest state of a session: `first` if none waits, otherwise what `then` makes of the
    /// one that waits.
    fn put(
        &mut self,
        session: &Arc<AnnouncedSession>,
        first: What,
        is_known: bool,
        then: impl FnOnce(What) -> What,
    ) {
        let place = self.places.get(&session.id);
        if let Some(due) = place.and_then(|place| self.due.get_mut(place)) {
            due.what = then(due.what);
            due.session = Arc::clone(session);
            return;
        }
        let place = self.next_place;
        self.next_place += 1;
        self.places.insert(session.id.clone(), place);
        self.due.insert(place, Due { session: Arc::clone(session), what: first, is_known });
    }

    fn take(&mut self, most: usize) -> Batch {
        let mut batch = Batch { services: std::mem::take(&mut self.services), ..Batch::default() };
        let mut taken = 0;
        let lists = self.ended.iter().take_while(|list| {
            let fits = taken < most;
            taken += list.sessions.len();
            fits
        });
        let lists = lists.count();
        batch.ended = self.ended.drain(..lists).collect();
        for _ in sessions_in(&batch.ended)..most {
            let Some((_, Due { session, what, .. })) = self.due.pop_first() else { break };
            self.places.remove(&session.id);
            match what {
                What::Added => batch.added.push(session),
                What::Updated => batch.updated.push(session),
                What::Removed => batch.removed.push(session),
                What::Replaced => {
                    batch.removed.push(Arc::clone(&session));
                    batch.added.push(session);
                }
            }
        }
        if self.due.is_empty() {
            // The room of a rush is given back.
            self.places = HashMap::new();
        }
        batch
    }
}

fn sessions_in(ended: &[Arc<EndedTogether>]) -> usize {
    ended.iter().map(|ended| ended.sessions.len()).sum()
}

/// The pause between notices to one router.
#[derive(Debug, Default)]
pub(super) struct Pause(Option<Instant>);

impl Pause {
    /// Waits until the next notices may leave.
    pub(super) async fn over(&self) {
        if let Some(until) = self.0 {
            tokio::time::sleep_until(until).await;
        }
    }

    /// Begins after notices were taken, unless they are so many that more probably wait. So many
    /// routers are told notices.
    pub(super) fn begin(&mut self, is_full: bool, routers: usize) {
        self.0 = (!is_full).then(|| Instant::now() + Self::among(routers));
    }

    /// The pause of each of so many routers.
    fn among(routers: usize) -> Duration {
        let routers = u32::try_from(routers).unwrap_or(u32::MAX);
        PAUSE_OF_EACH.saturating_mul(routers).clamp(PAUSE, LONGEST_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use weft_auth::sessions::LegacySession;

    use super::*;

    fn session(number: u64, fingerprint: &str) -> Arc<AnnouncedSession> {
        let session = LegacySession {
            id: Id::new(&format!("s{number}")),
            token: format!("token-{number}").into(),
            identity: Id::new("laptop"),
            fingerprints: vec![fingerprint.to_owned()],
        };
        Arc::new(AnnouncedSession::new(session, number))
    }

    fn added(session: &Arc<AnnouncedSession>) -> Say {
        Say::Added([Arc::clone(session)].into())
    }

    fn removed(session: &Arc<AnnouncedSession>) -> Say {
        Say::Removed([Arc::clone(session)].into())
    }

    /// The numbers of sessions removed, added and updated.
    fn taken(pending: &Pending) -> [Vec<u64>; 3] {
        let batch = pending.waiting.lock().take(200);
        let numbers = |list: &[Arc<AnnouncedSession>]| list.iter().map(|it| it.number).collect();
        [&batch.removed, &batch.added, &batch.updated].map(|list| numbers(list))
    }

    fn told_all(numbers: u64) -> Pending {
        let pending = Pending::new(numbers, Together::default());
        pending.reported();
        pending
    }

    #[test]
    fn logins_and_logouts_in_a_loop_leave_nothing() {
        let pending = told_all(1);
        let stays = session(0, "a");
        for number in 1..=3 * MOST as u64 {
            let session = session(number, "a");
            assert!(pending.tell(&added(&session)));
            assert!(pending.tell(&Say::Updated(Arc::clone(&session))));
            assert!(pending.tell(&removed(&session)));
            assert!(pending.tell(&Say::Updated(Arc::clone(&stays))));
        }
        let waiting = pending.waiting.lock();
        assert_eq!((waiting.due.len(), waiting.places.len()), (1, 1));
        drop(waiting);
        assert_eq!(taken(&pending), [vec![], vec![], vec![0]]);
    }

    #[test]
    fn the_latest_state_of_each_session_is_told_in_order() {
        let pending = told_all(2);
        let [a, b, c] = [0, 1, 2].map(|number| session(number, "a"));
        pending.tell(&added(&c));
        pending.tell(&Say::Updated(Arc::clone(&a)));
        pending.tell(&Say::Updated(session(2, "b")));
        pending.tell(&Say::Updated(session(0, "b")));
        pending.tell(&removed(&b));
        let batch = pending.waiting.lock().take(200);
        assert_eq!(batch.added[0].encoded, session(2, "b").encoded, "an addition has it all");
        assert_eq!(batch.updated[0].encoded, session(0, "b").encoded);
        assert_eq!((batch.added.len(), batch.updated.len(), batch.removed.len()), (1, 1, 1));
        // An update that waits is not told of a session that has ended.
        pending.tell(&Say::Updated(Arc::clone(&a)));
        pending.tell(&removed(&a));
        assert_eq!(taken(&pending), [vec![0], vec![], vec![]]);
        // The end of a session that comes back has effects at the router.
        pending.tell(&removed(&c));
        pending.tell(&added(&c));
        assert_eq!(taken(&pending), [vec![2], vec![2], vec![]]);
        pending.tell(&removed(&c));
        pending.tell(&added(&c));
        pending.tell(&removed(&c));
        assert_eq!(taken(&pending), [vec![2], vec![], vec![]]);
    }

    #[test]
    fn a_session_that_the_report_may_have_told_is_withdrawn() {
        let pending = Pending::new(1, Together::default());
        let [old, new] = [0, 1].map(|number| session(number, "a"));
        // The identity may use the router now, and a moment later it may not.
        pending.tell(&added(&old));
        pending.tell(&added(&new));
        pending.reported();
        pending.tell(&removed(&old));
        pending.tell(&removed(&new));
        assert_eq!(taken(&pending), [vec![0], vec![], vec![]]);
    }

    #[test]
    fn sessions_that_end_together_wait_as_one_list() {
        let pending = told_all(10);
        let sessions: Vec<_> = (0..6).map(|number| session(number, "a")).collect();
        let list = |range: std::ops::Range<usize>| {
            Arc::new(EndedTogether::new(sessions[range].iter().map(Arc::clone).collect()))
        };
        let (first, second, third) = (list(0..2), list(2..4), list(4..6));
        for ended in [&first, &second] {
            assert!(pending.tell(&Say::Ended(Arc::clone(ended))));
        }
        assert_eq!(pending.waiting.lock().len(), 2);
        // Its user may use the router again, and then no more.
        pending.tell(&added(&sessions[0]));
        pending.tell(&added(&sessions[1]));
        pending.tell(&removed(&sessions[1]));
        // One of these has another notice that waits.
        pending.tell(&Say::Updated(session(5, "b")));
        pending.tell(&Say::Ended(Arc::clone(&third)));
        let take = |most| pending.waiting.lock().take(most);
        let batch = take(1);
        assert!(Arc::ptr_eq(&batch.ended[0], &first) && batch.ended.len() == 1);
        assert!(batch.added.is_empty());
        let batch = take(200);
        assert!(Arc::ptr_eq(&batch.ended[0], &second) && batch.ended.len() == 1);
        let numbers = |list: &[Arc<AnnouncedSession>]| -> Vec<u64> {
            list.iter().map(|it| it.number).collect()
        };
        assert_eq!((numbers(&batch.added), numbers(&batch.removed)), (vec![0], vec![5, 4]));
        assert_eq!(pending.waiting.lock().len(), 0);
        // Very many do not fit, although few notices wait.
        let many = Arc::new(EndedTogether::new(vec![session(1, "a"); MOST].into()));
        assert!(pending.tell(&Say::Ended(many)));
        assert!(!pending.tell(&Say::Ended(first)));
    }

    #[test]
    fn a_batch_has_so_many_sessions_and_too_many_do_not_fit() {
        let pending = told_all(0);
        let sessions: Vec<_> = (0..MOST as u64 + 1).map(|number| session(number, "a")).collect();
        assert!(pending.tell(&Say::Added(sessions[..MOST].into())));
        assert_eq!(taken(&pending)[1], (0..200).collect::<Vec<_>>());
        assert!(pending.tell(&Say::Added(sessions[..200].into())));
        assert!(!pending.tell(&added(&sessions[MOST])));
    }

    #[tokio::test]
    async fn when_too_many_wait_for_all_routers_no_router_is_far_behind() {
        let together = Together::default();
        let others = TOGETHER - 100;
        together.note(0, others);
        let [near, far] = [0, 0].map(|below| Pending::new(below, together.clone()));
        let sessions: Vec<_> = (0..FEW as u64 + 1).map(|number| session(number, "a")).collect();
        assert!(far.tell(&Say::Added(sessions[..FEW].into())), "it is not far behind");
        assert!(near.tell(&added(&sessions[0])));
        assert!(!far.tell(&added(&sessions[FEW])));
        assert_eq!(near.next(200).await.unwrap().added.len(), 1);
        assert_eq!(together.0.load(Ordering::Relaxed), others + FEW + 1);
        far.close();
        assert_eq!(together.0.load(Ordering::Relaxed), others);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_notice_leaves_at_once_and_those_of_a_rush_together() {
        for (routers, wait) in [(1, PAUSE), (2_000, Duration::from_millis(100))] {
            let pending = told_all(0);
            let mut pause = Pause::default();
            let began = Instant::now();
            pending.tell(&added(&session(0, "a")));
            for (expected, after) in [(1, Duration::ZERO), (2, wait)] {
                pause.over().await;
                let batch = pending.next(200).await.unwrap();
                pause.begin(false, routers);
                assert_eq!(batch.added.len(), expected);
                let took = began.elapsed();
                assert!((after..after + Duration::from_millis(2)).contains(&took), "{took:?}");
                pending.tell(&added(&session(1, "a")));
                pending.tell(&added(&session(2, "a")));
            }
            pending.close();
            assert!(pending.next(200).await.is_none());
        }
    }

    #[test]
    fn the_pause_grows_with_the_number_of_routers() {
        let millis = |routers| Pause::among(routers).as_millis();
        assert_eq!([0, 1, 100, 400, 2_000].map(millis), [5, 5, 5, 20, 100]);
        assert_eq!([20_000, usize::MAX].map(millis), [500, 500]);
    }
}
