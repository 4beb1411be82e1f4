//! Closes gaps in the paths of adopted circuits. A path has a gap if one of its routers did not report the
//! circuit, or if one of its links is gone.
//!
//! A router or a link can be lost while no controller is there. Once the routers at both ends have reported such
//! a circuit, it moves to another path. It does not move at once, because the other routers are connecting, too.
//! Until all routers have had the time to connect, a circuit without a path waits for one.

use std::cell::LazyCell;

use weft_model::Id;
use weft_model::entity::Router;
use weft_paths::queue::MoveReason;
use weft_wire::ctrl::DestType;

use crate::network::Network;

/// Circuits that are looked at before the task yields.
const TURN: usize = 64;

impl Network {
    /// Moves adopted circuits whose path has a gap, until the network stops.
    pub(crate) async fn close_gaps(self) {
        loop {
            self.0.gaps.wait().await;
            if !self.is_early() && self.0.gaps.takes_all() {
                self.0.pieces.in_part().iter().for_each(|id| self.0.gaps.push(id, false));
            }
            while self.close_some().await == TURN {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Looks at the circuits whose time has come, at most one turn of them. Returns their number.
    async fn close_some(&self) -> usize {
        let _turn = self.0.moves.searching.acquire().await;
        let next = std::iter::from_fn(|| self.0.gaps.pop()).take(TURN);
        // The same for all circuits of the turn.
        let awaits_reports = LazyCell::new(|| self.awaits_reports());
        let torn = |circuit: &str| self.is_torn(circuit, || *awaits_reports);
        next.map(|(circuit, sends_again)| self.close_gap(&circuit, sends_again, torn)).count()
    }

    /// Moves an adopted circuit if its path has a gap, or if its routers are to be told their routes
    /// again. A circuit that cannot be moved yet is looked at again.
    fn close_gap(&self, id: &str, sends_again: bool, is_torn: impl Fn(&str) -> bool) {
        let Some(circuit) = self.0.circuits.get(id) else { return };
        if circuit.is_whole && self.is_usable(&circuit.path) {
            if sends_again {
                self.move_or_end(&circuit, MoveReason::Lost);
            }
            return;
        }
        let are_returning = self.awaits_routers(id);
        if !circuit.has_ends() && is_torn(id) {
            tracing::info!(circuit = %id, "a circuit of an earlier run is removed, because a router has lost one of its ends");
            self.remove_circuit(id, true);
            return;
        }
        let ends = circuit.path.first().zip(circuit.path.last()).filter(|_| circuit.has_ends());
        let has_path = ends.is_some_and(|(first, last)| self.ways(first).cost(last).is_some());
        let moves = has_path || (ends.is_some() && !are_returning);
        if moves {
            let is_known = circuit.is_whole && !sends_again;
            self.move_or_end(
                &circuit,
                if is_known { MoveReason::Broken } else { MoveReason::Lost },
            );
        }
        if are_returning {
            self.0.gaps.push(id, sends_again && !moves);
        }
    }

    /// Whether an end of a circuit known in part is gone. This is so if each link that the known routers use for the
    /// circuit ends at another known router, or at a router that has reported all its circuits without this one. An
    /// unknown link may lead to the missing end as long as some router has not reported yet.
    fn is_torn(&self, circuit: &str, awaits_reports: impl Fn() -> bool) -> bool {
        let Some(pieces) = self.0.pieces.of(circuit) else { return false };
        let leads_on = |router: &Id, link: &str| {
            let Some(link) = self.0.links.get(link) else { return awaits_reports() };
            let next = link.other_end(router.as_str());
            !pieces.contains_key(next) && !self.has_told(next)
        };
        !pieces.iter().any(|(router, route)| {
            let mut links = route.forwards.iter().filter(|way| way.dst_type() == DestType::Link);
            links.any(|way| leads_on(router, &way.dst_address))
        })
    }

    /// True while a router that is enrolled and not disabled has not reported its circuits.
    fn awaits_reports(&self) -> bool {
        let snapshot = self.0.kernel.snapshot();
        let mut routers = snapshot.list::<Router>();
        routers.any(|it| !it.disabled && it.fingerprint.is_some() && !self.has_told(&it.base.id))
    }

    /// True for a circuit of an earlier run while the controller has not run long enough for all routers to connect.
    pub(crate) fn awaits_routers(&self, circuit: &str) -> bool {
        self.is_early() && !self.is_of_this_run(circuit)
    }

    /// The same, for a circuit that is not known.
    pub(crate) fn may_be_adopted(&self, circuit: &str) -> bool {
        self.awaits_routers(circuit) && !self.0.circuits.has_ended(circuit)
    }

    /// True while routers may not have connected since the start of the controller.
    pub(crate) fn is_early(&self) -> bool {
        self.0.gaps.since_start() < self.0.options.return_time
    }
}
