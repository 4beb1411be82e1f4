//! A limited number of seats, shared fairly by sources. A client without a free seat takes that of the
//! client that has been silent for longest: one of its own source if that has its share, else one of
//! the source with most seats.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use weft_limits::{Among, Full, Held, HolderId, Quota, source_of};

/// Times of silence after which a seat is taken back.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For a client of the same source.
    pub own: Duration,
    /// For a client of another source, if that has more than twice as many seats. Shorter than `own`: a
    /// source that fills its seats as soon as it may has to leave some to others.
    pub many: Duration,
    /// For a client that has not proved to be at its address.
    pub unproven: Duration,
    /// For all other clients.
    pub proven: Duration,
}

/// A limited number of seats.
#[derive(Debug)]
pub struct Seats {
    start: Instant,
    patience: Patience,
    taken: Mutex<Taken>,
}

#[derive(Debug)]
struct Taken {
    live: Quota<IpAddr, Arc<Guest>>,
    /// Clients that were told to end and still have their seats.
    leaving: Quota<IpAddr>,
}

#[derive(Debug)]
struct Guest {
    /// The time of the last use, in milliseconds since the start.
    used: AtomicU64,
    proven: AtomicBool,
    over: CancellationToken,
}

/// A seat; released when dropped.
#[derive(Debug)]
pub struct Seat {
    of: Arc<Seats>,
    source: IpAddr,
    id: HolderId,
    guest: Arc<Guest>,
}

/// The number of seats beyond the limit while as many clients are leaving, in all and of one source.
fn spare(most: usize) -> (usize, usize) {
    ((most / 8).max(1), (most / 64).max(1))
}

impl Seats {
    /// Seats, in all and for one source.
    #[must_use]
    pub fn new(most: usize, most_of_one: usize, patience: Patience) -> Arc<Self> {
        let live = Quota::new(most, most_of_one);
        let (spare, spare_of_one) = spare(most);
        let leaving =
            Quota::new(most.saturating_add(spare), most_of_one.saturating_add(spare_of_one));
        let taken = Mutex::new(Taken { live, leaving });
        Arc::new(Self { start: Instant::now(), patience, taken })
    }

    /// Takes a seat for a client, if there is one. Another client may be told to end for it.
    pub fn take(self: &Arc<Self>, client: IpAddr, now: Instant) -> Option<Seat> {
        let source = source_of(client);
        let now = self.millis(now);
        let mut taken = self.taken.lock();
        let Taken { live, leaving } = &mut *taken;
        let own = live.used_by(&source);
        // Those that leave, the present ones and the new one.
        if leaving.check(&source, own + 1).is_err() || live.used() >= leaving.free_places() {
            return None;
        }
        if let Err(full) = live.check(&source, 1) {
            let most = live.greediest().next().map_or(0, |(most, _)| most);
            let among = match full {
                Full::Total if own < most => Among::Greediest(most),
                _ => Among::Key(&source),
            };
            let many = most > 2 * (own + 1);
            let (of, gone) =
                live.displace(among, |id, held| self.silent(id, held, among, many, now))?;
            leaving.hold(&of, 1);
            gone.holder.over.cancel();
        }
        let guest = Arc::new(Guest {
            used: AtomicU64::new(now),
            proven: AtomicBool::new(false),
            over: CancellationToken::new(),
        });
        let id = live.enter(&source, 1, Arc::clone(&guest));
        drop(taken);
        Some(Seat { of: Arc::clone(self), source, id, guest })
    }

    /// The rank of a client that was silent for long enough: unproven clients come first, and of those the one that
    /// was silent for longest. `many`: the source of the client has many more seats than that of the next one.
    fn silent(
        &self,
        id: HolderId,
        Held { holder, .. }: &Held<Arc<Guest>>,
        among: Among<'_, IpAddr>,
        many: bool,
        now: u64,
    ) -> Option<(bool, u64, HolderId)> {
        let used = holder.used.load(Ordering::Relaxed);
        let is_proven = holder.proven.load(Ordering::Relaxed);
        let patience = match among {
            Among::Key(_) => self.patience.own,
            _ if many => self.patience.many,
            _ if is_proven => self.patience.proven,
            _ => self.patience.unproven,
        };
        let silence = Duration::from_millis(now.saturating_sub(used));
        (silence.as_millis() >= patience.as_millis()).then_some((is_proven, used, id))
    }

