//! A router of a run: it does what controllers can see of a router, and carries payloads by the routes that it has.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use weft_channel::{ChannelHandle, InboxLimits, Lane, inbox};
use weft_wire::ctrl::{
    CircuitConfirmation, DestType, Fault, InspectRequest, Route, RouteError, RouteErrorCode,
    RouteResult, RouterLinks, RouterTerminatorState, Unroute, ValidateTerminatorsV2Request,
    ValidateTerminatorsV2Response, content_type,
};
use weft_wire::{Message, PeerData, ProtoBody as _};

use crate::controller::address;
use crate::mesh::{Held, Host, Kind, Link, World};
use crate::reports::{all_links, carried_circuits, inspect, router_link};
use crate::run::Run;

/// How long a circuit without payloads is idle.
const IDLE: Duration = Duration::from_secs(60);
/// How long a circuit that the controller has ended stays for payloads on their way.
const QUIET: Duration = Duration::from_secs(5);

impl Run {
    /// Keeps a router connected to a controller while it is up.
    pub(crate) async fn keep_connected(self, id: String, to: usize) {
        loop {
            sleep(self.delays.millis(50, 1500)).await;
            let (inbox_behaviour, mut inbox) = inbox(InboxLimits::default());
            let channel = {
                let Some(controller) = self.controller(to) else { continue };
                let mut world = self.world.lock();
                let Some(node) = world.routers.get_mut(&id) else { return };
                if !node.is_up || node.connections[to].is_cut_off || node.is_frozen {
                    continue;
                }
                let delay = self.delays.millis(1, 60);
                let Some((near, wire)) = controller.connect(&id, delay) else { continue };
                let connection = &mut node.connections[to];
                let channel = near.start(inbox_behaviour);
                connection.channel = Some(channel.clone());
                connection.wire = Some(wire);
                connection.connected = Some(Instant::now());
                channel
            };
            tokio::spawn(self.clone().report_all(id.clone(), to));
            while let Some(message) = inbox.recv().await {
                while self.world.lock().routers.get(&id).is_some_and(|node| node.is_frozen) {
                    sleep(Duration::from_millis(100)).await;
                }
                self.handle(&id, to, &channel, &message);
            }
            if let Some(node) = self.world.lock().routers.get_mut(&id) {
                let connection = &mut node.connections[to];
                (connection.channel, connection.wire) = (None, None);
                connection.lost = Some(Instant::now());
            }
        }
    }

    /// Reports what a router reports when it has connected to a controller. The report of its circuits may have several
    /// parts, between which time passes.
    async fn report_all(self, id: String, to: usize) {
        let channel = self.open_channel(&id, to);
        let carried = carried_circuits(&self.world.lock(), &id, to);
        for part in carried {
            self.send(&mut self.world.lock(), &id, to, part.to_message(), false);
            if !part.last {
                sleep(self.delays.millis(1, 2000)).await;
            }
            if channel.as_ref().is_none_or(ChannelHandle::is_closed) {
                return;
            }
        }
        let mut world = self.world.lock();
        let links = all_links(&world, &id).to_message();
        self.send(&mut world, &id, to, links, false);
        self.send_reports(&mut world, &id, to);
    }

    fn open_channel(&self, id: &str, to: usize) -> Option<ChannelHandle> {
        self.world.lock().routers.get(id)?.connections.get(to)?.open_channel().cloned()
    }

    /// Sends a message to a controller. A report that is `kept` waits while the controller is away.
    pub(crate) fn send(
        &self,
        world: &mut World,
        id: &str,
        to: usize,
        message: Message,
        is_kept: bool,
    ) {
        let Some(node) = world.routers.get_mut(id) else { return };
        let connection = &mut node.connections[to];
        let channel = connection.open_channel();
        let sent = channel.map(|channel| channel.try_send(message.clone()).is_ok());
        if sent != Some(true) && is_kept && node.kind == Kind::Weft {
            connection.reports.push_back(message);
        }
    }

