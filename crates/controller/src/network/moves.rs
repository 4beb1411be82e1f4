//! Circuits take another path: because theirs broke, because a router on it says that it does not
//! work, or because there is a cheaper one (protocol: control-plane 14).
//!
//! All of that waits in one queue that one task works off, some circuits at a time, so that a link
//! with a hundred thousand circuits costs dials next to nothing. A circuit is in the queue once,
//! whatever happens to it meanwhile.
//!
//! A circuit that has no path left is kept for a while: a link that breaks is often back at once, and
//! routers hold what waits for it.
//!
//! No router sends into the void while a circuit moves. First every router on the new path hears
//! what is new to it: where payloads go that come over links which the circuit did not take before.
//! When all have answered, those on both paths hear what changes: from then on payloads take the new
//! way. Routers that are on the old path only keep their part until what was on its way has passed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::future::try_join_all;
use futures::stream::FuturesUnordered;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use weft_channel::Lane;
use weft_model::Id;
use weft_wire::ProtoBody as _;
use weft_wire::ctrl::route::Forward;
use weft_wire::ctrl::{REROUTE_ATTEMPT, Route, RouteResult};

use super::Network;
use super::circuits::Circuit;
use super::path::Path;
use super::routes::RouteSpec;
use crate::events::CircuitChange;

/// Limit of moving a circuit.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Tries at moving a circuit before it is removed.
const TRIES: u32 = 2;
/// Circuits that are moved at the same time.
const AT_ONCE: usize = 64;
/// How long a circuit may have no path.
const WITHOUT_PATH: Duration = Duration::from_secs(5);
/// How often circuits without a path are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long routers that a circuit has left keep their part of it, for what is on its way.
const DRAIN: Duration = Duration::from_secs(2);
/// Least time between two moves of a circuit because routers say that its path does not work: they
/// say so every 15 s, and a router that says it all the time keeps only itself busy.
const LEAST_BETWEEN: Duration = Duration::from_secs(5);

/// Why a circuit is to take another path; the first is the most urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// A link or router on its path is gone.
    Broken,
    /// A router on its path could not pass something on: it hears its route again, even if that is
    /// the same.
    Faulty,
    /// There may be a cheaper path. If not, it stays.
    Cost,
}

/// Whether a circuit is being moved, and when it was.
#[derive(Debug, Default)]
pub struct Moving {
    is_moving: AtomicBool,
    last: Mutex<Option<Instant>>,
}

impl Moving {
    /// How long ago it was moved; none if never.
    pub fn since_last(&self) -> Option<Duration> {
        self.last.lock().map(|at| at.elapsed())
    }

    fn end(&self) {
        *self.last.lock() = Some(Instant::now());
        self.is_moving.store(false, Ordering::Release);
    }
}

/// Circuits that are to be moved.
#[derive(Debug, Default)]
pub(super) struct Moves {
    waiting: Mutex<Waiting>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    urgent: VecDeque<(Arc<Circuit>, Why)>,
    others: VecDeque<(Arc<Circuit>, Why)>,
}

impl Moves {
    fn push(&self, circuit: Arc<Circuit>, why: Why) {
        let mut waiting = self.waiting.lock();
        match why {
            Why::Broken => waiting.urgent.push_back((circuit, why)),
            Why::Faulty | Why::Cost => waiting.others.push_back((circuit, why)),
        }
        drop(waiting);
        self.wake.notify_one();
    }

    fn pop(&self) -> Option<(Arc<Circuit>, Why)> {
        let mut waiting = self.waiting.lock();
        waiting.urgent.pop_front().or_else(|| waiting.others.pop_front())
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        let waiting = self.waiting.lock();
        waiting.urgent.len() + waiting.others.len()
    }
}

/// Why a circuit could not be moved.
#[derive(Debug, thiserror::Error)]
enum NotMoved {
    #[error("not all of its path is known")]
    NotWhole,
    #[error("there is no other path")]
    NoPath,
    #[error("router {0}: {1}")]
    Router(Id, String),
}

/// What became of a circuit that was to be moved.
enum Outcome {
    /// It is where it shall be, or gone.
    Done(Option<Left>),
    /// It has no path at this moment.
    WithoutPath(Arc<Circuit>),
}

/// Circuits without a path, the first since longest.
#[derive(Default)]
struct Stranded {
    circuits: VecDeque<(Instant, Arc<Circuit>)>,
    /// The graph in which they have none.
    version: u64,
}

/// Routers that a circuit has left.
struct Left {
    at: Instant,
    circuit: String,
    routers: Vec<Id>,
}

