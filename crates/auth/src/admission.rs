//! Limits the logins that are worked on at once (docs/protocol/auth.md 9.6; docs/protocol/config.md
//! 4.9). A login costs a hash or the building of chains before the caller is known, so that it
//! takes a place first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weft_config::RateLimiter;
use weft_contract::ErrorCode;
use weft_kernel::Failure;
use weft_limits::{AdaptiveWindow, Outcome, Ticket};

/// The interval at which one login of an administrator is accepted although no place is left
/// (docs/protocol/auth.md 9.6).
const ADMIN_EVERY: Duration = Duration::from_secs(10);

/// The places for logins. Clones share them.
#[derive(Debug, Clone)]
pub struct Admission(Option<Arc<Mutex<Places>>>);

#[derive(Debug)]
struct Places {
    window: AdaptiveWindow,
    /// When an administrator was last let in without a place.
    admin_at: Option<Instant>,
}

/// A place for one login; dropping it frees the place.
#[derive(Debug)]
#[must_use]
pub struct Place(Option<(Arc<Mutex<Places>>, Ticket)>);

impl Admission {
    /// The places that the section `edge.authRateLimiter` sets.
    pub fn new(limiter: &RateLimiter) -> Self {
        let places =
            || Places { window: AdaptiveWindow::new(limiter.window.clone()), admin_at: None };
        Self(limiter.enabled.then(|| Arc::new(Mutex::new(places()))))
    }

    /// Takes a place for a login; refused with 429 if there is none. A login with the name of an
    /// administrator is accepted at intervals all the same, so that an administrator can look into
    /// the overload.
    pub fn enter(&self, is_admin: impl FnOnce() -> bool) -> Result<Place, Failure> {
        self.enter_at(Instant::now(), is_admin)
    }

    fn enter_at(&self, now: Instant, is_admin: impl FnOnce() -> bool) -> Result<Place, Failure> {
        let Some(places) = &self.0 else { return Ok(Place(None)) };
        let is_due = {
            let mut held = places.lock();
            if let Some(ticket) = held.window.try_start(now) {
                return Ok(Place(Some((Arc::clone(places), ticket))));
            }
            held.admin_is_due(now)
        };
        if is_due && is_admin() {
            let mut held = places.lock();
            if held.admin_is_due(now) {
                held.admin_at = Some(now);
                return Ok(Place(None));
            }
        }
        Err(Failure::because(ErrorCode::ServerTooManyRequests, "too many logins at once"))
    }
}

impl Places {
    fn admin_is_due(&self, now: Instant) -> bool {
        self.admin_at.is_none_or(|at| now.saturating_duration_since(at) >= ADMIN_EVERY)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A login that took longer than the window's time limit has left the window before, as a
        // failure: then this call does nothing.
        if let Some((places, ticket)) = self.0.take() {
            places.lock().window.finish(ticket, Outcome::Success);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_places_and_one_for_an_administrator() {
        let admission = Admission::new(&RateLimiter::with_sizes(5, 5));
        let now = Instant::now();
        let enter = |after: u64, is_admin: bool| {
            admission.enter_at(now + Duration::from_secs(after), || is_admin)
        };
        let held: Vec<_> = (0..5).map(|_| enter(0, false).unwrap()).collect();
        let full = enter(0, false).unwrap_err();
        assert_eq!((full.status(), full.code()), (429, ErrorCode::ServerTooManyRequests));
        let admin = enter(0, true).unwrap();
        enter(9, true).unwrap_err();
        let again = enter(10, true).unwrap();
        drop((admin, again));
        enter(11, false).unwrap_err();
        drop(held);
        let free: Vec<_> = (0..5).map(|_| enter(12, false).unwrap()).collect();
        enter(12, false).unwrap_err();
        // A login that hangs loses its place after a while.
        let later = enter(42, false).unwrap();
        drop((free, later));
    }

    #[test]
    fn it_can_be_left_off() {
        let off = RateLimiter { enabled: false, ..RateLimiter::with_sizes(5, 5) };
        let admission = Admission::new(&off);
        let held: Vec<_> = (0..100).map(|_| admission.enter(|| false).unwrap()).collect();
        drop(held);
    }
}
