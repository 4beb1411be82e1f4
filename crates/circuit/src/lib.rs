//! Circuits between queues and connections.
//!
//! `weft-xgress` is the state machine of a circuit's end, without I/O; `weft-channel` moves messages over
//! connections. This crate lies between them, for routers and SDKs alike:
//!
//! * [`Hop`]: the queue of one circuit for one neighbour. The neighbour can change while payloads wait.
//! * [`Outlet`]: the connections to one neighbour, and the flow that each of them serves next.
//! * [`Timers`]: the deadlines at which ends are looked at again.
//!
//! ```text
//!  payload of another neighbour ──> Hop ──┐
//!  payload of an end here ────────────────┴─ listed ──> Outlet ──> connection
//!                                                         │  ├────> connection
//!                                                         │  └────> connection for acks
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod hop;
mod outlet;
mod probe;
#[cfg(test)]
mod tests;
mod timers;

pub use hop::{Hop, HopFlow};
pub use outlet::{Carries, DataOutbox, Flow, Outlet, Seat, Unsent};
pub use probe::{Probe, Sample};
pub use timers::{Timed, Timers};
