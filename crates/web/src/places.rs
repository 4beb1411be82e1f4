//! Places for peers: connections, requests in flight, bytes of bodies.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use weft_limits::source_of;

/// Time for which a request that waits for its body keeps its place when its own source needs the
/// place for another request. Honest clients may share an address with a peer that opens many such
/// requests, so this time is shorter than for other sources.
const SAFE: Duration = Duration::from_millis(250);

/// A number of places with a limit for each source.
///
/// A holder that waits for its peer says so with [`Place::waits`]. Its places may then be taken back
/// when another holder needs places: first those of the source with the most places, and of its
/// holders the one whose peer sends slowest.
#[derive(Debug)]
pub struct Places {
    limit: usize,
    per_source: usize,
    /// Time that a holder may wait for its peer before its places may be taken back.
    grace: Duration,
    /// The time that a holder may wait when its own source needs the places.
    safe: Duration,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    all: usize,
    by_source: HashMap<IpAddr, usize>,
    holders: HashMap<u64, Holder>,
    next: u64,
}

#[derive(Debug)]
struct Holder {
    source: IpAddr,
    count: usize,
    waits: Option<Wait>,
}

/// A holder's wait for its peer.
#[derive(Debug)]
struct Wait {
    since: Instant,
    bytes: u64,
    taken_back: oneshot::Sender<()>,
}

/// Places of one holder, given back when dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    source: IpAddr,
    key: u64,
}

/// Marks a holder as waiting for its peer until it is dropped.
#[derive(Debug)]
pub struct Waiting<'p>(&'p Place);

/// Resolves when the places of a waiting holder are taken back.
pub type TakenBack = oneshot::Receiver<()>;

impl Places {
    /// `limit` places, at most `per_source` of them for one source.
    #[must_use]
    pub fn new(limit: usize, per_source: usize, grace: Duration) -> Arc<Self> {
        let safe = grace.min(SAFE);
        Arc::new(Self { limit, per_source, grace, safe, held: Mutex::default() })
    }

    /// One place for a peer; `None` if all places, or all of its source, are taken.
    #[must_use]
    pub fn take(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        let place = self.none(peer);
        place.try_grow(1).then_some(place)
    }

    /// A holder without a place, to be grown with [`Place::try_grow`].
    #[must_use]
    pub fn none(self: &Arc<Self>, peer: IpAddr) -> Place {
        let source = source_of(peer);
        let mut held = self.held.lock();
        held.next += 1;
        let key = held.next;
        held.holders.insert(key, Holder { source, count: 0, waits: None });
        drop(held);
        Place { places: Arc::clone(self), source, key }
    }

    /// `None` if `more` places are free; otherwise the holders among whom room must be made.
    fn lacks(&self, held: &Held, source: IpAddr, more: usize) -> Option<Scope> {
        let own = held.by_source.get(&source).copied().unwrap_or_default();
        let fits = |used: usize, limit: usize| limit.saturating_sub(used) >= more;
        match (fits(own, self.per_source), fits(held.all, self.limit)) {
            (false, _) => Some(Scope::Source(source)),
            (true, false) => Some(Scope::All),
            (true, true) => None,
        }
    }
}

/// The holders among whom room is made.
#[derive(Clone, Copy)]
enum Scope {
    Source(IpAddr),
    All,
}

impl Held {
    /// Takes back the places of one holder that has waited for its peer for `grace`: a holder of
    /// the source with the most places and, of those, the one whose peer sends slowest. Returns
    /// false if there is none.
    fn take_back(&mut self, scope: Scope, but: u64, grace: Duration) -> bool {
        let now = Instant::now();
        let candidates = self.holders.iter().filter_map(|(key, holder)| {
            let wait = holder.waits.as_ref().filter(|_| *key != but && holder.count > 0)?;
            let waited = now.saturating_duration_since(wait.since);
            let is_in = match scope {
                Scope::Source(source) => holder.source == source,
                Scope::All => true,
            };
            if waited < grace || !is_in {
                return None;
            }
            let held = self.by_source.get(&holder.source).copied().unwrap_or_default();
            let rate = u128::from(wait.bytes) * 1_000_000 / waited.as_micros().max(1);
            Some((Reverse(held), rate, *key))
        });
        let Some((_, _, key)) = candidates.min() else { return false };
        if let Some(wait) = self.remove(key).and_then(|holder| holder.waits) {
            // The holder may have ended at this moment.
            let _ = wait.taken_back.send(());
        }
        true
    }

    fn remove(&mut self, key: u64) -> Option<Holder> {
        let holder = self.holders.remove(&key)?;
        self.all -= holder.count;
        if let Some(own) = self.by_source.get_mut(&holder.source) {
            *own -= holder.count;
            if *own == 0 {
                self.by_source.remove(&holder.source);
            }
        }
        Some(holder)
    }
}

