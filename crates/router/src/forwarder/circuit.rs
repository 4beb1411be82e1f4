//! A circuit on this router: the controller that had it made, and the next place for messages from each
//! of its addresses.

mod pairs;
mod routes;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;
use weft_circuit::{HopFlow, HopQueue, Outlet};

pub(super) use self::pairs::comes_from_host;
pub(super) use self::routes::Before;
pub(crate) use self::routes::ForwardingEntry;
use self::routes::{LEFT, Routes};
use super::owner::ConnOwner;
use crate::measures::{Book, Carried};
use crate::seam::ControllerId;

/// What a circuit has lost: its links, and the addresses that it had entries from.
pub(super) type Lost = (SmallVec<[Arc<str>; 2]>, SmallVec<[Arc<str>; 2]>);

/// A circuit. `F` is the flow that the outlets of its links serve.
#[derive(Debug)]
pub(crate) struct Circuit<F> {
    /// The id of the circuit.
    pub(crate) id: Arc<str>,
    /// The controller that had the circuit made. Another one may own it by now (`life`).
    pub(crate) made_by: ControllerId,
    ended: AtomicBool,
    /// The time of the last message, as [`coarse_now`] counts.
    active: AtomicU64,
    /// The time of the last sign of the other end, or of the last change of the entries, as [`coarse_now`] counts.
    heard: AtomicU64,
    /// A number that goes up with every change of the entries.
    generation: AtomicU32,
    routes: RwLock<Routes<F>>,
    /// SDKs that lost an end and will answer that by closing the circuit, which must not close an end that they have
    /// got since.
    closing: Mutex<Vec<Weak<dyn ConnOwner>>>,
    /// Counts of the bytes that the circuit carries.
    pub(crate) carried: Carried,
}

impl<F> Drop for Circuit<F> {
    fn drop(&mut self) {
        self.carried.settle(&self.id);
    }
}

impl<F: HopFlow> Circuit<F> {
    /// A circuit whose bytes are not reported.
    #[cfg(test)]
    pub(crate) fn new(id: &str, made_by: ControllerId) -> Arc<Self> {
        Self::of(&id.into(), made_by, Carried::default())
    }

    /// A circuit whose bytes are written into a book.
    pub(crate) fn booked(id: &Arc<str>, made_by: ControllerId, book: &Arc<Book>) -> Arc<Self> {
        Self::of(id, made_by, Carried::of(book))
    }

    fn of(id: &Arc<str>, made_by: ControllerId, carried: Carried) -> Arc<Self> {
        Arc::new(Self {
            id: Arc::clone(id),
            made_by,
            ended: AtomicBool::new(false),
            active: AtomicU64::new(coarse_now()),
            heard: AtomicU64::new(coarse_now()),
            generation: AtomicU32::new(0),
            routes: RwLock::default(),
            closing: Mutex::default(),
            carried,
        })
    }

    /// Notes that a message was forwarded now.
    pub(crate) fn touch(&self) {
        note(&self.active, coarse_now());
    }

    /// Notes that a message was forwarded now that shows that the other end of the circuit is
    /// there: the message came from the other end, or goes to an end on this router. A message that
    /// an end here sends does not show this, because its data may lead nowhere.
    pub(crate) fn hear(&self) {
        let now = coarse_now();
        note(&self.active, now);
        note(&self.heard, now);
    }

    /// The time since the last sign of the other end, in whole seconds.
    pub(crate) fn unheard(&self) -> Duration {
        since(&self.heard)
    }

    /// The time since the last message, in whole seconds.
    pub(crate) fn idle(&self) -> Duration {
        since(&self.active)
    }

    /// Ends the circuit.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// A number that goes up with every change of the entries.
    pub(super) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// The address that messages from `source` go to.
    pub(crate) fn next(&self, source: &str) -> Option<Arc<str>> {
        self.routes.read().next(source).cloned()
    }

    /// The attempt that has set up the entry from an address, if there is such an entry; `REROUTE_ATTEMPT` if only moves have
    /// named this router.
    pub(super) fn attempt_of(&self, source: &str) -> Option<u32> {
        let routes = self.routes.read();
        routes.next(source).map(|_| routes.attempt)
    }

    /// The queue for a link.
    pub(crate) fn hop(&self, link: &str) -> Option<Arc<HopQueue<F>>> {
        self.routes.read().hop(link).cloned()
    }

    /// The queue for a link, or the queue that led to this link before a reroute moved it to
    /// another one.
    pub(super) fn hop_once_of(&self, link: &str) -> Option<Arc<HopQueue<F>>> {
        let routes = self.routes.read();
        routes.hop(link).cloned().or_else(|| routes.hop_once_of(link))
    }

    /// The links on the path of the circuit at this router.
    pub(super) fn links(&self) -> SmallVec<[Arc<str>; 2]> {
        self.routes.read().hops.iter().map(|queue| Arc::clone(&queue.link)).collect()
    }

    /// Removes all entries and queues. Returns the links of the circuit, and the addresses that it had entries from.
    pub(super) fn clear(&self) -> Lost {
        let links = self.links();
        let entries = self.routes.write().clear();
        self.changed();
        (links, entries.into_iter().map(|entry| entry.source).collect())
    }

