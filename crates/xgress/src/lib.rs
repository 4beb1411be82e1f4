//! Circuits as seen by one hop, without I/O and without clocks.
//!
//! A circuit carries bytes between two ends over any number of hops. This crate has what stands at
//! each of them:
//!
//! * [`End`]: an end of a circuit as a state machine. The application's data goes in by
//!   [`End::write`] and comes out as [`Payload`]s by [`End::poll_transmit`]; what arrives goes in
//!   by [`End::on_payload`] and [`End::on_ack`] and comes out in order by [`End::read`]. It does
//!   windows, retransmission, ordering, half-close and close (docs/protocol/data-plane.md 7).
//! * [`TransitQueue`]: frames that pass through, bounded in bytes.
//! * [`Scheduler`]: which flow a connection serves next, so that circuits share it fairly.
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

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod alarm;
mod chunk;
mod congestion;
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
pub use congestion::Window;
pub use end::{CloseReason, Delivery, End, Role, WriteError};
pub use options::{Options, WindowKind};
pub use scheduler::{Class, QUANTUM, Scheduler, Source, Tally};
pub use standing::{Path, Standing};
pub use transit::{Pushed, TransitQueue, Waiting};

/// What one queued item costs beyond its data, so that tiny payloads count.
pub const ITEM_COST: usize = 256;

/// How much an application is read at once to make one payload. A multiple of 16, so that an
/// encrypted payload takes the fast cipher.
pub const PAYLOAD_SIZE: usize = 32 * 1024;

/// What an end holds unsent beyond its window.
pub const SEND_SLACK: usize = 64 * 1024;

/// Headers of a payload that are part of [`ITEM_COST`]. What peers send is less; what is more counts
/// as data does, so that nobody hides memory there.
const FREE_HEADERS: usize = 128;

/// What one header of a payload takes beyond its value.
const HEADER_COST: usize = 48;

/// The bytes an item of so much data counts in windows, queues and budgets.
pub(crate) fn cost(data: usize) -> u64 {
    data as u64 + ITEM_COST as u64
}

/// The bytes a payload counts.
pub(crate) fn payload_cost(headers: &[(u8, bytes::Bytes)], data: &bytes::Bytes) -> u64 {
    let headers: usize = headers.iter().map(|(_, value)| value.len() + HEADER_COST).sum();
    cost(data.len() + headers.saturating_sub(FREE_HEADERS))
}

/// The length by which a message that passes through counts in a [`TransitQueue`]: its body, and
/// what its headers have beyond the usual.
#[must_use]
pub fn transit_len(message: &weft_wire::Message) -> usize {
    message.body.len() + message.headers.wire_len().saturating_sub(ITEM_COST)
}