    /// Sends a message to all controllers.
    fn send_all(&self, world: &mut World, id: &str, message: &Message, is_kept: bool) {
        let count = world.routers.get(id).map_or(0, |node| node.connections.len());
        (0..count).for_each(|to| self.send(world, id, to, message.clone(), is_kept));
    }

    fn send_reports(&self, world: &mut World, id: &str, to: usize) {
        let Some(node) = world.routers.get_mut(id) else { return };
        for report in std::mem::take(&mut node.connections[to].reports) {
            self.send(world, id, to, report, true);
        }
    }

    fn handle(&self, id: &str, from: usize, channel: &ChannelHandle, message: &Message) {
        match message.content_type {
            content_type::ROUTE => {
                if let Ok(route) = Route::from_message(message) {
                    let from = (from, channel.clone());
                    tokio::spawn(self.clone().route(id.to_owned(), from, route, message.clone()));
                }
            }
            content_type::UNROUTE => {
                if let Ok(unroute) = Unroute::from_message(message) {
                    self.unroute(id, from, &unroute);
                }
            }
            content_type::FAULT => {
                if let Ok(fault) = Fault::from_message(message) {
                    let mut world = self.world.lock();
                    let is_same = |link: &&Link| link.is_up && link.iteration == fault.iteration;
                    if world.links.get(&fault.id).filter(is_same).is_some() {
                        self.break_link(&mut world, &fault.id);
                    }
                }
            }
            content_type::INSPECT_REQUEST => {
                if let Ok(asked) = InspectRequest::from_message(message) {
                    let mut world = self.world.lock();
                    let answer = inspect(&world, id, asked).to_message().in_reply_to(message);
                    self.send(&mut world, id, from, answer, false);
                }
            }
            content_type::VALIDATE_TERMINATORS_V2 => {
                if let Ok(asked) = ValidateTerminatorsV2Request::from_message(message) {
                    let unhosted = self.unhosted(id);
                    let states = asked.terminators.into_iter().map(|one| {
                        let (marker, valid) = (one.marker, !unhosted.contains(&one.address));
                        (one.id, RouterTerminatorState { valid, marker, ..Default::default() })
                    });
                    let states = states.collect();
                    let answer = ValidateTerminatorsV2Response { states }.to_message();
                    self.send(&mut self.world.lock(), id, from, answer, false);
                }
            }
            _ => {}
        }
    }

    /// Sets a route up, and answers over the channel that the route came over. A router of weft takes the circuit down
    /// again that its controller cannot be told of.
    async fn route(
        self,
        id: String,
        (from, channel): (usize, ChannelHandle),
        route: Route,
        message: Message,
    ) {
        let incarnation = self.incarnation(&id);
        if incarnation.is_none() {
            return;
        }
        let done = self.set_up(&id, from, &route, incarnation).await;
        if let Some(egress) = route.egress.as_ref().filter(|_| done.is_ok()) {
            let (circuit, address) = (route.circuit_id.clone(), egress.address.clone());
            tokio::spawn(self.clone().may_hang_up(id.clone(), circuit, address));
        }
        let ways = route.forwards.iter().map(|it| format!("{}>{}", it.src_address, it.dst_address));
        let ways = ways.collect::<Vec<_>>().join(" ");
        tracing::debug!(
            router = id,
            circuit = route.circuit_id,
            attempt = route.attempt,
            ways,
            ?done,
            "route"
        );
        let time = self.world.lock().routers.get(&id).map(|node| node.answers_after);
        let _ = timeout(time.unwrap_or_default(), channel.closed()).await;
        if self.incarnation(&id) != incarnation {
            return;
        }
        let is_new = done.is_ok() && !route.is_reroute();
        let (circuit, attempt) = (route.circuit_id.clone(), route.attempt);
        let result = RouteResult {
            circuit_id: route.circuit_id,
            attempt,
            result: done.map(|()| PeerData::new()),
        };
        let answer = result.to_message().in_reply_to(&message);
        let mut world = self.world.lock();
        let Some(node) = world.routers.get_mut(&id) else { return };
        let is_sent = channel.try_send_on(Lane::High, answer).is_ok();
        if !is_sent && is_new && node.kind == Kind::Weft {
            let held = node.circuits.get(&circuit);
            if held.is_some_and(|held| held.attempt == Some(attempt) && held.owner == from) {
                node.circuits.remove(&circuit);
            }
        }
    }

