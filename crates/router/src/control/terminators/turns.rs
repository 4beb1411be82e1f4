//! The turns of requests for terminators. A limited number is under way; hosts that wait come one after the other,
//! however many terminators each of them has. Where too many requests wait, a new one takes the place of the newest one
//! of the host for which most of them wait.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use weft_limits::{FairQueue, Pushed};

/// The turns.
pub(super) struct Turns(Mutex<Line>);

struct Line {
    /// Turns that nobody has.
    free: usize,
    /// The requests that wait, by host.
    waiting: FairQueue<Arc<str>, oneshot::Sender<Turn>>,
}

/// A turn, passed on when dropped.
pub(super) struct Turn(Option<Arc<Turns>>);

/// A request that waits; it leaves the line when dropped.
struct Waiting<'t> {
    turns: &'t Turns,
    host: Arc<str>,
    number: u64,
}

impl Turns {
    /// So many turns at once, for which so many requests wait.
    pub(super) fn new(at_once: usize, most_waiting: usize) -> Arc<Self> {
        let waiting = FairQueue::new(most_waiting.max(1));
        Arc::new(Self(Mutex::new(Line { free: at_once.max(1), waiting })))
    }

    /// Waits for a turn of a host; none if too many requests wait, and no host has more of them than this one.
    pub(super) async fn take(self: &Arc<Self>, host: &str) -> Option<Turn> {
        let (told, turn) = oneshot::channel();
        let host: Arc<str> = host.into();
        let pushed = {
            let mut line = self.0.lock();
            if line.free > 0 {
                line.free -= 1;
                return Some(Turn(Some(Arc::clone(self))));
            }
            line.waiting.push(Arc::clone(&host), told)?
        };
        let Pushed { number, displaced } = pushed;
        drop(displaced);
        let _waiting = Waiting { turns: self, host, number };
        turn.await.ok()
    }

    /// The number of requests that wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.0.lock().waiting.len()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let left = self.turns.0.lock().waiting.remove(&self.host, self.number);
        drop(left);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(turns) = self.0.take() else { return };
        let mut line = turns.0.lock();
        while let Some((_, told)) = line.waiting.pop() {
            match told.send(Turn(Some(Arc::clone(&turns)))) {
                Ok(()) => return,
                // Nobody waits any more. The line is locked here, so that the turn must not pass itself on.
                Err(mut turn) => turn.0 = None,
            }
        }
        line.free += 1;
    }
}
