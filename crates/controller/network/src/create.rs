//! Makes a circuit (docs/protocol/control-plane.md 12): chooses a terminator and a path, tells
//! every router on the path its route, and waits for all of them. After a failure, another attempt
//! goes without the router or terminator that failed, under another circuit id unless the router of
//! the dialer chose the id. A router between the ends that takes no new circuits, because it drains
//! or is full, is avoided in another attempt that does not count; four times at most. So is a host to
//! which too many circuits are in the making (`hosts`), once for each host. A router at an end that takes
//! none, and such a host, are given some time, if no other terminator can be dialed instead.
//!
//! The state machine of one dial (`machine`) decides; this file and `outcome` carry out what it decides.

mod chosen;
mod hosts;
mod learning;
mod machine;
mod outcome;
mod spec;

use std::sync::Arc;
use std::time::Duration;

use chosen::DialTarget;
use futures::future::join_all;
use hosts::HostPermit;
pub(crate) use hosts::Hosts;
pub use hosts::{AT_ONCE, BY_ONE};
use machine::{Dial, DialTerms, Failure, Input, Output};
pub use spec::{CircuitSpec, MadeCircuit};
use tokio::time::Instant;
use weft_channel::Lane;
use weft_model::Id;
use weft_spans::{Span, SpanKind, attribute};
use weft_wire::ProtoBody as _;

use super::circuits::{Dialer, NotReserved};
use super::routes::{Answers, RouteAnswer, RouteSpec};
use super::traced::{self, RouteSpans};
use crate::clock;
use crate::failure::{CircuitFailure, FailureCause};
use crate::full::LimitedResource;
use crate::network::Network;
use crate::tags::CircuitTags;

/// How long the channel may take to write a route.
const SEND_TIMEOUT: Duration = Duration::from_secs(3);

/// A circuit in the making. Dropping it gives the id of the circuit back.
struct DialTask<'a> {
    network: &'a Network,
    spec: &'a CircuitSpec,
    span: &'a mut Span,
    id: String,
    dial: Dial,
    /// The span of the present attempt.
    attempt: Option<Span>,
    /// The routes of the present attempt.
    routes: Option<PendingRoutes<'a>>,
    /// The last failure.
    failure: Option<CircuitFailure>,
    made: Option<MadeCircuit>,
}

/// The routes of an attempt, whose routers are to answer.
struct PendingRoutes<'a> {
    answers: Answers<'a>,
    place: HostPermit<'a>,
    sent_at: std::time::Instant,
    deadline: Instant,
    spans: RouteSpans,
    ingress: String,
    egress: String,
    tags: CircuitTags,
}

impl Drop for DialTask<'_> {
    fn drop(&mut self) {
        self.network.0.circuits.release(&self.id);
    }
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
        let reserved = self.reserve(&id, spec);
        reserved.map_err(|(cause, text)| CircuitFailure { cause, text, circuit: id.clone() })?;
        let terms = DialTerms {
            attempts: self.0.options.create_circuit_retries.max(1),
            timeout: self.0.options.route_timeout,
            has_fixed_id: spec.id.is_some(),
        };
        let dial = Dial::new(terms, clock::now());
        let (attempt, routes, failure, made) = (None, None, None, None);
        let task = DialTask { network: self, spec, span, id, dial, attempt, routes, failure, made };
        task.run().await
    }

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

impl<'a> DialTask<'a> {
    async fn run(mut self) -> Result<MadeCircuit, CircuitFailure> {
        let mut output = Output::Choose;
        loop {
            let input = match output {
                Output::Choose => self.choose(),
                Output::Pause(time) => {
                    tokio::time::sleep(time).await;
                    Input::Due
                }
                Output::Tell(attempt) => self.tell(attempt).await,
                Output::Listen => self.listen().await,
                Output::Rename => Input::Renamed(self.rename()),
                Output::Enter(data) => self.enter(data),
                Output::Finish => return self.made.take().ok_or_else(|| self.fail(false)),
                Output::Fail { is_repeated } => return Err(self.fail(is_repeated)),
            };
            output = self.dial.step(input, clock::now());
            if let Some(failure) = self.dial.take_failure() {
                self.attempt_failed(failure);
            }
        }
    }

    /// Chooses terminator and path.
    fn choose(&mut self) -> Input {
        let attempt = match self.attempt.take() {
            Some(attempt) => attempt,
            None => {
                let number = self.dial.attempt() + 1;
                let mut attempt = self.span.child("controller.attempt", SpanKind::Internal);
                attempt.set(attribute::ATTEMPT, number);
                attempt.set(attribute::CIRCUIT_ID, &self.id);
                self.span.set(attribute::ATTEMPTS, number);
                attempt
            }
        };
        let mut span = attempt.child("controller.select", SpanKind::Internal);
        self.attempt = Some(attempt);
        let snapshot = self.network.0.kernel.with_held();
        match self.network.choose(&snapshot, self.spec, self.dial.avoided()) {
            Ok(chosen) => {
                span.set(attribute::TERMINATOR_ID, chosen.terminator.base.id.as_str());
                traced::say_path(&mut span, &chosen.path);
                Input::Chosen(Arc::new(chosen))
            }
            Err(cause) => {
                let text = self.network.why_none(&snapshot, self.spec, cause);
                let failure = CircuitFailure { cause, text, circuit: self.id.clone() };
                traced::say_failure(&mut span, &failure);
                Input::NotChosen(Failure { cause, text: failure.text })
            }
        }
    }

