//! Finds out which circuits a router carries after it has connected.
//!
//! A router keeps its circuits while its control channel is down, and loses them when it restarts. Routers of weft
//! report their circuits by themselves ([`adoption`](super::adoption)). Other routers are asked for them, and the answer is
//! handled like such a report: circuits of an earlier run of this controller are put together, circuits that ended
//! meanwhile are taken down, and circuits that the router has lost end or move around it.
//!
//! The inspections `router-circuits` and `router-edge-circuits` list the ways of all circuits, and which ends are in
//! SDKs. For an end in the router itself, `circuit:ID` says which of the two ends it is
//! (docs/protocol/control-plane.md 18).

mod listed;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use weft_kernel::aside;
use weft_wire::ctrl::{CarriedCircuits, ClaimCircuits, Route};

use self::listed::{
    CIRCUITS, CircuitDetail, EDGE_CIRCUITS, EndRoles, Listed, ListedCircuit, ListedEnds, inspection,
};
use super::circuits::Circuit;
use super::routers::LiveRouter;
use crate::adoption::is_of_before;
use crate::adoption::machine::Input as OfAdoption;
use crate::network::Network;
use crate::presence::machine::{Input, Source};
use crate::questions::Answers;

/// Circuits in one question about ends.
const PART: usize = 50;
/// Circuits of an answer that are handled before the task yields.
const TURN: usize = 500;
/// How long a router has to answer, as long as for a validation.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause after a question without an answer.
const AGAIN: Duration = Duration::from_secs(5);
/// The longest such pause.
const SELDOM: Duration = Duration::from_secs(300);

impl Network {
    /// Asks a router for its circuits, and handles the answer.
    pub(crate) async fn ask_circuits(self, router: Arc<LiveRouter>) {
        let is_owned = |maker: &str, id: &str| self.0.ownership.is_owned(maker, id);
        match self.carried(&router, &is_owned).await {
            Ok(routes) => self.take_answer(&router, routes).await,
            Err(problem) => {
                tracing::info!(router = %router.id, problem, "a router does not answer which circuits it carries; they are kept for now");
                self.presence(Input::CircuitsUnanswered(&router.connection));
            }
        }
    }

    /// Asks a router for the circuits of a claim, until it answers or is gone. A router that does not answer may have such
    /// circuits.
    pub(crate) async fn ask_claimed(self, router: Arc<LiveRouter>, claim: ClaimCircuits) {
        let is_of_claim = |maker: &str, id: &str| {
            (maker == claim.controller || id.starts_with(&claim.tag))
                && !self.0.ownership.is_elsewhere(id)
        };
        let mut pause = AGAIN;
        loop {
            match self.carried(&router, &is_of_claim).await {
                Ok(mut rest) => {
                    while !rest.is_empty() {
                        let later = rest.split_off(rest.len().min(TURN));
                        self.adopt_claimed(&router, std::mem::replace(&mut rest, later));
                        tokio::task::yield_now().await;
                    }
                    router.claims.end();
                    return self.adoption(OfAdoption::News);
                }
                Err(_) if self.0.routers.of(&router.connection).is_none() => return,
                Err(problem) => {
                    tracing::info!(router = %router.id, of = claim.controller, problem, "a router does not answer which circuits it carries; it is asked again");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(SELDOM);
                }
            }
        }
    }

    /// The circuits over a router that are older than its connection.
    pub fn of_before(&self, router: &LiveRouter) -> Vec<Arc<Circuit>> {
        let mut circuits = self.0.circuits.at(&router.id);
        circuits.retain(|circuit| is_of_before(circuit, router));
        circuits
    }

