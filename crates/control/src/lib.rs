//! The control plane: the listener that routers connect to, and what they say and are told.
//!
//! ```text
//! TLS (ALPN ziti-ctrl) -> gate: who is it? -> session: greet, dispatch -> network, domain
//!                                              |
//!                                              +- data model: full state, then changes
//!                                              +- legacy sessions: all, then changes
//! ```
//!
//! - [`gate`], `admitted`: who may connect; [`dialer`]: routers that are dialed;
//!   [`session`], [`serve`] and [`dispatch`]: one router, how it is served, and where its messages go;
//! - [`data_model`]: the model that routers decide with; [`legacy`]: opaque sessions; [`ended`]:
//!   what those that end leave with routers;
//! - [`dial`]: circuits for SDKs and tunnelers; [`terminators`]: what routers host;
//! - [`peers`]: what routers hear of each other and of this controller, and
//!   `news`: when; [`reports`]: what they
//!   report; [`renewal`]: new certificates for them; [`edge_errors`]: refusals in their words.
//!
//! A message acts for the router whose certificate opened the channel, never for an id in it.
//!
//! [`plane`] is what all of them share, [`control_plane`] how others see it.

mod admitted;
pub mod control_plane;
pub mod data_model;
pub mod dial;
pub mod dialer;
pub mod dispatch;
pub mod edge_errors;
pub mod ended;
pub mod gate;
pub mod legacy;
pub mod listeners_kept;
mod news;
pub mod peers;
pub mod plane;
pub mod renewal;
pub mod reports;
pub mod serve;
pub mod session;
pub mod terminators;
pub mod traffic;

pub use crate::control_plane::ControlPlane;
pub use data_model::log::LogLimits;
pub use dialer::DialerOptions;
pub use plane::ControlOptions;
