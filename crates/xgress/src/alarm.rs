//! When an end is to be looked at next.
//!
//! One deadline is armed at a time. One that moves away costs nothing: what was armed fires, the end
//! looks again, and the new one is armed. One that comes nearer is armed beside what it overtakes,
//! which fires without effect; were it armed again, an end that is always busy would gather ever
//! more of them.

use std::time::Instant;

/// The deadline of an end that is armed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alarm(Option<Instant>);

impl Alarm {
    /// What is to be armed now that this is the deadline, if anything is.
    #[must_use]
    pub fn want(&mut self, deadline: Instant) -> Option<Instant> {
        if self.0.is_some_and(|armed| armed <= deadline) {
            return None;
        }
        self.0 = Some(deadline);
        self.0
    }

    /// What was armed for this time fires. False if it was overtaken: then nothing is to be done.
    #[must_use]
    pub fn fires(&mut self, at: Instant) -> bool {
        let counts = self.0 == Some(at);
        if counts {
            self.0 = None;
        }
        counts
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
        assert_eq!(alarm.want(at(12)), Some(at(12)));
        assert!(!alarm.fires(at(9)), "overtaken");
        assert_eq!(alarm.want(at(12)), None, "armed already");
        assert!(alarm.fires(at(12)));
    }

    proptest! {
        /// However the deadline moves: nothing is missed, and what is under way beyond the one that
        /// counts is only what was overtaken.
        #[test]
        fn deadlines_are_met_and_do_not_pile_up(moves in prop::collection::vec(1_u64..50, 1..200)) {
            let start = Instant::now();
            let at = |step: u64| start + Duration::from_secs(step);
            let (mut alarm, mut armed, mut overtaken) = (Alarm::default(), Vec::new(), 0_usize);
            for (now, ahead) in moves.into_iter().enumerate() {
                let now = now as u64;
                let deadline = at(now + ahead);
                let due: Vec<Instant> = armed.extract_if(.., |due| *due <= at(now)).collect();
                for due in due {
                    if !alarm.fires(due) {
                        overtaken -= 1;
                    }
                }
                let counted = alarm.0.is_some();
                if let Some(new) = alarm.want(deadline) {
                    overtaken += usize::from(counted);
                    armed.push(new);
                }
                prop_assert!(armed.iter().any(|due| *due <= deadline), "missed");
                prop_assert_eq!(armed.len(), overtaken + 1);
            }
        }
    }
}
