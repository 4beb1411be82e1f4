//! Routes of circuits through this router: set up, taken down, and reported when a controller comes
//! back.
//!
//! # What a controller learns when it comes back
//!
//! A controller that restarts knows no circuit, while this router still carries those that it made. The
//! router therefore keeps the routes that it applied, without peer data, and reports them to every
//! controller with the capability to adopt circuits
//! ([`controller_capability::ADOPTS_CIRCUITS`](weft_wire::controller_capability)). The report is made
//! of [`CarriedCircuits`] messages, which are sent first on the connection, before any other message
//! about circuits; the last one is marked. The controller adopts the circuits that it does not know,
//! and ends those that it believes to go over this router and that the report does not name. It must
//! not answer an idle circuit that it does not know with an unroute before the last part has come.
//! Other controllers are sent no report, because they would take the circuits down.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use weft_channel::Lane;
use weft_metrics::Histogram;
use weft_spans::{Kind, Span, attribute};
use weft_wire::{
    Message, ProtoBody, TraceContext, controller_capability,
    ctrl::{
        self, CarriedCircuits, DestType, Fault, Route, RouteError, RouteErrorCode, RouteResult,
        Unroute,
    },
};
use weft_xgress::Role;

use super::{Core, faults::Faults};
use crate::{
    controllers::Controller,
    seam::{self, ControllerId, Egress, Forward, ForwardKind, PeerData, RouteCommand},
};

/// Shortest time for a dial: later attempts arrive with none left.
const MIN_TIME: Duration = Duration::from_secs(1);
/// Longest time for a dial.
const MAX_TIME: Duration = Duration::from_secs(300);
/// Most routes in one report.
const REPORT_PART: usize = 500;
/// Most ways of a circuit from former neighbours that are kept; the data half keeps no more either. A
/// controller adopts no route of more than 2 KiB.
const LEFT: usize = 8;

/// Routes under way, applied routes, and reports that wait for controllers.
#[derive(Debug)]
pub(crate) struct Routes {
    /// Routes that wait or are under way.
    queue: Arc<Semaphore>,
    /// Routes that are under way.
    workers: Arc<Semaphore>,
    /// Routes that wait for a worker or are under way, by circuit.
    waiting: Mutex<HashMap<String, Waiting>>,
    carried: Mutex<HashMap<String, Carried>>,
    /// Reports that wait for the owners of circuits.
    faults: Faults,
    /// Most routes that wait, and most that are under way.
    most: [usize; 2],
    /// How long it took to set routes up.
    times: Arc<Histogram>,
}

/// The load of the workers that set routes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Load {
    /// Routes that wait for a worker.
    pub(super) waiting: usize,
    /// Routes that are being set up.
    pub(super) busy: usize,
    /// Most routes at the same time.
    pub(super) workers: usize,
}

/// Routes of one circuit that wait for a worker or are under way.
#[derive(Debug, Default)]
struct Waiting {
    routes: usize,
    /// Cancelled when the circuit is taken down: routes of it that are not complete are given up.
    taken_down: CancellationToken,
}

/// A route that was applied.
#[derive(Debug)]
struct Carried {
    owner: ControllerId,
    route: Route,
}

impl Routes {
    pub(crate) fn new(workers: usize, queue: usize) -> Self {
        let workers = workers.max(1);
        let most = workers.saturating_add(queue).min(Semaphore::MAX_PERMITS);
        Self {
            queue: Arc::new(Semaphore::new(most)),
            most: [most, workers],
            times: Arc::new(Histogram::times()),
            workers: Arc::new(Semaphore::new(workers)),
            waiting: Mutex::default(),
            carried: Mutex::default(),
            faults: Faults::default(),
        }
    }

    /// The load of the workers.
    pub(super) fn load(&self) -> Load {
        let [most, workers] = self.most;
        let taken = |all: usize, of: &Semaphore| all.saturating_sub(of.available_permits());
        Load { waiting: taken(most, &self.queue), busy: taken(workers, &self.workers), workers }
    }

    /// How long it took to set routes up.
    pub(super) fn times(&self) -> Arc<Histogram> {
        Arc::clone(&self.times)
    }

    /// Notes that a route has come; in order with the commands that take its circuit down.
    fn begin_wait(&self, circuit: &str) -> CancellationToken {
        let mut waiting = self.waiting.lock();
        let of_circuit = waiting.entry(circuit.to_owned()).or_default();
        of_circuit.routes += 1;
        of_circuit.taken_down.clone()
    }

