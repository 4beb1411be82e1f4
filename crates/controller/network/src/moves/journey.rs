//! Moves one circuit to another path.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{join_all, try_join_all};
use hashbrown::HashMap;
use weft_channel::{Lane, RequestError};
use weft_kernel::events::CircuitChange;
use weft_model::Id;
use weft_paths::path::Path;
use weft_paths::queue::{Why, Wish};
use weft_paths::window::RouteOutcome;
use weft_wire::Message;
use weft_wire::ctrl::route::Forward;
use weft_wire::ctrl::{Route, RouteErrorCode, RouteResult};

use super::super::circuits::Circuit;
use super::super::routers::LiveRouter;
use super::super::routes;
use super::known::{Known, Steps};
use super::left::Left;
use super::{Active, Slot, UnderWay};
use crate::clock;
use crate::network::Network;

/// Most tries at moving a circuit. The second try goes around the router at which the first one failed.
const TRIES: u32 = 2;
/// A circuit whose routers take longer to answer does not count as active any more.
const SLOW: Duration = Duration::from_millis(250);

/// Why a circuit could not be moved.
#[derive(Debug, thiserror::Error)]
enum NotMoved {
    #[error("the ends of the circuit are not known")]
    NoEnds,
    #[error("there is no other path")]
    NoPath,
    #[error("router {0} has as many unanswered routes as it may have")]
    Full(Id),
    #[error("router {0}, at which the circuit begins or ends, answers nothing")]
    SilentEnd(Id),
    #[error("router {router}: {text}")]
    Router { router: Id, outcome: RouteOutcome, text: String },
}

impl NotMoved {
    fn at(router: &Id, outcome: RouteOutcome, text: impl Into<String>) -> Self {
        Self::Router { router: router.clone(), outcome, text: text.into() }
    }
}

/// A circuit that is being moved.
#[derive(Debug)]
pub(super) struct Journey {
    id: Arc<str>,
    wish: Wish,
    /// The plan of the first try, if it is made.
    planned: Option<Planned>,
    known: Known,
    /// The path that was tried last.
    tried: Path,
    /// Routers between the ends at which a try failed.
    avoided: Vec<Id>,
    /// Whether the last try failed because a router refused its route.
    was_refused: bool,
    /// Whether payloads may already take another path than the one in the table.
    has_changed: bool,
    /// The version of the graph that the last plan used.
    version: u64,
    active: Option<Active>,
    _under_way: UnderWay,
}

impl Journey {
    pub(super) fn new(network: &Network, id: Arc<str>, wish: Wish) -> Self {
        Self {
            id,
            wish,
            planned: None,
            known: Known::default(),
            tried: Path::default(),
            avoided: Vec::new(),
            was_refused: false,
            has_changed: false,
            version: 0,
            active: Some(Active::begin(network)),
            _under_way: UnderWay::begin(network),
        }
    }

    /// Notes the router at which a try failed: the next try avoids it. If an end does not know its
    /// link, the next try avoids the router behind that link.
    fn learn(&mut self, router: &Id, outcome: RouteOutcome) {
        self.was_refused = matches!(outcome, RouteOutcome::Refused | RouteOutcome::Busy);
        let nodes = &self.tried.nodes;
        let between = nodes.get(1..nodes.len().saturating_sub(1)).unwrap_or_default();
        let avoided = match outcome {
            _ if between.contains(router) => Some(router),
            RouteOutcome::NoLink if nodes.first() == Some(router) => between.first(),
            RouteOutcome::NoLink => between.last(),
            _ => None,
        };
        self.avoided.extend(avoided.cloned());
    }
}

/// The path that a circuit will take, and the routes for it.
#[derive(Debug)]
struct Plan {
    path: Path,
    steps: Steps,
    slots: HashMap<Id, Slot>,
}

/// A circuit and its plan; none if the circuit stays.
type Planned = (Arc<Circuit>, Result<Option<Plan>, NotMoved>);

