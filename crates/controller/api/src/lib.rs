//! The web server and the REST APIs of the controller.
//!
//! [`ApiServer::start`] opens the bind points of the `web` section and answers requests by
//! [`Controller::call`](weft_controller::Controller::call). The way of a request:
//!
//! ```text
//! socket -> TLS (by ALPN)        -> weft-channel's shared listener: deadline, caps
//!        -> connection           -> HTTP/1.1 or HTTP/2, deadlines for head, idleness and writing
//!        -> exchange             -> CORS, which API, which operation, body within its limit
//!        -> controller           -> who asks (session, certificate), gate, operation
//!        -> answer               -> envelope, headers
//! ```
//!
//! Single page applications are served from the disk (`files`), and answers are compressed for
//! clients that accept it (`compress`).
//!
//! Routes, paths, access and media types come from the tables of `weft-contract`; this crate knows
//! no single resource. [`ApiLimits`] bounds the cost of peers that are not known yet: connections and
//! requests, in all and by source address; bytes of bodies; and time.
//!
//! ```no_run
//! # use std::{sync::Arc, time::Duration};
//! # async fn example(
//! #     controller: weft_controller::Controller,
//! #     identity: Arc<weft_identity::LiveIdentity>,
//! #     config: weft_config::ControllerConfig,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! use weft_api::{ApiServer, Setup};
//! use weft_channel::Listeners;
//!
//! let setup = Setup::new(controller, identity, Arc::new(Listeners::new()));
//! let server = ApiServer::start(&config.web, setup).await?;
//! for address in server.addresses() {
//!     println!("the APIs are served at {address}");
//! }
//! server.shutdown(Duration::from_secs(5), Duration::from_secs(30)).await; // requests in work are answered
//! # Ok(())
//! # }
//! ```

mod accept;
mod answer;
mod body;
mod compress;
mod cors;
mod description;
mod encoder;
mod encodings;
mod exchange;
mod files;
mod health;
mod kept;
mod limits;
mod metrics;
mod oidc;
mod paths;
mod routes;
mod server;
mod site;
mod texts;
mod urls;

pub use limits::ApiLimits;
pub use server::{ApiServer, Setup};
pub use urls::base_urls;
pub use weft_web::StartError;

#[cfg(test)]
mod tests;
