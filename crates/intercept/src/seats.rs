//! A limited number of seats, shared fairly by sources. A client without a free seat takes that of the
//! client that has been silent for longest: one of its own source if that has its share, else one of
//! the source with most seats.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use weft_limits::source_of;

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
    most: usize,
    most_of_one: usize,
    patience: Patience,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    live: usize,
    leaving: usize,
    count: u64,
    by_source: HashMap<IpAddr, Held>,
}

#[derive(Debug, Default)]
struct Held {
    live: BTreeMap<u64, Arc<Guest>>,
    /// Clients that were told to end and still have their seats.
    leaving: usize,
}

#[derive(Debug)]
struct Guest {
    number: u64,
    source: IpAddr,
    /// The time of the last use, in milliseconds since the start.
    used: AtomicU64,
    proven: AtomicBool,
    over: CancellationToken,
}

/// A seat; released when dropped.
#[derive(Debug)]
pub struct Seat {
    of: Arc<Seats>,
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
        let (start, taken) = (Instant::now(), Mutex::default());
        Arc::new(Self { start, most, most_of_one, patience, taken })
    }

    /// Takes a seat for a client, if there is one. Another client may be told to end for it.
    pub fn take(self: &Arc<Self>, client: IpAddr, now: Instant) -> Option<Seat> {
        let source = source_of(client);
        let now = self.millis(now);
        let mut taken = self.taken.lock();
        let held = taken.by_source.get(&source);
        let (own, own_leaving) = held.map_or((0, 0), |held| (held.live.len(), held.leaving));
        let (spare, spare_of_one) = spare(self.most);
        if own + own_leaving >= self.most_of_one + spare_of_one
            || taken.live + taken.leaving >= self.most + spare
        {
            return None;
        }
        if own >= self.most_of_one {
            let victim = taken.silent([&source], |_| self.patience.own, now)?;
            taken.send_off(&victim);
        } else if taken.live >= self.most {
            let victim = self.elsewhere(&taken, &source, own, now)?;
            taken.send_off(&victim);
        }
        taken.live += 1;
        taken.count += 1;
        let guest = Arc::new(Guest {
            number: taken.count,
            source,
            used: AtomicU64::new(now),
            proven: AtomicBool::new(false),
            over: CancellationToken::new(),
        });
        let held = taken.by_source.entry(source).or_default();
        held.live.insert(guest.number, Arc::clone(&guest));
        drop(taken);
        Some(Seat { of: Arc::clone(self), guest })
    }

    /// The client whose seat goes to a source that has `count` seats itself.
    fn elsewhere(
        &self,
        taken: &Taken,
        source: &IpAddr,
        own: usize,
        now: u64,
    ) -> Option<Arc<Guest>> {
        let most = taken.by_source.values().map(|held| held.live.len()).max()?;
        if own >= most {
            return taken.silent([source], |_| self.patience.own, now);
        }
        let many = most > 2 * (own + 1);
        let patience = |guest: &Guest| match guest.proven.load(Ordering::Relaxed) {
            _ if many => self.patience.many,
            false => self.patience.unproven,
            true => self.patience.proven,
        };
        let heaviest = taken.by_source.iter().filter(|(_, held)| held.live.len() == most);
        taken.silent(heaviest.map(|(source, _)| source), patience, now)
    }

    fn millis(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.start).as_millis()).unwrap_or(u64::MAX)
    }
}

impl Taken {
    /// The client of these sources that was silent for longest, and long enough; unproven clients come
    /// first.
    fn silent<'a>(
        &self,
        sources: impl IntoIterator<Item = &'a IpAddr>,
        patience: impl Fn(&Guest) -> Duration,
        now: u64,
    ) -> Option<Arc<Guest>> {
        let held = sources.into_iter().filter_map(|source| self.by_source.get(source));
        let silent = held.flat_map(|held| held.live.values()).filter(|guest| {
            let silence = now.saturating_sub(guest.used.load(Ordering::Relaxed));
            u128::from(silence) >= patience(guest).as_millis()
        });
        let key = |guest: &&Arc<Guest>| {
            (guest.proven.load(Ordering::Relaxed), guest.used.load(Ordering::Relaxed), guest.number)
        };
        silent.min_by_key(key).map(Arc::clone)
    }

    /// Tells a client to end; it does not count any more.
    fn send_off(&mut self, guest: &Guest) {
        let Some(held) = self.by_source.get_mut(&guest.source) else { return };
        if held.live.remove(&guest.number).is_some() {
            held.leaving += 1;
            self.live -= 1;
            self.leaving += 1;
        }
        guest.over.cancel();
    }

    fn gone(&mut self, guest: &Guest) {
        let Some(held) = self.by_source.get_mut(&guest.source) else { return };
        if held.live.remove(&guest.number).is_some() {
            self.live -= 1;
        } else {
            held.leaving -= 1;
            self.leaving -= 1;
        }
        if held.live.is_empty() && held.leaving == 0 {
            self.by_source.remove(&guest.source);
        }
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
        self.of.taken.lock().send_off(&self.guest);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.of.taken.lock().gone(&self.guest);
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
        assert_eq!((taken.live, taken.leaving, taken.by_source.len()), (0, 0, 0));
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
        assert_eq!(lab.seats.taken.lock().live, 0);
        let proven: Vec<Seat> = (1..4).map(|last| lab.take(last, 10).unwrap()).collect();
        proven.iter().for_each(Seat::prove);
        assert!(lab.take(9, 39).is_none());
        assert!(lab.take(9, 40).is_some());
    }
}
