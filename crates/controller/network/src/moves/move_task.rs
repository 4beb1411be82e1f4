//! Moves circuits to other paths: carries out what their machines ([`machine`](super::machine)) decide.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{join_all, try_join_all};
use hashbrown::HashMap;
use weft_channel::{Lane, RequestError};
use weft_kernel::events::CircuitChange;
use weft_model::Id;
use weft_paths::path::Path;
use weft_paths::queue::{MoveReason, MoveTerms};
use weft_paths::window::RouteOutcome;
use weft_wire::Message;
use weft_wire::ctrl::{Route, RouteErrorCode, RouteResult};

use super::super::circuits::Circuit;
use super::super::routers::LiveRouter;
use super::super::routes;
use super::known::Steps;
use super::left::FormerRouters;
use super::machine::{Beside, Ending, Input, Move, Obstacle, Output, Step};
use super::{Active, Slot, UnderWay};
use crate::adoption::machine::Input as OfAdoption;
use crate::clock;
use crate::network::Network;

/// A circuit whose routers take longer to answer does not count as active any more.
const SLOW: Duration = Duration::from_millis(250);

/// A circuit that is being moved.
#[derive(Debug)]
pub(super) struct MoveTask {
    id: Arc<str>,
    sends_again: bool,
    only_if_cheaper: bool,
    machine: Move,
    /// Whether payloads could take no other path than the one in the table when the move began.
    was_settled: bool,
    /// The circuit as it was when its path was looked for last.
    circuit: Option<Arc<Circuit>>,
    /// The rights to send the routes of the present plan.
    slots: HashMap<Id, Slot>,
    /// The version of the graph that the last plan used.
    version: u64,
    active: Option<Active>,
    _under_way: UnderWay,
}

impl MoveTask {
    pub(super) fn new(network: &Network, id: Arc<str>, wish: MoveTerms) -> Self {
        let machine = Move::new(wish, network.0.moves.take_known(&id));
        Self {
            sends_again: wish.sends_again,
            only_if_cheaper: wish.only_if_cheaper,
            was_settled: !machine.has_changed(),
            machine,
            circuit: None,
            slots: HashMap::new(),
            version: 0,
            id,
            active: Some(Active::begin(network)),
            _under_way: UnderWay::begin(network),
        }
    }

    /// The routers that may have routes of the circuit and are not on its path.
    fn left(&self, path: &Path) -> Option<FormerRouters> {
        let (routers, circuit) = (self.machine.beside(path), Arc::clone(&self.id));
        let left = FormerRouters { at: clock::now(), circuit, routers, for_loss_of: None };
        (!left.routers.is_empty()).then_some(left)
    }
}

impl Network {
    /// Moves circuits together. The first routes of all of them are sent before any answer is
    /// awaited.
    pub(super) async fn move_group(self, group: Vec<MoveTask>) {
        let mut planned = Vec::with_capacity(group.len());
        {
            let _turn = self.0.moves.searching.acquire().await;
            for mut task in group {
                let input = self.look_for_path(&mut task);
                planned.push((task, input));
            }
        }
        join_all(planned.into_iter().map(|(task, first)| self.travel(task, first))).await;
    }

    /// Moves a circuit, beginning with the result of the first search for a path.
    async fn travel(&self, mut task: MoveTask, first: Input) {
        let mut input = first;
        loop {
            input = match task.machine.step(input) {
                Output::Find => {
                    let _turn = self.0.moves.searching.acquire().await;
                    self.look_for_path(&mut task)
                }
                Output::Tell(step) => self.tell_step(&mut task, step).await,
                Output::Put(path) => self.settle(&mut task, path),
                Output::Over(ending, beside) => {
                    let left = self.end_move(task, ending, beside);
                    self.0.moves.left.lock().extend(left);
                    return;
                }
            };
        }
    }

