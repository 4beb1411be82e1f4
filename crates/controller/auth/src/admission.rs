//! Limits the logins that are worked on at once (docs/protocol/auth.md 9.6; docs/protocol/config.md
//! 4.9). A login costs a hash of a password or the building of certificate chains before the caller
//! is known. Each login therefore takes a permit first. One source has a quarter of the permits, so
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
use weft_kernel::{Caller, Failure, Result};
use weft_limits::{
    AdaptiveWindow, FairQueue, Network, QueuePosition, Quota, Ticket, WindowOptions, WorkOutcome,
    source_of,
};

use crate::waiting::WaitingLogins;

/// The interval at which one login of an administrator is accepted although no permit is left
/// (docs/protocol/auth.md 9.6).
const ADMIN_EVERY: Duration = Duration::from_secs(10);
/// One source has the permits of a window divided by this number, rounded up, and the networks around it have twice and
/// three times as many. The windows for known
/// senders and for challenges are smaller than the one for logins by the same factor.
const SHARE: u32 = 4;

/// The permits for logins. Clones share them.
#[derive(Debug, Clone)]
pub struct LoginAdmission {
    /// None if the limit is off.
    windows: Option<Arc<LoginWindows>>,
    waiting: WaitingLogins,
}

#[derive(Debug)]
struct LoginWindows {
    /// Logins, and enrollments with certificates.
    logins: Mutex<Window>,
    /// Passwords from addresses that are known for the name, when `logins` has no permit for them.
    known: Mutex<Window>,
    /// Signatures of enrollment challenges.
    challenges: Mutex<Window>,
    /// The logins of administrators without a permit.
    admins: Mutex<Admins>,
    /// Those that wait for a permit in `logins`: by source, and by the name or certificate of the login.
    line: Mutex<FairQueue<Option<IpAddr>, oneshot::Sender<LoginPermit>, String>>,
}

/// The position of a login that waits.
struct InLine<'p> {
    windows: &'p LoginWindows,
    source: Option<IpAddr>,
    position: QueuePosition,
}

/// When an administrator was last let in without a permit.
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
    /// The permits that each source holds, and each network around one.
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

/// A permit for one login; dropping it frees the permit.
#[derive(Debug)]
#[must_use]
pub struct LoginPermit(Option<Held>);

#[derive(Debug)]
struct Held {
    windows: Arc<LoginWindows>,
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

impl LoginAdmission {
    /// The permits that the section `edge.authRateLimiter` sets.
    pub(crate) fn new(limiter: &RateLimiter, waiting: WaitingLogins) -> Self {
        let windows = limiter.enabled.then(|| Arc::new(LoginWindows::new(&limiter.window)));
        Self { windows, waiting }
    }

    /// Takes a permit for a login with a name or certificate (`who`), and waits for one until a time; then it is
    /// refused with 429. A login with the name of an administrator is accepted at intervals all the same, so
    /// that an administrator can look into the overload. Known senders have permits and intervals of
    /// their own, which strangers cannot use up.
    pub async fn enter(
        &self,
        sender: Sender,
        who: &str,
        until: tokio::time::Instant,
        is_admin: impl FnOnce() -> bool,
    ) -> Result<LoginPermit> {
        let Some(windows) = &self.windows else { return Ok(LoginPermit(None)) };
        if let Some(permit) = windows.without_wait(Instant::now(), sender, is_admin) {
            return Ok(permit);
        }
        let busy = || Failure::because(ErrorCode::ServerTooManyRequests, "too many logins at once");
        let _waiting = self.waiting.begin(sender.source).ok_or_else(busy)?;
        let (told, turn) = oneshot::channel();
        let _position = windows.line_up(sender.source, who, told).ok_or_else(busy)?;
        // A permit may have become free before this login was in the line.
        windows.hand_out(Instant::now());
        match timeout_at(until, turn).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(busy()),
        }
    }

    /// Takes a permit for the signature of an enrollment challenge; refused with 429 if there is
    /// none. Anybody may ask for signatures: they take no permit of a login.
    pub fn challenge(&self, sender: Sender) -> Result<LoginPermit> {
        let Some(windows) = &self.windows else { return Ok(LoginPermit(None)) };
        let permit = windows.take(Which::Challenges, sender.source, Instant::now());
        permit.ok_or_else(|| {
            let reason = "too many enrollment challenges at once";
            Failure::because(ErrorCode::ServerTooManyRequests, reason)
        })
    }
}

