//! The control plane: the listener for routers, and the messages from and to them.
//!
//! ```text
//! TLS (ALPN ziti-ctrl) -> gate: who is it? -> session: greet, dispatch -> network, domain
//!                                              |
//!                                              +- data model: full state, then changes
//!                                              +- legacy sessions: all, then changes
//! ```
//!
//! - [`gate`], `admitted`: decide who may connect; [`dialer`]: dials routers; [`session`],
//!   [`serve`] and [`dispatch`]: one connected router, its tasks, and its messages;
//! - [`data_model`]: the data model of routers; [`legacy`]: opaque sessions; [`ended`]: ends
//!   circuits and terminators of ended sessions;
//! - [`circuit_requests`]: circuits for SDKs and tunnelers; `rights`: ends circuits whose rights are gone;
//!   [`terminators`]: terminators on routers; `demand`: ends that have to prove who they are;
//!   `statements`: what routers show of themselves for that;
//! - `controllers`: the channels between the controllers of a network;
//! - [`peers`]: collects news for routers about each other and about this controller; `news`: sends
//!   the news; [`reports`]: reports of routers; [`renewal`]: renews their certificates;
//!   [`edge_errors`]: refusals in the forms of routers.
//!
//! A message acts for the router whose certificate opened the channel, never for an id in the
//! message.
//!
//! [`plane`] is the state that all modules share, [`control_plane`] the interface for other crates.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # async fn example(
//! #     auth: &weft_auth::Auth,
//! #     network: weft_network::Network,
//! #     identity: Arc<weft_identity::LiveIdentity>,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! use weft_channel::{ListenerLimits, Listeners};
//! use weft_control::{ControlOptions, ControlPlane};
//!
//! let control = ControlPlane::start(auth, network, ControlOptions::default()).await?;
//! let (listeners, tls) = (Listeners::new(), ControlPlane::tls(&identity)?);
//! let limits = ListenerLimits::default();
//! let _listening = control.listen(&listeners, "0.0.0.0:6262", limits, tls).await?;
//! println!("routers may connect at port 6262");
//! # Ok(())
//! # }
//! ```

mod admitted;
pub mod circuit_requests;
pub mod control_plane;
mod controllers;
pub mod data_model;
mod demand;
pub mod dialer;
pub mod dispatch;
pub mod edge_errors;
pub mod ended;
pub mod gate;
pub mod legacy;
pub mod listeners_kept;
mod making;
mod news;
mod outdated;
pub mod peers;
pub mod plane;
mod questions;
mod quiescing;
pub mod renewal;
pub mod reports;
mod rights;
pub mod serve;
pub mod session;
mod standstill;
mod statements;
pub mod terminators;
#[cfg(test)]
mod testing;
pub mod traffic;

pub use data_model::log::LogLimits;
pub use dialer::DialerOptions;
pub use plane::ControlOptions;

pub use crate::control_plane::ControlPlane;
