//! Interception: clients of services are accepted wherever programs of this machine and its
//! neighbours use the services' addresses (docs/protocol/tunnel.md 5.3).
//!
//! One [`Interception`] changes the machine, for as many tunnelers as there are: each is a [`Party`]
//! with services and a [`Carrier`] of its own.

#[cfg(target_os = "linux")]
mod claims;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use weft_intercept::{Unanswerable, UpstreamMode};

#[cfg(not(target_os = "linux"))]
pub use self::elsewhere::{Interception, Party, Prepared};
#[cfg(target_os = "linux")]
pub use self::linux::{Interception, Party, Prepared};
use crate::{Configs, Identity, Service};

/// The options of interception.
#[derive(Clone, Debug)]
pub struct InterceptOptions {
    /// The name that tells this tunneler from others of the machine, also after it was killed: 1 to
    /// 20 letters, digits, `-` and `_`.
    pub name: String,
    /// The address of the DNS server, `udp://host:port`, and a hosts file for the names of services,
    /// `file:///path`. Empty: neither.
    pub resolver: Vec<String>,
    /// A program that diverts packets, in place of firewall rules.
    pub diverter: Option<PathBuf>,
    /// The range of addresses for host names: an address for this machine itself, and a prefix
    /// length.
    pub names: (IpAddr, u8),
    /// The servers that are asked for other names, `udp://host:port` or `tcp://host:port`.
    pub upstream: Vec<String>,
    /// The order in which they are asked.
    pub upstream_mode: UpstreamMode,
    /// The answer for names that cannot be looked up; `None` if `resolver` sets it.
    pub unanswerable: Option<Unanswerable>,
    /// Domains of the own network: their names may lead to addresses of `names`, and to this machine.
    pub private_domains: Vec<String>,
    /// Interfaces whose traffic is intercepted, beside that of this machine; `*` means all.
    pub interfaces: Vec<String>,
    /// A conversation in datagrams ends after this time without any.
    pub udp_idle: Option<Duration>,
    /// The interval at which idle conversations are looked for.
    pub udp_check: Option<Duration>,
    /// Hosts and ports of controllers, which no service gets.
    pub controllers: Vec<(String, u16)>,
}

/// A service whose clients may be intercepted.
#[derive(Clone, Debug)]
pub struct Interceptable<'a> {
    /// The service.
    pub service: Arc<Service>,
    /// Its configs.
    pub configs: &'a Configs,
    /// The identity that intercepts them.
    pub identity: &'a Arc<Identity>,
}

/// Why interception could not be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterceptError {
    /// An option is not valid.
    #[error("{0}")]
    Options(String),
    /// This machine cannot intercept, or the user may not.
    #[error("{0}")]
    Machine(String),
}
