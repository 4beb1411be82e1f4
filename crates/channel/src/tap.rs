//! Somebody who sees every message of a channel, beside those it is for.

use std::fmt;

use weft_wire::Message;

/// Sees the messages of a channel, those that belong to the channel itself too, on the tasks of its
/// connections. It must not wait.
pub trait Tap: fmt::Debug + Send + Sync + 'static {
    /// A message has arrived.
    fn received(&self, message: &Message);

    /// A message is about to be written; it has its sequence.
    fn sent(&self, message: &Message);
}
