//! Channels over real TLS on the loopback.

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
