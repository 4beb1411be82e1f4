//! A circuit on this router: the controller that owns it, and the next place for messages from each
//! of its addresses.

use std::{
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;
use weft_circuit::{Hop, HopFlow, Outlet};

use super::owner::ConnOwner;
use crate::{
    measures::{Book, Carried},
    seam::ControllerId,
};

/// Most former ways and most former links of hops that a circuit remembers.
const LEFT: usize = 8;
/// Time in which payloads arrive over a way that the circuit has left, in milliseconds. Controllers have the
/// routers behind it forget the circuit after 2 s.
const LEFT_FOR: u64 = 10_000;
/// Time for which a way is kept to whose source nothing leads yet, in milliseconds. Controllers name such a way
/// in the first step of a move; the second step follows once all routers have answered the first one.
const AHEAD_FOR: u64 = 60_000;

/// A circuit. `F` is the flow that the outlets of its links serve.
#[derive(Debug)]
pub(crate) struct Circuit<F> {
    /// The id of the circuit.
    pub(crate) id: Arc<str>,
    /// The controller that made the circuit.
    pub(crate) owner: ControllerId,
    ended: AtomicBool,
    /// The time of the last message, in milliseconds since the process began.
    active: AtomicU64,
    /// The time of the last sign of the other end, or of the last change of the ways, in
    /// milliseconds since the process began.
    heard: AtomicU64,
    /// A number that goes up with every change of the ways.
    generation: AtomicU32,
    routes: RwLock<Routes<F>>,
    /// SDKs that will close the circuit once more, because an end of theirs was taken away.
    closing: Mutex<Vec<Weak<dyn ConnOwner>>>,
    /// Counts of the bytes that the circuit carries.
    pub(crate) carried: Carried,
}

impl<F> Drop for Circuit<F> {
    fn drop(&mut self) {
        self.carried.settle(&self.id);
    }
}

impl Way {
    /// True if both ways have the same source and the same destination.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.source == other.source && self.destination == other.destination
    }
}

/// The ways of a circuit.
pub(super) type Ways = SmallVec<[Way; 2]>;

/// The ways and queues of a circuit before a change of its ways.
#[derive(Debug)]
pub(super) struct Before<F> {
    pub(super) ways: Ways,
    hops: Hops<F>,
    left: Vec<(Arc<str>, u64)>,
}

/// The queues towards neighbouring routers, by link.
type Hops<F> = SmallVec<[(Arc<str>, Arc<Hop<F>>); 2]>;

/// The ways of a circuit, and the attempts that set them up.
#[derive(Debug)]
struct Routes<F> {
    ways: Ways,
    /// The queues towards neighbouring routers, by link.
    hops: Hops<F>,
    /// Sources of ways to which nothing leads, the oldest first, and the time until which these ways are kept.
    left: Vec<(Arc<str>, u64)>,
    /// The latest links that hops led to before reroutes.
    once: Vec<(Arc<str>, Weak<Hop<F>>)>,
    /// The newest attempt to set the circuit up.
    newest: Option<u32>,
    /// The number of routes that are being set up.
    under_way: usize,
}

impl<F> Default for Routes<F> {
    fn default() -> Self {
        Self {
            ways: Ways::new(),
            hops: Hops::new(),
            left: Vec::new(),
            once: Vec::new(),
            newest: None,
            under_way: 0,
        }
    }
}

/// The next place for messages that come from one address.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    /// The address that messages come from.
    pub(crate) source: Arc<str>,
    /// The address that these messages go to.
    pub(crate) destination: Arc<str>,
}

impl<F: HopFlow> Circuit<F> {
    /// A circuit whose bytes are not reported.
    #[cfg(test)]
    pub(crate) fn new(id: &str, owner: ControllerId) -> Arc<Self> {
        Self::of(id, owner, Carried::default())
    }

    /// A circuit whose bytes are written into a book.
    pub(crate) fn booked(id: &str, owner: ControllerId, book: &Arc<Book>) -> Arc<Self> {
        Self::of(id, owner, Carried::of(book))
    }

