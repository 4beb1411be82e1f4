//! Metrics of controllers and routers, and the forms in which they are reported.
//!
//! ```text
//! data path -> cells ([`Counter`], [`Histogram`], [`MessageCounter`]): an addition, no lock
//! every 5 s -> [`Registry::tick`]: rates and windows are computed from the cells
//! on demand -> [`Registry::read`] -> [`Report`] -> message, JSON, events or Prometheus' text
//! ```
//!
//! Names of metrics, and what they mean, are those that operators of OpenZiti chart today;
//! [`names`] lists every metric of weft. Nothing in this crate reads a clock: time is an argument.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Instant;
//! use weft_metrics::{Counter, Registry, MetricValue};
//!
//! let start = Instant::now();
//! let registry = Registry::new(start);
//! let circuits = Arc::new(Counter::default());
//! let mut scope = registry.scope();
//! let read = Arc::clone(&circuits);
//! scope.gauge("circuits", move || i64::try_from(read.get()).unwrap_or(i64::MAX));
//!
//! circuits.one();
//! assert_eq!(registry.read(start).get("circuits"), Some(&MetricValue::Int(1)));
//! drop(scope);
//! assert!(registry.read(start).is_empty());
//! ```

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
pub use cells::{Counter, Histogram, MessageCounter, MessageCounts, SmallMessageCounter, Ticks};
pub use events::{ReportOrigin, Tags, events};
pub use json::{FromJsonError, from_json, to_json};
pub use prometheus::{Exposition, Labels};
pub use registry::{Registry, Scope, TICK};
pub use report::{Distribution, MetricValue, Rate, Report};
