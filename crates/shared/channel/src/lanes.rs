//! The bounded send queues of every channel, and the connections that empty them.
//!
//! There are three lanes. A channel of one connection sends all of them over it. In a group each special
//! connection has its own lane, and the default connection empties the lanes without a connection of
//! their own (docs/protocol/channel.md 15.1, docs/protocol/control-plane.md 1.1,
//! docs/protocol/sdk.md 2.1).

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, oneshot};
use tokio::time::Instant;
use weft_wire::Message;
use weft_wire::hello::underlay;

use crate::options::LaneLimits;
use crate::waiters::Waiter;

/// The queue of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Lane {
    /// All other messages.
    #[default]
    Default,
    /// Circuits and routes on control channels; requests on SDK channels.
    High,
    /// Inspections.
    Low,
}

impl Lane {
    /// The lanes in the order in which a connection empties them.
    pub(crate) const ALL: [Self; 3] = [Self::High, Self::Default, Self::Low];

    /// The lane of connections of this type.
    pub(crate) fn of_underlay(kind: &str) -> Self {
        match kind {
            underlay::CTRL_HIGH | underlay::EDGE_CONTROL => Self::High,
            underlay::CTRL_LOW => Self::Low,
            _ => Self::Default,
        }
    }

    fn bit(self) -> u8 {
        match self {
            Self::Default => 1,
            Self::High => 2,
            Self::Low => 4,
        }
    }
}

/// The part of a connection in its channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// The connection's own lane.
    pub(crate) lane: Lane,
    /// True if the connection has an outbox of its own besides the lanes.
    pub(crate) carries_data: bool,
}

/// The lanes that have a connection of their own at the moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LiveLanes(u8);

/// The bit for a default connection that carries data.
const CARRIER: u8 = 8;

impl LiveLanes {
    pub(crate) fn with(self, part: Part) -> Self {
        let carrier = part.lane == Lane::Default && part.carries_data;
        Self(self.0 | part.lane.bit() | if carrier { CARRIER } else { 0 })
    }

    fn has(self, lane: Lane) -> bool {
        self.0 & lane.bit() != 0
    }

    /// True if a connection empties `lane`. A connection empties its own lane. Default connections, or all
    /// connections if there is no default one, also empty the lanes that have no connection of their own.
    /// If a default connection carries data, default connections without data empty nothing, so that data
    /// does not overtake a message that it depends on.
    pub(crate) fn empties(self, part: Part, lane: Lane) -> bool {
        if part.lane == Lane::Default && self.0 & CARRIER != 0 && !part.carries_data {
            return false;
        }
        let by_default = part.lane == Lane::Default || !self.has(Lane::Default);
        part.lane == lane || (!self.has(lane) && by_default)
    }
}

/// A message that waits to be written.
#[derive(Debug)]
pub(crate) struct QueuedMessage {
    pub(crate) message: Message,
    pub(crate) waiter: Option<Waiter>,
    /// Notified when the message has been handed to the socket.
    pub(crate) written: Option<oneshot::Sender<()>>,
    /// The room that the message takes, released when it leaves the queue.
    pub(crate) room: Option<Permits>,
}

/// The room of a message: of one message, and of its bytes.
pub(crate) type Permits = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl QueuedMessage {
    pub(crate) fn new(message: Message) -> Self {
        Self { message, waiter: None, written: None, room: None }
    }
}

#[derive(Debug, Default)]
struct Entries {
    queue: VecDeque<QueuedMessage>,
    /// True if the entries are not written any more.
    is_over: bool,
}

/// One lane.
#[derive(Debug)]
pub(crate) struct LaneQueue {
    entries: Mutex<Entries>,
    messages: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    max_bytes: usize,
}

impl LaneQueue {
    pub(crate) fn new(limits: LaneLimits) -> Self {
        let max_bytes = limits.bytes.clamp(1, u32::MAX as usize >> 3);
        Self {
            entries: Mutex::default(),
            messages: Arc::new(Semaphore::new(limits.messages.max(1))),
            bytes: Arc::new(Semaphore::new(max_bytes)),
            max_bytes,
        }
    }

    /// Bytes of room that a message of this length takes; a message over the limit takes all of it.
    fn room_for(&self, length: usize) -> u32 {
        length.clamp(1, self.max_bytes) as u32
    }

    /// Queues an entry if there is room now.
    pub(crate) fn try_push(&self, mut entry: QueuedMessage) -> Result<(), Full> {
        let full = |error| match error {
            TryAcquireError::Closed => Full::Closed,
            TryAcquireError::NoPermits => Full::NoRoom,
        };
        let message = self.messages.clone().try_acquire_owned().map_err(full)?;
        let bytes =
            self.bytes.clone().try_acquire_many_owned(self.room_for(entry.message.wire_len()));
        entry.room = Some((message, bytes.map_err(full)?));
        self.take_in(entry)
    }

