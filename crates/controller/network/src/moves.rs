//! Moves circuits to other paths: because the path broke, because a router reports that a circuit
//! does not work, or because another path is cheaper (docs/protocol/control-plane.md 14).
//!
//! - `list`: the circuits to be moved, in a queue; `mover`: takes circuits from the queue;
//! - `machine`: the states of one move; `move_task`: carries out what it decides; `known`: the routes that routers have
//!   to be told for a move.
//!
//! A link may break with a hundred thousand circuits on it, and dials must not suffer: the circuits
//! enter the queue in parts, only a limited number moves at the same time, and fewer while dials
//! are under way. Circuits that begin or end at the same router are moved together, so that their
//! routes are one write. A router that answers slowly or not at all holds up only its own circuits,
//! which wait aside. A router that answers nothing is left alone for a while.
//!
//! A circuit without any path is kept for a while: a broken link often comes back at once, and
//! routers hold the waiting payloads. A circuit that begins or ends at a silent router waits until
//! that router answers again, because no other path helps.
//!
//! A move loses no payloads. First, each router on the new path is told the new routes: where
//! payloads go that arrive over links which the circuit did not use before. When all have answered,
//! routers on both paths are told the changed routes, and payloads take the new path. Routers on
//! the old path alone keep their routes until the payloads on their way have passed.

mod known;
mod left;
pub(crate) mod list;
mod machine;
mod move_task;
mod mover;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weft_model::Id;
use weft_paths::path::Path;
use weft_paths::queue::MoveReason;

use super::circuits::Circuit;
use super::routers::LiveRouter;
use crate::clock;
use crate::network::Network;

/// Shortest time between two moves of a circuit for reports that its path does not work. Routers
/// repeat the report every 15 s; a router that repeats it all the time must not keep others busy.
const LEAST_BETWEEN: Duration = Duration::from_secs(5);

/// Counts a circuit as active while it is moved, until dropped.
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

/// Counts a circuit as under way while it is moved, until dropped.
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

/// The right to send a router one more route, until dropped.
#[derive(Debug)]
struct Slot {
    network: Network,
    router: Arc<LiveRouter>,
}

impl Slot {
    /// Takes a slot; none if the router has as many unanswered routes as it may have.
    fn take(network: &Network, router: &Arc<LiveRouter>) -> Option<Self> {
        router.window.try_take().then(|| Self::of(network, router))
    }

    /// Takes a slot even if the router has as many unanswered routes as it may have.
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
    /// Starts the move of a circuit to another path; ends the circuit if it cannot be moved.
    pub(super) fn move_or_end(&self, circuit: &Circuit, why: MoveReason) {
        let too_soon = why == MoveReason::Faulty
            && circuit.moving.since_last().is_some_and(|it| it < LEAST_BETWEEN);
        if too_soon {
            return;
        }
        self.0.moves.queue.lock().push(&circuit.id.as_str().into(), why);
        if self.0.circuits.get(&circuit.id).is_none() {
            // The circuit was removed before it was in the queue.
            self.0.moves.forget(&circuit.id, &circuit.path);
        }
        self.0.moves.wake.notify_one();
    }

    /// Starts the moves of all circuits over a link.
    pub(super) fn move_over(&self, link: &str, why: MoveReason) {
        if self.0.circuits.count_over(link) > 0 {
            self.0.moves.queue.lock().push_link(link, why);
            self.0.moves.wake.notify_one();
        }
    }

    /// Handles the loss of a router for circuits whose end it had reported: nothing more comes from it, and the
    /// others forget these circuits once the payloads on their way have passed.
    pub(super) fn end_ended_at(&self, router: &Id) {
        let ended = self.0.moves.ended.take_of(router, clock::now());
        if !ended.is_empty() {
            self.0.moves.left.lock().extend(ended);
            self.0.moves.wake.notify_one();
        }
    }

    /// Number of circuits that wait to be moved.
    pub fn waiting_moves(&self) -> usize {
        let (circuits, links) = self.0.moves.queue.lock().waiting();
        circuits + links.iter().map(|link| self.0.circuits.count_over(link)).sum::<usize>()
    }

    /// Number of circuits without a path at this moment.
    pub fn without_path(&self) -> usize {
        self.0.moves.queue.lock().stranded()
    }

    /// Whether all links and routers of a path work.
    pub fn is_usable(&self, path: &Path) -> bool {
        self.cost_of(path).is_some()
    }

    /// The cost of a path now, without the cost of its first router; none if the path is broken. A router that
    /// is not heard breaks no path: data goes over it while its links stand ([`unheard`](super::unheard)).
    pub fn cost_of(&self, path: &Path) -> Option<u64> {
        let links = self.0.links.cost_of(path)?;
        Some(links + self.graph().cost_of(&path.nodes, |router| self.cost_unheard(router))?)
    }

    /// Continues circuits that wait for a router: as many as it has slots; all if it is gone.
    pub fn unpark(&self, router: &Id) {
        let live = self.0.routers.get(router.as_str());
        let room = live.map_or(usize::MAX, |live| match live.window.is_silent(clock::now()) {
            // All continue, and find out that the router is gone.
            true => usize::MAX,
            false => live.window.room(),
        });
        if room > 0 && self.0.moves.queue.lock().unpark(router, room) {
            self.0.moves.wake.notify_one();
        }
    }

    /// Continues circuits that wait for a router at their end, if it may be asked: it is heard and not silent.
    pub fn end_rest(&self, router: &Id) {
        let live = self.0.routers.get(router.as_str());
        if live.is_some_and(|live| !live.window.is_silent(clock::now())) {
            self.try_again_at(router);
        }
    }

    /// Continues circuits that wait for a router at their end: it has connected, or its connection has ended.
    pub(crate) fn try_again_at(&self, router: &Id) {
        if self.0.moves.queue.lock().end_rest(router) {
            self.0.moves.wake.notify_one();
        }
    }

    /// Notes that a router answered a route after the time limit, so that it does not count as
    /// silent.
    pub(super) fn answered_late(&self, router: &Id) {
        let live = self.0.routers.get(router.as_str());
        if live.is_some_and(|live| live.window.heard(clock::now())) {
            tracing::info!(%router, "a silent router answers routes again");
            self.router_changed(router);
            self.end_rest(router);
        }
    }
}