    /// The host of a circuit closes it a moment after it has answered, if the hosts at the router do so.
    async fn may_hang_up(self, id: String, circuit: String, address: String) {
        sleep(self.delays.millis(0, 100)).await;
        let mut world = self.world.lock();
        let node = world.routers.get_mut(&id).filter(|node| node.host == Host::HangsUp);
        let held = node.and_then(|node| node.circuits.get_mut(&circuit));
        let end = held.and_then(|held| held.ends.get_mut(&address)).filter(|is_there| **is_there);
        let Some(end) = end else { return };
        *end = false;
        if let Some(life) = world.lives.get_mut(&circuit) {
            life.is_over = true;
        }
        self.report_end(&mut world, &id, &circuit, false);
    }

    /// The addresses whose hosts at a router have gone.
    fn unhosted(&self, id: &str) -> Vec<String> {
        let world = self.world.lock();
        let services = world.routers.get(id).into_iter().flat_map(|node| &node.unhosted);
        services.map(|service| address(service)).collect()
    }

    fn incarnation(&self, id: &str) -> Option<u32> {
        self.world.lock().routers.get(id).filter(|node| node.is_up).map(|node| node.incarnation)
    }

    async fn set_up(
        &self,
        id: &str,
        from: usize,
        route: &Route,
        incarnation: Option<u32>,
    ) -> Result<(), RouteError> {
        let circuit = &route.circuit_id;
        let is_new = !route.is_reroute();
        let dials = {
            let mut world = self.world.lock();
            let Some(node) = world.routers.get_mut(id) else { return Err(refused("gone")) };
            let kind = node.kind;
            let new = || Held { owner: from, term: route.term, ..Held::default() };
            let held = node.circuits.entry(circuit.clone()).or_insert_with(new);
            if !held.obey(kind, from, route.term) {
                return Err(refused("the circuit belongs to another controller"));
            }
            if is_new {
                if held.attempt.is_some_and(|newest| newest > route.attempt) {
                    return Err(refused("a newer attempt was begun"));
                }
                if held.attempt != Some(route.attempt) {
                    let (attempt, owner, term) = (Some(route.attempt), held.owner, held.term);
                    *held = Held { attempt, owner, term, ..Held::default() };
                }
            }
            let egress = route.egress.as_ref();
            egress.filter(|egress| !held.ends.contains_key(&egress.address)).map(|_| node.host)
        };
        let answer = match dials {
            None => Ok(()),
            Some(host) => {
                sleep(self.delays.millis(1, 200)).await;
                let to = route.egress.as_ref().map(|egress| &egress.destination);
                match host {
                    _ if to.is_some_and(|to| self.unhosted(id).contains(to)) => Err(RouteError {
                        code: RouteErrorCode::InvalidTerminator,
                        text: "there is no such terminator".to_owned(),
                    }),
                    Host::Answers | Host::HangsUp => Ok(()),
                    Host::Refuses => Err(refused("the host refuses")),
                    Host::IsFull => Err(RouteError {
                        code: RouteErrorCode::ResourcesNotAvailable,
                        text: "the host is full".to_owned(),
                    }),
                    Host::IsSilent => {
                        sleep(Duration::from_secs(40)).await;
                        Err(refused("the host says nothing"))
                    }
                }
            }
        };
        let mut world = self.world.lock();
        let is_same =
            world.routers.get(id).is_some_and(|node| Some(node.incarnation) == incarnation);
        if !is_same {
            return Err(refused("restarted"));
        }
        let done = answer.and_then(|()| apply(&mut world, id, route));
        let node = world.routers.get_mut(id);
        // A route that fails leaves nothing behind.
        if let Some(node) = node
            && node.circuits.get(circuit).is_some_and(|held| held.ways.is_empty())
        {
            node.circuits.remove(circuit);
        }
        if let Err(error) = &done
            && error.code == RouteErrorCode::InvalidLinkDestination
        {
            let missing = route.forwards.iter().map(|forward| &forward.dst_address);
            let missing = missing.filter(|link| world.links.get(*link).is_some_and(|it| !it.is_up));
            let faults: Vec<Message> = missing
                .filter_map(|link| Some(Fault::link(link, world.links.get(link)?.iteration)))
                .map(|fault| fault.to_message())
                .collect();
            for fault in faults {
                self.send_all(&mut world, id, &fault, true);
            }
        }
        done
    }

