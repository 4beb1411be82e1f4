//! Requests that wait for their replies.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use weft_wire::Message;

use crate::error::{CloseReason, RequestError};

/// The result of a waiting request.
pub(crate) type Reply = Result<Message, RequestError>;

const NOT_WRITTEN: i64 = i64::MIN;
const GIVEN_UP: i64 = i64::MAX;

/// The waiting requests of a channel, by their sequence numbers.
#[derive(Debug)]
pub(crate) struct Waiters {
    max: usize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    waiting: HashMap<i32, oneshot::Sender<Reply>>,
    /// The reason why no replies come any more, although requests may still be written for a
    /// moment.
    closed: Option<CloseReason>,
}

/// The sending half of a request: moves with its message until that is written.
#[derive(Debug)]
pub(crate) struct Waiter {
    reply: oneshot::Sender<Reply>,
    place: Arc<AtomicI64>,
}

/// The receiving half: removes the waiter from the table when dropped.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) reply: oneshot::Receiver<Reply>,
    place: Arc<AtomicI64>,
    waiters: Arc<Waiters>,
}

impl Waiters {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, table: Mutex::default() }
    }

    /// A new request that is not written yet.
    pub(crate) fn request(self: &Arc<Self>) -> (Waiter, Pending) {
        let (sender, receiver) = oneshot::channel();
        let place = Arc::new(AtomicI64::new(NOT_WRITTEN));
        let waiter = Waiter { reply: sender, place: place.clone() };
        (waiter, Pending { reply: receiver, place, waiters: self.clone() })
    }

    /// Notes that the request was written with this sequence number.
    pub(crate) fn written(&self, waiter: Waiter, sequence: i32) {
        let mut table = self.table.lock();
        if let Some(reason) = &table.closed {
            let _ = waiter.reply.send(Err(RequestError::Closed(reason.clone())));
            return;
        }
        if table.waiting.len() >= self.max {
            let _ = waiter.reply.send(Err(RequestError::TooMany));
            return;
        }
        let place = waiter.place.compare_exchange(
            NOT_WRITTEN,
            i64::from(sequence),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if place.is_ok() {
            table.waiting.insert(sequence, waiter.reply);
        }
    }

    /// Removes the waiter for replies to `sequence`, if there is one.
    pub(crate) fn take(&self, sequence: i32) -> Option<oneshot::Sender<Reply>> {
        self.table.lock().waiting.remove(&sequence)
    }

    /// The channel closed: fails all requests, also those that are written later.
    pub(crate) fn fail_all(&self, reason: &CloseReason) {
        let waiting = {
            let mut table = self.table.lock();
            table.closed.get_or_insert_with(|| reason.clone());
            std::mem::take(&mut table.waiting)
        };
        for (_, reply) in waiting {
            let _ = reply.send(Err(RequestError::Closed(reason.clone())));
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.table.lock().waiting.len()
    }
}

impl Waiter {
    /// True if the reply is not waited for any more; the request need not be written.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let place = self.place.swap(GIVEN_UP, Ordering::AcqRel);
        if let Ok(sequence) = i32::try_from(place) {
            self.waiters.table.lock().waiting.remove(&sequence);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_request_leaves_nothing_behind() {
        let waiters = Arc::new(Waiters::new(2));
        let (waiter, pending) = waiters.request();
        waiters.written(waiter, 5);
        assert_eq!(waiters.len(), 1);
        drop(pending);
        assert_eq!(waiters.len(), 0);
        let (waiter, pending) = waiters.request();
        drop(pending);
        assert!(waiter.is_abandoned());
        waiters.written(waiter, 6);
        assert_eq!(waiters.len(), 0);
    }

    #[test]
    fn the_table_is_bounded() {
        let waiters = Arc::new(Waiters::new(1));
        let (first, _pending) = waiters.request();
        let (second, mut refused) = waiters.request();
        waiters.written(first, 1);
        waiters.written(second, 2);
        assert!(matches!(refused.reply.try_recv(), Ok(Err(RequestError::TooMany))));
        assert!(waiters.take(1).is_some() && waiters.take(1).is_none());
    }

    #[test]
    fn a_request_written_after_the_close_is_not_waited_for() {
        let waiters = Arc::new(Waiters::new(2));
        let (waiter, mut pending) = waiters.request();
        waiters.fail_all(&CloseReason::local("over"));
        waiters.written(waiter, 1);
        assert!(matches!(pending.reply.try_recv(), Ok(Err(RequestError::Closed(_)))));
        assert_eq!(waiters.len(), 0);
    }
}
