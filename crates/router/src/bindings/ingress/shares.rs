//! Places for sources, so that none of them takes all.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A limited number of places for each source.
#[derive(Debug)]
pub(super) struct Shares {
    each: usize,
    /// Sources that have a place or wait for one.
    known: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
}

impl Shares {
    pub(super) fn new(each: usize) -> Arc<Self> {
        Arc::new(Self { each, known: Mutex::default() })
    }

    /// Takes a place for a source; `None` if it has all of its places.
    pub(super) fn try_take(self: &Arc<Self>, source: IpAddr) -> Option<Share> {
        let mut share = self.empty(source);
        share.permit = Some(Arc::clone(share.places.as_ref()?).try_acquire_owned().ok()?);
        Some(share)
    }

    /// Takes a place for a source, when one is free.
    pub(super) async fn take(self: &Arc<Self>, source: IpAddr) -> Share {
        let mut share = self.empty(source);
        if let Some(places) = &share.places {
            // The semaphore is never closed.
            share.permit = Arc::clone(places).acquire_owned().await.ok();
        }
        share
    }

    fn empty(self: &Arc<Self>, source: IpAddr) -> Share {
        let mut known = self.known.lock();
        let places = known.entry(source).or_insert_with(|| Arc::new(Semaphore::new(self.each)));
        Share { permit: None, places: Some(Arc::clone(places)), shares: Arc::clone(self), source }
    }
}

/// A place, or the wait for one. Released when dropped.
#[derive(Debug)]
pub(super) struct Share {
    permit: Option<OwnedSemaphorePermit>,
    /// `None` only while it is dropped.
    places: Option<Arc<Semaphore>>,
    shares: Arc<Shares>,
    source: IpAddr,
}

impl Drop for Share {
    fn drop(&mut self) {
        drop(self.permit.take());
        let mut known = self.shares.known.lock();
        self.places = None;
        // Each place and each wait holds the semaphore, too.
        if known.get(&self.source).is_some_and(|places| Arc::strong_count(places) == 1) {
            known.remove(&self.source);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_source_that_has_its_share_takes_nothing_of_others_and_is_forgotten() {
        let shares = Shares::new(2);
        let [one, other] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from);
        let held = [shares.take(one).await, shares.try_take(one).unwrap()];
        assert!(shares.try_take(one).is_none());
        assert!(shares.take(one).now_or_never().is_none(), "it would wait");
        assert!(shares.try_take(other).is_some());
        assert_eq!(shares.known.lock().len(), 1, "who has nothing is forgotten");
        drop(held);
        assert!(shares.try_take(one).is_some());
        assert!(shares.known.lock().is_empty());
    }
}
