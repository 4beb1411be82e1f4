//! One move of a circuit, as a state machine: it has no I/O, lock, clock or randomness.
//!
//! ```text
//!  path that was found ────┐                   ┌──> search for a path
//!  answers of routers ─────┼──> Move::step ────┼──> routes for routers
//!  obstacle ───────────────┘        │          ├──> path for the table of circuits
//!                                 table        └──> end of the move
//! ```
//!
//! The driver ([`move_task`](super::move_task)) carries out the [`Output`] of one [`Move::step`], and its result is the next
//! input, until the move is over. The search for paths and the limits of unanswered routes are the driver's.

mod table;
#[cfg(test)]
mod tests;

use weft_model::Id;
use weft_paths::path::Path;
use weft_paths::queue::MoveTerms;
use weft_paths::window::RouteOutcome;
use weft_wire::ctrl::Route;
use weft_wire::ctrl::route::Forward;

use self::table::{Action, Event, Row, State, TABLE};
use super::known::{KnownRoutes, Steps};
use crate::circuits::Circuit;

/// Most tries at moving a circuit. The second try goes around the router at which the first one failed.
const TRIES: u32 = 2;

/// Most routes of a circuit that are kept from one move to the next.
const MOST_WAYS: usize = 256;

/// Why a circuit could not be moved.
#[derive(Debug, thiserror::Error)]
pub(super) enum Obstacle {
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

impl Obstacle {
    pub(super) fn at(router: &Id, outcome: RouteOutcome, text: impl Into<String>) -> Self {
        Self::Router { router: router.clone(), outcome, text: text.into() }
    }
}

/// Routes for routers.
pub(super) type Step = Vec<(Id, Vec<Forward>)>;

/// What happens in a move.
#[derive(Debug)]
pub(super) enum Input {
    /// A path was found, which these steps lead to.
    Planned(Path, Steps),
    /// The circuit stays on its path.
    Stays,
    /// All routers of a step have set their routes up.
    Answered,
    /// The circuit cannot be moved, or a router has not set its route up. `is_early`: routers may still return after a
    /// start of the controller.
    Failed { obstacle: Obstacle, is_early: bool },
    /// The path is in the table of circuits.
    Put,
    /// The circuit has ended.
    Ended,
}

/// What is to be done next.
#[derive(Debug)]
pub(super) enum Output {
    /// Look for a path around [`Move::avoided`].
    Find,
    /// Tell routers these routes, and wait for their answers.
    Tell(Step),
    /// Put the circuit on this path.
    Put(Path),
    /// End the move.
    Over(Ending, Beside),
}

/// How a move ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The circuit is on its path.
    Arrived,
    /// The circuit keeps its path, which was to be replaced by a cheaper one.
    Kept,
    /// The circuit waits for a router that has too many unanswered routes.
    Parked,
    /// The circuit waits for a path.
    Stranded,
    /// The circuit waits until the obstacle has passed.
    Failed,
    /// The circuit waits for the router at its end.
    Resting,
    /// The circuit waits for routers that return.
    Awaiting,
    /// The circuit is to end.
    Removed,
    /// The circuit has ended.
    Ended,
}

/// What becomes of routers that have been told routes and are not on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    /// They keep their routes: the circuit waits for its next move, and payloads may take them.
    Keep,
    /// They keep their routes until the payloads on their way have passed.
    Leave,
    /// They forget the circuit at once: no payload takes their routes.
    Unroute,
}

/// A move of a circuit.
#[derive(Debug)]
pub(super) struct Move {
    table: &'static [Row],
    state: State,
    /// Whether payloads may take another path than the one in the table of circuits.
    has_changed: bool,
    /// Whether routers may have been told other routes than those of the path in the table.
    has_told: bool,
    known: KnownRoutes,
    /// The path that was tried last, and the routes of the second step.
    tried: Path,
    changing: Step,
    /// Routers between the ends at which a try failed.
    avoided: Vec<Id>,
    /// Whether the last try failed because a router refused its route.
    was_refused: bool,
    tries: u32,
    /// The obstacle of the last try.
    obstacle: Option<Obstacle>,
    /// The rows that were taken.
    #[cfg(test)]
    taken: Vec<usize>,
}

impl Move {
    /// A move that begins with a search for a path. `known` is what the move before it has [left](Self::take_known).
    pub(super) fn new(wish: MoveTerms, known: Option<KnownRoutes>) -> Self {
        let state = match wish {
            MoveTerms { sends_again: true, .. } => State::Again,
            _ if known.is_some() => State::Again,
            MoveTerms { only_if_cheaper: true, .. } => State::Better,
            _ => State::Other,
        };
        Self {
            table: TABLE,
            state,
            has_changed: state == State::Again,
            has_told: known.is_some(),
            known: known.unwrap_or_default(),
            tried: Path::default(),
            changing: Step::new(),
            avoided: Vec::new(),
            was_refused: false,
            tries: 1,
            obstacle: None,
            #[cfg(test)]
            taken: Vec::new(),
        }
    }

    /// Whether this is the first try.
    pub(super) fn is_first(&self) -> bool {
        self.tries == 1
    }

