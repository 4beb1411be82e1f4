//! Spans of dials that begin at an SDK.
//!
//! An SDK may name the trace that a dial belongs to; [`trust`](super::trust) decides how far it is
//! believed.

use std::time::SystemTime;

use weft_channel::clock::time_of_day;
use weft_circuit::now;
use weft_spans::{Span, SpanKind, Start, attribute};
use weft_wire::{Message, TraceContext};

use super::binding::EdgeBinding;
use crate::seam::{ApiSession, NewCircuit, Refusal};

impl EdgeBinding {
    /// The time at which a request came, if spans are recorded.
    pub(super) fn came(&self) -> Option<SystemTime> {
        self.options.spans.is_on().then(time_of_day)
    }

    /// The span of a dial.
    pub(super) fn dial_span(
        &self,
        message: &Message,
        session: &ApiSession,
        since: Option<SystemTime>,
    ) -> Span {
        let spans = &self.options.spans;
        if !spans.is_on() {
            return Span::none();
        }
        let parent = TraceContext::take(&message.headers)
            .map(|told| self.trust.judge(told, &session.identity, now()));
        let mut span =
            spans.begin(Start { name: "router.dial", kind: SpanKind::Server, parent, since });
        span.set(attribute::ROUTER_ID, &self.options.router_id);
        span.set(attribute::LISTENER, "edge");
        span.set(attribute::IDENTITY_ID, &session.identity);
        span
    }
}

/// Records the outcome of a dial in its span.
pub(super) fn made(span: &mut Span, circuit: &NewCircuit) {
    span.event("circuit made");
    span.set(attribute::CIRCUIT_ID, &circuit.id);
    span.set(attribute::CONTROLLER_ID, &*circuit.controller);
}

/// Notes the reason of a refusal in the span of a dial.
pub(super) fn refused(span: &mut Span, refusal: &Refusal) {
    if let Some(circuit) = &refusal.circuit {
        span.set(attribute::CIRCUIT_ID, circuit);
    }
    span.set(attribute::ERROR_CODE, refusal.code);
    span.fail(&refusal.message);
}
