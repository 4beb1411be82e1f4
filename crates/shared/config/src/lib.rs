//! The configuration files of weft: a controller's and a router's.
//!
//! A file is YAML with variables in its strings. Reading one yields typed values with every default
//! filled in ([`ControllerConfig`], [`RouterConfig`]), or all mistakes of the file at once, each with
//! its line ([`Invalid`]). Warnings, for instance about unknown keys, are in [`Loaded`].
//! [`ControllerTemplate`] and [`RouterTemplate`] write commented files for a start, and [`original`] converts the file of a
//! controller of the original.
//!
//! ```text
//!  text -> YAML tree with places -> variables -> sections (getters) -> config, facts, problems
//! ```
//!
//! A value that another crate uses has the type of that crate: the section `identity` is a type of
//! `weft-identity`, an address is one of `weft-wire`. Only the form of such values is checked here: a caller
//! that loads a certificate checks that it is valid for its host.
//!
//! ```
//! use weft_config::{ProcessEnvironment, RouterConfig};
//!
//! let text = "v: 3\nctrl:\n  endpoint: tls:controller.example:6262\n";
//! let read = RouterConfig::from_str(text, "router.yaml".as_ref(), &ProcessEnvironment);
//! let mistakes = read.unwrap_err().to_string();
//! assert!(mistakes.contains("identity section not found"), "{mistakes}");
//! ```

mod address;
mod channel_options;
pub mod controller;
mod debugging;
mod duration;
mod error;
mod facts;
mod file;
mod identity;
mod keys;
mod not_acted_upon;
pub mod original;
mod rate_limiter;
pub mod router;
mod secret;
mod section;
pub mod show;
mod source;
mod suggest;
mod template;
mod veil;
pub mod web;
mod xgress_options;
pub mod yaml;

pub use address::HostPort;
pub use channel_options::{ChannelOptions, Heartbeats};
pub use controller::ControllerConfig;
pub use debugging::Debugging;
pub use duration::{SignedDuration, parse_duration, show_duration};
pub use error::{Error, Examined, Invalid, KeyAt, Loaded};
pub use facts::{FileFacts, KeyFact, ValueOrigin};
pub use file::MAX_FILE_BYTES;
pub use keys::{KeyRow, router_keys, section_order};
pub use rate_limiter::RateLimiter;
pub use router::{EndpointsFile, RouterConfig};
pub use source::FileText;
pub use suggest::{nearest, similar};
pub use template::{ClusterTemplate, ControllerTemplate, RouterTemplate, TunnelerMode};
pub use web::{BindPoint, ContentPolicy, FileOptions, WebApi, WebServer};
pub use xgress_options::XgressOptions;
pub use yaml::{Environment, ProcessEnvironment};

#[cfg(test)]
mod tests;