impl Network {
    /// Moves circuits together. The first routes of all of them are sent before any answer is
    /// awaited.
    pub(super) async fn move_group(self, mut group: Vec<Journey>) {
        {
            let _turn = self.0.moves.searching.acquire().await;
            for journey in &mut group {
                journey.planned = self.0.circuits.get(&journey.id).map(|circuit| {
                    let plan = self.plan(&circuit, journey, true);
                    (circuit, plan)
                });
            }
        }
        join_all(group.into_iter().map(|journey| self.move_one(journey))).await;
    }

    async fn move_one(&self, mut journey: Journey) {
        let left = self.travel(&mut journey).await;
        self.0.moves.left.lock().extend(left);
    }

    /// Moves a circuit, in several tries. Returns the routers that the circuit has left.
    async fn travel(&self, journey: &mut Journey) -> Option<Left> {
        let mut problem = NotMoved::NoPath;
        for number in 0..TRIES {
            match self.reroute(journey, number == 0).await {
                Ok(Some(now)) => return self.arrived(&now, journey),
                Ok(None) => break,
                Err(NotMoved::Full(router)) => {
                    self.0.moves.queue.lock().park(&journey.id, &router);
                    // A slot may have become free since the check.
                    self.unpark(&router);
                    return None;
                }
                Err(why) => problem = why,
            }
            match &problem {
                NotMoved::Router { router, outcome, .. } => journey.learn(router, *outcome),
                _ => break,
            }
        }
        self.not_moved(journey, &problem)
    }

    /// The routers that may have routes of a circuit and are not on its path.
    fn left(journey: &Journey, path: &Path) -> Option<Left> {
        let (routers, circuit) = (journey.known.beside(path), Arc::clone(&journey.id));
        let left = Left { at: clock::now(), circuit, routers, for_loss_of: None };
        (!left.routers.is_empty()).then_some(left)
    }

    /// Handles a circuit that has arrived on its path.
    fn arrived(&self, now: &Circuit, journey: &Journey) -> Option<Left> {
        now.moving.end();
        self.0.moves.queue.lock().done(&journey.id);
        if !self.is_usable(&now.path) {
            self.move_or_end(now, Why::Broken);
        }
        Self::left(journey, &now.path)
    }

    /// Handles a circuit that could not be moved: it stays, waits for a path or a router, or is
    /// removed. Returns the routers of tries whose ways payloads may have taken already: these
    /// routers keep them until the circuit has arrived somewhere.
    fn not_moved(&self, journey: &Journey, problem: &NotMoved) -> Option<Left> {
        let id = &journey.id;
        let circuit = self.0.circuits.get(id);
        // Routers of failed tries may be on no path in the table, so they are unrouted here.
        let path = circuit.as_ref().map(|it| it.path.clone()).unwrap_or_default();
        let is_kept = journey.has_changed && circuit.is_some();
        let left = is_kept.then(|| Self::left(journey, &path)).flatten();
        if !is_kept {
            journey.known.beside(&path).iter().for_each(|router| self.unroute(router, id));
        }
        let Some(circuit) = circuit else {
            self.0.moves.forget(id);
            return None;
        };
        if journey.wish.only_if_cheaper && !journey.has_changed {
            tracing::debug!(circuit = %id, %problem, "a circuit could not be moved and keeps its path");
            circuit.moving.end();
            self.0.moves.queue.lock().done(id);
            // This order matters: a path that broke while the circuit was being moved started no
            // other move.
            if circuit.is_whole && !self.is_usable(&path) {
                self.move_or_end(&circuit, Why::Broken);
            }
        } else if self.waits(journey, &circuit, problem) {
            self.0.moves.wake.notify_one();
        } else {
            tracing::info!(circuit = %id, %problem, "a circuit is removed, because its path is broken and it could not be moved");
            self.remove_circuit(id, true);
        }
        left
    }

