//! Circuits between queues and connections.
//!
//! `weft-xgress` is the state machine of a circuit's end, without I/O; `weft-channel` moves messages over
//! connections. This crate lies between them, for routers and SDKs alike:
//!
//! * [`HopQueue`]: the queue of one circuit for one neighbour. The neighbour can change while payloads wait.
//! * [`Outlet`]: the connections to one neighbour, and the flow that each of them serves next.
//! * [`Driver`]: an end with the notes of its owner: where it is listed, which tasks wait for it,
//!   which deadline is armed.
//! * [`Timers`]: the deadlines at which ends are looked at again.
//! * [`SingleFlight`] and [`Pause`]: agreements between threads, about the ends of one router and about
//!   reading a channel.
//! * [`ConnIds`]: the choice of connection ids.
//!
//! ```text
//!  payload of another neighbour ──> hop ──┐
//!  payload of an end here ────────────────┴─ listed ──> Outlet ──> connection
//!                                                         │  ├────> connection
//!                                                         │  └────> connection for acks
//! ```
//!
//! ```
//! use std::time::Instant;
//! use weft_circuit::Driver;
//! use weft_limits::Budget;
//! use weft_xgress::{Class, End, Options, Role};
//!
//! let (now, budget) = (Instant::now(), Budget::new(1 << 20));
//! let mut driver = Driver::new(End::new(Role::Initiator, &Options::default(), &budget, now));
//! driver.machine.write("hello".into())?;
//!
//! // Under the lock of the end: what has to be done.
//! let steps = driver.steps(true);
//! // After it is released: the end is listed at its outlet, its timer is armed.
//! let mut listed = Vec::new();
//! steps.carry_out(|class, _listing| listed.push(class), |_deadline| {});
//! assert_eq!(listed, [Class::Payload]);
//! // Later, on the task of the connection: the first payload opens the circuit, the next has the data.
//! assert!(driver.pull(Class::Payload, |end| end.poll_transmit(now)).is_some());
//! let payload = driver.pull(Class::Payload, |end| end.poll_transmit(now)).unwrap();
//! assert_eq!(payload.data, "hello");
//! # Ok::<(), weft_xgress::WriteError>(())
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod driver;
mod hop;
mod ids;
mod listing;
mod outlet;
mod pause;
mod probe;
mod single_flight;
mod sync;
#[cfg(test)]
mod tests;
mod timers;

pub use clock::now;
pub use driver::{Driver, Machine, Steps, cost};
pub use hop::{HopFlow, HopQueue};
pub use ids::ConnIds;
pub use listing::Listing;
pub use outlet::{Carries, DataOutbox, Flow, LastPort, Outlet, Unsent};
pub use pause::Pause;
pub use probe::{Probe, Sample};
pub use single_flight::SingleFlight;
pub use timers::{Timed, Timers};
use weft_channel::clock;