    /// Sends the routes of an attempt, and waits for the first answer.
    async fn tell(&mut self, number: u32) -> Input {
        let network = self.network;
        let Some(chosen) = self.dial.target().cloned() else { return Input::Ended };
        let nodes = &chosen.path.nodes;
        // Whatever ends the circuit from now on is an answer.
        let answers = network.0.waiting.begin(&self.id, number, nodes);
        if !network.0.circuits.attempt(&self.id, number, nodes) {
            return Input::Ended;
        }
        let dialer = self.spec.tags.client.as_ref();
        let (router, to) = (&self.spec.router, &chosen.terminator);
        let Some(mut place) = network.0.hosts.take(router, to, dialer, clock::now()) else {
            return Input::HostFull;
        };
        let host = Some(chosen.terminator.host_id.clone());
        let (sent_at, deadline) = (clock::now(), Instant::now() + network.0.options.route_timeout);
        let tags = CircuitTags { host, ..self.spec.tags.clone() };
        let ends = [network.new_address(), network.new_address()];
        let mut spans = RouteSpans::default();
        self.dial.routes_are_sent();
        let sent = tokio::select! {
            biased;
            sent = self.send(number, &chosen, &ends, &tags, &mut spans) => sent,
            () = place.displaced() => Err(Input::HostFull),
        };
        let [ingress, egress] = ends;
        self.routes =
            Some(PendingRoutes { answers, place, sent_at, deadline, spans, ingress, egress, tags });
        match sent {
            Ok(()) => self.listen().await,
            Err(unsent) => unsent,
        }
    }

    /// Sends the routes of an attempt to all routers of its path at the same time.
    async fn send(
        &self,
        number: u32,
        chosen: &DialTarget,
        [ingress, egress]: &[String; 2],
        tags: &CircuitTags,
        spans: &mut RouteSpans,
    ) -> Result<(), Input> {
        let network = self.network;
        let spec = RouteSpec {
            circuit: &self.id,
            attempt: number,
            path: &chosen.path,
            ingress,
            egress,
            dial: Some((&chosen.terminator, &self.spec.peer_data)),
            timeout: network.0.options.route_timeout,
            tags: &tags.to_map(),
            term: network.0.ownership.term(&self.id),
        };
        let attempt = self.attempt.as_ref().unwrap_or(self.span);
        let sends = spec.routes().into_iter().map(|(router, route)| {
            let mut message = route.to_message();
            spans.tell(attempt, &router, &mut message);
            async move {
                let live = network.0.routers.get(router.as_str());
                let Some(live) = live else { return Err((router, "not connected".to_owned())) };
                live.unroutes.cancel(spec.circuit);
                let sent = live.channel.send_written(Lane::High, message, SEND_TIMEOUT);
                sent.await.map_err(|problem| (router, problem.to_string()))
            }
        });
        let sent: Result<(), _> = join_all(sends).await.into_iter().collect();
        sent.map_err(|(router, why)| {
            spans.failed(&router, FailureCause::RouterResponseTimeout, &why);
            Input::Unsent(router, why)
        })
    }

    /// Waits for the next answer to the routes of the present attempt.
    async fn listen(&mut self) -> Input {
        let Some(routes) = &mut self.routes else { return Input::Ended };
        let answer = tokio::select! {
            biased;
            answer = tokio::time::timeout_at(routes.deadline, routes.answers.next()) => answer,
            () = routes.place.displaced() => return Input::HostFull,
        };
        match answer {
            Ok(Some(RouteAnswer::Router(router, answer))) => match answer {
                Ok(data) => self.router_set(router, data),
                Err(error) => self.router_refused(router, error),
            },
            Ok(Some(RouteAnswer::Ended) | None) => Input::Ended,
            Err(_) => self.routers_late(),
        }
    }

    /// Gives the circuit another id. Late answers and faults of the former attempt name the former id, so that they do
    /// not count for the next attempt.
    fn rename(&mut self) -> bool {
        let id = self.network.new_circuit_id();
        let is_renamed = self.network.0.circuits.rename(&self.id, &id);
        if is_renamed {
            self.unroute_all_but(&[]);
            self.id = id;
        }
        is_renamed
    }

    /// Unroutes the routers of attempts under the present id that are not among `kept`.
    fn unroute_all_but(&mut self, kept: &[Id]) {
        for router in self.dial.take_told(kept) {
            self.network.unroute(&router, &self.id);
        }
    }
}
