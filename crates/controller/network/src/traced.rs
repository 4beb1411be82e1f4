//! Spans of a new circuit: the circuit as a whole, each attempt, and the route of each router.
//!
//! ```text
//! controller.circuit
//!   controller.attempt
//!     controller.select     the terminator and the path are chosen
//!     controller.route      one for each router: from its route to its answer
//! ```

use weft_model::Id;
use weft_paths::path::Path;
use weft_spans::{Span, SpanKind, attribute};
use weft_wire::Message;

use super::failure::{CircuitFailure, FailureCause};

/// Records the routers of a path in a span.
pub(super) fn say_path(span: &mut Span, path: &Path) {
    if !span.is_kept() {
        return;
    }
    let nodes: Vec<&str> = path.nodes.iter().map(Id::as_str).collect();
    span.set(attribute::PATH, &nodes.join(" "));
    span.set(attribute::PATH_COST, path.cost);
}

/// Records in a span why the circuit failed.
pub(super) fn say_failure(span: &mut Span, failure: &CircuitFailure) {
    span.set(attribute::ERROR_TYPE, failure.cause.as_str());
    span.fail(failure);
}

/// Spans of the unanswered routes of one attempt. Empty if nothing is recorded.
#[derive(Debug, Default)]
pub(crate) struct RouteSpans(Vec<(Id, Span)>);

impl RouteSpans {
    /// Begins the span of a router's route, and adds its context to the message.
    pub(crate) fn tell(&mut self, attempt: &Span, router: &Id, message: &mut Message) {
        let mut span = attempt.child("controller.route", SpanKind::Client);
        let Some(context) = span.context() else { return };
        context.put(&mut message.headers);
        span.set(attribute::ROUTER_ID, router.as_str());
        self.0.push((router.clone(), span));
    }

    /// Ends the span of a router that has set its route up.
    pub(crate) fn done(&mut self, router: &Id) {
        self.0.retain(|(asked, _)| asked != router);
    }

    /// Ends the span of a router whose route failed.
    pub(crate) fn failed(&mut self, router: &Id, cause: FailureCause, why: &str) {
        if let Some((_, span)) = self.0.iter_mut().find(|(asked, _)| asked == router) {
            span.set(attribute::ERROR_TYPE, cause.as_str());
            span.fail(&why);
        }
        self.done(router);
    }
}
