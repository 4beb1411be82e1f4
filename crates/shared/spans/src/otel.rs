//! A recorder that passes spans to a tracer provider of OpenTelemetry.

use std::borrow::Cow;
use std::sync::Arc;

use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanId, SpanKind as OtelKind, Status,
    TraceContextExt as _, TraceFlags, TraceId, TraceState, Tracer, TracerProvider,
};
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use weft_wire::TraceContext;

use crate::{AttributeValue, Recorder, Recording, SpanKind, Spans, Start};

/// Longest text of an attribute or a reason, in bytes. Some texts come from peers.
const MAX_TEXT: usize = 512;

impl Spans {
    /// Spans that this tracer provider of OpenTelemetry records; `scope` names the library that
    /// makes them. A span without a parent in another program is a child of the current context of
    /// OpenTelemetry.
    #[must_use]
    pub fn of<P>(provider: &P, scope: &'static str) -> Self
    where
        P: TracerProvider,
        P::Tracer: Send + Sync + 'static,
        <P::Tracer as Tracer>::Span: Send + Sync + 'static,
    {
        let scope =
            InstrumentationScope::builder(scope).with_version(env!("CARGO_PKG_VERSION")).build();
        Self::new(Tracing(Arc::new(provider.tracer_with_scope(scope))))
    }
}

struct Tracing<T>(Arc<T>);

impl<T> Recorder for Tracing<T>
where
    T: Tracer + Send + Sync + 'static,
    T::Span: Send + Sync + 'static,
{
    fn start(&self, start: Start) -> Box<dyn Recording> {
        let mut span = named(start.name, start.kind);
        span.start_time = start.since;
        match start.parent {
            Some(parent) => {
                let parent = Context::new().with_remote_span_context(remote(parent));
                begin(&self.0, span, &parent)
            }
            None => Context::map_current(|parent| begin(&self.0, span, parent)),
        }
    }
}

fn named(name: &'static str, kind: SpanKind) -> SpanBuilder {
    SpanBuilder::from_name(name).with_kind(match kind {
        SpanKind::Internal => OtelKind::Internal,
        SpanKind::Client => OtelKind::Client,
        SpanKind::Server => OtelKind::Server,
    })
}

fn begin<T>(tracer: &Arc<T>, span: SpanBuilder, parent: &Context) -> Box<dyn Recording>
where
    T: Tracer + Send + Sync + 'static,
    T::Span: Send + Sync + 'static,
{
    let span = tracer.build_with_context(span, parent);
    Box::new(OpenSpan { tracer: Arc::clone(tracer), span })
}

fn remote(context: TraceContext) -> SpanContext {
    SpanContext::new(
        TraceId::from_bytes(context.trace_id),
        SpanId::from_bytes(context.span_id),
        if context.is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() },
        true,
        TraceState::default(),
    )
}

/// A span of OpenTelemetry; its drop ends it.
struct OpenSpan<T: Tracer> {
    tracer: Arc<T>,
    span: T::Span,
}

impl<T> Recording for OpenSpan<T>
where
    T: Tracer + Send + Sync + 'static,
    T::Span: Send + Sync + 'static,
{
    fn context(&self) -> Option<TraceContext> {
        let context = self.span.span_context();
        context.is_valid().then(|| TraceContext {
            trace_id: context.trace_id().to_bytes(),
            span_id: context.span_id().to_bytes(),
            is_sampled: context.is_sampled(),
        })
    }

    fn is_kept(&self) -> bool {
        self.span.is_recording()
    }

    fn child(&self, name: &'static str, kind: SpanKind) -> Box<dyn Recording> {
        let context = self.span.span_context().clone();
        let parent = Context::new().with_remote_span_context(context);
        begin(&self.tracer, named(name, kind), &parent)
    }

    fn set(&mut self, name: &'static str, value: AttributeValue<'_>) {
        if self.span.is_recording() {
            self.span.set_attribute(match value {
                AttributeValue::Text(text) => KeyValue::new(name, cut(text)),
                AttributeValue::Number(number) => KeyValue::new(name, number),
            });
        }
    }

    fn event(&mut self, name: &'static str) {
        if self.span.is_recording() {
            self.span.add_event(name, Vec::new());
        }
    }

    fn fail(&mut self, reason: &str) {
        self.span.set_status(Status::Error { description: Cow::Owned(cut(reason)) });
    }
}