impl LoginWindows {
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

    /// A permit for a login, if it need not wait.
    fn without_wait(
        self: &Arc<Self>,
        now: Instant,
        sender: Sender,
        is_admin: impl FnOnce() -> bool,
    ) -> Option<LoginPermit> {
        if let Some(permit) = self.take(Which::Logins, sender.source, now) {
            return Some(permit);
        }
        if sender.is_known
            && let Some(permit) = self.take(Which::Known, sender.source, now)
        {
            return Some(permit);
        }
        let is_due = self.admins.lock().is_due(sender, now);
        (is_due && is_admin() && self.admins.lock().let_in(sender, now))
            .then_some(LoginPermit(None))
    }

    /// Puts a login into the line.
    fn line_up(
        &self,
        source: Option<IpAddr>,
        who: &str,
        told: oneshot::Sender<LoginPermit>,
    ) -> Option<InLine<'_>> {
        let position = self.line.lock().push_part(source, who.to_owned(), told)?.position;
        Some(InLine { windows: self, source, position })
    }

    /// Gives free permits to the logins whose turn is next.
    fn hand_out(self: &Arc<Self>, now: Instant) {
        while let Some((permit, told)) = self.next(now) {
            // If the login was given up meanwhile, its permit is free again.
            let _ = told.send(permit);
        }
    }

    /// The login whose turn is next, with its permit.
    fn next(self: &Arc<Self>, now: Instant) -> Option<(LoginPermit, oneshot::Sender<LoginPermit>)> {
        let mut line = self.line.lock();
        let mut window = self.logins.lock();
        window.window.expire(now);
        let (source, told) = line.pop_where(|source| window.has_place(*source))?;
        let ticket = window.take(source, now)?;
        let windows = Arc::clone(self);
        Some((LoginPermit(Some(Held { windows, which: Which::Logins, ticket, source })), told))
    }

    fn window(&self, which: Which) -> &Mutex<Window> {
        match which {
            Which::Logins => &self.logins,
            Which::Known => &self.known,
            Which::Challenges => &self.challenges,
        }
    }

    fn take(
        self: &Arc<Self>,
        which: Which,
        source: Option<IpAddr>,
        now: Instant,
    ) -> Option<LoginPermit> {
        let ticket = self.window(which).lock().take(source, now)?;
        Some(LoginPermit(Some(Held { windows: Arc::clone(self), which, ticket, source })))
    }
}

impl Window {
    fn new(options: WindowOptions) -> Self {
        let window = AdaptiveWindow::new(options);
        // The window says how many there are, and how many a source may have.
        Self { window, held: Quota::keeping_room(usize::MAX, usize::MAX) }
    }

    /// Whether there is a permit for a login of a source.
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

    /// Frees a permit. A login that took longer than the window's time limit has left the window
    /// before, as a failure: until now it counted for its source all the same.
    fn give_back(&mut self, ticket: Ticket, source: Option<IpAddr>) {
        self.window.finish(ticket, WorkOutcome::Success);
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
        let left = self.windows.line.lock().remove(&self.source, self.position);
        drop(left);
    }
}

