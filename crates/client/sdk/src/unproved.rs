//! Connections whose other end has not proved itself: they end when their service demands that.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::circuit::Circuit;

/// The fewest connections that are looked through for those that are over.
const FEW: usize = 64;

/// Open connections without a proof, with the ids of their services. There are no more than twice as many as open
/// connections.
#[derive(Debug, Default)]
pub(crate) struct Unproved(Mutex<Connections>);

#[derive(Debug, Default)]
struct Connections {
    all: Vec<(String, Weak<Circuit>)>,
    /// The number of connections with which those that are over are forgotten.
    full: usize,
}

impl Unproved {
    pub(crate) fn add(&self, service: &str, circuit: &Arc<Circuit>) {
        let mut connections = self.0.lock();
        if connections.all.len() >= connections.full {
            connections.all.retain(|(_, circuit)| circuit.strong_count() > 0);
            connections.full = (connections.all.len() * 2).max(FEW);
        }
        connections.all.push((service.to_owned(), Arc::downgrade(circuit)));
    }

    /// Ends the connections of the services that demand proofs; the number of them.
    pub(crate) fn end(&self, demands: impl Fn(&str) -> bool) -> usize {
        let mut ended = Vec::new();
        self.0.lock().all.retain(|(service, circuit)| match demands(service) {
            true => {
                ended.extend(circuit.upgrade());
                false
            }
            false => true,
        });
        ended.iter().for_each(|circuit| circuit.abort());
        ended.len()
    }
}
