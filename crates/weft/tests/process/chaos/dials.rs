//! Dials, one after the other, for as long as parts break: how many failed, and for how long at most none succeeded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;
use weft_sdk::Endpoint;

use crate::streams::round_trip;
use crate::wait::until;

/// The longest time that a dial may take.
const MOST: Duration = Duration::from_secs(20);
/// The pause between two dials.
const PAUSE: Duration = Duration::from_millis(100);

/// What came of the dials so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) count: usize,
    pub(super) failed: usize,
    succeeded: usize,
    /// Since when no dial has succeeded, and why the last one failed.
    since: Option<Instant>,
    last: String,
    /// The longest time from the beginning of a dial after a success to the next success.
    pub(super) longest: Duration,
    /// When that time ended, and the last error in it.
    at: Option<Instant>,
    error: String,
}

impl Outcome {
    /// A dial begins. If the last one has succeeded, the time without a success begins, too.
    fn begins(&mut self) {
        self.since.get_or_insert_with(Instant::now);
        self.count += 1;
    }

    fn ended(&mut self, done: Result<(), String>) {
        match done {
            Ok(()) => {
                self.note();
                (self.since, self.last) = (None, String::new());
                self.succeeded += 1;
            }
            Err(error) => (self.failed, self.last) = (self.failed + 1, error),
        }
    }

    /// Takes note of the time without a success until now.
    fn note(&mut self) {
        let time = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        if time > self.longest {
            (self.longest, self.at) = (time, Some(Instant::now()));
            self.error.clone_from(&self.last);
        }
    }

    /// The longest time, with when it ended after `begun`.
    pub(super) fn text(&self, begun: Instant) -> String {
        let at = self.at.map_or(Duration::ZERO, |at| at.saturating_duration_since(begun));
        format!(
            "{} dials, {} failed; no dial succeeded for {:.1?} at most, until {:.1?} ({})",
            self.count, self.failed, self.longest, at, self.error
        )
    }
}

/// Dials until it is dropped.
pub(super) struct Dials {
    outcome: Arc<Mutex<Outcome>>,
    _task: AbortOnDropHandle<()>,
}

impl Dials {
    pub(super) fn start(endpoint: Endpoint, service: &'static str, begun: Instant) -> Self {
        let outcome: Arc<Mutex<Outcome>> = Arc::default();
        let noting = Arc::clone(&outcome);
        let task = tokio::spawn(async move {
            loop {
                noting.lock().begins();
                let done = tokio::time::timeout(MOST, dial(&endpoint, service)).await;
                let done = done.unwrap_or_else(|_| Err("it takes too long".to_owned()));
                if let Err(error) = &done {
                    println!("{:8.3} s  a dial fails: {error}", begun.elapsed().as_secs_f64());
                }
                noting.lock().ended(done);
                tokio::time::sleep(PAUSE).await;
            }
        });
        Self { outcome, _task: AbortOnDropHandle::new(task) }
    }

    /// What came of the dials, after one more has succeeded.
    pub(super) async fn outcome(&self, limit: Duration) -> Outcome {
        let before = self.outcome.lock().succeeded;
        let look = async || match self.outcome.lock().succeeded {
            now if now > before => Ok(()),
            now => Err(now),
        };
        until("a dial succeeds", limit, look).await;
        self.outcome.lock().clone()
    }
}

async fn dial(endpoint: &Endpoint, service: &str) -> Result<(), String> {
    let mut stream = endpoint.dial(service).await.map_err(|error| weft_sdk::chain(&error))?;
    round_trip(&mut stream, "hello").await.map_err(|error| error.to_string())
}
