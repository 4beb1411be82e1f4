//! A value for each thread, so that threads count without sharing a cache line.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Most threads with a value of their own; further threads share one.
const SLOTS: usize = 64;

/// Free numbers: those that threads gave back, and the next one that was never used.
static FREE: Mutex<(Vec<usize>, usize)> = Mutex::new((Vec::new(), 0));

/// The number of a thread, given back when the thread ends; `None` if all numbers are taken. The lock
/// of [`FREE`] lets the next thread with the number see the counts of the former one.
struct Slot(Option<usize>);

impl Slot {
    fn take() -> Self {
        let (given_back, next) = &mut *FREE.lock();
        let number = given_back.pop().or_else(|| {
            let number = (*next < SLOTS).then_some(*next);
            *next += usize::from(number.is_some());
            number
        });
        Self(number)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(number) = self.0.take() {
            // Destructors that run after this one count in the shared value.
            let _ = NUMBER.try_with(|known| known.set(Some(None)));
            FREE.lock().0.push(number);
        }
    }
}

thread_local! {
    /// Copy of `SLOT` without a destructor, which is cheaper to read.
    static NUMBER: Cell<Option<Option<usize>>> = const { Cell::new(None) };
    static SLOT: Slot = Slot::take();
}

fn number() -> Option<usize> {
    NUMBER.with(|known| match known.get() {
        Some(number) => number,
        None => {
            let number = SLOT.try_with(|slot| slot.0).unwrap_or(None);
            known.set(Some(number));
            number
        }
    })
}

/// The way in which a thread adds to its value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Adds {
    /// Only this thread writes it: a load and a store suffice.
    Alone,
    /// Other threads write it too: an atomic addition is needed.
    WithOthers,
}

impl Adds {
    pub(crate) fn to(self, cell: &AtomicU64, more: u64) {
        match self {
            Self::Alone => {
                let now = cell.load(Ordering::Relaxed).wrapping_add(more);
                cell.store(now, Ordering::Relaxed);
            }
            Self::WithOthers => {
                cell.fetch_add(more, Ordering::Relaxed);
            }
        }
    }
}

/// One `T` for each thread that uses it.
#[derive(Debug)]
pub(crate) struct PerThread<T> {
    own: Box<[OnceLock<Box<T>>]>,
    common: OnceLock<Box<T>>,
}

impl<T: Default> PerThread<T> {
    pub(crate) fn new() -> Self {
        let own = std::iter::repeat_with(OnceLock::new).take(SLOTS).collect();
        Self { own, common: OnceLock::new() }
    }

    /// The `T` of this thread, and how to add to it.
    pub(crate) fn mine(&self) -> (&T, Adds) {
        match number().and_then(|number| self.own.get(number)) {
            Some(own) => (own.get_or_init(Box::default), Adds::Alone),
            None => (self.common.get_or_init(Box::default), Adds::WithOthers),
        }
    }

    /// The `T` of every thread.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.own.iter().chain([&self.common]).filter_map(OnceLock::get).map(|own| &**own)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn nothing_is_lost_with_more_threads_than_places_and_threads_that_end() {
        let cells: Arc<PerThread<AtomicU64>> = Arc::new(PerThread::new());
        for _ in 0..3 {
            let threads: Vec<_> = (0..SLOTS + 20)
                .map(|_| {
                    let cells = Arc::clone(&cells);
                    std::thread::spawn(move || {
                        for _ in 0..500 {
                            let (cell, adds) = cells.mine();
                            adds.to(cell, 1);
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
        let sum: u64 = cells.all().map(|cell| cell.load(Ordering::Relaxed)).sum();
        assert_eq!(sum, 3 * (SLOTS as u64 + 20) * 500);
    }
}
