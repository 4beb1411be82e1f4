//! Circuits take another path: because theirs broke, because a router on it says that it does not
//! work, or because there is a cheaper one (docs/protocol/control-plane.md 14).
//!
//! - `list`: the circuits that are to be moved, with their queue; `mover`: works the queue off;
//! - `journey`: one circuit moves; `known`: what routers have to hear for that.
//!
//! A link with a hundred thousand circuits costs dials next to nothing: its circuits come into the
//! queue bit by bit, so many are moved at the same time, and fewer while somebody dials. Circuits
//! that begin or end at the same router are moved together, so that what a router hears of several
//! of them is one write. A router
//! that answers slowly, or not, holds up its own circuits: they wait for it aside. One that answers
//! nothing is left alone for a while.
//!
//! A circuit that has no path left is kept for a while: a link that breaks is often back at once, and
//! routers hold what waits for it. One that begins or ends at a router that answers nothing waits until
//! that answers again, as no other path helps it.
//!
//! No router sends into the void while a circuit moves. First every router on the new path hears
//! what is new to it: where payloads go that come over links which the circuit did not take before.
//! When all have answered, those on both paths hear what changes: from then on payloads take the new
//! way. Routers that are on the old path only keep their part until what was on its way has passed.

mod journey;
mod known;
mod left;
pub(crate) mod list;
mod mover;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weft_model::Id;
use weft_paths::path::Path;
use weft_paths::queue::Why;

use super::circuits::Circuit;
use super::routers::LiveRouter;
use crate::clock;
use crate::network::Network;

/// Least time between two moves of a circuit because routers say that its path does not work: they
/// say so every 15 s, and a router that says it all the time keeps only itself busy.
const LEAST_BETWEEN: Duration = Duration::from_secs(5);

/// A circuit that is being moved counts as active until this is dropped.
#[derive(Debug)]
struct Active(Network);

impl Active {
    fn begin(network: &Network) -> Self {
        network.0.moves.active.fetch_add(1, Ordering::AcqRel);
        Self(network.clone())
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.0.moves.active.fetch_sub(1, Ordering::AcqRel);
        self.0.0.moves.wake.notify_one();
    }
}

/// A circuit that is being moved is under way until this is dropped.
#[derive(Debug)]
struct UnderWay(Network);

impl UnderWay {
    fn begin(network: &Network) -> Self {
        network.0.moves.under_way.fetch_add(1, Ordering::AcqRel);
        Self(network.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.moves.under_way.fetch_sub(1, Ordering::AcqRel);
        self.0.0.moves.wake.notify_one();
    }
}

/// A place for a route at a router.
#[derive(Debug)]
struct Slot {
    network: Network,
    router: Arc<LiveRouter>,
}

impl Slot {
    /// None if the router has as many as it may.
    fn take(network: &Network, router: &Arc<LiveRouter>) -> Option<Self> {
        router.window.try_take().then(|| Self::of(network, router))
    }

    /// Beyond that.
    fn force(network: &Network, router: &Arc<LiveRouter>) -> Self {
        router.window.take();
        Self::of(network, router)
    }

    fn of(network: &Network, router: &Arc<LiveRouter>) -> Self {
        Self { network: network.clone(), router: Arc::clone(router) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.router.window.give_back();
        self.network.unpark(&self.router.id);
    }
}

impl Network {
    /// Has a circuit moved to another path, or removed if that cannot be.
    pub(super) fn move_or_end(&self, circuit: &Circuit, why: Why) {
        let too_soon =
            why == Why::Faulty && circuit.moving.since_last().is_some_and(|it| it < LEAST_BETWEEN);
        if too_soon {
            return;
        }
        self.0.moves.queue.lock().push(&circuit.id.as_str().into(), why);
        if self.0.circuits.get(&circuit.id).is_none() {
            // It was removed before it was in the queue.
            self.0.moves.forget(&circuit.id);
        }
        self.0.moves.wake.notify_one();
    }

    /// The circuits over a link are to take other paths.
    pub(super) fn move_over(&self, link: &str, why: Why) {
        if self.0.circuits.count_over(link) > 0 {
            self.0.moves.queue.lock().push_link(link, why);
            self.0.moves.wake.notify_one();
        }
    }

    /// How many circuits wait to be moved.
    pub fn waiting_moves(&self) -> usize {
        let (circuits, links) = self.0.moves.queue.lock().waiting();
        circuits + links.iter().map(|link| self.0.circuits.count_over(link)).sum::<usize>()
    }

    /// How many circuits have no path at this moment.
    pub fn without_path(&self) -> usize {
        self.0.moves.queue.lock().stranded()
    }

    /// Whether a path leads over links and routers that are there.
    pub fn is_usable(&self, path: &Path) -> bool {
        self.cost_of(path).is_some()
    }

    /// What a path costs now, without the router where it begins; none if it is broken.
    pub fn cost_of(&self, path: &Path) -> Option<u64> {
        let links = self.0.links.cost_of(path)?;
        Some(links + self.graph().cost_of(&path.nodes)?)
    }

    /// Circuits that wait for a router go on as far as it has room; all if it is gone.
    pub fn unpark(&self, router: &Id) {
        let live = self.0.routers.get(router.as_str());
        let room = live.map_or(usize::MAX, |live| match live.window.is_silent(clock::now()) {
            // They learn of it.
            true => usize::MAX,
            false => live.window.room(),
        });
        if room > 0 && self.0.moves.queue.lock().unpark(router, room) {
            self.0.moves.wake.notify_one();
        }
    }

    /// Circuits that wait until a router answers again go on, if it may be asked or is gone.
    pub fn end_rest(&self, router: &Id) {
        let live = self.0.routers.get(router.as_str());
        let is_silent = live.is_some_and(|live| live.window.is_silent(clock::now()));
        if !is_silent && self.0.moves.queue.lock().end_rest(router) {
            self.0.moves.wake.notify_one();
        }
    }

    /// A router answered a route after its time: it is not silent.
    pub(super) fn answered_late(&self, router: &Id) {
        let live = self.0.routers.get(router.as_str());
        if live.is_some_and(|live| live.window.heard(clock::now())) {
            tracing::info!(%router, "router answers routes again");
            self.router_changed(router);
            self.end_rest(router);
        }
    }
}