impl Place {
    /// Takes `more` places. Returns false, and takes none, if too few are free or the holder's
    /// places were taken back.
    #[must_use]
    pub fn try_grow(&self, more: usize) -> bool {
        let mut held = self.places.held.lock();
        if more == 0 || !held.holders.contains_key(&self.key) {
            return more == 0;
        }
        while let Some(scope) = self.places.lacks(&held, self.source, more) {
            let grace = match scope {
                Scope::Source(_) => self.places.safe,
                Scope::All => self.places.grace,
            };
            if !held.take_back(scope, self.key, grace) {
                return false;
            }
        }
        let Some(holder) = held.holders.get_mut(&self.key) else { return false };
        holder.count += more;
        held.all += more;
        *held.by_source.entry(self.source).or_default() += more;
        true
    }

    /// Marks the holder as waiting for its peer.
    #[must_use]
    pub fn waits(&self) -> (Waiting<'_>, TakenBack) {
        let (sender, taken_back) = oneshot::channel();
        let wait = Wait { since: Instant::now(), bytes: 0, taken_back: sender };
        if let Some(holder) = self.places.held.lock().holders.get_mut(&self.key) {
            holder.waits = Some(wait);
        }
        (Waiting(self), taken_back)
    }
}

impl Waiting<'_> {
    /// Notes that this many bytes came from the peer.
    pub fn came(&self, bytes: usize) {
        let mut held = self.0.places.held.lock();
        let holder = held.holders.get_mut(&self.0.key);
        if let Some(wait) = holder.and_then(|holder| holder.waits.as_mut()) {
            wait.bytes += bytes as u64;
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(holder) = self.0.places.held.lock().holders.get_mut(&self.0.key) {
            holder.waits = None;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.held.lock().remove(self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn places_are_shared_and_given_back() {
        let places = Places::new(3, 2, LONG);
        let [a, b] = ["192.0.2.1", "192.0.2.2"].map(ip);
        let first = places.take(a).unwrap();
        let second = places.take(a).unwrap();
        assert!(places.take(a).is_none(), "the share of one source");
        let third = places.take(b).unwrap();
        assert!(places.take(b).is_none(), "all are taken");
        drop((first, third));
        assert!(places.take(b).is_some());
        drop(second);
        let held = places.held.lock();
        assert!(held.by_source.is_empty() && held.holders.is_empty());
    }

    #[test]
    fn places_may_be_many_at_once() {
        let places = Places::new(100, 60, LONG);
        let [a, b] = ["192.0.2.1", "192.0.2.2"].map(ip);
        let (one, two, other) = (places.none(a), places.none(a), places.none(b));
        assert!(one.try_grow(50) && !two.try_grow(11) && two.try_grow(10));
        assert!(!two.try_grow(1) && two.try_grow(0));
        assert!(!other.try_grow(41) && other.try_grow(40));
        drop(one);
        assert!(two.try_grow(50) && !other.try_grow(1));
        drop((two, other));
        let held = places.held.lock();
        assert!(held.all == 0 && held.by_source.is_empty() && held.holders.is_empty());
    }

    #[test]
    fn whoever_gets_on_slowest_makes_room() {
        let places = Places::new(3, 2, Duration::ZERO);
        let [a, b, c] = ["2001:db8::1", "2001:db8::2", "192.0.2.1"].map(ip);
        let (quick, slow, other) =
            (places.take(a).unwrap(), places.take(b).unwrap(), places.take(c).unwrap());
        let ((quick_waits, mut quick_back), (slow_waits, mut slow_back)) =
            (quick.waits(), slow.waits());
        quick_waits.came(1 << 30);
        slow_waits.came(1);
        let third = places.take(a).unwrap();
        assert_eq!(slow_back.try_recv(), Ok(()));
        assert!(!slow.try_grow(1), "it has lost its place");
        // Holders that work keep their places: only one holder waits.
        let fourth = places.take(ip("192.0.2.2")).unwrap();
        assert_eq!(quick_back.try_recv(), Ok(()));
        assert!(places.take(ip("192.0.2.3")).is_none());
        drop((quick_waits, slow_waits));
        drop((quick, slow, other, third, fourth));
        let held = places.held.lock();
        assert!(held.all == 0 && held.by_source.is_empty() && held.holders.is_empty());
    }

    #[tokio::test]
    async fn a_source_that_is_full_takes_its_own_places_back_soon() {
        let places = Places::new(3, 2, LONG);
        let [shared, other] = ["192.0.2.1", "192.0.2.2"].map(ip);
        let held = [shared, shared].map(|peer| places.take(peer).unwrap());
        let waits = held.each_ref().map(Place::waits);
        let last = places.take(other).unwrap();
        assert!(places.take(ip("192.0.2.3")).is_none(), "safe from others");
        drop(last);
        let got = async {
            loop {
                match places.take(shared) {
                    Some(place) => return place,
                    None => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        };
        let got = tokio::time::timeout(Duration::from_secs(60), got).await;
        assert!(got.is_ok());
        drop(waits);
    }

    #[test]
    fn nobody_makes_room_at_once() {
        let places = Places::new(1, 1, LONG);
        let held = places.take(ip("192.0.2.1")).unwrap();
        let _waits = held.waits();
        assert!(places.take(ip("192.0.2.2")).is_none());
    }
}
