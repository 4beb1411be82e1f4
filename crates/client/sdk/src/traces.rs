//! Traced routes of a circuit: requests for hops and their answers, in both directions
//! (docs/protocol/data-plane.md 9, docs/protocol/sdk.md 11.3).
//!
//! A request names a time, and its answer returns that time. No two requests that wait name the same time.

use std::collections::VecDeque;

use tokio::sync::oneshot;
use weft_wire::Message;
use weft_wire::edge::{TraceRoute, TraceRouteAnswer};
use weft_wire::payload::{CircuitControl, ControlKind, hop_type};

/// Most requests of this program that wait for answers.
const MAX_WAITING: usize = 16;
/// Most requests and answers that wait for the channel; more are dropped. One has up to 1 KiB.
const MAX_QUEUED: usize = 16;

/// The hop that answered.
#[derive(Debug)]
pub(crate) struct TraceReply {
    pub(crate) kind: String,
    pub(crate) id: String,
    pub(crate) left: u32,
    pub(crate) error: Option<String>,
}

/// The messages by which a circuit traces its route.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form<'a> {
    /// Control messages of this circuit, whose flow control is in this program.
    Circuit(&'a str),
    /// Messages about this connection, whose flow control is at the router.
    Connection(u32),
}

/// A message of a router about a traced route.
#[derive(Debug)]
pub(crate) enum Trace {
    /// A control message of a circuit.
    Control(CircuitControl),
    /// A request about a connection.
    Asked(TraceRoute),
    /// The answer to a request about a connection.
    Answered(TraceRouteAnswer),
}

/// The requests of one circuit.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    /// Requests that wait for their answers, by the time that they name.
    waiting: Vec<(u64, oneshot::Sender<TraceReply>)>,
    /// Messages that wait for the channel.
    queued: VecDeque<Message>,
}

impl Traces {
    /// True if no message waits for the channel.
    pub(crate) fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }

    /// The next message for the router.
    pub(crate) fn pop(&mut self) -> Option<Message> {
        self.queued.pop_front()
    }

    /// The circuit is over: nothing is sent and nobody waits any more.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Asks for the hop after so many; `None` if too many requests wait. `now` is the time in
    /// milliseconds since 1970, as Go SDKs name it; the answer returns it.
    pub(crate) fn ask(
        &mut self,
        hop_count: u32,
        form: Form<'_>,
        now: u64,
    ) -> Option<oneshot::Receiver<TraceReply>> {
        self.waiting.retain(|(_, waiting)| !waiting.is_closed());
        if self.waiting.len() >= MAX_WAITING || self.queued.len() >= MAX_QUEUED {
            return None;
        }
        let last = self.waiting.last().map_or(0, |(last, _)| *last);
        let timestamp = now.max(last + 1);
        let (sender, answer) = oneshot::channel();
        self.waiting.push((timestamp, sender));
        self.queue(match form {
            Form::Circuit(id) => CircuitControl {
                hop_count: Some(hop_count),
                timestamp: Some(timestamp),
                ..CircuitControl::new(ControlKind::Traceroute, id)
            }
            .to_message(),
            Form::Connection(conn_id) => {
                TraceRoute { conn_id, hop_count, timestamp, source_request: None }.to_message()
            }
        });
        Some(answer)
    }

    /// Takes a message of the router: a request in the form of the circuit is answered. Routers may
    /// ask in both forms.
    pub(crate) fn take(&mut self, trace: Trace, form: Form<'_>) {
        match (trace, form) {
            (Trace::Control(mut control), Form::Circuit(_)) => match control.kind {
                ControlKind::Traceroute => {
                    control.count_hop();
                    self.queue(control.answered_by(hop_type::SDK, "").to_message());
                }
                ControlKind::TracerouteResponse => {
                    let answer = TraceReply {
                        kind: control.hop_type.unwrap_or_default(),
                        id: control.hop_id.unwrap_or_default(),
                        left: control.hop_count.unwrap_or(0),
                        error: control.error,
                    };
                    self.answered(control.timestamp.unwrap_or(0), answer);
                }
                ControlKind::Other(_) => {}
            },
            (Trace::Asked(mut asked), Form::Connection(_)) => {
                asked.count_hop();
                self.queue(asked.answered_by(hop_type::SDK).to_message());
            }
            (Trace::Answered(answer), Form::Connection(_)) => {
                let TraceRouteAnswer { timestamp, hop_type, hop_id, hop_count, error, .. } = answer;
                let answer = TraceReply { kind: hop_type, id: hop_id, left: hop_count, error };
                self.answered(timestamp, answer);
            }
            (Trace::Control(_), Form::Connection(_))
            | (Trace::Asked(_) | Trace::Answered(_), Form::Circuit(_)) => {}
        }
    }

    fn answered(&mut self, time: u64, answer: TraceReply) {
        let at = self.waiting.iter().position(|(known, _)| *known == time);
        if let Some(at) = at {
            // The asker may have given up.
            let _ = self.waiting.remove(at).1.send(answer);
        }
    }

    fn queue(&mut self, message: Message) {
        if self.queued.len() < MAX_QUEUED {
            self.queued.push_back(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer of a router to a request that has come to its end.
    fn answer(request: &Message, id: &str) -> Trace {
        let asked = CircuitControl::from_message(request).unwrap();
        Trace::Control(asked.answered_by(hop_type::FORWARDER, id))
    }

    #[test]
    fn an_answer_goes_to_the_request_of_its_time_and_few_wait() {
        let (mut traces, form) = (Traces::default(), Form::Circuit("c1"));
        let mut at_first = traces.ask(1, form, 5).unwrap();
        let mut at_second = traces.ask(1, form, 5).unwrap();
        let (first, second) = (traces.pop().unwrap(), traces.pop().unwrap());
        traces.take(answer(&second, "b"), form);
        traces.take(answer(&second, "again"), form);
        traces.take(answer(&first, "of another form"), Form::Connection(1));
        assert_eq!(at_second.try_recv().unwrap().id, "b");
        at_first.try_recv().unwrap_err();
        let ask = |traces: &mut Traces| {
            let asked = traces.ask(1, form, 5);
            traces.pop();
            asked
        };
        let waiting: Vec<_> = (0..100).filter_map(|_| ask(&mut traces)).collect();
        assert_eq!(waiting.len(), MAX_WAITING - 1);
        drop(waiting);
        assert!(ask(&mut traces).is_some(), "those that gave up make room");
    }

    #[test]
    fn requests_are_answered_in_the_form_of_the_circuit_and_few_wait() {
        let asked = TraceRoute { conn_id: 3, hop_count: 2, timestamp: 5, source_request: Some(7) };
        let control = asked.as_control("c1", 7);
        for form in [Form::Circuit("c1"), Form::Connection(3)] {
            let mut traces = Traces::default();
            for _ in 0..100 {
                traces.take(Trace::Control(control.clone()), form);
                traces.take(Trace::Asked(asked), form);
            }
            let answers: Vec<Message> = std::iter::from_fn(|| traces.pop()).collect();
            assert_eq!(answers.len(), MAX_QUEUED);
            let is_control = matches!(form, Form::Circuit(_));
            for answer in answers {
                assert_eq!(CircuitControl::from_message(&answer).is_ok(), is_control);
                assert_eq!(TraceRouteAnswer::from_message(&answer).is_ok(), !is_control);
            }
        }
    }
}
