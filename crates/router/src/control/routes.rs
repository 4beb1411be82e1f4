//! Routes of circuits through this router, commanded by controllers and reported to them when they come back. The
//! data half decides which commands are obeyed (`forwarder::life`).
//!
//! # What a controller learns when it comes back
//!
//! A controller that restarts knows no circuit, while this router still carries those that it made. The
//! router therefore keeps the routes that it applied, without peer data, and reports them to their owner, if it is a
//! controller with the capability to adopt circuits
//! ([`controller_capability::ADOPTS_CIRCUITS`](weft_wire::controller_capability)). The report is made
//! of [`CarriedCircuits`] messages, which are sent first on the connection, before any other message
//! about circuits; the last one is marked. The controller adopts the circuits that it does not know,
//! and ends those that it believes to go over this router and that the report does not name. It must
//! not answer an idle circuit that it does not know with an unroute before the last part has come.
//! Other controllers are sent no report, because they would take the circuits down.
//!
//! A controller that comes for another one, or is back after another one has come for it, claims the circuits
//! ([`ClaimCircuits`]), and is told them in the same messages.

mod dial_slots;
pub(super) mod state;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dial_slots::{DialSlot, Parties, SlotOutcome};
use tokio_util::sync::CancellationToken;
use weft_channel::Lane;
use weft_spans::{Span, SpanKind, attribute};
use weft_wire::ctrl::{
    CarriedCircuits, ClaimCircuits, DestType, Fault, Route, RouteError, RouteErrorCode,
    RouteResult, Unroute,
};
use weft_wire::{Message, ProtoBody, TraceContext};
use weft_xgress::Role;

use super::links;
use super::shared::Core;
use crate::controllers::Controller;
use crate::seam::{
    BegunRoute, ControllerId, Data, Egress, Forward, ForwardKind, NotObeyed, PeerData,
    RouteCommand, RouteTicket,
};

/// Shortest time for a dial. The route of an attempt that was delayed may arrive with no time left.
const MIN_TIME: Duration = Duration::from_secs(1);
/// Longest time for a dial.
const MAX_TIME: Duration = Duration::from_secs(300);
/// How often a route that waits looks whether it may take over the worker of another one.
const PRESS: Duration = Duration::from_millis(250);
/// The tags of a route with the hosting and the dialing identity.
const HOST: &str = "hostId";
const CLIENT: &str = "clientId";
/// Most routes in one report.
const REPORT_PART: usize = 500;
/// Most circuits of which one message says that another controller has taken them over.
const TAKEN_PART: usize = 10_000;

/// Handles a controller's command for a route. A route that dials nothing is carried out here, on the task that
/// reads the connection: it waits for nothing, and of several moves of a circuit the last one counts. A route
/// that dials takes a slot (`dial_slots`).
pub(crate) fn on_route(core: &Arc<Core>, from: &Arc<Controller>, message: Message) {
    let route = match Route::from_message(&message) {
        Ok(route) => route,
        Err(problem) => return from.not_understood(&message, &problem),
    };
    let Some(data) = core.data.get() else { return };
    let span = begin(core, &route, &message);
    let slot = match dials(&**data, &route).map(|parties| core.routes.dial_slots.take(parties)) {
        Some(None) => return refuse(from, &message, route, span, no_room()),
        slot => slot.flatten(),
    };
    // In the order of the messages: a later unroute gives the route up, and an earlier one does not.
    let begun_route = match data.begin(&from.id, &route) {
        Ok(begun_route) => begun_route,
        Err(why) => {
            if let NotObeyed::TooManyWays { .. } = why {
                core.routes.oversized.note(&from.id, &route.circuit_id, &why);
            }
            return refuse(from, &message, route, span, why.into());
        }
    };
    let (core, from) = (Arc::clone(core), Arc::clone(from));
    let ticket = begun_route.ticket();
    let mut commanded = Commanded { core: Arc::clone(&core), from, message, route, ticket, span };
    match slot {
        None => {
            let begun = Instant::now();
            let command = commanded.command(begun_route.given_up());
            let done = begun_route.set_up_without_dial(&command);
            let done = done.map(|()| PeerData::new());
            core.spawn(commanded.settle(done, begun).tell());
        }
        Some(slot) => {
            core.spawn(async move { dial(commanded, begun_route, slot).await.tell().await })
        }
    }
}

