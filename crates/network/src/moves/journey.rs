//! One circuit moves to another path.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{join_all, try_join_all};
use hashbrown::HashMap;
use weft_channel::{Lane, RequestError};
use weft_kernel::events::CircuitChange;
use weft_model::Id;
use weft_paths::path::Path;
use weft_paths::queue::{Why, Wish};
use weft_paths::window::Answer;
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

/// Tries at moving a circuit. The second goes around the router at which the first failed.
const TRIES: u32 = 2;
/// A circuit whose routers take longer is no active one: it only waits.
const SLOW: Duration = Duration::from_millis(250);

/// Why a circuit could not be moved.
#[derive(Debug, thiserror::Error)]
enum NotMoved {
    #[error("not all of its path is known")]
    NotWhole,
    #[error("there is no other path")]
    NoPath,
    #[error("router {0} has to answer others first")]
    Full(Id),
    #[error("router {0}, where it begins or ends, answers nothing")]
    SilentEnd(Id),
    #[error("router {router}: {text}")]
    Router { router: Id, answer: Answer, text: String },
}

impl NotMoved {
    fn at(router: &Id, answer: Answer, text: impl Into<String>) -> Self {
        Self::Router { router: router.clone(), answer, text: text.into() }
    }
}

/// A circuit on its way to another path.
#[derive(Debug)]
pub(super) struct Journey {
    id: Arc<str>,
    wish: Wish,
    /// What the first try does, if that is known.
    planned: Option<Planned>,
    known: Known,
    /// The path that was tried last.
    tried: Path,
    /// Routers between the ends at which a try failed.
    avoided: Vec<Id>,
    /// The last try failed because a router refused its route.
    was_refused: bool,
    /// Payloads may take another way by now than the table says.
    has_changed: bool,
    /// The version of the graph that was looked at last.
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

    /// A try failed at a router: the next goes around it, or around the one behind the link that an
    /// end does not know.
    fn learn(&mut self, router: &Id, answer: Answer) {
        self.was_refused = answer == Answer::Refused;
        let nodes = &self.tried.nodes;
        let between = nodes.get(1..nodes.len().saturating_sub(1)).unwrap_or_default();
        let avoided = match answer {
            _ if between.contains(router) => Some(router),
            Answer::NoLink if nodes.first() == Some(router) => between.first(),
            Answer::NoLink => between.last(),
            _ => None,
        };
        self.avoided.extend(avoided.cloned());
    }
}

/// What is to be done for a circuit to take a path.
#[derive(Debug)]
struct Plan {
    path: Path,
    steps: Steps,
    slots: HashMap<Id, Slot>,
}

/// A circuit, and what is to be done for it; nothing if it stays.
type Planned = (Arc<Circuit>, Result<Option<Plan>, NotMoved>);

impl Network {
    /// Moves circuits. All first steps are said before any answer is waited for.
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

    /// Moves a circuit. Gives the routers that it has left.
    async fn travel(&self, journey: &mut Journey) -> Option<Left> {
        let mut problem = NotMoved::NoPath;
        for number in 0..TRIES {
            match self.reroute(journey, number == 0).await {
                Ok(Some(now)) => return self.arrived(&now, journey),
                Ok(None) => break,
                Err(NotMoved::Full(router)) => {
                    self.0.moves.queue.lock().park(&journey.id, &router);
                    // There may be room since it was looked for.
                    self.unpark(&router);
                    return None;
                }
                Err(why) => problem = why,
            }
            match &problem {
                NotMoved::Router { router, answer, .. } => journey.learn(router, *answer),
                _ => break,
            }
        }
        self.not_moved(journey, &problem);
        None
    }

    /// A circuit is where it shall be.
    fn arrived(&self, now: &Circuit, journey: &Journey) -> Option<Left> {
        now.moving.end();
        self.0.moves.queue.lock().done(&journey.id);
        if !self.is_usable(&now.path) {
            self.move_or_end(now, Why::Broken);
        }
        let routers = journey.known.beside(&now.path);
        let left = Left { at: clock::now(), circuit: Arc::clone(&journey.id), routers };
        (!left.routers.is_empty()).then_some(left)
    }

