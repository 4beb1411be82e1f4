//! Limits that hold before any work is done: how often ([`TokenBucket`]), how much at once
//! ([`AdaptiveWindow`]), how many from whom ([`BoundedTable`], [`source_of`]) and how many bytes
//! ([`Budget`]).
//!
//! Nothing here reads a clock or waits. Time comes in as an argument, and a limit that is reached
//! is an answer (`None`, or a typed refusal) that the caller turns into its own: a 429, a closed
//! connection, a dropped payload.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod bucket;
mod budget;
mod source;
mod table;
mod window;

pub use bucket::TokenBucket;
pub use budget::{Budget, Grant};
pub use source::source_of;
pub use table::{BoundedTable, Caps, Inserted, TableFull, WhenFull};
pub use window::{AdaptiveWindow, Outcome, Ticket, WindowOptions};
