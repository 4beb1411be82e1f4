//! A circuit on this router: who owns it, and where what comes from an address goes.

use std::{
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;

use super::{ConnOwner, Destination, LocalEnd, SdkCircuit};
use crate::seam::ControllerId;

/// A circuit.
#[derive(Debug)]
pub(crate) struct Circuit {
    /// Its id.
    pub(crate) id: Arc<str>,
    /// The controller that made it.
    pub(crate) owner: ControllerId,
    ended: AtomicBool,
    /// Milliseconds since the process began when something was forwarded last.
    active: AtomicU64,
    routes: RwLock<Routes>,
    /// SDKs that will close the circuit once more, for an end of it that was taken from them.
    closing: Mutex<Vec<Weak<dyn ConnOwner>>>,
}

/// Hops, as they are kept.
type Hops = SmallVec<[Hop; 2]>;

/// Where what comes goes, and who is about to say so.
#[derive(Debug, Default)]
struct Routes {
    hops: Hops,
    /// The newest attempt to set the circuit up.
    newest: Option<u32>,
    /// Routes that are being set up.
    under_way: usize,
}

/// What comes from one address.
#[derive(Debug, Clone)]
pub(crate) struct Hop {
    /// The address it comes from.
    pub(crate) source: Arc<str>,
    /// The address it goes to.
    pub(crate) destination: Arc<str>,
}

impl Circuit {
    pub(crate) fn new(id: &str, owner: ControllerId) -> Arc<Self> {
        Arc::new(Self {
            id: id.into(),
            owner,
            ended: AtomicBool::new(false),
            active: AtomicU64::new(coarse_now()),
            routes: RwLock::default(),
            closing: Mutex::default(),
        })
    }

    /// Something was forwarded.
    pub(crate) fn touch(&self) {
        let now = coarse_now();
        // Most calls fall into the same second: a read is cheaper than a write that other cores see.
        if now - self.active.load(Ordering::Relaxed).min(now) >= 1000 {
            self.active.store(now, Ordering::Relaxed);
        }
    }

    /// How long nothing was forwarded, to a second.
    pub(crate) fn idle(&self) -> Duration {
        Duration::from_millis(coarse_now().saturating_sub(self.active.load(Ordering::Relaxed)))
    }

    /// The circuit is over. True for the first who says so.
    pub(crate) fn end(&self) -> bool {
        !self.ended.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Where what comes from this address goes.
    pub(crate) fn next(&self, source: &str) -> Option<Arc<str>> {
        let hops = &self.routes.read().hops;
        hops.iter().find(|hop| &*hop.source == source).map(|hop| Arc::clone(&hop.destination))
    }

    /// A route is being set up by this attempt, or by none. `None` if a newer one was begun; else
    /// the addresses of older ones, whose hops are gone.
    pub(super) fn begin(&self, attempt: Option<u32>) -> Option<SmallVec<[Arc<str>; 2]>> {
        let mut routes = self.routes.write();
        if routes.is_superseded(attempt) {
            return None;
        }
        let mut older = Hops::new();
        if routes.newest < attempt {
            routes.newest = attempt;
            older = std::mem::take(&mut routes.hops);
        }
        routes.under_way += 1;
        Some(older.into_iter().map(|hop| hop.source).collect())
    }

    /// True if a newer attempt was begun.
    pub(super) fn is_superseded(&self, attempt: Option<u32>) -> bool {
        self.routes.read().is_superseded(attempt)
    }

    /// A set-up is over, well or not. True if the circuit has no route and none is being set up.
    pub(super) fn is_unused_after_set_up(&self) -> bool {
        let mut routes = self.routes.write();
        routes.under_way -= 1;
        routes.under_way == 0 && routes.hops.is_empty()
    }

    /// Adds hops; one that is there already leads elsewhere from now on. Returns what was there
    /// before, to undo; `None` if a newer attempt was begun.
    pub(super) fn set_hops(&self, attempt: Option<u32>, new: &[Hop]) -> Option<Hops> {
        let mut routes = self.routes.write();
        if routes.is_superseded(attempt) {
            return None;
        }
        let before = routes.hops.clone();
        for hop in new {
            match routes.hops.iter_mut().find(|known| known.source == hop.source) {
                Some(known) => known.destination = Arc::clone(&hop.destination),
                None => routes.hops.push(hop.clone()),
            }
        }
        Some(before)
    }

    /// Puts back what [`Self::set_hops`] returned.
    pub(super) fn restore_hops(&self, before: Hops) {
        self.routes.write().hops = before;
    }

    /// All addresses of the circuit on this router.
    pub(crate) fn addresses(&self) -> SmallVec<[Arc<str>; 2]> {
        self.routes.read().hops.iter().map(|hop| Arc::clone(&hop.source)).collect()
    }

    /// An end of the circuit was taken from this SDK, which answers by closing the circuit: by its
    /// id, so that the close could be taken for that of an end which it has since (protocol: sdk 13).
    pub(crate) fn expect_close(&self, of: Weak<dyn ConnOwner>) {
        self.closing.lock().push(of);
    }

    /// An SDK closes the circuit. True if that is about an end that was taken from it.
    pub(crate) fn expected_close(&self, of: &Weak<dyn ConnOwner>) -> bool {
        let mut closing = self.closing.lock();
        let known = |one: &Weak<dyn ConnOwner>| std::ptr::addr_eq(one.as_ptr(), of.as_ptr());
        let at = closing.iter().position(known);
        at.map(|at| closing.swap_remove(at)).is_some()
    }
}

impl Routes {
    fn is_superseded(&self, attempt: Option<u32>) -> bool {
        attempt.is_some() && attempt < self.newest
    }
}

/// A destination that is looked up once and kept. It is not kept alive: two ends that lead to each
/// other would never be dropped.
#[derive(Debug, Default)]
pub(crate) struct Cached(OnceLock<Target>);

#[derive(Debug)]
enum Target {
    Local(Weak<LocalEnd>),
    Sdk(Weak<SdkCircuit>),
}

impl Cached {
    /// The destination, looked up by `find` if it is not known yet; `None` if there is none, or if
    /// it is gone.
    pub(crate) fn get(&self, find: impl FnOnce() -> Option<Destination>) -> Option<Destination> {
        match self.0.get() {
            Some(Target::Local(end)) => end.upgrade().map(Destination::Local),
            Some(Target::Sdk(end)) => end.upgrade().map(Destination::Sdk),
            None => {
                let found = find()?;
                let _ = self.0.set(match &found {
                    Destination::Local(end) => Target::Local(Arc::downgrade(end)),
                    Destination::Sdk(end) => Target::Sdk(Arc::downgrade(end)),
                });
                Some(found)
            }
        }
    }
}

/// Milliseconds since the first call.
fn coarse_now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(source: &str, destination: &str) -> Hop {
        Hop { source: source.into(), destination: destination.into() }
    }

    #[test]
    fn hops_are_replaced_by_source_and_can_be_put_back() {
        let circuit = Circuit::new("c", "ctrl".into());
        let before = circuit.set_hops(Some(0), &[hop("a", "b"), hop("b", "a")]);
        assert!(before.unwrap().is_empty());
        let before = circuit.set_hops(None, &[hop("a", "link")]).unwrap();
        assert_eq!(circuit.next("a").as_deref(), Some("link"));
        assert_eq!(circuit.next("b").as_deref(), Some("a"));
        circuit.restore_hops(before);
        assert_eq!(circuit.next("a").as_deref(), Some("b"));
        assert_eq!(circuit.next("x"), None);
    }

    #[test]
    fn a_circuit_ends_once() {
        let circuit = Circuit::new("c", "ctrl".into());
        assert!(circuit.end() && !circuit.end() && circuit.has_ended());
    }
}