/// The first [`MAX_TEXT`] bytes of a text, cut between characters.
fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanData, SpanExporter};

    use super::*;
    use crate::{Span, attribute};

    /// An exporter that keeps the spans it is given.
    #[derive(Debug, Clone, Default)]
    struct Kept(Arc<Mutex<Vec<SpanData>>>);

    impl SpanExporter for Kept {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            self.0.lock().unwrap().extend(batch);
            Ok(())
        }
    }

    impl Kept {
        fn spans(&self) -> Vec<SpanData> {
            self.0.lock().unwrap().clone()
        }
    }

    fn provider(sampler: Sampler) -> (SdkTracerProvider, Kept) {
        let kept = Kept::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(kept.clone());
        (provider.with_sampler(sampler).build(), kept)
    }

    fn recorded(sampler: Sampler, play: impl FnOnce(&Spans)) -> Vec<SpanData> {
        let (provider, kept) = provider(sampler);
        play(&Spans::of(&provider, "weft-test"));
        kept.spans()
    }

    fn elsewhere(is_sampled: bool) -> TraceContext {
        TraceContext { trace_id: [7; 16], span_id: [9; 8], is_sampled }
    }

    fn is_id(id: impl ToString, byte: &str, count: usize) -> bool {
        id.to_string() == byte.repeat(count)
    }

    #[test]
    fn a_span_belongs_to_the_one_elsewhere_and_says_what_it_was_told() {
        let spans = recorded(Sampler::ParentBased(Box::new(Sampler::AlwaysOff)), |spans| {
            let mut span = spans.start("router.dial", SpanKind::Server, Some(elsewhere(true)));
            assert!(span.is_kept() && span.context().unwrap().is_sampled);
            span.set(attribute::SERVICE_ID, "s1");
            span.set(attribute::ATTEMPT, 2u32);
            span.event("chosen");
            span.fail(&"é".repeat(MAX_TEXT));
            drop(span.child("router.below", SpanKind::Client));
        });
        let [child, span] = &spans[..] else { panic!("{spans:?}") };
        assert_eq!((&*span.name, &*child.name), ("router.dial", "router.below"));
        assert!(is_id(span.span_context.trace_id(), "07", 16), "{span:?}");
        assert!(is_id(span.parent_span_id, "09", 8) && span.parent_span_is_remote, "{span:?}");
        assert_eq!(child.parent_span_id, span.span_context.span_id());
        assert!(!child.parent_span_is_remote);
        assert_eq!((&span.span_kind, &child.span_kind), (&OtelKind::Server, &OtelKind::Client));
        let said = [KeyValue::new("weft.service.id", "s1"), KeyValue::new("weft.attempt", 2)];
        assert_eq!(span.attributes, said);
        assert_eq!(span.events.events[0].name, "chosen");
        assert_eq!(span.status, Status::error("é".repeat(MAX_TEXT / 2)));
        assert_eq!(span.instrumentation_scope.name(), "weft-test");
    }

    #[test]
    fn what_is_not_sampled_is_told_on_as_such() {
        let spans = recorded(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)), |spans| {
            let mut span = spans.start("router.dial", SpanKind::Server, Some(elsewhere(false)));
            span.set(attribute::SERVICE_ID, "s1");
            let context = span.context().unwrap();
            assert!(!span.is_kept() && !context.is_sampled);
            assert_eq!(context.trace_id, [7; 16]);
            let below = span.child("router.below", SpanKind::Client);
            assert!(!below.is_kept() && below.context().unwrap().trace_id == [7; 16]);
        });
        assert!(spans.is_empty(), "{spans:?}");
    }

    #[test]
    fn a_span_without_parent_elsewhere_belongs_to_what_the_program_does() {
        let (provider, kept) = provider(Sampler::AlwaysOn);
        let tracer = provider.tracer("application");
        let outer = Context::new().with_span(tracer.start("GET /"));
        let spans = Spans::of(&provider, "weft-test");
        let _in_it = outer.clone().attach();
        drop(spans.start("sdk.dial", SpanKind::Client, None));
        let dial = kept.spans().remove(0);
        assert_eq!(dial.parent_span_id, outer.span().span_context().span_id());
        assert_eq!(dial.span_context.trace_id(), outer.span().span_context().trace_id());
    }

    #[test]
    fn a_provider_that_does_nothing_sends_nothing_on() {
        let spans = Spans::of(&opentelemetry::global::tracer_provider(), "weft-test");
        let span: Span = spans.start("sdk.dial", SpanKind::Client, None);
        assert_eq!((span.context(), span.is_kept()), (None, false));
    }
}
