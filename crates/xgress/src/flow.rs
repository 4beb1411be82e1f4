//! One direction of a circuit as the writer of a connection sees it: something to pull from.

use std::time::Instant;

use crate::transit::Waiting;
use crate::{AckList, End, Segment, TransitQueue, cost, payload_cost};

/// What is pulled: acks go ahead of payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Acks and control messages.
    Ack,
    /// Payloads.
    Payload,
}

/// One direction of a circuit.
#[derive(Debug)]
pub enum Flow<T> {
    /// Frames that pass through.
    Transit(TransitQueue<T>),
    /// An end of the circuit in this process.
    Local(Box<End>),
}

/// What was pulled.
#[derive(Debug)]
pub enum Pulled<T> {
    /// A payload that passes through.
    Transit(Waiting<T>),
    /// An ack or control message that passes through, with its length.
    TransitAck(usize, T),
    /// A payload of the end here.
    Segment(Segment),
    /// An ack of the end here.
    Ack(AckList),
}

impl<T> Pulled<T> {
    /// What it counts in a turn.
    #[must_use]
    pub fn cost(&self) -> u64 {
        match self {
            Self::Transit(waiting) => cost(waiting.len),
            Self::TransitAck(len, _) => cost(*len),
            Self::Segment(segment) => payload_cost(&segment.headers, &segment.data),
            Self::Ack(ack) => cost(ack.sequences.len() * 4),
        }
    }
}

impl<T> Flow<T> {
    /// The next of a class. Only asked for when it can be written.
    pub fn pull(&mut self, class: Class, now: Instant) -> Option<Pulled<T>> {
        match (self, class) {
            (Self::Transit(queue), Class::Payload) => queue.pop().map(Pulled::Transit),
            (Self::Transit(queue), Class::Ack) => {
                queue.pop_ack().map(|(len, frame)| Pulled::TransitAck(len, frame))
            }
            (Self::Local(end), Class::Payload) => end.poll_transmit(now).map(Pulled::Segment),
            (Self::Local(end), Class::Ack) => end.poll_ack().map(Pulled::Ack),
        }
    }

    /// True if [`pull`](Self::pull) has something of this class.
    #[must_use]
    pub fn has(&self, class: Class) -> bool {
        match (self, class) {
            (Self::Transit(queue), Class::Payload) => queue.has_payloads(),
            (Self::Transit(queue), Class::Ack) => queue.has_acks(),
            (Self::Local(end), Class::Payload) => end.wants_transmit(),
            (Self::Local(end), Class::Ack) => end.wants_ack(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Role};
    use bytes::Bytes;
    use weft_limits::Budget;

    #[test]
    fn both_kinds_are_pulled_alike() {
        let now = Instant::now();
        let budget = Budget::unlimited();
        let mut queue = TransitQueue::new(&budget);
        queue.push(0, 100, "payload");
        queue.push_ack(20, "ack");
        let end = End::new(Role::Initiator, &Options::default(), &budget, now);
        for (mut flow, acks) in [(Flow::Transit(queue), 1), (Flow::Local(Box::new(end)), 0)] {
            assert_eq!(flow.has(Class::Ack), acks == 1);
            assert!(flow.has(Class::Payload));
            let pulled = flow.pull(Class::Payload, now).unwrap();
            assert!(pulled.cost() >= 256);
            assert_eq!(flow.pull(Class::Ack, now).is_some(), acks == 1);
            assert!(flow.pull(Class::Payload, now).is_none() && !flow.has(Class::Payload));
        }
    }

    #[test]
    fn an_end_with_something_to_acknowledge_is_pulled_for_acks() {
        let now = Instant::now();
        let budget = Budget::unlimited();
        let mut end = End::new(Role::Initiator, &Options::default(), &budget, now);
        let flags = weft_wire::payload::Flags::ORIGINATOR;
        let data = Bytes::from_static(b"x");
        end.on_segment(Segment { flags, data, ..Segment::default() }, now);
        let mut flow: Flow<()> = Flow::Local(Box::new(end));
        assert!(matches!(flow.pull(Class::Ack, now), Some(Pulled::Ack(_))));
    }
}
