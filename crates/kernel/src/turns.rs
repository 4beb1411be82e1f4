//! Fair turns for work that keeps a processor busy: a limited number at a time, and waiting callers
//! take turns, however much each of them asks for.

use std::collections::{HashMap, VecDeque};
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
    /// Waiting requests by caller; callers without one are not in the map.
    waiting: HashMap<String, VecDeque<oneshot::Sender<Turn>>>,
    /// The waiting callers, in the order of their next turns.
    order: VecDeque<String>,
}

/// The turns for one caller.
#[derive(Debug)]
pub struct Asking {
    turns: Turns,
    whose: String,
}

/// A turn; dropping it passes it to the next caller.
#[derive(Debug)]
pub struct Turn(Option<Arc<Mutex<State>>>);

impl Turns {
    /// `count` turns for each processor.
    pub(crate) fn per_processor(count: usize) -> Self {
        let processors = available_parallelism().map_or(1, NonZero::get);
        Self::new(processors * count, PATIENCE)
    }

    /// This many turns; a request that has waited for longer than `patience` is refused with 429.
    pub fn new(at_once: usize, patience: Duration) -> Self {
        let state = State { free: at_once, waiting: HashMap::new(), order: VecDeque::new() };
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
            if state.free > 0 {
                state.free -= 1;
                return Ok(Turn(Some(Arc::clone(&self.state))));
            }
            let is_first = !state.waiting.contains_key(whose);
            let own = state.waiting.entry(whose.to_owned()).or_default();
            // Requests that were given up hold no place.
            own.retain(|waiting| !waiting.is_closed());
            if own.len() >= WAITING {
                return Err(busy());
            }
            let (sender, turn) = oneshot::channel();
            own.push_back(sender);
            if is_first {
                state.order.push_back(whose.to_owned());
            }
            turn
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
    /// Takes out the request whose turn is next.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        let whose = self.order.pop_front()?;
        let own = self.waiting.get_mut(&whose)?;
        // Requests that were given up are skipped.
        while own.pop_front_if(|waiting| waiting.is_closed()).is_some() {}
        let next = own.pop_front();
        if own.is_empty() {
            self.waiting.remove(&whose);
        } else {
            self.order.push_back(whose);
        }
        next
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(turns) = self.0.take() else { return };
        let mut state = turns.lock();
        while !state.order.is_empty() {
            let Some(next) = state.next() else { continue };
            match next.send(Turn(Some(Arc::clone(&turns)))) {
                Ok(()) => return,
                // The request was given up. The turn is still held here, and must not be freed
                // twice.
                Err(mut turn) => turn.0 = None,
            }
        }
        state.free += 1;
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
        assert!(state.free == 1 && state.waiting.is_empty() && state.order.is_empty());
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
