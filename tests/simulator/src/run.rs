//! One run: the parts of the network at work, and what happens to them.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use weft_network::Network;

use crate::controller::{Controller, Entities};
use crate::event::Event;
use crate::journal::Journal;
use crate::layout::Layout;
use crate::mesh::{Host, Life, Link, Node, World};
use crate::random::Random;

/// The interval of looks at all circuits.
const LOOK: Duration = Duration::from_millis(200);
/// The interval of payloads from each end of a circuit.
const PAYLOADS: Duration = Duration::from_secs(10);

/// What happened in a run.
#[derive(Debug, Default, Clone)]
pub struct Summary {
    /// Circuits that were made.
    pub made: usize,
    /// Dials that failed.
    pub failed: usize,
    /// Circuits that were up when the faults were over.
    pub survived: usize,
    /// What was done to the network, with the times in milliseconds from the start.
    pub events: Vec<(u128, String)>,
}

/// What happens in a run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Plan<'p> {
    /// Whatever the seed chooses, for this time.
    Chance(Duration),
    /// These events.
    Script(&'p [Event]),
}

/// A run. Clones share it.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) world: Arc<Mutex<World>>,
    /// The numbers that say what happens.
    plan: Arc<Random>,
    /// The numbers that say how long messages and answers take.
    pub(crate) delays: Arc<Random>,
    /// The controllers that run.
    controllers: Arc<Mutex<Vec<Option<Controller>>>>,
    entities: Arc<Entities>,
    pub(crate) summary: Arc<Mutex<Summary>>,
    pub(crate) journal: Journal,
}

impl Run {
    /// The network of a layout; `seed` is that of all that is left to chance.
    pub(crate) fn new(layout: &Layout, seed: u64) -> Self {
        let journal = Journal::new();
        journal.note(format!("{layout:?}"));
        let mut world = World::new(journal.clone());
        for (id, kind) in &layout.routers {
            world.routers.insert(id.clone(), Node::new(*kind, layout.controllers));
        }
        for (dialer, peer) in &layout.links {
            let number = world.links.len();
            let link = Link::new(dialer, peer);
            world.links.insert(format!("{dialer}-{peer}-{number}"), link);
        }
        let routers = layout.routers.iter().map(|(id, _)| id.clone()).collect();
        let entities = Entities { routers, services: layout.services.clone() };
        Self {
            world: Arc::new(Mutex::new(world)),
            plan: Arc::new(Random::new(seed)),
            delays: Arc::new(Random::new(!seed)),
            controllers: Arc::new(Mutex::new(vec![None; layout.controllers])),
            entities: Arc::new(entities),
            summary: Arc::default(),
            journal,
        }
    }

    pub(crate) fn controller(&self, number: usize) -> Option<Controller> {
        self.controllers.lock().get(number)?.clone()
    }

    /// The controllers that run.
    pub(crate) fn controllers(&self) -> Vec<Controller> {
        self.controllers.lock().iter().flatten().cloned().collect()
    }

    /// The controllers that run, with their numbers.
    pub(crate) fn numbered_controllers(&self) -> Vec<(usize, Controller)> {
        let controllers = self.controllers.lock();
        let all = controllers.iter().enumerate();
        all.filter_map(|(number, controller)| Some((number, controller.clone()?))).collect()
    }

    /// The number of all controllers.
    pub(crate) fn count(&self) -> usize {
        self.controllers.lock().len()
    }

    /// The ids of all routers.
    pub(crate) fn routers(&self) -> Vec<String> {
        self.entities.routers.clone()
    }

    /// The services that are hosted at a router.
    pub(crate) fn hosted_at(&self, router: &str) -> Vec<String> {
        self.entities.hosted_at(router)
    }

    pub(crate) fn summary(&self) -> Summary {
        Summary { events: self.journal.events(), ..self.summary.lock().clone() }
    }

    pub(crate) fn take_controller(&self, number: usize) -> Option<Controller> {
        self.controllers.lock().get_mut(number)?.take()
    }

    pub(crate) fn start_controller(&self, number: usize) {
        let (start, seed) = (self.journal.start(), self.delays.any());
        let started = Controller::start(number, &self.entities, start, seed);
        if let Some(controller) = self.controllers.lock().get_mut(number) {
            *controller = Some(started);
        }
    }

