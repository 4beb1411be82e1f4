//! Dials, and the payloads of the circuits that they make.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use weft_model::Id;
use weft_network::create::{CircuitSpec, MadeCircuit};
use weft_network::tags::CircuitTags;
use weft_spans::Span;
use weft_wire::PeerData;

use crate::mesh::{Life, Step};
use crate::run::Run;

/// How long a payload may be on its way.
const ON_ITS_WAY: Duration = Duration::from_secs(30);
/// How long a dial may take: two attempts of 10 s, and waits for places.
const DIAL: Duration = Duration::from_secs(26);

/// The session of all dialers at a router.
pub(crate) fn client(router: &str) -> String {
    format!("session at {router}")
}

impl Run {
    /// Dials a service at a router, which asks this controller, or another one if it is not connected there.
    pub(crate) async fn dial(
        self,
        router: String,
        service: String,
        first: usize,
        chooses_id: bool,
    ) {
        let (incarnation, owner, channel) = {
            let world = self.world.lock();
            let Some(node) = world.routers.get(&router).filter(|_| world.works(&router)) else {
                return;
            };
            let count = node.connections.len();
            let mut order = (0..count).map(|number| (first + number) % count);
            let open =
                order.find_map(|owner| Some((owner, node.connections[owner].open_channel()?)));
            let Some((owner, channel)) = open else { return };
            (node.incarnation, owner, channel.clone())
        };
        let Some(controller) = self.controller(owner) else { return };
        let tags = CircuitTags { service: Some(Id::new(&service)), ..CircuitTags::default() };
        let spec = CircuitSpec {
            router: Id::new(&router),
            service: Id::new(&service),
            instance: String::new(),
            client: client(&router),
            is_of_session: false,
            dialer_proves: false,
            peer_data: PeerData::new(),
            tags,
            id: chooses_id.then(|| format!("chosen-{:016x}", self.delays.any())),
        };
        let (mut span, begun) = (Span::none(), Instant::now());
        let incarnations = self.world.lock().incarnations();
        let making = controller.network.create_circuit(&spec, &mut span);
        match timeout(DIAL, making).await {
            Ok(Ok(made)) if channel.is_closed() => {
                // The answer cannot be sent.
                controller.network.remove_circuit(&made.id, true);
            }
            Ok(Ok(made)) => {
                if let Some(circuit) = controller.network.circuits().get(&made.id) {
                    let world = self.world.lock();
                    let checked = world.check_made(owner, &circuit, begun, &incarnations);
                    drop(world);
                    checked.unwrap_or_else(|problem| self.violated(problem));
                }
                self.journal.note(format!(
                    "circuit {} from {router} to {service}, by controller {owner}",
                    made.id
                ));
                sleep(self.delays.millis(1, 60)).await;
                let has_ended = controller.network.circuits().get(&made.id).is_none();
                self.begin(&router, incarnation, owner, &made, has_ended);
            }
            Ok(Err(failure)) => {
                self.journal.note(format!("a dial of {service} at {router} fails: {failure}"));
                self.summary.lock().failed += 1;
            }
            Err(_) => {
                self.violated(format!("a dial at {router} is not answered within {DIAL:?}"));
            }
        }
    }

    /// The answer to a dial has come to the router of the dialer. The circuit may have ended meanwhile.
    fn begin(
        &self,
        router: &str,
        incarnation: u32,
        owner: usize,
        made: &MadeCircuit,
        has_ended: bool,
    ) {
        self.summary.lock().made += 1;
        let mut world = self.world.lock();
        let node = world.routers.get_mut(router).filter(|node| node.incarnation == incarnation);
        let Some(held) = node.and_then(|node| node.circuits.get_mut(&made.id)) else {
            return self.journal.note("its router does not have it any more");
        };
        held.ends.insert(made.address.clone(), true);
        let (attempt, near) =
            (held.attempt, (router.to_owned(), incarnation, made.address.clone()));
        // All attempts to make a circuit whose id its router chose have this id, and routers of failed ones may not have
        // taken it down yet.
        let far = world.routers.iter().find_map(|(id, node)| {
            let held = node.circuits.get(&made.id).filter(|held| held.attempt == attempt)?;
            let address = held.ends.keys().find(|address| **address != made.address)?;
            Some((id.clone(), node.incarnation, address.clone()))
        });
        let Some(far) = far else {
            return self.journal.note("its host does not have it any more");
        };
        let has_hung_up =
            world.held(&far.0, &made.id).is_none_or(|held| held.ends.get(&far.2) != Some(&true));
        let is_over = has_ended || has_hung_up;
        let life = Life { is_over, ..Life::new(owner, [near, far]) };
        world.lives.insert(made.id.clone(), life);
    }

    /// Sends a payload from an end of a circuit. True if it arrives at the other end.
    pub(crate) async fn payload(&self, circuit: &str, from: &(String, u32, String)) -> bool {
        let (mut router, mut address) = (from.0.clone(), from.2.clone());
        let until = Instant::now() + ON_ITS_WAY;
        while Instant::now() < until {
            match self.step(circuit, &router, &address) {
                Step::Arrived => return true,
                Step::Nowhere | Step::Unknown => return false,
                Step::Waits => sleep(Duration::from_millis(100)).await,
                Step::Over(link, next) => {
                    sleep(self.delays.millis(1, 40)).await;
                    if self.world.lock().links.get(&link).is_none_or(|link| !link.is_up) {
                        return false;
                    }
                    (router, address) = (next, link);
                }
            }
        }
        false
    }

    /// A payload is at a router: the router passes it on, or takes note that it cannot.
    fn step(&self, circuit: &str, router: &str, address: &str) -> Step {
        let mut world = self.world.lock();
        let Some(node) = world.routers.get_mut(router).filter(|node| node.is_up) else {
            return Step::Unknown;
        };
        if node.is_frozen {
            return Step::Waits;
        }
        if let Some(held) = node.circuits.get_mut(circuit) {
            held.active = Some(Instant::now());
        }
        let step = world.next(router, circuit, address);
        let is_known = match step {
            Step::Arrived | Step::Over(..) => return step,
            Step::Waits | Step::Nowhere => true,
            Step::Unknown => false,
        };
        if let Some(node) = world.routers.get_mut(router) {
            node.faults.insert(circuit.to_owned(), is_known);
        }
        step
    }
}
