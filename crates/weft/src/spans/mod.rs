//! Spans of dials for a collector that speaks OTLP (Jaeger, Tempo, the OpenTelemetry Collector), as
//! the environment variables of OpenTelemetry say.
//!
//! ```text
//!  router, controller, SDK -> Spans -> queue (bounded) -> a thread of its own -> collector (HTTP)
//! ```
//!
//! Nothing waits for the collector: what the queue has no room for is lost and counted, and a
//! program that ends gives it two seconds.

mod collector;
mod queue;
mod wanted;

use std::{env, sync::Arc, time::Duration};

use opentelemetry::KeyValue;
use opentelemetry_otlp::{WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::{
    Resource,
    trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider},
};
use weft_sdk::ContextBuilder;
use weft_spans::Spans;

use collector::Collector;
use queue::{Bounded, Queue, Watched};
use wanted::Wanted;

/// How long a program that ends waits for the collector.
const END: Duration = Duration::from_secs(2);

/// Spans on their way to a collector, or nothing.
pub(crate) struct Export(Option<Running>);

struct Running {
    provider: SdkTracerProvider,
    queue: Arc<Queue>,
}

impl Export {
    /// Nothing is exported.
    pub(crate) fn off() -> Self {
        Self(None)
    }

    /// Exports what the environment says, as this service unless it names another. What it says
    /// wrong is logged, and nothing is exported then: a network works without spans.
    pub(crate) fn start(service: &'static str) -> Self {
        let read = |name: &str| env::var(name).ok().filter(|value| !value.trim().is_empty());
        let started = wanted::read(&read)
            .and_then(|wanted| wanted.map(|wanted| Running::start(&wanted, service)).transpose());
        Self(started.unwrap_or_else(|problem| {
            tracing::warn!("spans are not exported: {problem}");
            None
        }))
    }

    /// Where a router or a controller puts its spans.
    pub(crate) fn spans(&self) -> Spans {
        match &self.0 {
            Some(running) => Spans::of(&running.provider, env!("CARGO_PKG_NAME")),
            None => Spans::off(),
        }
    }

    /// Has an SDK put its spans there.
    pub(crate) fn of_sdk(&self, builder: ContextBuilder) -> ContextBuilder {
        match &self.0 {
            Some(running) => builder.tracer_provider(&running.provider),
            None => builder,
        }
    }

    /// Exports what is left, as far as the collector takes it in time.
    pub(crate) async fn end(self) {
        let Some(Running { provider, queue }) = self.0 else { return };
        let ending = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(END));
        let _ = tokio::time::timeout(END, ending).await;
        queue.end();
    }
}

impl Running {
    fn start(wanted: &Wanted, service: &'static str) -> Result<Self, String> {
        let queue = Arc::new(Queue::default());
        let client = Collector::new(wanted, Arc::clone(&queue))?;
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_timeout(wanted.timeout)
            .with_http_client(client)
            .build()
            .map_err(|error| error.to_string())?;
        let config = BatchConfigBuilder::default().with_max_queue_size(queue::MOST).build();
        let batches = BatchSpanProcessor::builder(Watched::new(exporter, Arc::clone(&queue)))
            .with_batch_config(config)
            .build();
        // The sampler is read from the environment here.
        let provider = SdkTracerProvider::builder()
            .with_resource(resource(wanted, service))
            .with_span_processor(Bounded::new(batches, Arc::clone(&queue)))
            .build();
        tracing::info!(collector = wanted.shown, "spans of dials are exported");
        Ok(Self { provider, queue })
    }
}

/// Who tells the spans.
fn resource(wanted: &Wanted, service: &'static str) -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder().with_attribute(version);
    match wanted.is_named {
        true => resource.build(),
        false => resource.with_service_name(service).build(),
    }
}