    /// Notes that setting up a route is over. If its circuit was taken down meanwhile, the route is
    /// not counted any more.
    fn end_wait(&self, circuit: &str, taken_down: &CancellationToken) {
        let mut waiting = self.waiting.lock();
        if !taken_down.is_cancelled()
            && let Some(of_circuit) = waiting.get_mut(circuit)
        {
            of_circuit.routes -= 1;
            if of_circuit.routes == 0 {
                waiting.remove(circuit);
            }
        }
    }

    /// Cancels the routes of a circuit that is taken down.
    fn take_down(&self, circuit: &str) {
        let mut waiting = self.waiting.lock();
        if let Some(of_circuit) = waiting.remove(circuit) {
            of_circuit.taken_down.cancel();
        }
    }

    /// Keeps a route that was applied. A reroute has no egress and names only new ways: the others
    /// stay. False if the circuit was taken down meanwhile.
    fn keep(&self, owner: &ControllerId, mut route: Route, taken_down: &CancellationToken) -> bool {
        route.context = None;
        route.timeout = 0;
        if let Some(egress) = &mut route.egress {
            egress.peer_data.clear();
        }
        let mut carried = self.carried.lock();
        // An unroute cancels the routes first, and then has the circuit forgotten.
        if taken_down.is_cancelled() {
            return false;
        }
        if let Some(former) = carried.get_mut(&route.circuit_id) {
            former.owner = owner.clone();
            if route.is_reroute() {
                add(&mut former.route.forwards, route.forwards);
            } else {
                // Another attempt replaces the earlier ones.
                former.route.forwards = route.forwards;
            }
            if route.egress.is_some() {
                former.route.egress = route.egress;
            }
            return true;
        }
        carried.insert(route.circuit_id.clone(), Carried { owner: owner.clone(), route });
        true
    }

    /// Queues a report for a controller, in order with its other reports about circuits.
    pub(super) fn push_to(&self, controller: &ControllerId, news: Message) {
        self.faults.push(controller, news);
    }

    fn forget(&self, circuit: &str) {
        self.carried.lock().remove(circuit);
    }

    /// Forgets circuits that the data half no longer has.
    pub(crate) fn prune(&self, data: &dyn seam::Data) {
        let mut owners: Vec<ControllerId> =
            self.carried.lock().values().map(|one| one.owner.clone()).collect();
        owners.sort_unstable();
        owners.dedup();
        for owner in owners {
            let known: Vec<String> = {
                let carried = self.carried.lock();
                let of_owner = carried.iter().filter(|(_, one)| one.owner == owner);
                of_owner.map(|(id, _)| id.clone()).collect()
            };
            let live: std::collections::HashSet<String> =
                data.circuits_of(&owner).into_iter().collect();
            let mut carried = self.carried.lock();
            known.iter().filter(|id| !live.contains(*id)).for_each(|id| {
                carried.remove(id);
            });
        }
    }

    /// The routes of a controller's circuits, for a report.
    pub(crate) fn of(&self, owner: &str) -> Vec<Route> {
        let carried = self.carried.lock();
        let of_owner = carried.values().filter(|one| *one.owner == *owner);
        of_owner.map(|one| one.route.clone()).collect()
    }

    /// All circuits with owners and routes, for inspection.
    pub(crate) fn all(&self) -> Vec<(ControllerId, Route)> {
        self.carried.lock().values().map(|one| (one.owner.clone(), one.route.clone())).collect()
    }
}

/// Adds ways: the last route that names an address decides where its messages go. The oldest ways that
/// the circuit has left are forgotten, because a circuit may be moved as long as it lives.
fn add(known: &mut Vec<ctrl::route::Forward>, new: Vec<ctrl::route::Forward>) {
    known.retain(|way| new.iter().all(|it| it.src_address != way.src_address));
    known.extend(new);
    let is_left =
        |way: &ctrl::route::Forward| known.iter().all(|to| to.dst_address != way.src_address);
    let left: Vec<bool> = known.iter().map(is_left).collect();
    let mut over = left.iter().filter(|is_left| **is_left).count().saturating_sub(LEFT);
    let mut left = left.into_iter();
    known.retain(|_| {
        let goes = over > 0 && left.next().unwrap_or_default();
        over -= usize::from(goes);
        !goes
    });
}

