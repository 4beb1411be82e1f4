//! The running network: connected routers, links between them, circuits over both. It is kept in
//! memory only, and rebuilt from the routers after a restart.
//!
//! ```text
//!  dial ──> create: terminator and path ──> Route to each router ──> RouteResult ──> Circuits
//!  lost link, fault, cheaper path ──> moves ──> routes of the new path, in two steps
//!  router that comes back ──> recount, adoption ──> Circuits
//! ```
//!
//! - [`network`]: the handle of the network; [`routers`], [`circuits`]: the tables; [`tags`]: the tags
//!   of circuits; [`routes`]: the routes that routers are told; paths and costs are in `weft_paths`;
//! - [`create`]: makes circuits; [`failure`]: the reasons why a circuit was not made; [`upkeep`]:
//!   confirms and ends circuits; `moves`: moves circuits to other paths; `improve`: moves circuits
//!   to cheaper paths; [`adoption`]: adopts circuits of an earlier run, as a state machine; [`recount`]: asks
//!   routers of other programs for their circuits; [`ownership`]: takes over the circuits of controllers that have ended,
//!   as a state machine;
//! - `presence`: which routers are connected, and what they are asked when they have connected, as a state machine;
//! - [`terminators`]: terminators that routers report; `standing`: whether routers still host them, as a
//!   state machine; [`hosting`]: whether their hosts may host;
//! - [`ctrl_listeners`]: listeners on which routers take controllers;
//! - `link_listeners`: listeners on which routers take links;
//! - `link_reports`: reports of routers about links; [`unheard`]: links of routers that are not connected;
//!   `misreports`: refused reports;
//! - [`elsewhere`]: what other controllers own;
//! - [`offers`]: the mesh and terminators for the explanation of a dial;
//! - [`inspect`]: inspections of programs; [`metrics`]: measured values; [`traffic`]: bytes and rates of
//!   circuits.
//!
//! The input is messages of routers, which the control plane passes on. The output is routes,
//! unroutes and faults on the channels of routers.
//!
//! ```
//! use std::time::Duration;
//! use weft_model::Id;
//! use weft_network::routes::RouteSpec;
//! use weft_paths::path::Path;
//!
//! let routers = vec![Id::new("near"), Id::new("far")];
//! let spec = RouteSpec {
//!     circuit: "c1",
//!     attempt: 0,
//!     path: &Path { nodes: routers, links: vec!["l1".into()], cost: 5 },
//!     ingress: "dialer",
//!     egress: "host",
//!     dial: None,
//!     timeout: Duration::from_secs(5),
//!     tags: &Default::default(),
//!     term: 0,
//! };
//! let (router, route) = &spec.routes()[0];
//! assert_eq!(router.as_str(), "near");
//! let ways = route.forwards.iter().map(|way| (way.src_address.as_str(), way.dst_address.as_str()));
//! assert_eq!(ways.collect::<Vec<_>>(), [("dialer", "l1"), ("l1", "dialer")]);
//! ```

pub mod adoption;
mod away;
pub mod circuits;
#[cfg(feature = "testing")]
pub mod coverage;
pub mod create;
pub mod ctrl_listeners;
#[cfg(test)]
mod dice;
pub mod elsewhere;
pub mod failure;
pub mod full;
mod held;
pub mod hosting;
mod ids;
mod improve;
pub mod inspect;
mod link_listeners;
mod link_reports;
pub mod metrics;
mod misreports;
mod moves;
pub mod moving;
pub mod network;
pub mod offers;
pub mod ownership;
mod presence;
mod questions;
pub mod recount;
mod reported;
pub mod routers;
pub mod routes;
mod standing;
pub mod tags;
pub mod terminators;
mod texts;
mod traced;
pub mod traffic;
pub mod unheard;
mod unroutes;
pub mod upkeep;
mod used;

pub use network::{LoginCounts, Logins, Network, NetworkOptions, WeakNetwork};
use weft_channel::clock;
