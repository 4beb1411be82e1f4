//! Deadlines of many ends in one task.
//!
//! An end has one armed deadline that counts, and one that it overtook (see `weft_xgress::Alarm`). When the time
//! comes, it checks whether anything is due and arms the next deadline. A deadline that moves with every ack
//! therefore costs nothing, and an idle circuit causes no wake-up. A deadline that moves before the armed one is
//! armed in addition; the one that it overtook fires without effect.
//!
//! The clock keeps the earliest deadlines of each end, a few; the others fire for nothing, and are dropped.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Weak},
    time::Instant,
};

use futures::StreamExt as _;
use parking_lot::Mutex;
use tokio::{runtime, sync::mpsc};
use tokio_util::time::{DelayQueue, delay_queue::Key};

use crate::clock::now;

/// Most deadlines of one end. Two are enough if they are armed in order; threads that hold one up may
/// arm it after it was overtaken.
const MOST: usize = 8;

/// An end that waits for a time.
pub trait Timed: Send + Sync + 'static {
    /// Called when the deadline armed for `at` has come; the time is `now`.
    fn on_timer(&self, at: Instant, now: Instant);
}

/// The clock that ends arm. Clones share it.
pub struct Timers<T>(Arm<T>);

enum Arm<T> {
    Clock {
        /// Deadlines on their way to the task.
        new: New<T>,
        /// Wakes the task; one token is enough.
        wake: mpsc::Sender<()>,
    },
    Observed(mpsc::UnboundedSender<(Instant, Weak<T>)>),
}

type New<T> = Arc<Mutex<Deadlines<Weak<T>>>>;

/// The earliest deadlines of each end, at most [`MOST`], with a value for each.
struct Deadlines<V>(HashMap<usize, Vec<(Instant, V)>>);

impl<V> Default for Deadlines<V> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<V> Deadlines<V> {
    /// Adds a deadline of an end. Returns the value of a deadline that is not needed: it found no room,
    /// or there is one for the same time.
    fn add(&mut self, end: usize, at: Instant, value: V) -> Option<V> {
        let known = self.0.entry(end).or_default();
        match known.binary_search_by_key(&at, |(at, _)| *at) {
            Ok(_) => return Some(value),
            Err(place) => known.insert(place, (at, value)),
        }
        if known.len() > MOST { known.pop().map(|(_, value)| value) } else { None }
    }

    /// Removes the deadline of an end that has come.
    fn remove(&mut self, end: usize, at: Instant) {
        let Some(known) = self.0.get_mut(&end) else { return };
        if let Ok(place) = known.binary_search_by_key(&at, |(at, _)| *at) {
            known.remove(place);
        }
        if known.is_empty() {
            self.0.remove(&end);
        }
    }
}

/// What tells an end from all others as long as somebody refers to it.
fn number<T>(end: &Weak<T>) -> usize {
    end.as_ptr().addr()
}

/// The deadlines that the task waits for.
struct Queue<T> {
    due: DelayQueue<(Instant, Weak<T>)>,
    known: Deadlines<Key>,
}

impl<T: Timed> Queue<T> {
    fn take(&mut self, new: Deadlines<Weak<T>>) {
        for (end, deadlines) in new.0 {
            for (at, waiting) in deadlines {
                let key = self.due.insert_at((at, waiting), at.into());
                if let Some(unneeded) = self.known.add(end, at, key) {
                    self.due.try_remove(&unneeded);
                }
            }
        }
    }

    fn fire(&mut self, at: Instant, waiting: &Weak<T>) {
        self.known.remove(number(waiting), at);
        if let Some(waiting) = waiting.upgrade() {
            waiting.on_timer(at, now());
        }
    }
}

impl<T: Timed> Timers<T> {
    /// Starts the clock's task on `runtime`; it ends with the last clone.
    #[must_use]
    pub fn start(runtime: &runtime::Handle) -> Self {
        let (wake, mut woken) = mpsc::channel(1);
        let new = New::default();
        let armed = Arc::clone(&new);
        runtime.spawn(async move {
            let mut queue = Queue { due: DelayQueue::new(), known: Deadlines::default() };
            loop {
                tokio::select! {
                    token = woken.recv() => match token {
                        Some(()) => {
                            let new = std::mem::take(&mut *armed.lock());
                            queue.take(new);
                        }
                        None => return,
                    },
                    Some(due) = queue.due.next(), if !queue.due.is_empty() => {
                        let (at, waiting) = due.into_inner();
                        queue.fire(at, &waiting);
                    }
                }
            }
        });
        Self(Arm::Clock { new, wake })
    }

    /// A clock that only hands out the armed deadlines, for tests that move time themselves.
    #[must_use]
    pub fn observed() -> (Self, mpsc::UnboundedReceiver<(Instant, Weak<T>)>) {
        let (arm, armed) = mpsc::unbounded_channel();
        (Self(Arm::Observed(arm)), armed)
    }

    /// Has `waiting` called at this time.
    pub fn arm(&self, at: Instant, waiting: Weak<T>) {
        match &self.0 {
            Arm::Clock { new, wake } => {
                new.lock().add(number(&waiting), at, waiting);
                // A task with a token has not looked yet; one that is gone waits for nothing.
                let _ = wake.try_send(());
            }
            Arm::Observed(arm) => {
                let _ = arm.send((at, waiting));
            }
        }
    }
}

impl<T> Clone for Timers<T> {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Arm::Clock { new, wake } => Arm::Clock { new: Arc::clone(new), wake: wake.clone() },
            Arm::Observed(arm) => Arm::Observed(arm.clone()),
        })
    }
}

impl<T> fmt::Debug for Timers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// An end that notes its deadlines as they come.
    #[derive(Default)]
    struct Noting(Mutex<Vec<Instant>>);

    impl Timed for Noting {
        fn on_timer(&self, at: Instant, now: Instant) {
            assert!(now >= at);
            self.0.lock().push(at);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_deadlines_of_an_end_come_and_no_more_are_kept() {
        let timers = Timers::start(&runtime::Handle::current());
        let (end, other) = (Arc::<Noting>::default(), Arc::<Noting>::default());
        let start = now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        // Each overtakes the one before it; some reach the task together, some one by one.
        for seconds in (1..=100).rev() {
            timers.arm(at(seconds), Arc::downgrade(&end));
            timers.arm(at(seconds), Arc::downgrade(&end));
            if seconds % 3 == 0 {
                tokio::task::yield_now().await;
            }
        }
        timers.arm(at(50), Arc::downgrade(&other));
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert_eq!(*end.0.lock(), (1..=MOST as u64).map(at).collect::<Vec<_>>());
        assert_eq!(*other.0.lock(), [at(50)]);
        // What has come makes room.
        timers.arm(at(300), Arc::downgrade(&end));
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert_eq!(end.0.lock().last(), Some(&at(300)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_task_ends_with_the_last_clone_and_forgets_ends_that_are_gone() {
        let timers = Timers::start(&runtime::Handle::current());
        let end = Arc::<Noting>::default();
        timers.arm(now() + Duration::from_secs(3), Arc::downgrade(&end));
        let gone = Arc::downgrade(&end);
        drop(end);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!((gone.strong_count(), gone.weak_count()), (0, 0));
        drop(timers);
        let tasks = runtime::Handle::current().metrics();
        while tasks.num_alive_tasks() > 0 {
            tokio::task::yield_now().await;
        }
    }
}