impl Network {
    /// Has a circuit moved to another path, or removed if that cannot be.
    pub(super) fn move_or_end(&self, circuit: Arc<Circuit>, why: Why) {
        let too_soon =
            why == Why::Faulty && circuit.moving.since_last().is_some_and(|it| it < LEAST_BETWEEN);
        if !too_soon && !circuit.moving.is_moving.swap(true, Ordering::AcqRel) {
            self.0.moves.push(circuit, why);
        }
    }

    /// How many circuits wait to be moved.
    pub fn waiting_moves(&self) -> usize {
        self.0.moves.len()
    }

    /// Whether a path leads over links and routers that are there.
    pub(super) fn is_usable(&self, path: &Path) -> bool {
        self.cost_of(path).is_some()
    }

    /// What a path costs now, without the router where it begins; none if it is broken.
    pub(super) fn cost_of(&self, path: &Path) -> Option<u64> {
        let links = self.0.links.cost_of(path)?;
        Some(links + self.graph().cost_of(&path.nodes)?)
    }

    /// Moves circuits as long as the network lives.
    pub(super) async fn move_circuits(self) {
        let mut under_way = FuturesUnordered::new();
        let mut left: VecDeque<Left> = VecDeque::new();
        let mut stranded = Stranded::default();
        loop {
            self.look_after(&mut stranded);
            while under_way.len() < AT_ONCE
                && let Some((circuit, why)) = self.0.moves.pop()
            {
                under_way.push(self.move_one(circuit, why));
            }
            while left.front().is_some_and(|it| it.at.elapsed() >= DRAIN)
                && let Some(gone) = left.pop_front()
            {
                self.leave(gone);
            }
            let drained = left.front().map(|it| DRAIN.saturating_sub(it.at.elapsed()));
            let look = (!stranded.circuits.is_empty()).then_some(LOOK);
            let next = drained.into_iter().chain(look).min();
            tokio::select! {
                () = self.0.moves.wake.notified(), if under_way.len() < AT_ONCE => {}
                Some(outcome) = under_way.next(), if !under_way.is_empty() => match outcome {
                    Outcome::Done(gone) => left.extend(gone),
                    Outcome::WithoutPath(circuit) => {
                        stranded.circuits.push_back((Instant::now(), circuit));
                    }
                },
                () = tokio::time::sleep(next.unwrap_or_default()), if next.is_some() => {}
            }
        }
    }

    /// Unroutes a circuit at routers that it has left, except those it has come back to. Routes of
    /// moves are sent by the task that does this, so none comes in between.
    fn leave(&self, left: Left) {
        let circuit = self.0.circuits.get(&left.circuit);
        for router in &left.routers {
            let is_on = circuit.as_ref().is_some_and(|it| it.path.has_node(router.as_str()));
            if !is_on {
                self.unroute(router, &left.circuit);
            }
        }
    }

    /// Moves circuits that have a path again, and removes those that had none for too long.
    fn look_after(&self, stranded: &mut Stranded) {
        while let Some((since, circuit)) = stranded.circuits.front()
            && since.elapsed() >= WITHOUT_PATH
        {
            tracing::info!(circuit = %circuit.id, "circuit removed: it has no path any more");
            self.remove_circuit(&circuit.id, true);
            stranded.circuits.pop_front();
        }
        if stranded.circuits.is_empty() {
            return;
        }
        let version = self.graph().version();
        if std::mem::replace(&mut stranded.version, version) == version {
            return;
        }
        stranded.circuits.retain(|(_, circuit)| {
            let ends = circuit.path.first().zip(circuit.path.last());
            let way = ends.and_then(|(first, last)| self.ways(first).path(last));
            if way.is_some() {
                self.0.moves.push(Arc::clone(circuit), Why::Broken);
            }
            way.is_none()
        });
    }

    async fn move_one(&self, circuit: Arc<Circuit>, why: Why) -> Outcome {
        let mut touched = circuit.path.nodes.clone();
        let mut last = None;
        for _ in 0..TRIES {
            // It may have been put together from more pieces meanwhile.
            let Some(circuit) = self.0.circuits.get(&circuit.id) else { break };
            match self.reroute(&circuit, why, &mut touched).await {
                Ok(now) => {
                    circuit.moving.end();
                    if !self.is_usable(&now.path) {
                        self.move_or_end(Arc::clone(&now), Why::Broken);
                    }
                    touched.retain(|router| !now.path.nodes.contains(router));
                    let left =
                        Left { at: Instant::now(), circuit: circuit.id.clone(), routers: touched };
                    return Outcome::Done((!left.routers.is_empty()).then_some(left));
                }
                Err(NotMoved::NoPath) if why == Why::Broken => {
                    return Outcome::WithoutPath(circuit);
                }
                Err(problem) => last = Some(problem),
            }
        }
        if let Some(problem) = last {
            tracing::info!(circuit = %circuit.id, %problem, "circuit removed: it cannot be moved");
        }
        self.remove_circuit(&circuit.id, true);
        // Those of tries that failed are on no path that the removal knows of.
        let others = touched.iter().filter(|router| !circuit.path.nodes.contains(router));
        others.for_each(|router| self.unroute(router, &circuit.id));
        Outcome::Done(None)
    }

