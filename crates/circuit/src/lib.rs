//! Circuits between queues and connections.
//!
//! `weft-xgress` is the state machine of a circuit's end, without I/O; `weft-channel` moves messages over
//! connections. This crate lies between them, for routers and SDKs alike:
//!
//! * [`Hop`]: the queue of one circuit for one neighbour. The neighbour can change while payloads wait.
//! * [`Outlet`]: the connections to one neighbour, and the flow that each of them serves next.
//! * [`Driver`]: an end with the notes of its owner: where it is listed, which tasks wait for it,
//!   which deadline is armed.
//! * [`Timers`]: the deadlines at which ends are looked at again.
//! * [`Turn`] and [`Pause`]: agreements between threads, about the ends of one router and about
//!   reading a channel.
//! * [`ConnIds`]: the choice of connection ids.
//!
//! ```text
//!  payload of another neighbour ──> Hop ──┐
//!  payload of an end here ────────────────┴─ listed ──> Outlet ──> connection
//!                                                         │  ├────> connection
//!                                                         │  └────> connection for acks
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod driver;
mod hop;
mod ids;
mod listing;
mod outlet;
mod pause;
mod probe;
mod sync;
#[cfg(test)]
mod tests;
mod timers;
mod turn;

pub use clock::now;
pub use driver::{Driver, Machine, Steps, cost};
pub use hop::{Hop, HopFlow};
pub use ids::ConnIds;
pub use listing::Listing;
pub use outlet::{Carries, DataOutbox, Flow, Outlet, Seat, Unsent};
pub use pause::Pause;
pub use probe::{Probe, Sample};
pub use timers::{Timed, Timers};
pub use turn::Turn;
use weft_channel::clock;
