//! A data half that does nothing and records every call.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::seam::{
    ControllerId, Data, Dropped, PeerData, RouteCommand, RouteError, RouteErrorCode,
};

/// A data half that does nothing and records every call.
#[derive(Default)]
pub(crate) struct FakeData {
    pub(crate) routes: Mutex<Vec<RouteCommand>>,
    pub(crate) unrouted: Mutex<Vec<(String, bool)>>,
    pub(crate) alive: Mutex<HashSet<String>>,
    pub(crate) tokens: Mutex<Vec<String>>,
    /// Addresses of ends that are gone.
    pub(crate) gone: Mutex<HashSet<String>>,
    circuits: Mutex<HashMap<String, ControllerId>>,
}

impl Data for FakeData {
    fn measured(&self) -> weft_metrics::Report {
        weft_metrics::Report::new()
    }

    fn take_measured(&self, _: Duration) -> crate::seam::Measured {
        crate::seam::Measured::default()
    }

    fn reports_lost(&self, _: u64) {}

    fn route(&self, command: RouteCommand) -> BoxFuture<'static, Result<PeerData, RouteError>> {
        let refused = command.circuit.starts_with("refused");
        let peer_data: PeerData = [(1110, "local".into())].into();
        if !refused {
            self.circuits.lock().insert(command.circuit.clone(), command.controller.clone());
        }
        let taken_down = command.taken_down.clone();
        let slow = command.circuit.starts_with("slow");
        self.routes.lock().push(command);
        let failure =
            RouteError { code: RouteErrorCode::ConnectionRefused, text: "nobody there".into() };
        let result = if refused { Err(failure) } else { Ok(peer_data) };
        async move {
            if slow {
                taken_down.cancelled().await;
            }
            result
        }
        .boxed()
    }

    fn route_without_dial(&self, command: &RouteCommand) -> Result<(), RouteError> {
        self.circuits.lock().insert(command.circuit.clone(), command.controller.clone());
        self.routes.lock().push(command.clone());
        Ok(())
    }

    fn has_destination(&self, address: &str) -> bool {
        address == "there"
    }

    fn has_open_end(&self, address: &str) -> bool {
        !self.gone.lock().contains(address)
    }

    fn unroute(&self, circuit: &str, now: bool) {
        self.circuits.lock().remove(circuit);
        self.unrouted.lock().push((circuit.to_owned(), now));
    }

    fn vouches(&self, _: &str, terminator: &str) -> bool {
        self.alive.lock().contains(terminator)
    }

    fn circuits(&self) -> Vec<String> {
        self.circuits.lock().keys().cloned().collect()
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
