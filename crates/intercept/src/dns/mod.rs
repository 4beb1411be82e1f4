//! The DNS server: names of services get addresses, other names are asked elsewhere.

pub(crate) mod message;
pub(crate) mod own;
pub(crate) mod server;
pub(crate) mod upstream;
mod urls;
