//! The parts of a circuit at one place of its path, without I/O and without clocks.
//!
//! A circuit carries bytes between two ends over any number of routers. This crate has the parts
//! for each place on that path:
//!
//! * [`End`]: an end of a circuit as a state machine. The application's data enters by
//!   [`End::write`] and leaves as [`Payload`]s by [`End::poll_transmit`]; received payloads enter
//!   by [`End::on_payload`] and [`End::on_ack`] and leave in order by [`End::read`]. It does
//!   windows, retransmission, ordering, half-close and close (docs/protocol/data-plane.md 7).
//! * [`TransitQueue`]: frames that pass through, bounded in bytes.
//! * [`Scheduler`]: which flow a connection serves next, so that circuits share it fairly.
//! * [`Crowd`]: the payloads that the circuits of a connection have on their way together, over short paths.
//!
//! Time is an argument everywhere. An end with nothing to wait for has no [`End::deadline`].
//!
//! ```text
//!  application --write--> End --poll_transmit/poll_ack--> Scheduler --> connection
//!  application <--read--- End <--on_payload/on_ack------- connection
//!                 connection --push--> TransitQueue --pull--> Scheduler --> connection
//! ```
//!
//! [`Payload`]: weft_wire::payload::Payload
//!
//! ```
//! use std::time::Instant;
//! use weft_limits::Budget;
//! use weft_xgress::{Delivery, End, Options, Role};
//!
//! let (now, budget, options) = (Instant::now(), Budget::new(1 << 20), Options::default());
//! let mut dialer = End::new(Role::Initiator, &options, &budget, now);
//! let mut host = End::new(Role::Terminator, &options, &budget, now);
//!
//! dialer.write("hello".into())?;
//! while let Some(payload) = dialer.poll_transmit(now) {
//!     host.on_payload(payload, now);
//! }
//! let Some(Delivery::Data { data, .. }) = host.read() else { panic!("nothing has arrived") };
//! assert_eq!(data, "hello");
//! while let Some(ack) = host.poll_ack() {
//!     dialer.on_ack(&ack, now);
//! }
//! # Ok::<(), weft_xgress::WriteError>(())
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod alarm;
mod chunk;
mod congestion;
mod crowd;
mod end;
mod fin;
mod options;
mod receiver;
mod rtt;
mod scheduler;
mod sender;
mod standing;
mod transit;

#[cfg(test)]
mod simulation;

pub use alarm::Alarm;
pub use chunk::Piece;
pub use congestion::CongestionWindow;
pub use crowd::Crowd;
pub use end::{CircuitCloseReason, Delivery, End, Role, WriteError};
pub use options::{Options, WindowKind};
pub use scheduler::{Class, FlowSource, QUANTUM, Scheduler, Tally};
pub use standing::{EndSnapshot, PathState};
pub use transit::{Pushed, QueuedFrame, TakenOut, TransitQueue};

/// The bookkeeping of one queued item, in bytes, which counts beside its data, so that tiny payloads
/// count.
pub const ITEM_COST: usize = 256;

/// Most bytes that are read from an application at once to make one payload. A multiple of 16, so
/// that an encrypted payload is processed by the fast cipher.
pub const PAYLOAD_SIZE: usize = 32 * 1024;

/// Most unsent bytes that an end holds beyond its window.
pub const SEND_SLACK: usize = 64 * 1024;

/// Bytes of a payload's headers that are covered by [`ITEM_COST`]. Usual headers are shorter; bytes
/// beyond that count like data, so that headers hide no memory.
const FREE_HEADERS: usize = 128;

/// The bookkeeping of one header of a payload, in bytes, beside its value.
const HEADER_COST: usize = 48;

/// The bytes by which an item counts in windows, queues and budgets.
pub(crate) fn cost(data: usize) -> u64 {
    data as u64 + ITEM_COST as u64
}

/// The bytes by which a payload counts.
pub(crate) fn payload_cost(headers: &[(u8, bytes::Bytes)], data: &bytes::Bytes) -> u64 {
    let headers: usize = headers.iter().map(|(_, value)| value.len() + HEADER_COST).sum();
    cost(data.len() + headers.saturating_sub(FREE_HEADERS))
}

/// The length by which a message that passes through counts in a [`TransitQueue`]: its body, and the
/// part of its headers that is longer than usual.
#[must_use]
pub fn transit_len(message: &weft_wire::Message) -> usize {
    message.body.len() + message.headers.wire_len().saturating_sub(ITEM_COST)
}
