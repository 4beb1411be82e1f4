//! Limits the logins that are worked on at once (docs/protocol/auth.md 9.6; docs/protocol/config.md
//! 4.9). A login costs a hash of a password or the building of certificate chains before the caller
//! is known. Each login therefore takes a place first. One source has a quarter of the places, so
//! that no single source refuses the logins of all others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weft_config::RateLimiter;
use weft_contract::ErrorCode;
use weft_kernel::{Caller, Failure};
use weft_limits::{AdaptiveWindow, Outcome, Ticket, WindowOptions, source_of};

/// The interval at which one login of an administrator is accepted although no place is left
/// (docs/protocol/auth.md 9.6).
const ADMIN_EVERY: Duration = Duration::from_secs(10);
/// One source has the places of a window divided by this number, rounded up. The windows for known
/// senders and for challenges are smaller than the one for logins by the same factor.
const SHARE: u32 = 4;

/// The places for logins. Clones share them.
#[derive(Debug, Clone)]
pub struct Admission(Option<Arc<Places>>);

#[derive(Debug)]
struct Places {
    /// Logins, and enrollments with certificates.
    logins: Mutex<Window>,
    /// Passwords from addresses that are known for the name, when `logins` has no place for them.
    known: Mutex<Window>,
    /// Signatures of enrollment challenges.
    challenges: Mutex<Window>,
    /// The logins of administrators without a place.
    admins: Mutex<Admins>,
}

/// When an administrator was last let in without a place.
#[derive(Debug, Default)]
struct Admins {
    /// From an address that was known for the name.
    known: Option<Instant>,
    /// From any other address.
    stranger: Option<Instant>,
}

/// Places with a share for each source.
#[derive(Debug)]
struct Window {
    window: AdaptiveWindow,
    /// The number of places that each source holds; sources without a place are not in the map.
    held: HashMap<IpAddr, u32>,
}

/// The sender of a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sender {
    /// The source; none for a program in this process, which has no share.
    source: Option<IpAddr>,
    /// Whether the source sent a right password for the same name before.
    is_known: bool,
}

impl Sender {
    /// The sender of a request.
    pub fn of(caller: &Caller) -> Self {
        let source = caller.origin.remote.map(|remote| source_of(remote.ip()));
        Self { source, is_known: false }
    }

    /// The sender, with the note whether its source sent a right password for the same name before.
    pub fn known(self, is_known: bool) -> Self {
        Self { is_known, ..self }
    }
}

/// A place for one login; dropping it frees the place.
#[derive(Debug)]
#[must_use]
pub struct Place(Option<Held>);

#[derive(Debug)]
struct Held {
    places: Arc<Places>,
    which: Which,
    ticket: Ticket,
    source: Option<IpAddr>,
}

#[derive(Debug, Clone, Copy)]
enum Which {
    Logins,
    Known,
    Challenges,
}

impl Admission {
    /// The places that the section `edge.authRateLimiter` sets.
    pub fn new(limiter: &RateLimiter) -> Self {
        Self(limiter.enabled.then(|| Arc::new(Places::new(&limiter.window))))
    }

    /// Takes a place for a login; refused with 429 if there is none, or if the source holds its
    /// share. A login with the name of an administrator is accepted at intervals all the same, so
    /// that an administrator can look into the overload. Known senders have places and intervals of
    /// their own, which strangers cannot use up.
    pub fn enter(&self, sender: Sender, is_admin: impl FnOnce() -> bool) -> Result<Place, Failure> {
        self.enter_at(Instant::now(), sender, is_admin)
    }

    /// Takes a place for the signature of an enrollment challenge; refused with 429 if there is
    /// none. Anybody may ask for signatures: they take no place of a login.
    pub fn challenge(&self, sender: Sender) -> Result<Place, Failure> {
        let Some(places) = &self.0 else { return Ok(Place(None)) };
        let place = places.take(Which::Challenges, sender.source, Instant::now());
        place.ok_or_else(|| {
            let reason = "too many enrollment challenges at once";
            Failure::because(ErrorCode::ServerTooManyRequests, reason)
        })
    }

    fn enter_at(
        &self,
        now: Instant,
        sender: Sender,
        is_admin: impl FnOnce() -> bool,
    ) -> Result<Place, Failure> {
        let Some(places) = &self.0 else { return Ok(Place(None)) };
        if let Some(place) = places.take(Which::Logins, sender.source, now) {
            return Ok(place);
        }
        if sender.is_known
            && let Some(place) = places.take(Which::Known, sender.source, now)
        {
            return Ok(place);
        }
        let is_due = places.admins.lock().is_due(sender, now);
        if is_due && is_admin() && places.admins.lock().let_in(sender, now) {
            return Ok(Place(None));
        }
        Err(Failure::because(ErrorCode::ServerTooManyRequests, "too many logins at once"))
    }
}

impl Places {
    fn new(options: &WindowOptions) -> Self {
        let logins = Window::new(options.clone());
        let smaller = WindowOptions {
            min_size: options.min_size.div_ceil(SHARE),
            max_size: options.max_size.div_ceil(SHARE),
            ..options.clone()
        };
        let (known, challenges) = (Window::new(smaller.clone()), Window::new(smaller));
        Self {
            logins: Mutex::new(logins),
            known: Mutex::new(known),
            challenges: Mutex::new(challenges),
            admins: Mutex::default(),
        }
    }

    fn window(&self, which: Which) -> &Mutex<Window> {
        match which {
            Which::Logins => &self.logins,
            Which::Known => &self.known,
            Which::Challenges => &self.challenges,
        }
    }

    fn take(self: &Arc<Self>, which: Which, source: Option<IpAddr>, now: Instant) -> Option<Place> {
        let ticket = self.window(which).lock().take(source, now)?;
        Some(Place(Some(Held { places: Arc::clone(self), which, ticket, source })))
    }
}