    /// The routers that a path is to avoid.
    pub(super) fn avoided(&self) -> &[Id] {
        &self.avoided
    }

    /// Whether an avoided router may be tried once more: one that refused may accept now, whereas one that was silent,
    /// or lacks a link, would fail again.
    pub(super) fn may_try_again(&self) -> bool {
        self.was_refused
    }

    /// Whether payloads may take another path than the one in the table of circuits.
    pub(super) fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// The last obstacle.
    pub(super) fn obstacle(&self) -> Option<&Obstacle> {
        self.obstacle.as_ref()
    }

    /// Notes the routes of the circuit's path: certain for routers that have not lost them.
    pub(super) fn note_path(&mut self, circuit: &Circuit, is_certain: impl Fn(&Id) -> bool) {
        self.known.add_path(circuit, is_certain);
    }

    /// Notes a route that a router has reported, or was told before this move.
    pub(super) fn note_route(&mut self, router: &Id, route: &Route) {
        self.known.told(router, &route.forwards);
    }

    /// Notes that a router has set these routes up.
    pub(super) fn confirmed(&mut self, router: &Id, forwards: &[Forward]) {
        self.known.confirmed(router, forwards);
    }

    /// The steps by which the circuit takes a path.
    pub(super) fn steps(&self, circuit: &Circuit, path: &Path) -> Steps {
        self.known.steps(circuit, path)
    }

    /// Whether a router is told routes in the next step of the present plan.
    pub(super) fn is_to_be_told(&self, router: &Id) -> bool {
        self.changing.iter().any(|(told, _)| told == router)
    }

    /// Routers that may have routes of the circuit and are not on a path.
    pub(super) fn beside(&self, path: &Path) -> Vec<Id> {
        self.known.beside(path)
    }

    /// What the next move of the circuit has to know of this one, which has not arrived: the routes that payloads may
    /// take. None of them is certain, because routers may restart meanwhile. None if there are too many: routers ask
    /// about circuits that are idle there.
    pub(super) fn take_known(&mut self) -> Option<KnownRoutes> {
        let mut known = std::mem::take(&mut self.known);
        known.doubt();
        (self.has_changed && self.has_told && known.len() <= MOST_WAYS).then_some(known)
    }

    /// Takes an input, and says what follows from it.
    pub(super) fn step(&mut self, input: Input) -> Output {
        let mut new = Step::new();
        let event = match input {
            Input::Planned(path, steps) => {
                (self.tried, new, self.changing) = (path, steps.new, steps.changing);
                if new.is_empty() { self.answered() } else { Event::Prepares }
            }
            Input::Stays => Event::Stays,
            Input::Answered => self.answered(),
            Input::Failed { obstacle, is_early } => {
                let event = self.failed(&obstacle, is_early);
                self.obstacle = Some(obstacle);
                event
            }
            Input::Put => Event::Arrives,
            Input::Ended => Event::Ended,
        };
        let row = self.table.iter().position(|row| row.state == self.state && row.event == event);
        let Some(at) = row else {
            let beside = if self.has_changed { Beside::Keep } else { Beside::Unroute };
            return Output::Over(Ending::Failed, beside);
        };
        #[cfg(test)]
        self.taken.push(at);
        #[cfg(feature = "testing")]
        crate::coverage::count("moves", self.table, at, |row| (row.state, row.event));
        let Row { next, action, .. } = self.table[at];
        self.state = next;
        self.has_changed |= next == State::Switch;
        match action {
            Action::Find => {
                self.tries += 1;
                Output::Find
            }
            Action::TellNew => self.tell(new),
            Action::TellChanged => {
                let changing = std::mem::take(&mut self.changing);
                self.tell(changing)
            }
            Action::Put => Output::Put(self.tried.clone()),
            Action::Over(ending, beside) => Output::Over(ending, beside),
        }
    }

    fn tell(&mut self, step: Step) -> Output {
        step.iter().for_each(|(router, forwards)| self.known.told(router, forwards));
        self.has_told = true;
        Output::Tell(step)
    }

    /// The event when nothing more is to be prepared.
    fn answered(&self) -> Event {
        if self.changing.is_empty() { Event::Arrives } else { Event::Switches }
    }

    /// The event of an obstacle.
    fn failed(&mut self, obstacle: &Obstacle, is_early: bool) -> Event {
        match obstacle {
            Obstacle::Full(_) => Event::Full,
            Obstacle::SilentEnd(_) => Event::SilentEnd,
            Obstacle::NoPath | Obstacle::NoEnds if is_early => Event::Early,
            Obstacle::NoEnds => Event::NoEnds,
            Obstacle::NoPath if self.avoided.is_empty() => Event::NoPath,
            Obstacle::NoPath => Event::NoWayAround,
            Obstacle::Router { router, outcome, .. } => {
                self.learn(router, *outcome);
                match outcome {
                    _ if self.tries < TRIES => Event::Retry,
                    RouteOutcome::Refused | RouteOutcome::Done => Event::Refused,
                    RouteOutcome::NoLink
                    | RouteOutcome::Busy
                    | RouteOutcome::Gone
                    | RouteOutcome::Silence => Event::Obstructed,
                }
            }
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