    /// Makes a circuit wait for a path or a router, depending on the problem. False if the problem
    /// does not pass by waiting.
    fn waits(&self, journey: &Journey, circuit: &Circuit, problem: &NotMoved) -> bool {
        let (id, version, now) = (&journey.id, journey.version, clock::now());
        let sends_again = journey.wish.sends_again || journey.has_changed;
        let wish = Wish { is_urgent: true, sends_again, only_if_cheaper: false };
        let lacks_routers = matches!(problem, NotMoved::NoPath | NotMoved::NoEnds);
        if lacks_routers && self.awaits_routers(id) {
            self.0.moves.queue.lock().done(id);
            self.0.gaps.push(id, sends_again);
            return true;
        }
        let path_works = circuit.is_whole && self.is_usable(&circuit.path);
        let mut queue = self.0.moves.queue.lock();
        match problem {
            NotMoved::NoPath if journey.avoided.is_empty() => queue.strand(id, wish, now, version),
            NotMoved::NoPath => queue.fail(id, wish, now, version),
            NotMoved::Router {
                outcome:
                    RouteOutcome::NoLink
                    | RouteOutcome::Busy
                    | RouteOutcome::Gone
                    | RouteOutcome::Silence,
                ..
            } => {
                queue.fail(id, wish, now, version);
            }
            NotMoved::SilentEnd(router) => {
                let waits = queue.rest(id, wish, router, now, path_works);
                drop(queue);
                // The router may have answered since the check.
                self.end_rest(router);
                return waits;
            }
            NotMoved::NoEnds | NotMoved::Full(_) | NotMoved::Router { .. } => return false,
        }
        true
    }

    /// Tries once to move a circuit, and returns its new state; none if the circuit has ended.
    async fn reroute(
        &self,
        journey: &mut Journey,
        is_first: bool,
    ) -> Result<Option<Arc<Circuit>>, NotMoved> {
        let (circuit, plan) = match journey.planned.take() {
            Some(planned) => planned,
            None => {
                let _turn = self.0.moves.searching.acquire().await;
                // More pieces of an adopted circuit may have arrived meanwhile.
                let Some(circuit) = self.0.circuits.get(&journey.id) else { return Ok(None) };
                let plan = self.plan(&circuit, journey, is_first);
                (circuit, plan)
            }
        };
        let Some(Plan { path, steps, mut slots }) = plan? else { return Ok(Some(circuit)) };
        let Steps { new, changing } = steps;
        self.tell_step(&circuit, journey, new, &mut slots).await?;
        // A router without a route in the second step is done.
        slots.retain(|router, _| changing.iter().any(|(it, _)| it == router));
        journey.has_changed |= !changing.is_empty();
        self.tell_step(&circuit, journey, changing, &mut slots).await?;
        Ok(Some(self.settle(journey, &circuit, path)))
    }

    /// Puts a circuit that has moved into the table, and returns its new state.
    fn settle(&self, journey: &mut Journey, circuit: &Circuit, path: Path) -> Arc<Circuit> {
        let moved = Arc::new(Circuit { is_whole: true, ..circuit.moved(path) });
        let is_put = if circuit.is_whole {
            let event = self.circuit_event(CircuitChange::PathUpdated, &moved, Duration::ZERO);
            self.0.circuits.put_with(Arc::clone(&moved), || self.tell_event(event))
        } else if let Some(completed) = self.complete(circuit, moved.path.clone()) {
            // Reporters beside the path are unrouted like routers that the circuit has left.
            for (router, route) in &completed.reporters {
                journey.known.told(router, &route.forwards);
            }
            return completed.circuit;
        } else {
            false
        };
        if !is_put {
            // The circuit was removed during the move: unroute it at the new routers too.
            moved.path.nodes.iter().for_each(|router| self.unroute(router, &moved.id));
        }
        moved
    }

