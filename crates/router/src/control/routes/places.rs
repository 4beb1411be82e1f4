//! The places of routes that dial: a queue, the workers that dial, and the share of one terminator.
//!
//! A host that does not answer keeps a worker until the time for its dial is over. Dials to one terminator
//! therefore have at most a quarter of the workers, and leave an eighth of the places to others. Routes that
//! dial nothing take no place (`super`).

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// The places of routes that dial.
#[derive(Debug)]
pub(crate) struct Places {
    /// Routes that wait for a worker.
    queue: Arc<Semaphore>,
    /// Routes that are being dialed.
    workers: Arc<Semaphore>,
    terminators: Mutex<HashMap<String, Terminator>>,
    most: Most,
}

/// Most routes at the same time.
#[derive(Debug, Clone, Copy)]
struct Most {
    waiting: usize,
    workers: usize,
    /// To one terminator, waiting or being dialed.
    to_one: usize,
    /// To one terminator, being dialed.
    workers_of_one: usize,
}

/// The routes to one terminator.
#[derive(Debug)]
struct Terminator {
    routes: usize,
    /// Its share of the workers.
    turns: Arc<Semaphore>,
}

/// The load of the workers that dial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::control) struct Load {
    /// Routes that wait for a worker.
    pub(in crate::control) waiting: usize,
    /// Routes that are being dialed.
    pub(in crate::control) busy: usize,
    /// Most routes that are dialed at the same time.
    pub(in crate::control) workers: usize,
}

/// The place of one route, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    terminator: String,
    turns: Arc<Semaphore>,
    waits: Option<OwnedSemaphorePermit>,
    works: Option<[OwnedSemaphorePermit; 2]>,
}

impl Places {
    pub(super) fn new(workers: usize, queue: usize) -> Arc<Self> {
        let workers = workers.clamp(1, Semaphore::MAX_PERMITS);
        let waiting = workers.saturating_add(queue).min(Semaphore::MAX_PERMITS);
        let to_one = waiting - waiting / 8;
        Arc::new(Self {
            queue: Arc::new(Semaphore::new(waiting)),
            workers: Arc::new(Semaphore::new(workers)),
            terminators: Mutex::default(),
            most: Most { waiting, workers, to_one, workers_of_one: workers.div_ceil(4) },
        })
    }

    /// The load of the workers.
    pub(in crate::control) fn load(&self) -> Load {
        let Most { waiting, workers, .. } = self.most;
        let taken = |all: usize, of: &Semaphore| all.saturating_sub(of.available_permits());
        Load { waiting: taken(waiting, &self.queue), busy: taken(workers, &self.workers), workers }
    }

    /// A place for a route to a terminator; none if all are taken, or the terminator's share is.
    pub(super) fn take(self: &Arc<Self>, terminator: &str) -> Option<Place> {
        let waits = Arc::clone(&self.queue).try_acquire_owned().ok()?;
        let mut terminators = self.terminators.lock();
        let turns = match terminators.get_mut(terminator) {
            Some(known) if known.routes >= self.most.to_one => return None,
            Some(known) => {
                known.routes += 1;
                Arc::clone(&known.turns)
            }
            None => {
                let turns = Arc::new(Semaphore::new(self.most.workers_of_one));
                let first = Terminator { routes: 1, turns: Arc::clone(&turns) };
                terminators.insert(terminator.to_owned(), first);
                turns
            }
        };
        Some(Place {
            places: Arc::clone(self),
            terminator: terminator.to_owned(),
            turns,
            waits: Some(waits),
            works: None,
        })
    }
}

impl Place {
    /// Waits for a worker. False if the route was given up before.
    pub(super) async fn begin(&mut self, given_up: &CancellationToken) -> bool {
        let (turns, workers) = (Arc::clone(&self.turns), Arc::clone(&self.places.workers));
        let worker = async {
            // In this order: a route that waits for the terminator's share keeps no worker.
            let turn = turns.acquire_owned().await.ok()?;
            Some([turn, workers.acquire_owned().await.ok()?])
        };
        self.works = tokio::select! {
            biased;
            works = worker => works,
            () = given_up.cancelled() => None,
        };
        self.waits = None;
        self.works.is_some()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut terminators = self.places.terminators.lock();
        if let Some(known) = terminators.get_mut(&self.terminator) {
            known.routes -= 1;
            if known.routes == 0 {
                terminators.remove(&self.terminator);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn a_terminator_has_a_quarter_of_the_workers() {
        let (places, stands) = (Places::new(8, 8), CancellationToken::new());
        let mut slow: Vec<Place> = (0..3).map(|_| places.take("slow").unwrap()).collect();
        assert!(slow[0].begin(&stands).now_or_never().unwrap());
        assert!(slow[1].begin(&stands).now_or_never().unwrap());
        assert!(slow[2].begin(&stands).now_or_never().is_none(), "the third waits");
        let mut other = places.take("other").unwrap();
        assert!(other.begin(&stands).now_or_never().unwrap());
        assert_eq!(places.load(), Load { waiting: 1, busy: 3, workers: 8 });
        drop(slow.remove(0));
        assert!(slow[1].begin(&stands).now_or_never().unwrap());
        drop((slow, other));
        assert_eq!(places.load(), Load { waiting: 0, busy: 0, workers: 8 });
        assert!(places.terminators.lock().is_empty());
    }

    #[tokio::test]
    async fn a_terminator_leaves_places_to_others() {
        let (places, stands) = (Places::new(1, 15), CancellationToken::new());
        let mut slow: Vec<Place> = (0..14).map(|_| places.take("slow").unwrap()).collect();
        assert!(places.take("slow").is_none());
        assert!(slow[0].begin(&stands).now_or_never().unwrap(), "a share is never empty");
        assert!(places.take("slow").is_none(), "a route that is dialed counts, too");
        let others: Vec<Place> = (0..9).map_while(|_| places.take("other")).collect();
        assert_eq!(others.len(), 3, "what waits for a worker takes the places");
        // A route that is given up makes room at once.
        stands.cancel();
        assert!(!slow.pop().unwrap().begin(&stands).await);
        assert!(places.take("slow").is_some());
    }
}