impl Drop for LoginPermit {
    fn drop(&mut self) {
        if let Some(Held { windows, which, ticket, source }) = self.0.take() {
            windows.window(which).lock().give_back(ticket, source);
            windows.hand_out(Instant::now());
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

    fn windows(min_size: u32, max_size: u32) -> Arc<LoginWindows> {
        Arc::new(LoginWindows::new(&RateLimiter::with_sizes(min_size, max_size).window))
    }

    impl LoginWindows {
        fn enter(self: &Arc<Self>, sender: Sender) -> Option<LoginPermit> {
            self.without_wait(Instant::now(), sender, || false)
        }

        fn all(self: &Arc<Self>, sender: Sender) -> Vec<LoginPermit> {
            std::iter::from_fn(|| self.enter(sender)).collect()
        }
    }

    #[test]
    fn there_are_so_many_places_and_one_for_an_administrator() {
        let windows = windows(5, 5);
        let now = Instant::now();
        let enter = |after: u64, is_admin: bool| {
            windows.without_wait(now + Duration::from_secs(after), PROGRAM, || is_admin)
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
        // A login that hangs loses its permit after a while.
        let later = enter(42, false).unwrap();
        drop((free, later));
    }

    #[test]
    fn one_source_holds_up_no_login_of_another() {
        let own = windows(5, 40);
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
        // Of the smallest window a source has two permits.
        let small = windows(5, 5);
        assert_eq!(small.all(from(1)).len(), 2);
    }

    #[test]
    fn whoever_is_known_has_places_that_strangers_cannot_take() {
        let windows = windows(5, 40);
        let strangers: Vec<_> = (1..=4).map(|host| windows.all(from(host))).collect();
        assert!(windows.enter(from(5)).is_none());
        let owner = from(6).known(true);
        drop(windows.enter(owner).unwrap());
        // Strangers who name an administrator do not use up the turn of a known one.
        let now = Instant::now();
        let enter = |sender| windows.without_wait(now, sender, || true);
        let named = enter(from(5)).unwrap();
        assert!(enter(from(5)).is_none());
        let own = windows.all(owner);
        assert_eq!(own.len(), 3);
        let admin = enter(owner).unwrap();
        assert!(enter(owner).is_none());
        drop((strangers, named, own, admin));
    }

    #[tokio::test(start_paused = true)]
    async fn logins_wait_for_places_and_sources_come_in_turn() {
        let limiter = RateLimiter::with_sizes(5, 8);
        let admission = LoginAdmission::new(&limiter, WaitingLogins::default());
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
        // A source at its share waits for permits of its own, and holds up nobody.
        for freed in [7, 0, 2, 0, 0, 0] {
            for (_, waits) in &mut waiting {
                assert!(futures::poll!(waits).is_pending());
            }
            drop(held.remove(freed));
            let mut next = None;
            for (at, (_, waits)) in waiting.iter_mut().enumerate() {
                if let std::task::Poll::Ready(permit) = futures::poll!(waits) {
                    assert!(next.replace((at, permit.unwrap())).is_none(), "one for one");
                }
            }
            let (at, permit) = next.unwrap();
            order.push(waiting.remove(at).0);
            // The permits of the first source are freed one after the other.
            if order.last().is_some_and(|(host, _)| *host == 1) {
                held.insert(0, permit);
            } else {
                given.push(permit);
            }
        }
        let turns = [(5, ""), (1, "greedy"), (2, ""), (1, "modest"), (1, "greedy"), (1, "greedy")];
        assert_eq!(order, turns);
        // Whoever waits too long is refused, and holds no permit then.
        let mut kept = Vec::new();
        while let Ok(permit) = enter(6, "", Until::now()).await {
            kept.push(permit);
        }
        let refused = enter(6, "", Until::now() + Duration::from_secs(8)).await.unwrap_err();
        assert_eq!(refused.status(), 429);
        drop((held, given, kept));
        assert_eq!(admission.windows.as_ref().unwrap().logins.lock().window.in_flight(), 0);
    }

    #[test]
    fn challenges_take_no_place_of_a_login() {
        let admission =
            LoginAdmission::new(&RateLimiter::with_sizes(5, 40), WaitingLogins::default());
        let all: Vec<_> = std::iter::from_fn(|| admission.challenge(PROGRAM).ok()).collect();
        assert_eq!(all.len(), 10);
        let windows = admission.windows.as_ref().unwrap();
        let logins: Vec<_> = std::iter::from_fn(|| windows.enter(PROGRAM)).take(41).collect();
        assert_eq!(logins.len(), 40);
        drop(all);
        let own: Vec<_> = std::iter::from_fn(|| admission.challenge(from(1)).ok()).collect();
        assert_eq!(own.len(), 3, "a quarter of ten, rounded up");
        drop((admission.challenge(from(2)).unwrap(), own, logins));
    }

    #[tokio::test]
    async fn it_can_be_left_off() {
        let off = RateLimiter { enabled: false, ..RateLimiter::with_sizes(5, 5) };
        let admission = LoginAdmission::new(&off, WaitingLogins::default());
        let mut held = Vec::new();
        for _ in 0..100 {
            held.push(admission.enter(from(1), "", Until::now(), || false).await.unwrap());
        }
        let asked: Vec<_> = (0..100).map(|_| admission.challenge(from(1)).unwrap()).collect();
        drop((held, asked));
    }
}
