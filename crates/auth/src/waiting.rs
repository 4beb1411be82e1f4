//! Limits the logins that wait for a turn, in all, for each source, and for the networks around a source. Each of them
//! is a request of the web server in work, so that they must not use up the requests of others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use weft_limits::{Network, networks_of};

/// Most waiting logins of all sources.
const ALL: usize = 512;
/// A source may have as many waiting logins as places are free, divided by this number: a single one has a third of
/// all places, and some are left for every further source. Networks with many sources have more shares.
const SHARE: usize = 2;

/// The logins that wait. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct WaitingLogins(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    /// Of programs in this process.
    own: usize,
    /// Networks without a waiting login are not in the map.
    by_network: HashMap<Network, usize>,
}

/// A login that waits, until it is dropped.
#[derive(Debug)]
pub(crate) struct WaitingLogin {
    counts: Arc<Mutex<Counts>>,
    source: Option<IpAddr>,
}

impl WaitingLogins {
    /// Lets a login of a source wait; none if too many wait already.
    pub(crate) fn begin(&self, source: Option<IpAddr>) -> Option<WaitingLogin> {
        let mut counts = self.0.lock();
        let share = ALL.saturating_sub(counts.all).div_ceil(SHARE);
        let has_room = match source {
            None => counts.own < share,
            Some(source) => networks_of(source).all(|network| {
                counts.by_network.get(&network).copied().unwrap_or_default()
                    < share.saturating_mul(network.shares())
            }),
        };
        if !has_room || counts.all >= ALL {
            return None;
        }
        match source {
            None => counts.own += 1,
            Some(source) => networks_of(source)
                .for_each(|network| *counts.by_network.entry(network).or_default() += 1),
        }
        counts.all += 1;
        Some(WaitingLogin { counts: Arc::clone(&self.0), source })
    }
}

impl Drop for WaitingLogin {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        counts.all = counts.all.saturating_sub(1);
        let Some(source) = self.source else {
            counts.own = counts.own.saturating_sub(1);
            return;
        };
        for network in networks_of(source) {
            let left = counts.by_network.get_mut(&network).map_or(0, |held| {
                *held = held.saturating_sub(1);
                *held
            });
            if left == 0 {
                counts.by_network.remove(&network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_of_some_sources_wait_others_may_wait_too() {
        let waiting = WaitingLogins::default();
        let all = |host: u8| -> Vec<_> {
            let source = Some(IpAddr::from([192, 0, 2, host]));
            std::iter::from_fn(|| waiting.begin(source)).collect()
        };
        let greedy = all(1);
        assert_eq!(greedy.len(), 171, "a third");
        let others: Vec<_> = (2..10).map(all).collect();
        assert_eq!(others[0].len(), 114, "a third of the rest");
        assert!(others.iter().all(|own| !own.is_empty()));
        let (own, all_others) = (greedy.len(), others.iter().map(Vec::len).sum::<usize>());
        assert!(own + all_others <= ALL);
        drop((greedy, others));
        assert!(waiting.0.lock().by_network.is_empty());
        assert_eq!(all(1).len(), 171);
    }

    #[test]
    fn the_owner_of_a_large_network_of_ipv6_leaves_room_for_others() {
        let waiting = WaitingLogins::default();
        let of = |site: u16, number: u16| -> Vec<_> {
            let source = Some([0x2001, 0xdb8, site, number, 0, 0, 0, 1].into());
            std::iter::from_fn(|| waiting.begin(source)).collect()
        };
        let greedy: Vec<_> = (0..256).flat_map(|number| of(1, number)).collect();
        assert_eq!(greedy.len(), 256, "a /56 has half");
        let more: Vec<_> = (1..250).flat_map(|number| of(1, number << 8)).collect();
        assert!((305..=310).contains(&(256 + more.len())), "a /48 three fifths: {}", more.len());
        assert!(of(2, 0).len() > 50);
        assert!(waiting.begin(None).is_some());
    }
}
