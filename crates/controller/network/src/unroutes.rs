//! Unroutes for one router, in one line: none is lost because the router's channel is full.
//!
//! Many circuits can end at once, for instance when the program that hosts them goes, and many can leave a router at
//! once, when a link breaks. A router that missed an unroute would keep its applications waiting until it asks about
//! idle circuits, and would never ask about one whose application goes on sending.
//!
//! Unroutes that find no room wait here, each circuit once. One task for each router sends them, and waits for room
//! like any other sender. An unroute leaves the line only when the channel has room for it. If its circuit is routed
//! over the router again meanwhile, the unroute is dropped from the line, so that it can never arrive after the new
//! route.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use weft_channel::{ChannelHandle, Lane, Room, SendError};
use weft_wire::ProtoBody as _;
use weft_wire::ctrl::Unroute;

/// Most unroutes that wait for one router, those of circuits that were routed again included. Further ones are
/// refused: the caller tries again, or the router asks about their circuits when it finds them idle.
const MOST: usize = 250_000;
/// Longest id, in bytes, of a circuit whose unroute waits. Routers carry no circuits with longer ids, but may ask
/// about them.
const LONGEST: usize = 128;
/// Most bytes of the message of such an unroute.
const MESSAGE: usize = LONGEST + 128;

/// Unroutes that wait for room on the channel of a router.
#[derive(Debug, Default)]
pub(crate) struct Unroutes(Mutex<UnrouteQueue>);

#[derive(Debug, Default)]
struct UnrouteQueue {
    /// Circuits in the order of their unroutes.
    line: VecDeque<Arc<str>>,
    /// Those whose unroutes are still wanted: whether the circuit ends at once, and the term of its controller.
    wanted: HashMap<Arc<str>, (bool, u64)>,
    /// True while a task sends them.
    is_sending: bool,
}

/// What became of an unroute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnrouteDelivery {
    /// The unroute was sent, or waits; nothing is to be done for a router that is gone.
    Yes,
    /// The unroute waits, and a task has to begin to [`send`](Unroutes::send).
    BeginToSend,
    /// There is no room, and too many others wait.
    No,
}

impl Unroutes {
    /// Sends an unroute if there is room and no other one waits; otherwise it waits.
    pub(crate) fn tell(&self, channel: &ChannelHandle, unroute: &Unroute) -> UnrouteDelivery {
        let mut waiting = self.0.lock();
        if !waiting.is_sending {
            match channel.try_send_on(Lane::High, unroute.to_message()) {
                Err(SendError::Full) => {}
                _ => return UnrouteDelivery::Yes,
            }
        }
        waiting.take_in(unroute)
    }

    /// Notes that a circuit is about to be routed over the router: an unroute that waits is dropped.
    pub(crate) fn cancel(&self, circuit: &str) {
        let mut waiting = self.0.lock();
        if waiting.is_sending {
            waiting.wanted.remove(circuit);
        }
    }

    /// Sends what waits, until nothing does or the channel is closed.
    pub(crate) async fn send(&self, channel: &ChannelHandle) {
        loop {
            match channel.room_on(Lane::High, MESSAGE).await {
                Ok(room) => {
                    if !self.send_next(room) {
                        return;
                    }
                }
                Err(SendError::Closed(_)) => {
                    *self.0.lock() = UnrouteQueue::default();
                    return;
                }
                // The router reads slowly.
                Err(_) => {}
            }
        }
    }

    /// Sends the next unroute. False if none waits; then the task that sends them has ended.
    fn send_next(&self, room: Room) -> bool {
        // The lock is held until the message is in the channel, before any route that is sent later.
        let mut waiting = self.0.lock();
        let Some(unroute) = waiting.next() else {
            *waiting = UnrouteQueue::default();
            return false;
        };
        // A channel that has closed is noticed when room is asked for.
        let _ = room.send(unroute.to_message());
        true
    }
}

impl UnrouteQueue {
    /// Puts an unroute into the line.
    fn take_in(&mut self, unroute: &Unroute) -> UnrouteDelivery {
        if let Some((now, term)) = self.wanted.get_mut(unroute.circuit_id.as_str()) {
            *now |= unroute.now;
            *term = unroute.term.max(*term);
            return UnrouteDelivery::Yes;
        }
        if unroute.circuit_id.len() > LONGEST || self.line.len() >= MOST {
            return UnrouteDelivery::No;
        }
        let circuit: Arc<str> = unroute.circuit_id.as_str().into();
        self.wanted.insert(Arc::clone(&circuit), (unroute.now, unroute.term));
        self.line.push_back(circuit);
        match std::mem::replace(&mut self.is_sending, true) {
            true => UnrouteDelivery::Yes,
            false => UnrouteDelivery::BeginToSend,
        }
    }

    /// The next unroute that is still wanted.
    fn next(&mut self) -> Option<Unroute> {
        loop {
            let circuit = self.line.pop_front()?;
            if let Some((now, term)) = self.wanted.remove(&circuit) {
                return Some(Unroute { circuit_id: circuit.to_string(), now, term });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unroute(circuit: &str, now: bool) -> Unroute {
        Unroute { circuit_id: circuit.to_owned(), now, term: 0 }
    }

    #[test]
    fn a_circuit_waits_once_and_ends_at_once_if_any_unroute_says_so() {
        let mut waiting = UnrouteQueue::default();
        assert_eq!(waiting.take_in(&unroute("a", false)), UnrouteDelivery::BeginToSend);
        assert_eq!(waiting.take_in(&unroute("b", false)), UnrouteDelivery::Yes);
        assert_eq!(waiting.take_in(&unroute("a", true)), UnrouteDelivery::Yes);
        assert_eq!(waiting.take_in(&unroute("a", false)), UnrouteDelivery::Yes);
        let next = [waiting.next(), waiting.next(), waiting.next()];
        assert_eq!(next, [Some(unroute("a", true)), Some(unroute("b", false)), None]);
    }

    #[test]
    fn an_unroute_that_waits_does_not_follow_a_later_route() {
        let unroutes = Unroutes::default();
        for circuit in ["a", "b"] {
            unroutes.0.lock().take_in(&unroute(circuit, true));
        }
        unroutes.cancel("a");
        assert_eq!(unroutes.0.lock().next(), Some(unroute("b", true)));
        unroutes.0.lock().take_in(&unroute("a", true));
        assert_eq!(unroutes.0.lock().next(), Some(unroute("a", true)), "it has left again");
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut waiting = UnrouteQueue::default();
        assert_eq!(waiting.take_in(&unroute(&"x".repeat(LONGEST + 1), true)), UnrouteDelivery::No);
        // Circuits that leave the router and come back again and again.
        for number in 0..MOST {
            assert_ne!(waiting.take_in(&unroute(&number.to_string(), true)), UnrouteDelivery::No);
            waiting.wanted.clear();
        }
        assert_eq!(waiting.take_in(&unroute("more", true)), UnrouteDelivery::No);
        assert_eq!(waiting.next(), None);
        assert_eq!(waiting.take_in(&unroute("more", true)), UnrouteDelivery::Yes);
    }

    #[test]
    fn the_longest_unroute_fits_into_its_room() {
        let longest = unroute(&"x".repeat(LONGEST), true).to_message();
        assert!(longest.wire_len() <= MESSAGE, "{}", longest.wire_len());
    }
}
