//! The handle of a channel, by which the program sends messages and closes the channel.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use weft_wire::Message;

use crate::error::{CloseReason, RequestError, SendError};
use crate::heartbeat::{Liveness, now_ns};
use crate::lanes::{Lane, Permits, QueuedMessage};
use crate::peer::{PeerInfo, UnderlayInfo};
use crate::shared::Shared;
use crate::tap::Tap;

/// The handle of a channel. Clones are handles of the same channel. A channel is closed by
/// [`close`](Self::close), by its peer or by an error, and not by dropping handles.
#[derive(Clone)]
pub struct ChannelHandle(Arc<Shared>);

impl ChannelHandle {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    pub(crate) fn from_shared(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Queues a message on the default lane; waits for room up to the channel's send timeout.
    pub async fn send(&self, message: Message) -> Result<(), SendError> {
        self.send_on(Lane::Default, message).await
    }

    /// Queues a message on a lane; waits for room up to the channel's send timeout.
    pub async fn send_on(&self, lane: Lane, message: Message) -> Result<(), SendError> {
        self.send_timeout(lane, message, self.0.options.send_timeout).await
    }

    /// Queues a message on a lane; waits for room up to `timeout`.
    pub async fn send_timeout(
        &self,
        lane: Lane,
        message: Message,
        timeout: Duration,
    ) -> Result<(), SendError> {
        self.0.queue(lane, QueuedMessage::new(message), Instant::now() + timeout).await
    }

    /// Waits for the room of one message of up to `length` bytes on a lane, up to the channel's send timeout. The
    /// message is chosen when there is room, and queued without further waiting.
    ///
    /// # Errors
    /// When the channel is closed, or has no room in time.
    pub async fn room_on(&self, lane: Lane, length: usize) -> Result<Room, SendError> {
        let deadline = Instant::now() + self.0.options.send_timeout;
        let permits = self.0.room(lane, length, deadline).await?;
        Ok(Room { shared: Arc::clone(&self.0), lane, length, permits })
    }

    /// Queues a message on the default lane if there is room now.
    pub fn try_send(&self, message: Message) -> Result<(), SendError> {
        self.try_send_on(Lane::Default, message)
    }

    /// Queues a message on a lane if there is room now.
    pub fn try_send_on(&self, lane: Lane, message: Message) -> Result<(), SendError> {
        self.0.try_queue(lane, QueuedMessage::new(message))
    }

    /// Sends a message and waits until it has been handed to the socket.
    pub async fn send_written(
        &self,
        lane: Lane,
        message: Message,
        timeout: Duration,
    ) -> Result<(), SendError> {
        let deadline = Instant::now() + timeout;
        let (sender, written) = oneshot::channel();
        let entry = QueuedMessage { written: Some(sender), ..QueuedMessage::new(message) };
        self.0.queue(lane, entry, deadline).await?;
        match tokio::time::timeout_at(deadline, written).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.closed_because().map_or(SendError::Lost, SendError::Closed)),
            Err(_) => Err(SendError::Timeout),
        }
    }

    /// Sends a request on the default lane and waits for its reply.
    pub async fn request(
        &self,
        message: Message,
        timeout: Duration,
    ) -> Result<Message, RequestError> {
        self.request_on(Lane::Default, message, timeout).await
    }

    /// Sends a request on a lane and waits for its reply. Dropping the future cancels the wait; a
    /// later reply goes to the handler.
    pub async fn request_on(
        &self,
        lane: Lane,
        message: Message,
        timeout: Duration,
    ) -> Result<Message, RequestError> {
        let deadline = Instant::now() + timeout;
        let (waiter, mut pending) = self.0.waiters.request();
        let entry = QueuedMessage { waiter: Some(waiter), ..QueuedMessage::new(message) };
        self.0.queue(lane, entry, deadline).await?;
        match tokio::time::timeout_at(deadline, &mut pending.reply).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(_)) => Err(RequestError::Closed(self.0.close_reason())),
            Err(_) => {
                // A reply may have come at this moment; the handler gets it from here on.
                pending.reply.close();
                pending.reply.try_recv().unwrap_or(Err(RequestError::Timeout))
            }
        }
    }

    /// Lets a judged peer send as much as the options allow. To be called before the peer is told
    /// anything that makes it send more.
    pub fn judged(&self) {
        self.0.judged();
    }

    /// Closes the channel. Queued messages are still written, within a second.
    pub fn close(&self, reason: impl Into<Arc<str>>) {
        self.0.close(CloseReason::local(reason));
    }

    /// Waits until the channel is closed.
    pub fn closed(&self) -> impl Future<Output = CloseReason> + Send + 'static {
        let mut closed = self.0.subscribe_closed();
        async move {
            match closed.wait_for(Option::is_some).await {
                Ok(reason) => reason.clone().unwrap_or(CloseReason::Peer),
                Err(_) => CloseReason::Peer,
            }
        }
    }

    /// The reason, if the channel is closed.
    pub fn closed_because(&self) -> Option<CloseReason> {
        self.0.is_closed().then(|| self.0.close_reason())
    }

    /// True if the channel is closed.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Shows every message to a tap from now on. False if there is a tap already.
    pub fn tap(&self, tap: Arc<dyn Tap>) -> bool {
        self.0.tap.set(tap).is_ok()
    }

    /// The peer of the channel.
    pub fn peer(&self) -> &PeerInfo {
        &self.0.peer
    }

    /// The name of the channel in logs.
    pub fn label(&self) -> &str {
        &self.0.options.label
    }

    /// Its live connections.
    pub fn underlays(&self) -> Vec<UnderlayInfo> {
        self.0.underlays()
    }

    /// Changes whenever a connection is added or removed; the value counts these changes.
    pub fn underlay_changes(&self) -> watch::Receiver<u32> {
        self.0.subscribe_changes()
    }

    /// How the peer answers heartbeats.
    pub fn liveness(&self) -> Liveness {
        self.0.heartbeat.liveness(now_ns())
    }

    /// Id of the group, if the channel may have several connections.
    #[cfg(test)]
    pub(crate) fn group_id(&self) -> Option<String> {
        self.0.group.as_ref().map(|group| group.state.lock().id.clone())
    }

    /// True if both are the same channel.
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Display for ChannelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.options.label)
    }
}

impl fmt::Debug for ChannelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ChannelHandle").field(&self.0.options.label).finish()
    }
}

/// Room for one message in a send queue, given back when it is dropped.
pub struct Room {
    shared: Arc<Shared>,
    lane: Lane,
    length: usize,
    permits: Permits,
}

impl Room {
    /// Queues a message.
    ///
    /// # Errors
    /// When the message is longer than the room, or the channel has closed.
    pub fn send(self, message: Message) -> Result<(), SendError> {
        let Self { shared, lane, length: limit, permits } = self;
        let length = message.wire_len();
        if length > limit {
            return Err(SendError::TooLarge { length, limit });
        }
        shared.queue_within(lane, message, permits)
    }
}
