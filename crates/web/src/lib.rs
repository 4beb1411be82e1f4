//! HTTP over the shared listeners, for every program that answers it: connections with their
//! deadlines and places, bind points with their TLS, health checks, who may read metrics.
//!
//! Nothing here knows an API: whoever does is a [`Site`] and answers requests.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod connection;
pub mod health;
mod lines;
mod listen;
mod places;
mod scrape;
mod stall;

pub use connection::{Peer, Sending, Site, Terms, Working, serve};
pub use listen::{PROTOCOLS, StartError, check_name, own_identity, tls};
pub use places::{Place, Places, TakenBack, Waiting};
pub use scrape::{NoScraper, Scrape, Scraper, Scrapes, Text};
