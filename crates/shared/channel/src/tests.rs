//! Channels over real TLS on the loopback.

#[cfg(target_os = "linux")]
mod acknowledged;
mod data;
mod datagrams;
mod exchange;
mod groups;
mod handshakes;
mod limits;
mod no_hello;
mod plain;
mod rest;
pub(crate) mod support;
mod websocket;