    /// A circuit could not be moved: it stays, waits for a path or a router, or is removed.
    fn not_moved(&self, journey: &Journey, problem: &NotMoved) {
        let id = &journey.id;
        let circuit = self.0.circuits.get(id);
        // Routers of tries that failed are on no path that the table knows of.
        let path = circuit.as_ref().map(|it| it.path.clone()).unwrap_or_default();
        journey.known.beside(&path).iter().for_each(|router| self.unroute(router, id));
        let Some(circuit) = circuit else { return self.0.moves.forget(id) };
        if journey.wish.only_if_cheaper && !journey.has_changed {
            tracing::debug!(circuit = %id, %problem, "circuit stays where it is");
            circuit.moving.end();
            self.0.moves.queue.lock().done(id);
            // In this order: what broke while the circuit was being moved was nobody's business.
            if circuit.is_whole && !self.is_usable(&path) {
                self.move_or_end(&circuit, Why::Broken);
            }
        } else if self.waits(journey, problem) {
            self.0.moves.wake.notify_one();
        } else {
            tracing::info!(circuit = %id, %problem, "circuit removed: it cannot be moved");
            self.remove_circuit(id, true);
        }
    }

    /// Has a circuit wait for what it could not be moved for. False if there is nothing to wait for.
    fn waits(&self, journey: &Journey, problem: &NotMoved) -> bool {
        let (id, version, now) = (&journey.id, journey.version, clock::now());
        let sends_again = journey.wish.sends_again || journey.has_changed;
        let wish = Wish { is_urgent: true, sends_again, only_if_cheaper: false };
        let mut queue = self.0.moves.queue.lock();
        match problem {
            NotMoved::NoPath if journey.avoided.is_empty() => queue.strand(id, wish, now, version),
            NotMoved::NoPath => queue.fail(id, wish, now, version),
            NotMoved::Router {
                answer: Answer::NoLink | Answer::Gone | Answer::Silence, ..
            } => {
                queue.fail(id, wish, now, version);
            }
            NotMoved::SilentEnd(router) => {
                let waits = queue.rest(id, wish, router, now);
                drop(queue);
                // It may have answered since it was looked at.
                self.end_rest(router);
                return waits;
            }
            NotMoved::NotWhole | NotMoved::Full(_) | NotMoved::Router { .. } => return false,
        }
        true
    }

    /// Moves a circuit once, and gives it as it is then; none if there is none any more.
    async fn reroute(
        &self,
        journey: &mut Journey,
        is_first: bool,
    ) -> Result<Option<Arc<Circuit>>, NotMoved> {
        let (circuit, plan) = match journey.planned.take() {
            Some(planned) => planned,
            None => {
                let _turn = self.0.moves.searching.acquire().await;
                // It may have been put together from more pieces meanwhile.
                let Some(circuit) = self.0.circuits.get(&journey.id) else { return Ok(None) };
                let plan = self.plan(&circuit, journey, is_first);
                (circuit, plan)
            }
        };
        let Some(Plan { path, steps, mut slots }) = plan? else { return Ok(Some(circuit)) };
        let Steps { new, changing } = steps;
        self.tell_step(&circuit, journey, new, &mut slots).await?;
        // Who hears nothing in the second step is done.
        slots.retain(|router, _| changing.iter().any(|(it, _)| it == router));
        journey.has_changed |= !changing.is_empty();
        self.tell_step(&circuit, journey, changing, &mut slots).await?;
        let moved = Arc::new(circuit.moved(path));
        let event = self.circuit_event(CircuitChange::PathUpdated, &moved, Duration::ZERO);
        if !self.0.circuits.put_with(Arc::clone(&moved), || self.tell_event(event)) {
            // Removed while it was moved: the new routers have to hear of it too.
            moved.path.nodes.iter().for_each(|router| self.unroute(router, &moved.id));
        }
        Ok(Some(moved))
    }

