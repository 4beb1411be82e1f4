//! A tunneler for identities, over the SDK and without a router of its own: it hosts services, and
//! accepts clients of services at ports of the machine.
//!
//! ```text
//!  client ──> port ──> SdkCarrier ──> Connection ──> network             [`dialing`]
//!  network ──> Incoming ──> destination allowed? ──> application         [`hosting`]
//!  services of the identity ──> Tunneler: services that are hosted and offered now
//! ```
//!
//! [`carry`] moves the bytes of dialed and of hosted connections in both directions, each with its
//! own half-close. The tunneler holds no buffer for a connection that is idle.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use tokio_util::sync::CancellationToken;
//! use weft_sdk::Endpoint;
//! use weft_tunneler::{Options, Tunneler};
//!
//! let builder = Endpoint::builder().config_types(weft_tunnel::config::TYPES);
//! let tunneler = Tunneler::new(builder.load("laptop.json").await?, Options::default());
//! tunneler.refresh().await?;
//! println!("{} ports lead to services", tunneler.ports().len());
//! tunneler.run(&CancellationToken::new()).await; // until it is cancelled
//! # Ok(())
//! # }
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod carry;
mod dialing;
mod hosting;
mod status;
mod traffic;
mod tunneler;

pub use dialing::SdkCarrier;
pub use hosting::{HostState, HostedTerminator};
pub use status::{HostingStatus, PortStatus, ServiceStatus, Status};
pub use traffic::{Counters, ServiceTraffic, TrafficRegistry};
pub use tunneler::{Options, Tunneler};
