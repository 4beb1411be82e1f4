//! Makes a circuit (docs/protocol/control-plane.md 12): chooses a terminator and a path, tells
//! every router on the path its route, and waits for all of them. After a failure, another attempt
//! goes without the router or terminator that failed, under another circuit id unless the router of
//! the dialer chose the id. A router between the ends that takes no new circuits, because it drains
//! or is full, is avoided in another attempt that does not count; `DETOURS` times at most. So is a host to
//! which too many circuits are in the making (`hosts`), once for each host. A router at an end that takes
//! none, and such a host, are given a moment, if no other terminator can be dialed instead.

mod chosen;
mod hosts;
mod learning;
mod outcome;

use std::time::{Duration, Instant};

use chosen::{AvoidedTargets, DialTarget};
use futures::future::join_all;
use hosts::HostPermit;
pub(crate) use hosts::Hosts;
pub use hosts::{AT_ONCE, BY_ONE};
use weft_channel::Lane;
use weft_model::Id;
use weft_spans::{Span, SpanKind, attribute};
use weft_wire::ctrl::RouteErrorCode;
use weft_wire::{PeerData, ProtoBody as _, StringMap};

use super::circuits::{Dialer, NotReserved};
use super::routes::{Answers, RouteSpec};
use super::traced::{self, RouteSpans};
use crate::clock;
use crate::failure::{CircuitFailure, FailureCause};
use crate::full::LimitedResource;
use crate::network::Network;
use crate::tags::CircuitTags;

/// Attempts of one circuit that do not count, because a router between the ends or a host took no new
/// circuits.
const DETOURS: u32 = 4;
/// The time that a router at an end or a host, which takes no new circuits, is given before it is asked again.
const MOMENT: Duration = Duration::from_millis(500);
/// How long the channel may take to write a route.
const SEND_TIMEOUT: Duration = Duration::from_secs(3);

/// A circuit to be made.
#[derive(Debug, Clone)]
pub struct CircuitSpec {
    /// The router of the dialer.
    pub router: Id,
    /// The service.
    pub service: Id,
    /// The instance to dial; if empty, any terminator without an instance.
    pub instance: String,
    /// The session or the identity that dials.
    pub client: String,
    /// Whether the client is a service session, with which the circuit ends.
    pub is_of_session: bool,
    /// Whether the dialer announces that it proves itself to the host.
    pub dialer_proves: bool,
    /// Data for the terminating side.
    pub peer_data: PeerData,
    /// Tags of the circuit; the tag of the host is added.
    pub tags: CircuitTags,
    /// The id, if the router chose one.
    pub id: Option<String>,
}

/// A circuit that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeCircuit {
    /// The id of the circuit.
    pub id: String,
    /// The address of the initiating end.
    pub address: String,
    /// Data of the terminating side: the data of the terminator, and the data that the host sent
    /// for this circuit.
    pub peer_data: PeerData,
    /// The tags of the circuit.
    pub tags: StringMap,
}

/// A circuit in the making. Dropping the circuit gives its id back.
struct Making<'a> {
    network: &'a Network,
    spec: &'a CircuitSpec,
    span: &'a mut Span,
    id: String,
    started: Instant,
    /// Routers that have set up a route in any attempt.
    routed: Vec<Id>,
    /// Terminators and routers that failed.
    tried: AvoidedTargets,
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.network.0.circuits.release(&self.id);
    }
}

/// The result of an attempt.
struct Attempt {
    chosen: DialTarget,
    ingress: String,
    egress: String,
    tags: CircuitTags,
    peer_data: PeerData,
}

impl Network {
    /// Makes a circuit, and records the result in `span`.
    pub async fn create_circuit(
        &self,
        spec: &CircuitSpec,
        span: &mut Span,
    ) -> Result<MadeCircuit, CircuitFailure> {
        span.set(attribute::SERVICE_ID, spec.service.as_str());
        let made = self.make_circuit(spec, span).await;
        match &made {
            Ok(made) => span.set(attribute::CIRCUIT_ID, &made.id),
            Err(failure) => {
                span.set(attribute::CIRCUIT_ID, &failure.circuit);
                traced::say_failure(span, failure);
            }
        }
        made
    }

