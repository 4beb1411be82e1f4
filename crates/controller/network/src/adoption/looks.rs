//! Looks at the paths of adopted circuits. A path has a gap if one of its routers did not name the circuit, or if one of
//! its links is gone.
//!
//! A router or a link can be lost while no controller is there. Once the routers at both ends have reported such
//! a circuit, it moves to another path. It does not move at once, because the other routers are connecting, too.
//! Until all routers have had the time to connect, a circuit without a path waits for one.

use std::cell::LazyCell;
use std::sync::Arc;

use weft_model::entity::Router;

use super::machine::{Input, Output, Sight, TURN};
use crate::network::Network;

impl Network {
    /// Gives the machine each moment at which paths are due, and looks at them; never returns.
    pub(crate) async fn look_at_paths(self) {
        loop {
            let next = self.0.adoption.machine.lock().next_due();
            let sooner = self.0.adoption.sooner.notified();
            match next {
                Some(at) => _ = tokio::time::timeout_at(at.into(), sooner).await,
                None => sooner.await,
            }
            while self.look_at_some().await == TURN {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Looks at the paths that are due, at most one turn of them. Returns their number.
    async fn look_at_some(&self) -> usize {
        let _turn = self.0.moves.searching.acquire().await;
        let mut steps = self.adopting();
        steps.step(Input::Tick);
        let circuit = |output| match output {
            Output::Look(circuit) => Some(circuit),
            _ => None,
        };
        let due: Vec<Arc<str>> = steps.later.drain(..).filter_map(circuit).collect();
        steps.end();
        // The same for all circuits of the turn.
        let awaits_reports = LazyCell::new(|| self.awaits_reports());
        let awaits_reports = || *awaits_reports;
        due.iter().for_each(|id| self.look_at(id, &awaits_reports));
        due.len()
    }

    fn look_at(&self, id: &str, awaits_reports: &dyn Fn() -> bool) {
        let Some(circuit) = self.0.circuits.get(id) else { return };
        let works = circuit.is_whole && self.is_usable(&circuit.path);
        let ends = circuit.path.first().zip(circuit.path.last()).filter(|_| circuit.has_ends());
        let has_path = || ends.is_some_and(|(first, last)| self.ways(first).cost(last).is_some());
        let sight = Sight {
            works,
            has_path: !works && has_path(),
            far_end: &|router, link| {
                Some(self.0.links.get(link)?.other_end(router.as_str()).clone())
            },
            has_told: &|router| self.has_named_all(router),
            awaits_reports,
        };
        self.adoption(Input::Looked { circuit: id, sight });
    }

    /// True while a router that is enrolled and not disabled has not reported its circuits.
    fn awaits_reports(&self) -> bool {
        let snapshot = self.0.kernel.snapshot();
        let mut routers = snapshot.list::<Router>();
        routers
            .any(|it| !it.disabled && it.fingerprint.is_some() && !self.has_named_all(&it.base.id))
    }
}
