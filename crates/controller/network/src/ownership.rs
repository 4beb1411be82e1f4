//! The circuits that this controller owns: those that it has made, and those of a controller that has ended if it leads.
//!
//! `machine` decides whose circuits these are; this module claims them at the routers, and adopts what routers answer
//! ([`adoption`](super::adoption)). Routers of weft answer a claim, and report to this controller from then on. Routers of
//! other programs report to the controller that has made a circuit as long as they live; they are asked for their circuits
//! ([`recount`](super::recount)), so that a circuit over them alone is known as it was then.
//!
//! Whoever loses circuits to another controller is told so by routers of weft, forgets them without a word, and says nothing
//! of them until they are its own again.
//!
//! The id of a circuit begins with the tag of the controller that has made it. So a controller knows the circuits of the
//! others, and neither adopts nor ends them while these live, whatever a router says.

pub mod machine;
pub(crate) mod shared;

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashSet;
use weft_channel::Lane;
use weft_model::Id;
use weft_wire::ctrl::{CarriedCircuits, ClaimCircuits, Route};
use weft_wire::{ProtoBody as _, router_capability};

use self::machine::{Output, Roster};
use crate::adoption::machine::Input as OfAdoption;
use crate::circuits::Circuit;
use crate::clock;
use crate::ids::{TAG, tag};
use crate::network::Network;
use crate::routers::LiveRouter;

/// How long a router of weft may say nothing before it is taken for one that has named all its circuits.
const PATIENCE: Duration = Duration::from_secs(60);

impl Network {
    /// Takes note of which controllers there are, each time when this one has heard of the others: claims the circuits of those
    /// that have ended if this one leads, and lets go of them when they are back.
    pub fn on_controllers(&self, roster: &Roster<'_>) {
        let ownership = &self.0.ownership;
        ownership.claims.write().others = roster.others.iter().map(|other| tag(other)).collect();
        let mut machine = ownership.machine.lock();
        let outputs = machine.step(clock::now(), roster);
        outputs.into_iter().for_each(|output| self.carry_out_ownership(output));
    }

    fn carry_out_ownership(&self, output: Output) {
        match output {
            Output::Own { term } => self.claim_own(term),
            Output::OwnAgain { term } => {
                tracing::info!(
                    "this controller was not counted among the living ones for a while: it claims the circuits that another \
                     one may have taken over"
                );
                let mut claims = self.0.ownership.claims.write();
                claims.run = format!("{}{}", claims.own.tag, &self.new_address()[..TAG]);
                drop(claims);
                self.claim_own(term);
            }
            Output::Hold { controller, term, is_again } => {
                let routers = self.0.routers.all().len();
                if !is_again {
                    tracing::info!(%controller, routers, "a controller has ended: its circuits are taken over");
                }
                let tag = tag(&controller);
                let spared = Vec::new();
                let claim = ClaimCircuits { tag, controller, term, changed_only: is_again, spared };
                self.hold(ClaimCircuits { changed_only: true, ..claim.clone() });
                let claim = self.0.ownership.claims.read().sparing(claim);
                self.claim(&claim, |router| !is_again || takes_claims(router));
            }
            Output::LetGo { controller } => {
                let tag = tag(&controller);
                let mut claims = self.0.ownership.claims.write();
                claims.held.retain(|held| held.controller != controller);
                drop(claims);
                let circuits = self.let_go(|circuit| circuit.id.starts_with(&tag));
                tracing::info!(%controller, circuits, "circuits are given back");
            }
        }
    }

    /// Claims what this controller has made. Circuits over routers that do not say who has taken them over are asked for.
    fn claim_own(&self, term: u64) {
        let mut claims = self.0.ownership.claims.write();
        claims.own.term = term;
        claims.forget_taken("");
        let own = claims.sparing(claims.own.clone());
        drop(claims);
        let routers = self.0.routers.all();
        let mut silent = routers.iter().filter(|router| !takes_claims(router));
        let silent: HashSet<Id> = silent.by_ref().map(|router| router.id.clone()).collect();
        routers.iter().for_each(|router| begin(router));
        self.let_go(|circuit| {
            let is_over = circuit.path.nodes.iter().any(|router| silent.contains(router));
            is_over && !self.0.ownership.is_held(&circuit.id)
        });
        routers.iter().for_each(|router| self.send_claim(router, &own));
    }

