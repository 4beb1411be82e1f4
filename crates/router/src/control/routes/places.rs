//! The places of routes that dial: those that are being dialed, and those that wait for a worker.
//!
//! A host that does not answer keeps a worker until the time for its dial is over. Each of a route's parties, its
//! terminator, the hosting identity and the dialing identity, therefore has a share of the workers. A route begins
//! once all of its parties have room; until then it keeps none of them from others. Where too many routes wait, a new
//! one takes the place of the newest one of the party for which most of them wait. Routes that dial nothing take no
//! place (`super`).

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// One for whom a route is made.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Party {
    Terminator(String),
    Host(String),
    Client(String),
}

/// The places of routes that dial.
#[derive(Debug)]
pub(crate) struct Places {
    line: Mutex<Line>,
    most: Most,
}

/// Most routes at the same time.
#[derive(Debug, Clone, Copy)]
struct Most {
    /// Waiting for a worker.
    waiting: usize,
    /// Being dialed.
    workers: usize,
}

impl Most {
    /// Most routes of a party that are being dialed. A client may be a gateway for many people, and a host for many
    /// services.
    fn workers_of(self, party: &Party) -> usize {
        match party {
            Party::Terminator(_) | Party::Host(_) => self.workers.div_ceil(4),
            Party::Client(_) => self.workers.div_ceil(2),
        }
    }
}

#[derive(Debug, Default)]
struct Line {
    /// Routes that are being dialed.
    busy: usize,
    /// Routes that wait, by the order in which they came.
    waiting: BTreeMap<u64, Waiting>,
    /// The number of the next route.
    next: u64,
    shares: HashMap<Party, Arc<Share>>,
}

#[derive(Debug)]
struct Waiting {
    shares: Vec<Arc<Share>>,
    /// Told when a worker is free for it; dropped when its place is taken away.
    begins: oneshot::Sender<()>,
}

/// The routes of one party. Changed only under the lock.
#[derive(Debug)]
struct Share {
    party: Party,
    waiting: AtomicUsize,
    busy: AtomicUsize,
    /// Most routes that are being dialed.
    most: usize,
}

impl Share {
    fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn has_room(&self) -> bool {
        self.busy.load(Ordering::Relaxed) < self.most
    }

    fn is_empty(&self) -> bool {
        self.waiting() + self.busy.load(Ordering::Relaxed) == 0
    }
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
    number: u64,
    shares: Vec<Arc<Share>>,
    held: Held,
}

/// What a place holds.
#[derive(Debug)]
enum Held {
    Worker,
    /// One of the places to wait at, until the route begins.
    Turn(oneshot::Receiver<()>),
    /// Another route took the place.
    Nothing,
}

/// What came of waiting for a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// A worker is free for the route.
    Begun,
    /// The route was taken down before.
    GivenUp,
    /// Another route took the place.
    Displaced,
}

impl Places {
    pub(super) fn new(workers: usize, queue: usize) -> Arc<Self> {
        let most = Most { waiting: queue, workers: workers.max(1) };
        Arc::new(Self { line: Mutex::default(), most })
    }

    /// The load of the workers.
    pub(in crate::control) fn load(&self) -> Load {
        let line = self.line.lock();
        Load { waiting: line.waiting.len(), busy: line.busy, workers: self.most.workers }
    }

    /// A place for a route of these parties; none if too many routes wait, and for none of their parties more than for
    /// those of this one.
    pub(super) fn take(self: &Arc<Self>, parties: Vec<Party>) -> Option<Place> {
        let mut line = self.line.lock();
        let shares = line.shares_of(parties, self.most);
        let number = line.next;
        let held = if line.can_begin(&shares, self.most) {
            line.begin(&shares);
            Held::Worker
        } else {
            if line.waiting.len() >= self.most.waiting && !line.displace(&shares) {
                line.forget(&shares);
                return None;
            }
            let (begins, begun) = oneshot::channel();
            shares.iter().for_each(|share| add(&share.waiting, 1));
            line.waiting.insert(number, Waiting { shares: shares.clone(), begins });
            Held::Turn(begun)
        };
        line.next += 1;
        Some(Place { places: Arc::clone(self), number, shares, held })
    }
}