/// Handles a controller's command for a route.
pub(crate) fn on_route(core: &Arc<Core>, from: &Arc<Controller>, message: Message) {
    let route = match Route::from_message(&message) {
        Ok(route) => route,
        Err(problem) => return from.not_understood(&message, &problem),
    };
    let mut span = begin(core, &route, &message);
    let Ok(queued) = core.routes.queue.clone().try_acquire_owned() else {
        let failure = RouteError {
            code: RouteErrorCode::ResourcesNotAvailable,
            text: "too many routes wait to be set up on this router".to_owned(),
        };
        span.fail(&failure);
        let reply = result(&route, Err(failure)).in_reply_to(&message);
        let _ = from.channel.try_send_on(Lane::High, reply);
        return;
    };
    let (core, from) = (core.clone(), from.clone());
    let taken_down = core.routes.begin_wait(&route.circuit_id);
    core.clone().spawn(async move {
        let wait = Wait { routes: &core.routes, circuit: &route.circuit_id, taken_down };
        let Ok(worker) = core.routes.workers.clone().acquire_owned().await else { return };
        drop(queued);
        span.event("a worker is free");
        set_up(&core, &from, message, &route, wait, worker, span).await;
    });
}

/// A route that is not complete yet.
struct Wait<'a> {
    routes: &'a Routes,
    circuit: &'a str,
    taken_down: CancellationToken,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.routes.end_wait(self.circuit, &self.taken_down);
    }
}

async fn set_up(
    core: &Arc<Core>,
    from: &Arc<Controller>,
    message: Message,
    route: &Route,
    wait: Wait<'_>,
    worker: OwnedSemaphorePermit,
    mut span: Span,
) {
    let Some(data) = core.data.get() else { return };
    let (taken_down, begun) = (&wait.taken_down, std::time::Instant::now());
    let mut done = if taken_down.is_cancelled() {
        Err(seam::taken_down())
    } else {
        data.route(command(&from.id, route, taken_down, span.context())).await
    };
    drop(worker);
    core.routes.times.took(begun.elapsed());
    if done.is_ok() && !core.routes.keep(&from.id, route.clone(), taken_down) {
        done = Err(seam::taken_down());
    }
    drop(wait);
    let applied = done.is_ok();
    if let Err(failure) = &done {
        tracing::debug!(circuit = %route.circuit_id, %failure, "route not set up");
        span.set(attribute::ERROR_TYPE, class(failure.code));
        span.fail(failure);
    }
    let reply = result(route, done).in_reply_to(&message);
    let sent = from.channel.send_written(Lane::High, reply, core.options.request_timeout).await;
    if let Err(problem) = sent
        && applied
        && !route.is_reroute()
    {
        // The controller will take the attempt for failed when its time is over.
        tracing::debug!(circuit = %route.circuit_id, %problem, "route result not sent");
        core.routes.forget(&route.circuit_id);
        data.unroute(&route.circuit_id, true);
    }
}

/// Handles a controller's command to take a circuit down.
pub(crate) fn on_unroute(core: &Arc<Core>, from: &Arc<Controller>, message: &Message) {
    match Unroute::from_message(message) {
        Ok(unroute) => {
            core.routes.take_down(&unroute.circuit_id);
            core.routes.forget(&unroute.circuit_id);
            if let Some(data) = core.data.get() {
                data.unroute(&unroute.circuit_id, unroute.now);
            }
        }
        Err(problem) => from.not_understood(message, &problem),
    }
}

/// The span of a route that is part of a trace; routes that move a circuit have none.
fn begin(core: &Core, route: &Route, message: &Message) -> Span {
    let spans = &core.options.spans;
    if !spans.is_on() {
        return Span::none();
    }
    let Some(parent) = TraceContext::take(&message.headers) else { return Span::none() };
    let mut span = spans.start("router.route", Kind::Server, Some(parent));
    span.set(attribute::ROUTER_ID, &core.options.router_id);
    span.set(attribute::CIRCUIT_ID, &route.circuit_id);
    if let Some(egress) = &route.egress {
        span.set(attribute::BINDING, &egress.binding);
        span.set(attribute::DESTINATION, &egress.destination);
    }
    span
}

