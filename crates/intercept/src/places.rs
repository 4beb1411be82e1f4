//! Limits of connections, in all and of each client.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use parking_lot::Mutex;
use weft_limits::source_of;

/// A limited number of places.
#[derive(Debug)]
pub(crate) struct Places {
    most: usize,
    most_of_one: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_source: HashMap<IpAddr, usize>,
}

/// A place; released when dropped.
#[derive(Debug)]
pub struct Place {
    of: Arc<Places>,
    source: IpAddr,
}

impl Places {
    pub(crate) fn new(most: usize, most_of_one: usize) -> Arc<Self> {
        Arc::new(Self { most, most_of_one, taken: Mutex::default() })
    }

    /// Takes a place for a client, if one is free.
    pub(crate) fn take(self: &Arc<Self>, client: IpAddr) -> Option<Place> {
        self.take_of(client, self.most_of_one)
    }

    /// Takes a place for a client that may have `most_of_one`.
    pub(crate) fn take_of(self: &Arc<Self>, client: IpAddr, most_of_one: usize) -> Option<Place> {
        let source = source_of(client);
        let mut taken = self.taken.lock();
        let held = taken.by_source.get(&source).copied().unwrap_or_default();
        if taken.all >= self.most || held >= most_of_one {
            return None;
        }
        taken.all += 1;
        taken.by_source.insert(source, held + 1);
        Some(Place { of: Arc::clone(self), source })
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.lock().all
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.of.taken.lock();
        taken.all -= 1;
        if let Some(held) = taken.by_source.get_mut(&self.source) {
            *held -= 1;
            if *held == 0 {
                taken.by_source.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_all_places() {
        let places = Places::new(3, 2);
        let take = |last: u8| places.take([10, 0, 0, last].into());
        let (first, second) = (take(1).unwrap(), take(1).unwrap());
        assert!(take(1).is_none());
        let other = take(2).unwrap();
        assert!(take(3).is_none());
        drop(first);
        assert!(take(3).is_some());
        drop((second, other));
        assert_eq!(places.taken(), 0);
        assert!(places.taken.lock().by_source.is_empty());
    }
}
