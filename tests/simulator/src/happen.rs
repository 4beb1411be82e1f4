//! Makes events happen.

use std::time::Duration;

use hashbrown::HashSet;
use tokio::time::{Instant, sleep};
use weft_channel::memory::Wire;
use weft_model::Id;
use weft_wire::ProtoBody as _;

use crate::dial::client;
use crate::event::Event;
use crate::mesh::{Connection, Node, World};
use crate::run::Run;

/// For how long a router is slow.
const SLOW: Duration = Duration::from_secs(60);

impl Run {
    /// Makes an event happen. It may go on for some time after that.
    pub(crate) async fn happen(&self, event: Event) {
        self.journal.note(event.to_string());
        match event {
            Event::Dial { router, service, controller, chooses_id } => {
                tokio::spawn(self.clone().dial(router, service, controller, chooses_id));
            }
            Event::HangUp { circuit, by_dialer } => {
                let circuit = self.world.lock().lives.keys().nth(circuit).cloned();
                circuit.iter().for_each(|circuit| self.hang_up(circuit, by_dialer));
            }
            Event::Break { link } => self.break_link(&mut self.world.lock(), &link),
            Event::Unplug { link, time } => self.unplug(link, time),
            Event::CutOff { router, controller, time } => self.cut_off(router, controller, time),
            Event::Abandon { router, controller } => self.abandon(&router, controller),
            Event::Stall { router, controller, time } => self.stall(router, controller, time),
            Event::CutOffController { controller, time } => {
                self.routers().into_iter().for_each(|it| self.cut_off(it, controller, time));
            }
            Event::StallController { controller, time } => {
                self.routers().into_iter().for_each(|it| self.stall(it, controller, time));
            }
            Event::Restart { router, time } => self.restart(&router, time),
            Event::Freeze { router, time } => self.freeze(router, time),
            Event::Cost { link, cost } => {
                for controller in self.controllers() {
                    controller.network.change_link(&link, Some(i32::from(cost)), None);
                }
            }
            Event::Slow { router, time } => self.slow_down(router, time),
            Event::EndSessions { router } => self.end_sessions(&router),
            Event::Hosts { router, host } => self.change(&router, |node| node.host = host),
            Event::Unhost { router, time } => self.unhost(&router, time),
            Event::RestartController { controller, time } => {
                self.restart_controller(controller, time).await;
            }
            Event::Agree { within } => {
                if let Err(problem) = self.until_agreed(within).await {
                    self.violated(problem);
                }
            }
            Event::Wait { time } => sleep(time).await,
        }
    }

    pub(crate) fn change(&self, router: &str, change: impl FnOnce(&mut Node)) {
        self.world.lock().routers.get_mut(router).map(change);
    }

    fn change_connection(
        &self,
        router: &str,
        controller: usize,
        change: impl FnOnce(&mut Connection),
    ) {
        self.change(router, |node| {
            node.connections.get_mut(controller).map(change);
        });
    }

    /// Does something later.
    pub(crate) fn later(&self, time: Duration, then: impl FnOnce(&Self) + Send + 'static) {
        let run = self.clone();
        tokio::spawn(async move {
            sleep(time).await;
            then(&run);
        });
    }

    /// The application at an end of a circuit closes it, if it is still there: a circuit whose session has ended may
    /// have lived on, because the controller that would have ended it has stopped.
    pub(crate) fn hang_up(&self, circuit: &str, by_dialer: bool) {
        let mut world = self.world.lock();
        let Some(life) = world.lives.get_mut(circuit) else { return };
        life.is_over = true;
        let (router, incarnation, address) = life.ends[usize::from(!by_dialer)].clone();
        let node = world.routers.get_mut(&router);
        let Some(node) = node.filter(|node| node.incarnation == incarnation) else { return };
        let held = node.circuits.get_mut(circuit);
        let end = held.and_then(|held| held.ends.get_mut(&address)).filter(|is_there| **is_there);
        let Some(end) = end else { return };
        *end = false;
        self.report_end(&mut world, &router, circuit, by_dialer);
    }

    /// Reports that the application at an end of a circuit has closed it.
    pub(crate) fn report_end(
        &self,
        world: &mut World,
        router: &str,
        circuit: &str,
        by_dialer: bool,
    ) {
        let Some(node) = world.routers.get(router) else { return };
        let Some(held) = node.circuits.get(circuit) else { return };
        let (owner, fault) = (held.owner, held.fault(node.kind, circuit, by_dialer).to_message());
        self.journal.note(format!("the application at {router} closes circuit {circuit}"));
        self.send(world, router, owner, fault, true);
    }