/// Answers a route that is not carried out.
fn refuse(from: &Controller, message: &Message, route: Route, mut span: Span, failure: RouteError) {
    tracing::debug!(circuit = route.circuit_id, controller = %from.id, %failure, "route refused");
    span.fail(&failure);
    let (circuit_id, attempt) = (route.circuit_id, route.attempt);
    let result = RouteResult { circuit_id, attempt, result: Err(failure) };
    let _ = from.channel.try_send_on(Lane::High, result.to_message().in_reply_to(message));
}

fn no_room() -> RouteError {
    RouteError {
        code: RouteErrorCode::ResourcesNotAvailable,
        text: "too many routes wait to be set up on this router".to_owned(),
    }
}

/// For whom a route has this router dial. A route that moves a circuit may name an end that is
/// there already. A further attempt to make a circuit removes the end of an earlier one, and dials.
fn dials(data: &dyn Data, route: &Route) -> Option<Parties> {
    let egress = route.egress.as_ref()?;
    if route.is_reroute() && data.has_destination(&egress.address) {
        return None;
    }
    let tag = |name: &str| route.tags.get(name).map(String::as_str).filter(|id| !id.is_empty());
    Some(Parties::new(&egress.destination, tag(HOST), tag(CLIENT)))
}

/// Carries out a route that dials, once a worker is free.
async fn dial(
    mut commanded: Commanded,
    begun_route: Box<dyn BegunRoute>,
    mut slot: DialSlot,
) -> RouteReply {
    let given_up = begun_route.given_up();
    let outcome = loop {
        match tokio::time::timeout(PRESS, slot.begin(&given_up)).await {
            Ok(outcome) => break outcome,
            Err(_) => slot.press(),
        }
    };
    let begun = Instant::now();
    let done = match outcome {
        SlotOutcome::Displaced => Err(no_room()),
        SlotOutcome::Begun => {
            commanded.span.event("a worker is free");
            dial_with_worker(&mut commanded, begun_route, &slot).await
        }
        _ => Err(NotObeyed::TakenDown.into()),
    };
    drop(slot);
    commanded.settle(done, begun)
}

/// Dials until the dial is over, the circuit is taken down, or another route takes the worker over.
async fn dial_with_worker(
    commanded: &mut Commanded,
    begun_route: Box<dyn BegunRoute>,
    slot: &DialSlot,
) -> Result<PeerData, RouteError> {
    let (given_up, gives_way) = (begun_route.given_up().child_token(), slot.gives_way());
    let dialing = begun_route.set_up(commanded.command(given_up.clone()));
    tokio::pin!(dialing);
    tokio::select! {
        biased;
        done = &mut dialing => return done,
        () = gives_way.cancelled() => {}
    }
    given_up.cancel();
    // It ends at once now, and leaves nothing behind.
    dialing.await.map_err(|_| no_room())
}

/// A route that was commanded and is not complete yet.
struct Commanded {
    core: Arc<Core>,
    from: Arc<Controller>,
    message: Message,
    route: Route,
    ticket: RouteTicket,
    span: Span,
}

impl Commanded {
    /// The command for the data half, which takes what it needs of the route.
    fn command(&mut self, taken_down: CancellationToken) -> RouteCommand {
        command(&mut self.route, taken_down, self.span.context())
    }

    /// Makes the answer.
    fn settle(self, done: Result<PeerData, RouteError>, begun: Instant) -> RouteReply {
        let Self { core, from, message, route, ticket, mut span } = self;
        let (is_reroute, circuit, attempt) = (route.is_reroute(), route.circuit_id, route.attempt);
        core.routes.times.took(begun.elapsed());
        if let Err(failure) = &done {
            tracing::debug!(%circuit, %failure, "route not set up");
            span.set(attribute::ERROR_TYPE, class(failure.code));
            span.fail(failure);
        }
        let is_new = done.is_ok() && !is_reroute;
        let result = RouteResult { circuit_id: circuit, attempt, result: done };
        let reply = result.to_message().in_reply_to(&message);
        RouteReply { core, from, reply, new: is_new.then_some(ticket), _span: span }
    }
}