    async fn make_circuit(
        &self,
        spec: &CircuitSpec,
        span: &mut Span,
    ) -> Result<MadeCircuit, CircuitFailure> {
        let id = spec.id.clone().unwrap_or_else(|| self.new_circuit_id());
        let fail = |cause, text| CircuitFailure { cause, text, circuit: id.clone() };
        self.reserve(&id, spec).map_err(|(cause, text)| fail(cause, text))?;
        let (started, routed, tried) = (clock::now(), Vec::new(), AvoidedTargets::default());
        let mut making = Making { network: self, spec, span, id, started, routed, tried };
        let attempts = self.0.options.create_circuit_retries.max(1);
        let (mut number, mut detours) = (0, 0);
        loop {
            match making.attempt(number + detours).await {
                Ok(attempt) => return making.finish(attempt),
                Err(FailedAttempt { failure, again, is_detour }) => {
                    let is_free = is_detour
                        && detours < DETOURS
                        && clock::since(started) < self.0.options.route_timeout;
                    if is_free {
                        detours += 1;
                    } else {
                        number += 1;
                    }
                    if again && number < attempts {
                        if spec.id.is_none() {
                            making.begin_anew();
                        }
                        making.give_a_moment().await;
                        continue;
                    }
                    making.unroute_all_but(&[]);
                    if number < 2 {
                        return Err(failure);
                    }
                    let text = format!(
                        "exceeded maximum [{attempts}] retries creating circuit [c/{}] ({})",
                        making.id, failure.text
                    );
                    return Err(CircuitFailure { text, ..failure });
                }
            }
        }
    }
}

impl Network {
    /// Reserves the id of a circuit, if there is room for it among all circuits and among those of its dialer.
    fn reserve(&self, id: &str, spec: &CircuitSpec) -> Result<(), (FailureCause, String)> {
        let snapshot = self.0.kernel.snapshot();
        let usual = self.0.options.per_identity;
        let dialer = spec.tags.client.as_ref();
        let limit = dialer.map(|dialer| LimitedResource::Circuits.limit(&snapshot, dialer, usual));
        let identity = dialer.zip(limit.map(|limit| limit.most));
        let reserved =
            self.0.circuits.reserve(id, Dialer { client: &spec.client, identity }, &spec.router);
        reserved.map_err(|why| match (why, limit) {
            (NotReserved::Taken, _) => {
                (FailureCause::IdInUse, format!("circuit id {id} is already in use"))
            }
            (NotReserved::Dialer, Some(limit)) => {
                let full = limit.reached();
                self.0.full.note(LimitedResource::Circuits, &full);
                (FailureCause::TooMany, full.to_string())
            }
            _ => (FailureCause::TooMany, "the controller has too many circuits".to_owned()),
        })
    }
}

/// The router whose route failed, and the error.
struct RouteFailure {
    cause: FailureCause,
    router: Id,
    text: String,
}

impl RouteFailure {
    fn at(router: &Id, cause: FailureCause, why: impl std::fmt::Display) -> Self {
        Self { cause, router: router.clone(), text: format!("on [r/{router}] ({why})") }
    }
}

/// The refusal of an attempt that has no place among the circuits in the making to its host, or lost it to another
/// dialer.
fn host_is_full(chosen: &DialTarget) -> RouteFailure {
    let why = "too many dials wait for an answer of the host";
    RouteFailure::at(&chosen.terminator.router_id, FailureCause::TooMany, why)
}

/// A failed attempt, and whether to try again.
struct FailedAttempt {
    failure: CircuitFailure,
    again: bool,
    /// Whether a router between the ends, or the host, took no new circuits, for the first time.
    is_detour: bool,
}

