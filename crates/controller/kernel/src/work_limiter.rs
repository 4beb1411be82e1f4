//! Permits for work that keeps a processor busy: a limited number at a time, which waiting callers get
//! in turn, however much each of them asks for. One caller never has all permits: others need not
//! wait for the end of its work.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use weft_contract::ErrorCode;
use weft_limits::{FairSemaphore, Permit, Quota, source_of};
use weft_model::{Ended, Meter};

use crate::caller::{Caller, Via};
use crate::failure::{Failure, Result};
use crate::wait::Wait;

/// Most waiting requests of one caller.
const WAITING: usize = 256;
/// Longest wait for a permit per processor; after it the request is refused with 429.
const PATIENCE: Duration = Duration::from_secs(10);

/// Units of work ([`Meter`]) of one request: some 5 s of one processor, in which a list looks at more entities than
/// there are, in any order, with a filter of some tests.
pub const BUDGET: u64 = 1 << 28;
/// Units of work that a request does on a task that serves others, too: some 0.3 ms.
const INLINE: u64 = 1 << 14;

/// Limits the work that is done at once. Clones share the limit.
#[derive(Debug, Clone)]
pub struct WorkLimiter {
    callers: Arc<FairSemaphore<String>>,
    /// Whether the controller stops.
    is_closed: Arc<AtomicBool>,
    /// Longest wait for a permit; after it the request is refused with 429.
    patience: Duration,
}

/// A request of a caller, for which work is to be done.
#[derive(Debug, Clone)]
pub struct WorkRequest {
    limiter: WorkLimiter,
    whose: String,
    wait: Wait,
    /// The deadline of the request, if it has one of its own.
    until: Option<Instant>,
}

/// A permit; dropping it passes it to the next caller.
pub type WorkPermit = Permit<String>;

impl WorkLimiter {
    /// `count` permits for each processor.
    pub(crate) fn per_processor(count: usize) -> Self {
        let processors = available_parallelism().map_or(1, NonZero::get);
        Self::new(processors * count, PATIENCE)
    }

    /// This many permits, of which one caller has all but one at a time; a request that has waited for
    /// longer than `patience` is refused with 429.
    pub fn new(at_once: usize, patience: Duration) -> Self {
        let quota = Quota::new(at_once, at_once.saturating_sub(1).max(1));
        let callers = FairSemaphore::with_queue(quota, usize::MAX, WAITING);
        Self { callers, is_closed: Arc::default(), patience }
    }

    /// A request of this caller.
    pub fn asked_by(&self, caller: &Caller) -> WorkRequest {
        let wait = caller.origin.wait.clone();
        WorkRequest { limiter: self.clone(), whose: whose(caller), wait, until: None }
    }

    /// Ends the work that is being done, as far as it is counted, and refuses what waits for a permit: the controller
    /// stops.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.callers.close();
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Runs work on a thread for blocking work when the caller has a permit.
    pub async fn work<T: Send + 'static>(
        &self,
        caller: &Caller,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.asked_by(caller).work(work).await
    }

    async fn take(&self, whose: &str) -> Result<WorkPermit> {
        let permit = self.callers.acquire(whose.to_owned());
        match tokio::time::timeout(self.patience, permit).await {
            Ok(Some(permit)) => Ok(permit),
            Ok(None) if self.is_closed() => Err(Failure::stopping()),
            _ => Err(Failure::new(ErrorCode::ServerTooManyRequests)),
        }
    }
}

impl WorkRequest {
    /// Waits for a permit.
    pub async fn permit(&self) -> Result<WorkPermit> {
        self.limiter.take(&self.whose).await
    }

    /// The request with a deadline of its own.
    #[must_use]
    pub fn until(self, until: Instant) -> Self {
        Self { until: Some(until), ..self }
    }

    /// A meter for work of this request. The work ends when its client does not wait any more, or when the
    /// controller stops.
    pub fn meter(&self, most: u64) -> Meter {
        let (limiter, wait, until) = (self.limiter.clone(), self.wait.clone(), self.until);
        let is_late = move || until.is_some_and(|until| Instant::now() >= until);
        Meter::asking(most, move || match (limiter.is_closed(), wait.is_over() || is_late()) {
            (true, _) => Some(Ended::Stopping),
            (false, true) => Some(Ended::GivenUp),
            (false, false) => None,
        })
    }

