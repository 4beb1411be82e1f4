//! Memory of incomplete frames: one budget for all connections of a process.
//!
//! The part of a frame that has arrived is held until the rest arrives, which may be never. Frames of
//! ordinary size are counted and never refused, because the number of connections is limited. A large
//! frame has to find room: if there is none, a connection is closed, namely the one that has held a large
//! frame for longest, of the source whose large frames hold the most bytes. Peers that are not judged
//! yet share a small part of the budget.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use weft_limits::{Budget, Grant, source_of};

use crate::error::CloseReason;
use crate::wake::UnderlayWaker;

/// The budget of a process, in bytes.
const PROCESS: u64 = 256 << 20;
/// The fraction of it that unjudged peers share: an eighth.
const UNJUDGED_SHARE: u64 = 8;
/// Bytes that a connection may hold without being counted.
const FREE: u64 = 4 << 10;
/// Longest frame, in bytes, that is read even if the budget has no room for it.
const ORDINARY: u64 = 64 << 10;

static OF_PROCESS: LazyLock<FrameMemory> = LazyLock::new(|| FrameMemory::new(PROCESS));

/// The budget. Clones share it.
#[derive(Debug, Clone)]
pub struct FrameMemory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    budget: Budget,
    unjudged: Budget,
    large: Mutex<Large>,
}

/// Incomplete large frames, in the order in which they began.
#[derive(Debug, Default)]
struct Large {
    begun: BTreeMap<u64, Holder>,
    next: u64,
}

#[derive(Debug)]
struct Holder {
    source: IpAddr,
    bytes: u64,
    cut: Arc<Cut>,
}

#[derive(Debug)]
struct Cut {
    is_cut: AtomicBool,
    waker: UnderlayWaker,
}

impl FrameMemory {
    /// A budget of this many bytes.
    pub fn new(bytes: u64) -> Self {
        let budget = Budget::new(bytes);
        let unjudged = budget.child(bytes / UNJUDGED_SHARE);
        Self(Arc::new(Inner { budget, unjudged, large: Mutex::default() }))
    }

    /// The budget of this process.
    pub fn of_process() -> Self {
        OF_PROCESS.clone()
    }

    /// Bytes of incomplete frames.
    pub fn used(&self) -> u64 {
        self.0.budget.used()
    }
}

/// The incomplete frame of one connection.
#[derive(Debug)]
pub(crate) struct Partial {
    memory: FrameMemory,
    source: IpAddr,
    grant: Grant,
    is_judged: bool,
    /// Its number among the large frames.
    large: Option<u64>,
    cut: Arc<Cut>,
}

impl Partial {
    pub(crate) fn new(memory: FrameMemory, peer: IpAddr, waker: UnderlayWaker) -> Self {
        let grant = memory.0.unjudged.empty();
        let cut = Arc::new(Cut { is_cut: AtomicBool::new(false), waker });
        Self { memory, source: source_of(peer), grant, is_judged: false, large: None, cut }
    }

    /// An error if the connection is to be closed in favour of others.
    pub(crate) fn check(&self) -> Result<(), CloseReason> {
        match self.cut.is_cut.load(Ordering::Relaxed) {
            true => Err(CloseReason::FrameMemory),
            false => Ok(()),
        }
    }

    /// Notes that the frame is complete.
    pub(crate) fn whole(&mut self) {
        if self.large.is_some() {
            self.note_large(0);
            self.grant.shrink(self.grant.bytes());
        }
    }

    /// Notes that the connection holds this many bytes of a frame.
    pub(crate) fn hold(&mut self, bytes: usize, is_judged: bool) -> Result<(), CloseReason> {
        let bytes = bytes as u64;
        if is_judged && !self.is_judged {
            self.is_judged = true;
            self.grant = self.memory.0.budget.take_anyway(self.grant.bytes());
        }
        let held = self.grant.bytes();
        if bytes <= FREE && held == 0 {
            return Ok(());
        }
        if bytes <= FREE || bytes < held {
            self.grant.shrink(if bytes <= FREE { held } else { held - bytes });
            self.note_large(bytes);
            return Ok(());
        }
        let more = bytes - held;
        match (self.is_judged, bytes <= ORDINARY) {
            (false, _) if self.grant.try_grow(more) => Ok(()),
            (false, _) => Err(CloseReason::FrameMemory),
            (true, true) => {
                self.grant.grow_anyway(more);
                self.note_large(bytes);
                Ok(())
            }
            (true, false) => self.grow(bytes, more),
        }
    }

    /// Removes the frame from the large ones if it is not large any more.
    fn note_large(&mut self, bytes: u64) {
        if bytes <= ORDINARY
            && let Some(order) = self.large.take()
        {
            self.memory.0.large.lock().begun.remove(&order);
        }
    }