/// The class of a failure, as spans name it.
fn class(code: RouteErrorCode) -> &'static str {
    use RouteErrorCode as Code;
    match code {
        Code::Generic => "generic",
        Code::InvalidTerminator => "invalid_terminator",
        Code::MisconfiguredTerminator => "misconfigured_terminator",
        Code::DialTimedOut => "dial_timed_out",
        Code::ConnectionRefused => "connection_refused",
        Code::RejectedByApplication => "rejected_by_application",
        Code::DnsResolutionFailed => "dns_failed",
        Code::PortNotAllowed => "port_not_allowed",
        Code::InvalidLinkDestination => "invalid_link",
        Code::ResourcesNotAvailable => "resources_unavailable",
    }
}

/// The command for the data half, from a route message.
fn command(
    from: &ControllerId,
    route: &Route,
    taken_down: &CancellationToken,
    trace: Option<TraceContext>,
) -> RouteCommand {
    let left = u64::try_from(route.time_left()).unwrap_or(0);
    let egress = route.egress.as_ref().map(|egress| Egress {
        binding: egress.binding.clone(),
        address: egress.address.clone(),
        destination: egress.destination.clone(),
        peer_data: egress.peer_data.clone(),
        trace,
    });
    let forwards = route.forwards.iter().map(|forward| Forward {
        source: forward.src_address.clone(),
        destination: forward.dst_address.clone(),
        kind: match forward.dst_type() {
            DestType::Start => ForwardKind::Start,
            DestType::End => ForwardKind::End,
            DestType::Link => ForwardKind::Link,
        },
    });
    RouteCommand {
        circuit: route.circuit_id.clone(),
        controller: from.clone(),
        attempt: route.attempt,
        egress,
        forwards: forwards.collect(),
        timeout: Duration::from_nanos(left).clamp(MIN_TIME, MAX_TIME),
        tags: route.tags.clone(),
        taken_down: taken_down.clone(),
    }
}

fn result(route: &Route, done: Result<PeerData, RouteError>) -> Message {
    RouteResult { circuit_id: route.circuit_id.clone(), attempt: route.attempt, result: done }
        .to_message()
}

/// A controller has connected: reports the circuits that it owns, and then those that have ended.
pub(crate) fn on_connected(core: &Arc<Core>, controller: &Arc<Controller>) {
    let mut report = VecDeque::new();
    if controller.capabilities.has(controller_capability::ADOPTS_CIRCUITS) {
        if let Some(data) = core.data.get() {
            core.routes.prune(&**data);
        }
        let routes = core.routes.of(&controller.id);
        report.extend(parts(routes).iter().map(CarriedCircuits::to_message));
    }
    // These parts are sent before any other message about circuits, as far as there is room.
    while let Some(part) = report.pop_front() {
        if controller.channel.try_send(part.clone()).is_err() {
            report.push_front(part);
            break;
        }
    }
    let (core, controller) = (core.clone(), controller.clone());
    core.clone().spawn(async move {
        core.routes.faults.tell(&controller, report.into()).await;
    });
}

fn parts(routes: Vec<Route>) -> Vec<CarriedCircuits> {
    let mut parts: Vec<CarriedCircuits> = routes
        .chunks(REPORT_PART)
        .map(|chunk| CarriedCircuits { routes: chunk.to_vec(), last: false })
        .collect();
    match parts.last_mut() {
        Some(last) => last.last = true,
        None => parts.push(CarriedCircuits { routes: Vec::new(), last: true }),
    }
    parts
}

