//! A semaphore whose permits many keys share: a [`Quota`] behind a lock, with guards and a queue.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use futures::channel::oneshot;
use parking_lot::Mutex;

use crate::queue::{FairQueue, QueuePosition};
use crate::quota::{Full, Quota};

/// A semaphore whose permits many keys share. Keys that wait have their turns one after the other, however often each
/// of them asks; a key that has all permits that it may have holds up no other.
pub struct FairSemaphore<K: Hash + Ord + Clone>(Mutex<State<K>>);

struct State<K: Hash + Ord + Clone> {
    quota: Quota<K>,
    waiting: FairQueue<K, oneshot::Sender<Permit<K>>>,
    most_waiting: usize,
    is_closed: bool,
}

/// A permit of a key, given back when dropped.
#[must_use]
pub struct Permit<K: Hash + Ord + Clone> {
    /// None if it was given back.
    semaphore: Option<Arc<FairSemaphore<K>>>,
    key: K,
}

/// The place of a request in the queue.
struct Waiting<'s, K: Hash + Ord + Clone> {
    semaphore: &'s FairSemaphore<K>,
    key: &'s K,
    position: QueuePosition,
}

impl<K: Hash + Ord + Clone> FairSemaphore<K> {
    /// A semaphore with the permits of a quota, for which any number may wait.
    #[must_use]
    pub fn new(quota: Quota<K>) -> Arc<Self> {
        Self::with_queue(quota, usize::MAX, usize::MAX)
    }

    /// A semaphore for whose permits at most `total` requests wait, and `each` of a key. Where `total` wait, a new one
    /// takes the place of the newest one of the key that has most, if that has at least two more.
    #[must_use]
    pub fn with_queue(quota: Quota<K>, total: usize, each: usize) -> Arc<Self> {
        let waiting = FairQueue::new(total.max(1));
        Arc::new(Self(Mutex::new(State { quota, waiting, most_waiting: each, is_closed: false })))
    }

    /// A permit, if the key may have one now.
    pub fn try_acquire(self: &Arc<Self>, key: K) -> Result<Permit<K>, Full<K>> {
        let mut state = self.0.lock();
        state.quota.check(&key, 1)?;
        Ok(self.give(&mut state, key))
    }

    /// A permit, if the key may have one now. `each` is the limit of the key when so many permits are free.
    pub fn try_acquire_with(
        self: &Arc<Self>,
        key: K,
        each: impl FnOnce(usize) -> usize,
    ) -> Result<Permit<K>, Full<K>> {
        let mut state = self.0.lock();
        state.quota.check_with(&key, 1, each(state.quota.free_places()))?;
        Ok(self.give(&mut state, key))
    }

    /// A permit, when it is the turn of the key. None if too many requests wait, or the semaphore was closed.
    pub async fn acquire(self: &Arc<Self>, key: K) -> Option<Permit<K>> {
        let (told, turn) = oneshot::channel();
        let position = {
            let mut state = self.0.lock();
            if state.is_closed {
                return None;
            }
            if state.quota.check(&key, 1).is_ok() {
                return Some(self.give(&mut state, key));
            }
            if state.waiting.len_of(&key) >= state.most_waiting {
                return None;
            }
            state.waiting.push(key.clone(), told)?.position
        };
        let _waiting = Waiting { semaphore: self, key: &key, position };
        turn.await.ok()
    }

    /// Refuses all requests that wait, and those that would.
    pub fn close(&self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        state.waiting.clear();
    }

    /// Permits that are held in all.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.lock().quota.used()
    }

    /// Requests that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.lock().waiting.len()
    }

    fn give(self: &Arc<Self>, state: &mut State<K>, key: K) -> Permit<K> {
        state.quota.hold(&key, 1);
        Permit { semaphore: Some(Arc::clone(self)), key }
    }
}

impl<K: Hash + Ord + Clone> State<K> {
    /// Takes a permit back from a key. Returns the request that may have it.
    fn take_back(&mut self, key: &K) -> Option<(K, oneshot::Sender<Permit<K>>)> {
        let Self { quota, waiting, .. } = self;
        let others_wait = quota.free_places() == 0;
        quota.free(key, 1);
        if others_wait {
            return waiting.pop_where(|key| quota.check(key, 1).is_ok());
        }
        // Permits were free: whoever waits waits for those of its own key.
        let next = quota.check(key, 1).ok().and_then(|()| waiting.pop_of(key));
        next.map(|told| (key.clone(), told))
    }
}

