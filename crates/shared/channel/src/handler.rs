//! The interface to a user of a channel: a handler of messages, and an outbox for more of them.

use std::sync::Arc;
use std::time::Duration;

use weft_wire::Message;

use crate::batch::Outbox;
use crate::error::CloseReason;
use crate::handle::ChannelHandle;
use crate::peer::UnderlayInfo;
use crate::wake::UnderlayWaker;

/// Whether a connection goes on reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// The connection hands over the next message.
    Continue,
    /// The connection reads nothing until [`UnderlayWaker::resume`] is called. It stays open and
    /// goes on writing.
    Pause,
}

/// Handles the messages of one connection, on its task. It must not block. Slow work goes to a task
/// of its own; so must everything that waits for a reply of the same channel, or the reply is never
/// read.
///
/// Replies to waiting requests, heartbeats and latency probes are not passed to a handler.
pub trait Handler: Send {
    /// A message has arrived.
    fn on_message(&mut self, message: Message, channel: &ChannelHandle) -> Reading;

    /// Called when the readable bytes, or a turn's share of them, have been read.
    fn on_turn_end(&mut self, channel: &ChannelHandle) {
        let _ = channel;
    }

    /// True if received bytes are to be acknowledged at once, and not up to 40 ms later: for a peer whose
    /// system sends a small message only when the one before is acknowledged (Nagle's algorithm).
    fn acknowledges_at_once(&self) -> bool {
        false
    }

    /// The connection was resumed after [`Reading::Pause`].
    fn on_resume(&mut self, channel: &ChannelHandle) -> Reading {
        let _ = channel;
        Reading::Continue
    }

    /// Called when the peer answered a heartbeat.
    fn on_heartbeat(&mut self, rtt: Duration) {
        let _ = rtt;
    }

    /// Called when the connection has closed; the channel may live on.
    fn on_detach(&mut self, reason: &CloseReason) {
        let _ = reason;
    }
}

/// The parts that a user gives one connection.
pub struct ConnectionParts {
    /// Handles its messages.
    pub handler: Box<dyn Handler>,
    /// Supplies messages beyond those sent through the handle.
    pub outbox: Option<Box<dyn Outbox>>,
}

/// Supplies the parts for each connection of a channel.
pub trait Behaviour: Send + Sync + 'static {
    /// Called when a connection joins the channel, and first for the one that founds it. Called
    /// before the connection reads or writes.
    fn attach(
        &self,
        underlay: &UnderlayInfo,
        waker: &UnderlayWaker,
        channel: &ChannelHandle,
    ) -> ConnectionParts;

    /// Called once, when the channel has closed.
    fn closed(&self, reason: &CloseReason) {
        let _ = reason;
    }
}

impl<B: Behaviour + ?Sized> Behaviour for Arc<B> {
    fn attach(
        &self,
        underlay: &UnderlayInfo,
        waker: &UnderlayWaker,
        channel: &ChannelHandle,
    ) -> ConnectionParts {
        (**self).attach(underlay, waker, channel)
    }

    fn closed(&self, reason: &CloseReason) {
        (**self).closed(reason);
    }
}
