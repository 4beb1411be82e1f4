//! The last payload of an SDK with flow control of its own, which the SDK's router sends if the SDK has not.
//!
//! A router knows at once that an SDK is gone, while the other end of the circuit would go on waiting for data. The
//! payload tells that end that data may be missing. It has the next sequence number, so that the other end first
//! delivers everything that the SDK has sent (docs/protocol/data-plane.md 7.9). If an earlier payload was lost, nobody
//! sends it again, and the other end learns from its own router that the circuit has ended.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use weft_wire::payload::{Flags, Payload};
use weft_xgress::{Class, Role};

use super::head::Head;

/// What a router remembers of the payloads that an SDK has sent.
#[derive(Debug, Default)]
pub(super) struct Farewell {
    /// The sequence number after the highest one.
    next: AtomicI64,
    /// True once the SDK has sent a payload that ends the circuit.
    is_said: AtomicBool,
    /// True once the circuit has ended at this router: the SDK sends no more.
    is_over: AtomicBool,
}

impl Farewell {
    /// Notes a message that the SDK sends.
    pub(super) fn note(&self, head: Head) {
        if head.class != Class::Payload {
            return;
        }
        self.next.fetch_max(i64::from(head.sequence) + 1, Ordering::Relaxed);
        if head.ends {
            self.is_said.store(true, Ordering::Relaxed);
        }
    }

    /// True once the SDK sends no more.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Ends the direction of the SDK: the payload that tells the other end so. `None` if the SDK has told it, or
    /// this is not the first call, or no sequence number is left.
    pub(super) fn say(&self, role: Role) -> Option<Payload> {
        let is_first = !self.is_over.swap(true, Ordering::AcqRel);
        if !is_first || self.is_said.load(Ordering::Relaxed) {
            return None;
        }
        let of_role = match role {
            Role::Initiator => Flags::NONE,
            Role::Terminator => Flags::ORIGINATOR,
        };
        Some(Payload {
            sequence: i32::try_from(self.next.load(Ordering::Relaxed)).ok()?,
            flags: of_role | Flags::CIRCUIT_END | Flags::WRITE_FAILED,
            ..Payload::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(sequence: i32, flags: Flags) -> Head {
        let payload = Payload { sequence, flags, ..Payload::default() };
        Head::of(&payload.into_message("circuit")).unwrap()
    }

    #[test]
    fn the_farewell_comes_after_everything_and_once() {
        let farewell = Farewell::default();
        for sequence in [0, 2, 1] {
            farewell.note(payload(sequence, Flags::NONE));
        }
        assert!(!farewell.is_over());
        let said = farewell.say(Role::Terminator).unwrap();
        let flags = Flags::ORIGINATOR | Flags::CIRCUIT_END | Flags::WRITE_FAILED;
        assert_eq!((said.sequence, said.flags), (3, flags));
        assert!(farewell.is_over());
        assert_eq!(farewell.say(Role::Terminator), None);
        let nothing_sent = Farewell::default().say(Role::Initiator).unwrap();
        assert_eq!(nothing_sent.sequence, 0);
    }

    #[test]
    fn an_sdk_that_has_ended_the_circuit_is_not_spoken_for() {
        let farewell = Farewell::default();
        farewell.note(payload(4, Flags::CIRCUIT_END));
        assert_eq!(farewell.say(Role::Initiator), None);
        let exhausted = Farewell::default();
        exhausted.note(payload(i32::MAX, Flags::NONE));
        assert_eq!(exhausted.say(Role::Initiator), None);
    }
}
