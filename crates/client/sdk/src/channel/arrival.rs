//! A dial that reached a listener, until it is accepted or refused.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use weft_spans::{Span, SpanKind, Spans, attribute};
use weft_wire::edge::{Dial, DialFailed};
use weft_wire::{Message, TraceContext};

use super::RouterChannel;

/// How long routers wait for a host's answer (docs/protocol/sdk.md 9).
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// A dial that reached a listener. Dropped without an answer, it is refused.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) dial: Dial,
    pub(crate) request: Message,
    pub(crate) channel: Arc<RouterChannel>,
    at: Instant,
    pub(crate) answered: bool,
    pub(crate) span: Span,
}

impl Arrival {
    pub(crate) fn new(
        dial: Dial,
        request: Message,
        channel: Arc<RouterChannel>,
        spans: &Spans,
    ) -> Self {
        let span = begin(spans, &dial, &request);
        Self { dial, request, channel, at: Instant::now(), answered: false, span }
    }

    pub(crate) fn refuse(mut self, reason: &str) {
        self.answer(reason);
    }

    /// The id of the dialer's identity, if the router sends it.
    pub(crate) fn dialer_id(&self) -> Option<&str> {
        text(self.dial.dialer_id.as_ref())
    }

    /// The name of the dialer's identity, if the router sends it.
    pub(crate) fn dialer_name(&self) -> Option<&str> {
        text(self.dial.dialer_name.as_ref())
    }

    /// True if the dial's time is over.
    pub(crate) fn is_late(&self) -> bool {
        self.at.elapsed() >= ANSWER_TIME || self.channel.handle().is_closed()
    }

    /// Refuses the dial with this reason.
    pub(crate) fn answer(&mut self, reason: &str) {
        self.answered = true;
        self.span.fail(&reason);
        let failed = DialFailed { conn_id: self.dial.conn_id, reason: reason.to_owned() };
        self.channel.refuse(failed.to_message().in_reply_to(&self.request));
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        if !self.answered {
            self.answer("the host did not accept the connection");
        }
    }
}

/// The span of a dial that reached this host, until it is answered.
fn begin(spans: &Spans, dial: &Dial, request: &Message) -> Span {
    if !spans.is_on() {
        return Span::none();
    }
    let parent = TraceContext::take(&request.headers);
    let mut span = spans.start("host.accept", SpanKind::Server, parent);
    span.set(attribute::CIRCUIT_ID, &dial.circuit_id);
    if let Some(dialer) = text(dial.dialer_id.as_ref()) {
        span.set(attribute::IDENTITY_ID, dialer);
    }
    span
}

fn text(bytes: Option<&Bytes>) -> Option<&str> {
    bytes.and_then(|bytes| std::str::from_utf8(bytes).ok())
}
