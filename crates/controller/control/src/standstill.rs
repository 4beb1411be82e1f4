//! A controller that stood still, for example because it was stopped or its machine swapped, finds requests that nobody
//! waits for any more. A circuit that is made for one of them is an accident: the host takes a connection whose client has gone, and
//! hosts of OpenZiti wait for that client before they take the next one. So what was asked meanwhile is refused.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The interval at which the controller notes that it runs.
pub(crate) const TICK: Duration = Duration::from_millis(500);
/// The time without a note, by the steady clock, after which the controller stood still. Clients of OpenZiti wait 5 s for a circuit.
const STILL: Duration = Duration::from_secs(4);
/// The time for which requests are refused after that: those that wait are read meanwhile.
const AFTERWARDS: Duration = Duration::from_secs(1);

/// Whether this process stood still a moment ago.
#[derive(Debug)]
pub(crate) struct Standstill {
    began: Instant,
    /// Milliseconds since the beginning: when the process was last seen to run, and until when requests are refused.
    seen: AtomicU64,
    refused_until: AtomicU64,
}

impl Default for Standstill {
    fn default() -> Self {
        let (seen, refused_until) = Default::default();
        Self { began: Instant::now(), seen, refused_until }
    }
}

impl Standstill {
    /// Whether what is asked now was asked while the process stood still, or may have been. Notes that the process runs.
    pub(crate) fn is_over_just_now(&self, now: Instant) -> bool {
        let now = now.saturating_duration_since(self.began).as_millis() as u64;
        let still = |before: u64| u128::from(now.saturating_sub(before)) > STILL.as_millis();
        if still(self.seen.load(Ordering::Acquire)) {
            // Before anybody can see that the process runs again.
            self.refused_until.fetch_max(now + AFTERWARDS.as_millis() as u64, Ordering::AcqRel);
        }
        let before = self.seen.fetch_max(now, Ordering::AcqRel);
        if still(before) {
            tracing::warn!(
                seconds = now.saturating_sub(before) / 1_000,
                "this controller stood still: requests for circuits from that time are refused"
            );
        }
        now < self.refused_until.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waited_during_a_standstill_is_refused_and_what_comes_later_is_not() {
        let standstill = Standstill::default();
        for (millis, expected) in [
            (0, false),
            (3_900, false),
            (7_900, false),
            (11_901, true),
            (12_000, true),
            // A request that was noted by another thread a moment earlier.
            (11_950, true),
            (12_900, true),
            (12_901, false),
            (60_000, true),
            (61_000, false),
        ] {
            let now = standstill.began + Duration::from_millis(millis);
            assert_eq!(standstill.is_over_just_now(now), expected, "{millis}");
        }
    }
}
