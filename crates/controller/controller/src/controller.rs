//! The controller: a handle on all of its parts.

use std::sync::Arc;

use weft_auth::Auth;
use weft_kernel::work_limiter::WorkLimiter;
use weft_kernel::{Call, Caller, Challenge, Failure, Kernel, Reply, Result, Via, Who};
use weft_model::entity::Terminator;
use weft_network::{Network, WeakNetwork};

use crate::domain::integrity::run::Integrity;
use crate::domain::registry::Registry;
use crate::domain::resources::router_texts::RouterTexts;
use crate::domain::resources::snapshot_permit::Snapshots;

/// The controller: one shared state. A clone is a handle on the same state.
#[derive(Clone)]
pub struct Controller(pub(crate) Arc<Core>);

pub(crate) struct Core {
    pub(crate) auth: Auth,
    pub(crate) registry: Registry,
    pub(crate) router_texts: RouterTexts,
    pub(crate) network: arc_swap::ArcSwapOption<WeakNetwork>,
    pub(crate) snapshots: Snapshots,
    pub(crate) integrity: Integrity,
    /// Turns for plans of documents.
    pub(crate) plans: WorkLimiter,
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Controller({:?})", self.kernel().snapshot())
    }
}

impl Controller {
    /// Logins, sessions and tokens.
    pub fn auth(&self) -> &Auth {
        &self.0.auth
    }

    /// What every part of the controller needs.
    pub fn kernel(&self) -> &Kernel {
        self.0.auth.kernel()
    }

    /// Runs an operation of an API: the gate first, then the operation's own rules.
    pub async fn call(&self, mut caller: Caller, call: Call) -> Result<Reply> {
        if !weft_auth::resolve::opens(self.auth(), &caller, call.api) {
            caller.who = Who::Nobody(Some(Challenge::InvalidSession));
        }
        weft_kernel::gate::pass(&caller, call.row).map_err(|failure| {
            match self.auth().second_challenge(&caller) {
                Some(challenge) if failure.status() == 401 => {
                    failure.with_challenge_text(challenge)
                }
                _ => failure,
            }
        })?;
        if call.row.access == weft_contract::Access::Public {
            // Such an operation judges the ticket or the password in the request; the certificate
            // or session that comes with it counts for nothing.
            caller = Caller::nobody(caller.origin);
        }
        let (api, operation, method) = (call.api, call.row.id, call.row.method);
        caller.origin.via = Via::Rest { api, operation, method };
        caller.origin.wait = call.wait.clone();
        let (row, begun) = (call.row, std::time::Instant::now());
        match self.0.registry.handler(call.api, call.row.id) {
            Some(handler) => {
                let done = handler.run(self, caller, call).await;
                self.kernel().measures().request(api, row, begun.elapsed());
                done
            }
            None => Err(Failure::unhandled("the operation is not implemented").with_status(501)),
        }
    }

    /// The metrics of this controller and its routers in the text format of Prometheus;
    /// `with_times` adds the time at which each was measured.
    pub async fn prometheus(&self, with_times: bool) -> bytes::Bytes {
        match self.network() {
            Some(network) => network.prometheus(with_times).await,
            None => bytes::Bytes::new(),
        }
    }

    /// The running network; none before [`Self::start_network`] and after its end.
    pub(crate) fn network(&self) -> Option<Network> {
        self.0.network.load().as_ref().and_then(|network| network.upgrade())
    }

    /// The cost of a terminator now: its own cost, and the cost of its failures and circuits.
    pub(crate) fn dynamic_cost(&self, terminator: &Terminator) -> u16 {
        match self.network() {
            Some(network) => network.dynamic_cost(&terminator.base.id),
            None => terminator.cost,
        }
    }

    /// Ends the searches, plans and explanations that are being made, and refuses those that wait: the controller
    /// stops. Changes that the writer has are made.
    pub fn end_long_work(&self) {
        self.kernel().scans().close();
        self.plans().close();
    }

    pub(crate) fn snapshots(&self) -> &Snapshots {
        &self.0.snapshots
    }

    pub(crate) fn integrity(&self) -> &Integrity {
        &self.0.integrity
    }

    pub(crate) fn plans(&self) -> &WorkLimiter {
        &self.0.plans
    }

    pub(crate) fn router_texts(&self) -> &RouterTexts {
        &self.0.router_texts
    }
}
