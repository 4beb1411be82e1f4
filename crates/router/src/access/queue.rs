//! Messages of controllers that wait for the worker.
//!
//! The queue is bounded by number and by bytes. A message without room goes back to its connection,
//! which is not read until there is room. No message is lost, and the controller's own queues slow
//! it down.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use weft_channel::UnderlayWaker;
use weft_wire::Message;

use crate::controllers::Controller;

/// A message and the controller that sent it.
pub(super) type ControllerMessage = (Arc<Controller>, Message);

/// Most messages that wait.
const MESSAGES: usize = 1000;
/// Most bytes that wait; a single message is always accepted.
const BYTES: usize = 64 << 20;

/// Messages of controllers in the order of their arrival.
#[derive(Debug)]
pub(super) struct Queue<T = ControllerMessage> {
    bytes: usize,
    state: Mutex<State<T>>,
    filled: Notify,
    /// Held by tests that stop the queue.
    #[cfg(test)]
    turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug)]
struct State<T> {
    waiting: VecDeque<(T, usize)>,
    bytes: usize,
    /// Connections that are read again when there is room.
    paused: Vec<UnderlayWaker>,
}

impl<T> Queue<T> {
    /// An empty queue.
    pub(super) fn new() -> Self {
        Self::of(BYTES)
    }

    fn of(bytes: usize) -> Self {
        let state = State { waiting: VecDeque::new(), bytes: 0, paused: Vec::new() };
        Self {
            bytes,
            state: Mutex::new(state),
            filled: Notify::new(),
            #[cfg(test)]
            turn: Arc::default(),
        }
    }

    /// Adds an item of this many bytes. Without room the item is returned, and the connection is
    /// resumed when there is room.
    pub(super) fn push(&self, item: T, bytes: usize, connection: &UnderlayWaker) -> Result<(), T> {
        let mut state = self.state.lock();
        let over = state.bytes.saturating_add(bytes) > self.bytes && !state.waiting.is_empty();
        if over || state.waiting.len() >= MESSAGES {
            state.paused.push(connection.clone());
            return Err(item);
        }
        state.bytes = state.bytes.saturating_add(bytes);
        state.waiting.push_back((item, bytes));
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    /// Stops the queue until the returned value is dropped.
    #[cfg(test)]
    pub(super) async fn hold_up(&self) -> impl Sized + use<T> {
        self.turn.clone().lock_owned().await
    }

    /// The number of waiting items.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// The next item, once there is one. Only one reader at a time is allowed.
    pub(super) async fn pop(&self) -> T {
        loop {
            #[cfg(test)]
            let turn = self.turn.lock().await;
            if let Some(item) = self.try_pop() {
                return item;
            }
            #[cfg(test)]
            drop(turn);
            self.filled.notified().await;
        }
    }

    fn try_pop(&self) -> Option<T> {
        let (item, paused) = {
            let mut state = self.state.lock();
            let (item, bytes) = state.waiting.pop_front()?;
            state.bytes -= bytes;
            (item, std::mem::take(&mut state.paused))
        };
        // Connections that still find no room wait again.
        paused.iter().for_each(UnderlayWaker::resume);
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn room_is_bounded_in_bytes_and_number() {
        let (queue, connection) = (Queue::of(100), UnderlayWaker::default());
        assert_eq!(queue.push("long", 5000, &connection), Ok(()), "one always fits");
        assert_eq!(queue.push("short", 1, &connection), Err("short"));
        assert_eq!(queue.try_pop(), Some("long"));
        assert_eq!(queue.push("a", 60, &connection), Ok(()));
        assert_eq!(queue.push("b", 60, &connection), Err("b"));
        assert_eq!(queue.push("c", 40, &connection), Ok(()));
        assert_eq!(
            (queue.try_pop(), queue.try_pop(), queue.try_pop()),
            (Some("a"), Some("c"), None)
        );
        for _ in 0..MESSAGES {
            assert_eq!(queue.push("", 0, &connection), Ok(()));
        }
        assert_eq!(queue.push("", 0, &connection), Err(""));
    }

    #[test]
    fn connections_wait_for_room_and_no_longer() {
        let (queue, connection) = (Queue::of(10), UnderlayWaker::default());
        assert_eq!(queue.push(1, 10, &connection), Ok(()));
        for _ in 0..2 {
            assert_eq!(queue.push(2, 10, &connection), Err(2));
        }
        assert_eq!(queue.state.lock().paused.len(), 2);
        assert_eq!(queue.try_pop(), Some(1));
        assert!(queue.state.lock().paused.is_empty());
        assert_eq!(queue.push(2, 10, &connection), Ok(()));
        assert_eq!(queue.pop().now_or_never(), Some(2));
        assert_eq!(queue.pop().now_or_never(), None);
    }
}