    /// Handles the end of a move. Returns the routers that keep routes of the circuit for a while.
    fn end_move(
        &self,
        mut task: MoveTask,
        ending: Ending,
        beside: Beside,
    ) -> Option<FormerRouters> {
        let id = Arc::clone(&task.id);
        let unroute =
            |routers: Vec<Id>| routers.iter().for_each(|router| self.unroute(router, &id));
        let Some(circuit) = self.0.circuits.get(&id) else {
            // Nobody looks after the routers of a circuit that has ended.
            unroute(task.machine.beside(&Path::default()));
            self.0.moves.forget(&id, &Path::default());
            return None;
        };
        let mut left = None;
        match beside {
            Beside::Leave => left = task.left(&circuit.path),
            Beside::Unroute => unroute(task.machine.beside(&circuit.path)),
            Beside::Keep => {
                if let Some(known) = task.machine.take_known() {
                    self.0.moves.keep(&id, known);
                    if self.0.circuits.get(&id).is_none() {
                        // The circuit has ended meanwhile.
                        unroute(self.0.moves.forget(&id, &Path::default()));
                    }
                }
            }
        }
        self.end_move_of(&circuit, &task, ending);
        left
    }

    fn end_move_of(&self, circuit: &Circuit, task: &MoveTask, ending: Ending) {
        let (id, version, now) = (&task.id, task.version, clock::now());
        let sends_again = task.machine.has_changed();
        let wish = MoveTerms { is_urgent: true, sends_again, only_if_cheaper: false };
        let obstacle = task.machine.obstacle();
        let router = match obstacle {
            Some(Obstacle::Full(router) | Obstacle::SilentEnd(router)) => router.clone(),
            _ => Id::default(),
        };
        let queue = || self.0.moves.queue.lock();
        if task.was_settled && sends_again && matches!(ending, Ending::Resting | Ending::Failed) {
            // All routers of a new path have its routes, and payloads may have begun to take it.
            queue().begin_anew(id);
        }
        match ending {
            Ending::Arrived | Ending::Kept => {
                if let Some(obstacle) = obstacle.filter(|_| ending == Ending::Kept) {
                    tracing::debug!(circuit = %id, %obstacle, "a circuit could not be moved and keeps its path");
                }
                circuit.moving.end();
                queue().done(id);
                // This order matters: a path that broke while the circuit was being moved started no
                // other move.
                if circuit.is_whole && !self.is_usable(&circuit.path) {
                    self.move_or_end(circuit, MoveReason::Broken);
                }
                return;
            }
            Ending::Parked => {
                queue().park(id, &router);
                // A slot may have become free since the check.
                self.unpark(&router);
                return;
            }
            Ending::Awaiting => {
                queue().done(id);
                self.adoption(OfAdoption::Stranded { circuit: id, sends_again });
            }
            Ending::Stranded => queue().strand(id, wish, now, version),
            Ending::Failed => queue().fail(id, wish, now, version),
            Ending::Resting => {
                let path_works = circuit.is_whole && self.is_usable(&circuit.path);
                if !queue().rest(id, wish, &router, now, path_works) {
                    return self.cannot_move(id, obstacle);
                }
                // The router may have answered since the check.
                self.end_rest(&router);
            }
            Ending::Removed => return self.cannot_move(id, obstacle),
            Ending::Ended => drop(self.0.moves.forget(id, &circuit.path)),
        }
        self.0.moves.wake.notify_one();
    }

    fn cannot_move(&self, id: &str, obstacle: Option<&Obstacle>) {
        let problem = obstacle.map(Obstacle::to_string).unwrap_or_default();
        tracing::info!(circuit = %id, problem, "a circuit is removed, because its path is broken and it could not be moved");
        self.remove_circuit(id, true);
    }

    fn failed(&self, task: &MoveTask, obstacle: Obstacle) -> Input {
        // A circuit of this run may have an id that a router has chosen.
        let circuit = self.0.circuits.get(&task.id);
        let is_adopted = circuit.is_some_and(|circuit| circuit.is_of_earlier_run());
        Input::Failed { obstacle, is_early: is_adopted && self.awaits_routers(&task.id) }
    }

