//! Input for the explanation of a dial: the mesh and the terminators of a service.

use std::sync::Arc;

use weft_model::entity::{Router, Terminator};
use weft_model::{Id, Snapshot};
use weft_paths::explain::Offer;
use weft_paths::explain::mesh::{Mesh, MeshLink, MeshRouter};

use crate::clock;
use crate::hosting::may_be_dialed;
use crate::network::Network;

impl Network {
    /// The mesh now.
    pub fn mesh(&self, snapshot: &Snapshot) -> Mesh {
        let mut routers = Vec::new();
        for live in self.routers().all() {
            if let Some(router) = snapshot.get::<Router>(&live.id) {
                let rests = live.is_left_alone(clock::now());
                let (cost, no_traversal) = (router.cost, router.no_traversal || rests);
                routers.push(MeshRouter { id: live.id.clone(), cost, no_traversal });
            }
        }
        let links = self.links().in_order();
        let links = links.iter().map(|link| MeshLink {
            id: link.id.clone(),
            source: link.source.clone(),
            destination: link.destination.clone(),
            static_cost: link.static_cost,
            source_latency: link.source_latency,
            destination_latency: link.destination_latency,
            cost: link.counted,
            down: link.down,
        });
        Mesh::new(self.options().min_router_cost, routers, links.collect())
    }

    /// The terminators of a service, with their dynamic costs.
    pub fn offers(&self, service: &Id) -> Vec<Offer> {
        let snapshot = self.0.kernel.with_held();
        let terminators = snapshot.referring::<Terminator>(Terminator::SERVICE, service);
        let now = self.0.kernel.now();
        let offer = |terminator: &Arc<Terminator>| Offer {
            costs: self.0.costs.parts(&terminator.base.id),
            is_founded: may_be_dialed(&snapshot, terminator, now),
            terminator: Arc::clone(terminator),
        };
        terminators.map(offer).collect()
    }
}
