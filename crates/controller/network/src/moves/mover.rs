//! The task that takes circuits from the queue and moves them.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use weft_model::Id;
use weft_paths::path::Path;

use super::left::FormerRouters;
use super::move_task::MoveTask;
use crate::clock;
use crate::network::Network;

/// Most circuits that are being moved at once. Circuits that wait for slow routers do not count.
const AT_ONCE: usize = 256;
/// Most such circuits while dials are under way.
const BESIDE_DIALS: usize = 32;
/// Most such circuits whose moves are not urgent, because their present path works.
const NOT_URGENT: usize = 16;
/// Most circuits that are being moved, those that wait for slow routers included.
const IN_ALL: usize = 4_096;
/// Circuits that one task moves, so that a router's routes for several of them are one write. The
/// task does not yield while it looks for their paths, so the number is smaller while dials are
/// under way.
const GROUP: usize = 16;
const GROUP_BESIDE_DIALS: usize = 8;
/// Circuits over a broken link that enter the queue at a time, sorted by their ends.
const PART: usize = 4_096;
/// Further circuits over a broken link enter the queue once fewer circuits than this are to be moved before
/// them.
const FEW: usize = 500;
/// Circuits that are handled before the task yields.
const TURN: usize = 64;
/// The interval of looks at circuits without a path, and the number of circuits in each look.
const LOOK: Duration = Duration::from_millis(50);
const LOOKED_AT: usize = 500;
/// How long routers that a circuit has left keep their routes for payloads on their way.
const DRAIN: Duration = Duration::from_secs(2);

impl Network {
    /// Moves circuits until the network stops.
    pub(crate) async fn move_circuits(self) {
        let mut under_way: JoinSet<()> = JoinSet::new();
        let mut left: VecDeque<FormerRouters> = VecDeque::new();
        let mut looked = clock::now();
        loop {
            self.fill_queue();
            let has_more = self.begin_moves(&mut under_way);
            self.leave_routers(&mut left);
            self.end_rests();
            if self.without_path() > 0 && clock::since(looked) >= LOOK {
                self.look_after().await;
                looked = clock::now();
            }
            while under_way.try_join_next().is_some() {}
            left.extend(self.0.moves.left.lock().drain(..));
            if has_more {
                tokio::task::yield_now().await;
                continue;
            }
            let next = self.next_look(&left, looked);
            tokio::select! {
                () = self.0.moves.wake.notified() => {}
                Some(_) = under_way.join_next(), if !under_way.is_empty() => {}
                () = tokio::time::sleep(next.unwrap_or_default()), if next.is_some() => {}
            }
        }
    }

    /// The time until the next look that no event triggers.
    fn next_look(&self, left: &VecDeque<FormerRouters>, looked: Instant) -> Option<Duration> {
        let drained = left.front().map(|it| DRAIN.saturating_sub(clock::since(it.at)));
        let look = (self.without_path() > 0).then(|| LOOK.saturating_sub(clock::since(looked)));
        let resting = self.0.moves.resting.lock();
        let rested = resting.front().map(|(at, _)| at.saturating_duration_since(clock::now()));
        drained.into_iter().chain(look).chain(rested).min()
    }

    /// Takes circuits over broken links into the queue when it has few: circuits that end, or else
    /// begin, at the same router follow each other.
    fn fill_queue(&self) {
        let next = self.0.moves.queue.lock().wants_more(FEW);
        let Some(source) = next else { return };
        let (circuits, behind) =
            self.0.circuits.part_over(&source.link, source.after.clone(), PART);
        self.0.moves.queue.lock().expand(&source, &circuits, behind);
    }

    /// Starts moves; true if more could be started at once.
    fn begin_moves(&self, under_way: &mut JoinSet<()>) -> bool {
        let (at_once, most) = match self.0.circuits.in_making() {
            0 => (AT_ONCE, GROUP),
            _ => (BESIDE_DIALS, GROUP_BESIDE_DIALS),
        };
        for _ in 0..TURN / most {
            let active = self.0.moves.active.load(Ordering::Acquire);
            let all = self.0.moves.under_way.load(Ordering::Acquire);
            if active + most > at_once || all + most > IN_ALL {
                return false;
            }
            let group = self.next_group(active, most);
            let is_full = group.len() == most;
            if !group.is_empty() {
                under_way.spawn(self.clone().move_group(group));
            }
            if !is_full {
                return self.0.moves.queue.lock().wants_more(FEW).is_some();
            }
        }
        true
    }