/// An end of a circuit on this router is gone.
pub(crate) fn on_ended(core: &Core, owner: &ControllerId, circuit: &str, end: Role) {
    core.routes.push_to(owner, Fault::circuit(end == Role::Initiator, circuit).to_message());
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::ctrl::{REROUTE_ATTEMPT, route};

    fn route(circuit: &str, egress: bool) -> Route {
        Route {
            circuit_id: circuit.to_owned(),
            egress: egress.then(|| route::Egress {
                binding: "edge".into(),
                address: "E".into(),
                destination: "t1".into(),
                peer_data: [(1003, "key".into())].into(),
            }),
            forwards: vec![route::Forward {
                src_address: "I".into(),
                dst_address: "E".into(),
                dst_type: DestType::End.into(),
            }],
            timeout: 10_000_000_000,
            ..Route::default()
        }
    }

    #[test]
    fn a_reroute_keeps_the_egress_and_secrets_are_not_kept() {
        let routes = Routes::new(1, 1);
        let owner: ControllerId = "c".into();
        let stands = CancellationToken::new();
        assert!(routes.keep(&owner, route("x", true), &stands));
        let mut moved = route("x", false);
        moved.attempt = REROUTE_ATTEMPT;
        moved.forwards[0].dst_address = "l2".into();
        assert!(routes.keep(&owner, moved, &stands));
        let kept = routes.of("c");
        assert_eq!(kept.len(), 1);
        let egress = kept[0].egress.as_ref().unwrap();
        assert!(egress.peer_data.is_empty());
        assert_eq!(
            (egress.destination.as_str(), kept[0].forwards[0].dst_address.as_str()),
            ("t1", "l2")
        );
        assert!(routes.of("other").is_empty());
        stands.cancel();
        assert!(!routes.keep(&owner, route("y", true), &stands));
        assert_eq!(routes.of("c").len(), 1);
    }

    #[test]
    fn a_circuit_that_moved_is_told_whole() {
        let routes = Routes::new(1, 1);
        let (owner, stands): (ControllerId, _) = ("c".into(), CancellationToken::new());
        let way = |from: &str, to: &str, kind: DestType| route::Forward {
            src_address: from.into(),
            dst_address: to.into(),
            dst_type: kind.into(),
        };
        let told = |attempt, forwards| Route { attempt, forwards, ..route("x", false) };
        let (start, link) = (DestType::Start, DestType::Link);
        // It is made, and moves in two steps to another link.
        let made = vec![way("I", "l1", link), way("l1", "I", start)];
        assert!(routes.keep(&owner, told(0, made), &stands));
        for step in [way("l2", "I", start), way("I", "l2", link)] {
            assert!(routes.keep(&owner, told(REROUTE_ATTEMPT, vec![step]), &stands));
        }
        let kept = routes.of("c").remove(0).forwards;
        let expected = [way("l1", "I", start), way("l2", "I", start), way("I", "l2", link)];
        assert_eq!(kept, expected);
        // However often it moves, what is told of it stays small, and what counts is in it.
        for number in 0..100 {
            let to = format!("a-link-with-a-long-name-{number}");
            for step in [way(&to, "I", start), way("I", &to, link)] {
                assert!(routes.keep(&owner, told(REROUTE_ATTEMPT, vec![step]), &stands));
            }
        }
        let kept = routes.of("c").remove(0).forwards;
        let last = "a-link-with-a-long-name-99";
        assert_eq!(kept.len(), LEFT + 2);
        assert_eq!(kept[LEFT..], [way(last, "I", start), way("I", last, link)]);
        // Another attempt at making it begins anew.
        let again = vec![way("I", "l3", link), way("l3", "I", start)];
        assert!(routes.keep(&owner, told(1, again.clone()), &stands));
        assert_eq!(routes.of("c").remove(0).forwards, again);
    }

    #[test]
    fn a_circuit_that_is_taken_down_takes_along_the_routes_that_wait() {
        let routes = Routes::new(1, 1);
        let (first, second) = (routes.begin_wait("x"), routes.begin_wait("x"));
        let other = routes.begin_wait("y");
        routes.end_wait("x", &first);
        routes.take_down("x");
        assert!(second.is_cancelled() && !other.is_cancelled());
        let later = routes.begin_wait("x");
        assert!(!later.is_cancelled(), "a later route of the circuit is set up");
        routes.end_wait("x", &second);
        routes.take_down("x");
        assert!(later.is_cancelled());
        routes.end_wait("y", &other);
        assert!(routes.waiting.lock().is_empty());
    }

    #[test]
    fn a_report_has_an_end_also_when_it_is_empty() {
        assert_eq!(parts(Vec::new()), [CarriedCircuits { routes: Vec::new(), last: true }]);
        let many = parts((0..REPORT_PART + 1).map(|n| route(&n.to_string(), false)).collect());
        assert_eq!(many.iter().map(|part| part.last).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn time_left_is_bounded_at_both_ends() {
        let mut late = route("x", true);
        late.set_time_left(-5);
        let time =
            |route: &Route| command(&"c".into(), route, &CancellationToken::new(), None).timeout;
        assert_eq!(time(&late), MIN_TIME);
        late.set_time_left(i64::MAX);
        assert_eq!(time(&late), MAX_TIME);
        assert_eq!(time(&route("x", true)), Duration::from_secs(10));
    }
}
