//! Permits for peers: connections, requests in flight, bytes of bodies.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use weft_limits::{Among, Full, Held, HolderId, Quota, SAFE, source_of};

/// A number of permits with a limit for each source.
///
/// A holder that waits for its peer says so with [`PeerPermit::waits`]. Its permits may then be taken back
/// when another holder needs permits: first those of the source with the most permits, and of its
/// holders the one whose peer sends slowest.
#[derive(Debug)]
pub struct PeerQuota {
    /// Time that a holder may wait for its peer before its permits may be taken back.
    grace: Duration,
    /// The time that a holder may wait when its own source needs the permits.
    safe: Duration,
    /// The holders, with their waits.
    held: Mutex<Quota<IpAddr, Option<Wait>>>,
}

/// A holder's wait for its peer.
#[derive(Debug)]
struct Wait {
    since: Instant,
    bytes: u64,
    taken_back: oneshot::Sender<()>,
}

/// Permits of one holder, given back when dropped.
#[derive(Debug)]
pub struct PeerPermit {
    quota: Arc<PeerQuota>,
    source: IpAddr,
    id: HolderId,
}

/// Marks a holder as waiting for its peer until it is dropped.
#[derive(Debug)]
pub struct StallGuard<'p>(&'p PeerPermit);

/// Resolves when the permits of a waiting holder are taken back.
pub type TakenBack = oneshot::Receiver<()>;

impl PeerQuota {
    /// `limit` permits, at most `per_source` of them for one source.
    #[must_use]
    pub fn new(limit: usize, per_source: usize, grace: Duration) -> Arc<Self> {
        let safe = grace.min(SAFE);
        Arc::new(Self { grace, safe, held: Mutex::new(Quota::new(limit, per_source)) })
    }

    /// One permit for a peer; `None` if all permits, or all of its source, are taken.
    #[must_use]
    pub fn take(self: &Arc<Self>, peer: IpAddr) -> Option<PeerPermit> {
        let permit = self.none(peer);
        permit.try_grow(1).then_some(permit)
    }

    /// A holder without a permit, to be grown with [`PeerPermit::try_grow`].
    #[must_use]
    pub fn none(self: &Arc<Self>, peer: IpAddr) -> PeerPermit {
        let source = source_of(peer);
        let id = self.held.lock().enter(&source, 0, None);
        PeerPermit { quota: Arc::clone(self), source, id }
    }
}

impl PeerPermit {
    /// Takes `more` permits. Returns false, and takes none, if too few are free or the holder's
    /// permits were taken back.
    #[must_use]
    pub fn try_grow(&self, more: usize) -> bool {
        let mut held = self.quota.held.lock();
        if more == 0 || held.holder_mut(&self.source, self.id).is_none() {
            return more == 0;
        }
        while let Err(full) = held.check(&self.source, more) {
            let now = Instant::now();
            let (among, grace) = match full {
                Full::Key(_) => (Among::Key(&self.source), self.quota.safe),
                Full::Total => (Among::Greediest(0), self.quota.grace),
            };
            let slowest = held.displace(among, |id, held| self.slowness(id, held, grace, now));
            let Some((_, Held { holder, .. })) = slowest else { return false };
            if let Some(wait) = holder {
                // The holder may have ended at this moment.
                let _ = wait.taken_back.send(());
            }
        }
        held.grow(&self.source, self.id, more)
    }

    /// The rank of another holder whose permits may be taken back: one that has waited for its peer for `grace`. The
    /// one whose peer sends slowest comes first.
    fn slowness(
        &self,
        id: HolderId,
        held: &Held<Option<Wait>>,
        grace: Duration,
        now: Instant,
    ) -> Option<(u128, HolderId)> {
        let wait = held.holder.as_ref().filter(|_| id != self.id && held.places > 0)?;
        let waited = now.saturating_duration_since(wait.since);
        let rate = u128::from(wait.bytes) * 1_000_000 / waited.as_micros().max(1);
        (waited >= grace).then_some((rate, id))
    }

