//! The running network: connected routers, links between them, circuits over both. It is kept in
//! memory only, and rebuilt from the routers after a restart.
//!
//! - [`network`]: the handle of the network; [`routers`], [`circuits`]: the tables; [`routes`]: the
//!   routes that routers are told; paths and costs are in `weft_paths`;
//! - [`create`]: makes circuits, [`failure`]: why not; [`upkeep`]: confirms and ends them; `moves`: gives them other
//!   paths, `improve`: cheaper ones; [`adoption`], [`adopt`]: take circuits of an earlier run over;
//!   [`recount`]: ends circuits that a router lost;
//! - [`terminators`]: terminators that routers report; [`validate`]: asks routers whether they
//!   still host them;
//! - [`ctrl_listeners`]: listeners on which routers take controllers;
//! - `link_reports`: reports of routers about links; `misreports`: refused reports;
//! - [`offers`]: the mesh and terminators for the explanation of a dial;
//! - [`inspect`]: inspections of programs; [`metrics`]: measured values.
//!
//! Input are messages of routers, which the control plane passes on. Output are routes, unroutes
//! and faults on the channels of routers.

pub mod adopt;
pub mod adoption;
pub mod circuits;
mod clock;
mod closing;
pub mod create;
pub mod ctrl_listeners;
pub mod failure;
mod gaps;
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
