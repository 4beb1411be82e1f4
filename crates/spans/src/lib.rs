//! Spans of a dial: which steps it has in this program, and which span elsewhere they belong to.
//!
//! [`Spans`] is off unless it is made of a [`Recorder`]. What is off costs one branch: nothing is
//! allocated, no clock is read, and there is no context to send on. With the feature
//! `opentelemetry` a tracer provider of OpenTelemetry is a recorder ([`Spans::of`]).
//!
//! ```text
//! SDK                router              controller                        SDK
//! sdk.dial ────────> router.dial ──────> controller.circuit
//!                                          controller.attempt
//!                                            controller.route ─> router.route ─> host.accept
//! ```
//!
//! An arrow is a message with a [`TraceContext`].

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod attribute;
pub mod memory;
#[cfg(feature = "opentelemetry")]
mod otel;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use weft_wire::TraceContext;

/// Where spans go. Clones are the same.
#[derive(Clone, Default)]
pub struct Spans(Option<Arc<dyn Recorder>>);

/// What records spans.
pub trait Recorder: Send + Sync + 'static {
    /// Begins a span.
    fn start(&self, start: Start) -> Box<dyn Recording>;
}

/// A span that begins.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// What it is called.
    pub name: &'static str,
    /// This program's part in it.
    pub kind: Kind,
    /// The span elsewhere to which it belongs; else it belongs to what this program does at this
    /// moment.
    pub parent: Option<TraceContext>,
    /// When it began, if not now.
    pub since: Option<SystemTime>,
}

/// A span that is going on. It ends when it is dropped.
pub trait Recording: Send + Sync {
    /// What others are told, so that their spans belong to this one.
    fn context(&self) -> Option<TraceContext>;

    /// Whether anything that is said of it is kept.
    fn is_kept(&self) -> bool;

    /// A span below this one.
    fn child(&self, name: &'static str, kind: Kind) -> Box<dyn Recording>;

    /// Says something of it; what was said before under this name does not count any more.
    fn set(&mut self, name: &'static str, value: Value<'_>);

    /// Something happened just now.
    fn event(&mut self, name: &'static str);

    /// It came to nothing, for this reason.
    fn fail(&mut self, reason: &str);
}

/// Part of a span in what two programs do together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It is this program's own.
    Internal,
    /// It asks another program.
    Client,
    /// Another program asked for it.
    Server,
}

/// What is said of a span.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// Text.
    Text(&'a str),
    /// A number.
    Number(i64),
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl Spans {
    /// None are recorded.
    #[must_use]
    pub const fn off() -> Self {
        Self(None)
    }

    /// They go to this recorder.
    #[must_use]
    pub fn new(recorder: impl Recorder) -> Self {
        Self(Some(Arc::new(recorder)))
    }

    /// Whether there is a recorder.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins a span: under one elsewhere, or else under what this program does at this moment.
    #[must_use]
    pub fn start(&self, name: &'static str, kind: Kind, parent: Option<TraceContext>) -> Span {
        self.begin(Start { name, kind, parent, since: None })
    }

    /// Begins a span.
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

/// A span that is going on, or nothing if spans are off. It ends when it is dropped.
#[derive(Default)]
pub struct Span(Option<Box<dyn Recording>>);

impl Span {
    /// Nothing.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// What others are told, so that their spans belong to this one.
    #[must_use]
    pub fn context(&self) -> Option<TraceContext> {
        self.0.as_ref().and_then(|recording| recording.context())
    }

    /// Whether anything that is said of it is kept: for what takes work to say.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.0.as_ref().is_some_and(|recording| recording.is_kept())
    }

    /// A span below this one.
    #[must_use]
    pub fn child(&self, name: &'static str, kind: Kind) -> Self {
        Self(self.0.as_ref().map(|recording| recording.child(name, kind)))
    }

    /// Says something of it; what was said before under this name does not count any more.
    pub fn set<'v>(&mut self, name: &'static str, value: impl Into<Value<'v>>) {
        if let Some(recording) = &mut self.0 {
            recording.set(name, value.into());
        }
    }

    /// Something happened just now.
    pub fn event(&mut self, name: &'static str) {
        if let Some(recording) = &mut self.0 {
            recording.event(name);
        }
    }

    /// It came to nothing, for this reason.
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
        let mut span = spans.start("router.dial", Kind::Server, None);
        assert_eq!(span.context(), None);
        assert!(!span.is_kept() && span.0.is_none());
        assert!(span.child("below", Kind::Internal).0.is_none());
        span.set(attribute::SERVICE_ID, "s1");
        span.event("chosen");
        span.fail(&Unsaid);
        assert_eq!(format!("{spans:?} {span:?}"), "Spans(off) Span(none)");
        // It costs what an empty pointer costs.
        assert_eq!(size_of::<Span>(), 2 * size_of::<usize>());
    }

    /// Nobody asks for its text.
    struct Unsaid;

    impl fmt::Display for Unsaid {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("written for a span that is off")
        }
    }
}