    /// The routes that a router carries of some circuits, chosen by the controller that has made them and the id.
    async fn carried(
        &self,
        router: &LiveRouter,
        is_wanted: &(dyn Fn(&str, &str) -> bool + Sync),
    ) -> Result<Vec<Route>, String> {
        let names = vec![CIRCUITS.to_owned(), EDGE_CIRCUITS.to_owned()];
        let answers = Answers::of(router, names, PATIENCE).await?;
        let Some(listed) = answers.get::<Listed>(CIRCUITS)? else {
            return self.carried_of_before(router).await;
        };
        let ends: ListedEnds = answers.get(EDGE_CIRCUITS)?.unwrap_or_default();
        let bytes = answers.bytes();
        let (circuits, mut roles, open) =
            aside(bytes, || self.open_ends(router, listed.wanted(is_wanted), ends));
        let mut ended = HashSet::new();
        for names in open.chunks(PART) {
            let answers = Answers::of(router, names.to_vec(), PATIENCE).await?;
            for name in names {
                match answers.get::<CircuitDetail>(name)? {
                    Some(described) => roles.extend(described),
                    // It has ended since it was listed.
                    None => drop(ended.insert(name.clone())),
                }
            }
        }
        let goes_on = |circuit: &ListedCircuit| {
            !self.has_ended(router, &circuit.id) && !ended.contains(&inspection(&circuit.id))
        };
        let going_on = || circuits.into_iter().filter(goes_on);
        Ok(aside(bytes, || going_on().map(|circuit| circuit.route(&roles)).collect()))
    }

    /// The circuits of a list without those that have closed, the known ends, and the questions about the others.
    fn open_ends(
        &self,
        router: &LiveRouter,
        mut circuits: Vec<ListedCircuit>,
        ends: ListedEnds,
    ) -> (Vec<ListedCircuit>, EndRoles, Vec<String>) {
        circuits.retain(|circuit| !self.has_closed(router, circuit));
        // The ends of a circuit that is known whole are known, too.
        let is_open = |id: &str| self.0.circuits.get(id).is_none_or(|circuit| !circuit.is_whole);
        let open = circuits
            .iter()
            .filter(|circuit| is_open(&circuit.id) && circuit.has_end_in_router())
            .map(|circuit| inspection(&circuit.id))
            .collect();
        (circuits, EndRoles::from(ends), open)
    }

    /// Whether the end of a whole circuit at this router has closed, or was lost when the router restarted. The circuit may
    /// have been told to the router since.
    fn has_closed(&self, router: &LiveRouter, listed: &ListedCircuit) -> bool {
        let Some(circuit) = self.0.circuits.get(&listed.id).filter(|it| it.is_whole) else {
            return false;
        };
        let path = &circuit.path;
        let ends = [(path.first(), &circuit.ingress), (path.last(), &circuit.egress)];
        ends.into_iter().any(|(end, address)| end == Some(&router.id) && !listed.leads_to(address))
    }

    /// Which of the known circuits a router carries, asked one by one, for a router that cannot list its circuits. The
    /// answer has no ways.
    async fn carried_of_before(&self, router: &LiveRouter) -> Result<Vec<Route>, String> {
        let ids: Vec<String> = self.of_before(router).iter().map(|it| it.id.clone()).collect();
        let mut routes = Vec::new();
        for ids in ids.chunks(PART) {
            let names = ids.iter().map(|id| inspection(id)).collect();
            let answers = Answers::of(router, names, PATIENCE).await?;
            let carried = ids.iter().filter(|id| answers.has(&inspection(id)));
            let route = |id: &String| Route { circuit_id: id.clone(), ..Route::default() };
            routes.extend(carried.map(route));
        }
        Ok(routes)
    }

    /// Handles the answer of a router like a report.
    async fn take_answer(&self, router: &Arc<LiveRouter>, routes: Vec<Route>) {
        let mut rest = routes;
        loop {
            let later = rest.split_off(rest.len().min(TURN));
            let last = later.is_empty();
            let part = CarriedCircuits { routes: rest, last, ..Default::default() };
            // The router may report its circuits by itself meanwhile.
            if !self.take_report(router, Source::Answer, part) || last {
                return;
            }
            rest = later;
            tokio::task::yield_now().await;
        }
    }
}
