//! The circuits that this controller owns beside its own: those of a controller that has ended.
//!
//! `machine` decides whose circuits these are; this module claims them at the routers, and adopts what routers answer
//! ([`adoption`](super::adoption)). Routers of weft answer a claim, and report to this controller from then on. Routers of
//! other programs report to the controller that has made a circuit as long as they live; they are asked for their circuits
//! ([`recount`](super::recount)), so that a circuit over them alone is known as it was then.
//!
//! The id of a circuit begins with the tag of the controller that has made it. So a controller knows the circuits of the
//! others, and neither adopts nor ends them while these live, whatever a router says.

pub mod machine;
pub(crate) mod shared;

use std::sync::Arc;
use std::time::Instant;

use weft_channel::Lane;
use weft_model::Id;
use weft_wire::ctrl::{CarriedCircuits, ClaimCircuits};
use weft_wire::{ProtoBody as _, router_capability};

use self::machine::{Output, Roster};
use crate::adoption::machine::Input as OfAdoption;
use crate::clock;
use crate::ids::{TAG, tag};
use crate::network::Network;
use crate::routers::LiveRouter;

impl Network {
    /// Takes note of which controllers there are: claims the circuits of those that have ended if this controller leads, and
    /// lets go of them when they are back. Returns when it is to be called again at the latest.
    pub fn on_controllers(&self, roster: &Roster<'_>) -> Option<Instant> {
        let ownership = &self.0.ownership;
        ownership.claims.write().others = roster.others.iter().map(|other| tag(other)).collect();
        let mut machine = ownership.machine.lock();
        let outputs = machine.step(clock::now(), roster);
        outputs.into_iter().for_each(|output| self.carry_out_ownership(output));
        machine.next_due()
    }

    fn carry_out_ownership(&self, output: Output) {
        let ownership = &self.0.ownership;
        match output {
            Output::Own { term } => {
                let mut claims = ownership.claims.write();
                claims.own.term = term;
                let own = claims.own.clone();
                drop(claims);
                self.claim(&own);
            }
            Output::OwnAgain { term } => {
                tracing::info!(
                    "this controller was not counted among the living ones for a while: it asks routers for its circuits, which another controller may have taken over"
                );
                let mut claims = ownership.claims.write();
                claims.own.term = term;
                claims.run = format!("{}{}", claims.own.tag, &self.new_address()[..TAG]);
                let own = claims.own.clone();
                drop(claims);
                self.claim_after(&own, || {
                    self.let_go(|circuit| !ownership.is_held(circuit));
                });
            }
            Output::Hold { controller, term } => {
                let count = self.0.routers.all().len();
                tracing::info!(%controller, routers = count, "a controller has ended: its circuits are taken over");
                let claim = ClaimCircuits { tag: tag(&controller), controller, term };
                ownership.claims.write().held.push(claim.clone());
                self.claim(&claim);
            }
            Output::LetGo { controller } => {
                let tag = tag(&controller);
                ownership.claims.write().held.retain(|held| held.controller != controller);
                let circuits = self.let_go(|circuit| circuit.starts_with(&tag));
                tracing::info!(%controller, circuits, "circuits are given back");
            }
        }
    }

    /// Claims circuits at all routers.
    fn claim(&self, claim: &ClaimCircuits) {
        self.claim_after(claim, || {});
    }

    /// The same after something else: meanwhile, no circuit that routers may name is ended there.
    fn claim_after(&self, claim: &ClaimCircuits, before: impl FnOnce()) {
        let routers = self.0.routers.all();
        routers.iter().for_each(|router| router.claims.begin());
        before();
        routers.iter().for_each(|router| self.send_claim(router, claim));
    }

    /// Claims all that this controller owns at a router that has connected.
    pub(crate) fn claim_all_at(&self, router: &Arc<LiveRouter>) {
        for claim in self.0.ownership.all() {
            router.claims.begin();
            self.send_claim(router, &claim);
        }
    }

    fn send_claim(&self, router: &Arc<LiveRouter>, claim: &ClaimCircuits) {
        if !router.capabilities.has(router_capability::TAKES_CLAIMS) {
            let (router, claim) = (Arc::clone(router), claim.clone());
            return self.spawn_on_runtime(self.clone().ask_claimed(router, claim));
        }
        let (live, message) = (Arc::clone(router), claim.to_message());
        if live.channel.try_send_on(Lane::High, message.clone()).is_ok() {
            return;
        }
        self.spawn_on_runtime(async move {
            while let Err(problem) = live.channel.send_on(Lane::High, message.clone()).await {
                if live.channel.is_closed() {
                    return;
                }
                tracing::debug!(router = %live.id, %problem, "circuits are not claimed yet");
            }
        });
    }

    /// Handles a part of a router's answer to a claim.
    pub fn on_claimed(&self, router: &Arc<LiveRouter>, part: CarriedCircuits) {
        if !router.claims.is_awaited() {
            return tracing::debug!(router = %router.id, "an answer to no claim is ignored");
        }
        let count = part.routes.len();
        self.adopt_routes(router, part.routes);
        if part.last {
            router.claims.end();
            self.adoption(OfAdoption::News);
        }
        if count > 0 {
            tracing::debug!(router = %router.id, count, of = part.claimed_of, "circuits are taken over");
        }
    }

    /// Forgets circuits that are not this controller's any more: they go on, and another one knows them. Returns their
    /// number.
    fn let_go(&self, which: impl Fn(&str) -> bool) -> usize {
        let circuits = self.0.circuits.all();
        let circuits = circuits.iter().filter(|circuit| which(&circuit.id));
        let circuits = circuits.filter_map(|circuit| self.0.circuits.let_go(&circuit.id));
        let let_go = circuits.map(|circuit| {
            self.0.moves.forget(&circuit.id, &circuit.path);
            self.adoption(OfAdoption::Ended(&circuit.id));
            if circuit.is_counted {
                self.0.costs.removed(&circuit.terminator);
            }
        });
        let_go.count()
    }

    /// Whether a router has named all circuits that are this controller's.
    pub(crate) fn has_named_all(&self, router: &Id) -> bool {
        let live = self.0.routers.get(router.as_str());
        self.has_told(router) && live.is_none_or(|live| !live.claims.is_awaited())
    }
}
