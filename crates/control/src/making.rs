//! The circuits that one router has in the making, with a share of them for each dialing identity.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weft_model::Id;
use weft_network::create::{AT_ONCE, BY_ONE};

/// The places of one router.
#[derive(Debug)]
pub(crate) struct Making {
    places: Arc<Semaphore>,
    dialers: Mutex<HashMap<Id, usize>>,
}

/// The place of a circuit among those of its dialer. Given back when dropped.
#[derive(Debug)]
pub(crate) struct Dialing<'m> {
    making: &'m Making,
    dialer: &'m Id,
}

impl Making {
    pub(crate) fn new() -> Self {
        Self { places: Arc::new(Semaphore::new(AT_ONCE)), dialers: Mutex::default() }
    }

    /// A place for a request; none if all are taken.
    pub(crate) fn take(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// A place among those of a dialer; none if it has its share.
    pub(crate) fn dialing<'m>(&'m self, dialer: &'m Id) -> Option<Dialing<'m>> {
        let mut dialers = self.dialers.lock();
        match dialers.get_mut(dialer) {
            Some(count) if *count >= BY_ONE => return None,
            Some(count) => *count += 1,
            None => drop(dialers.insert(dialer.clone(), 1)),
        }
        Some(Dialing { making: self, dialer })
    }
}

impl Drop for Dialing<'_> {
    fn drop(&mut self) {
        let mut dialers = self.making.dialers.lock();
        if let Some(count) = dialers.get_mut(self.dialer) {
            *count -= 1;
            if *count == 0 {
                dialers.remove(self.dialer);
            }
        }
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
        assert!(making.dialers.lock().is_empty());
    }
}