    /// Moves a circuit; routers that heard of it are added to `touched`. Gives the circuit as it is
    /// then.
    async fn reroute(
        &self,
        circuit: &Arc<Circuit>,
        why: Why,
        touched: &mut Vec<Id>,
    ) -> Result<Arc<Circuit>, NotMoved> {
        let (Some(first), Some(last)) = (circuit.path.first(), circuit.path.last()) else {
            return Err(NotMoved::NotWhole);
        };
        if !circuit.is_whole {
            return Err(NotMoved::NotWhole);
        }
        let now = self.cost_of(&circuit.path);
        if why == Why::Broken && now.is_some() {
            // What was gone is back.
            return Ok(Arc::clone(circuit));
        }
        let path = self.ways(first).path(last).ok_or(NotMoved::NoPath)?;
        if why == Why::Cost && now.is_some_and(|now| now <= u64::from(path.cost)) {
            return Ok(Arc::clone(circuit));
        }
        let new = path.nodes.iter().filter(|router| !touched.contains(router)).cloned();
        let new: Vec<Id> = new.collect();
        touched.extend(new);
        self.set_path(circuit, &path).await?;
        let moved = Arc::new(circuit.moved(path));
        if self.0.circuits.put(Arc::clone(&moved)) {
            self.tell_circuit(CircuitChange::PathUpdated, &moved, Duration::ZERO);
        } else {
            // Removed while it was moved: the new routers have to hear of it too.
            moved.path.nodes.iter().for_each(|router| self.unroute(router, &moved.id));
        }
        Ok(moved)
    }

    /// Tells the routers of a path: first what is new, then what changes.
    async fn set_path(&self, circuit: &Circuit, path: &Path) -> Result<(), NotMoved> {
        let deadline = tokio::time::Instant::now() + TIMEOUT;
        let before: HashMap<Id, Route> = reroutes(circuit, &circuit.path).into_iter().collect();
        let (mut new, mut changing) = (Vec::new(), Vec::new());
        for (router, route) in reroutes(circuit, path) {
            let known = before.get(&router).map_or(&[][..], |route| &route.forwards);
            let leads_elsewhere = |forward: &Forward| {
                let mut known = known.iter().filter(|it| it.src_address == forward.src_address);
                known.any(|it| it.dst_address != forward.dst_address)
            };
            let (second, first) = route.forwards.iter().cloned().partition(leads_elsewhere);
            for (step, forwards) in [(&mut new, first), (&mut changing, second)] {
                if !Vec::is_empty(&forwards) {
                    step.push((router.clone(), Route { forwards, ..route.clone() }));
                }
            }
        }
        for step in [new, changing] {
            try_join_all(
                step.into_iter().map(|(router, route)| self.route_anew(router, route, deadline)),
            )
            .await?;
        }
        Ok(())
    }

    /// Sends a route and waits for the answer.
    async fn route_anew(
        &self,
        router: Id,
        route: Route,
        deadline: tokio::time::Instant,
    ) -> Result<(), NotMoved> {
        let failed = |text: String| NotMoved::Router(router.clone(), text);
        let live = self.0.routers.get(router.as_str());
        let live = live.ok_or_else(|| failed("not connected".to_owned()))?;
        let left = deadline.saturating_duration_since(tokio::time::Instant::now());
        let reply = live.channel.request_on(Lane::High, route.to_message(), left).await;
        let reply = reply.map_err(|problem| failed(problem.to_string()))?;
        let answer = RouteResult::from_message(&reply);
        let answer = answer.map_err(|problem| failed(problem.to_string()))?;
        answer.result.map(drop).map_err(|error| failed(error.text))
    }
}

/// The routes with which a circuit that is up takes a path.
fn reroutes(circuit: &Circuit, path: &Path) -> Vec<(Id, Route)> {
    let spec = RouteSpec {
        circuit: &circuit.id,
        attempt: REROUTE_ATTEMPT,
        path,
        ingress: &circuit.ingress,
        egress: &circuit.egress,
        dial: None,
        timeout: TIMEOUT,
        tags: &circuit.tags,
    };
    spec.routes()
}
