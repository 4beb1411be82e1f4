//! Slots for peers that are not authenticated yet.
//!
//! A peer has a slot from its arrival until it is admitted. A slot is safe for the grace time.
//! After that, its peer makes room when others arrive: a peer of the source with most slots first.
//! If a source has taken all of its slots, one of them is taken back sooner, chosen at random,
//! because another user may share the address. Sources of known peers have additional slots of
//! their own.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use weft_limits::{BoundedTable, Caps, SAFE, TableFull, WhenFull, source_of};

use crate::clock::now;

/// Most sources of known peers that are remembered.
const KNOWN_SOURCES: usize = 4096;

/// The interval at which waiting peers are given the slots of peers whose time is over.
pub(crate) const PACE: Duration = Duration::from_millis(100);

/// The limits of a [`Door`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct DoorLimits {
    pub(crate) slots: usize,
    pub(crate) per_source: usize,
    /// How long a slot is safe.
    pub(crate) grace: Duration,
}

/// The sources of known peers.
#[derive(Debug)]
pub(crate) struct KnownSources(Mutex<BoundedTable<IpAddr, (), ()>>);

impl KnownSources {
    pub(crate) fn new() -> Arc<Self> {
        let caps = Caps {
            total: KNOWN_SOURCES,
            per_source: KNOWN_SOURCES,
            max_age: None,
            when_full: WhenFull::EvictOldest,
        };
        Arc::new(Self(Mutex::new(BoundedTable::new(caps))))
    }

    fn add(&self, source: IpAddr) {
        // There is always room, because the source that was not seen for longest is removed.
        let _ = self.0.lock().insert(source, (), (), now());
    }

    fn has(&self, source: IpAddr) -> bool {
        self.0.lock().get(&source, now()).is_some()
    }
}

/// The slots of one socket or protocol.
pub(crate) struct Door {
    anybody: Mutex<SlotTable>,
    /// Slots for known sources only.
    reserved: Mutex<SlotTable>,
    known: Arc<KnownSources>,
    freed: Notify,
}

struct SlotTable {
    held: BoundedTable<u64, oneshot::Sender<()>, IpAddr>,
    next: u64,
    /// How long a slot is safe from its own source.
    safe: Duration,
}

/// A slot; released when dropped.
pub struct PendingSlot {
    door: Arc<Door>,
    source: IpAddr,
    is_reserved: bool,
    key: u64,
}

/// Becomes ready when the slot is taken back.
pub(crate) type TakenBack = oneshot::Receiver<()>;

impl SlotTable {
    fn new(limits: DoorLimits) -> Mutex<Self> {
        let caps = Caps {
            total: limits.slots.max(1),
            per_source: limits.per_source.max(1),
            max_age: None,
            when_full: WhenFull::EvictOlderThan(limits.grace),
        };
        let safe = limits.grace.min(SAFE);
        Mutex::new(Self { held: BoundedTable::new(caps), next: 0, safe })
    }

    fn enter(&mut self, source: IpAddr) -> Result<(u64, TakenBack), TableFull> {
        let (sender, taken_back) = oneshot::channel();
        let key = self.next;
        if let weft_limits::Inserted::Evicted(_, evicted) =
            self.held.insert(key, sender, source, now())?
        {
            // The peer may have gone at this moment.
            let _ = evicted.send(());
        }
        self.next += 1;
        Ok((key, taken_back))
    }

    /// Takes a slot of a source back, chosen at random, so that a peer that opens many keeps no particular peer out.
    /// False if no slot is old enough.
    fn make_way(&mut self, source: IpAddr) -> bool {
        let any = |of: usize| rand::random_range(0..of.max(1));
        let Some((_, evicted)) = self.held.take_of(&source, self.safe, now(), any) else {
            return false;
        };
        // The peer may have gone at this moment.
        let _ = evicted.send(());
        true
    }
}

