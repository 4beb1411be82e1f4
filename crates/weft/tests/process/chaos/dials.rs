//! Dials, one after the other, for as long as parts break: how many failed, and for how long at most none succeeded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;
use weft_sdk::Endpoint;

use crate::streams::round_trip;

/// The pause between two dials.
const PAUSE: Duration = Duration::from_millis(100);

/// What came of the dials so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) count: usize,
    pub(super) failed: usize,
    /// The longest time in which no dial succeeded, from the beginning of the first one that failed, or was slow, to the end of
    /// the next one that did.
    pub(super) longest: Duration,
    /// When that time ended, and the last error in it.
    at: Option<Instant>,
    error: String,
}

impl Outcome {
    /// A dial has succeeded; the first one that did not, or this one, began then.
    fn succeeded(&mut self, since: Instant, error: String) {
        if since.elapsed() > self.longest {
            (self.longest, self.at, self.error) = (since.elapsed(), Some(Instant::now()), error);
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
            let (mut since, mut last) = (Instant::now(), String::new());
            loop {
                let done = dial(&endpoint, service).await;
                noting.lock().count += 1;
                match done {
                    Ok(()) => noting.lock().succeeded(since, std::mem::take(&mut last)),
                    Err(error) => {
                        println!("{:8.3} s  a dial fails: {error}", begun.elapsed().as_secs_f64());
                        noting.lock().failed += 1;
                        last = error;
                    }
                }
                tokio::time::sleep(PAUSE).await;
                if last.is_empty() {
                    since = Instant::now();
                }
            }
        });
        Self { outcome, _task: AbortOnDropHandle::new(task) }
    }

    pub(super) fn outcome(&self) -> Outcome {
        self.outcome.lock().clone()
    }
}

async fn dial(endpoint: &Endpoint, service: &str) -> Result<(), String> {
    let mut stream = endpoint.dial(service).await.map_err(|error| weft_sdk::chain(&error))?;
    round_trip(&mut stream, "hello").await.map_err(|error| error.to_string())
}