    /// Runs work that counts its units. Work with an effort of at most 16,384 units begins on this task. Other work,
    /// and what takes more than its effort said, waits for a permit and runs on a thread for blocking
    /// work, with the whole [`BUDGET`].
    pub async fn counted<T: Send + 'static>(
        self,
        effort: u64,
        work: impl Fn(&Meter) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if effort <= INLINE {
            let meter = self.meter(INLINE);
            let done = work(&meter);
            if !meter.is_exceeded() {
                return done;
            }
        }
        let meter = self.meter(BUDGET);
        self.work(move || work(&meter)).await
    }

    /// Runs work on a thread for blocking work when the caller has a permit.
    pub async fn work<T: Send + 'static>(
        self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let permit = self.permit().await?;
        let done = tokio::task::spawn_blocking(move || {
            let _turn = permit;
            work()
        });
        let fault = |error| Failure::unhandled(format!("the work ended in a fault: {error}"));
        done.await.unwrap_or_else(|error| Err(fault(error)))
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
    use parking_lot::Mutex;
    use weft_model::Part;

    use super::*;

    #[tokio::test]
    async fn each_caller_has_his_turn_however_much_another_asks_for() {
        let limiter = WorkLimiter::new(1, PATIENCE);
        let first = limiter.take("greedy").await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut all = Vec::new();
        for who in ["greedy", "greedy", "greedy", "modest", "greedy"] {
            let (limiter, order) = (limiter.clone(), Arc::clone(&order));
            let mut waits = Box::pin(async move {
                let permit = limiter.take(who).await.unwrap();
                order.lock().push(who);
                drop(permit);
            });
            assert!(futures::poll!(&mut waits).is_pending());
            all.push(waits);
        }
        // One request is given up, which must not hold up the others.
        drop(all.remove(0));
        drop(first);
        futures::future::join_all(all).await;
        assert_eq!(*order.lock(), ["greedy", "modest", "greedy", "greedy"]);
        assert_eq!((limiter.callers.used(), limiter.callers.waiting()), (0, 0));
    }

    #[tokio::test]
    async fn no_caller_has_all_turns() {
        let limiter = WorkLimiter::new(3, PATIENCE);
        let [first, second] =
            [limiter.take("greedy").await.unwrap(), limiter.take("greedy").await.unwrap()];
        let mut third = Box::pin(limiter.take("greedy"));
        assert!(futures::poll!(&mut third).is_pending());
        // The permit that is left goes from one other caller to the next, before the greedy one.
        for other in ["one", "other"] {
            let permit = limiter.take(other).await.unwrap();
            assert!(futures::poll!(Box::pin(limiter.take("third"))).is_pending());
            drop(permit);
            assert!(futures::poll!(&mut third).is_pending());
        }
        drop(first);
        drop(third.await.unwrap());
        drop(second);
        assert_eq!((limiter.callers.used(), limiter.callers.waiting()), (0, 0));
    }

    /// Work that spends so many units, on the thread that is told.
    fn spends(units: u64) -> impl Fn(&Meter) -> Result<std::thread::ThreadId> {
        move |meter| {
            meter.take(Part::Tests, units)?;
            Ok(std::thread::current().id())
        }
    }

    #[tokio::test]
    async fn work_beyond_a_small_part_leaves_the_task_and_has_a_budget() {
        let limiter = WorkLimiter::new(1, PATIENCE);
        let request = || limiter.asked_by(&Caller::system());
        let own = std::thread::current().id();
        let held = request().permit().await.unwrap();
        // Short work needs no permit.
        assert_eq!(request().counted(INLINE, spends(INLINE)).await.unwrap(), own);
        // What takes more than was estimated moves to another thread, and waits for a permit.
        let mut longer = Box::pin(request().counted(1, spends(INLINE + 1)));
        let mut long = Box::pin(request().counted(INLINE + 1, spends(1)));
        assert!(futures::poll!(&mut longer).is_pending() && futures::poll!(&mut long).is_pending());
        drop(held);
        let (longer, long) = futures::join!(longer, long);
        assert!(longer.unwrap() != own && long.unwrap() != own);
        let refused = request().counted(1, spends(BUDGET + 1)).await.unwrap_err();
        assert_eq!((refused.status(), refused.field_name()), (400, Some("filter")));
        let text = refused.to_string();
        let most =
            format!("more than {BUDGET} units of work, most of them for tests of the filter");
        assert!(text.contains(&most) && text.contains("use fewer conditions"), "{text}");
    }

    #[tokio::test]
    async fn work_ends_when_the_controller_stops() {
        let limiter = WorkLimiter::new(1, PATIENCE);
        let request = limiter.asked_by(&Caller::system());
        let (told, begun) = std::sync::mpsc::channel();
        let endless = request.clone().counted(u64::MAX, move |meter| {
            let _ = told.send(());
            while meter.spend(Part::Policies, 0) {
                // A step without units is no work, and this one ends, too.
                meter.spend(Part::Policies, 1);
            }
            meter.check().map_err(Failure::from)
        });
        let endless = tokio::spawn(endless);
        tokio::task::spawn_blocking(move || begun.recv()).await.unwrap().unwrap();
        let waiting = tokio::spawn(request.clone().work(|| Ok(())));
        tokio::task::yield_now().await;
        limiter.close();
        for refused in
            [endless.await.unwrap(), waiting.await.unwrap(), request.work(|| Ok(())).await]
        {
            let refused = refused.unwrap_err();
            assert_eq!((refused.status(), refused), (503, Failure::stopping()));
        }
    }

    #[test]
    fn routers_are_callers_of_their_own() {
        let [one, other] = ["r1", "r2"].map(|id| whose(&Caller::router(&id.into(), "renew")));
        assert_ne!(one, other);
        assert_ne!(one, whose(&Caller::system()));
    }

    #[tokio::test]
    async fn no_caller_has_any_number_waiting() {
        let limiter = WorkLimiter::new(1, PATIENCE);
        let _first = limiter.take("greedy").await.unwrap();
        let mut waiting = Vec::new();
        for _ in 0..WAITING {
            let mut waits = Box::pin(limiter.take("greedy"));
            assert!(futures::poll!(&mut waits).is_pending());
            waiting.push(waits);
        }
        let refused = limiter.take("greedy").await.unwrap_err();
        assert_eq!(refused.status(), 429);
        assert!(futures::poll!(Box::pin(limiter.take("modest"))).is_pending());
        waiting.pop();
        assert!(futures::poll!(Box::pin(limiter.take("greedy"))).is_pending());
    }
}
