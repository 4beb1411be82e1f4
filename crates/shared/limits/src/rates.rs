//! How often the sources of a network may do something.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::{BoundedTable, Caps, Network, TokenBucket, WhenFull, networks_of};

/// Limits how often something may happen, for each source and for the networks around it ([`Network::room`]).
#[derive(Debug)]
pub struct NetworkRates {
    buckets: BoundedTable<Network, TokenBucket, ()>,
    per_second: f64,
    at_once: u32,
    /// After this time without an event a network is as good as new.
    forgotten: Duration,
}

impl NetworkRates {
    /// `at_once` events of each source, and `per_second` in the long run; larger networks have more. So many networks are
    /// remembered, and the oldest one is forgotten if there are more. Networks without an event are forgotten after a time.
    #[must_use]
    pub fn new(per_second: f64, at_once: u32, most: usize, forgotten: Duration) -> Self {
        let caps = Caps {
            total: most,
            per_source: most,
            max_age: Some(forgotten),
            when_full: WhenFull::EvictOldest,
        };
        Self { buckets: BoundedTable::new(caps), per_second, at_once, forgotten }
    }

    /// The time until a source may cause one more event; zero if it may now.
    pub fn wait(&mut self, source: IpAddr, now: Instant) -> Duration {
        let share = self.at_once as usize;
        let own = share - self.left(source, now).min(share);
        let waits = networks_of(source).map(|network| {
            let kept = share.saturating_mul(network.shares()) - network.room(share, own);
            self.wait_of(network, kept, now)
        });
        waits.max().unwrap_or_default()
    }

    /// The time until a source may cause one more event by its own share, whatever other sources of its networks did.
    pub fn own_wait(&mut self, source: IpAddr, now: Instant) -> Duration {
        networks_of(source).next_back().map_or(Duration::ZERO, |own| self.wait_of(own, 0, now))
    }

    /// Counts an event of a source.
    pub fn count(&mut self, source: IpAddr, now: Instant) {
        for network in networks_of(source) {
            let shares = network.shares() as u32;
            let known = self.buckets.remove(&network);
            let mut bucket = known.unwrap_or_else(|| {
                let at_once = self.at_once.saturating_mul(shares);
                TokenBucket::new(self.per_second * f64::from(shares), at_once, now)
            });
            bucket.try_take(1, now);
            // The age of the entry begins anew. The table always has room, because it evicts others.
            let _ = self.buckets.insert(network, bucket, (), now);
        }
    }

    /// Counts an event of a source if it may cause one; the error is the time after which to try again.
    pub fn take(&mut self, source: IpAddr, now: Instant) -> Result<(), Duration> {
        let wait = self.wait(source, now);
        if !wait.is_zero() {
            return Err(wait);
        }
        self.count(source, now);
        Ok(())
    }

    /// Networks that are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Whether no network is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// What a source has left of its own share.
    fn left(&mut self, source: IpAddr, now: Instant) -> usize {
        let own = networks_of(source).next_back();
        let bucket = own.and_then(|own| self.buckets.get_mut(&own, now));
        bucket.map_or(self.at_once, |bucket| bucket.available(now)) as usize
    }

    /// The time until a network has one event more than `kept`.
    fn wait_of(&mut self, network: Network, kept: usize, now: Instant) -> Duration {
        let wanted = u32::try_from(kept).unwrap_or(u32::MAX).saturating_add(1);
        let bucket = self.buckets.get_mut(&network, now);
        bucket.map_or(Duration::ZERO, |it| it.wait_for(wanted, now).unwrap_or(self.forgotten))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn rates() -> NetworkRates {
        NetworkRates::new(100.0 / 60.0, 100, 1000, MINUTE)
    }

    fn site(number: u16) -> IpAddr {
        [0x2001, 0xdb8, 1, number, 0, 0, 0, 1].into()
    }

    fn taken(rates: &mut NetworkRates, from: IpAddr, now: Instant) -> usize {
        (0..1000).take_while(|_| rates.take(from, now).is_ok()).count()
    }

    #[test]
    fn three_sources_that_take_all_they_can_leave_something_to_the_others_of_their_network() {
        let (mut rates, now) = (rates(), Instant::now());
        let greedy = [0x100, 0x200, 0x300].map(|number| taken(&mut rates, site(number), now));
        assert_eq!(greedy, [100, 100, 50]);
        assert!(!rates.wait(site(0x100), now).is_zero());
        assert!((0x400..0x408).all(|number| rates.take(site(number), now).is_ok()));
        // What is left is a source's own beginning, and ends, too.
        let others = (0x1000..0x2000).map(|number| taken(&mut rates, site(number), now));
        assert_eq!(others.sum::<usize>(), 50 - 8);
        assert!(!rates.wait(site(0x3000), now).is_zero());
        assert!(rates.own_wait(site(0x3000), now).is_zero());
        assert!(!rates.own_wait(site(0x100), now).is_zero());
        assert!(rates.wait([0x2001, 0xdb8, 2, 0, 0, 0, 0, 1].into(), now).is_zero());
        assert!(rates.wait(site(0x100), now + MINUTE).is_zero());
    }

    #[test]
    fn a_refusal_takes_nothing_and_the_table_has_a_bound() {
        let (mut rates, now) = (rates(), Instant::now());
        let at = |number: u32| IpAddr::from(std::net::Ipv4Addr::from(number));
        assert_eq!(taken(&mut rates, at(1), now), 100);
        let wait = rates.take(at(1), now).unwrap_err();
        (0..50).for_each(|_| assert_eq!(rates.take(at(1), now), Err(wait)));
        assert_eq!(rates.take(at(1), now + wait), Ok(()));
        (2..5000).for_each(|number| rates.count(at(number), now));
        assert_eq!(rates.len(), 1000);
        assert!(!rates.is_empty());
    }
}
