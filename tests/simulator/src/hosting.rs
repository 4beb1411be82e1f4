//! The terminators that routers host: hosts go, and come back some time later.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::sleep;
use weft_model::Id;
use weft_model::entity::{Precedence, Terminator};
use weft_network::terminators::ReportedTerminator;

use crate::controller::{BINDING, address, terminator_id};
use crate::run::Run;

impl Run {
    /// All hosts at a router go, and come back some time later. Circuits to them stay.
    pub(crate) fn unhost(&self, router: &str, time: Duration) {
        let services: BTreeSet<String> = self.hosted_at(router).into_iter().collect();
        self.change(router, |node| node.unhosted = services);
        let id = router.to_owned();
        self.later(time, move |run| run.host_again(&id));
    }

    /// The hosts at a router are back: it tells all controllers.
    pub(crate) fn host_again(&self, router: &str) {
        let mut services = BTreeSet::new();
        self.change(router, |node| services = std::mem::take(&mut node.unhosted));
        for to in 0..self.count() {
            for service in &services {
                tokio::spawn(self.clone().tell_terminator(router.to_owned(), service.clone(), to));
            }
        }
    }

    /// Tells a controller of a terminator until it has it, or the host is gone again.
    async fn tell_terminator(self, router: String, service: String, to: usize) {
        loop {
            sleep(self.delays.millis(1, 1000)).await;
            let can_tell = {
                let world = self.world.lock();
                let Some(node) = world.routers.get(&router) else { return };
                if node.unhosted.contains(&service) {
                    return;
                }
                let connection = &node.connections[to];
                let is_open = !connection.is_cut_off && connection.open_channel().is_some();
                is_open && world.works(&router)
            };
            let Some(controller) = self.controller(to).filter(|_| can_tell) else { continue };
            let reported = reported(&service, &router);
            controller.network.terminator_reported(&reported.router, &reported.id);
            match controller.network.put_terminator(reported).await {
                Ok(()) => return,
                Err(problem) => self.journal.note(format!("a terminator is refused: {problem}")),
            }
        }
    }

    /// Checks that each controller has the terminators that routers host.
    pub(crate) fn check_terminators(&self) -> Result<(), String> {
        for (number, controller) in self.controllers().iter().enumerate() {
            let snapshot = controller.snapshot();
            for router in self.routers() {
                for service in self.hosted_at(&router) {
                    let id = Id::new(&terminator_id(&service, &router));
                    if snapshot.get::<Terminator>(&id).is_none() {
                        return Err(format!("controller {number} has no terminator {id}"));
                    }
                }
            }
        }
        Ok(())
    }
}

fn reported(service: &str, router: &str) -> ReportedTerminator {
    ReportedTerminator {
        id: Id::new(&terminator_id(service, router)),
        router: Id::new(router),
        service: Id::new(service),
        binding: BINDING.to_owned(),
        address: address(service),
        instance_id: String::new(),
        instance_secret: Default::default(),
        peer_data: Default::default(),
        cost: 0,
        precedence: Precedence::default(),
        host: Id::default(),
        host_proves: false,
    }
}
