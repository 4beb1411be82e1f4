//! What a user of a channel brings: where messages go, and where further ones come from.

use crate::batch::Outbox;
use crate::error::CloseReason;
use crate::handle::ChannelHandle;
use crate::peer::UnderlayInfo;
use crate::wake::UnderlayWaker;
use std::sync::Arc;
use std::time::Duration;
use weft_wire::Message;

/// Whether a connection goes on reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Give me the next message.
    Continue,
    /// Give me nothing more until [`UnderlayWaker::resume`] is called. The connection stays up and
    /// goes on writing.
    Pause,
}

/// Takes the messages of one connection, on its task. It must not block: what takes long goes to a
/// task of its own, and what awaits a reply of the same channel must, or the reply is never read.
///
/// Replies that somebody waits for, heartbeats and latency probes do not come here.
pub trait Handler: Send {
    /// A message has arrived.
    fn on_message(&mut self, message: Message, channel: &ChannelHandle) -> Reading;

    /// What was readable has been read, or the turn's share of it.
    fn on_turn_end(&mut self, channel: &ChannelHandle) {
        let _ = channel;
    }

    /// The connection was resumed after [`Reading::Pause`].
    fn on_resume(&mut self, channel: &ChannelHandle) -> Reading {
        let _ = channel;
        Reading::Continue
    }

    /// The peer answered a heartbeat.
    fn on_heartbeat(&mut self, rtt: Duration) {
        let _ = rtt;
    }

    /// The connection has ended; the channel may live on.
    fn on_detach(&mut self, reason: &CloseReason) {
        let _ = reason;
    }
}

/// What a user gives one connection.
pub struct Parts {
    /// Takes its messages.
    pub handler: Box<dyn Handler>,
    /// Gives it messages beyond those sent through the handle.
    pub outbox: Option<Box<dyn Outbox>>,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("outbox", &self.outbox.is_some()).finish_non_exhaustive()
    }
}

/// What a user gives a channel: parts for each of its connections.
pub trait Behaviour: Send + Sync + 'static {
    /// A connection joins the channel, at first the one that founds it. Called before it reads or
    /// writes.
    fn attach(
        &self,
        underlay: &UnderlayInfo,
        waker: &UnderlayWaker,
        channel: &ChannelHandle,
    ) -> Parts;

    /// The channel has ended. Called once.
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
    ) -> Parts {
        (**self).attach(underlay, waker, channel)
    }

    fn closed(&self, reason: &CloseReason) {
        (**self).closed(reason);
    }
}
