//! The pause in reading a channel whose circuits have no room for its data.
//!
//! The data can only be held, never dropped: a connection id with too large a backlog stops the whole
//! channel. Meanwhile a router sends the SDK a message at intervals (docs/protocol/sdk.md 11.4).

use weft_channel::{Reading, UnderlayWaker};

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

/// Whether the connections of a channel are read.
#[derive(Debug, Default)]
pub struct Pause {
    /// The number of connection ids with too large a backlog. The reports of two threads about one
    /// id may come in the wrong order: the count is then below zero for a moment.
    over: AtomicIsize,
    /// True while a task sends messages to the SDK.
    kept_alive: AtomicBool,
    /// Connections that are to be read again.
    waiting: Mutex<Vec<UnderlayWaker>>,
}

impl Pause {
    /// A connection id has too large a backlog. True if a task has to begin to send messages to the
    /// SDK.
    #[must_use]
    pub fn went_over(&self) -> bool {
        self.over.fetch_add(1, Ordering::AcqRel) >= 0
            && !self.kept_alive.swap(true, Ordering::AcqRel)
    }

    /// The backlog of a connection id is small enough again. After the last one all connections are
    /// read again.
    pub fn came_back(&self) {
        if self.over.fetch_sub(1, Ordering::AcqRel) == 1 {
            let waiting = std::mem::take(&mut *self.waiting.lock());
            waiting.iter().for_each(UnderlayWaker::resume);
        }
    }

    /// Whether a connection goes on reading. A connection that pauses is listed here, and is woken
    /// when the pause ends.
    pub fn flow(&self, connection: &UnderlayWaker) -> Reading {
        if !self.is_on() {
            return Reading::Continue;
        }
        let mut waiting = self.waiting.lock();
        // The pause may have ended before the lock was taken: the thread that ends a pause wakes only
        // connections that are listed by then.
        if !self.is_on() {
            return Reading::Continue;
        }
        waiting.push(connection.clone());
        Reading::Pause
    }

    /// True while the channel is not read.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.over.load(Ordering::Acquire) > 0
    }

    /// True if the task that keeps the SDK alive goes on; otherwise the next pause begins another
    /// task.
    #[must_use]
    pub fn keep_alive_goes_on(&self) -> bool {
        if self.is_on() {
            return true;
        }
        // A pause that begins at this moment either sees that no task is left, or is seen here.
        self.kept_alive.swap(false, Ordering::AcqRel);
        self.is_on() && !self.kept_alive.swap(true, Ordering::AcqRel)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn the_last_to_come_back_ends_it_and_one_keeps_alive() {
        let pause = Pause::default();
        assert!(pause.went_over() && pause.is_on());
        assert!(!pause.went_over());
        pause.came_back();
        assert!(pause.is_on());
        pause.came_back();
        assert!(!pause.is_on());
        assert!(!pause.went_over(), "the one that began goes on");
        assert!(pause.keep_alive_goes_on());
        pause.came_back();
        assert!(!pause.keep_alive_goes_on());
        assert!(pause.went_over(), "it has ended, so another one begins");
    }

    #[test]
    fn connections_wait_while_it_is_on_and_no_longer() {
        let (pause, connection) = (Pause::default(), UnderlayWaker::default());
        assert_eq!(pause.flow(&connection), Reading::Continue);
        let _ = pause.went_over();
        assert_eq!(pause.flow(&connection), Reading::Pause);
        assert_eq!(pause.waiting.lock().len(), 1);
        pause.came_back();
        assert!(pause.waiting.lock().is_empty());
        assert_eq!(pause.flow(&connection), Reading::Continue);
        assert!(pause.waiting.lock().is_empty());
    }

    #[test]
    fn word_in_the_wrong_order_changes_nothing() {
        let pause = Pause::default();
        pause.came_back();
        assert!(!pause.is_on());
        assert!(!pause.went_over() && !pause.is_on());
        assert!(pause.went_over() && pause.is_on());
    }

    #[test]
    fn a_pause_that_begins_while_the_last_is_given_up_is_kept_alive_once() {
        for _ in 0..2000 {
            let (pause, alive) = (Pause::default(), AtomicU32::new(1));
            assert!(pause.went_over());
            pause.came_back();
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    if !pause.keep_alive_goes_on() {
                        alive.fetch_sub(1, Ordering::AcqRel);
                    }
                });
                if pause.went_over() {
                    alive.fetch_add(1, Ordering::AcqRel);
                }
            });
            assert_eq!(alive.load(Ordering::Acquire), 1);
        }
    }
}