impl Door {
    /// The slots of `limits` for all peers, and a quarter as many more for known sources.
    pub(crate) fn new(limits: DoorLimits, known: Arc<KnownSources>) -> Arc<Self> {
        let reserved = DoorLimits {
            slots: limits.slots.div_ceil(4),
            per_source: limits.per_source.div_ceil(4),
            ..limits
        };
        Arc::new(Self {
            anybody: SlotTable::new(limits),
            reserved: SlotTable::new(reserved),
            known,
            freed: Notify::new(),
        })
    }

    /// Takes a slot for a peer; an error says why there is none.
    pub(crate) fn enter(
        self: &Arc<Self>,
        peer: IpAddr,
    ) -> Result<(PendingSlot, TakenBack), TableFull> {
        let source = source_of(peer);
        let slot = |is_reserved, (key, taken_back)| {
            (PendingSlot { door: Arc::clone(self), source, is_reserved, key }, taken_back)
        };
        if self.known.has(source)
            && let Ok(entered) = self.reserved.lock().enter(source)
        {
            return Ok(slot(true, entered));
        }
        self.anybody.lock().enter(source).map(|entered| slot(false, entered))
    }

    /// True if known peers came from this source before.
    pub(crate) fn knows(&self, peer: IpAddr) -> bool {
        self.known.has(source_of(peer))
    }

    /// Takes a slot for a peer whose source has taken all of its slots and that cannot wait: another peer of the
    /// source makes room.
    pub(crate) fn press_in(
        self: &Arc<Self>,
        peer: IpAddr,
    ) -> Result<(PendingSlot, TakenBack), TableFull> {
        let source = source_of(peer);
        let is_free = self.anybody.lock().make_way(source)
            || (self.known.has(source) && self.reserved.lock().make_way(source));
        match is_free {
            true => self.enter(peer),
            false => Err(TableFull::Source(0)),
        }
    }

    /// Takes a slot, waiting if none is free. Meanwhile the peer keeps its present slot, because it waits for this
    /// side.
    pub(crate) async fn enter_in_turn(
        self: &Arc<Self>,
        peer: IpAddr,
        kept: &PendingSlot,
    ) -> (PendingSlot, TakenBack) {
        let since = Instant::now();
        loop {
            let entered = match self.enter(peer) {
                Err(TableFull::Source(_)) if since.elapsed() >= SAFE => self.press_in(peer),
                entered => entered,
            };
            if let Ok(entered) = entered {
                return entered;
            }
            kept.renew();
            // The time of another slot may be over meanwhile, too.
            let _ = tokio::time::timeout(PACE, self.freed()).await;
        }
    }

    /// Waits until a slot may have been released.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }
}

impl PendingSlot {
    fn slots(&self) -> &Mutex<SlotTable> {
        if self.is_reserved { &self.door.reserved } else { &self.door.anybody }
    }

    /// Makes the slot as safe as a new one.
    fn renew(&self) {
        let mut slots = self.slots().lock();
        if let Some(sender) = slots.held.remove(&self.key) {
            // There is room, because the same entry has just been removed.
            let _ = slots.held.insert(self.key, sender, self.source, now());
        }
    }

    /// Notes that the peer is known here: its source has slots that unknown peers cannot take from now on.
    pub(crate) fn vouch(&self) {
        self.door.known.add(self.source);
    }
}

impl Drop for PendingSlot {
    fn drop(&mut self) {
        self.slots().lock().held.remove(&self.key);
        self.door.freed.notify_one();
    }
}