    /// Queues an entry when there is room.
    pub(crate) async fn push(
        &self,
        mut entry: QueuedMessage,
        deadline: Instant,
    ) -> Result<(), Full> {
        entry.room = Some(self.room(entry.message.wire_len(), deadline).await?);
        self.take_in(entry)
    }

    /// Waits for the room of a message of this length.
    pub(crate) async fn room(&self, length: usize, deadline: Instant) -> Result<Permits, Full> {
        let room = async {
            let message = self.messages.clone().acquire_owned().await.map_err(|_| Full::Closed)?;
            let bytes = self.bytes.clone().acquire_many_owned(self.room_for(length)).await;
            Ok((message, bytes.map_err(|_| Full::Closed)?))
        };
        tokio::time::timeout_at(deadline, room).await.map_err(|_| Full::NoRoom)?
    }

    /// Queues an entry that has its room.
    pub(crate) fn take_in(&self, entry: QueuedMessage) -> Result<(), Full> {
        let mut entries = self.entries.lock();
        if entries.is_over {
            return Err(Full::Closed);
        }
        entries.queue.push_back(entry);
        Ok(())
    }

    /// Accepts no more entries; queued ones can still be written.
    pub(crate) fn close(&self) {
        self.messages.close();
        self.bytes.close();
    }

    /// The channel is closed and has no connection: drops the entries, which tells tasks that wait
    /// for them.
    pub(crate) fn end(&self) {
        let unwritten = {
            let mut entries = self.entries.lock();
            entries.is_over = true;
            std::mem::take(&mut entries.queue)
        };
        drop(unwritten);
    }

    /// The next entry to be written.
    pub(crate) fn pop(&self) -> Option<QueuedMessage> {
        self.entries.lock().queue.pop_front()
    }
}

/// Why an entry was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    NoRoom,
    Closed,
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: Part = Part { lane: Lane::Default, carries_data: false };
    const HIGH: Part = Part { lane: Lane::High, carries_data: false };

    #[test]
    fn who_empties_what() {
        let none = LiveLanes::default();
        let both = none.with(DEFAULT).with(HIGH);
        assert!(both.empties(DEFAULT, Lane::Low) && both.empties(DEFAULT, Lane::Default));
        assert!(!both.empties(DEFAULT, Lane::High) && both.empties(HIGH, Lane::High));
        assert!(!both.empties(HIGH, Lane::Default) && !both.empties(HIGH, Lane::Low));
        let only_high = none.with(HIGH);
        assert!(Lane::ALL.iter().all(|lane| only_high.empties(HIGH, *lane)));
        let only_default = none.with(DEFAULT);
        assert!(Lane::ALL.iter().all(|lane| only_default.empties(DEFAULT, *lane)));
    }

    #[test]
    fn messages_leave_by_the_connection_that_carries_data() {
        let carrier = Part { carries_data: true, ..DEFAULT };
        let live = LiveLanes::default().with(carrier).with(DEFAULT);
        assert!(Lane::ALL.iter().all(|lane| live.empties(carrier, *lane)));
        assert!(!Lane::ALL.iter().any(|lane| live.empties(DEFAULT, *lane)));
        let live = live.with(HIGH);
        assert!(live.empties(HIGH, Lane::High) && !live.empties(HIGH, Lane::Default));
        assert!(!live.empties(carrier, Lane::High) && live.empties(carrier, Lane::Low));
    }

    #[test]
    fn room_is_bounded_in_messages_and_bytes() {
        let queue = LaneQueue::new(LaneLimits { messages: 3, bytes: 100 });
        let entry = |len: usize| QueuedMessage::new(Message::new(1, vec![0; len]));
        assert_eq!(queue.try_push(entry(60)), Ok(()));
        assert_eq!(queue.try_push(entry(60)), Err(Full::NoRoom));
        assert_eq!(queue.try_push(entry(0)), Ok(()));
        assert!(queue.pop().is_some() && queue.pop().is_some());
        assert_eq!(queue.try_push(entry(5000)), Ok(()), "a single message always fits");
        assert_eq!(queue.try_push(entry(0)), Err(Full::NoRoom));
        while queue.pop().is_some() {}
        for _ in 0..3 {
            assert_eq!(queue.try_push(entry(0)), Ok(()));
        }
        assert_eq!(queue.try_push(entry(0)), Err(Full::NoRoom));
        queue.close();
        assert_eq!(queue.try_push(entry(0)), Err(Full::Closed));
        assert!(queue.pop().is_some());
        queue.end();
        assert!(queue.pop().is_none());
    }
}
