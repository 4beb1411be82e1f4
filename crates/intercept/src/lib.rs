//! Intercepts traffic: what programs of this machine and its neighbours send to addresses and names
//! of services is taken and handed to a [`Carry`].
//!
//! ```text
//!  name  -> DNS server -> address out of a range of our own
//!  packet -> firewall (sets of destinations) -> listener here -> whose is it? -> Carry
//! ```
//!
//! What is intercepted is [`state`], which is pure: services in, changes of the firewall out, and
//! for each client the service. One task owns the firewall and puts changes in as transactions, all
//! that have come meanwhile at once. Nobody is told a name's address before the firewall knows it.
//! What goes where in case of doubt is said in [`table`]. Only Linux can do it.

#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports, rustdoc::all))]

#[cfg(target_os = "linux")]
mod carry;
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
mod lock;
mod names;
mod options;
mod places;
mod ports;
#[cfg(target_os = "linux")]
mod rates;
mod records;
mod seats;
mod service;
#[cfg(target_os = "linux")]
mod sessions;
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
pub use places::Place;
pub use records::{FindRecords, Record, RecordData, RecordKind, RecordQuestion, Records};
pub use seats::{Patience, Seat, Seats};
pub use service::{Diverted, Problem, Protocol, Service};

#[cfg(target_os = "linux")]
pub use self::{
    carry::{Arrival, Carry, Client, TcpClient, UdpReplies, UdpSession},
    dns::own::OwnHosts,
    firewall::{CommandError, DIVERT_MARK, trusted_program},
    interceptor::{Counts, Error, Interceptor},
    socket::OWN_MARK,
};
