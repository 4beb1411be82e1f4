//! The DNS server: names of services get addresses, other names are passed to other servers.

mod hosts;
pub(crate) mod message;
pub(crate) mod own;
mod rdata;
mod rebinding;
mod records;
pub(crate) mod server;
mod standing;
pub(crate) mod upstream;
mod urls;