impl Window {
    fn new(options: WindowOptions) -> Self {
        Self { window: AdaptiveWindow::new(options), held: HashMap::new() }
    }

    fn take(&mut self, source: Option<IpAddr>, now: Instant) -> Option<Ticket> {
        // Work that hangs leaves the window, which may become smaller by that.
        self.window.expire(now);
        let share = self.window.size().div_ceil(SHARE);
        if source.and_then(|source| self.held.get(&source)).is_some_and(|held| *held >= share) {
            return None;
        }
        let ticket = self.window.try_start(now)?;
        if let Some(source) = source {
            *self.held.entry(source).or_default() += 1;
        }
        Some(ticket)
    }

    /// Frees a place. A login that took longer than the window's time limit has left the window
    /// before, as a failure: until now it counted for its source all the same.
    fn give_back(&mut self, ticket: Ticket, source: Option<IpAddr>) {
        self.window.finish(ticket, Outcome::Success);
        let Some(source) = source else { return };
        let left = self.held.get_mut(&source).map_or(0, |held| {
            *held = held.saturating_sub(1);
            *held
        });
        if left == 0 {
            self.held.remove(&source);
        }
    }
}

impl Admins {
    fn last(&mut self, sender: Sender) -> &mut Option<Instant> {
        if sender.is_known { &mut self.known } else { &mut self.stranger }
    }

    fn is_due(&mut self, sender: Sender, now: Instant) -> bool {
        self.last(sender).is_none_or(|at| now.saturating_duration_since(at) >= ADMIN_EVERY)
    }

    /// Lets an administrator in, unless another one was let in meanwhile.
    fn let_in(&mut self, sender: Sender, now: Instant) -> bool {
        let is_due = self.is_due(sender, now);
        if is_due {
            *self.last(sender) = Some(now);
        }
        is_due
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(Held { places, which, ticket, source }) = self.0.take() {
            places.window(which).lock().give_back(ticket, source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: Sender = Sender { source: None, is_known: false };

    fn from(host: u8) -> Sender {
        Sender { source: Some(IpAddr::from([192, 0, 2, host])), is_known: false }
    }

    #[test]
    fn there_are_so_many_places_and_one_for_an_administrator() {
        let admission = Admission::new(&RateLimiter::with_sizes(5, 5));
        let now = Instant::now();
        let enter = |after: u64, is_admin: bool| {
            admission.enter_at(now + Duration::from_secs(after), PROGRAM, || is_admin)
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
    fn one_source_refuses_no_login_of_another() {
        let admission = Admission::new(&RateLimiter::with_sizes(5, 40));
        let all = |sender| -> Vec<_> {
            std::iter::from_fn(|| admission.enter(sender, || false).ok()).collect()
        };
        let greedy = all(from(1));
        assert_eq!(greedy.len(), 10, "a quarter of the places");
        drop(admission.enter(from(2), || false).unwrap());
        drop(greedy);
        assert_eq!(all(from(1)).len(), 10, "the places are free again");
        assert!(admission.0.as_ref().unwrap().logins.lock().held.is_empty());
        // Of the smallest window a source has two places.
        let small = Admission::new(&RateLimiter::with_sizes(5, 5));
        let held: Vec<_> = (0..2).map(|_| small.enter(from(1), || false).unwrap()).collect();
        small.enter(from(1), || false).unwrap_err();
        drop(held);
    }

    #[test]
    fn whoever_is_known_has_places_that_strangers_cannot_take() {
        let admission = Admission::new(&RateLimiter::with_sizes(5, 40));
        let strangers: Vec<_> = (1..=4)
            .flat_map(|host| std::iter::repeat_n(from(host), 10))
            .map(|sender| admission.enter(sender, || false).unwrap())
            .collect();
        admission.enter(from(5), || false).unwrap_err();
        let owner = from(6).known(true);
        drop(admission.enter(owner, || false).unwrap());
        // Strangers who name an administrator do not use up the turn of a known one.
        let now = Instant::now();
        let named = admission.enter_at(now, from(5), || true).unwrap();
        admission.enter_at(now, from(5), || true).unwrap_err();
        let own: Vec<_> =
            (0..3).map(|_| admission.enter_at(now, owner, || false).unwrap()).collect();
        admission.enter_at(now, owner, || false).unwrap_err();
        let admin = admission.enter_at(now, owner, || true).unwrap();
        admission.enter_at(now, owner, || true).unwrap_err();
        drop((strangers, named, own, admin));
    }

    #[test]
    fn challenges_take_no_place_of_a_login() {
        let admission = Admission::new(&RateLimiter::with_sizes(5, 40));
        let all: Vec<_> = std::iter::from_fn(|| admission.challenge(PROGRAM).ok()).collect();
        assert_eq!(all.len(), 10);
        let logins: Vec<_> =
            std::iter::from_fn(|| admission.enter(PROGRAM, || false).ok()).collect();
        assert_eq!(logins.len(), 40);
        drop(all);
        let own: Vec<_> = std::iter::from_fn(|| admission.challenge(from(1)).ok()).collect();
        assert_eq!(own.len(), 3, "a quarter of ten, rounded up");
        drop((admission.challenge(from(2)).unwrap(), own, logins));
    }

    #[test]
    fn it_can_be_left_off() {
        let off = RateLimiter { enabled: false, ..RateLimiter::with_sizes(5, 5) };
        let admission = Admission::new(&off);
        let held: Vec<_> = (0..100).map(|_| admission.enter(from(1), || false).unwrap()).collect();
        let asked: Vec<_> = (0..100).map(|_| admission.challenge(from(1)).unwrap()).collect();
        drop((held, asked));
    }
}
