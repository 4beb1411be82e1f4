//! Limits the logins that wait for a turn, in all, for each source, and for the networks around a source. Each of them
//! is a request of the web server in work, so that they must not use up the requests of others.

use std::net::IpAddr;
use std::sync::Arc;

use weft_limits::{FairSemaphore, Network, Permit, Quota};

/// Most waiting logins of all sources.
const ALL: usize = 512;
/// A source may have as many waiting logins as places are free, divided by this number: a single one has a third of
/// all places, and some are left for every further source. Networks with many sources have more shares.
const SHARE: usize = 2;

/// The networks of waiting logins; none for programs in this process.
type Origin = Option<Network>;

/// The logins that wait. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct WaitingLogins(Arc<FairSemaphore<Origin>>);

/// A login that waits, until it is dropped.
pub(crate) type WaitingLogin = Permit<Origin>;

impl Default for WaitingLogins {
    fn default() -> Self {
        let wider = |origin: &Origin| origin.and_then(|network| network.wider()).map(Some);
        let room = |origin: &Origin, each: usize, own: usize| {
            origin.map_or(each, |network| network.room(each, own))
        };
        Self(FairSemaphore::new(Quota::nested(ALL, ALL, wider, room)))
    }
}

impl WaitingLogins {
    /// Lets a login of a source wait; none if too many wait already.
    pub(crate) fn begin(&self, source: Option<IpAddr>) -> Option<WaitingLogin> {
        self.0.try_acquire_with(source.map(Network::of), |free| free.div_ceil(SHARE)).ok()
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
        assert_eq!(waiting.0.used(), 0);
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