    /// Finds the new path of a circuit and the routes for it; none if the circuit stays.
    fn plan(
        &self,
        circuit: &Circuit,
        journey: &mut Journey,
        is_first: bool,
    ) -> Result<Option<Plan>, NotMoved> {
        let (Some(first), Some(last)) = (circuit.path.first(), circuit.path.last()) else {
            return Err(NotMoved::NoEnds);
        };
        if !circuit.has_ends() {
            return Err(NotMoved::NoEnds);
        }
        let Wish { sends_again, only_if_cheaper, .. } = journey.wish;
        let now = circuit.is_whole.then(|| self.cost_of(&circuit.path)).flatten();
        let may_stay = now.is_some() && !journey.has_changed && !sends_again;
        if may_stay && !only_if_cheaper {
            // The path works again.
            return Ok(None);
        }
        let ways = self.ways(first);
        journey.version = ways.graph().version();
        let path = match &journey.avoided[..] {
            [] => ways.path(last),
            avoided => {
                let around = ways.path_around(last, avoided);
                // A router that refused may accept now. A router that was silent, or lacks a link,
                // would fail again.
                let again = || ways.path(last).filter(|_| journey.was_refused);
                around.or_else(again)
            }
        };
        let Some(path) = path else {
            // The end of a circuit that is not heard cannot be told anything; data goes on over its path.
            let goes_on = may_stay && self.has_unheard_end(&circuit.path);
            return if goes_on { Ok(None) } else { Err(NotMoved::NoPath) };
        };
        if may_stay && now.is_some_and(|now| now <= u64::from(path.cost)) {
            return Ok(None);
        }
        // A router that connected after the routes were set up may have restarted and lost them.
        let is_certain = |router: &Id| {
            let live = self.0.routers.get(router.as_str());
            !sends_again && live.is_some_and(|live| live.since <= circuit.routed_at)
        };
        if circuit.is_whole {
            journey.known.add_path(circuit, is_certain);
        }
        for (router, route) in self.0.pieces.of(&circuit.id).into_iter().flatten() {
            journey.known.told(&router, &route.forwards);
        }
        let steps = journey.known.steps(circuit, &path);
        journey.tried.clone_from(&path);
        let slots = self.slots(circuit, &steps, is_first)?;
        Ok(Some(Plan { path, steps, slots }))
    }

    /// Takes a slot at each router of the plan; if one has none free, takes none.
    fn slots(
        &self,
        circuit: &Circuit,
        steps: &Steps,
        may_wait: bool,
    ) -> Result<HashMap<Id, Slot>, NotMoved> {
        let mut slots = HashMap::new();
        for router in steps.routers() {
            let live = self.live(router)?;
            if live.window.is_silent(clock::now()) {
                if circuit.path.has_end(router) {
                    return Err(NotMoved::SilentEnd(router.clone()));
                }
                return Err(NotMoved::at(
                    router,
                    RouteOutcome::Gone,
                    "it has not answered routes lately",
                ));
            }
            let slot = match may_wait {
                true => Slot::take(self, &live),
                false => Some(Slot::force(self, &live)),
            };
            slots.insert(router.clone(), slot.ok_or_else(|| NotMoved::Full(router.clone()))?);
        }
        Ok(slots)
    }

    fn live(&self, router: &Id) -> Result<Arc<LiveRouter>, NotMoved> {
        let live = self.0.routers.get(router.as_str());
        live.ok_or_else(|| NotMoved::at(router, RouteOutcome::Gone, "not connected"))
    }

    /// Tells several routers their routes at the same time, and waits for all answers. Each step
    /// has the whole time limit, so that slow routers of the first step take none of the time of
    /// those in the second.
    async fn tell_step(
        &self,
        circuit: &Circuit,
        journey: &mut Journey,
        step: Vec<(Id, Vec<Forward>)>,
        slots: &mut HashMap<Id, Slot>,
    ) -> Result<(), NotMoved> {
        if step.is_empty() {
            return Ok(());
        }
        let body = routes::reroute(circuit, self.0.options.route_timeout);
        let mut asked = Vec::with_capacity(step.len());
        for (router, forwards) in step {
            journey.known.told(&router, &forwards);
            let live = self.live(&router)?;
            let slot = slots.remove(&router).unwrap_or_else(|| Slot::force(self, &live));
            asked.push((live, forwards, slot));
        }
        let known = parking_lot::Mutex::new(&mut journey.known);
        let all = try_join_all(asked.into_iter().map(|(live, forwards, slot)| {
            let (known, body) = (&known, &body);
            async move {
                let route = Route::message_with(body, &forwards);
                self.ask_route(&live, circuit, route).await?;
                known.lock().confirmed(&live.id, &forwards);
                Ok((live.id.clone(), slot))
            }
        }));
        tokio::pin!(all);
        let done = match tokio::time::timeout(SLOW, &mut all).await {
            Ok(done) => done,
            Err(_) => {
                journey.active = None;
                // Releases the slots, so that other circuits can use them.
                slots.clear();
                all.await
            }
        };
        slots.extend(done?);
        Ok(())
    }