impl fmt::Debug for PendingSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingSlot").field("source", &self.source).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn door(grace: Duration) -> Arc<Door> {
        Door::new(DoorLimits { slots: 4, per_source: 2, grace }, KnownSources::new())
    }

    #[test]
    fn whoever_waits_for_long_makes_room() {
        let door = door(Duration::ZERO);
        let [a, b, c] = ["192.0.2.1", "192.0.2.2", "2001:db8::1"].map(ip);
        let mut held: Vec<_> = [a, a, b, c].map(|peer| door.enter(peer).unwrap()).into();
        let _own = door.enter(a).unwrap();
        assert_eq!(held[0].1.try_recv(), Ok(()), "a source displaces itself");
        let _other = door.enter(ip("192.0.2.9")).unwrap();
        assert_eq!(held[1].1.try_recv(), Ok(()), "the greediest source makes room");
        assert!(held[2].1.try_recv().is_err() && held[3].1.try_recv().is_err());
    }

    #[test]
    fn a_rush_waits_and_places_come_back() {
        let door = door(Duration::from_secs(3600));
        let site = ["2001:db8::1", "2001:db8::2", "2001:db8::3"].map(ip);
        let [first, second] = [site[0], site[1]].map(|peer| door.enter(peer).unwrap());
        assert!(matches!(door.enter(site[2]), Err(TableFull::Source(2))), "one network");
        let _others = ["192.0.2.1", "192.0.2.2"].map(|peer| door.enter(ip(peer)).unwrap());
        assert!(matches!(door.enter(ip("192.0.2.3")), Err(TableFull::Total(4))));
        drop((first, second));
        assert!(door.enter(site[2]).is_ok());
    }

    #[tokio::test]
    async fn whoever_waits_at_the_next_door_keeps_his_place_at_this_one() {
        let long = Duration::from_secs(3600);
        let (first, next) = (door(Duration::ZERO), door(long));
        let [a, b] = ["192.0.2.1", "192.0.2.2"].map(ip);
        let mut full: Vec<_> = [a, a, b, b].map(|peer| next.enter(peer).unwrap()).into();
        let (kept, mut back) = first.enter(ip("192.0.2.3")).unwrap();
        let (other, mut other_back) = first.enter(ip("192.0.2.3")).unwrap();
        {
            let mut waits = Box::pin(next.enter_in_turn(ip("192.0.2.3"), &kept));
            assert!(futures::poll!(&mut waits).is_pending());
            let _third = first.enter(ip("192.0.2.3")).unwrap();
            assert_eq!(other_back.try_recv(), Ok(()), "the one that has just come is older now");
            full.pop();
            waits.await;
        }
        assert!(back.try_recv().is_err());
        drop((kept, other));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_keeps_all_places_of_an_address_shares_them_in_time() {
        let long = Duration::from_secs(3600);
        let (first, next) = (door(long), door(long));
        let shared = ip("192.0.2.1");
        let mut silent: Vec<_> = [shared, shared].map(|peer| next.enter(peer).unwrap()).into();
        let (kept, _back) = first.enter(shared).unwrap();
        let entering = next.enter_in_turn(shared, &kept);
        let entered = tokio::time::timeout(Duration::from_secs(60), entering).await;
        assert!(entered.is_ok());
        let told = silent.iter_mut().map(|(_, back)| back.try_recv());
        let gone = told.filter(|told| *told == Ok(())).count();
        assert_eq!(gone, 1, "one makes room for one");
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_safe_from_its_own_source_for_a_moment() {
        let door = door(Duration::from_secs(3600));
        let shared = ip("192.0.2.1");
        let _held = [shared, shared].map(|peer| door.enter(peer).unwrap());
        assert!(door.press_in(shared).is_err());
        tokio::time::advance(SAFE).await;
        assert!(door.press_in(shared).is_ok());
    }

    #[test]
    fn known_sources_have_places_that_strangers_cannot_take() {
        let door = door(Duration::from_secs(3600));
        let known = ip("192.0.2.1");
        door.enter(known).unwrap().0.vouch();
        let _full: Vec<_> =
            (2..6).map(|last| door.enter(ip(&format!("192.0.2.{last}"))).unwrap()).collect();
        assert!(door.enter(ip("192.0.2.9")).is_err());
        let (slot, _) = door.enter(known).unwrap();
        assert!(door.enter(ip("192.0.2.9")).is_err());
        assert!(door.enter(known).is_err(), "and no more than its share of them");
        drop(slot);
        assert!(door.enter(known).is_ok());
    }
}