    /// Puts a circuit that has moved into the table.
    fn settle(&self, task: &mut MoveTask, path: Path) -> Input {
        let Some(circuit) = task.circuit.take() else { return Input::Ended };
        let moved = Arc::new(Circuit { is_whole: true, ..circuit.moved(path) });
        let is_put = if circuit.is_whole {
            let event = self.circuit_event(CircuitChange::PathUpdated, &moved, Duration::ZERO);
            self.0.circuits.put_with(Arc::clone(&moved), || self.tell_event(event))
        } else if let Some(reporters) = self.complete(&circuit, moved.path.clone()) {
            // Reporters beside the path are unrouted like routers that the circuit has left.
            for (router, route) in &reporters {
                task.machine.note_route(router, route);
            }
            true
        } else {
            false
        };
        if !is_put {
            // The circuit was removed during the move: unroute it at the new routers too.
            moved.path.nodes.iter().for_each(|router| self.unroute(router, &moved.id));
        }
        Input::Put
    }

    /// Looks for the new path of a circuit, and takes the slots for its routes.
    fn look_for_path(&self, task: &mut MoveTask) -> Input {
        // More pieces of an adopted circuit may have arrived meanwhile.
        let known = self.with_pieces(&task.id);
        task.circuit = known.as_ref().map(|(circuit, _)| Arc::clone(circuit));
        let planned = known.map(|(circuit, pieces)| self.plan(&circuit, &pieces, task));
        let awaited = self.0.moves.queue.lock().take_awaited(&task.id);
        if let Some(router) = awaited.filter(|router| !task.slots.contains_key(router)) {
            // Nothing else tells the circuits that wait for the router that it has room.
            self.unpark(&router);
        }
        match planned {
            Some(Ok(Some((path, steps)))) => Input::Planned(path, steps),
            Some(Ok(None)) => Input::Stays,
            Some(Err(obstacle)) => self.failed(task, obstacle),
            None => Input::Ended,
        }
    }

    /// Finds the new path of a circuit and the routes for it; none if the circuit stays.
    fn plan(
        &self,
        circuit: &Circuit,
        pieces: &BTreeMap<Id, Route>,
        task: &mut MoveTask,
    ) -> Result<Option<(Path, Steps)>, Obstacle> {
        let (Some(first), Some(last)) = (circuit.path.first(), circuit.path.last()) else {
            return Err(Obstacle::NoEnds);
        };
        if !circuit.has_ends() {
            return Err(Obstacle::NoEnds);
        }
        let now = circuit.is_whole.then(|| self.cost_of(&circuit.path)).flatten();
        let may_stay = now.is_some() && !task.machine.has_changed();
        if may_stay && !task.only_if_cheaper {
            // The path works again.
            return Ok(None);
        }
        let ways = self.ways(first);
        task.version = ways.graph().version();
        let path = match task.machine.avoided() {
            [] => ways.path(last),
            avoided => {
                let again = || ways.path(last).filter(|_| task.machine.may_try_again());
                ways.path_around(last, avoided).or_else(again)
            }
        };
        let Some(path) = path else {
            // The end of a circuit that is not heard cannot be told anything; data goes on over its path.
            let unheard = self.unheard_end(&circuit.path).filter(|_| now.is_some());
            return match unheard {
                Some(_) if may_stay => Ok(None),
                Some(end) => Err(Obstacle::SilentEnd(end.clone())),
                None => Err(Obstacle::NoPath),
            };
        };
        if may_stay && now.is_some_and(|now| now <= u64::from(path.cost)) {
            return Ok(None);
        }
        // A router that connected after the routes were set up may have restarted and lost them, until it has named all
        // its circuits.
        let is_certain = |router: &Id| {
            let live = self.0.routers.get(router.as_str());
            let is_known =
                |live: &LiveRouter| live.since <= circuit.routed_at || self.has_told(router);
            !task.sends_again && live.is_some_and(|live| is_known(&live))
        };
        if circuit.is_whole {
            task.machine.note_path(circuit, is_certain);
        }
        for (router, route) in pieces {
            task.machine.note_route(router, route);
        }
        let steps = task.machine.steps(circuit, &path);
        task.slots = self.slots(circuit, &steps, task.machine.is_first())?;
        Ok(Some((path, steps)))
    }

