//! What a tunneler does besides carrying data, for routers and for SDKs alike.
//!
//! A tunneler joins the network with programs that know nothing of it: it *hosts* services by
//! connecting to applications, and takes clients of services in at ports of its machine. Both are
//! told by the configs of the services. On Linux it takes them in wherever programs use a service's addresses, too
//! ([`Interception`]). This crate reads the configs ([`config`]), judges where a dialer may
//! be connected to ([`HostConfig::target`], [`Host::judge`]), says with each dial where it comes from
//! ([`AppData`], [`Template`]), and hands accepted clients to a [`Carrier`]: the part that a router
//! and an SDK do each in their own way.
//!
//! ```text
//!  configs of a service ─┬─> Intercept, ProxyPort ──> listener ──> Call ──> Carrier ──> network
//!                        └─> HostConfig ──(AppData of a dial)──> Target ──> socket
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod address;
mod app_data;
mod carrier;
pub mod config;
mod connect;
mod datagrams;
mod health;
mod http_check;
mod interception;
mod listen;
mod network;
mod ports;
mod probe;
mod records;
mod refusal;
mod source_addresses;
mod template;
mod wanted;

pub use address::{AddressRule, Host, Reach, Target, Translation};
pub use app_data::AppData;
pub use carrier::{Call, Carrier, Client, Service};
pub use config::{ConfigError, Configs, HostConfig, Intercept, InterceptAddress, ProxyPort};
pub use connect::Connected;
pub use datagrams::{Datagrams, Reply, Sessions, UdpTimes};
pub use health::{Health, Outcome, Terms};
pub use interception::{
    InterceptError, InterceptOptions, Interceptable, Interception, Party, Unanswerable,
    UpstreamMode,
};
pub use listen::{Aim, Listening, Way};
pub use network::Network;
pub use ports::{NamedPort, PortState, PortWanted, Ports};
pub use probe::watch;
pub use records::find_records_by;
pub use refusal::{Cause, Refusal};
pub use source_addresses::SourceAddresses;
pub use template::{Identity, Template, TemplateError};
pub use wanted::{Protocol, Wanted};

#[cfg(target_os = "linux")]
pub use weft_intercept::trusted_program;
pub use weft_intercept::{FindRecords, Record, RecordData, RecordKind, RecordQuestion, Records};
