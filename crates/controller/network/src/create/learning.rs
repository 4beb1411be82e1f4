//! What a failed attempt says about its terminator.

use weft_model::Id;
use weft_model::entity::{Precedence, Terminator};
use weft_wire::ctrl::{RouteError, RouteErrorCode};

use super::Making;
use super::chosen::DialTarget;
use crate::clock;
use crate::network::Network;
use crate::standing::machine::Input;
use crate::terminators::{TerminatorPatch, Terminators};

impl Making<'_> {
    pub(super) fn count_failure(&self, chosen: &DialTarget) {
        if chosen.is_counted {
            self.network.0.costs.failed(&chosen.terminator.base.id, clock::now());
        }
    }

    /// Counts a failure at the router of the terminator against the terminator. A terminator that
    /// its router does not know is removed, or gets the precedence `failed` if its router did not
    /// report it (docs/protocol/control-plane.md 12.4).
    pub(super) fn learn(&self, chosen: &DialTarget, router: &Id, error: &RouteError) {
        let terminator = &chosen.terminator;
        if *router != terminator.router_id {
            return;
        }
        self.count_failure(chosen);
        if error.code != RouteErrorCode::InvalidTerminator {
            return;
        }
        if matches!(&*terminator.binding, "edge" | "tunnel") {
            let (id, made) = (&terminator.base.id, terminator.base.created_at);
            let since = chosen.number;
            self.network.note(Input::DialDenied { router, terminator: id, since, made });
        } else {
            let (network, dialed) = (self.network.clone(), (**terminator).clone());
            self.network.spawn(async move { network.fail_unknown(dialed).await });
        }
    }
}

impl Network {
    /// Gives a terminator that its router does not know the precedence `failed`, unless it leads to another
    /// address by now.
    async fn fail_unknown(&self, dialed: Terminator) {
        let (router, id) = (dialed.router_id.clone(), dialed.base.id.clone());
        let is_same = move |one: &Terminator| {
            one.base.created_at == dialed.base.created_at
                && (&one.binding, &one.address) == (&dialed.binding, &dialed.address)
        };
        let update = TerminatorPatch { precedence: Some(Precedence::Failed), cost: None };
        let terminators = Terminators::of(&self.0.kernel);
        if let Err(problem) = terminators.update_if(&router, &id, update, is_same).await {
            tracing::warn!(terminator = %id, %problem, "the terminator of a failed dial was not changed");
        }
    }
}
