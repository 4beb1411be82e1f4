//! Bounds the lines of a log that others cause: a few at once, then one at intervals with the number left out.

use std::time::{Duration, Instant};

use crate::TokenBucket;

/// Lines at once.
const AT_ONCE: u32 = 10;
/// The interval of further lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// Lines of a log on one subject: ten at once, and one more every ten seconds.
#[derive(Debug, Clone)]
pub struct LogLines {
    bucket: TokenBucket,
    left_out: u64,
}

impl LogLines {
    /// No line was logged so far.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self { bucket: TokenBucket::every(INTERVAL, AT_ONCE, now), left_out: 0 }
    }

    /// The number of lines that were left out since the last one, if a line is to be logged now.
    pub fn due(&mut self, now: Instant) -> Option<u64> {
        if self.bucket.try_take(1, now) {
            return Some(std::mem::take(&mut self.left_out));
        }
        self.left_out += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_counted() {
        let start = Instant::now();
        let mut lines = LogLines::new(start);
        let due = (0..1000).filter_map(|_| lines.due(start)).collect::<Vec<_>>();
        assert_eq!(due, [0; AT_ONCE as usize]);
        let later = start + INTERVAL;
        assert_eq!((lines.due(later), lines.due(later)), (Some(990), None));
        assert_eq!(lines.due(later + INTERVAL), Some(1));
    }
}
