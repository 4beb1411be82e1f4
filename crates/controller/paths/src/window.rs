//! Limits the routes of moves that a router may leave unanswered.
//!
//! Every answer raises the limit, up to a maximum. A router that does not answer a route in time,
//! or refuses many in a row as a router between ends, rests for a while: no new path leads through
//! it. A silent router is sent nothing meanwhile, and then one route as a test; a late answer ends
//! the rest early, and gives the router twice the time for its next answers, at most four times.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Routes that a router may leave unanswered at first, and at most.
const FIRST: usize = 8;
const MOST: usize = 64;
/// How long a router rests.
const REST: Duration = Duration::from_secs(10);
/// How often the patience with a router doubles that answers late.
const DOUBLED: u32 = 2;
/// Refusals without a success in between, as a weighted sum, after which a router rests. A refusal
/// for an unknown link weighs little, because the link may have just broken, with many routes on
/// their way.
const REFUSED: u32 = 256;
const REFUSAL: u32 = 32;
const LINK_REFUSAL: u32 = 1;

/// The result of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteOutcome {
    /// The route is set up.
    Done,
    /// The router refused the route.
    Refused,
    /// The router refused the route for want of room.
    Busy,
    /// The router does not know a link of the route.
    NoLink,
    /// The router did not answer in time.
    Silence,
    /// The router has disconnected.
    Gone,
}

/// The unanswered routes of moves of a connected router.
#[derive(Debug)]
pub struct Window(Mutex<State>);

#[derive(Debug)]
struct State {
    unanswered: usize,
    limit: usize,
    refused: u32,
    rests_until: Option<Instant>,
    /// Whether it rests because it was silent.
    is_silent: bool,
    /// How often it has answered late, up to [`DOUBLED`] times, since it has answered in time.
    late: u32,
}

impl Default for Window {
    fn default() -> Self {
        Self(Mutex::new(State {
            unanswered: 0,
            limit: FIRST,
            refused: 0,
            rests_until: None,
            is_silent: false,
            late: 0,
        }))
    }
}

impl Window {
    /// Takes a slot for a route; false if there is none.
    pub fn try_take(&self) -> bool {
        let mut state = self.0.lock();
        let has_room = state.unanswered < state.limit;
        state.unanswered += usize::from(has_room);
        has_room
    }

    /// Takes a slot, even above the limit.
    pub fn take(&self) {
        self.0.lock().unanswered += 1;
    }

    /// Gives a slot back.
    pub fn give_back(&self) {
        let mut state = self.0.lock();
        state.unanswered = state.unanswered.saturating_sub(1);
    }

    /// Number of free slots.
    pub fn room(&self) -> usize {
        let state = self.0.lock();
        state.limit.saturating_sub(state.unanswered)
    }

    /// Notes the result of a route. Returns the end of the rest, if one begins now.
    pub fn answered(&self, outcome: RouteOutcome, now: Instant) -> Option<Instant> {
        let mut state = self.0.lock();
        match outcome {
            RouteOutcome::Done => {
                state.refused = 0;
                state.limit = (state.limit + 1).min(MOST);
            }
            RouteOutcome::Refused | RouteOutcome::Busy => state.refused += REFUSAL,
            RouteOutcome::NoLink => state.refused += LINK_REFUSAL,
            RouteOutcome::Silence => state.refused = REFUSED,
            RouteOutcome::Gone => {}
        }
        if state.refused < REFUSED {
            return None;
        }
        let rests = state.rests_until.is_some_and(|until| now < until);
        let is_silent = outcome == RouteOutcome::Silence;
        state.refused = 0;
        state.is_silent = is_silent || (rests && state.is_silent);
        if is_silent {
            state.limit = 1;
        }
        if rests {
            return None;
        }
        state.rests_until = Some(now + REST);
        state.rests_until
    }

    /// Notes that the router accepted a route of a dial: refusals before it do not count any more.
    pub fn accepted(&self) {
        self.0.lock().refused = 0;
    }

