//! Unroutes of circuits that are over, for one router: none is lost because the router's channel is full.
//!
//! Many circuits can end at once, for instance when the program that hosts them goes. A router that missed an
//! unroute would keep its applications waiting until it asks about idle circuits, and would never ask about one
//! whose application goes on sending.

use std::collections::VecDeque;

use parking_lot::Mutex;
use weft_channel::{ChannelHandle, Lane, SendError};
use weft_wire::ProtoBody as _;
use weft_wire::ctrl::Unroute;

/// Most unroutes that wait for one router. Further ones are lost, and the router asks about their circuits when it
/// finds them idle.
const MOST: usize = 250_000;
/// Longest id, in bytes, of a circuit whose unroute waits. Routers carry no circuits with longer ids, but may ask
/// about them.
const LONGEST: usize = 128;

/// Unroutes that wait for room on the channel of a router.
#[derive(Debug, Default)]
pub(crate) struct Unroutes(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    queue: VecDeque<Unroute>,
    /// True while a task sends them.
    is_sending: bool,
}

impl Unroutes {
    /// Sends an unroute if there is room and no other one waits; otherwise it waits. True if a task has to
    /// begin to [`send`](Self::send).
    pub(crate) fn tell(&self, channel: &ChannelHandle, unroute: &Unroute) -> bool {
        let mut waiting = self.0.lock();
        if !waiting.is_sending {
            match channel.try_send_on(Lane::High, unroute.to_message()) {
                Err(SendError::Full) => {}
                _ => return false,
            }
        }
        if unroute.circuit_id.len() > LONGEST || waiting.queue.len() >= MOST {
            return false;
        }
        waiting.queue.push_back(unroute.clone());
        !std::mem::replace(&mut waiting.is_sending, true)
    }

    /// Sends what waits, until nothing does or the channel is closed.
    pub(crate) async fn send(&self, channel: &ChannelHandle) {
        while let Some(unroute) = self.next() {
            loop {
                match channel.send_on(Lane::High, unroute.to_message()).await {
                    Err(SendError::Closed(_)) => return self.0.lock().queue.clear(),
                    // The router reads slowly.
                    Err(SendError::Full | SendError::Timeout) => {}
                    _ => break,
                }
            }
        }
    }

    fn next(&self) -> Option<Unroute> {
        let mut waiting = self.0.lock();
        let next = waiting.queue.pop_front();
        if next.is_none() {
            *waiting = Waiting::default();
        }
        next
    }
}