    /// Finds the path that a circuit is to take, and what has to be said for that; none if it stays.
    fn plan(
        &self,
        circuit: &Circuit,
        journey: &mut Journey,
        is_first: bool,
    ) -> Result<Option<Plan>, NotMoved> {
        let (Some(first), Some(last)) = (circuit.path.first(), circuit.path.last()) else {
            return Err(NotMoved::NotWhole);
        };
        if !circuit.is_whole {
            return Err(NotMoved::NotWhole);
        }
        let Wish { sends_again, only_if_cheaper, .. } = journey.wish;
        let now = self.cost_of(&circuit.path);
        let may_stay = now.is_some() && !journey.has_changed && !sends_again;
        if may_stay && !only_if_cheaper {
            // What was gone is back.
            return Ok(None);
        }
        let ways = self.ways(first);
        journey.version = ways.graph().version();
        let path = match &journey.avoided[..] {
            [] => ways.path(last),
            avoided => {
                let around = ways.graph().path_around(first, last, avoided);
                // Who refused may do so no more; who does not answer, or lacks a link, will again.
                let again = || ways.path(last).filter(|_| journey.was_refused);
                around.or_else(again)
            }
        };
        let path = path.ok_or(NotMoved::NoPath)?;
        if may_stay && now.is_some_and(|now| now <= u64::from(path.cost)) {
            return Ok(None);
        }
        // Who has connected since then may have begun anew.
        let is_certain = |router: &Id| {
            let live = self.0.routers.get(router.as_str());
            !sends_again && live.is_some_and(|live| live.since <= circuit.routed_at)
        };
        journey.known.add_path(circuit, is_certain);
        let steps = journey.known.steps(circuit, &path);
        journey.tried.clone_from(&path);
        let slots = self.slots(circuit, &steps, is_first)?;
        Ok(Some(Plan { path, steps, slots }))
    }

    /// Places at all routers that have to hear something, or none.
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
                if is_end(circuit, router) {
                    return Err(NotMoved::SilentEnd(router.clone()));
                }
                return Err(NotMoved::at(router, Answer::Gone, "it answered nothing lately"));
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
        live.ok_or_else(|| NotMoved::at(router, Answer::Gone, "not connected"))
    }

    /// Tells routers at the same time, and waits for all. Each step has the whole time for itself: those
    /// of the second are not to answer for those of the first.
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
                // Those that wait for nobody else go on.
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
        let reply = live.channel.request_on(Lane::High, route, timeout).await;
        let (answer, text) = match reply {
            Ok(reply) => match RouteResult::from_message(&reply).map(|reply| reply.result) {
                Ok(Ok(_)) => (Answer::Done, String::new()),
                Ok(Err(error)) if error.code == RouteErrorCode::InvalidLinkDestination => {
                    (Answer::NoLink, error.text)
                }
                Ok(Err(error)) => (Answer::Refused, error.text),
                Err(problem) => (Answer::Refused, problem.to_string()),
            },
            Err(problem @ RequestError::Timeout) => (Answer::Silence, problem.to_string()),
            Err(problem) => (Answer::Gone, problem.to_string()),
        };
        // What an end refuses is about that end: the application may have gone.
        let is_end = is_end(circuit, &live.id);
        let counts = !is_end || matches!(answer, Answer::Done | Answer::Silence);
        if counts && let Some(until) = live.window.answered(answer, clock::now()) {
            self.leave_alone(live, until);
        }
        match answer {
            Answer::Done => Ok(()),
            Answer::Silence if is_end => Err(NotMoved::SilentEnd(live.id.clone())),
            _ => Err(NotMoved::at(&live.id, answer, text)),
        }
    }

    /// A router answers nothing, or refuses everything: no new path leads through it for a while.
    fn leave_alone(&self, live: &LiveRouter, until: Instant) {
        tracing::warn!(router = %live.id, "router sets up no routes: paths do not lead through it for a while");
        self.router_changed(&live.id);
        self.0.moves.resting.lock().push_back((until, live.id.clone()));
        self.unpark(&live.id);
        self.0.moves.wake.notify_one();
    }
}

/// Whether a circuit begins or ends at a router.
fn is_end(circuit: &Circuit, router: &Id) -> bool {
    [circuit.path.first(), circuit.path.last()].contains(&Some(router))
}
