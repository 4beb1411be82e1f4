//! Spans of a dial: its steps in this program, and the span of another program that they belong to.
//!
//! [`Spans`] is off unless it is made of a [`Recorder`]. Spans that are off cost one branch:
//! nothing is allocated, no clock is read, and there is no context to send on. With the feature
//! `opentelemetry` a tracer provider of OpenTelemetry is a recorder (`Spans::of`).
//!
//! ```text
//! SDK                router              controller                        SDK
//! sdk.dial ────────> router.dial ──────> controller.circuit
//!                                          controller.attempt
//!                                            controller.route ─> router.route ─> host.accept
//! ```
//!
//! An arrow is a message with a [`TraceContext`].
//!
//! ```
//! use weft_spans::memory::SpanMemory;
//! use weft_spans::{SpanKind, attribute};
//!
//! let memory = SpanMemory::default();
//! let mut dial = memory.spans().start("sdk.dial", SpanKind::Client, None);
//! dial.set(attribute::SERVICE_NAME, "web");
//! drop(dial);
//! assert_eq!(memory.named("sdk.dial")[0].says(attribute::SERVICE_NAME), Some("web"));
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod attribute;
pub mod memory;
#[cfg(feature = "opentelemetry")]
mod otel;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use weft_wire::TraceContext;

/// A source of spans, on or off. Clones share the recorder.
#[derive(Clone, Default)]
pub struct Spans(Option<Arc<dyn Recorder>>);

/// A recorder of spans.
pub trait Recorder: Send + Sync + 'static {
    /// Begins a span.
    fn start(&self, start: Start) -> Box<dyn Recording>;
}

/// The beginning of a span.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// Name of the span.
    pub name: &'static str,
    /// Part of this program in the span.
    pub kind: SpanKind,
    /// The parent span in another program. `None`: the parent is the span that is current in this
    /// program, if there is one.
    pub parent: Option<TraceContext>,
    /// Time of the beginning; `None` is now.
    pub since: Option<SystemTime>,
}

/// A span that has begun. It ends when it is dropped.
pub trait Recording: Send + Sync {
    /// The context that other programs are sent, so that their spans become children of this one.
    fn context(&self) -> Option<TraceContext>;

    /// True if attributes and events of this span are kept.
    fn is_kept(&self) -> bool;

    /// Begins a child span.
    fn child(&self, name: &'static str, kind: SpanKind) -> Box<dyn Recording>;

    /// Sets an attribute; it replaces an earlier value of the same name.
    fn set(&mut self, name: &'static str, value: AttributeValue<'_>);

    /// Adds an event at this moment.
    fn event(&mut self, name: &'static str);

    /// Marks the span as failed, with the reason.
    fn fail(&mut self, reason: &str);
}

/// The part of this program in a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// The span is work of this program alone.
    Internal,
    /// This program asks another program.
    Client,
    /// Another program asked this program.
    Server,
}

/// Value of an attribute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AttributeValue<'a> {
    /// Text.
    Text(&'a str),
    /// An integer.
    Number(i64),
}

impl<'a> From<&'a str> for AttributeValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for AttributeValue<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl From<u32> for AttributeValue<'_> {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl Spans {
    /// Spans that are off.
    #[must_use]
    pub const fn off() -> Self {
        Self(None)
    }

    /// Spans that `recorder` records.
    #[must_use]
    pub fn new(recorder: impl Recorder) -> Self {
        Self(Some(Arc::new(recorder)))
    }

    /// True if there is a recorder.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins a span now. Without a `parent` the span is a child of the span that is current in this
    /// program, if there is one.
    #[must_use]
    pub fn start(&self, name: &'static str, kind: SpanKind, parent: Option<TraceContext>) -> Span {
        self.begin(Start { name, kind, parent, since: None })
    }

    /// Begins a span with a parent and a time of its own.
    #[must_use]
    pub fn begin(&self, start: Start) -> Span {
        Span(self.0.as_ref().map(|recorder| recorder.start(start)))
    }
}

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_on() { "Spans(on)" } else { "Spans(off)" })
    }
}

/// A span that has begun, or nothing if spans are off. It ends when it is dropped.
#[derive(Default)]
pub struct Span(Option<Box<dyn Recording>>);

impl Span {
    /// A span that records nothing, as [`Spans::off`] begins it.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// The context that other programs are sent, so that their spans become children of this one.
    #[must_use]
    pub fn context(&self) -> Option<TraceContext> {
        self.0.as_ref().and_then(|recording| recording.context())
    }

    /// True if attributes and events of this span are kept. Callers ask before they compute an
    /// expensive attribute.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.0.as_ref().is_some_and(|recording| recording.is_kept())
    }

    /// Begins a child span.
    #[must_use]
    pub fn child(&self, name: &'static str, kind: SpanKind) -> Self {
        Self(self.0.as_ref().map(|recording| recording.child(name, kind)))
    }

    /// Sets an attribute; it replaces an earlier value of the same name.
    pub fn set<'v>(&mut self, name: &'static str, value: impl Into<AttributeValue<'v>>) {
        if let Some(recording) = &mut self.0 {
            recording.set(name, value.into());
        }
    }

    /// Adds an event at this moment.
    pub fn event(&mut self, name: &'static str) {
        if let Some(recording) = &mut self.0 {
            recording.event(name);
        }
    }

    /// Marks the span as failed, with the reason.
    pub fn fail(&mut self, reason: &dyn fmt::Display) {
        if let Some(recording) = &mut self.0
            && recording.is_kept()
        {
            recording.fail(&reason.to_string());
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.context() {
            Some(context) => write!(f, "Span({context:?})"),
            None => f.write_str("Span(none)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_off_is_nothing() {
        let spans = Spans::off();
        assert!(!spans.is_on() && !Spans::default().is_on());
        let mut span = spans.start("router.dial", SpanKind::Server, None);
        assert_eq!(span.context(), None);
        assert!(!span.is_kept() && span.0.is_none());
        assert!(span.child("below", SpanKind::Internal).0.is_none());
        span.set(attribute::SERVICE_ID, "s1");
        span.event("chosen");
        span.fail(&Unsaid);
        assert_eq!(format!("{spans:?} {span:?}"), "Spans(off) Span(none)");
        // A span that is off has the size of a boxed trait object.
        assert_eq!(size_of::<Span>(), 2 * size_of::<usize>());
    }

    /// A reason that must not be formatted.
    struct Unsaid;

    impl fmt::Display for Unsaid {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("written for a span that is off")
        }
    }
}