/// The answer to a command for a route.
struct RouteReply {
    core: Arc<Core>,
    from: Arc<Controller>,
    reply: Message,
    /// The route, if it is part of an attempt to make a circuit and was set up.
    new: Option<RouteTicket>,
    /// Ends once the answer is sent.
    _span: Span,
}

impl RouteReply {
    async fn tell(self) {
        let Self { core, from, reply, new, _span } = self;
        let sent = from.channel.send_written(Lane::High, reply, core.options.request_timeout).await;
        if let (Err(problem), Some(ticket)) = (sent, new) {
            // The controller will take the attempt for failed when its time is over.
            tracing::debug!(circuit = %ticket.circuit, %problem, "route result not sent");
            core.data.get().iter().for_each(|data| data.retract(&ticket));
        }
    }
}

/// Handles a controller's command to take a circuit down.
pub(crate) fn on_unroute(core: &Arc<Core>, from: &Arc<Controller>, message: &Message) {
    match Unroute::from_message(message) {
        Ok(unroute) => {
            let obeyed = core.data.get().map_or(Ok(()), |data| data.unroute(&from.id, &unroute));
            if let Err(problem) = obeyed {
                tracing::debug!(circuit = unroute.circuit_id, %problem, "unroute refused");
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
    let mut span = spans.start("router.route", SpanKind::Server, Some(parent));
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

/// The command for the data half: the ways, the tags and the egress of a route are moved into it.
fn command(
    route: &mut Route,
    taken_down: CancellationToken,
    trace: Option<TraceContext>,
) -> RouteCommand {
    let left = u64::try_from(route.time_left()).unwrap_or(0);
    let egress = route.egress.take().map(|egress| Egress {
        binding: egress.binding,
        address: egress.address,
        destination: egress.destination,
        peer_data: egress.peer_data,
        trace,
    });
    let forwards = route.forwards.drain(..).map(|forward| Forward {
        kind: match forward.dst_type() {
            DestType::Start => ForwardKind::Start,
            DestType::End => ForwardKind::End,
            DestType::Link => ForwardKind::Link,
        },
        source: forward.src_address,
        destination: forward.dst_address,
    });
    RouteCommand {
        circuit: route.circuit_id.clone(),
        egress,
        forwards: forwards.collect(),
        timeout: Duration::from_nanos(left).clamp(MIN_TIME, MAX_TIME),
        tags: std::mem::take(&mut route.tags),
        taken_down,
    }
}

/// A controller has connected: reports the circuits that it owns, then all links, and then the circuits
/// that have ended.
pub(crate) fn on_connected(core: &Arc<Core>, controller: &Arc<Controller>) {
    let mut report = VecDeque::new();
    if controller.is_of_weft() {
        let data = core.data.get();
        let taken = data.map(|data| data.taken_from(&controller.id)).unwrap_or_default();
        report.extend(taken_parts(taken.iter().map(ToString::to_string).collect()));
        let routes = data.map(|data| data.routes_of(&controller.id)).unwrap_or_default();
        report.extend(parts(routes, "").iter().map(CarriedCircuits::to_message));
    }
    core.routes.faults.tells_all_links(&controller.id);
    report.push_back(links::all(core));
    send_what_fits(controller, &mut report);
    let (core, controller) = (core.clone(), controller.clone());
    core.clone().spawn(async move {
        core.routes.faults.tell(&controller, report.into()).await;
    });
}

/// Queues the messages for which there is room: they go before everything that this router sends later. A task has to
/// wait for room for the others.
fn send_what_fits(controller: &Controller, report: &mut VecDeque<Message>) {
    while let Some(part) = report.pop_front() {
        if controller.channel.try_send(part.clone()).is_err() {
            return report.push_front(part);
        }
    }
}

fn parts(routes: Vec<Route>, claimed_of: &str) -> Vec<CarriedCircuits> {
    let part = |routes| {
        let claimed_of = claimed_of.to_owned();
        CarriedCircuits { routes, claimed_of, ..CarriedCircuits::default() }
    };
    let mut parts: Vec<CarriedCircuits> =
        routes.chunks(REPORT_PART).map(|chunk| part(chunk.to_vec())).collect();
    if parts.is_empty() {
        parts.push(part(Vec::new()));
    }
    parts.iter_mut().next_back().into_iter().for_each(|last| last.last = true);
    parts
}

/// Handles a controller's claim of circuits.
pub(crate) fn on_claim(core: &Arc<Core>, from: &Arc<Controller>, message: &Message) {
    let claim = match ClaimCircuits::from_message(message) {
        Ok(claim) => claim,
        Err(problem) => return from.not_understood(message, &problem),
    };
    let Some(data) = core.data.get() else { return };
    let routes = data.claim(&from.id, &claim);
    if !routes.is_empty() {
        let (controller, of, count) = (&from.id, &claim.controller, routes.len());
        tracing::info!(%controller, of, count, "a controller has taken over circuits");
    }
    let parts = parts(routes, &claim.controller);
    let mut report: VecDeque<Message> = parts.iter().map(CarriedCircuits::to_message).collect();
    send_what_fits(from, &mut report);
    send_rest(core, from, report);
}

/// Tells a controller that another one has taken circuits over.
pub(crate) fn tell_taken(core: &Arc<Core>, former: &Arc<Controller>, circuits: Vec<String>) {
    let mut report = taken_parts(circuits).collect();
    send_what_fits(former, &mut report);
    send_rest(core, former, report);
}

fn taken_parts(circuits: Vec<String>) -> impl Iterator<Item = Message> {
    let parts: Vec<_> = circuits.chunks(TAKEN_PART).map(<[String]>::to_vec).collect();
    let parts = parts.into_iter().map(|taken| CarriedCircuits { taken, ..Default::default() });
    parts.map(|part| part.to_message())
}

fn send_rest(core: &Arc<Core>, to: &Arc<Controller>, report: VecDeque<Message>) {
    if report.is_empty() {
        return;
    }
    let to = Arc::clone(to);
    core.spawn(async move {
        for part in report {
            if !super::faults::send(&to.channel, part).await {
                return;
            }
        }
    });
}

/// An end of a circuit on this router is gone.
pub(crate) fn on_ended(
    core: &Core,
    owner: &ControllerId,
    circuit: &str,
    end: Role,
    attempt: Option<u32>,
) {
    let fault = Fault::circuit(end == Role::Initiator, circuit);
    let fault = match attempt {
        Some(attempt) => fault.in_attempt(attempt),
        None => fault,
    };
    // In order with the other reports for the controller.
    core.routes.faults.push(owner, fault.to_message());
}

#[cfg(test)]
mod tests {
    use weft_wire::ctrl::route;

    use super::*;

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
        let empty = |of: &str| CarriedCircuits {
            claimed_of: of.to_owned(),
            last: true,
            ..Default::default()
        };
        assert_eq!(
            (parts(Vec::new(), ""), parts(Vec::new(), "a")),
            (vec![empty("")], vec![empty("a")])
        );
        let many = parts((0..REPORT_PART + 1).map(|n| route(&n.to_string(), false)).collect(), "");
        assert_eq!(many.iter().map(|part| part.last).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn time_left_is_bounded_at_both_ends() {
        let mut late = route("x", true);
        late.set_time_left(-5);
        let time = |route: &mut Route| command(route, CancellationToken::new(), None).timeout;
        assert_eq!(time(&mut late), MIN_TIME);
        late.set_time_left(i64::MAX);
        assert_eq!(time(&mut late), MAX_TIME);
        assert_eq!(time(&mut route("x", true)), Duration::from_secs(10));
    }
}
