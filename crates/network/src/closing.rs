//! Closes gaps in the paths of adopted circuits: a router on a path did not report its circuits, or a link
//! of it is gone.
//!
//! A router or a link can be lost while no controller is there. Once the routers at both ends have reported such
//! a circuit, it moves to another path. It does not move at once, because the other routers are connecting, too.
//! Until all routers have had the time to connect, a circuit without a path waits for one.

use weft_paths::queue::Why;

use crate::network::Network;

/// Circuits that are looked at before the task yields.
const TURN: usize = 64;

impl Network {
    /// Moves adopted circuits whose path has a gap, until the network stops.
    pub(crate) async fn close_gaps(self) {
        loop {
            self.0.gaps.wait().await;
            let mut looked = 0;
            while let Some(circuit) = self.0.gaps.pop() {
                if self.close_gap(&circuit) {
                    self.0.gaps.push(&circuit);
                }
                looked += 1;
                if looked % TURN == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    /// Moves an adopted circuit if its path has a gap. True if the circuit is to be looked at again.
    fn close_gap(&self, id: &str) -> bool {
        let Some(circuit) = self.0.circuits.get(id) else { return false };
        if circuit.is_whole && self.is_usable(&circuit.path) {
            return false;
        }
        let are_returning = self.awaits_routers(id);
        if !circuit.has_ends() {
            return are_returning;
        }
        let ends = circuit.path.first().zip(circuit.path.last());
        let has_path = ends.is_some_and(|(first, last)| self.ways(first).cost(last).is_some());
        if has_path || !are_returning {
            self.move_or_end(&circuit, if circuit.is_whole { Why::Broken } else { Why::Lost });
        }
        are_returning
    }

    /// True while routers may not have connected since the start of the controller, for a circuit of
    /// an earlier run.
    pub(crate) fn awaits_routers(&self, circuit: &str) -> bool {
        let is_early = self.0.gaps.since_start() < self.0.options.return_time;
        is_early && !self.is_of_this_run(circuit)
    }
}
