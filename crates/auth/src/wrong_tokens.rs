//! Limits the tokens of external signers with a wrong signature by source, and for the networks around a source, before
//! a signature is verified. Right
//! tokens cost nothing, nor do those that have expired: many clients of one source may wake up with old tokens.

use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use weft_limits::{BoundedTable, Caps, Network, TokenBucket, WhenFull, networks_of};

/// Most networks that are remembered; above that the oldest one is forgotten.
const KEPT: usize = 10_000;
/// After this time without a wrong token a network is as good as new.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// Counts of wrong tokens.
#[derive(Debug)]
pub(crate) struct WrongTokens {
    counts: Mutex<BoundedTable<Network, TokenBucket, Network>>,
    /// Wrong tokens of a source in a minute; 0 = no limit. Larger networks have more.
    per_minute: u32,
}

impl WrongTokens {
    pub(crate) fn new(per_minute: u32) -> Self {
        let caps = Caps {
            total: KEPT,
            per_source: 1,
            max_age: Some(FORGOTTEN),
            when_full: WhenFull::EvictOldest,
        };
        Self { counts: Mutex::new(BoundedTable::new(caps)), per_minute }
    }

    /// Whether a source may show a token; the error is the time after which to try again.
    pub(crate) fn check(&self, from: Option<IpAddr>) -> Result<(), Duration> {
        let now = Instant::now().into_std();
        let mut counts = self.counts.lock();
        let waits = from.into_iter().flat_map(networks_of).filter_map(|network| {
            counts.get_mut(&network, now).and_then(|bucket| bucket.wait_for(1, now))
        });
        waits.max().filter(|wait| !wait.is_zero()).map_or(Ok(()), Err)
    }

    /// Notes that a source showed a wrong token.
    pub(crate) fn note(&self, from: Option<IpAddr>) {
        let Some(from) = from.filter(|_| self.per_minute > 0) else { return };
        let now = Instant::now().into_std();
        let mut counts = self.counts.lock();
        for network in networks_of(from) {
            let most = self.per_minute.saturating_mul(network.shares() as u32);
            let known = counts.remove(&network);
            let rate = f64::from(most) / 60.0;
            let mut bucket = known.unwrap_or_else(|| TokenBucket::new(rate, most, now));
            bucket.try_take(1, now);
            counts.expire(now);
            if counts.len() >= KEPT {
                // The table itself would look for the source with the most entries, of which each has one.
                counts.pop_oldest();
            }
            let _ = counts.insert(network, bucket, network, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_source_of_wrong_tokens_waits_and_others_do_not() {
        let wrong = WrongTokens::new(100);
        let at = |last: u8| Some(IpAddr::from([192, 0, 2, last]));
        for _ in 0..100 {
            wrong.check(at(1)).unwrap();
            wrong.note(at(1));
        }
        let wait = wrong.check(at(1)).unwrap_err();
        assert!(wait <= Duration::from_secs(1), "{wait:?}");
        assert_eq!((wrong.check(at(2)), wrong.check(None)), (Ok(()), Ok(())));
        tokio::time::advance(wait * 2).await;
        wrong.check(at(1)).unwrap();
        for number in 0..3 * KEPT as u32 {
            wrong.note(Some(std::net::Ipv4Addr::from(number).into()));
        }
        assert_eq!(wrong.counts.lock().len(), KEPT);
        let site = |number: u16| Some([0x2001, 0xdb8, 1, number, 0, 0, 0, 1].into());
        let shown = (0..1000).map(site).take_while(|from| wrong.check(*from).is_ok());
        assert_eq!(shown.inspect(|from| wrong.note(*from)).count(), 200, "a /56");
        let off = WrongTokens::new(0);
        (0..1000).for_each(|_| off.note(at(1)));
        assert_eq!(off.check(at(1)), Ok(()));
    }
}