impl Making<'_> {
    fn failure(&self, cause: FailureCause, text: impl Into<String>) -> CircuitFailure {
        CircuitFailure { cause, text: text.into(), circuit: self.id.clone() }
    }

    async fn attempt(&mut self, number: u32) -> Result<Attempt, FailedAttempt> {
        let mut span = self.span.child("controller.attempt", SpanKind::Internal);
        span.set(attribute::ATTEMPT, number + 1);
        span.set(attribute::CIRCUIT_ID, &self.id);
        self.span.set(attribute::ATTEMPTS, number + 1);
        let attempt = self.try_once(number, &span).await;
        if let Err(failed) = &attempt {
            traced::say_failure(&mut span, &failed.failure);
        }
        attempt
    }

    /// Chooses terminator and path.
    fn select(&self, span: &Span) -> Result<DialTarget, FailedAttempt> {
        let mut span = span.child("controller.select", SpanKind::Internal);
        let snapshot = self.network.0.kernel.snapshot();
        let chosen = self.network.choose(&snapshot, self.spec, &self.tried).map_err(|cause| {
            let service = &self.spec.service;
            let instance = &self.spec.instance;
            let text = match cause {
                FailureCause::InvalidService => format!("service {service} does not exist"),
                FailureCause::NoPath => {
                    format!("no router with a terminator of service {service} can be reached")
                }
                FailureCause::NoOnlineTerminators => {
                    format!(
                        "service {service} has no online terminators for instanceId [{instance}]"
                    )
                }
                _ if self.network.has_unfounded(&snapshot, self.spec) => {
                    format!(
                        "the hosts of service {service} have lost the right to host it, or cannot prove who they are, \
                         which it demands (authenticatedEnds)"
                    )
                }
                _ => format!("service {service} has no terminators for instanceId [{instance}]"),
            };
            let failure = self.failure(cause, text);
            traced::say_failure(&mut span, &failure);
            self.report_failure(None, &failure);
            FailedAttempt { failure, again: false, is_detour: false }
        })?;
        span.set(attribute::TERMINATOR_ID, chosen.terminator.base.id.as_str());
        traced::say_path(&mut span, &chosen.path);
        Ok(chosen)
    }

    async fn try_once(&mut self, number: u32, span: &Span) -> Result<Attempt, FailedAttempt> {
        let chosen = self.select(span)?;
        if !self.network.0.circuits.attempt(&self.id, &chosen.path.nodes) {
            let failure = self.ended(&chosen);
            return Err(FailedAttempt { failure, again: false, is_detour: false });
        }
        let (ingress, egress) = (self.network.new_address(), self.network.new_address());
        let host = Some(chosen.terminator.host_id.clone());
        let tags = CircuitTags { host, ..self.spec.tags.clone() };
        let spec = RouteSpec {
            circuit: &self.id,
            attempt: number,
            path: &chosen.path,
            ingress: &ingress,
            egress: &egress,
            dial: Some((&chosen.terminator, &self.spec.peer_data)),
            timeout: self.network.0.options.route_timeout,
            tags: &tags.to_map(),
        };
        let network = self.network;
        let dialer = self.spec.tags.client.as_ref();
        let place =
            network.0.hosts.take(&self.spec.router, &chosen.terminator, dialer, clock::now());
        let outcome = match place {
            Some(place) => {
                let mut routed = std::mem::take(&mut self.routed);
                let outcome = self.establish(&spec, &chosen, place, &mut routed, span).await;
                self.routed = routed;
                outcome
            }
            None => Err(host_is_full(&chosen)),
        };
        match outcome {
            Ok(peer_data) => Ok(Attempt { chosen, ingress, egress, tags, peer_data }),
            Err(RouteFailure { cause, router, text }) => {
                let is_detour = if cause == FailureCause::TooMany {
                    self.tried.note_full(&chosen.terminator)
                } else {
                    let has_no_room = FailureCause::Router(RouteErrorCode::ResourcesNotAvailable);
                    let is_busy = cause == has_no_room;
                    self.tried.note(&chosen, &router, is_busy) && is_busy
                };
                let text = format!("error creating route for [s/{}] {text}", self.spec.service);
                let failure = self.failure(cause, text);
                self.report_failure(Some(&chosen), &failure);
                Err(FailedAttempt { failure, again: true, is_detour })
            }
        }
    }

    /// Sends the routes and waits until every router has set up its own, or another dialer has taken the place.
    async fn establish(
        &self,
        spec: &RouteSpec<'_>,
        chosen: &DialTarget,
        mut place: HostPermit<'_>,
        routed: &mut Vec<Id>,
        span: &Span,
    ) -> Result<PeerData, RouteFailure> {
        let network = self.network;
        let mut answers = network.0.waiting.begin(spec.circuit, spec.attempt, &spec.path.nodes);
        let outcome = tokio::select! {
            biased;
            outcome = self.ask(spec, chosen, &mut answers, routed, span) => Some(outcome),
            () = place.displaced() => None,
        };
        let outcome = outcome.unwrap_or_else(|| {
            // The router of the host gives the dial up.
            routed.extend(spec.path.nodes.iter().cloned());
            Err(host_is_full(chosen))
        });
        if outcome.is_err() {
            // Routers may have set up their routes before another one failed.
            routed.extend(answers.end());
        }
        outcome
    }

    async fn ask(
        &self,
        spec: &RouteSpec<'_>,
        chosen: &DialTarget,
        answers: &mut Answers<'_>,
        routed: &mut Vec<Id>,
        span: &Span,
    ) -> Result<PeerData, RouteFailure> {
        let network = self.network;
        let deadline = tokio::time::Instant::now() + spec.timeout;
        let mut asked = RouteSpans::default();
        let sends = spec.routes().into_iter().map(|(router, route)| {
            let mut message = route.to_message();
            asked.tell(span, &router, &mut message);
            async move {
                let cause = FailureCause::RouterResponseTimeout;
                let live = network.0.routers.get(router.as_str());
                let Some(live) = live else {
                    return Err(RouteFailure::at(&router, cause, "not connected"));
                };
                live.unroutes.cancel(spec.circuit);
                let sent = live.channel.send_written(Lane::High, message, SEND_TIMEOUT);
                sent.await.map_err(|problem| RouteFailure::at(&router, cause, problem))
            }
        });
        let sent = join_all(sends).await.into_iter().collect::<Result<(), _>>();
        sent.inspect_err(|broken| asked.failed(&broken.router, broken.cause, &broken.text))?;
        let mut missing = spec.path.nodes.clone();
        let mut peer_data = PeerData::new();
        let host = &chosen.terminator.router_id;
        while !missing.is_empty() {
            let answer = tokio::time::timeout_at(deadline, answers.next()).await;
            let Ok(Some((router, answer))) = answer else {
                if missing.contains(host) {
                    self.count_failure(chosen);
                }
                missing.iter().for_each(|router| network.silent_at_dial(spec.path, router));
                let cause = FailureCause::RouterResponseTimeout;
                let late = "no answer in time";
                missing.iter().for_each(|router| asked.failed(router, cause, late));
                return Err(RouteFailure::at(&missing[0], cause, late));
            };
            match answer.result {
                Ok(told) => {
                    asked.done(&router);
                    network.answered_dial(spec.path, &router, None);
                    missing.retain(|node| *node != router);
                    if !routed.contains(&router) {
                        routed.push(router.clone());
                    }
                    if router == *host {
                        peer_data = told;
                    }
                }
                Err(error) => {
                    self.learn(chosen, &router, &error);
                    network.answered_dial(spec.path, &router, Some(error.code));
                    asked.failed(&router, FailureCause::Router(error.code), &error.text);
                    return Err(RouteFailure::at(
                        &router,
                        FailureCause::Router(error.code),
                        error.text,
                    ));
                }
            }
        }
        Ok(peer_data)
    }

    /// Waits a moment if the next attempt would lead to a router that has just taken no new circuit, because no
    /// other terminator can be dialed. The time of the dial has to allow it.
    async fn give_a_moment(&self) {
        let has_time = clock::since(self.started) + MOMENT < self.network.0.options.route_timeout;
        if !has_time || !self.tried.has_busy() {
            return;
        }
        let snapshot = self.network.0.kernel.snapshot();
        let next = self.network.choose(&snapshot, self.spec, &self.tried);
        if next.is_ok_and(|next| self.tried.is_busy(&next)) {
            tokio::time::sleep(MOMENT).await;
        }
    }

    /// Begins the next attempt under another id. Late answers and faults of the former attempt name
    /// the former id, so that they do not count for the next attempt.
    fn begin_anew(&mut self) {
        let id = self.network.new_circuit_id();
        if self.network.0.circuits.rename(&self.id, &id) {
            self.unroute_all_but(&[]);
            self.routed.clear();
            self.id = id;
        }
    }

    /// Unroutes the routers of earlier attempts that are not among `kept`.
    fn unroute_all_but(&self, kept: &[Id]) {
        for router in self.routed.iter().filter(|router| !kept.contains(router)) {
            self.network.unroute(router, &self.id);
        }
    }
}
