//! Export of spans to a collector over OTLP (Jaeger, Tempo, the OpenTelemetry Collector),
//! configured by OpenTelemetry's environment variables.
//!
//! ```text
//! router, controller, SDK -> Spans -> queue (bounded) -> a thread of its own -> collector (HTTP)
//! ```
//!
//! No task waits for the collector: spans that do not fit into the queue are lost and counted, and
//! a program that ends gives the collector two seconds.

mod collector;
mod queue;
mod wanted;

use std::env;
use std::sync::Arc;
use std::time::Duration;

use collector::Collector;
use opentelemetry::KeyValue;
use opentelemetry_otlp::{WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider};
use queue::{Bounded, Queue, Watched};
use wanted::Wanted;
use weft_sdk::EndpointBuilder;
use weft_spans::Spans;

/// Time for the collector when the program ends.
const END: Duration = Duration::from_secs(2);

/// An export of spans, or none.
pub(crate) struct Export(Option<Running>);

struct Running {
    provider: SdkTracerProvider,
    queue: Arc<Queue>,
}

impl Export {
    pub(crate) fn off() -> Self {
        Self(None)
    }

    /// Begins the export that the environment asks for, under this service's name unless the
    /// environment has another. Invalid settings are logged and nothing is exported: the network
    /// works without spans.
    pub(crate) fn start(service: &'static str) -> Self {
        let read = |name: &str| env::var(name).ok().filter(|value| !value.trim().is_empty());
        let started = wanted::read(&read)
            .and_then(|wanted| wanted.map(|wanted| Running::start(&wanted, service)).transpose());
        Self(started.unwrap_or_else(|problem| {
            tracing::warn!("spans are not exported: {problem}");
            None
        }))
    }

    /// Spans for a router or a controller.
    pub(crate) fn spans(&self) -> Spans {
        match &self.0 {
            Some(running) => Spans::of(&running.provider, env!("CARGO_PKG_NAME")),
            None => Spans::off(),
        }
    }

    /// Lets an SDK use the export.
    pub(crate) fn of_sdk(&self, builder: EndpointBuilder) -> EndpointBuilder {
        match &self.0 {
            Some(running) => builder.tracer_provider(&running.provider),
            None => builder,
        }
    }

    /// Exports the remaining spans, as far as [`END`] allows.
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
        // The provider reads the sampler from the environment.
        let provider = SdkTracerProvider::builder()
            .with_resource(resource(wanted, service))
            .with_span_processor(Bounded::new(batches, Arc::clone(&queue)))
            .build();
        tracing::info!(collector = wanted.shown, "spans of dials are exported");
        Ok(Self { provider, queue })
    }
}

/// The resource of the spans: service name and version.
fn resource(wanted: &Wanted, service: &'static str) -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder().with_attribute(version);
    match wanted.is_named {
        true => resource.build(),
        false => resource.with_service_name(service).build(),
    }
}
