//! Threads for the tasks that move bytes, and which task runs on which of them.
//!
//! A payload goes from the task of one connection to the task of another. On one thread that costs a push and a pop of
//! a queue; between threads it costs a wake-up of the other one, which takes longer than the payload's encryption. The
//! tasks are therefore kept together on as few threads as carry the load, and spread when one thread is not enough:
//!
//! ```text
//! new task -> first thread that is not half busy, else the least busy one
//! once a second: a thread is busy, another is not, and the machine has a processor to spare
//!                  -> some connections move to the other thread
//!                all threads together have little to do for a while -> all connections move to the first
//! ```
//!
//! A connection moves between two turns of its task and takes its socket along; nothing of its order is lost. The
//! decisions are [`plan`]'s, which knows no clock and no thread.

mod machine;
mod plan;

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::runtime::{self, Handle};
use tokio::time::Instant;

use self::machine::Machine;
use self::plan::{Carried, Planner};

/// The time between two decisions.
const WINDOW: Duration = Duration::from_secs(1);
/// A thread that is busy for less than this part of the time, in thousandths, gets new tasks.
const HALF: u32 = 500;

/// Threads for the tasks of connections. Clones share them.
#[derive(Clone)]
pub struct Threads(Arc<Inner>);

struct Inner {
    threads: Vec<Thread>,
    berths: Mutex<Vec<Weak<BerthState>>>,
    /// The number of moves of connections.
    moves: AtomicU64,
}

/// A thread with a runtime of its own.
struct Thread {
    runtime: Handle,
    /// The part of the last window in which it was busy, in thousandths.
    load: AtomicU32,
}

/// The state of a berth, as far as others see it.
#[derive(Debug)]
struct BerthState {
    /// The thread on which the task is to run.
    thread: AtomicUsize,
    /// Bytes since the last window.
    bytes: AtomicU64,
}

impl Threads {
    /// The threads of these runtimes, of which each should have one.
    ///
    /// With more than one, connections are moved between them by a task that ends with the last clone.
    #[must_use]
    pub fn new(runtimes: Vec<Handle>) -> Self {
        let thread = |runtime| Thread { runtime, load: AtomicU32::new(0) };
        let threads: Vec<_> = runtimes.into_iter().map(thread).collect();
        let inner = Arc::new(Inner { threads, berths: Mutex::default(), moves: AtomicU64::new(0) });
        if let [first, _, ..] = inner.threads.as_slice() {
            first.runtime.spawn(watch(Arc::downgrade(&inner)));
        }
        Self(inner)
    }

    /// The one runtime of a program that has no threads for connections alone.
    #[must_use]
    pub fn of(runtime: Handle) -> Self {
        Self::new(vec![runtime])
    }

    /// The runtime for a task that is not bound to a connection.
    #[must_use]
    pub fn pick(&self) -> Handle {
        self.0.threads.get(self.0.choose()).map_or_else(Handle::current, |one| one.runtime.clone())
    }

    /// The runtime for a task that must not end before the others.
    #[must_use]
    pub fn first(&self) -> Handle {
        self.0.threads.first().map_or_else(Handle::current, |one| one.runtime.clone())
    }

    /// The runtimes of all threads.
    #[must_use]
    pub fn all(&self) -> Vec<Handle> {
        self.0.threads.iter().map(|one| one.runtime.clone()).collect()
    }

    /// Takes a socket to the runtime that new tasks get. The caller runs its task there.
    ///
    /// # Errors
    /// When the system refuses; the socket is closed.
    pub fn bring(&self, socket: TcpStream) -> std::io::Result<(TcpStream, Handle)> {
        let runtime = self.pick();
        let socket = socket.into_std()?;
        let _entered = runtime.enter();
        Ok((TcpStream::from_std(socket)?, runtime))
    }

    /// A berth for a connection that can move.
    pub(crate) fn berth(&self) -> Berth {
        let at = self.0.choose();
        let state = Arc::new(BerthState { thread: AtomicUsize::new(at), bytes: AtomicU64::new(0) });
        if self.0.threads.len() > 1 {
            self.0.berths.lock().push(Arc::downgrade(&state));
        }
        Berth { threads: self.clone(), state, at }
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Threads").field(&self.0.threads.len()).finish()
    }
}

