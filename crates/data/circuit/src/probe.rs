//! How long messages wait for a neighbour, measured by following one message at a time.
//!
//! The queueing side asks whether to follow a message: one load of a cell that hardly ever changes. The side that
//! takes the message out ends the sample. Samples have a pause between them, so that a busy neighbour costs no
//! more than a quiet one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clock::now;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU8, Ordering};

/// The pause between the end of one sample and the beginning of the next.
const PAUSE: Duration = Duration::from_millis(50);
/// Most times that are kept until they are asked for.
const KEPT: usize = 128;
/// A message that has waited for this long is reported before it leaves, because it may never leave.
const LONG: Duration = Duration::from_secs(1);

const FREE: u8 = 0;
const TAKEN: u8 = 1;
const PAUSING: u8 = 2;

/// Measures how long messages to one neighbour wait.
#[derive(Debug, Default)]
pub struct Probe {
    state: AtomicU8,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    waits: Vec<Duration>,
    /// The time since which the followed message waits.
    since: Option<Instant>,
    /// The time at which the last sample ended.
    ended: Option<Instant>,
}

impl Probe {
    /// Called when a message begins to wait: a sample if it is to be followed.
    pub fn begin(self: &Arc<Self>) -> Option<Sample> {
        if self.state.load(Ordering::Relaxed) != FREE {
            return None;
        }
        let taken = self.state.compare_exchange(FREE, TAKEN, Ordering::AcqRel, Ordering::Relaxed);
        taken.ok()?;
        let since = now();
        self.inner.lock().since = Some(since);
        Some(Sample { probe: Arc::clone(self), since })
    }

    /// Called when a connection takes messages: the next sample may begin after the pause.
    pub(crate) fn rest(&self, now: Instant) {
        if self.state.load(Ordering::Relaxed) != PAUSING {
            return;
        }
        let ended = self.inner.lock().ended;
        if ended.is_none_or(|ended| now.saturating_duration_since(ended) >= PAUSE) {
            let _ = self.state.compare_exchange(PAUSING, FREE, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// The waiting times of messages followed since the last call, and that of one that still waits for long.
    pub fn take(&self, now: Instant) -> Vec<Duration> {
        let inner = &mut *self.inner.lock();
        let mut waits = std::mem::take(&mut inner.waits);
        let still = inner.since.map(|since| now.saturating_duration_since(since));
        waits.extend(still.filter(|still| *still >= LONG));
        waits
    }
}

/// A message that is followed. If the sample is dropped, the message was not sent, and nothing is noted.
#[derive(Debug)]
pub struct Sample {
    probe: Arc<Probe>,
    since: Instant,
}

impl Sample {
    /// A connection took the message.
    pub fn taken(self, now: Instant) {
        let mut inner = self.probe.inner.lock();
        if inner.waits.len() < KEPT {
            inner.waits.push(now.saturating_duration_since(self.since));
        }
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        {
            let inner = &mut *self.probe.inner.lock();
            (inner.since, inner.ended) = (None, Some(now()));
        }
        self.probe.state.store(PAUSING, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_is_followed_at_a_time_and_then_there_is_a_pause() {
        let probe = Arc::new(Probe::default());
        let sample = probe.begin().unwrap();
        assert!(probe.begin().is_none());
        let since = sample.since;
        sample.taken(since + Duration::from_millis(3));
        assert!(probe.begin().is_none(), "a pause");
        let now = now();
        assert_eq!(probe.take(now), [Duration::from_millis(3)]);
        assert!(probe.take(now).is_empty());
        probe.rest(now + PAUSE);
        // A message that is lost says nothing about the neighbour.
        drop(probe.begin().unwrap());
        assert!(probe.take(now + LONG).is_empty());
    }

    #[test]
    fn a_message_that_gets_nowhere_is_told_of() {
        let probe = Arc::new(Probe::default());
        let sample = probe.begin().unwrap();
        assert!(probe.take(sample.since + LONG / 2).is_empty());
        for seconds in [1, 5, 10] {
            let waited = Duration::from_secs(seconds);
            assert_eq!(probe.take(sample.since + waited), [waited]);
        }
    }
}
