//! The HTTP server of controllers and routers: connections with their deadlines and limits, bind
//! points with their TLS, health checks, access to metrics.
//!
//! ```text
//! listener -> door -> [`serve`]: TLS stream -> HTTP/1.1 or HTTP/2 -> [`Site`]: request -> answer
//! ```
//!
//! This crate knows no API: a [`Site`] answers the requests.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod connection;
pub mod health;
mod lines;
mod listen;
mod places;
mod scrape;
mod stall;

pub use connection::{Peer, Sending, Site, Terms, Working, serve};
pub use listen::{PROTOCOLS, StartError, check_name, identity_section, own_identity, tls};
pub use places::{Place, Places, TakenBack, Waiting};
pub use scrape::{NoScraper, Scrape, Scraper, Scrapes, Text};