    /// Adds entries. A new entry replaces the one from the same address, and takes over its queued messages. `attempt` is
    /// that of their route, `outlet` finds the outlet of a link, and `now` is the time of [`coarse_now`]. Returns what
    /// [`Self::restore_entries`] puts back.
    pub(super) fn set_entries(
        &self,
        attempt: u32,
        new: &[ForwardingEntry],
        outlet: impl Fn(&str) -> Option<Arc<Outlet<F>>>,
        now: u64,
    ) -> Before<F> {
        let before = self.routes.write().set(new, attempt, outlet, now);
        self.changed();
        before
    }

    /// Handles the first message over a link since the last change of the entries, whose direction is known. Messages that
    /// wait for former links move to the queues of the present ones.
    pub(super) fn comes_over(&self, link: &str, comes_from_host: Option<bool>) {
        let Some(comes_from_host) = comes_from_host else { return };
        if self.routes.read().is_fresh(link) {
            self.routes.write().comes_over(link, comes_from_host);
        }
    }

    /// True if [`forget`](Self::forget) may find something to forget.
    pub(super) fn may_forget(&self, now: u64) -> bool {
        let routes = self.routes.read();
        routes.has_old_way(now) || routes.hops.len() > 2
    }

    /// Forgets entries that the circuit left some time ago, because the routers that sent by them may not send for the
    /// circuit any more; and links that the circuit does not use any more, with what is queued for them.
    pub(super) fn forget(&self, now: u64) {
        let mut routes = self.routes.write();
        let before = (routes.entries.len(), routes.hops.len());
        routes.forget_old_entries(now);
        routes.forget_pairs(now);
        if before != (routes.entries.len(), routes.hops.len()) {
            self.changed();
        }
    }

    /// Forgets former links beyond the most that a circuit may remember, after `new` was set: a circuit may move any
    /// number of times in its life.
    pub(super) fn forget_surplus(&self, new: &[ForwardingEntry], now: u64) {
        if self.routes.read().hops.len() > 2 * (LEFT + 1) {
            self.routes.write().forget_surplus_pairs(new, now);
            self.changed();
        }
    }

    /// Puts back the entries that [`Self::set_entries`] returned, because the route was not completed. A queue that
    /// the route had moved to another link belongs to its former link again, with its messages; `outlet` finds the
    /// present outlet of a link, and the queue waits for a link that is away.
    pub(super) fn restore_entries(
        &self,
        before: Before<F>,
        outlet: impl Fn(&str) -> Option<Arc<Outlet<F>>>,
    ) {
        self.routes.write().restore(before, outlet);
        self.changed();
    }

    fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// All addresses on this router that messages of the circuit come from.
    pub(crate) fn addresses(&self) -> SmallVec<[Arc<str>; 2]> {
        self.routes.read().entries.iter().map(|entry| Arc::clone(&entry.source)).collect()
    }

    /// The addresses of ends that the entries lead to; none at a router that only passes messages on.
    pub(super) fn ends(&self) -> SmallVec<[Arc<str>; 2]> {
        let routes = self.routes.read();
        let is_link = |address: &Arc<str>| routes.hop(address).is_some();
        let to = routes.entries.iter().map(|entry| &entry.destination);
        to.filter(|address| !is_link(address)).cloned().collect()
    }

    /// Frees the unused memory of the queues.
    pub(super) fn trim(&self) {
        self.routes.read().hops.iter().for_each(|queue| queue.hop.trim());
    }

    /// Bytes of payloads that wait for neighbouring routers.
    pub(super) fn waiting(&self) -> u64 {
        self.routes.read().hops.iter().map(|queue| queue.hop.bytes()).sum()
    }

    /// True if messages wait for neighbouring routers.
    pub(super) fn has_waiting(&self) -> bool {
        self.routes.read().hops.iter().any(|queue| queue.hop.has_messages())
    }

    /// Notes that an end of the circuit was taken from this SDK. The SDK answers by closing the
    /// circuit by its id. Without the note, this close would count for an end that the SDK has got
    /// since (docs/protocol/sdk.md 13).
    pub(crate) fn expect_close(&self, of: Weak<dyn ConnOwner>) {
        self.closing.lock().push(of);
    }

    /// Takes note that an SDK closes the circuit. True if the close is about an end that was taken from
    /// the SDK.
    pub(crate) fn expected_close(&self, of: &Weak<dyn ConnOwner>) -> bool {
        let mut closing = self.closing.lock();
        let known = |one: &Weak<dyn ConnOwner>| std::ptr::addr_eq(one.as_ptr(), of.as_ptr());
        let at = closing.iter().position(known);
        at.map(|at| closing.swap_remove(at)).is_some()
    }
}

/// Sets a time to the second of `now`.
fn note(time: &AtomicU64, now: u64) {
    // Most calls fall into the same second. They only read the cell, which is cheaper than a write
    // that other processors see.
    if now - time.load(Ordering::Relaxed).min(now) >= 1000 {
        time.store(now, Ordering::Relaxed);
    }
}

fn since(time: &AtomicU64) -> Duration {
    Duration::from_millis(coarse_now().saturating_sub(time.load(Ordering::Relaxed)))
}

/// How long before the first call the count of [`coarse_now`] begins: the first call may come from a test that has
/// moved its clock ahead of those of other tests.
const EARLIER: Duration = Duration::from_secs(24 * 3600);

/// Milliseconds since a moment before the first call.
pub(super) fn coarse_now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let now = weft_circuit::now();
    let start = START.get_or_init(|| now.checked_sub(EARLIER).unwrap_or(now));
    now.saturating_duration_since(*start).as_millis() as u64
}

#[cfg(test)]
mod tests;
