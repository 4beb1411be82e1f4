//! A tunneler for identities: services are hosted, and clients taken in at ports of the machine, over
//! the SDK and without a router of one's own.
//!
//! ```text
//!  client ──> port ──> SdkCarrier ──> Connection ──> overlay           [`dialing`]
//!  overlay ──> Incoming ──> judged, connected ──> application          [`hosting`]
//!  services of the identity ──> Tunneler: what is hosted and offered now
//! ```
//!
//! What the two ends of a connection have in common is in [`carry`]: bytes both ways, half-close both
//! ways, and nothing held for a connection that is idle.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod carry;
mod dialing;
mod hosting;
mod status;
mod traffic;
mod tunneler;

pub use dialing::SdkCarrier;
pub use hosting::{HostState, Hosted};
pub use status::{HostingStatus, PortStatus, ServiceStatus, Status};
pub use traffic::{Counters, Registry, Traffic};
pub use tunneler::{Options, Tunneler};
