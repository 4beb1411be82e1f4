//! Late refusals (docs/protocol/sdk.md 6.1).
//!
//! Most SDKs ask again as soon as they are refused, whatever the refusal says: a Go SDK binds some thousand
//! times a second at a router that drains. A sender is therefore refused the later the more often it was
//! refused lately, counted from the time when its request came. Requests that are not refused are answered
//! at once, also in between.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weft_circuit::now;
use weft_limits::{BoundedTable, Caps, WhenFull};

use crate::seam::Use;

/// This many refusals in a row are sent at once.
const AT_ONCE: u32 = 8;
/// This many refusals of dials in a row are sent at once: an identity may dial for many programs, and a
/// service may be without a host for a while.
const DIALS_AT_ONCE: u32 = 100;
/// The delay of the first refusal after these; each further one is twice as late as the one before.
const FIRST: Duration = Duration::from_millis(100);
/// The longest delay. A Go SDK waits 5 s for the answer to a bind.
const LONGEST: Duration = Duration::from_secs(4);
/// The longest delay of a dial: a Go SDK dials once more within the 5 s that its application waits.
const LONGEST_OF_DIAL: Duration = Duration::from_secs(1);
/// A sender that was not refused for this time is refused at once again.
const FORGET: Duration = Duration::from_secs(30);
/// Most senders whose refusals are counted; beyond that the one that was not refused for the longest time
/// is forgotten.
const MOST_SENDERS: usize = 10_000;
/// Most refused channels that wait for their close, because anybody with a certificate of their own can open them; more
/// are closed at once. Refusals of requests are limited by their channel.
const MOST_CHANNELS: usize = 1_024;

/// What is refused. Each is counted by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Asked {
    /// A channel; the sender is the certificate that it showed.
    Channel,
    /// A dial or a bind of an identity.
    Use(Use),
}

impl Asked {
    /// How many refusals in a row are sent at once, and the longest delay.
    fn limits(self) -> (u32, Duration) {
        match self {
            Self::Use(Use::Dial) => (DIALS_AT_ONCE, LONGEST_OF_DIAL),
            Self::Use(Use::Bind) | Self::Channel => (AT_ONCE, LONGEST),
        }
    }
}

/// The number of refusals in a row of each sender.
pub(super) struct Patience {
    refused: Mutex<BoundedTable<(String, Asked), u32, ()>>,
    channels: Semaphore,
}

impl Default for Patience {
    fn default() -> Self {
        let caps = Caps {
            total: MOST_SENDERS,
            per_source: MOST_SENDERS,
            max_age: Some(FORGET),
            when_full: WhenFull::EvictOldest,
        };
        let channels = Semaphore::new(MOST_CHANNELS);
        Self { refused: Mutex::new(BoundedTable::new(caps)), channels }
    }
}

impl Patience {
    /// Counts a refusal, and waits until it may be sent to the sender of a request that came at this time,
    /// or until the request is over.
    pub(super) async fn hold(
        &self,
        sender: &str,
        asked: Asked,
        came: Instant,
        over: &CancellationToken,
    ) {
        let late = self.count(sender, asked);
        let _place = match asked {
            Asked::Channel => match self.channels.try_acquire() {
                Ok(place) => Some(place),
                Err(_) => return,
            },
            Asked::Use(_) => None,
        };
        tokio::select! {
            () = tokio::time::sleep_until(came + late) => {}
            () = over.cancelled() => {}
        }
    }

    /// Counts a refusal; returns how long after its request it is to be sent.
    fn count(&self, sender: &str, asked: Asked) -> Duration {
        let (key, now) = ((sender.to_owned(), asked), now());
        let mut refused = self.refused.lock();
        let before = refused.get(&key, now).copied().unwrap_or(0);
        // A table that is full forgets its oldest entry, so that an insertion never fails.
        let _ = refused.insert(key, before.saturating_add(1), (), now);
        let (at_once, longest) = asked.limits();
        match before.checked_sub(at_once) {
            None => Duration::ZERO,
            Some(late) => FIRST.saturating_mul(1 << late.min(16)).min(longest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIND: Asked = Asked::Use(Use::Bind);

    #[test]
    fn refusals_come_later_and_later_for_the_sender_and_the_request_that_is_refused() {
        let patience = Patience::default();
        let refuse = |sender: &str, asked| patience.count(sender, asked).as_millis();
        let late: Vec<u128> = (0..16).map(|_| refuse("host", BIND)).collect();
        assert!(late.iter().take(8).all(|it| *it == 0));
        assert_eq!(late[8..], [100, 200, 400, 800, 1600, 3200, 4000, 4000]);
        assert_eq!(refuse("host", Asked::Use(Use::Dial)), 0);
        assert_eq!(refuse("other", BIND), 0);
        assert_eq!((0..100).map(|_| refuse("host", BIND)).max(), Some(4000));
        let dials: Vec<u128> = (0..110).map(|_| refuse("host", Asked::Use(Use::Dial))).collect();
        assert!(dials.iter().take(99).all(|it| *it == 0));
        assert_eq!(dials[99..104], [100, 200, 400, 800, 1000]);
    }

    #[test]
    fn senders_without_number_take_a_limited_memory() {
        let patience = Patience::default();
        for sender in 0..2 * MOST_SENDERS {
            patience.count(&sender.to_string(), Asked::Channel);
        }
        assert_eq!(patience.refused.lock().len(), MOST_SENDERS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_waits_from_the_time_of_its_request_and_not_for_one_that_is_over() {
        let (patience, over) = (Patience::default(), CancellationToken::new());
        let came = Instant::now();
        for _ in 0..9 {
            patience.hold("host", BIND, came, &over).await;
        }
        assert_eq!(came.elapsed().as_millis(), 100);
        // The request was in work for longer than its refusal is to wait.
        tokio::time::sleep(Duration::from_secs(1)).await;
        patience.hold("host", BIND, came, &over).await;
        assert_eq!(came.elapsed().as_millis(), 1100);
        over.cancel();
        patience.hold("host", BIND, Instant::now(), &over).await;
        assert_eq!(came.elapsed().as_millis(), 1100);
    }

    #[tokio::test(start_paused = true)]
    async fn a_limited_number_of_refused_channels_waits_and_keeps_no_bind_from_waiting() {
        let (patience, over) = (Patience::default(), CancellationToken::new());
        let taken = patience.channels.try_acquire_many(MOST_CHANNELS as u32).unwrap();
        let came = Instant::now();
        for _ in 0..20 {
            patience.hold("stranger", Asked::Channel, came, &over).await;
        }
        assert_eq!(came.elapsed(), Duration::ZERO);
        for _ in 0..9 {
            patience.hold("host", BIND, came, &over).await;
        }
        assert_eq!(came.elapsed().as_millis(), 100);
        drop(taken);
        patience.hold("stranger", Asked::Channel, came, &over).await;
        assert_eq!(came.elapsed(), LONGEST);
        assert_eq!(patience.channels.available_permits(), MOST_CHANNELS);
    }
}
