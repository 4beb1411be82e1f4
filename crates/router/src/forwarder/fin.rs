//! The end of a direction, held back for the close that often follows it.
//!
//! C SDKs before 0.36.0 may crash when the end of a direction and the close of the circuit arrive
//! together: the close frees the part of the SDK that is half-closing the application's socket. An
//! application that closes its socket ends its direction and then the circuit, so that an SDK usually
//! gets both at once. A close that arrives in time is sent alone, because a close ends the direction,
//! too. A close that arrives later waits in the queue of the end until the SDK must have handled the
//! end of the direction, however busy the SDK is.

use std::time::{Duration, Instant};

use weft_wire::payload::PayloadHeaders;
use weft_xgress::{Delivery, End};

/// How long the end of a direction waits for a close.
pub(crate) const FIN_HOLD: Duration = Duration::from_millis(20);
/// How long a close waits after the SDK was sent the end of the direction, as a multiple of the
/// hold.
const CLOSE_HOLDS: u32 = 25;

/// The state of the end of one direction.
#[derive(Debug)]
pub(super) struct HeldFin {
    hold: Option<Duration>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The direction has not ended.
    Open,
    /// The direction has ended; the SDK is sent this end at the given time, unless a close comes
    /// first.
    Held(PayloadHeaders, Instant),
    /// The SDK was sent the end of the direction; a close waits until this time.
    Told(Instant),
}

impl HeldFin {
    /// Holds the ends of directions back for `hold`; with `None` they are sent at once.
    pub(super) fn new(hold: Option<Duration>) -> Self {
        Self { hold, state: State::Open }
    }

    /// True if a delivery for the SDK is due now.
    pub(super) fn wants_read(&self, end: &End, now: Instant) -> bool {
        match &self.state {
            State::Open => end.wants_read(),
            State::Held(_, until) => end.wants_read() || now >= *until,
            State::Told(until) => end.wants_read() && now >= *until,
        }
    }

    /// The next delivery for the SDK.
    pub(super) fn read(&mut self, end: &mut End, now: Instant) -> Option<Delivery> {
        match std::mem::replace(&mut self.state, State::Open) {
            State::Open => self.read_open(end, now),
            State::Held(..) if end.closed().is_some() => end.read(),
            State::Held(headers, until) if now >= until => {
                let hold = self.hold.unwrap_or_default();
                self.state = State::Told(now + hold * CLOSE_HOLDS);
                Some(Delivery::Fin { headers })
            }
            State::Told(until) if now >= until => end.read(),
            waiting => {
                self.state = waiting;
                None
            }
        }
    }

    fn read_open(&mut self, end: &mut End, now: Instant) -> Option<Delivery> {
        match (end.read()?, self.hold) {
            (Delivery::Fin { .. }, Some(_)) if end.closed().is_some() => end.read(),
            (Delivery::Fin { headers }, Some(hold)) => {
                self.state = State::Held(headers, now + hold);
                None
            }
            (delivery, _) => Some(delivery),
        }
    }

    /// The time until which the end of the direction, or the close, is held back.
    pub(super) fn until(&self, end: &End) -> Option<Instant> {
        match &self.state {
            State::Held(_, until) => Some(*until),
            State::Told(until) if end.wants_read() => Some(*until),
            State::Open | State::Told(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_limits::Budget;
    use weft_xgress::{Options, Role};

    use super::*;

    /// The terminating end of a circuit, whose dialer has sent data and then ended its direction;
    /// and the dialer's end.
    fn ended(now: Instant) -> (End, End) {
        let (options, budget) = (Options::default(), Budget::unlimited());
        let mut dialer = End::new(Role::Initiator, &options, &budget, now);
        let mut host = End::new(Role::Terminator, &options, &budget, now);
        dialer.write("hello".into()).unwrap();
        dialer.finish(now);
        pass(&mut dialer, &mut host, now);
        (dialer, host)
    }

    fn pass(from: &mut End, to: &mut End, now: Instant) {
        while let Some(payload) = from.poll_transmit(now) {
            to.on_payload(payload, now);
        }
        if let Some(ack) = to.poll_ack() {
            from.on_ack(&ack, now);
        }
    }

    #[test]
    fn data_is_not_held_and_an_end_waits_its_time() {
        let now = Instant::now();
        let (_dialer, mut host) = ended(now);
        let mut fin = HeldFin::new(Some(FIN_HOLD));
        assert!(matches!(fin.read(&mut host, now), Some(Delivery::Data { .. })));
        assert_eq!(fin.read(&mut host, now), None);
        assert_eq!(fin.read(&mut host, now), None);
        let until = fin.until(&host).unwrap();
        assert!(matches!(fin.read(&mut host, until), Some(Delivery::Fin { .. })));
        assert_eq!((fin.read(&mut host, until), fin.until(&host)), (None, None));
    }

    #[test]
    fn a_close_in_time_comes_alone() {
        let now = Instant::now();
        for held in [false, true] {
            let (mut dialer, mut host) = ended(now);
            let mut fin = HeldFin::new(Some(FIN_HOLD));
            assert!(matches!(fin.read(&mut host, now), Some(Delivery::Data { .. })));
            if held {
                assert_eq!(fin.read(&mut host, now), None);
            }
            dialer.abort();
            pass(&mut dialer, &mut host, now);
            assert!(matches!(fin.read(&mut host, now), Some(Delivery::Closed(_))));
            assert_eq!((fin.read(&mut host, now), fin.until(&host)), (None, None));
        }
    }

    #[test]
    fn a_close_behind_an_end_that_was_told_waits_longer() {
        let now = Instant::now();
        let (mut dialer, mut host) = ended(now);
        let mut fin = HeldFin::new(Some(FIN_HOLD));
        assert!(matches!(fin.read(&mut host, now), Some(Delivery::Data { .. })));
        assert_eq!(fin.read(&mut host, now), None);
        let told = fin.until(&host).unwrap();
        assert!(matches!(fin.read(&mut host, told), Some(Delivery::Fin { .. })));
        dialer.abort();
        pass(&mut dialer, &mut host, told);
        assert_eq!(fin.read(&mut host, told), None);
        assert!(!fin.wants_read(&host, told), "it would be asked again and again");
        let until = fin.until(&host).unwrap();
        assert_eq!(until - told, FIN_HOLD * CLOSE_HOLDS);
        assert!(matches!(fin.read(&mut host, until), Some(Delivery::Closed(_))));
        assert_eq!((fin.read(&mut host, until), fin.until(&host)), (None, None));
    }

    #[test]
    fn others_are_told_both() {
        let now = Instant::now();
        let (mut dialer, mut host) = ended(now);
        dialer.abort();
        pass(&mut dialer, &mut host, now);
        let mut fin = HeldFin::new(None);
        assert!(matches!(fin.read(&mut host, now), Some(Delivery::Data { .. })));
        assert!(matches!(fin.read(&mut host, now), Some(Delivery::Fin { .. })));
        assert!(matches!(fin.read(&mut host, now), Some(Delivery::Closed(_))));
    }
}
