//! Intercepts traffic: packets of this machine's programs and of its neighbours to addresses and names of
//! services are taken, and their connections are handed to a [`Carry`].
//!
//! ```text
//!  name   -> DNS server -> address of a range for names
//!  packet -> firewall (sets of destinations) -> listener here -> service of the client -> Carry
//! ```
//!
//! `state` decides what is intercepted, and is pure: services in, changes of the firewall out, and the
//! service for each client. One task owns the firewall and applies changes as transactions, each with all
//! changes that have come meanwhile. A client is told a name's address only after the firewall has it.
//! `table` says which service gets a client that several of them claim. Linux only.
//!
//! ```no_run
//! # #[cfg(target_os = "linux")]
//! # async fn example() -> Result<(), weft_intercept::Error> {
//! use std::sync::Arc;
//! use weft_intercept::{Arrival, InterceptedClient, Interceptor, Options, Protocol, Service};
//!
//! let carry = |arrival: Arrival, _client: InterceptedClient| {
//!     println!("{} wants to reach service {}", arrival.source, arrival.service);
//! };
//! let interceptor = Interceptor::start(Options::default(), Arc::new(carry)).await?;
//! let web = Service {
//!     id: "s1".into(),
//!     name: "web".into(),
//!     protocols: vec![Protocol::Tcp],
//!     addresses: vec!["web.example".into()],
//!     ports: vec![(80, 80)],
//!     ..Service::default()
//! };
//! for problem in interceptor.set_services(&[web]).await {
//!     println!("{}: {}", problem.entry, problem.why);
//! }
//! interceptor.stop().await; // the system is as it was
//! # Ok(())
//! # }
//! ```

#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports, rustdoc::all))]

#[cfg(target_os = "linux")]
mod carry;
#[cfg(target_os = "linux")]
mod conversations;
mod cover;
#[cfg(target_os = "linux")]
mod dns;
#[cfg(target_os = "linux")]
mod firewall;
#[cfg(target_os = "linux")]
mod hosts_file;
#[cfg(target_os = "linux")]
mod interceptor;
#[cfg(target_os = "linux")]
pub mod leftovers;
#[cfg(target_os = "linux")]
mod lock;
mod names;
mod options;
mod ports;
#[cfg(target_os = "linux")]
mod rates;
mod records;
mod seats;
mod service;
#[cfg(target_os = "linux")]
mod shared;
#[cfg(target_os = "linux")]
mod socket;
mod state;
mod table;
#[cfg(target_os = "linux")]
mod tcp;
#[cfg(target_os = "linux")]
mod udp;

pub use options::{
    DnsOptions, FirewallKind, Interfaces, Limits, Options, Unanswerable, Upstream, UpstreamMode,
};
pub use records::{DnsRecord, FindRecords, RecordData, RecordKind, RecordQuestion, Records};
pub use seats::{Patience, Seat, Seats};
pub use service::{Diverted, NotIntercepted, Protocol, Service};

#[cfg(target_os = "linux")]
pub use self::carry::{Arrival, Carry, InterceptedClient, TcpClient, UdpConversation, UdpReplies};
#[cfg(target_os = "linux")]
pub use self::dns::own::OwnHosts;
#[cfg(target_os = "linux")]
pub use self::firewall::{CommandError, DIVERT_MARK, trusted_program};
#[cfg(target_os = "linux")]
pub use self::interceptor::{Error, Interceptor, InterceptorCounts};
#[cfg(target_os = "linux")]
pub use self::socket::OWN_MARK;
