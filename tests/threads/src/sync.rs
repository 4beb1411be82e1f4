//! The locks, atomics and wake-ups that the scenes run with.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

pub use loom::sync::atomic;

/// A lock with the calls of the usual one.
#[derive(Debug, Default)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// A lock of this value.
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    ///
    /// # Panics
    /// When a thread panicked that held the lock.
    pub fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        match self.0.lock() {
            Ok(guard) => guard,
            Err(_) => panic!("a thread panicked that held the lock"),
        }
    }
}

/// A value that is set once, with the calls of the usual one.
#[derive(Debug, Default)]
pub struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    is_set: atomic::AtomicBool,
}

impl<T> OnceLock<T> {
    /// Without a value.
    #[must_use]
    pub fn new() -> Self {
        Self { value: std::sync::OnceLock::new(), is_set: atomic::AtomicBool::new(false) }
    }

    /// The value.
    pub fn get(&self) -> Option<&T> {
        if self.is_set.load(atomic::Ordering::Acquire) { self.value.get() } else { None }
    }

    /// Sets the value.
    ///
    /// # Errors
    /// The value, when there is one already.
    pub fn set(&self, value: T) -> Result<(), T> {
        self.value.set(value)?;
        self.is_set.store(true, atomic::Ordering::Release);
        Ok(())
    }
}

/// A shared value that can be replaced, with the calls of the usual one.
#[derive(Debug, Default)]
pub struct ArcSwap<T>(Mutex<Arc<T>>);

impl<T> ArcSwap<T> {
    /// The present value.
    pub fn load(&self) -> Arc<T> {
        Arc::clone(&self.0.lock())
    }

    /// Replaces the value by the result of a function of it.
    pub fn rcu<R: Into<Arc<T>>>(&self, change: impl Fn(&Arc<T>) -> R) {
        let mut value = self.0.lock();
        *value = change(&value).into();
    }
}

/// Wakes one task, as `tokio::sync::Notify` documents it: a call without a waiting task is kept, once.
#[derive(Debug, Default)]
pub struct Notify(Mutex<Notified>);

#[derive(Debug, Default)]
struct Notified {
    is_kept: bool,
    waiting: Option<Waker>,
}

impl Notify {
    /// Wakes the waiting task, or the next one that would wait.
    pub fn notify_one(&self) {
        let waiting = {
            let mut notified = self.0.lock();
            notified.is_kept = true;
            notified.waiting.take()
        };
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    /// Waits until [`notify_one`](Self::notify_one) is or was called.
    pub async fn notified(&self) {
        std::future::poll_fn(|cx| self.poll(cx)).await;
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let mut notified = self.0.lock();
        if std::mem::take(&mut notified.is_kept) {
            return Poll::Ready(());
        }
        notified.waiting = Some(cx.waker().clone());
        Poll::Pending
    }
}
