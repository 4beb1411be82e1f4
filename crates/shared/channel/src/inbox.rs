//! Receiving messages with an async call, for tests and measurements (feature `inbox`).

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use weft_wire::Message;

use crate::error::CloseReason;
use crate::handle::ChannelHandle;
use crate::handler::{Behaviour, ConnectionParts, Handler, Reading};
use crate::peer::UnderlayInfo;
use crate::wake::UnderlayWaker;

/// The limits of an [`Inbox`]. While they are reached, the connections are not read.
#[derive(Debug, Clone, Copy)]
pub struct InboxLimits {
    /// Most messages that wait.
    pub messages: usize,
    /// Most bytes that wait; a single message may always wait.
    pub bytes: usize,
}

impl Default for InboxLimits {
    fn default() -> Self {
        Self { messages: 256, bytes: 32 * 1024 * 1024 }
    }
}

/// The receiving half of [`inbox`].
///
/// While it is full, nothing of the channel is read, replies included: a task that empties it must
/// not wait for a reply of the same channel.
#[derive(Debug)]
pub struct Inbox(Arc<Shelf>);

#[derive(Debug)]
struct Shelf {
    limits: InboxLimits,
    state: Mutex<State>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Message>,
    bytes: usize,
    /// Connections that are resumed when there is room.
    paused: Vec<UnderlayWaker>,
    closed: bool,
    abandoned: bool,
}

/// A behaviour that puts every message of a channel into an inbox, and that inbox.
pub fn inbox(limits: InboxLimits) -> (Arc<dyn Behaviour>, Inbox) {
    let shelf = Arc::new(Shelf { limits, state: Mutex::default(), filled: Notify::new() });
    (Arc::new(IntoShelf(shelf.clone())), Inbox(shelf))
}

impl Inbox {
    /// The next message; `None` when the channel has closed and all messages were taken.
    pub async fn recv(&mut self) -> Option<Message> {
        loop {
            let filled = self.0.filled.notified();
            if let Some(next) = self.0.pop() {
                return next;
            }
            filled.await;
        }
    }

    /// The next message, if there is one.
    pub fn try_recv(&mut self) -> Option<Message> {
        self.0.pop().flatten()
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.abandoned = true;
        state.messages.clear();
        for waker in state.paused.drain(..) {
            waker.resume();
        }
    }
}

impl Shelf {
    /// Adds a message, or keeps the waker to be called when there is room.
    fn push(&self, message: Message, waker: &UnderlayWaker) -> Result<(), Message> {
        let mut state = self.state.lock();
        if state.abandoned {
            return Ok(());
        }
        let length = message.wire_len();
        let over = state.bytes + length > self.limits.bytes && !state.messages.is_empty();
        if over || state.messages.len() >= self.limits.messages.max(1) {
            state.paused.push(waker.clone());
            return Err(message);
        }
        state.bytes += length;
        state.messages.push_back(message);
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    /// `Some(None)` is the end; `None` means that nothing has arrived yet.
    fn pop(&self) -> Option<Option<Message>> {
        let mut state = self.state.lock();
        let Some(message) = state.messages.pop_front() else {
            return state.closed.then_some(None);
        };
        state.bytes -= message.wire_len();
        for waker in state.paused.drain(..) {
            waker.resume();
        }
        Some(Some(message))
    }
}

struct IntoShelf(Arc<Shelf>);

impl Behaviour for IntoShelf {
    fn attach(
        &self,
        _: &UnderlayInfo,
        waker: &UnderlayWaker,
        _: &ChannelHandle,
    ) -> ConnectionParts {
        let handler = ShelfHandler { shelf: self.0.clone(), waker: waker.clone(), held: None };
        ConnectionParts { handler: Box::new(handler), outbox: None }
    }

    fn closed(&self, _: &CloseReason) {
        self.0.state.lock().closed = true;
        self.0.filled.notify_one();
    }
}

struct ShelfHandler {
    shelf: Arc<Shelf>,
    waker: UnderlayWaker,
    /// The message that found no room.
    held: Option<Message>,
}

impl Handler for ShelfHandler {
    fn on_message(&mut self, message: Message, _: &ChannelHandle) -> Reading {
        match self.shelf.push(message, &self.waker) {
            Ok(()) => Reading::Continue,
            Err(message) => {
                self.held = Some(message);
                Reading::Pause
            }
        }
    }

    fn on_resume(&mut self, channel: &ChannelHandle) -> Reading {
        match self.held.take() {
            Some(message) => self.on_message(message, channel),
            None => Reading::Continue,
        }
    }
}
