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

pub(super) mod table;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use weft_channel::Lane;
use weft_spans::{Kind, Span, attribute};
use weft_wire::{
    Message, ProtoBody, TraceContext, controller_capability,
    ctrl::{
        CarriedCircuits, DestType, Fault, Route, RouteError, RouteErrorCode, RouteResult, Unroute,
    },
};
use weft_xgress::Role;

use table::Routes;

use super::{links, shared::Core};
use crate::{
    controllers::Controller,
    seam::{self, ControllerId, Egress, Forward, ForwardKind, PeerData, RouteCommand},
};

/// Shortest time for a dial. The route of an attempt that was delayed may arrive with no time left.
const MIN_TIME: Duration = Duration::from_secs(1);
/// Longest time for a dial.
const MAX_TIME: Duration = Duration::from_secs(300);
/// Most routes in one report.
const REPORT_PART: usize = 500;
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

/// A controller has connected: reports the circuits that it owns, then all links, and then the circuits
/// that have ended.
pub(crate) fn on_connected(core: &Arc<Core>, controller: &Arc<Controller>) {
    let mut report = VecDeque::new();
    if controller.capabilities.has(controller_capability::ADOPTS_CIRCUITS) {
        if let Some(data) = core.data.get() {
            core.routes.prune(&**data);
        }
        let routes = core.routes.of(&controller.id);
        report.extend(parts(routes).iter().map(CarriedCircuits::to_message));
    }
    report.push_back(links::all(core));
    // Messages for which there is room are queued here, and so go before everything that this
    // router sends later. The task below waits for room for the others.
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
    core.routes.push_end(owner, Fault::circuit(end == Role::Initiator, circuit).to_message());
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::ctrl::route;

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