    /// Notes a late answer. True if the router was silent until now.
    pub fn heard(&self, now: Instant) -> bool {
        let mut state = self.0.lock();
        let was_silent = state.is_silent && state.rests_until.is_some_and(|until| now < until);
        if was_silent {
            state.is_silent = false;
            state.rests_until = None;
            state.late = (state.late + 1).min(DOUBLED);
        }
        was_silent
    }

    /// How long to wait for an answer: longer than usual if the router has answered late, so that it can finish what it
    /// is asked.
    pub fn patience(&self, usual: Duration) -> Duration {
        usual.saturating_mul(1 << self.0.lock().late)
    }

    /// Notes an answer within the usual time.
    pub fn in_time(&self) {
        self.0.lock().late = 0;
    }

    /// Whether the router is silent and is sent nothing.
    pub fn is_silent(&self, now: Instant) -> bool {
        let state = self.0.lock();
        state.is_silent && state.rests_until.is_some_and(|until| now < until)
    }

    /// Whether new paths avoid the router.
    pub fn rests(&self, now: Instant) -> bool {
        self.0.lock().rests_until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_answers_gets_more_and_who_does_not_is_left_alone() {
        let (window, start) = (Window::default(), Instant::now());
        assert_eq!((0..100).filter(|_| window.try_take()).count(), FIRST);
        for _ in 0..1_000 {
            window.give_back();
            assert_eq!(window.answered(RouteOutcome::Done, start), None);
        }
        assert_eq!(window.room(), MOST);
        assert!(window.answered(RouteOutcome::Silence, start).is_some());
        assert_eq!(window.answered(RouteOutcome::Silence, start), None, "it is left alone already");
        assert!(window.rests(start) && !window.rests(start + REST));
        assert!(window.is_silent(start) && !window.is_silent(start + REST));
        assert_eq!(window.room(), 1, "one tries");
        assert_eq!(window.answered(RouteOutcome::Done, start + REST), None);
        assert_eq!(window.room(), 2);
        let later = start + REST;
        assert!(!window.heard(later), "it was not silent");
        assert!(window.answered(RouteOutcome::Silence, later).is_some() && window.is_silent(later));
        assert!(window.heard(later) && !window.heard(later));
        assert!(!window.is_silent(later) && !window.rests(later));
        assert!(window.answered(RouteOutcome::Silence, later).is_some(), "silent once more");
    }

    #[test]
    fn who_answers_late_gets_more_time_until_it_answers_in_time() {
        let (window, now, second) = (Window::default(), Instant::now(), Duration::from_secs(1));
        assert!(!window.heard(now) && window.patience(second) == second);
        for patience in [2, 4, 4] {
            assert!(window.answered(RouteOutcome::Silence, now).is_some() && window.heard(now));
            assert_eq!(window.patience(second), patience * second);
        }
        window.in_time();
        assert_eq!(window.patience(second), second);
    }

    #[test]
    fn refusals_one_after_the_other_count() {
        let (window, now) = (Window::default(), Instant::now());
        let times = |outcome: RouteOutcome| {
            let rests = |_: &usize| window.answered(outcome, now).is_some();
            (1..1_000).find(rests).unwrap_or_default()
        };
        (0..7).for_each(|_| assert_eq!(window.answered(RouteOutcome::Refused, now), None));
        assert_eq!(window.answered(RouteOutcome::Done, now), None);
        assert_eq!(times(RouteOutcome::Gone), 0);
        assert_eq!(times(RouteOutcome::Refused), 8);
        assert!(window.rests(now) && !window.is_silent(now), "it answers");
        (0..7).for_each(|_| assert_eq!(window.answered(RouteOutcome::Refused, now + REST), None));
        window.accepted();
        (0..7).for_each(|_| assert_eq!(window.answered(RouteOutcome::Refused, now + REST), None));
        window.accepted();
        assert_eq!((window.room(), times(RouteOutcome::Silence)), (FIRST + 1, 0));
        assert!(window.is_silent(now) && window.room() == 1);
        let window = Window::default();
        let links = (0..255).all(|_| window.answered(RouteOutcome::NoLink, now).is_none());
        assert!(links && window.answered(RouteOutcome::NoLink, now).is_some());
    }
}