impl Line {
    fn shares_of(&mut self, parties: Vec<Party>, most: Most) -> Vec<Arc<Share>> {
        let mut share = |party: Party| {
            let anew = || {
                let [waiting, busy] = [0, 0].map(AtomicUsize::new);
                let most = most.workers_of(&party);
                Arc::new(Share { party: party.clone(), waiting, busy, most })
            };
            Arc::clone(self.shares.entry(party.clone()).or_insert_with(anew))
        };
        parties.into_iter().map(&mut share).collect()
    }

    fn can_begin(&self, shares: &[Arc<Share>], most: Most) -> bool {
        self.busy < most.workers && shares.iter().all(|share| share.has_room())
    }

    fn begin(&mut self, shares: &[Arc<Share>]) {
        self.busy += 1;
        shares.iter().for_each(|share| add(&share.busy, 1));
    }

    /// Takes the place of the newest route of the party for which most routes wait. False if no party has two more than
    /// each party of the new route, so that nothing would be gained.
    fn displace(&mut self, shares: &[Arc<Share>]) -> bool {
        let Some(greatest) = self.shares.values().max_by_key(|share| share.waiting()) else {
            return false;
        };
        let own = shares.iter().map(|share| share.waiting()).max().unwrap_or_default();
        if greatest.waiting() < own + 2 {
            return false;
        }
        let newest = self.waiting.iter().rev();
        let newest =
            newest.filter(|(_, route)| route.shares.iter().any(|it| Arc::ptr_eq(it, greatest)));
        let Some(number) = newest.map(|(number, _)| *number).next() else { return false };
        self.leave(number);
        true
    }

    /// Takes a route out of those that wait. False if it does not wait.
    fn leave(&mut self, number: u64) -> bool {
        let Some(route) = self.waiting.remove(&number) else { return false };
        route.shares.iter().for_each(|share| remove(&share.waiting, 1));
        self.forget(&route.shares);
        true
    }

    /// Begins what can begin now, in the order in which it came.
    fn go_on(&mut self, most: Most) {
        while self.busy < most.workers {
            let can_begin = |route: &Waiting| route.shares.iter().all(|share| share.has_room());
            let first = self.waiting.iter().find(|(_, route)| can_begin(route));
            let Some(number) = first.map(|(number, _)| *number) else { return };
            let Some(route) = self.waiting.remove(&number) else { return };
            route.shares.iter().for_each(|share| remove(&share.waiting, 1));
            self.begin(&route.shares);
            // Whoever no longer listens drops the place, and the worker with it.
            let _ = route.begins.send(());
        }
    }

    fn forget(&mut self, shares: &[Arc<Share>]) {
        for share in shares.iter().filter(|share| share.is_empty()) {
            self.shares.remove(&share.party);
        }
    }
}

fn add(count: &AtomicUsize, more: usize) {
    count.fetch_add(more, Ordering::Relaxed);
}

fn remove(count: &AtomicUsize, less: usize) {
    count.fetch_sub(less, Ordering::Relaxed);
}

