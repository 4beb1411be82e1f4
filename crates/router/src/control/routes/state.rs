//! What the router knows of its circuits and of routes, behind its locks.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use weft_metrics::Histogram;
use weft_wire::Message;
use weft_wire::ctrl::Route;

use super::dial_slots::DialSlots;
use super::table::CircuitTable;
use crate::control::faults::{Faults, Holds};
use crate::seam::{ControllerId, Data};

/// The circuits of this router, the routes that wait for a worker, and the reports that wait for controllers.
#[derive(Debug)]
pub(crate) struct Routes {
    /// The slots of routes that dial.
    pub(in crate::control) dial_slots: Arc<DialSlots>,
    pub(super) table: Mutex<CircuitTable>,
    /// Reports that wait for controllers.
    pub(super) faults: Faults,
    /// How long it took to set routes up.
    pub(super) times: Arc<Histogram>,
}

impl Routes {
    pub(crate) fn new(workers: usize, queue: usize) -> Self {
        Self {
            dial_slots: DialSlots::new(workers, queue),
            table: Mutex::default(),
            faults: Faults::default(),
            times: Arc::new(Histogram::times()),
        }
    }

    /// How long it took to set routes up.
    pub(in crate::control) fn times(&self) -> Arc<Histogram> {
        Arc::clone(&self.times)
    }

    /// Queues a report of a link for a controller, in order with its other reports.
    pub(in crate::control) fn push_link(
        &self,
        controller: &ControllerId,
        news: Message,
        holds: Holds,
    ) {
        self.faults.push_link(controller, news, holds);
    }

    /// Drops the reports for controllers that are not connected and that `stays` does not name.
    pub(in crate::control) fn retain_reports(&self, stays: impl Fn(&ControllerId) -> bool) {
        self.faults.retain(stays);
    }

    /// Forgets circuits that the data half no longer has.
    pub(crate) fn prune(&self, data: &dyn Data) {
        // A circuit that is set up meanwhile is not among these.
        let settled = self.table.lock().settled();
        let carried: HashSet<String> = data.circuits().into_iter().collect();
        let mut table = self.table.lock();
        settled.iter().filter(|id| !carried.contains(*id)).for_each(|id| table.forget(id));
    }

    /// The owner of a circuit: `made_by`, which had it made, unless another controller has taken it over.
    pub(super) fn owner(&self, circuit: &str, made_by: &ControllerId) -> ControllerId {
        self.table.lock().owner(circuit).unwrap_or(made_by).clone()
    }

    /// Things of circuits by the owners of the circuits; `made_by` had them made.
    pub(in crate::control) fn by_owner<T>(
        &self,
        made_by: &ControllerId,
        of: Vec<T>,
        circuit: impl Fn(&T) -> &str,
    ) -> HashMap<ControllerId, Vec<T>> {
        let table = self.table.lock();
        let mut by_owner: HashMap<ControllerId, Vec<T>> = HashMap::new();
        for one in of {
            let owner = table.owner(circuit(&one)).unwrap_or(made_by);
            match by_owner.get_mut(owner) {
                Some(owned) => owned.push(one),
                None => drop(by_owner.insert(owner.clone(), vec![one])),
            }
        }
        by_owner
    }

    /// The owner and the route of one circuit, for inspection.
    pub(crate) fn get(&self, circuit: &str) -> Option<(ControllerId, Route)> {
        self.table.lock().get(circuit)
    }

    /// All circuits with owners and routes, for inspection.
    pub(crate) fn all(&self) -> Vec<(ControllerId, Route)> {
        self.table.lock().all()
    }
}