impl<K: Hash + Ord + Clone> Drop for Permit<K> {
    fn drop(&mut self) {
        let Some(semaphore) = self.semaphore.take() else { return };
        let mut key = self.key.clone();
        loop {
            let (permit, told) = {
                let mut state = semaphore.0.lock();
                let Some((next, told)) = state.take_back(&key) else { return };
                (semaphore.give(&mut state, next), told)
            };
            // Not under the lock: the channel may drop the permit here, if the request is given up meanwhile.
            let Err(mut permit) = told.send(permit) else { return };
            // Nobody waits any more: the next turn of this loop gives the permit back.
            permit.semaphore = None;
            key = permit.key.clone();
        }
    }
}

impl<K: Hash + Ord + Clone> Drop for Waiting<'_, K> {
    fn drop(&mut self) {
        self.semaphore.0.lock().waiting.remove(self.key, self.position);
    }
}

impl<K: Hash + Ord + Clone> fmt::Debug for FairSemaphore<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.lock();
        let (used, waiting) = (state.quota.used(), state.waiting.len());
        f.debug_struct("FairSemaphore").field("used", &used).field("waiting", &waiting).finish()
    }
}

impl<K: Hash + Ord + Clone + fmt::Debug> fmt::Debug for Permit<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("key", &self.key).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use proptest::prelude::*;

    use super::*;

    type Acquiring<'s> = Pin<Box<dyn Future<Output = Option<Permit<u8>>> + 's>>;

    fn poll(waits: &mut Acquiring<'_>) -> Poll<Option<Permit<u8>>> {
        waits.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    fn acquire(semaphore: &Arc<FairSemaphore<u8>>, key: u8) -> Acquiring<'_> {
        Box::pin(semaphore.acquire(key))
    }

    /// Whoever waits; the keys in the order in which they got their permits, which are given back at once.
    fn order(mut waiting: Vec<(u8, Acquiring<'_>)>) -> Vec<u8> {
        let mut order = Vec::new();
        while let Some(next) = waiting.iter_mut().position(|(_, waits)| poll(waits).is_ready()) {
            order.push(waiting.remove(next).0);
        }
        order
    }

    #[test]
    fn keys_come_in_turn_and_whoever_gives_up_holds_up_nobody() {
        let semaphore = FairSemaphore::new(Quota::new(1, 1));
        let first = semaphore.try_acquire(0).unwrap();
        assert_eq!(semaphore.try_acquire(1).unwrap_err(), Full::Total);
        let mut waiting = Vec::new();
        for key in [0, 0, 0, 1, 0] {
            let mut waits = acquire(&semaphore, key);
            assert!(poll(&mut waits).is_pending());
            waiting.push((key, waits));
        }
        drop(waiting.remove(0));
        // One is given a permit, and does not notice.
        drop(first);
        drop(waiting.remove(0));
        assert_eq!(order(waiting), [1, 0, 0]);
        assert_eq!((semaphore.used(), semaphore.waiting()), (0, 0));
    }

    #[test]
    fn a_key_with_all_its_permits_waits_for_its_own_and_holds_up_no_other() {
        let semaphore = FairSemaphore::new(Quota::new(3, 2));
        let held = [0, 0].map(|key| semaphore.try_acquire(key).unwrap());
        assert_eq!(semaphore.try_acquire(0).unwrap_err(), Full::Key(0));
        assert!(semaphore.try_acquire_with(0, |free| 2 + free).is_ok());
        let mut own = acquire(&semaphore, 0);
        assert!(poll(&mut own).is_pending());
        for other in [1, 2] {
            let Poll::Ready(Some(permit)) = poll(&mut acquire(&semaphore, other)) else { panic!() };
            assert!(poll(&mut acquire(&semaphore, 3)).is_pending());
            drop(permit);
            assert!(poll(&mut own).is_pending());
        }
        let [first, second] = held;
        drop(first);
        let Poll::Ready(Some(permit)) = poll(&mut own) else { panic!("its own permit came back") };
        drop((permit, second));
        assert_eq!((semaphore.used(), semaphore.waiting()), (0, 0));
    }

    #[test]
    fn a_turn_that_comes_as_its_request_is_given_up_is_given_back() {
        let (give, given) = std::sync::mpsc::channel::<(Permit<u8>, Arc<std::sync::Barrier>)>();
        std::thread::spawn(move || {
            for (permit, together) in given {
                together.wait();
                drop(permit);
                together.wait();
            }
        });
        let (told, done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for round in 0..20_000 {
                let semaphore = FairSemaphore::new(Quota::new(1, 1));
                let together = Arc::new(std::sync::Barrier::new(2));
                give.send((semaphore.try_acquire(0).unwrap(), Arc::clone(&together))).unwrap();
                let mut waits = acquire(&semaphore, 1);
                assert!(poll(&mut waits).is_pending());
                together.wait();
                (0..round % 100).for_each(|_| std::hint::spin_loop());
                drop(waits);
                together.wait();
                assert_eq!((semaphore.used(), semaphore.waiting()), (0, 0));
            }
            told.send(()).unwrap();
        });
        let done = done.recv_timeout(std::time::Duration::from_secs(60));
        assert!(done.is_ok(), "both wait for each other, or a permit is lost");
    }

    #[test]
    fn the_queue_has_limits_and_ends() {
        let semaphore = FairSemaphore::with_queue(Quota::new(1, 1), 4, 3);
        let held = semaphore.try_acquire(0).unwrap();
        let mut greedy = [(); 3].map(|()| acquire(&semaphore, 0));
        assert!(greedy.iter_mut().all(|waits| poll(waits).is_pending()));
        assert!(matches!(poll(&mut acquire(&semaphore, 0)), Poll::Ready(None)), "three of a key");
        let mut others = [1, 2].map(|key| acquire(&semaphore, key));
        assert!(others.iter_mut().all(|waits| poll(waits).is_pending()));
        assert!(matches!(poll(&mut greedy[2]), Poll::Ready(None)), "its newest one was displaced");
        semaphore.close();
        assert!(others.iter_mut().all(|waits| matches!(poll(waits), Poll::Ready(None))));
        assert!(matches!(poll(&mut acquire(&semaphore, 3)), Poll::Ready(None)));
        drop(held);
        assert_eq!(semaphore.used(), 0);
    }

    proptest! {
        /// The limits hold, nobody waits while it may have a permit, and all permits come back.
        #[test]
        fn permits_are_never_too_many_and_never_lost(
            steps in prop::collection::vec((0u8..4, 0u8..5, any::<u8>()), 0..200),
        ) {
            let semaphore = FairSemaphore::new(Quota::new(5, 2));
            let mut held: Vec<(u8, Permit<u8>)> = Vec::new();
            let mut waiting: Vec<(u8, Acquiring<'_>)> = Vec::new();
            for (step, key, pick) in steps {
                let pick = usize::from(pick);
                match step {
                    0 if !held.is_empty() => drop(held.swap_remove(pick % held.len())),
                    1 if !waiting.is_empty() => drop(waiting.swap_remove(pick % waiting.len())),
                    2 => held.extend(semaphore.try_acquire(key).ok().map(|permit| (key, permit))),
                    _ => waiting.push((key, acquire(&semaphore, key))),
                }
                let mut at = 0;
                while let Some((key, waits)) = waiting.get_mut(at) {
                    match poll(waits) {
                        Poll::Ready(permit) => {
                            held.push((*key, permit.unwrap()));
                            drop(waiting.remove(at));
                        }
                        Poll::Pending => at += 1,
                    }
                }
                let of = |key: u8| held.iter().filter(|it| it.0 == key).count();
                prop_assert!(held.len() <= 5 && (0..5).all(|key| of(key) <= 2));
                prop_assert_eq!(semaphore.used(), held.len());
                let may = |key: u8| held.len() < 5 && of(key) < 2;
                prop_assert!(waiting.iter().all(|(key, _)| !may(*key)));
            }
            drop((held, waiting));
            prop_assert_eq!((semaphore.used(), semaphore.waiting()), (0, 0));
        }
    }
}