    /// Takes a circuit down, at once or when it has been quiet.
    fn unroute(&self, id: &str, from: usize, unroute: &Unroute) {
        let circuit = &unroute.circuit_id;
        tracing::debug!(router = id, circuit, from, now = unroute.now, "unroute");
        let mut world = self.world.lock();
        let Some(node) = world.routers.get_mut(id) else { return };
        let kind = node.kind;
        let Some(held) = node.circuits.get_mut(circuit) else { return };
        if !held.obey(kind, from, unroute.term) {
            return;
        }
        let has_application = held.ends.values().any(|is_there| *is_there);
        if unroute.now || (!held.ends.is_empty() && !has_application) {
            if has_application {
                world.ended_by_controller(from, id, circuit, Instant::now());
            }
            if let Some(node) = world.routers.get_mut(id) {
                node.circuits.remove(circuit);
            }
            return;
        }
        held.is_leaving = true;
        if has_application {
            world.ended_by_controller(from, id, circuit, Instant::now());
        }
        let (run, id, circuit) = (self.clone(), id.to_owned(), circuit.clone());
        tokio::spawn(async move {
            sleep(QUIET).await;
            let mut world = run.world.lock();
            let Some(node) = world.routers.get_mut(&id) else { return };
            if node.circuits.get(&circuit).is_some_and(|held| held.is_leaving) {
                node.circuits.remove(&circuit);
            }
        });
    }

    /// Reports at intervals: circuits without a next place, and idle circuits.
    pub(crate) async fn report(self, id: String) {
        sleep(self.delays.millis(0, 15_000)).await;
        for number in 0_u32.. {
            sleep(Duration::from_secs(15)).await;
            let mut world = self.world.lock();
            if !world.works(&id) {
                continue;
            }
            let count = world.routers.get(&id).map_or(0, |node| node.connections.len());
            (0..count).for_each(|to| self.send_reports(&mut world, &id, to));
            self.report_faults(&mut world, &id);
            if number % 4 == 3 {
                self.report_idle(&mut world, &id);
            }
        }
    }

    fn report_faults(&self, world: &mut World, id: &str) {
        let Some(node) = world.routers.get_mut(id) else { return };
        let faults = std::mem::take(&mut node.faults);
        let owner = |id: &str| node.circuits.get(id).map(|held| held.owner);
        let is_leaving = |id: &str| node.circuits.get(id).is_some_and(|held| held.is_leaving);
        let (mut owned, mut unknown) = (vec![Vec::new(); node.connections.len()], Vec::new());
        for (circuit, is_owned) in faults.into_iter().filter(|(id, _)| !is_leaving(id)) {
            match owner(&circuit).filter(|_| is_owned) {
                Some(owner) => owned[owner].push(circuit),
                None => unknown.push(circuit),
            }
        }
        for (owner, ids) in owned.iter().enumerate().filter(|(_, ids)| !ids.is_empty()) {
            self.send(world, id, owner, Fault::forward(true, ids).to_message(), false);
        }
        // Nobody knows whose circuits they are.
        if !unknown.is_empty() {
            self.send_all(world, id, &Fault::forward(false, &unknown).to_message(), false);
        }
    }

