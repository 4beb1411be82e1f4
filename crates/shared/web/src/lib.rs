//! The HTTP server of controllers and routers: connections with their deadlines and limits, bind
//! points with their TLS, health checks, access to metrics.
//!
//! ```text
//! listener -> door -> [`serve`]: TLS stream -> HTTP/1.1 or HTTP/2 -> [`Site`]: request -> answer
//! ```
//!
//! This crate knows no API: a [`Site`] answers the requests.
//!
//! ```
//! use std::sync::Arc;
//! use hyper::{Request, Response, body::Incoming};
//! use weft_web::{Peer, Site, ConnectionTerms};
//!
//! struct Hello {
//!     terms: ConnectionTerms,
//! }
//!
//! impl Site for Hello {
//!     type ResponseBody = String;
//!
//!     fn terms(&self) -> &ConnectionTerms {
//!         &self.terms
//!     }
//!
//!     async fn exchange(&self, peer: &Arc<Peer>, request: Request<Incoming>) -> Response<String> {
//!         let _working = peer.begin(); // from here on the time for an answer counts
//!         Response::new(format!("{} asks for {}", peer.remote, request.uri().path()))
//!     }
//! }
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod connection;
pub mod health;
mod lines;
mod listen;
mod peer_quota;
mod scrape;
mod stall;

pub use connection::{ConnectionTerms, Peer, Sending, Site, Working, serve};
pub use listen::{PROTOCOLS, StartError, check_name, own_identity, tls};
pub use peer_quota::{PeerPermit, PeerQuota, StallGuard, TakenBack};
pub use scrape::{NoScraper, Scrape, Scraper, Scrapes, Text};
