//! What a failed attempt says about its terminator.

use weft_model::Id;
use weft_model::entity::{Precedence, Terminator};
use weft_wire::PeerData;
use weft_wire::ctrl::{RouteError, RouteErrorCode};

use super::DialTask;
use super::chosen::DialTarget;
use super::machine::Input as Answer;
use crate::clock;
use crate::failure::FailureCause;
use crate::network::Network;
use crate::standing::machine::Input;
use crate::terminators::{TerminatorPatch, Terminators};

impl DialTask<'_> {
    /// Handles that a router has set up its route.
    pub(super) fn router_set(&mut self, router: Id, data: PeerData) -> Answer {
        if let Some(chosen) = self.dial.target() {
            self.network.answered_dial(&chosen.path, &router, None);
        }
        if let Some(routes) = &mut self.routes {
            routes.spans.done(&router);
        }
        Answer::Set(router, data)
    }

    /// Handles that a router has refused its route.
    pub(super) fn router_refused(&mut self, router: Id, error: RouteError) -> Answer {
        if let Some(chosen) = self.dial.target() {
            self.network.answered_dial(&chosen.path, &router, Some(error.code));
            self.learn(chosen, &router, &error);
        }
        if let Some(routes) = &mut self.routes {
            routes.spans.failed(&router, FailureCause::Router(error.code), &error.text);
        }
        Answer::Refused(router, error)
    }

    /// Handles that some routers have not answered in time.
    pub(super) fn routers_late(&mut self) -> Answer {
        let missing = self.dial.missing();
        if let Some(chosen) = self.dial.target() {
            if missing.contains(&chosen.terminator.router_id) {
                self.count_failure(chosen);
            }
            missing.iter().for_each(|router| self.network.silent_at_dial(&chosen.path, router));
        }
        if let Some(routes) = &mut self.routes {
            let cause = FailureCause::RouterResponseTimeout;
            missing
                .iter()
                .for_each(|router| routes.spans.failed(router, cause, "no answer in time"));
        }
        Answer::Due
    }

    fn count_failure(&self, chosen: &DialTarget) {
        if chosen.is_counted {
            self.network.0.costs.failed(&chosen.terminator.base.id, clock::now());
        }
    }

    /// Counts a failure at the router of the terminator against the terminator. A terminator that
    /// its router does not know is removed, or gets the precedence `failed` if its router did not
    /// report it (docs/protocol/control-plane.md 12.4).
    fn learn(&self, chosen: &DialTarget, router: &Id, error: &RouteError) {
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