    /// The next circuits to be moved together, given the number of active ones.
    fn next_group(&self, active: usize, most: usize) -> Vec<MoveTask> {
        let mut queue = self.0.moves.queue.lock();
        let next = (active..active + most).map_while(|at| queue.pop(at >= NOT_URGENT));
        next.map(|(id, wish)| MoveTask::new(self, id, wish)).collect()
    }

    /// Unroutes circuits at routers that they left some time ago and did not return to, and those that ended at
    /// a router which is gone with all its links.
    fn leave_routers(&self, left: &mut VecDeque<FormerRouters>) {
        for _ in 0..left.len().min(TURN) {
            if left.front().is_none_or(|it| clock::since(it.at) < DRAIN) {
                return;
            }
            let Some(gone) = left.pop_front() else { return };
            let is_there = |router: &Id| self.is_there(router);
            if gone.for_loss_of.as_ref().is_some_and(is_there) {
                continue;
            }
            // The lock on the queue keeps the circuit from moving meanwhile: otherwise the unroute
            // could reach a router that was just told the circuit again.
            let queue = self.0.moves.queue.lock();
            // Payloads may take the ways of a move that failed, until the next one has arrived.
            if queue.has(&gone.circuit) || self.0.moves.is_unsettled(&gone.circuit) {
                left.push_back(FormerRouters { at: clock::now(), ..gone });
                continue;
            }
            let circuit = self.0.circuits.get(&gone.circuit);
            let is_on =
                |router: &Id| circuit.as_ref().is_some_and(|it| it.path.nodes.contains(router));
            let mut gone = gone;
            gone.routers
                .retain(|router| !is_on(router) && !self.try_unroute(router, &gone.circuit));
            drop(queue);
            if !gone.routers.is_empty() {
                // Too many others wait for these routers.
                left.push_back(FormerRouters { at: clock::now(), ..gone });
            }
        }
    }

    /// Lets new paths lead over routers that were left alone, once the time for that is over.
    fn end_rests(&self) {
        let mut resting = self.0.moves.resting.lock();
        while resting.front().is_some_and(|(until, _)| *until <= clock::now())
            && let Some((_, router)) = resting.pop_front()
        {
            self.router_changed(&router);
            self.end_rest(&router);
        }
    }

    /// Moves circuits that have a path again, and removes those without a path for too long.
    async fn look_after(&self) {
        let now = clock::now();
        let expired = self.0.moves.queue.lock().expired(now, LOOKED_AT);
        for (at, id) in expired.iter().enumerate() {
            let circuit = self.0.circuits.get(id);
            // The path may be whole again, and the circuit not yet in the queue for that.
            let has_path =
                circuit.as_ref().is_some_and(|it| it.is_whole && self.is_usable(&it.path));
            let most = self.0.options.lost_circuit_life;
            // A circuit whose path works may have to be told to routers again, and one of these is not heard.
            let is_unheard = circuit.as_ref().is_some_and(|it| match has_path {
                true => self.has_unheard(&it.path),
                false => self.has_no_heard_end(&it.path),
            });
            if is_unheard && self.0.moves.queue.lock().wait_for_ends(id, now, most) {
                continue;
            }
            if has_path && self.0.moves.queue.lock().try_at_last(id, now) {
                self.0.moves.wake.notify_one();
                continue;
            }
            // The links between the routers at the ends may come back: packets get lost for a while, and routers are
            // frozen for a moment or not heard.
            let has_ends = circuit.is_some_and(|it| self.has_both_ends(&it.path));
            if has_ends && self.0.moves.queue.lock().wait_longer(id, now) {
                continue;
            }
            tracing::info!(circuit = %id, "a circuit is removed, because it had no path for too long, or could not take it");
            self.remove_circuit(id, true);
            self.0.moves.forget(id, &Path::default());
            yield_in_turn(at).await;
        }
        let version = self.graph().version();
        let next = self.0.moves.queue.lock().take_to_look_at(version, LOOKED_AT);
        for (at, id) in next.iter().enumerate() {
            let circuit = self.0.circuits.get(id);
            let ends = circuit.as_ref().and_then(|it| it.path.first().zip(it.path.last()));
            let has_path = ends.is_some_and(|(first, last)| self.ways(first).cost(last).is_some());
            match has_path {
                true => {
                    self.0.moves.queue.lock().found_path(id);
                    self.0.moves.wake.notify_one();
                }
                false => self.0.moves.queue.lock().found_none(id, clock::now()),
            }
            yield_in_turn(at).await;
        }
    }
}

async fn yield_in_turn(at: usize) {
    if at % TURN == TURN - 1 {
        tokio::task::yield_now().await;
    }
}
