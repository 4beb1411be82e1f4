//! What programs measure of themselves, and the forms in which they tell it.
//!
//! ```text
//!  data path -> cells ([`Counter`], [`Histogram`], [`Flow`]): an addition, no lock
//!  every 5 s -> [`Registry::tick`]: rates and windows follow from what the cells say
//!  on demand -> [`Registry::read`] -> [`Report`] -> a message, JSON, events, Prometheus' text
//! ```
//!
//! Names of metrics, and what they mean, are those that operators of OpenZiti chart today; every
//! one that a program of weft has stands in [`names`]. Nothing here reads a clock: time comes in as
//! an argument.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod buckets;
mod cells;
mod events;
mod json;
pub mod names;
pub mod process;
mod prometheus;
mod registry;
mod report;
mod slots;
pub mod usage;

pub use buckets::{Buckets, SIZES, TIMES};
pub use cells::{Counter, Flow, Histogram, Seen, SmallFlow, Ticks};
pub use events::{Origin, Tags, events};
pub use json::{FromJsonError, from_json, to_json};
pub use prometheus::{Exposition, Labels};
pub use registry::{Registry, Scope, TICK};
pub use report::{Distribution, Rate, Report, Value};
