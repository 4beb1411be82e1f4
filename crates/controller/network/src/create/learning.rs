//! What a failed attempt says about its terminator.

use weft_model::Id;
use weft_model::entity::{Precedence, Terminator};
use weft_wire::ctrl::{RouteError, RouteErrorCode};

use super::Making;
use super::chosen::Chosen;
use crate::clock;
use crate::network::Network;
use crate::terminators::{Terminators, Update};
use crate::validations::Standing;

impl Making<'_> {
    pub(super) fn count_failure(&self, chosen: &Chosen) {
        if chosen.is_counted {
            self.network.0.costs.failed(&chosen.terminator.base.id, clock::now());
        }
    }

    /// Counts a failure at the router of the terminator against the terminator. A terminator that
    /// its router does not know is removed, or gets the precedence `failed` if its router did not
    /// report it (docs/protocol/control-plane.md 12.4).
    pub(super) fn learn(&self, chosen: &Chosen, router: &Id, error: &RouteError) {
        let terminator = &chosen.terminator;
        if *router != terminator.router_id {
            return;
        }
        self.count_failure(chosen);
        if error.code != RouteErrorCode::InvalidTerminator {
            return;
        }
        let network = self.network.clone();
        let (dialed, since) = ((**terminator).clone(), chosen.standing);
        self.network.spawn(async move {
            if matches!(&*dialed.binding, "edge" | "tunnel") {
                network.remove_unknown(dialed, since).await;
            } else {
                network.fail_unknown(dialed).await;
            }
        });
    }
}

impl Network {
    /// Removes a terminator that its router does not know. If the router has made the terminator again, or reported
    /// it once more, since the dial was sent, its answer may be older than that: the router is asked instead.
    async fn remove_unknown(&self, dialed: Terminator, since: Standing) {
        let (router, id, made) = (dialed.router_id, dialed.base.id, dialed.base.created_at);
        let (network, of) = (self.clone(), router.clone());
        let is_same = move |one: &Terminator| {
            one.base.created_at == made && !network.is_known_anew(&of, &one.base.id, since)
        };
        let caller = weft_kernel::Caller::router(&router, "remove terminators");
        let terminators = Terminators::of(&self.0.kernel);
        match terminators.remove_if(caller, &router, std::slice::from_ref(&id), is_same).await {
            Ok(0) => self.ask_again(&router, &id),
            Ok(_) => {
                tracing::info!(terminator = %id, %router, "terminator removed: its router does not host it");
            }
            Err(problem) => not_changed(&id, &problem),
        }
    }

    /// Asks a router about a terminator that has stayed. One that another dial has removed before is not asked about.
    fn ask_again(&self, router: &Id, id: &Id) {
        let snapshot = self.0.kernel.snapshot();
        if snapshot.get::<Terminator>(id).is_some_and(|left| left.router_id == *router) {
            tracing::debug!(terminator = %id, %router, "a router did not host a terminator for which it was dialed, and has reported it since: it is asked again");
            self.validate_terminator(router, id);
        }
    }

    /// Gives a terminator that its router does not know the precedence `failed`, unless it leads to another
    /// address by now.
    async fn fail_unknown(&self, dialed: Terminator) {
        let (router, id) = (dialed.router_id.clone(), dialed.base.id.clone());
        let is_same = move |one: &Terminator| {
            one.base.created_at == dialed.base.created_at
                && (&one.binding, &one.address) == (&dialed.binding, &dialed.address)
        };
        let update = Update { precedence: Some(Precedence::Failed), cost: None };
        let terminators = Terminators::of(&self.0.kernel);
        if let Err(problem) = terminators.update_if(&router, &id, update, is_same).await {
            not_changed(&id, &problem);
        }
    }
}

fn not_changed(terminator: &Id, problem: &dyn std::fmt::Display) {
    tracing::warn!(%terminator, %problem, "the terminator of a failed dial was not changed");
}
