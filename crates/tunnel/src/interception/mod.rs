//! Services taken in wherever programs of this machine and its neighbours use their addresses
//! (docs/protocol/tunnel.md 5.3).
//!
//! One [`Interception`] changes the machine, for as many tunnelers as there are: each is a [`Party`]
//! with services and a [`Carrier`] of its own.

#[cfg(target_os = "linux")]
mod claims;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

use std::{net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

pub use weft_intercept::{Unanswerable, UpstreamMode};

#[cfg(not(target_os = "linux"))]
pub use self::elsewhere::{Interception, Party};
#[cfg(target_os = "linux")]
pub use self::linux::{Interception, Party};
use crate::{Configs, Identity, Service};

/// How clients are taken in.
#[derive(Clone, Debug)]
pub struct InterceptOptions {
    /// Tells one tunneler of a machine from others, also after it was killed: 1 to 20 letters,
    /// digits, `-` and `_`.
    pub name: String,
    /// Where the DNS server listens, `udp://host:port`, or a hosts file that gets the names of
    /// services, `file:///path`. Empty: neither.
    pub resolver: Vec<String>,
    /// A program that diverts packets, in place of the firewall.
    pub diverter: Option<PathBuf>,
    /// Where host names get their addresses: an address of this machine's own, and a prefix.
    pub names: (IpAddr, u8),
    /// Whom names that are not of services are asked of, `udp://host:port` or `tcp://host:port`.
    pub upstream: Vec<String>,
    /// How several of them are used.
    pub upstream_mode: UpstreamMode,
    /// What is said where there is no answer; none if `resolver` says it.
    pub unanswerable: Option<Unanswerable>,
    /// Interfaces whose traffic is taken in too, beside that of this machine; `*` is all.
    pub interfaces: Vec<String>,
    /// A conversation in datagrams ends after so long without any.
    pub udp_idle: Option<Duration>,
    /// How often that is looked at.
    pub udp_check: Option<Duration>,
    /// Hosts and ports of controllers, which no service gets.
    pub controllers: Vec<(String, u16)>,
}

/// A service that clients may be taken in for.
#[derive(Clone, Debug)]
pub struct Interceptable<'a> {
    /// The service.
    pub service: Arc<Service>,
    /// Its configs.
    pub configs: &'a Configs,
    /// Who takes its clients in.
    pub identity: &'a Arc<Identity>,
}

/// Why nothing can be taken in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterceptError {
    /// An option makes no sense.
    #[error("{0}")]
    Options(String),
    /// This machine, or whoever runs this, cannot do it.
    #[error("{0}")]
    Machine(String),
}