    fn unplug(&self, id: String, time: Duration) {
        let mut world = self.world.lock();
        self.break_link(&mut world, &id);
        let plug = |run: &Self, id: &str, is_plugged: bool| {
            let mut world = run.world.lock();
            world.links.get_mut(id).into_iter().for_each(|link| link.is_plugged = is_plugged);
        };
        drop(world);
        plug(self, &id, false);
        self.later(time, move |run| plug(run, &id, true));
    }

    fn cut_off(&self, router: String, controller: usize, time: Duration) {
        self.change_connection(&router, controller, |connection| {
            connection.is_cut_off = true;
            connection.wire.iter().for_each(Wire::cut);
        });
        self.later(time, move |run| {
            run.change_connection(&router, controller, |connection| connection.is_cut_off = false);
        });
    }

    fn abandon(&self, router: &str, controller: usize) {
        self.change_connection(router, controller, |connection| {
            connection.wire.iter().for_each(|wire| wire.set_stopped(true));
            let open = connection.open_channel();
            open.iter().for_each(|channel| channel.close("the router connects anew"));
        });
    }

    fn stall(&self, router: String, controller: usize, time: Duration) {
        let mut wire = None;
        self.change_connection(&router, controller, |connection| {
            connection.is_cut_off = true;
            wire = connection.wire.clone();
        });
        wire.iter().for_each(|wire| wire.set_stopped(true));
        self.later(time, move |run| {
            wire.iter().for_each(|wire| wire.set_stopped(false));
            run.change_connection(&router, controller, |connection| connection.is_cut_off = false);
        });
    }

    fn restart(&self, id: &str, time: Duration) {
        let mut world = self.world.lock();
        for link in world.links_of(id) {
            self.break_link(&mut world, &link);
        }
        let Some(node) = world.routers.get_mut(id) else { return };
        node.is_up = false;
        node.incarnation += 1;
        node.circuits.clear();
        node.faults.clear();
        for connection in &mut node.connections {
            connection.reports.clear();
            connection.wire.iter().for_each(Wire::cut);
        }
        // The links that it dials have other ids after its start.
        let incarnation = node.incarnation;
        let own = world.links.iter().filter(|(_, link)| link.dialer == id);
        let own: Vec<String> = own.map(|(id, _)| id.clone()).collect();
        for (number, link) in own.into_iter().enumerate() {
            if let Some(mut link) = world.links.remove(&link) {
                link.iteration = 0;
                let name = format!("{}-{}-{incarnation}.{number}", link.dialer, link.peer);
                world.links.insert(name, link);
            }
        }
        let id = id.to_owned();
        self.later(time, move |run| run.change(&id, |node| node.is_up = true));
    }

    fn freeze(&self, router: String, time: Duration) {
        let mut wires = Vec::new();
        self.change(&router, |node| {
            node.is_frozen = true;
            wires.extend(node.connections.iter().filter_map(|it| it.wire.clone()));
        });
        wires.iter().for_each(|wire| wire.set_stopped(true));
        self.later(time, move |run| {
            wires.iter().for_each(|wire| wire.set_stopped(false));
            run.change(&router, |node| node.is_frozen = false);
        });
    }

    fn slow_down(&self, router: String, time: Duration) {
        self.change(&router, |node| node.answers_after = time);
        self.later(SLOW, move |run| {
            run.change(&router, |node| node.answers_after = Duration::ZERO)
        });
    }

    fn end_sessions(&self, router: &str) {
        // Of circuits of an earlier run, a controller knows no session.
        let client = client(router);
        for (number, controller) in self.numbered_controllers() {
            let key = (router.to_owned(), number);
            self.world.lock().sessions_ended.insert(key, Instant::now());
            for circuit in controller.network.circuits().of_client(&client) {
                if let Some(life) = self.world.lock().lives.get_mut(&circuit.id) {
                    life.is_over = true;
                }
            }
            controller.network.end_circuits_of(&HashSet::from([client.as_str()]), &Id::new(router));
        }
    }

    async fn restart_controller(&self, number: usize, time: Duration) {
        if let Some(stopped) = self.take_controller(number) {
            stopped.network.stop().await;
            sleep(time).await;
            self.start_controller(number);
        }
    }
}