    fn millis(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.start).as_millis()).unwrap_or(u64::MAX)
    }
}

impl Seat {
    /// Notes that a datagram came from the client, or from its peer.
    pub fn touch(&self) {
        self.guest.used.store(self.of.millis(Instant::now()), Ordering::Relaxed);
    }

    /// Notes that the client has proved to be at its address.
    pub fn prove(&self) {
        self.guest.proven.store(true, Ordering::Relaxed);
    }

    /// The time since the last datagram in either direction.
    #[must_use]
    pub fn silence(&self) -> Duration {
        let used = self.guest.used.load(Ordering::Relaxed);
        Duration::from_millis(self.of.millis(Instant::now()).saturating_sub(used))
    }

    /// Cancelled when the holder of this seat has to end.
    #[must_use]
    pub fn over(&self) -> &CancellationToken {
        &self.guest.over
    }

    /// Tells the holder of this seat to end.
    pub fn end(&self) {
        let mut taken = self.of.taken.lock();
        if taken.live.leave(&self.source, self.id).is_some() {
            taken.leaving.hold(&self.source, 1);
        }
        self.guest.over.cancel();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.of.taken.lock();
        if taken.live.leave(&self.source, self.id).is_none() {
            taken.leaving.free(&self.source, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience {
        own: Duration::from_secs(1),
        many: Duration::from_millis(100),
        unproven: Duration::from_secs(5),
        proven: Duration::from_secs(30),
    };

    struct Lab {
        seats: Arc<Seats>,
    }

    impl Lab {
        fn new(most: usize, most_of_one: usize) -> Self {
            Self { seats: Seats::new(most, most_of_one, PATIENCE) }
        }

        fn take(&self, last: u8, second: u64) -> Option<Seat> {
            let now = self.seats.start + Duration::from_secs(second);
            self.seats.take([10, 0, 0, last].into(), now)
        }
    }

    fn is_over(seat: &Seat) -> bool {
        seat.over().is_cancelled()
    }

    #[test]
    fn a_source_with_its_share_gives_up_its_own() {
        let lab = Lab::new(100, 2);
        let (first, second) = (lab.take(1, 0).unwrap(), lab.take(1, 0).unwrap());
        first.prove();
        assert!(lab.take(1, 0).is_none(), "neither was silent for a second");
        let third = lab.take(1, 1).unwrap();
        assert!(!is_over(&first) && is_over(&second), "the other one is proven");
        assert!(lab.take(1, 2).is_none(), "who was told to end is not gone yet");
        drop(second);
        let fourth = lab.take(1, 2).unwrap();
        assert!(is_over(&third) && !is_over(&first));
        drop((first, third, fourth));
        let taken = lab.seats.taken.lock();
        assert!(taken.live.is_empty() && taken.leaving.is_empty());
    }

    #[test]
    fn one_source_shuts_nobody_out() {
        let lab = Lab::new(8, 8);
        let flood: Vec<Seat> = (0..8).map(|_| lab.take(1, 10).unwrap()).collect();
        assert!(lab.take(2, 10).is_none(), "they came just now");
        let other = lab.take(2, 11).unwrap();
        assert_eq!(flood.iter().filter(|seat| is_over(seat)).count(), 1);
        drop(flood);
        // The flood's next come when the one of the other was silent for longest, and leave it alone.
        let flood: Vec<Seat> = (0..7).map(|_| lab.take(1, 20).unwrap()).collect();
        let more = lab.take(1, 21).unwrap();
        assert!(!is_over(&other) && is_over(&flood[0]));
        drop(more);
    }

    #[test]
    fn where_sources_have_alike_the_silent_and_unproven_go() {
        let lab = Lab::new(3, 2);
        let three: Vec<Seat> = (1..4).map(|last| lab.take(last, 0).unwrap()).collect();
        three[0].prove();
        assert!(lab.take(9, 4).is_none());
        let next = lab.take(9, 5).unwrap();
        assert!(is_over(&three[1]) && !is_over(&three[0]) && !is_over(&three[2]));
        drop((three, next));
        assert!(lab.seats.taken.lock().live.is_empty());
        let proven: Vec<Seat> = (1..4).map(|last| lab.take(last, 10).unwrap()).collect();
        proven.iter().for_each(Seat::prove);
        assert!(lab.take(9, 39).is_none());
        assert!(lab.take(9, 40).is_some());
    }
}