    /// Breaks a rule, unless one was broken before.
    pub(crate) fn violated(&self, text: impl Into<String>) {
        self.world.lock().violation.get_or_insert(text.into());
    }

    fn violation(&self) -> Option<String> {
        self.world.lock().violation.clone()
    }

    /// Runs to its end: faults for some time, then none until all is quiet, then the end of all circuits.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub(crate) async fn go(&self, plan: Plan<'_>) -> Result<(), String> {
        for number in 0..self.count() {
            self.start_controller(number);
            for id in self.routers() {
                tokio::spawn(self.clone().keep_connected(id, number));
            }
        }
        for id in self.routers() {
            tokio::spawn(self.clone().report(id));
        }
        tokio::spawn(self.clone().watch());
        tokio::spawn(self.clone().dial_links());
        sleep(Duration::from_secs(3)).await;
        match plan {
            Plan::Chance(time) => self.make_trouble(time).await,
            Plan::Script(events) => {
                for event in events {
                    self.happen(event.clone()).await;
                }
            }
        }
        self.heal().await;
        self.until_quiet(Duration::from_secs(240)).await?;
        self.check_circuits().await?;
        self.check_terminators()?;
        self.journal.note("all circuits end");
        let all: Vec<String> = self.world.lock().lives.keys().cloned().collect();
        for circuit in all {
            self.hang_up(&circuit, self.plan.percent(50));
        }
        self.until_quiet(Duration::from_secs(240)).await?;
        self.check_empty()
    }

    async fn until_quiet(&self, time: Duration) -> Result<(), String> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.violation().map_or(Ok(()), Err)?;
            sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    }

    /// Looks at all circuits, and has their ends send.
    async fn watch(self) {
        let mut sent = Instant::now();
        loop {
            sleep(LOOK).await;
            let now = Instant::now();
            let lives: Vec<(String, Life)> = {
                let mut world = self.world.lock();
                world.look(now);
                let lives = world.lives.iter().map(|(id, life)| (id.clone(), life.clone()));
                lives.collect()
            };
            for (id, life) in &lives {
                let is_late = |since: Instant| now.duration_since(since) > Duration::from_secs(60);
                if !life.is_over && life.movable.is_some_and(is_late) {
                    let ways = self.world.lock().ways(id);
                    self.violated(format!(
                        "circuit {id} is not moved although it could be: {life:?} {ways}"
                    ));
                }
            }
            if now.duration_since(sent) >= PAYLOADS {
                sent = now;
                for (id, life) in lives.iter().filter(|(_, life)| !life.is_over) {
                    for end in &life.ends {
                        let (run, id, end) = (self.clone(), id.clone(), end.clone());
                        tokio::spawn(async move { run.payload(&id, &end).await });
                    }
                }
            }
        }
    }

    /// Dials links again that were broken, while their cables are there.
    async fn dial_links(self) {
        loop {
            sleep(self.delays.millis(50, 800)).await;
            let mut world = self.world.lock();
            let can_be = |link: &Link| {
                !link.is_up
                    && link.is_plugged
                    && world.works(&link.dialer)
                    && world.works(&link.peer)
            };
            let down = world.links.iter().filter(|(_, link)| can_be(link));
            let down: Vec<String> = down.map(|(id, _)| id.clone()).collect();
            if let Some(id) = self.delays.draw().one(&down) {
                if let Some(link) = world.links.get_mut(id) {
                    link.iteration += 1;
                    link.is_up = true;
                }
                self.report_link(&mut world, id);
            }
        }
    }

    /// Has things happen for some time, one by one.
    async fn make_trouble(&self, time: Duration) {
        let services: Vec<String> =
            self.entities.services.iter().map(|(id, _)| id.clone()).collect();
        let until = Instant::now() + time;
        while Instant::now() < until && self.violation().is_none() {
            sleep(self.plan.millis(100, 3000)).await;
            let event =
                Event::choose(self.plan.draw(), &self.world.lock(), &services, self.count());
            if let Some(event) = event {
                self.happen(event).await;
            }
        }
    }

    /// Mends everything.
    async fn heal(&self) {
        self.journal.note("all faults end");
        for number in 0..self.count() {
            if self.controller(number).is_none() {
                self.start_controller(number);
            }
        }
        // The ends of faults that are under way.
        sleep(Duration::from_secs(61)).await;
        let mut world = self.world.lock();
        for node in world.routers.values_mut() {
            (node.is_up, node.is_frozen) = (true, false);
            node.connections.iter_mut().for_each(|connection| connection.is_cut_off = false);
            (node.host, node.answers_after) = (Host::Answers, Duration::ZERO);
        }
        world.links.values_mut().for_each(|link| link.is_plugged = true);
    }

    /// Checks that all circuits that live work, and that controllers and routers agree on them.
    async fn check_circuits(&self) -> Result<(), String> {
        let networks: Vec<Network> = self.controllers().into_iter().map(|it| it.network).collect();
        for network in &networks {
            let counts =
                [network.circuits().in_making(), network.waiting_moves(), network.without_path()];
            if counts != [0; 3] {
                return Err(format!(
                    "in the making, waiting moves, without path when quiet: {counts:?}"
                ));
            }
        }
        let lives: Vec<(String, Life)> = {
            let world = self.world.lock();
            world.lives.iter().map(|(id, life)| (id.clone(), life.clone())).collect()
        };
        for (id, life) in lives.iter().filter(|(_, life)| !life.is_over) {
            let Some(circuit) = networks[life.owner].circuits().get(id) else {
                return Err(format!("its controller does not know circuit {id}: {life:?}"));
            };
            if !circuit.is_whole {
                return Err(format!("circuit {id} is known in part only: {circuit:?}"));
            }
            for end in &life.ends {
                if !self.payload(id, end).await {
                    return Err(format!("circuit {id} carries nothing from {end:?}: {circuit:?}"));
                }
            }
            self.summary.lock().survived += 1;
        }
        // A circuit may just be moved to a cheaper path.
        self.until_agreed(Duration::from_secs(30)).await
    }

    /// Waits until controllers and routers agree on all circuits, for some time at most.
    pub(crate) async fn until_agreed(&self, within: Duration) -> Result<(), String> {
        let networks: Vec<Network> = self.controllers().into_iter().map(|it| it.network).collect();
        let until = Instant::now() + within;
        loop {
            let agree = Self::agree(&self.world.lock(), &networks);
            if agree.is_ok() || Instant::now() >= until {
                return agree;
            }
            sleep(Duration::from_secs(1)).await;
        }
    }

    /// Checks that controllers and routers agree on all circuits, and that each circuit has one controller.
    fn agree(world: &World, networks: &[Network]) -> Result<(), String> {
        for (router, node) in &world.routers {
            for (id, held) in node.circuits.iter().filter(|(_, held)| !held.is_leaving) {
                let known = networks[held.owner].circuits().get(id);
                let is_on = known.as_ref().is_some_and(|it| it.path.has_node(router));
                if !is_on {
                    return Err(format!(
                        "{router} holds circuit {id} for nobody: {held:?} {known:?}"
                    ));
                }
            }
        }
        for (owner, network) in networks.iter().enumerate() {
            for circuit in network.circuits().all() {
                for router in &circuit.path.nodes {
                    match world.held(router.as_str(), &circuit.id) {
                        Some(held) if held.owner == owner => {}
                        Some(held) => {
                            return Err(format!(
                                "two controllers have circuit {circuit:?}: {held:?}"
                            ));
                        }
                        None => return Err(format!("{router} does not hold circuit {circuit:?}")),
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks that nothing is left of circuits that have ended.
    fn check_empty(&self) -> Result<(), String> {
        for controller in self.controllers() {
            let network = &controller.network;
            if let Some(circuit) = network.circuits().all().first() {
                return Err(format!("a circuit is left at a controller: {circuit:?}"));
            }
            let counts =
                [network.in_part(), network.circuits().in_making(), network.waiting_moves()];
            if counts != [0; 3] {
                return Err(format!(
                    "known in part, in the making, waiting moves at the end: {counts:?}"
                ));
            }
        }
        let world = self.world.lock();
        for (router, node) in &world.routers {
            if let Some((id, held)) = node.circuits.iter().next() {
                return Err(format!("circuit {id} is left at {router}: {held:?}"));
            }
        }
        Ok(())
    }
}
