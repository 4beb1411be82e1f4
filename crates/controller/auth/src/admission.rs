//! Limits the logins that are worked on at once (docs/protocol/auth.md 9.6; docs/protocol/config.md
//! 4.9). A login costs a hash of a password or the building of certificate chains before the caller
//! is known. Each login therefore takes a place first. One source has a quarter of the places, so
//! that no single source holds up the logins of all others. A login for which there is none waits:
//! sources come in turn, and the names and certificates of each source.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout_at;
use weft_config::RateLimiter;
use weft_contract::ErrorCode;
use weft_kernel::{Caller, Failure};
use weft_limits::{
    AdaptiveWindow, FairQueue, Network, Outcome, Position, Quota, Ticket, WindowOptions, source_of,
};

use crate::waiting::WaitingLogins;

/// The interval at which one login of an administrator is accepted although no place is left
/// (docs/protocol/auth.md 9.6).
const ADMIN_EVERY: Duration = Duration::from_secs(10);
/// One source has the places of a window divided by this number, rounded up, and the networks around it have twice and
/// three times as many. The windows for known
/// senders and for challenges are smaller than the one for logins by the same factor.
const SHARE: u32 = 4;

/// The places for logins. Clones share them.
#[derive(Debug, Clone)]
pub struct Admission {
    /// None if the limit is off.
    places: Option<Arc<Places>>,
    waiting: WaitingLogins,
}

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
    /// Those that wait for a place in `logins`: by source, and by the name or certificate of the login.
    line: Mutex<FairQueue<Option<IpAddr>, oneshot::Sender<Place>, String>>,
}

/// The position of a login that waits.
struct InLine<'p> {
    places: &'p Places,
    source: Option<IpAddr>,
    position: Position,
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
    /// The places that each source holds, and each network around one.
    held: Quota<Network>,
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
    pub(crate) fn new(limiter: &RateLimiter, waiting: WaitingLogins) -> Self {
        let places = limiter.enabled.then(|| Arc::new(Places::new(&limiter.window)));
        Self { places, waiting }
    }

    /// Takes a place for a login with a name or certificate (`who`), and waits for one until a time; then it is
    /// refused with 429. A login with the name of an administrator is accepted at intervals all the same, so
    /// that an administrator can look into the overload. Known senders have places and intervals of
    /// their own, which strangers cannot use up.
    pub async fn enter(
        &self,
        sender: Sender,
        who: &str,
        until: tokio::time::Instant,
        is_admin: impl FnOnce() -> bool,
    ) -> Result<Place, Failure> {
        let Some(places) = &self.places else { return Ok(Place(None)) };
        if let Some(place) = places.without_wait(Instant::now(), sender, is_admin) {
            return Ok(place);
        }
        let busy = || Failure::because(ErrorCode::ServerTooManyRequests, "too many logins at once");
        let _waiting = self.waiting.begin(sender.source).ok_or_else(busy)?;
        let (told, turn) = oneshot::channel();
        let _position = places.line_up(sender.source, who, told).ok_or_else(busy)?;
        // A place may have become free before this login was in the line.
        places.hand_out(Instant::now());
        match timeout_at(until, turn).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(busy()),
        }
    }

    /// Takes a place for the signature of an enrollment challenge; refused with 429 if there is
    /// none. Anybody may ask for signatures: they take no place of a login.
    pub fn challenge(&self, sender: Sender) -> Result<Place, Failure> {
        let Some(places) = &self.places else { return Ok(Place(None)) };
        let place = places.take(Which::Challenges, sender.source, Instant::now());
        place.ok_or_else(|| {
            let reason = "too many enrollment challenges at once";
            Failure::because(ErrorCode::ServerTooManyRequests, reason)
        })
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
            line: Mutex::new(FairQueue::new(usize::MAX)),
        }
    }

    /// A place for a login, if it need not wait.
    fn without_wait(
        self: &Arc<Self>,
        now: Instant,
        sender: Sender,
        is_admin: impl FnOnce() -> bool,
    ) -> Option<Place> {
        if let Some(place) = self.take(Which::Logins, sender.source, now) {
            return Some(place);
        }
        if sender.is_known
            && let Some(place) = self.take(Which::Known, sender.source, now)
        {
            return Some(place);
        }
        let is_due = self.admins.lock().is_due(sender, now);
        (is_due && is_admin() && self.admins.lock().let_in(sender, now)).then_some(Place(None))
    }

    /// Puts a login into the line.
    fn line_up(
        &self,
        source: Option<IpAddr>,
        who: &str,
        told: oneshot::Sender<Place>,
    ) -> Option<InLine<'_>> {
        let position = self.line.lock().push_part(source, who.to_owned(), told)?.position;
        Some(InLine { places: self, source, position })
    }

    /// Gives free places to the logins whose turn is next.
    fn hand_out(self: &Arc<Self>, now: Instant) {
        while let Some((place, told)) = self.next(now) {
            // If the login was given up meanwhile, its place is free again.
            let _ = told.send(place);
        }
    }

    /// The login whose turn is next, with its place.
    fn next(self: &Arc<Self>, now: Instant) -> Option<(Place, oneshot::Sender<Place>)> {
        let mut line = self.line.lock();
        let mut window = self.logins.lock();
        window.window.expire(now);
        let (source, told) = line.pop_where(|source| window.has_place(*source))?;
        let ticket = window.take(source, now)?;
        let places = Arc::clone(self);
        Some((Place(Some(Held { places, which: Which::Logins, ticket, source })), told))
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
        let window = AdaptiveWindow::new(options);
        // The window says how many there are, and how many a source may have.
        Self { window, held: Quota::keeping_room(usize::MAX, usize::MAX) }
    }

    /// Whether there is a place for a login of a source.
    fn has_place(&self, source: Option<IpAddr>) -> bool {
        let (size, share) = (self.window.size(), self.window.size().div_ceil(SHARE));
        let has_share =
            |source| self.held.check_with(&Network::of(source), 1, share as usize).is_ok();
        self.window.in_flight() < size as usize && source.is_none_or(has_share)
    }

    fn take(&mut self, source: Option<IpAddr>, now: Instant) -> Option<Ticket> {
        // Work that hangs leaves the window, which may become smaller by that.
        self.window.expire(now);
        if !self.has_place(source) {
            return None;
        }
        let ticket = self.window.try_start(now)?;
        if let Some(source) = source {
            self.held.hold(&Network::of(source), 1);
        }
        Some(ticket)
    }

    /// Frees a place. A login that took longer than the window's time limit has left the window
    /// before, as a failure: until now it counted for its source all the same.
    fn give_back(&mut self, ticket: Ticket, source: Option<IpAddr>) {
        self.window.finish(ticket, Outcome::Success);
        if let Some(source) = source {
            self.held.free(&Network::of(source), 1);
        }
    }
}