    fn of(id: &str, owner: ControllerId, carried: Carried) -> Arc<Self> {
        Arc::new(Self {
            id: id.into(),
            owner,
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

    /// Ends the circuit. True for the first call.
    pub(crate) fn end(&self) -> bool {
        !self.ended.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// A number that goes up with every change of the ways.
    pub(super) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// The address that messages from `source` go to.
    pub(crate) fn next(&self, source: &str) -> Option<Arc<str>> {
        let ways = &self.routes.read().ways;
        ways.iter().find(|way| &*way.source == source).map(|way| Arc::clone(&way.destination))
    }

    /// The queue for a link.
    pub(crate) fn hop(&self, link: &str) -> Option<Arc<Hop<F>>> {
        let hops = &self.routes.read().hops;
        hops.iter().find(|(id, _)| &**id == link).map(|(_, hop)| Arc::clone(hop))
    }

    /// The queue for a link, or the queue that led to this link before a reroute moved it to
    /// another one.
    pub(super) fn hop_once_of(&self, link: &str) -> Option<Arc<Hop<F>>> {
        let routes = self.routes.read();
        let now = routes.hops.iter().find(|(id, _)| &**id == link).map(|(_, hop)| Arc::clone(hop));
        let once = || routes.once.iter().rev().find(|(id, _)| &**id == link);
        now.or_else(|| once().and_then(|(_, hop)| hop.upgrade()))
    }

    /// The links on the path of the circuit at this router.
    pub(super) fn links(&self) -> SmallVec<[Arc<str>; 2]> {
        self.routes.read().hops.iter().map(|(link, _)| Arc::clone(link)).collect()
    }

    /// Begins to set up a route for this attempt (`None` for a reroute). `None` if a newer attempt was
    /// begun; otherwise the addresses of older attempts, whose ways are removed.
    pub(super) fn begin(&self, attempt: Option<u32>) -> Option<SmallVec<[Arc<str>; 2]>> {
        let mut routes = self.routes.write();
        if routes.is_superseded(attempt) {
            return None;
        }
        let mut older = Ways::new();
        if routes.newest < attempt {
            routes.newest = attempt;
            older = std::mem::take(&mut routes.ways);
            routes.hops.drain(..).for_each(|(_, hop)| hop.close());
            self.changed();
        }
        routes.under_way += 1;
        Some(older.into_iter().map(|way| way.source).collect())
    }

    /// True if a newer attempt was begun.
    pub(super) fn is_superseded(&self, attempt: Option<u32>) -> bool {
        self.routes.read().is_superseded(attempt)
    }

    /// Notes that setting up a route is over, with or without success. True if the circuit has no route
    /// and none is being set up.
    pub(super) fn is_unused_after_set_up(&self) -> bool {
        let mut routes = self.routes.write();
        routes.under_way -= 1;
        routes.under_way == 0 && routes.ways.is_empty()
    }

    /// Adds ways. A way from an address that has one replaces it, and the queued messages of the former
    /// way move to it. `outlet` finds the outlet of a link. Returns what [`Self::restore_ways`] puts back;
    /// `None` if a newer attempt was begun. `now` is the time of [`coarse_now`].
    pub(super) fn set_ways(
        &self,
        attempt: Option<u32>,
        new: &[Way],
        outlet: impl Fn(&str) -> Option<Arc<Outlet<F>>>,
        now: u64,
    ) -> Option<Before<F>> {
        let mut routes = self.routes.write();
        if routes.is_superseded(attempt) {
            return None;
        }
        let Routes { ways, hops, left, .. } = &*routes;
        let before = Before { ways: ways.clone(), hops: hops.clone(), left: left.clone() };
        for way in new {
            if let Some(outlet) = outlet(&way.destination) {
                routes.lead_to(way, new, &outlet);
            }
            match routes.ways.iter_mut().find(|known| known.source == way.source) {
                Some(known) => known.destination = Arc::clone(&way.destination),
                None => routes.ways.push(way.clone()),
            }
        }
        routes.note_left_ways(new, now);
        self.changed();
        Some(before)
    }

    /// Forgets ways to which nothing has led for some time: the routers behind them may not send for the circuit
    /// any more.
    pub(super) fn forget_old_ways(&self, now: u64) {
        let is_old = |(_, until): &(Arc<str>, u64)| now >= *until;
        if !self.routes.read().left.iter().any(is_old) {
            return;
        }
        let mut routes = self.routes.write();
        let (left, is_left) = (std::mem::take(&mut routes.left), routes.left_ways());
        let (old, young): (Vec<_>, Vec<_>) = left.into_iter().partition(is_old);
        routes.left = young;
        let is_old = |way: &Arc<str>| old.iter().any(|(source, _)| source == way);
        routes.ways.retain(|way| !(is_old(&way.source) && is_left.contains(&way.source)));
        self.changed();
    }

    /// Puts back the ways that [`Self::set_ways`] returned, because the route was not completed. A queue that
    /// the route had moved to another link belongs to its former link again, with its messages; `outlet` finds the
    /// present outlet of a link, and the queue waits for a link that is away. Nothing is put back if a newer
    /// attempt was begun.
    pub(super) fn restore_ways(
        &self,
        attempt: Option<u32>,
        before: Before<F>,
        outlet: impl Fn(&str) -> Option<Arc<Outlet<F>>>,
    ) {
        let mut routes = self.routes.write();
        if routes.is_superseded(attempt) {
            return;
        }
        let Before { ways, hops, left } = before;
        let added = std::mem::replace(&mut routes.hops, hops);
        let is_kept =
            |hop: &Arc<Hop<F>>| routes.hops.iter().any(|(_, kept)| Arc::ptr_eq(kept, hop));
        added.iter().filter(|(_, hop)| !is_kept(hop)).for_each(|(_, hop)| hop.close());
        for (link, hop) in &routes.hops {
            if let Some(outlet) = outlet(link) {
                hop.move_to(&outlet);
            }
        }
        (routes.ways, routes.left) = (ways, left);
        self.changed();
    }

    /// The circuit is over: drops its queued messages.
    pub(super) fn close_hops(&self) {
        self.routes.write().hops.drain(..).for_each(|(_, hop)| hop.close());
        self.changed();
    }

    fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// All addresses on this router that messages of the circuit come from.
    pub(crate) fn addresses(&self) -> SmallVec<[Arc<str>; 2]> {
        self.routes.read().ways.iter().map(|way| Arc::clone(&way.source)).collect()
    }

    /// The addresses of ends that the ways lead to; none at a router that only passes messages on.
    pub(super) fn ends(&self) -> SmallVec<[Arc<str>; 2]> {
        let routes = self.routes.read();
        let is_link = |address: &Arc<str>| routes.hops.iter().any(|(link, _)| link == address);
        let to = routes.ways.iter().map(|way| &way.destination);
        to.filter(|address| !is_link(address)).cloned().collect()
    }

    /// Frees the memory that no message waits in.
    pub(super) fn trim(&self) {
        self.routes.read().hops.iter().for_each(|(_, hop)| hop.trim());
    }

    /// True if messages wait for neighbouring routers.
    pub(super) fn has_waiting(&self) -> bool {
        self.routes.read().hops.iter().any(|(_, hop)| hop.has_messages())
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

impl<F: HopFlow> Routes<F> {
    fn is_superseded(&self, attempt: Option<u32>) -> bool {
        attempt.is_some() && attempt < self.newest
    }

    /// Notes to which ways nothing leads since `new` was set. The latest [`LEFT`] of them are kept, and the older
    /// ones forgotten, whose payloads have arrived by then.
    fn note_left_ways(&mut self, new: &[Way], now: u64) {
        let left = self.left_ways();
        let is_named = |source: &Arc<str>| new.iter().any(|way| way.source == *source);
        self.left.retain(|(source, _)| left.contains(source) && !is_named(source));
        for source in left {
            if self.left.iter().all(|(known, _)| *known != source) {
                let kept = if is_named(&source) { AHEAD_FOR } else { LEFT_FOR };
                self.left.push((source, now + kept));
            }
        }
        let over = self.left.len().saturating_sub(LEFT);
        let Self { left, ways, .. } = self;
        for (source, _) in left.drain(..over) {
            ways.retain(|way| way.source != source);
        }
    }

    /// The sources of ways from neighbours that are sent no messages.
    fn left_ways(&self) -> Vec<Arc<str>> {
        let is_left = |way: &&Way| self.ways.iter().all(|to| to.destination != way.source);
        self.ways.iter().filter(is_left).map(|way| Arc::clone(&way.source)).collect()
    }

    /// Makes the queue of a way over a link, or moves the queue of the way that it replaces to that
    /// link.
    fn lead_to(&mut self, way: &Way, new: &[Way], outlet: &Arc<Outlet<F>>) {
        if let Some((_, hop)) = self.hops.iter().find(|(link, _)| *link == way.destination) {
            return hop.move_to(outlet);
        }
        let former = self.ways.iter().find(|known| known.source == way.source);
        let former = former.map(|known| Arc::clone(&known.destination));
        let is_left = |link: &Arc<str>| new.iter().all(|way| way.destination != *link);
        let moved = former.filter(is_left).and_then(|link| {
            self.hops.iter_mut().find(|(id, _)| *id == link).map(|entry| (link, entry))
        });
        let Some((link, entry)) = moved else {
            let hop = Hop::new(Arc::clone(outlet));
            self.hops.push((Arc::clone(&way.destination), hop));
            return;
        };
        entry.1.move_to(outlet);
        let hop = Arc::downgrade(&entry.1);
        entry.0 = Arc::clone(&way.destination);
        if self.once.len() >= LEFT {
            self.once.remove(0);
        }
        self.once.push((Arc::clone(&link), hop));
        // Messages that still come by other ways of this direction go on over the same link.
        for other in self.ways.iter_mut().filter(|other| other.destination == link) {
            other.destination = Arc::clone(&way.destination);
        }
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

/// Milliseconds since the first call.
pub(super) fn coarse_now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forwarder::{Circuit, Outlet};

    fn way(source: &str, destination: &str) -> Way {
        Way { source: source.into(), destination: destination.into() }
    }

    fn outlet() -> Arc<Outlet> {
        Outlet::new(weft_limits::Budget::unlimited())
    }

    #[test]
    fn ways_are_replaced_by_source_and_can_be_put_back() {
        let (circuit, link) = (Circuit::new("c", "ctrl".into()), outlet());
        let to_link = |id: &str| (id == "link").then(|| Arc::clone(&link));
        let before = circuit.set_ways(Some(0), &[way("a", "b"), way("b", "a")], to_link, 0);
        assert!(before.unwrap().ways.is_empty());
        let before = circuit.set_ways(None, &[way("a", "link")], to_link, 0).unwrap();
        assert_eq!(circuit.next("a").as_deref(), Some("link"));
        assert_eq!(circuit.next("b").as_deref(), Some("a"));
        assert!(Arc::ptr_eq(&circuit.hop("link").unwrap().outlet(), &link));
        circuit.restore_ways(None, before, |_| None);
        assert_eq!(circuit.next("a").as_deref(), Some("b"));
        assert_eq!(circuit.next("x"), None);
        assert!(circuit.hop("link").is_none());
    }

    #[test]
    fn what_waits_for_a_link_moves_to_the_one_that_takes_its_place() {
        let (circuit, one, other) = (Circuit::new("c", "ctrl".into()), outlet(), outlet());
        let links = |id: &str| match id {
            "one" => Some(Arc::clone(&one)),
            "other" => Some(Arc::clone(&other)),
            _ => None,
        };
        circuit.set_ways(Some(0), &[way("end", "one"), way("one", "end")], links, 0).unwrap();
        let hop = circuit.hop("one").unwrap();
        circuit.set_ways(None, &[way("end", "other"), way("other", "end")], links, 0).unwrap();
        assert!(circuit.hop("one").is_none());
        assert!(Arc::ptr_eq(&circuit.hop("other").unwrap(), &hop));
        assert!(Arc::ptr_eq(&hop.outlet(), &other));
        // Payloads that were on their way over the former link still arrive.
        assert_eq!(circuit.next("one").as_deref(), Some("end"));
        assert_eq!(&*circuit.links(), ["other".into()]);
    }

    /// A payload in the queue of a hop.
    fn payload(sequence: i32) -> weft_wire::Message {
        let payload = weft_wire::payload::Payload { sequence, ..Default::default() };
        payload.into_message("c")
    }

    #[test]
    fn a_route_that_is_taken_back_leaves_what_was_queued() {
        let (circuit, one, two) = (Circuit::new("c", "ctrl".into()), outlet(), outlet());
        let links = |id: &str| match id {
            "one" => Some(Arc::clone(&one)),
            "two" => Some(Arc::clone(&two)),
            _ => None,
        };
        circuit.set_ways(Some(0), &[way("end", "one"), way("one", "end")], links, 0).unwrap();
        let hop = circuit.hop("one").unwrap();
        hop.push(weft_xgress::Class::Payload, 1, payload(1));
        let moved = [way("end", "two"), way("two", "end")];
        let before = circuit.set_ways(Some(0), &moved, links, 0).unwrap();
        assert!(Arc::ptr_eq(&hop.outlet(), &two));
        // The first link has closed and come back meanwhile.
        let again = outlet();
        circuit.restore_ways(Some(0), before, |id| (id == "one").then(|| Arc::clone(&again)));
        assert!(Arc::ptr_eq(&circuit.hop("one").unwrap(), &hop) && circuit.hop("two").is_none());
        assert!(Arc::ptr_eq(&hop.outlet(), &again) && hop.has_messages());
        assert_eq!((circuit.next("end").as_deref(), circuit.next("two")), (Some("one"), None));
        // A newer attempt has its own ways, which an older one does not take away.
        let before = circuit.set_ways(Some(0), &moved, links, 0).unwrap();
        circuit.begin(Some(1)).unwrap();
        circuit.set_ways(Some(1), &[way("end", "one")], links, 0).unwrap();
        circuit.restore_ways(Some(0), before, links);
        assert!(circuit.hop("one").is_some_and(|now| !Arc::ptr_eq(&now, &hop)));
    }

    #[test]
    fn a_way_that_was_left_is_forgotten_after_a_while() {
        let (circuit, link) = (Circuit::new("c", "ctrl".into()), outlet());
        let links = |id: &str| (id != "end").then(|| Arc::clone(&link));
        circuit.set_ways(Some(0), &[way("end", "one"), way("one", "end")], links, 0).unwrap();
        circuit.set_ways(None, &[way("end", "other"), way("other", "end")], links, 0).unwrap();
        circuit.forget_old_ways(LEFT_FOR - 1);
        assert_eq!(circuit.next("one").as_deref(), Some("end"), "payloads still arrive");
        let generation = circuit.generation();
        circuit.forget_old_ways(LEFT_FOR);
        assert_eq!(circuit.next("one"), None);
        assert_ne!(circuit.generation(), generation, "looked-up places are looked up again");
        assert_eq!(circuit.next("end").as_deref(), Some("other"));
        assert_eq!(circuit.next("other").as_deref(), Some("end"));
        // A way that is used again is not forgotten.
        circuit.set_ways(None, &[way("end", "one"), way("one", "end")], links, 0).unwrap();
        circuit.set_ways(None, &[way("end", "other"), way("other", "end")], links, 0).unwrap();
        circuit.set_ways(None, &[way("end", "one"), way("one", "end")], links, 0).unwrap();
        circuit.forget_old_ways(LEFT_FOR);
        assert_eq!(circuit.next("one").as_deref(), Some("end"));
        assert_eq!(circuit.next("other"), None);
    }

    #[test]
    fn a_circuit_moves_back_to_a_link_in_two_steps() {
        let (circuit, link) = (Circuit::new("c", "ctrl".into()), outlet());
        let links = |id: &str| (id != "end").then(|| Arc::clone(&link));
        circuit.set_ways(Some(0), &[way("end", "one"), way("one", "end")], links, 0).unwrap();
        circuit.set_ways(None, &[way("other", "end")], links, 0).unwrap();
        circuit.set_ways(None, &[way("end", "other")], links, 0).unwrap();
        // It moves back before the way was forgotten, and ways are forgotten between the two steps.
        let back = LEFT_FOR * 3 / 2;
        circuit.set_ways(None, &[way("one", "end")], links, back).unwrap();
        circuit.forget_old_ways(back + LEFT_FOR);
        circuit.set_ways(None, &[way("end", "one")], links, back + LEFT_FOR).unwrap();
        assert_eq!(circuit.next("one").as_deref(), Some("end"));
        // What was sent over the link that it has left arrives for as long as after any other move.
        circuit.forget_old_ways(back + LEFT_FOR * 2 - 1);
        assert_eq!(circuit.next("other").as_deref(), Some("end"));
        circuit.forget_old_ways(back + LEFT_FOR * 2);
        assert_eq!(circuit.next("other"), None);
        assert_eq!(circuit.next("one").as_deref(), Some("end"));
    }

    #[test]
    fn a_move_that_stops_after_its_first_step_leaves_no_way_for_ever() {
        let (circuit, link) = (Circuit::new("c", "ctrl".into()), outlet());
        let links = |id: &str| (id != "end").then(|| Arc::clone(&link));
        circuit.set_ways(Some(0), &[way("end", "one"), way("one", "end")], links, 0).unwrap();
        circuit.set_ways(None, &[way("other", "end")], links, 0).unwrap();
        circuit.forget_old_ways(AHEAD_FOR);
        assert_eq!(circuit.next("other"), None);
        assert_eq!(circuit.next("one").as_deref(), Some("end"));
    }

    #[test]
    fn of_many_left_ways_the_one_that_was_just_named_stays() {
        let (circuit, link) = (Circuit::new("c", "ctrl".into()), outlet());
        let links = |id: &str| (id != "end").then(|| Arc::clone(&link));
        circuit.set_ways(Some(0), &[way("end", "l0"), way("l0", "end")], links, 0).unwrap();
        for number in 1..=LEFT {
            let to = format!("l{number}");
            circuit.set_ways(None, &[way(&to, "end")], links, 0).unwrap();
            circuit.set_ways(None, &[way("end", &to)], links, 0).unwrap();
        }
        // The oldest of the ways that were left is named again, and then another one beside it.
        for to in ["l0", "new"] {
            circuit.set_ways(None, &[way(to, "end")], links, 0).unwrap();
        }
        let next = |link: &str| circuit.next(link);
        assert_eq!((next("l0").as_deref(), next("new").as_deref()), (Some("end"), Some("end")));
        assert_eq!((next("l1"), next("l2")), (None, Some("end".into())));
    }

    #[test]
    fn in_transit_each_direction_keeps_what_waits_for_it() {
        let (circuit, a, b, c) = (Circuit::new("c", "ctrl".into()), outlet(), outlet(), outlet());
        let links = |id: &str| match id {
            "a" => Some(Arc::clone(&a)),
            "b" => Some(Arc::clone(&b)),
            "c" => Some(Arc::clone(&c)),
            _ => None,
        };
        circuit.set_ways(Some(0), &[way("a", "b"), way("b", "a")], links, 0).unwrap();
        let (to_a, to_b) = (circuit.hop("a").unwrap(), circuit.hop("b").unwrap());
        // The path comes in over another link now, and leaves over the same link as before.
        circuit.set_ways(None, &[way("c", "b"), way("b", "c")], links, 0).unwrap();
        assert!(Arc::ptr_eq(&circuit.hop("b").unwrap(), &to_b));
        assert!(Arc::ptr_eq(&circuit.hop("c").unwrap(), &to_a));
        assert!(Arc::ptr_eq(&to_a.outlet(), &c));
        assert_eq!(circuit.next("a").as_deref(), Some("b"));
    }

    #[test]
    fn a_circuit_ends_once() {
        let circuit = Circuit::new("c", "ctrl".into());
        assert!(circuit.end() && !circuit.end() && circuit.has_ended());
    }
}