    fn report_idle(&self, world: &mut World, id: &str) {
        let now = Instant::now();
        let Some(node) = world.routers.get(id) else { return };
        let is_idle = |held: &Held| {
            !held.is_leaving && held.active.is_some_and(|at| now.duration_since(at) >= IDLE)
        };
        let mut owned = vec![Vec::new(); node.connections.len()];
        for (circuit, held) in node.circuits.iter().filter(|(_, held)| is_idle(held)) {
            // The end of a circuit is reported once more: its owner may have stopped since the first report.
            let is_gone = node.kind == Kind::Weft && held.lacks_an_end();
            owned[held.owner]
                .push((circuit.clone(), is_gone.then(|| held.fault(node.kind, circuit, true))));
        }
        for (owner, idle) in owned.into_iter().enumerate().filter(|(_, idle)| !idle.is_empty()) {
            for (_, fault) in &idle {
                let fault = fault.iter().map(Fault::to_message);
                fault.for_each(|fault| self.send(world, id, owner, fault, false));
            }
            let circuit_ids: Vec<String> = idle.into_iter().map(|(id, _)| id).collect();
            let idle_times = circuit_ids.iter().map(|id| (id.clone(), 60_000_000_000)).collect();
            let asked = CircuitConfirmation { circuit_ids, idle_times };
            self.send(world, id, owner, asked.to_message(), false);
        }
    }

    /// Reports that a link is up; its dialer does.
    pub(crate) fn report_link(&self, world: &mut World, link: &str) {
        let Some(known) = world.links.get(link) else { return };
        let (dialer, report) = (known.dialer.clone(), router_link(link, known));
        let report = RouterLinks { links: vec![report], full_refresh: false };
        self.send_all(world, &dialer, &report.to_message(), false);
    }

    /// Breaks a link that is up: routers that notice report it.
    pub(crate) fn break_link(&self, world: &mut World, id: &str) {
        let Some(link) = world.links.get_mut(id) else { return };
        if !std::mem::take(&mut link.is_up) {
            return;
        }
        let link = link.clone();
        for router in [&link.dialer, &link.peer] {
            let reports = *router == link.dialer
                || world.routers.get(router).is_some_and(|node| node.kind == Kind::Weft);
            if reports && world.works(router) {
                self.send_all(world, router, &Fault::link(id, link.iteration).to_message(), true);
            }
        }
    }
}

/// Puts the ways of a route into effect, all or none.
fn apply(world: &mut World, id: &str, route: &Route) -> Result<(), RouteError> {
    for forward in &route.forwards {
        let is_link = forward.dst_type() == DestType::Link;
        if is_link && !world.links.get(&forward.dst_address).is_some_and(|link| link.is_up) {
            let text = format!("there is no link {}", forward.dst_address);
            return Err(RouteError { code: RouteErrorCode::InvalidLinkDestination, text });
        }
        // The end of the dialer comes later than its route. That of the host is there, or dialed for this route.
        let is_dialed = route.egress.as_ref().is_some_and(|it| it.address == forward.dst_address);
        let is_there = || {
            let held = world.held(id, &route.circuit_id);
            held.is_some_and(|held| held.ends.contains_key(&forward.dst_address))
        };
        if forward.dst_type() == DestType::End && !is_dialed && !is_there() {
            return Err(refused("there is no end of this address"));
        }
    }
    let Some(node) = world.routers.get_mut(id) else { return Err(refused("gone")) };
    let Some(held) = node.circuits.get_mut(&route.circuit_id) else {
        return Err(refused("the circuit was taken down meanwhile"));
    };
    if !route.is_reroute() && held.attempt != Some(route.attempt) {
        return Err(refused("a newer attempt was begun"));
    }
    for forward in &route.forwards {
        let to = (forward.dst_address.clone(), forward.dst_type());
        held.ways.insert(forward.src_address.clone(), to);
    }
    if let Some(egress) = &route.egress {
        held.ends.entry(egress.address.clone()).or_insert(true);
        held.route.egress = Some(egress.clone());
    }
    held.route.circuit_id.clone_from(&route.circuit_id);
    if !route.tags.is_empty() {
        held.route.tags.clone_from(&route.tags);
    }
    held.active = Some(Instant::now());
    Ok(())
}

fn refused(text: &str) -> RouteError {
    RouteError { code: RouteErrorCode::Generic, text: text.to_owned() }
}
