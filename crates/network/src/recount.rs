//! Finds out which circuits a router still carries after it connected again.
//!
//! A router keeps its circuits while its control channel is down, and loses them when it restarts.
//! Routers of weft report their circuits ([`adopt`](super::adopt)). Other routers are asked about
//! the circuits that went over them: the inspection `circuit:ID` has a value in the answer of a
//! router that carries the circuit, and none otherwise (docs/protocol/control-plane.md 18). A
//! circuit that the router lost is ended, or moved around the router.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashSet;
use weft_channel::Lane;
use weft_wire::ProtoBody as _;
use weft_wire::ctrl::{InspectRequest, InspectResponse};

use super::circuits::Circuit;
use super::routers::LiveRouter;
use crate::adoption::is_of_before;
use crate::network::Network;

/// Circuits in one question.
const PART: usize = 50;
/// How long a router has to answer, as long as for a validation.
const PATIENCE: Duration = Duration::from_secs(60);
/// Failed questions after which the other circuits are kept without asking.
const FAILURES: usize = 5;

impl Network {
    /// Asks a router that has connected for its former circuits, unless it reports them.
    pub async fn recount(&self, router: &Arc<LiveRouter>) {
        if self.of_before(router).is_empty() {
            return;
        }
        tokio::time::sleep(self.0.options.carried_grace).await;
        if self.0.pieces.has_begun(&router.id) {
            return;
        }
        let circuits = self.of_before(router);
        let mut parts = circuits.chunks(PART);
        let (mut part, mut failures) = (parts.next(), 0);
        while let Some(asked) = part {
            match carried(router, asked).await {
                Ok(carried) => {
                    self.end_missing(router, asked, &carried);
                    part = parts.next();
                }
                Err(problem) => {
                    failures += 1;
                    tracing::info!(router = %router.id, problem, "a router does not answer which circuits it carries; they are kept for now");
                    if failures == FAILURES || router.channel.is_closed() {
                        return;
                    }
                    tokio::time::sleep(self.0.options.carried_grace).await;
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

    fn end_missing(&self, router: &LiveRouter, asked: &[Arc<Circuit>], carried: &HashSet<String>) {
        let mut ended = 0;
        for circuit in asked.iter().filter(|circuit| !carried.contains(&circuit.id)) {
            // The circuit may have been moved away, or moved anew, since the question.
            let now = self.0.circuits.get(&circuit.id);
            if now.is_some_and(|now| Arc::ptr_eq(&now, circuit)) {
                ended += usize::from(self.not_carried(circuit, &router.id));
            }
        }
        if ended > 0 {
            tracing::info!(router = %router.id, ended, "circuits ended, because the router lost them");
        }
    }
}

/// The circuits among `asked` that a router carries.
async fn carried(router: &LiveRouter, asked: &[Arc<Circuit>]) -> Result<HashSet<String>, String> {
    let requested_values = asked.iter().map(|circuit| name(&circuit.id)).collect();
    let request = InspectRequest { requested_values }.to_message();
    let answer = router.channel.request_on(Lane::Low, request, PATIENCE).await;
    let answer = answer.map_err(|problem| problem.to_string())?;
    let answer = InspectResponse::from_message(&answer).map_err(|problem| problem.to_string())?;
    if !answer.success || !answer.errors.is_empty() {
        return Err(answer.errors.join("; "));
    }
    let named: HashSet<String> = answer.values.into_iter().map(|value| value.name).collect();
    Ok(asked.iter().map(|it| it.id.clone()).filter(|id| named.contains(&name(id))).collect())
}

/// The name of a circuit in inspections.
fn name(circuit: &str) -> String {
    format!("circuit:{circuit}")
}
