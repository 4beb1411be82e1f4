//! The next time at which an end has to be looked at.
//!
//! One deadline counts at a time. A deadline that moves later costs nothing: the armed one fires, the end is
//! looked at, and the new one is armed. A deadline that moves earlier is armed in addition to the one that it
//! overtakes. The overtaken one is remembered, and counts again after the earlier one has fired: otherwise an end
//! that paces its payloads between two acks would arm its time-out again and again.

use std::time::Instant;

/// The armed deadlines of an end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alarm {
    /// The deadline that counts.
    next: Option<Instant>,
    /// The overtaken deadline, which is armed as well and is not earlier.
    later: Option<Instant>,
}

impl Alarm {
    /// The deadline to arm now, if `deadline` is not covered by an armed one.
    #[must_use]
    pub fn want(&mut self, deadline: Instant) -> Option<Instant> {
        if self.next.is_some_and(|armed| armed <= deadline) {
            return None;
        }
        let overtaken = self.next.take();
        if self.later.is_some_and(|armed| armed <= deadline) {
            self.next = self.later.take();
            return None;
        }
        // The earlier of both is kept, because it is useful first.
        self.later = [overtaken, self.later].into_iter().flatten().min();
        self.next = Some(deadline);
        self.next
    }

    /// The deadline armed for this time fires. False if the deadline was overtaken: the end need not be
    /// looked at then.
    #[must_use]
    pub fn fires(&mut self, at: Instant) -> bool {
        if self.next == Some(at) {
            self.next = None;
            return true;
        }
        if self.later == Some(at) {
            self.later = None;
            return self.next.is_none();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_overtaken_fires_without_effect() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut alarm = Alarm::default();
        assert_eq!(alarm.want(at(9)), Some(at(9)));
        assert_eq!(alarm.want(at(10)), None);
        assert_eq!(alarm.want(at(3)), Some(at(3)));
        assert!(alarm.fires(at(3)));
        assert_eq!(alarm.want(at(12)), None, "what was overtaken comes first");
        assert!(alarm.fires(at(9)));
        assert_eq!(alarm.want(at(12)), Some(at(12)));
        assert_eq!(alarm.want(at(11)), Some(at(11)));
        assert_eq!(alarm.want(at(10)), Some(at(10)));
        assert!(alarm.fires(at(10)));
        assert_eq!(alarm.want(at(14)), None);
        assert!(alarm.fires(at(11)));
        assert_eq!(alarm.want(at(14)), Some(at(14)));
        assert!(!alarm.fires(at(12)), "overtaken twice");
    }

    /// A busy end: it waits for its pace again and again, and for an ack that always comes.
    #[test]
    fn a_pace_does_not_pile_up_time_outs() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let (mut alarm, mut armed) = (Alarm::default(), Vec::new());
        for now in 0..1000 {
            let due: Vec<Instant> = armed.extract_if(.., |due| *due <= at(now)).collect();
            for due in due {
                let _ = alarm.fires(due);
            }
            for deadline in [now + 200, now + 1] {
                armed.extend(alarm.want(at(deadline)));
            }
        }
        assert!(armed.len() <= 3, "{} are armed", armed.len());
    }

    proptest! {
        /// Whatever the moves of the deadline, no deadline is missed, and alarms beyond the present
        /// one are only those that were overtaken.
        #[test]
        fn deadlines_are_met_and_do_not_pile_up(moves in prop::collection::vec(1_u64..50, 1..200)) {
            let start = Instant::now();
            let at = |step: u64| start + Duration::from_secs(step);
            let (mut alarm, mut armed, mut asked) = (Alarm::default(), Vec::new(), 0_usize);
            for (now, ahead) in moves.into_iter().enumerate() {
                let now = now as u64;
                let deadline = at(now + ahead);
                let due: Vec<Instant> = armed.extract_if(.., |due| *due <= at(now)).collect();
                for due in due {
                    let _ = alarm.fires(due);
                }
                let new = alarm.want(deadline);
                asked += usize::from(new.is_some());
                armed.extend(new);
                prop_assert!(armed.iter().any(|due| *due <= deadline), "missed");
                prop_assert!(alarm.next.is_some_and(|next| next <= deadline && armed.contains(&next)));
                prop_assert!(alarm.later.is_none_or(|later| armed.contains(&later)));
                prop_assert!(armed.len() <= asked);
            }
        }
    }
}
