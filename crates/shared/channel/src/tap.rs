//! An observer of all messages of a channel.

use std::fmt;

use weft_wire::Message;

/// Sees the messages of a channel, also those that the channel handles itself, on the tasks of its
/// connections. It must not wait.
pub trait Tap: fmt::Debug + Send + Sync + 'static {
    /// Called for each message that has arrived.
    fn received(&self, message: &Message);

    /// Called for each message that is about to be written; it has its sequence number.
    fn sent(&self, message: &Message);
}
