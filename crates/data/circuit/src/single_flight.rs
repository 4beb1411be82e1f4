//! Work that any thread may ask for and one thread at a time does.
//!
//! Two ends on one router exchange payloads and acks on the thread that changed one of them. If two
//! threads did that at once, an ack could arrive after a newer one: the sender would take the
//! receiver's buffer for full although it has been emptied, and would wait.

use crate::sync::atomic::{AtomicU8, Ordering};

/// No thread does the work.
const IDLE: u8 = 0;
/// A thread does the work.
const BUSY: u8 = 1;
/// A thread does the work, and has been asked to do it again.
const AGAIN: u8 = 2;

/// The state of the work.
#[derive(Debug, Default)]
pub struct SingleFlight(AtomicU8);

impl SingleFlight {
    /// Does the work. While another thread does it, this call returns at once, and that thread does
    /// the work once more, so that it sees every change from before this call. `work` returns
    /// whether it is done. If it is not, this call returns false, and the caller has to arrange for
    /// the rest.
    #[must_use]
    pub fn take(&self, mut work: impl FnMut() -> bool) -> bool {
        if !self.begins() {
            return true;
        }
        loop {
            if !work() {
                self.0.swap(IDLE, Ordering::AcqRel);
                return false;
            }
            if self.ends() {
                return true;
            }
        }
    }

    fn begins(&self) -> bool {
        let next = |state| Some(if state == IDLE { BUSY } else { AGAIN });
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) == Ok(IDLE)
    }

    /// Ends a run of the work. False if the work has to be done again.
    fn ends(&self) -> bool {
        let ended =
            self.0.compare_exchange(BUSY, IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if !ended {
            self.0.swap(BUSY, Ordering::AcqRel);
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn what_is_asked_for_meanwhile_is_done_after() {
        let (flight, mut done) = (SingleFlight::default(), 0);
        assert!(flight.take(|| {
            done += 1;
            if done < 3 {
                assert!(flight.take(|| panic!("two at a time")));
            }
            true
        }));
        assert_eq!(done, 3);
        let mut once = |finished| {
            flight.take(|| {
                done += 1;
                finished
            })
        };
        assert!(once(true));
        // A thread that has done enough leaves the work to others, whatever was asked for
        // meanwhile.
        assert!(!once(false) && once(true));
        assert_eq!(done, 6);
    }

    #[test]
    fn nothing_asked_for_is_left_and_one_at_a_time_does_it() {
        let (flight, asked, done) =
            (SingleFlight::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let inside = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        asked.fetch_add(1, Ordering::Relaxed);
                        assert!(flight.take(|| {
                            assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                            done.store(asked.load(Ordering::Relaxed), Ordering::Relaxed);
                            inside.fetch_sub(1, Ordering::Relaxed);
                            true
                        }));
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), 80_000);
    }
}
