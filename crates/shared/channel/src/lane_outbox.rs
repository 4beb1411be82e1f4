//! The messages of a channel's lanes, for one connection.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;

use crate::batch::{Batch, Outbox};
use crate::lanes::Part;
use crate::shared::Shared;
use crate::waiters::Waiter;

/// The outbox that every connection has: the lanes that the connection empties.
#[derive(Debug)]
pub(crate) struct LaneOutbox {
    channel: Arc<Shared>,
    /// The connection's number in its channel.
    number: u64,
    part: Part,
    /// Senders that are told when the present batch has been handed to the socket.
    written: Vec<oneshot::Sender<()>>,
}

impl LaneOutbox {
    pub(crate) fn new(channel: Arc<Shared>, number: u64, part: Part) -> Self {
        Self { channel, number, part, written: Vec::new() }
    }
}

impl Outbox for LaneOutbox {
    fn wake_at(&self) -> Option<Instant> {
        None
    }

    fn fill(&mut self, batch: &mut Batch) {
        for lane in self.channel.lanes_of(self.number, self.part) {
            let queue = self.channel.lane(lane);
            while !batch.is_full() {
                let Some(entry) = queue.pop() else { break };
                if entry.waiter.as_ref().is_some_and(Waiter::is_abandoned) {
                    continue;
                }
                let sequence = batch.push(entry.message);
                if let Some(waiter) = entry.waiter {
                    self.channel.waiters.written(waiter, sequence);
                }
                self.written.extend(entry.written);
            }
        }
    }

    fn flushed(&mut self) {
        for written in self.written.drain(..) {
            let _ = written.send(());
        }
    }

    // Control messages are not sent again on another connection: peers may have received them, and
    // some rely on their order. A dropped sender tells waiting tasks.
}