impl Place {
    /// Waits for a worker.
    pub(super) async fn begin(&mut self, given_up: &CancellationToken) -> Turn {
        let begun = match &mut self.held {
            Held::Worker => return Turn::Begun,
            Held::Nothing => return Turn::Displaced,
            Held::Turn(begins) => tokio::select! {
                biased;
                begun = begins => begun,
                () = given_up.cancelled() => return Turn::GivenUp,
            },
        };
        let (held, turn) = match begun {
            Ok(()) => (Held::Worker, Turn::Begun),
            Err(_) => (Held::Nothing, Turn::Displaced),
        };
        self.held = held;
        turn
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut line = self.places.line.lock();
        let has_worker = match &mut self.held {
            Held::Worker => true,
            Held::Turn(_) if line.leave(self.number) => false,
            // It began, or was displaced, and did not notice.
            Held::Turn(begins) => begins.try_recv().is_ok(),
            Held::Nothing => false,
        };
        if has_worker {
            line.busy -= 1;
            self.shares.iter().for_each(|share| remove(&share.busy, 1));
            line.forget(&self.shares);
            line.go_on(self.places.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn parties(terminator: &str, host: &str, client: &str) -> Vec<Party> {
        let all = [
            Party::Terminator(terminator.to_owned()),
            Party::Host(host.to_owned()),
            Party::Client(client.to_owned()),
        ];
        all.into()
    }

    /// What the place holds now.
    fn turn(place: &mut Place) -> Option<Turn> {
        place.begin(&CancellationToken::new()).now_or_never()
    }

    fn begun(places: &mut [Place]) -> usize {
        places.iter_mut().map(turn).filter(|turn| *turn == Some(Turn::Begun)).count()
    }

    #[test]
    fn every_party_has_its_share_of_the_workers_and_keeps_none_while_it_waits() {
        let places = Places::new(16, 100);
        let take = |terminator: &str, host: &str, client: &str| {
            places.take(parties(terminator, host, client)).unwrap()
        };
        // Eight silent terminators of one identity, which dials them itself.
        let mut silent: Vec<_> =
            (0..40).map(|n| take(&format!("t{}", n % 8), "bad", "bad")).collect();
        assert_eq!(begun(&mut silent), 4, "a quarter for a host");
        // Others dial the silent one through a gateway, which has a half.
        let mut lured: Vec<_> =
            (0..40).map(|n| take(&format!("s{n}"), &format!("bad{}", n / 4), "gateway")).collect();
        assert_eq!(begun(&mut lured), 8, "half of them for a client");
        let mut one: Vec<_> = (0..6).map(|_| take("one", "good", "laptop")).collect();
        assert_eq!(begun(&mut one), 4, "a quarter for a terminator");
        assert_eq!(places.load(), Load { waiting: 70, busy: 16, workers: 16 });
        drop(one.remove(0));
        assert_eq!(begun(&mut one), 4, "the next one with room begins");
        drop((silent, lured, one));
        assert_eq!(places.load(), Load { waiting: 0, busy: 0, workers: 16 });
        assert!(places.line.lock().shares.is_empty());
    }

    #[test]
    fn where_too_many_wait_the_greatest_gives_way() {
        let places = Places::new(1, 10);
        let mut greedy: Vec<_> = (0..11)
            .map(|n| places.take(parties(&format!("t{n}"), "bad", "bad")).unwrap())
            .collect();
        assert!(places.take(parties("t", "bad", "bad")).is_none());
        let mut others: Vec<_> =
            (0..20).map_while(|_| places.take(parties("web", "good", "laptop"))).collect();
        assert_eq!(others.len(), 5, "half of the places");
        assert_eq!(
            greedy.iter_mut().filter_map(turn).filter(|turn| *turn == Turn::Displaced).count(),
            5
        );
        assert!(places.take(parties("t", "bad", "bad")).is_none());
        // A route that is given up makes room at once, and one that was displaced none.
        let last = others.pop().unwrap();
        let given_up = CancellationToken::new();
        given_up.cancel();
        let mut last = last;
        assert_eq!(last.begin(&given_up).now_or_never(), Some(Turn::GivenUp));
        drop(last);
        drop(greedy.pop());
        assert_eq!(places.load().waiting, 9);
        drop(greedy);
        assert_eq!(turn(&mut others[0]), Some(Turn::Begun), "whoever came first begins");
        drop(others);
        assert_eq!(places.load(), Load { waiting: 0, busy: 0, workers: 1 });
        assert!(places.line.lock().shares.is_empty());
    }

    #[test]
    fn a_worker_that_nobody_took_is_given_to_the_next() {
        let places = Places::new(1, 2);
        let take = || places.take(parties("t", "h", "c")).unwrap();
        let (first, second, mut third) = (take(), take(), take());
        drop(first);
        // It has begun, and did not notice.
        drop(second);
        assert_eq!(turn(&mut third), Some(Turn::Begun));
    }
}
