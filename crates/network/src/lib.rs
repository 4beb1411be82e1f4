//! The network as it is now: routers that are connected, links between them, circuits over both.
//! Class Memory: rebuilt from the routers after a restart.
//!
//! - [`network`]: the handle of all; [`routers`], [`circuits`]: the tables; [`routes`]: what routers are
//!   told; how circuits could go and what that costs is in `weft_paths`;
//! - [`create`]: a circuit is made, [`failure`]: or not; [`upkeep`]: it is confirmed and removed; `moves`: it takes another
//!   path, `improve`: a cheaper one; [`adoption`]: circuits of an earlier run are taken up,
//!   [`adopt`]: put together from what routers tell; [`recount`]:
//!   those that a router lost are ended;
//! - [`terminators`]: what routers report of terminators; [`validate`]: whether these are still there;
//! - [`ctrl_listeners`]: where routers take controllers;
//! - `link_reports`: what routers say of links; `misreports`: what is not theirs to say;
//! - [`offers`]: what the explanation of a dial looks at;
//! - [`inspect`]: looking inside routers; [`metrics`]: what is measured.
//!
//! The control plane brings in what routers say. What flows out are routes, unroutes and faults, on the
//! channels of the routers.

pub mod adopt;
pub mod adoption;
pub mod circuits;
pub mod create;
pub mod ctrl_listeners;
pub mod failure;
mod improve;
pub mod inspect;
mod link_reports;
pub mod metrics;
mod misreports;
mod moves;
pub mod moving;
pub mod network;
pub mod offers;
pub mod recount;
mod reported;
pub mod routers;
pub mod routes;
pub mod terminators;
mod texts;
mod traced;
pub mod upkeep;
mod used;
pub mod validate;
mod validations;

pub use network::{LoginCounts, Logins, Network, NetworkOptions, WeakNetwork};
