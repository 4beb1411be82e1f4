//! Fair turns for work that keeps a processor busy: a limited number at a time, and waiting callers
//! take turns, however much each of them asks for. One caller never has all turns: others need not
//! wait for the end of its work.

mod line;

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use weft_contract::ErrorCode;
use weft_limits::source_of;

use crate::caller::{Caller, Via};
use crate::failure::Failure;

pub use line::Line;

/// Most waiting requests of one caller.
const WAITING: usize = 256;
/// Longest wait for a turn per processor; after it the request is refused with 429.
const PATIENCE: Duration = Duration::from_secs(10);

/// The turns. Clones share them.
#[derive(Debug, Clone)]
pub struct Turns {
    state: Arc<Mutex<State>>,
    /// Longest wait for a turn; after it the request is refused with 429.
    patience: Duration,
}

#[derive(Debug)]
struct State {
    /// The number of free turns.
    free: usize,
    /// The most turns that one caller has at a time.
    most: usize,
    /// The number of turns that callers have; callers without one are not in the map.
    held: HashMap<String, usize>,
    /// Waiting requests. If a turn is free, each of the callers has as many as it may have.
    line: Line<String, Turn>,
}

/// The turns for one caller.
#[derive(Debug)]
pub struct Asking {
    turns: Turns,
    whose: String,
}

/// A turn; dropping it passes it to the next caller.
#[derive(Debug)]
pub struct Turn {
    /// None if the turn was passed on.
    state: Option<Arc<Mutex<State>>>,
    whose: String,
}

impl Turns {
    /// `count` turns for each processor.
    pub(crate) fn per_processor(count: usize) -> Self {
        let processors = available_parallelism().map_or(1, NonZero::get);
        Self::new(processors * count, PATIENCE)
    }

    /// This many turns, of which one caller has all but one at a time; a request that has waited for
    /// longer than `patience` is refused with 429.
    pub fn new(at_once: usize, patience: Duration) -> Self {
        let state = State {
            free: at_once,
            most: at_once.saturating_sub(1).max(1),
            held: HashMap::new(),
            line: Line::default(),
        };
        Self { state: Arc::new(Mutex::new(state)), patience }
    }

    /// The turns for this caller.
    pub fn asked_by(&self, caller: &Caller) -> Asking {
        Asking { turns: self.clone(), whose: whose(caller) }
    }

    /// Runs work on a thread for blocking work when it is the caller's turn.
    pub async fn work<T: Send + 'static>(
        &self,
        caller: &Caller,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.asked_by(caller).work(work).await
    }

    async fn take(&self, whose: &str) -> Result<Turn, Failure> {
        let busy = || Failure::new(ErrorCode::ServerTooManyRequests);
        let mut turn = {
            let mut state = self.state.lock();
            if state.free > 0 && state.may_have_another(whose) {
                return Ok(state.give(&self.state, whose));
            }
            state.line.join(&whose.to_owned(), "", WAITING).ok_or_else(busy)?
        };
        match tokio::time::timeout(self.patience, &mut turn).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(busy()),
        }
    }
}

impl Asking {
    /// Waits for the caller's turn.
    pub async fn turn(&self) -> Result<Turn, Failure> {
        self.turns.take(&self.whose).await
    }

    /// Runs work on a thread for blocking work when it is the caller's turn.
    pub async fn work<T: Send + 'static>(
        self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let turn = self.turn().await?;
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        let fault = |error| Failure::unhandled(format!("the work ended in a fault: {error}"));
        done.await.unwrap_or_else(|error| Err(fault(error)))
    }
}

impl State {
    fn may_have_another(&self, whose: &str) -> bool {
        self.held.get(whose).copied().unwrap_or_default() < self.most
    }

    /// Takes out the request whose turn is next, and its caller.
    fn next(&mut self) -> Option<(String, oneshot::Sender<Turn>)> {
        let Self { line, held, most, .. } = self;
        line.next(|whose| held.get(whose).copied().unwrap_or_default() < *most)
    }

