//! Limits the logins that wait for a turn, in all and for each source. Each of them is a request of the web server
//! in work, so that they must not use up the requests of others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// Most waiting logins of all sources.
const ALL: usize = 512;
/// A source may have as many waiting logins as places are free, divided by this number: a single one has a third of
/// all places, and some are left for every further source.
const SHARE: usize = 2;

/// The logins that wait. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct WaitingLogins(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    /// Sources without a waiting login are not in the map.
    by_source: HashMap<Option<IpAddr>, usize>,
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
        let most = ALL.saturating_sub(counts.all).div_ceil(SHARE);
        let own = counts.by_source.get(&source).copied().unwrap_or_default();
        if own >= most {
            return None;
        }
        counts.by_source.insert(source, own + 1);
        counts.all += 1;
        Some(WaitingLogin { counts: Arc::clone(&self.0), source })
    }
}

impl Drop for WaitingLogin {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        counts.all = counts.all.saturating_sub(1);
        let left = counts.by_source.get_mut(&self.source).map_or(0, |own| {
            *own = own.saturating_sub(1);
            *own
        });
        if left == 0 {
            counts.by_source.remove(&self.source);
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
        assert!(waiting.0.lock().by_source.is_empty());
        assert_eq!(all(1).len(), 171);
    }
}