    /// Marks the holder as waiting for its peer.
    #[must_use]
    pub fn waits(&self) -> (StallGuard<'_>, TakenBack) {
        let (sender, taken_back) = oneshot::channel();
        let wait = Wait { since: Instant::now(), bytes: 0, taken_back: sender };
        if let Some(waits) = self.quota.held.lock().holder_mut(&self.source, self.id) {
            *waits = Some(wait);
        }
        (StallGuard(self), taken_back)
    }
}

impl StallGuard<'_> {
    /// Notes that this many bytes came from the peer.
    pub fn came(&self, bytes: usize) {
        let mut held = self.0.quota.held.lock();
        if let Some(Some(wait)) = held.holder_mut(&self.0.source, self.0.id) {
            wait.bytes += bytes as u64;
        }
    }
}

impl Drop for StallGuard<'_> {
    fn drop(&mut self) {
        if let Some(waits) = self.0.quota.held.lock().holder_mut(&self.0.source, self.0.id) {
            *waits = None;
        }
    }
}

impl Drop for PeerPermit {
    fn drop(&mut self) {
        self.quota.held.lock().leave(&self.source, self.id);
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
        let quota = PeerQuota::new(3, 2, LONG);
        let [a, b] = ["192.0.2.1", "192.0.2.2"].map(ip);
        let first = quota.take(a).unwrap();
        let second = quota.take(a).unwrap();
        assert!(quota.take(a).is_none(), "the share of one source");
        let third = quota.take(b).unwrap();
        assert!(quota.take(b).is_none(), "all are taken");
        drop((first, third));
        assert!(quota.take(b).is_some());
        drop(second);
        assert!(quota.held.lock().is_empty());
    }

    #[test]
    fn places_may_be_many_at_once() {
        let quota = PeerQuota::new(100, 60, LONG);
        let [a, b] = ["192.0.2.1", "192.0.2.2"].map(ip);
        let (one, two, other) = (quota.none(a), quota.none(a), quota.none(b));
        assert!(one.try_grow(50) && !two.try_grow(11) && two.try_grow(10));
        assert!(!two.try_grow(1) && two.try_grow(0));
        assert!(!other.try_grow(41) && other.try_grow(40));
        drop(one);
        assert!(two.try_grow(50) && !other.try_grow(1));
        drop((two, other));
        assert!(quota.held.lock().is_empty());
    }

    #[test]
    fn whoever_gets_on_slowest_makes_room() {
        let quota = PeerQuota::new(3, 2, Duration::ZERO);
        let [a, b, c] = ["2001:db8::1", "2001:db8::2", "192.0.2.1"].map(ip);
        let (quick, slow, other) =
            (quota.take(a).unwrap(), quota.take(b).unwrap(), quota.take(c).unwrap());
        let ((quick_waits, mut quick_back), (slow_waits, mut slow_back)) =
            (quick.waits(), slow.waits());
        quick_waits.came(1 << 30);
        slow_waits.came(1);
        let third = quota.take(a).unwrap();
        assert_eq!(slow_back.try_recv(), Ok(()));
        assert!(!slow.try_grow(1), "it has lost its place");
        // Holders that work keep their permits: only one holder waits.
        let fourth = quota.take(ip("192.0.2.2")).unwrap();
        assert_eq!(quick_back.try_recv(), Ok(()));
        assert!(quota.take(ip("192.0.2.3")).is_none());
        drop((quick_waits, slow_waits));
        drop((quick, slow, other, third, fourth));
        assert!(quota.held.lock().is_empty());
    }

    #[tokio::test]
    async fn a_source_that_is_full_takes_its_own_places_back_soon() {
        let quota = PeerQuota::new(3, 2, LONG);
        let [shared, other] = ["192.0.2.1", "192.0.2.2"].map(ip);
        let held = [shared, shared].map(|peer| quota.take(peer).unwrap());
        let waits = held.each_ref().map(PeerPermit::waits);
        let last = quota.take(other).unwrap();
        assert!(quota.take(ip("192.0.2.3")).is_none(), "safe from others");
        drop(last);
        let got = async {
            loop {
                match quota.take(shared) {
                    Some(permit) => return permit,
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
        let quota = PeerQuota::new(1, 1, LONG);
        let held = quota.take(ip("192.0.2.1")).unwrap();
        let _waits = held.waits();
        assert!(quota.take(ip("192.0.2.2")).is_none());
    }
}