    /// Owns the circuits of a controller that has ended.
    fn hold(&self, claim: ClaimCircuits) {
        let mut claims = self.0.ownership.claims.write();
        claims.held.retain(|held| held.controller != claim.controller);
        claims.forget_taken(&claim.tag);
        claims.held.push(claim);
    }

    /// Claims circuits at connected routers.
    fn claim(&self, claim: &ClaimCircuits, at: impl Fn(&LiveRouter) -> bool) {
        for router in self.0.routers.all().iter().filter(|router| at(router)) {
            begin(router);
            self.send_claim(router, claim);
        }
    }

    /// Claims all that this controller owns at a router that has connected, unless it is asked for all its circuits anyway.
    pub(crate) fn claim_all_at(&self, router: &Arc<LiveRouter>) {
        for claim in self.0.ownership.all().iter().filter(|_| takes_claims(router)) {
            begin(router);
            self.send_claim(router, claim);
        }
    }

    fn send_claim(&self, router: &Arc<LiveRouter>, claim: &ClaimCircuits) {
        if !takes_claims(router) {
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
        let is_registered = self.0.routers.of(&router.connection).is_some();
        if !is_registered || !router.claims.is_awaited(clock::now()) {
            return tracing::debug!(router = %router.id, "an answer to no claim is ignored");
        }
        let count = part.routes.len();
        self.adopt_claimed(router, part.routes);
        if part.last {
            router.claims.end();
            self.adoption(OfAdoption::News);
        }
        if count > 0 {
            tracing::debug!(router = %router.id, count, of = part.claimed_of, "circuits are taken over");
        }
    }

    /// Adopts circuits that were claimed. What is known of such a circuit from before is of no use: another controller may
    /// have moved it.
    pub(crate) fn adopt_claimed(&self, router: &Arc<LiveRouter>, mut routes: Vec<Route>) {
        routes.retain(|route| !router.claims.has_ended(&route.circuit_id));
        for route in &routes {
            let id = &route.circuit_id;
            let known = self.0.circuits.get(id).filter(|known| !known.is_of_earlier_run());
            if known.is_some() && !self.is_of_this_run(id) {
                self.let_one_go(id);
            }
        }
        self.adopt_routes(router, routes);
    }

    /// Handles a router's notice that another controller has taken circuits over that this one has made or owned.
    pub fn on_taken(&self, router: &LiveRouter, circuits: &[String]) {
        let is_over = |id: &&String| {
            let known = self.0.circuits.get(id.as_str());
            known.is_some_and(|known| known.path.nodes.contains(&router.id))
        };
        let mut count = 0;
        for id in circuits.iter().filter(is_over) {
            let is_possible = self.0.ownership.claims.write().note_taken(id, clock::now());
            count += usize::from(is_possible && self.let_one_go(id));
        }
        if count > 0 {
            tracing::info!(router = %router.id, count, "another controller has taken circuits over");
        }
    }

    /// Forgets circuits that are not this controller's any more: they go on, and another one knows them. Returns their
    /// number.
    fn let_go(&self, which: impl Fn(&Circuit) -> bool) -> usize {
        let circuits = self.0.circuits.all();
        let circuits = circuits.iter().filter(|circuit| which(circuit));
        circuits.filter(|circuit| self.let_one_go(&circuit.id)).count()
    }

    fn let_one_go(&self, id: &str) -> bool {
        let Some(circuit) = self.0.circuits.let_go(id) else { return false };
        self.0.moves.forget(&circuit.id, &circuit.path);
        self.adoption(OfAdoption::Ended(&circuit.id));
        if circuit.is_counted {
            self.0.costs.removed(&circuit.terminator);
        }
        true
    }

    /// Whether a router has named all circuits that are this controller's.
    pub(crate) fn has_named_all(&self, router: &Id) -> bool {
        let live = self.0.routers.get(router.as_str());
        self.has_told(router) && live.is_none_or(|live| !live.claims.is_awaited(clock::now()))
    }
}

/// Whether a router answers claims; others are asked for their circuits.
fn takes_claims(router: &LiveRouter) -> bool {
    router.capabilities.has(router_capability::TAKES_CLAIMS)
}

/// Notes that a claim is about to be sent: until it is answered, no circuit that the router may name is ended there.
fn begin(router: &LiveRouter) {
    // Whoever does not answer a question may have circuits still.
    router.claims.begin(clock::now(), takes_claims(router).then_some(PATIENCE));
}
