//! A router: it carries circuits between SDKs, applications and other routers.
//!
//! ```text
//!  SDKs, applications ──> bindings ─┐                    ┌─> bindings ──> SDKs, applications
//!                                   ├──> forwarder ──────┤
//!  other routers ───────> links ────┘        │           └─> links ─────> other routers
//!                                          (seam)
//!  controllers <────> control channels ── access (data model, who may dial and bind)
//! ```
//!
//! Two halves meet in [`seam`]: the data half (bindings, links, forwarder) moves payloads; the control
//! half (control channels, access) talks to controllers. [`Router`] puts them together.
//! [`enroll`](enroll::enroll) gets a router its certificates before its first start.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use weft_config::RouterConfig;
//! use weft_router::{Router, Runtimes};
//!
//! let file = RouterConfig::from_path("router.yaml".as_ref())?;
//! let router = Router::start(&file.config, Runtimes::own()?).await?;
//! router.online().await; // a controller has sent the data model
//! router.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod access;
mod api_proxy;
mod authority;
mod bindings;
mod build;
mod control;
mod controllers;
pub mod data;
#[cfg(test)]
mod dice;
pub mod enroll;
mod forwarder;
mod health;
mod link;
mod managed;
mod measures;
mod operator;
mod running;
mod runtimes;
pub mod seam;
mod start;
#[cfg(test)]
mod tests;
mod web;

pub use build::Build;
pub use operator::RouterOperator;
pub use running::Router;
pub use runtimes::Runtimes;
pub use start::{StartError, check_advertised, without_effect};
pub use weft_web::PROTOCOLS as WEB_PROTOCOLS;
