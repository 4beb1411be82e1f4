//! The wire between two sides of a connection in memory, and how a side reads and writes it.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use parking_lot::Mutex;
use tokio::io::Interest;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::pump::Received;

/// Most bytes that are on their way in one direction; a side that has more to write waits.
const IN_FLIGHT: usize = 1024 * 1024;

/// The wire between the two sides of a connection in memory. Clones share it.
#[derive(Debug, Clone)]
pub struct Wire(Arc<[Direction; 2]>);

/// The bytes that one side writes and the other reads.
#[derive(Debug)]
struct Direction {
    flight: Mutex<Flight>,
    /// Notified when the reader may find more than before.
    readable: Notify,
    /// Notified when the writer may find more room than before.
    writable: Notify,
}

#[derive(Debug)]
struct Flight {
    delay: Duration,
    is_stopped: bool,
    /// Whether the writer has closed the connection, behind the bytes that are on their way.
    is_closed: bool,
    chunks: VecDeque<(Instant, Bytes)>,
    bytes: usize,
}

impl Flight {
    /// Whether the reader finds the connection closed.
    fn is_over(&self) -> bool {
        self.is_closed && self.chunks.is_empty() && !self.is_stopped
    }
}

impl Direction {
    fn new(delay: Duration) -> Self {
        let flight = Flight {
            delay,
            is_stopped: false,
            is_closed: false,
            chunks: VecDeque::new(),
            bytes: 0,
        };
        Self { flight: Mutex::new(flight), readable: Notify::new(), writable: Notify::new() }
    }

    fn change(&self, change: impl FnOnce(&mut Flight)) {
        change(&mut self.flight.lock());
        self.readable.notify_one();
        self.writable.notify_one();
    }
}

impl Wire {
    pub(super) fn new(delay: Duration) -> Self {
        Self(Arc::new([Direction::new(delay), Direction::new(delay)]))
    }

    /// Sets the time that bytes written from now on take. Bytes never overtake earlier ones.
    pub fn set_delay(&self, delay: Duration) {
        self.0.iter().for_each(|direction| direction.change(|flight| flight.delay = delay));
    }

    /// Stops the wire, or lets it go on: meanwhile nothing arrives, not even the end of the other side, and nothing is
    /// lost.
    pub fn set_stopped(&self, is_stopped: bool) {
        let stop = |flight: &mut Flight| flight.is_stopped = is_stopped;
        self.0.iter().for_each(|direction| direction.change(stop));
    }

    /// Cuts the wire: bytes that are on their way are lost, and both sides find the connection closed.
    pub fn cut(&self) {
        for direction in &*self.0 {
            direction.change(|flight| {
                flight.chunks.clear();
                (flight.bytes, flight.is_stopped, flight.is_closed) = (0, false, true);
            });
        }
    }
}

/// One side of a connection in memory.
#[derive(Debug)]
pub(crate) struct MemoryPump {
    wire: Wire,
    /// The index of the direction that this side writes.
    writes: usize,
    addresses: [SocketAddr; 2],
    arrived: VecDeque<Bytes>,
    /// Bytes that are not on the wire yet.
    out: Vec<u8>,
}

impl MemoryPump {
    /// The side that writes this direction of the wire; `addresses` are those of both sides.
    pub(super) fn new(wire: &Wire, writes: usize, addresses: [SocketAddr; 2]) -> Self {
        let (wire, arrived, out) = (wire.clone(), VecDeque::new(), Vec::new());
        Self { wire, writes, addresses, arrived, out }
    }

    fn incoming(&self) -> &Direction {
        &self.wire.0[1 - self.writes]
    }

    fn outgoing(&self) -> &Direction {
        &self.wire.0[self.writes]
    }

    pub(crate) fn addresses(&self) -> (SocketAddr, SocketAddr) {
        (self.addresses[1 - self.writes], self.addresses[self.writes])
    }

    /// The bytes that are there; `None` when the peer has closed the connection.
    pub(crate) fn plaintext(&self) -> Option<&[u8]> {
        if let Some(first) = self.arrived.front() {
            return Some(first);
        }
        let flight = self.incoming().flight.lock();
        (!flight.is_over()).then_some(&[])
    }

    pub(crate) fn consume(&mut self, bytes: usize) {
        if let Some(first) = self.arrived.front_mut() {
            first.advance(bytes.min(first.len()));
            if first.is_empty() {
                self.arrived.pop_front();
            }
        }
    }

    pub(crate) fn receive(&mut self) -> Received {
        let now = Instant::now();
        let mut taken = Vec::new();
        let is_over = {
            let mut flight = self.incoming().flight.lock();
            while !flight.is_stopped && flight.chunks.front().is_some_and(|(due, _)| *due <= now) {
                taken.extend(flight.chunks.pop_front().map(|(_, bytes)| bytes));
            }
            flight.bytes -= taken.iter().map(Bytes::len).sum::<usize>();
            flight.is_over()
        };
        let bytes = taken.iter().map(Bytes::len).sum();
        self.arrived.extend(taken);
        match bytes {
            0 if is_over => Received::End,
            0 => Received::Blocked,
            bytes => {
                self.incoming().writable.notify_one();
                Received::Bytes(bytes)
            }
        }
    }

    pub(crate) fn encrypt(&mut self, slices: &[IoSlice<'_>]) -> usize {
        slices.iter().for_each(|slice| self.out.extend_from_slice(slice));
        slices.iter().map(|slice| slice.len()).sum()
    }

    pub(crate) fn flush(&mut self) -> (bool, usize) {
        if self.out.is_empty() {
            return (true, 0);
        }
        let now = Instant::now();
        let direction = &self.wire.0[self.writes];
        let mut flight = direction.flight.lock();
        if flight.is_closed {
            // As with a socket, the end is found by reading.
            self.out.clear();
            return (true, 0);
        }
        if flight.bytes >= IN_FLIGHT {
            return (false, 0);
        }
        let last = flight.chunks.back().map_or(now, |(due, _)| *due);
        let due = last.max(now + flight.delay);
        let bytes = Bytes::from(std::mem::take(&mut self.out));
        let written = bytes.len();
        flight.bytes += written;
        flight.chunks.push_back((due, bytes));
        drop(flight);
        direction.readable.notify_one();
        (true, written)
    }

    pub(crate) async fn ready(&self, interest: Interest) {
        tokio::select! {
            biased;
            () = self.readable(), if interest.is_readable() => {}
            () = self.writable(), if interest.is_writable() => {}
        }
    }

    async fn readable(&self) {
        loop {
            let changed = self.incoming().readable.notified();
            let due = {
                let flight = self.incoming().flight.lock();
                match flight.chunks.front() {
                    Some(_) if flight.is_stopped => None,
                    Some((due, _)) if *due <= Instant::now() => return,
                    Some((due, _)) => Some(*due),
                    None if flight.is_over() => return,
                    None => None,
                }
            };
            tokio::select! {
                biased;
                () = changed => {}
                () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => return,
            }
        }
    }

    async fn writable(&self) {
        loop {
            let changed = self.outgoing().writable.notified();
            {
                let flight = self.outgoing().flight.lock();
                if flight.is_closed || flight.bytes < IN_FLIGHT {
                    return;
                }
            }
            changed.await;
        }
    }
}

impl Drop for MemoryPump {
    fn drop(&mut self) {
        self.outgoing().change(|flight| flight.is_closed = true);
        // The peer may write on, into nothing.
        self.incoming().change(|flight| {
            flight.chunks.clear();
            (flight.bytes, flight.is_closed) = (0, true);
        });
    }
}