impl Admins {
    fn last(&mut self, sender: Sender) -> &mut Option<Instant> {
        if sender.is_known { &mut self.known } else { &mut self.stranger }
    }

    fn is_due(&self, sender: Sender, now: Instant) -> bool {
        let last = if sender.is_known { self.known } else { self.stranger };
        last.is_none_or(|at| now.saturating_duration_since(at) >= ADMIN_EVERY)
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

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        let left = self.places.line.lock().remove(&self.source, self.position);
        drop(left);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(Held { places, which, ticket, source }) = self.0.take() {
            places.window(which).lock().give_back(ticket, source);
            places.hand_out(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant as Until;

    use super::*;

    const PROGRAM: Sender = Sender { source: None, is_known: false };

    fn from(host: u8) -> Sender {
        Sender { source: Some(IpAddr::from([192, 0, 2, host])), is_known: false }
    }

    fn places(min_size: u32, max_size: u32) -> Arc<Places> {
        Arc::new(Places::new(&RateLimiter::with_sizes(min_size, max_size).window))
    }

    impl Places {
        fn enter(self: &Arc<Self>, sender: Sender) -> Option<Place> {
            self.without_wait(Instant::now(), sender, || false)
        }

        fn all(self: &Arc<Self>, sender: Sender) -> Vec<Place> {
            std::iter::from_fn(|| self.enter(sender)).collect()
        }
    }

    #[test]
    fn there_are_so_many_places_and_one_for_an_administrator() {
        let places = places(5, 5);
        let now = Instant::now();
        let enter = |after: u64, is_admin: bool| {
            places.without_wait(now + Duration::from_secs(after), PROGRAM, || is_admin)
        };
        let held: Vec<_> = (0..5).map(|_| enter(0, false).unwrap()).collect();
        assert!(enter(0, false).is_none());
        let admin = enter(0, true).unwrap();
        assert!(enter(9, true).is_none());
        let again = enter(10, true).unwrap();
        drop((admin, again));
        assert!(enter(11, false).is_none());
        drop(held);
        let free: Vec<_> = (0..5).map(|_| enter(12, false).unwrap()).collect();
        assert!(enter(12, false).is_none());
        // A login that hangs loses its place after a while.
        let later = enter(42, false).unwrap();
        drop((free, later));
    }

    #[test]
    fn one_source_holds_up_no_login_of_another() {
        let own = places(5, 40);
        let greedy = own.all(from(1));
        assert_eq!(greedy.len(), 10, "a quarter of the places");
        drop(own.enter(from(2)).unwrap());
        drop(greedy);
        assert_eq!(own.all(from(1)).len(), 10, "the places are free again");
        assert!(own.logins.lock().held.is_empty());
        // Nor does the owner of a large network of IPv6.
        let site = |number: u16| {
            let source = Some([0x2001, 0xdb8, 1, number, 0, 0, 0, 0].into());
            own.all(Sender { source, is_known: false })
        };
        let large: Vec<_> = (0..100).flat_map(|number| site(number << 8)).collect();
        assert_eq!(large.len(), 30, "three quarters of the places");
        drop(own.enter(from(2)).unwrap());
        drop(large);
        assert!(own.logins.lock().held.is_empty());
        // Of the smallest window a source has two places.
        let small = places(5, 5);
        assert_eq!(small.all(from(1)).len(), 2);
    }

    #[test]
    fn whoever_is_known_has_places_that_strangers_cannot_take() {
        let places = places(5, 40);
        let strangers: Vec<_> = (1..=4).map(|host| places.all(from(host))).collect();
        assert!(places.enter(from(5)).is_none());
        let owner = from(6).known(true);
        drop(places.enter(owner).unwrap());
        // Strangers who name an administrator do not use up the turn of a known one.
        let now = Instant::now();
        let enter = |sender| places.without_wait(now, sender, || true);
        let named = enter(from(5)).unwrap();
        assert!(enter(from(5)).is_none());
        let own = places.all(owner);
        assert_eq!(own.len(), 3);
        let admin = enter(owner).unwrap();
        assert!(enter(owner).is_none());
        drop((strangers, named, own, admin));
    }

    #[tokio::test(start_paused = true)]
    async fn logins_wait_for_places_and_sources_come_in_turn() {
        let limiter = RateLimiter::with_sizes(5, 8);
        let admission = Admission::new(&limiter, WaitingLogins::default());
        let later = Until::now() + Duration::from_secs(8);
        let enter = |host: u8, who: &'static str, until: Until| {
            let admission = &admission;
            Box::pin(async move { admission.enter(from(host), who, until, || false).await })
        };
        let mut held = Vec::new();
        for host in [1, 1, 2, 2, 3, 3, 4, 4] {
            held.push(enter(host, "", later).await.unwrap());
        }
        let refused = enter(5, "", Until::now()).await.unwrap_err();
        assert_eq!((refused.status(), refused.code()), (429, ErrorCode::ServerTooManyRequests));
        let asked = [(1, "greedy"), (1, "greedy"), (1, "greedy"), (1, "modest"), (5, ""), (2, "")];
        let mut waiting: Vec<_> =
            asked.map(|(host, who)| ((host, who), enter(host, who, later))).into();
        let mut order = Vec::new();
        let mut given = Vec::new();
        // A source at its share waits for places of its own, and holds up nobody.
        for freed in [7, 0, 2, 0, 0, 0] {
            for (_, waits) in &mut waiting {
                assert!(futures::poll!(waits).is_pending());
            }
            drop(held.remove(freed));
            let mut next = None;
            for (at, (_, waits)) in waiting.iter_mut().enumerate() {
                if let std::task::Poll::Ready(place) = futures::poll!(waits) {
                    assert!(next.replace((at, place.unwrap())).is_none(), "one for one");
                }
            }
            let (at, place) = next.unwrap();
            order.push(waiting.remove(at).0);
            // The places of the first source are freed one after the other.
            if order.last().is_some_and(|(host, _)| *host == 1) {
                held.insert(0, place);
            } else {
                given.push(place);
            }
        }
        let turns = [(5, ""), (1, "greedy"), (2, ""), (1, "modest"), (1, "greedy"), (1, "greedy")];
        assert_eq!(order, turns);
        // Whoever waits too long is refused, and holds no place then.
        let mut kept = Vec::new();
        while let Ok(place) = enter(6, "", Until::now()).await {
            kept.push(place);
        }
        let refused = enter(6, "", Until::now() + Duration::from_secs(8)).await.unwrap_err();
        assert_eq!(refused.status(), 429);
        drop((held, given, kept));
        assert_eq!(admission.places.as_ref().unwrap().logins.lock().window.in_flight(), 0);
    }

    #[test]
    fn challenges_take_no_place_of_a_login() {
        let admission = Admission::new(&RateLimiter::with_sizes(5, 40), WaitingLogins::default());
        let all: Vec<_> = std::iter::from_fn(|| admission.challenge(PROGRAM).ok()).collect();
        assert_eq!(all.len(), 10);
        let places = admission.places.as_ref().unwrap();
        let logins: Vec<_> = std::iter::from_fn(|| places.enter(PROGRAM)).take(41).collect();
        assert_eq!(logins.len(), 40);
        drop(all);
        let own: Vec<_> = std::iter::from_fn(|| admission.challenge(from(1)).ok()).collect();
        assert_eq!(own.len(), 3, "a quarter of ten, rounded up");
        drop((admission.challenge(from(2)).unwrap(), own, logins));
    }

    #[tokio::test]
    async fn it_can_be_left_off() {
        let off = RateLimiter { enabled: false, ..RateLimiter::with_sizes(5, 5) };
        let admission = Admission::new(&off, WaitingLogins::default());
        let mut held = Vec::new();
        for _ in 0..100 {
            held.push(admission.enter(from(1), "", Until::now(), || false).await.unwrap());
        }
        let asked: Vec<_> = (0..100).map(|_| admission.challenge(from(1)).unwrap()).collect();
        drop((held, asked));
    }
}
