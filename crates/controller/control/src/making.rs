//! The circuits that one router has in the making, with a share of them for each dialing identity.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weft_limits::{FairSemaphore, Permit, Quota};
use weft_model::Id;
use weft_network::create::{AT_ONCE, BY_ONE};

/// The places of one router.
#[derive(Debug)]
pub(crate) struct Making {
    places: Arc<Semaphore>,
    dialers: Arc<FairSemaphore<Id>>,
}

impl Making {
    pub(crate) fn new() -> Self {
        let dialers = FairSemaphore::new(Quota::new(AT_ONCE, BY_ONE));
        Self { places: Arc::new(Semaphore::new(AT_ONCE)), dialers }
    }

    /// A place for a request; none if all are taken.
    pub(crate) fn take(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// A place among those of a dialer; none if it has its share.
    pub(crate) fn dialing(&self, dialer: &Id) -> Option<Permit<Id>> {
        self.dialers.try_acquire(dialer.clone()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dialer_has_half_of_the_places_and_is_forgotten() {
        let making = Making::new();
        let (one, other) = (Id::new("one"), Id::new("other"));
        let held: Vec<_> = (0..600).map_while(|_| making.dialing(&one)).collect();
        assert_eq!(held.len(), 512);
        assert!(making.dialing(&other).is_some());
        drop(held);
        assert!(making.dialing(&one).is_some());
        assert_eq!(making.dialers.used(), 0);
    }
}
