//! A recorder that keeps spans in memory, for tests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use weft_wire::TraceContext;

use crate::{AttributeValue, Recorder, Recording, SpanKind, Spans, Start};

/// Keeps sampled spans that have ended. A span without a parent is sampled. Clones share the spans.
#[derive(Debug, Clone, Default)]
pub struct SpanMemory(Arc<Kept>);

#[derive(Debug, Default)]
struct Kept {
    last_id: AtomicU64,
    ended: Mutex<Vec<EndedSpan>>,
}

/// A span that has ended.
#[derive(Debug, Clone)]
pub struct EndedSpan {
    /// Name of the span.
    pub name: &'static str,
    /// Part of this program in the span.
    pub kind: SpanKind,
    /// Ids of the trace and the span.
    pub context: TraceContext,
    /// Id of the parent span.
    pub parent: Option<[u8; 8]>,
    /// Time of the beginning, if the span was begun with one.
    pub since: Option<SystemTime>,
    /// Attributes, in the order in which each was first set.
    pub said: Vec<(&'static str, String)>,
    /// Events, in order.
    pub events: Vec<&'static str>,
    /// Reason of the failure, if the span failed.
    pub failure: Option<String>,
}

impl EndedSpan {
    /// Value of an attribute.
    #[must_use]
    pub fn says(&self, name: &str) -> Option<&str> {
        self.said.iter().find(|(said, _)| *said == name).map(|(_, value)| value.as_str())
    }
}

impl SpanMemory {
    /// Spans that this recorder keeps.
    #[must_use]
    pub fn spans(&self) -> Spans {
        Spans::new(self.clone())
    }

    /// All spans that have ended.
    #[must_use]
    pub fn ended(&self) -> Vec<EndedSpan> {
        self.lock().clone()
    }

    /// The spans of this name that have ended.
    #[must_use]
    pub fn named(&self, name: &str) -> Vec<EndedSpan> {
        self.lock().iter().filter(|span| span.name == name).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<EndedSpan>> {
        self.0.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn id(&self) -> [u8; 8] {
        (self.0.last_id.fetch_add(1, Ordering::Relaxed) + 1).to_be_bytes()
    }

    fn begin(&self, start: Start) -> Box<dyn Recording> {
        let Start { name, kind, parent, since } = start;
        let span_id = self.id();
        let root = || {
            let mut trace_id = [0xee; 16];
            trace_id[8..].copy_from_slice(&span_id);
            trace_id
        };
        let context = TraceContext {
            trace_id: parent.map_or_else(root, |parent| parent.trace_id),
            span_id,
            is_sampled: parent.is_none_or(|parent| parent.is_sampled),
        };
        let span = EndedSpan {
            name,
            kind,
            context,
            parent: parent.map(|parent| parent.span_id),
            since,
            said: Vec::new(),
            events: Vec::new(),
            failure: None,
        };
        Box::new(OpenSpan { memory: self.clone(), span })
    }
}

impl Recorder for SpanMemory {
    fn start(&self, start: Start) -> Box<dyn Recording> {
        self.begin(start)
    }
}

struct OpenSpan {
    memory: SpanMemory,
    span: EndedSpan,
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        if self.span.context.is_sampled {
            self.memory.lock().push(self.span.clone());
        }
    }
}

impl Recording for OpenSpan {
    fn context(&self) -> Option<TraceContext> {
        Some(self.span.context)
    }

    fn is_kept(&self) -> bool {
        self.span.context.is_sampled
    }

    fn child(&self, name: &'static str, kind: SpanKind) -> Box<dyn Recording> {
        self.memory.begin(Start { name, kind, parent: Some(self.span.context), since: None })
    }

    fn set(&mut self, name: &'static str, value: AttributeValue<'_>) {
        let value = match value {
            AttributeValue::Text(text) => text.to_owned(),
            AttributeValue::Number(number) => number.to_string(),
        };
        match self.span.said.iter_mut().find(|(said, _)| *said == name) {
            Some((_, said)) => *said = value,
            None => self.span.said.push((name, value)),
        }
    }

    fn event(&mut self, name: &'static str) {
        self.span.events.push(name);
    }

    fn fail(&mut self, reason: &str) {
        self.span.failure = Some(reason.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute;

    #[test]
    fn spans_are_kept_once_they_end() {
        let memory = SpanMemory::default();
        let mut span = memory.spans().start("router.dial", SpanKind::Server, None);
        span.set(attribute::ATTEMPTS, 1u32);
        span.set(attribute::ATTEMPTS, 2u32);
        span.fail(&"no");
        drop(span.child("router.below", SpanKind::Client));
        assert_eq!(memory.ended().len(), 1);
        let context = span.context().unwrap();
        drop(span);
        let [below, span] = &memory.ended()[..] else { panic!("{memory:?}") };
        assert_eq!(below.parent, Some(context.span_id));
        assert_eq!(below.context.trace_id, span.context.trace_id);
        assert_eq!(span.says("weft.attempts"), Some("2"));
        assert_eq!((span.parent, span.failure.as_deref()), (None, Some("no")));
        let unsampled = TraceContext { is_sampled: false, ..context };
        drop(memory.spans().start("router.route", SpanKind::Server, Some(unsampled)));
        assert!(memory.named("router.route").is_empty());
    }
}
