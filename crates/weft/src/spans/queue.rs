//! A bounded queue of spans for the collector.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use opentelemetry::Context;
use opentelemetry_otlp::SpanExporter as Otlp;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor};
use parking_lot::Mutex;

/// Most spans in the queue.
pub(super) const MOST: usize = 4096;
/// Shortest time between two log records about lost spans.
const SAID: Duration = Duration::from_secs(600);

/// Counts of spans: in the queue, exported, lost.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: AtomicUsize,
    lost: AtomicU64,
    /// Time of the last log record about lost spans.
    said: Mutex<Option<Instant>>,
    /// The last problem, as the HTTP client reported it.
    problem: Mutex<Option<String>>,
}

impl Queue {
    /// Takes a place in the queue; false if it is full.
    fn enter(&self) -> bool {
        let one_more = |waiting: usize| (waiting < MOST).then_some(waiting + 1);
        let entered = self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        if entered.is_err() {
            self.lose(1, || format!("{MOST} wait already, and the collector is slow or away"));
        }
        entered.is_ok()
    }

    /// Notes that this many spans were exported, or failed to be.
    fn exported(&self, count: usize, result: &OTelSdkResult) {
        self.waiting.fetch_sub(count, Ordering::Relaxed);
        let problem = self.problem.lock().take();
        if let Err(error) = result {
            self.lose(count, || problem.unwrap_or_else(|| error.to_string()));
        }
    }

    /// Notes the HTTP client's problem.
    pub(super) fn note(&self, problem: String) {
        *self.problem.lock() = Some(problem);
    }

    fn lose(&self, count: usize, why: impl FnOnce() -> String) {
        let lost = self.lost.fetch_add(count as u64, Ordering::Relaxed) + count as u64;
        let mut said = self.said.lock();
        if said.is_none_or(|said| said.elapsed() >= SAID) {
            *said = Some(Instant::now());
            drop(said);
            tracing::warn!(lost, "spans are lost: {}; dials do not wait for them", why());
        }
    }

    /// Ends the counts and logs lost spans.
    pub(super) fn end(&self) {
        let left = self.waiting.load(Ordering::Relaxed) as u64;
        let lost = self.lost.load(Ordering::Relaxed) + left;
        if lost > 0 {
            tracing::warn!(lost, "spans did not reach the collector");
        }
    }
}

/// A processor that bounds the queue.
#[derive(Debug)]
pub(super) struct Bounded {
    inner: BatchSpanProcessor,
    queue: Arc<Queue>,
}

impl Bounded {
    pub(super) fn new(inner: BatchSpanProcessor, queue: Arc<Queue>) -> Self {
        Self { inner, queue }
    }
}

impl SpanProcessor for Bounded {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.inner.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if self.queue.enter() {
            self.inner.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// An exporter that reports results to the queue.
#[derive(Debug)]
pub(super) struct Watched {
    inner: Otlp,
    queue: Arc<Queue>,
}

impl Watched {
    pub(super) fn new(inner: Otlp, queue: Arc<Queue>) -> Self {
        Self { inner, queue }
    }
}

impl SpanExporter for Watched {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        let result = self.inner.export(batch).await;
        self.queue.exported(count, &result);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_sdk::error::OTelSdkError;

    use super::*;

    #[test]
    fn what_has_no_room_is_lost_and_counted() {
        let queue = Queue::default();
        assert!((0..MOST).all(|_| queue.enter()));
        assert!(!queue.enter() && !queue.enter());
        assert_eq!(queue.lost.load(Ordering::Relaxed), 2);
        queue.exported(1, &Ok(()));
        assert!(queue.enter() && !queue.enter());
        queue.note("nobody is there".to_owned());
        queue.exported(MOST, &Err(OTelSdkError::AlreadyShutdown));
        assert_eq!(queue.lost.load(Ordering::Relaxed), 3 + MOST as u64);
        assert_eq!(queue.waiting.load(Ordering::Relaxed), 0);
        assert!(queue.problem.lock().is_none());
    }
}
