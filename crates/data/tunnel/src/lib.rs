//! The parts of a tunneler besides carrying data, for routers and for SDKs alike.
//!
//! A tunneler connects the network with programs without an SDK: it *hosts* services by connecting to
//! applications, and accepts clients of services at ports of its machine. The configs of the services
//! say how. On Linux it also intercepts clients wherever programs use a service's addresses
//! ([`Interception`]). This crate reads the configs ([`config`]), judges the destination that a dialer
//! asks for ([`HostConfig::target`], [`TargetHost::judge`]), makes the application data of each dial
//! ([`AppData`], [`Template`]), and passes accepted clients to a [`Carrier`], which a router and an SDK
//! each implement in their own way.
//!
//! ```text
//!  configs of a service ─┬─> Intercept, ProxyPort ──> listener ──> Call ──> Carrier ──> network
//!                        └─> HostConfig ──(AppData of a dial)──> Target ──> socket
//! ```
//!
//! ```
//! use weft_tunnel::{AppData, HostConfig, Protocol};
//!
//! let config = HostConfig::fixed(Protocol::Tcp, "127.0.0.1", 8080);
//! let dial = AppData::parse(br#"{"dst_port": "22"}"#).unwrap();
//! let target = config.target(&dial).unwrap();
//! assert_eq!(target.port, 8080, "the config does not leave the port to the dialer");
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod address;
mod app_data;
mod app_datagrams;
mod app_writer;
mod carrier;
mod complaints;
pub mod config;
mod connect;
mod datagrams;
mod dialing_identity;
mod health;
mod http_check;
mod interception;
mod interface_addresses;
mod listen;
mod network;
mod port_route;
mod ports;
mod probe;
mod records;
mod refusal;
mod source_addresses;
mod template;
mod text_search;
mod wanted;

pub use address::{AddressRule, CircuitTarget, Reach, TargetHost, Translation};
pub use app_data::AppData;
pub use app_datagrams::AppDatagrams;
pub use app_writer::{AppWriter, end_with_a_reset};
pub use carrier::{Call, Carrier, Client, Service};
pub use config::{
    ConfigError, Configs, HostConfig, Intercept, InterceptAddress, MOST_CONNECT_TIME, ProxyPort,
};
pub use connect::{Connected, connect_tcp, resolve};
pub use datagrams::{Conversations, Datagrams, ReplySocket, UdpTimes};
pub use dialing_identity::DialingIdentity;
pub use health::{CheckOutcome, CostAndPrecedence, TerminatorHealth};
pub use interception::{
    InterceptError, InterceptOptions, Interceptable, Interception, Party, Prepared, Unanswerable,
    UpstreamMode,
};
pub use listen::{Aim, Listening, ServiceRoute};
pub use network::Network;
pub use ports::{NamedPort, PortState, PortWanted, Ports};
pub use probe::watch;
pub use records::find_records_by;
pub use refusal::{Refusal, RefusalCause, shown};
pub use source_addresses::SourceAddresses;
pub use template::{Identity, Template, TemplateError};
pub use wanted::{Protocol, Wanted};
#[cfg(target_os = "linux")]
pub use weft_intercept::trusted_program;
pub use weft_intercept::{DnsRecord, FindRecords, RecordData, RecordKind, RecordQuestion, Records};
