//! HTTP proxies: which one the environment names for a host, and how a proxy is asked for a connection.
//!
//! ```text
//!  HTTPS_PROXY, HTTP_PROXY, NO_PROXY ──> Proxies ──(host, port)──┐
//!  `proxy` of a router's file, of a host.v1 ─────────────────────┴──> HttpProxy ──(CONNECT)──> host
//! ```
//!
//! The caller opens the connection to the proxy. Messages name the proxy and where it is written, and
//! never its password.
//!
//! ```
//! use weft_proxy::Proxies;
//!
//! let proxies = Proxies::of(|name| match name {
//!     "HTTPS_PROXY" => Some("http://proxy.example:3128".to_owned()),
//!     "NO_PROXY" => Some(".internal,10.0.0.0/8".to_owned()),
//!     _ => None,
//! });
//! let proxy = proxies.for_https("controller.example", 1280).unwrap().unwrap();
//! assert_eq!(proxy.to_string(), "the proxy proxy.example:3128 (HTTPS_PROXY)");
//! assert!(proxies.for_https("10.1.2.3", 1280).unwrap().is_none());
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod connect;
mod environment;
mod exception;
mod proxy;

pub use environment::{Proxies, ProxyError};
pub use proxy::HttpProxy;