    /// Sends a route and waits for the answer.
    async fn ask_route(
        &self,
        live: &Arc<LiveRouter>,
        circuit: &Circuit,
        route: Message,
    ) -> Result<(), NotMoved> {
        let timeout = self.0.options.route_timeout;
        live.unroutes.cancel(&circuit.id);
        let reply = live.channel.request_on(Lane::High, route, timeout).await;
        let (outcome, text) = match reply {
            Ok(reply) => match RouteResult::from_message(&reply).map(|reply| reply.result) {
                Ok(Ok(_)) => (RouteOutcome::Done, String::new()),
                Ok(Err(error)) if error.code == RouteErrorCode::InvalidLinkDestination => {
                    (RouteOutcome::NoLink, error.text)
                }
                Ok(Err(error)) if error.code == RouteErrorCode::ResourcesNotAvailable => {
                    (RouteOutcome::Busy, error.text)
                }
                Ok(Err(error)) => (RouteOutcome::Refused, error.text),
                Err(problem) => (RouteOutcome::Refused, problem.to_string()),
            },
            Err(problem @ RequestError::Timeout) => (RouteOutcome::Silence, problem.to_string()),
            Err(problem) => (RouteOutcome::Gone, problem.to_string()),
        };
        // The refusal of an end concerns the end itself: the application may be gone.
        let is_end = circuit.path.has_end(&live.id);
        let counts = !is_end || matches!(outcome, RouteOutcome::Done | RouteOutcome::Silence);
        if counts && let Some(until) = live.window.answered(outcome, clock::now()) {
            self.leave_alone(live, until);
        }
        match outcome {
            RouteOutcome::Done => Ok(()),
            RouteOutcome::Silence if is_end => Err(NotMoved::SilentEnd(live.id.clone())),
            _ => Err(NotMoved::at(&live.id, outcome, text)),
        }
    }

    /// Notes the answer of a router to the route of a dial; `refusal` is none if it is set up. Only
    /// answers of routers between the ends count.
    pub(crate) fn answered_dial(&self, path: &Path, router: &Id, refusal: Option<RouteErrorCode>) {
        let outcome = match refusal {
            None => RouteOutcome::Done,
            Some(RouteErrorCode::InvalidLinkDestination) => RouteOutcome::NoLink,
            Some(RouteErrorCode::ResourcesNotAvailable) => RouteOutcome::Busy,
            Some(_) => RouteOutcome::Refused,
        };
        self.note_dial(path, router, outcome);
    }

    /// Notes that a router did not answer the route of a dial in time. The router of the host does not count:
    /// it may have waited for the host.
    pub(crate) fn silent_at_dial(&self, path: &Path, router: &Id) {
        self.note_dial(path, router, RouteOutcome::Silence);
    }

    fn note_dial(&self, path: &Path, router: &Id, outcome: RouteOutcome) {
        if path.has_end(router) {
            return;
        }
        let Some(live) = self.0.routers.get(router.as_str()) else { return };
        if outcome == RouteOutcome::Done {
            return live.window.accepted();
        }
        if let Some(until) = live.window.answered(outcome, clock::now()) {
            self.leave_alone(&live, until);
        }
    }

    /// Leaves a router that answers nothing, or refuses everything, alone: new paths avoid it for a
    /// while.
    fn leave_alone(&self, live: &LiveRouter, until: Instant) {
        tracing::warn!(router = %live.id, "a router sets up no routes; new paths avoid it for a while");
        self.router_changed(&live.id);
        self.0.moves.resting.lock().push_back((until, live.id.clone()));
        self.unpark(&live.id);
        self.0.moves.wake.notify_one();
    }
}
