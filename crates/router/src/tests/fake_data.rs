//! A data half that does nothing and records every call.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use weft_wire::ctrl::{ClaimCircuits, Route, Unroute};
use weft_xgress::Role;

use crate::forwarder::tests::without_controller;
use crate::forwarder::{Forwarder, SetUp};
use crate::seam::{
    BegunRoute, ControllerId, Data, Dropped, NotObeyed, PeerData, RouteCommand, RouteError,
    RouteErrorCode, RouteTicket,
};

/// A data half that moves nothing and records every call. It knows the circuits, as the real one does.
pub(crate) struct FakeData {
    forwarder: Arc<Forwarder>,
    pub(crate) routes: Arc<Mutex<Vec<RouteCommand>>>,
    pub(crate) unrouted: Mutex<Vec<(String, bool)>>,
    pub(crate) alive: Mutex<HashSet<String>>,
    pub(crate) tokens: Mutex<Vec<String>>,
}

impl FakeData {
    pub(crate) fn new() -> Self {
        Self {
            forwarder: without_controller(),
            routes: Arc::default(),
            unrouted: Mutex::default(),
            alive: Mutex::default(),
            tokens: Mutex::default(),
        }
    }
}

struct FakeRoute {
    set_up: SetUp,
    routes: Arc<Mutex<Vec<RouteCommand>>>,
}

impl BegunRoute for FakeRoute {
    fn ticket(&self) -> RouteTicket {
        self.set_up.ticket().clone()
    }

    fn given_up(&self) -> CancellationToken {
        self.set_up.given_up().clone()
    }

    fn set_up(
        self: Box<Self>,
        command: RouteCommand,
    ) -> BoxFuture<'static, Result<PeerData, RouteError>> {
        self.routes.lock().push(command.clone());
        async move {
            if command.circuit.starts_with("slow") {
                command.taken_down.cancelled().await;
            }
            if command.circuit.starts_with("refused") {
                let text = "nobody there".to_owned();
                return Err(RouteError { code: RouteErrorCode::ConnectionRefused, text });
            }
            self.set_up.route(&[]).map(|()| [(1110, "local".into())].into())
        }
        .boxed()
    }

    fn set_up_without_dial(self: Box<Self>, command: &RouteCommand) -> Result<(), RouteError> {
        self.routes.lock().push(command.clone());
        self.set_up.route(&[])
    }
}

impl Data for FakeData {
    fn measured(&self) -> weft_metrics::Report {
        weft_metrics::Report::new()
    }

    fn take_measured(&self, _: Duration) -> crate::seam::Measured {
        crate::seam::Measured::default()
    }

    fn reports_lost(&self, _: u64) {}

    fn begin(&self, from: &ControllerId, route: &Route) -> Result<Box<dyn BegunRoute>, NotObeyed> {
        let set_up = self.forwarder.begin(from, route, true)?;
        Ok(Box::new(FakeRoute { set_up, routes: Arc::clone(&self.routes) }))
    }

    fn retract(&self, route: &RouteTicket) {
        self.forwarder.retract(route);
    }

    fn has_destination(&self, address: &str) -> bool {
        address == "there"
    }

    fn unroute(&self, from: &ControllerId, unroute: &Unroute) -> Result<(), NotObeyed> {
        self.forwarder.unroute(from, unroute)?;
        self.unrouted.lock().push((unroute.circuit_id.clone(), unroute.now));
        Ok(())
    }

    fn claim(&self, from: &ControllerId, claim: &ClaimCircuits) -> Vec<Route> {
        self.forwarder.claim(from, claim)
    }

    fn end_gone(&self, asked: &ControllerId, circuit: &str, end: Role) {
        self.forwarder.end_gone(asked, circuit, end);
    }

    fn disconnected(&self, controller: &ControllerId) {
        let circuits = self.forwarder.not_begun(controller);
        self.forwarder.report_not_begun(&circuits);
    }

    fn routes_of(&self, owner: &ControllerId) -> Vec<Route> {
        self.forwarder.routes_of(owner)
    }

    fn taken_from(&self, controller: &ControllerId) -> Vec<Arc<str>> {
        self.forwarder.taken_from(controller)
    }

    fn routes(&self) -> Vec<(ControllerId, Route)> {
        self.forwarder.routes()
    }

    fn route_of(&self, circuit: &str) -> Option<Route> {
        self.forwarder.route_of(circuit)
    }

    fn vouches(&self, _: &str, terminator: &str) -> bool {
        self.alive.lock().contains(terminator)
    }

    fn open_session_tokens(&self) -> Vec<String> {
        self.tokens.lock().clone()
    }

    fn peers(&self, _: &ControllerId, _: Vec<crate::seam::PeerReport>) {}
    fn link_faulted(&self, _: &str, _: u32) {}
    fn links(&self) -> Vec<crate::seam::LinkReport> {
        Vec::new()
    }
    fn inspect_links(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
    fn inspect_links_of(&self, _: &HashSet<&str>) -> serde_json::Map<String, serde_json::Value> {
        serde_json::Map::new()
    }
    fn inspect_ends(&self, circuit: &str) -> serde_json::Map<String, serde_json::Value> {
        serde_json::Map::from_iter([(format!("end of {circuit}"), serde_json::Value::Null)])
    }
    fn inspect_sdk_circuits(&self) -> serde_json::Map<String, serde_json::Value> {
        serde_json::Map::new()
    }
    fn dropped(&self) -> Dropped {
        Dropped { full: 7, stuck: 1, ..Dropped::default() }
    }
}