    /// Gives a free turn to a caller.
    fn give(&mut self, turns: &Arc<Mutex<Self>>, whose: &str) -> Turn {
        self.free = self.free.saturating_sub(1);
        *self.held.entry(whose.to_owned()).or_default() += 1;
        Turn { state: Some(Arc::clone(turns)), whose: whose.to_owned() }
    }

    /// Takes a turn back from a caller.
    fn take_back(&mut self, whose: &str) {
        self.free += 1;
        if let Some(held) = self.held.get_mut(whose) {
            *held = held.saturating_sub(1);
            if *held == 0 {
                self.held.remove(whose);
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(turns) = self.state.take() else { return };
        let mut state = turns.lock();
        state.take_back(&self.whose);
        while let Some((whose, next)) = state.next() {
            let turn = state.give(&turns, &whose);
            match next.send(turn) {
                Ok(()) => return,
                // The request was given up. The state is locked here, so that the turn must not pass itself on.
                Err(mut turn) => {
                    turn.state = None;
                    state.take_back(&whose);
                }
            }
        }
    }
}

/// The caller that a request counts for.
fn whose(caller: &Caller) -> String {
    match (caller.identity(), caller.origin.remote, &caller.origin.via) {
        (Some(identity), ..) => identity.to_owned(),
        (None, Some(remote), _) => source_of(remote.ip()).to_string(),
        (None, None, Via::Router { id, .. }) => format!("router {id}"),
        (None, None, _) => caller.author().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_caller_has_his_turn_however_much_another_asks_for() {
        let turns = Turns::new(1, PATIENCE);
        let first = turns.take("greedy").await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut all = Vec::new();
        for who in ["greedy", "greedy", "greedy", "modest", "greedy"] {
            let (turns, order) = (turns.clone(), Arc::clone(&order));
            let mut waits = Box::pin(async move {
                let turn = turns.take(who).await.unwrap();
                order.lock().push(who);
                drop(turn);
            });
            assert!(futures::poll!(&mut waits).is_pending());
            all.push(waits);
        }
        // One request is given up, which must not hold up the others.
        drop(all.remove(0));
        drop(first);
        futures::future::join_all(all).await;
        assert_eq!(*order.lock(), ["greedy", "modest", "greedy", "greedy"]);
        let state = turns.state.lock();
        assert!(state.free == 1 && state.line.is_empty());
    }

    #[tokio::test]
    async fn no_caller_has_all_turns() {
        let turns = Turns::new(3, PATIENCE);
        let [first, second] =
            [turns.take("greedy").await.unwrap(), turns.take("greedy").await.unwrap()];
        let mut third = Box::pin(turns.take("greedy"));
        assert!(futures::poll!(&mut third).is_pending());
        // The turn that is left goes from one other caller to the next, before the greedy one.
        for other in ["one", "other"] {
            let turn = turns.take(other).await.unwrap();
            assert!(futures::poll!(Box::pin(turns.take("third"))).is_pending());
            drop(turn);
            assert!(futures::poll!(&mut third).is_pending());
        }
        drop(first);
        drop(third.await.unwrap());
        drop(second);
        let state = turns.state.lock();
        assert!(state.free == 3 && state.held.is_empty() && state.line.is_empty());
    }

    #[test]
    fn routers_are_callers_of_their_own() {
        let [one, other] = ["r1", "r2"].map(|id| whose(&Caller::router(&id.into(), "renew")));
        assert_ne!(one, other);
        assert_ne!(one, whose(&Caller::system()));
    }

    #[tokio::test]
    async fn no_caller_has_any_number_waiting() {
        let turns = Turns::new(1, PATIENCE);
        let _first = turns.take("greedy").await.unwrap();
        let mut waiting = Vec::new();
        for _ in 0..WAITING {
            let mut waits = Box::pin(turns.take("greedy"));
            assert!(futures::poll!(&mut waits).is_pending());
            waiting.push(waits);
        }
        let refused = turns.take("greedy").await.unwrap_err();
        assert_eq!(refused.status(), 429);
        assert!(futures::poll!(Box::pin(turns.take("modest"))).is_pending());
        waiting.pop();
        assert!(futures::poll!(Box::pin(turns.take("greedy"))).is_pending());
    }
}