impl Inner {
    /// The first thread that is not half busy, else the least busy one.
    fn choose(&self) -> usize {
        let load = |thread: &Thread| thread.load.load(Ordering::Relaxed);
        let first = self.threads.iter().position(|thread| load(thread) < HALF);
        let least = || {
            let loads = self.threads.iter().map(load).enumerate();
            loads.min_by_key(|(_, load)| *load).map_or(0, |(at, _)| at)
        };
        first.unwrap_or_else(least)
    }

    /// Measures a window and moves connections.
    fn decide(&self, meter: &mut Meter, planner: &mut Planner) {
        let Some(loads) = meter.loads(&self.threads) else { return };
        for (thread, load) in self.threads.iter().zip(&loads) {
            thread.load.store((load * 1000.0) as u32, Ordering::Relaxed);
        }
        let mut berths = self.berths.lock();
        berths.retain(|berth| berth.strong_count() > 0);
        let states: Vec<_> = berths.iter().filter_map(Weak::upgrade).collect();
        drop(berths);
        let carried = |state: &Arc<BerthState>| Carried {
            thread: state.thread.load(Ordering::Relaxed),
            bytes: state.bytes.swap(0, Ordering::Relaxed),
        };
        let window: Vec<_> = states.iter().map(carried).collect();
        for (index, to) in planner.window(&loads, &window, || meter.machine.spare()) {
            if let Some(state) = states.get(index) {
                state.thread.store(to, Ordering::Relaxed);
            }
        }
    }
}

/// Decides once in each window, until the threads are dropped.
async fn watch(threads: Weak<Inner>) {
    let (mut meter, mut planner) = (Meter::default(), Planner::default());
    loop {
        tokio::time::sleep(WINDOW).await;
        let Some(threads) = threads.upgrade() else { return };
        threads.decide(&mut meter, &mut planner);
    }
}

/// Measures how busy threads are.
#[derive(Default)]
struct Meter {
    since: Option<(Instant, Vec<Duration>)>,
    machine: Machine,
}

impl Meter {
    /// The part of the time since the last call in which each thread was busy; `None` at the first call.
    fn loads(&mut self, threads: &[Thread]) -> Option<Vec<f64>> {
        let busy = |thread: &Thread| busy(&thread.runtime);
        let (now, totals) = (Instant::now(), threads.iter().map(busy).collect::<Vec<_>>());
        let (then, before) = self.since.replace((now, totals.clone()))?;
        let window = now.duration_since(then).as_secs_f64().max(0.001);
        let part = |(now, then): (&Duration, &Duration)| {
            (now.saturating_sub(*then).as_secs_f64() / window).min(1.0)
        };
        Some(totals.iter().zip(&before).map(part).collect())
    }
}

/// The time in which the threads of a runtime had work.
fn busy(runtime: &runtime::Handle) -> Duration {
    let metrics = runtime.metrics();
    (0..metrics.num_workers()).map(|worker| metrics.worker_total_busy_duration(worker)).sum()
}

/// The berth of a connection: the thread that it runs on, until it is moved to another one.
#[derive(Debug)]
pub(crate) struct Berth {
    threads: Threads,
    state: Arc<BerthState>,
    /// The thread on which the task runs.
    at: usize,
}

impl Berth {
    /// The runtime on which the task begins.
    pub(crate) fn runtime(&self) -> Handle {
        self.threads.0.threads.get(self.at).map_or_else(Handle::current, |one| one.runtime.clone())
    }

    /// Notes bytes that the connection has read or written.
    pub(crate) fn carried(&self, bytes: usize) {
        if bytes > 0 {
            self.state.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// The runtime to which the task is to move; `None` if it stays. Says so once.
    pub(crate) fn moves(&mut self) -> Option<Handle> {
        let to = self.state.thread.load(Ordering::Relaxed);
        if to == self.at {
            return None;
        }
        self.at = to;
        self.threads.0.moves.fetch_add(1, Ordering::Relaxed);
        Some(self.runtime())
    }
}

#[cfg(test)]
mod tests;