    /// Takes a slot at each router of the plan; if one has none free, takes none.
    fn slots(
        &self,
        circuit: &Circuit,
        steps: &Steps,
        may_wait: bool,
    ) -> Result<HashMap<Id, Slot>, Obstacle> {
        let mut slots = HashMap::new();
        for router in steps.routers() {
            let live = self.live(router)?;
            if live.window.is_silent(clock::now()) {
                if circuit.path.has_end(router) {
                    return Err(Obstacle::SilentEnd(router.clone()));
                }
                return Err(Obstacle::at(
                    router,
                    RouteOutcome::Gone,
                    "it has not answered routes lately",
                ));
            }
            let slot = match may_wait {
                true => Slot::take(self, &live),
                false => Some(Slot::force(self, &live)),
            };
            slots.insert(router.clone(), slot.ok_or_else(|| Obstacle::Full(router.clone()))?);
        }
        Ok(slots)
    }

    fn live(&self, router: &Id) -> Result<Arc<LiveRouter>, Obstacle> {
        let live = self.0.routers.get(router.as_str());
        live.ok_or_else(|| Obstacle::at(router, RouteOutcome::Gone, "not connected"))
    }

    /// Tells several routers their routes at the same time, and waits for all answers. Each step
    /// has the whole time limit, so that slow routers of the first step take none of the time of
    /// those in the second.
    async fn tell_step(&self, task: &mut MoveTask, step: Step) -> Input {
        let Some(circuit) = task.circuit.clone() else { return Input::Ended };
        let mut slots = std::mem::take(&mut task.slots);
        match self.ask_routes(&circuit, task, step, &mut slots).await {
            Ok(()) => {
                // A router without a route in the next step is done.
                slots.retain(|router, _| task.machine.is_to_be_told(router));
                task.slots = slots;
                Input::Answered
            }
            Err(obstacle) => self.failed(task, obstacle),
        }
    }

    async fn ask_routes(
        &self,
        circuit: &Circuit,
        task: &mut MoveTask,
        step: Step,
        slots: &mut HashMap<Id, Slot>,
    ) -> Result<(), Obstacle> {
        let body = routes::reroute(circuit, self.0.options.route_timeout);
        let mut asked = Vec::with_capacity(step.len());
        for (router, forwards) in step {
            let live = self.live(&router)?;
            let slot = slots.remove(&router).unwrap_or_else(|| Slot::force(self, &live));
            asked.push((live, forwards, slot));
        }
        let machine = parking_lot::Mutex::new(&mut task.machine);
        let all = try_join_all(asked.into_iter().map(|(live, forwards, slot)| {
            let (machine, body) = (&machine, &body);
            async move {
                let route = Route::message_with(body, &forwards);
                self.ask_route(&live, circuit, route).await?;
                machine.lock().confirmed(&live.id, &forwards);
                Ok((live.id.clone(), slot))
            }
        }));
        tokio::pin!(all);
        let done = match tokio::time::timeout(SLOW, &mut all).await {
            Ok(done) => done,
            Err(_) => {
                task.active = None;
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
    ) -> Result<(), Obstacle> {
        let (usual, asked) = (self.0.options.route_timeout, clock::now());
        live.unroutes.cancel(&circuit.id);
        let is_end = circuit.path.has_end(&live.id);
        let patience = match live.window.patience(usual) {
            // Instead of a slow router between the ends, another one is taken if there is one.
            longer if longer > usual && !is_end && self.has_way_around(circuit, &live.id) => usual,
            patience => patience,
        };
        let reply = live.channel.request_on(Lane::High, route, patience).await;
        if reply.is_ok() && clock::since(asked) < usual {
            live.window.in_time();
        }
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
        let counts = !is_end || matches!(outcome, RouteOutcome::Done | RouteOutcome::Silence);
        if counts && let Some(until) = live.window.answered(outcome, clock::now()) {
            self.leave_alone(live, until);
        }
        match outcome {
            RouteOutcome::Done => Ok(()),
            RouteOutcome::Silence if is_end => Err(Obstacle::SilentEnd(live.id.clone())),
            _ => Err(Obstacle::at(&live.id, outcome, text)),
        }
    }

    /// Whether a circuit could take a path that avoids a router between its ends.
    fn has_way_around(&self, circuit: &Circuit, router: &Id) -> bool {
        let ends = circuit.path.first().zip(circuit.path.last());
        let avoided = std::slice::from_ref(router);
        ends.is_some_and(|(first, last)| self.ways(first).path_around(last, avoided).is_some())
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
