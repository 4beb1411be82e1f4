//! What happened in a run, with the times.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The events of a run. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    start: Instant,
    events: Arc<Mutex<Vec<(u128, String)>>>,
}

impl Journal {
    /// No events; the run begins now.
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), events: Arc::default() }
    }

    pub(crate) fn start(&self) -> Instant {
        self.start
    }

    pub(crate) fn note(&self, event: impl Into<String>) {
        let (at, event) = (self.start.elapsed().as_millis(), event.into());
        tracing::info!(at, "{event}");
        self.events.lock().push((at, event));
    }

    /// The events so far, with the milliseconds from the start.
    pub(crate) fn events(&self) -> Vec<(u128, String)> {
        self.events.lock().clone()
    }
}