    fn grow(&mut self, bytes: u64, more: u64) -> Result<(), CloseReason> {
        let mut large = self.memory.0.large.lock();
        let order = *self.large.get_or_insert_with(|| {
            large.next += 1;
            large.next
        });
        let holder = || Holder { source: self.source, bytes: 0, cut: Arc::clone(&self.cut) };
        large.begun.entry(order).or_insert_with(holder).bytes = bytes;
        let mut coming_free = 0;
        while !self.grant.try_grow(more) {
            if coming_free >= more {
                // Connections that were closed release their bytes at once.
                self.grant.grow_anyway(more);
                break;
            }
            let Some((other, given_up)) = large.give_up() else {
                return Err(CloseReason::FrameMemory);
            };
            if other == order {
                return Err(CloseReason::FrameMemory);
            }
            given_up.cut.is_cut.store(true, Ordering::Relaxed);
            given_up.cut.waker.wake();
            coming_free += given_up.bytes;
        }
        Ok(())
    }
}

impl Large {
    /// Removes the oldest frame of the source that holds the most bytes.
    fn give_up(&mut self) -> Option<(u64, Holder)> {
        let mut of_source: HashMap<IpAddr, (u64, u64)> = HashMap::new();
        for (order, holder) in &self.begun {
            let (bytes, _) = of_source.entry(holder.source).or_insert((0, *order));
            *bytes += holder.bytes;
        }
        let most = of_source.values().max_by_key(|(bytes, order)| (*bytes, u64::MAX - order));
        let (_, order) = *most?;
        self.begun.remove(&order).map(|holder| (order, holder))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        self.note_large(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn partial(memory: &FrameMemory, last: u8) -> Partial {
        Partial::new(memory.clone(), [192, 0, 2, last].into(), UnderlayWaker::default())
    }

    #[test]
    fn the_greediest_source_makes_room() {
        let memory = FrameMemory::new(8 << 20);
        let mut greedy: Vec<_> = (0..3).map(|_| partial(&memory, 1)).collect();
        for one in &mut greedy {
            one.hold(2 * MIB, true).unwrap();
        }
        let mut modest = partial(&memory, 2);
        modest.hold(2 * MIB, true).unwrap();
        assert_eq!(memory.used(), 8 << 20);
        modest.hold(3 * MIB, true).unwrap();
        assert!(greedy[0].check().is_err(), "the oldest of it");
        assert!(greedy[1].check().is_ok() && modest.check().is_ok());
        greedy.remove(0);
        assert_eq!(memory.used(), 7 << 20);
        // A peer that asks for memory and itself holds the most is refused.
        modest.hold(7 * MIB, true).unwrap_err();
        drop((greedy, modest));
        assert_eq!(memory.used(), 0);
        assert!(memory.0.large.lock().begun.is_empty());
    }

    #[test]
    fn ordinary_frames_are_counted_and_never_refused() {
        let memory = FrameMemory::new(1 << 20);
        let mut all: Vec<_> = (0..100).map(|_| partial(&memory, 1)).collect();
        for one in &mut all {
            one.hold(ORDINARY as usize, true).unwrap();
        }
        assert_eq!(memory.used(), 100 * ORDINARY);
        partial(&memory, 2).hold(2 * MIB, true).unwrap_err();
        for one in &mut all {
            one.hold(10, true).unwrap();
        }
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn whoever_gets_on_is_not_taken_for_the_oldest() {
        let memory = FrameMemory::new(4 << 20);
        let [mut busy, mut stuck, mut other] = [1, 1, 2].map(|last| partial(&memory, last));
        busy.hold(MIB, true).unwrap();
        stuck.hold(MIB, true).unwrap();
        // One message after the other.
        busy.whole();
        busy.hold(MIB, true).unwrap();
        other.hold(3 * MIB, true).unwrap_err();
        other.whole();
        other.hold(2 * MIB, true).unwrap();
        let mut third = partial(&memory, 1);
        third.hold(MIB, true).unwrap();
        assert!(stuck.check().is_err());
        assert!(busy.check().is_ok() && other.check().is_ok());
    }

    #[test]
    fn strangers_share_a_part() {
        let memory = FrameMemory::new(8 << 20);
        let mut strangers: Vec<_> = (0..16).map(|_| partial(&memory, 1)).collect();
        for one in &mut strangers {
            one.hold(ORDINARY as usize, false).unwrap();
        }
        partial(&memory, 2).hold(ORDINARY as usize, false).unwrap_err();
        // A judged peer draws on the rest of the budget.
        strangers[0].hold(2 * MIB, true).unwrap();
        partial(&memory, 2).hold(ORDINARY as usize, false).unwrap();
        drop(strangers);
        assert_eq!(memory.used(), 0);
    }
}
