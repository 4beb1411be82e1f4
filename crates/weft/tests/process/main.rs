//! weft as processes: what only shows when the real program is started, killed and started again.
//!
//! Every test makes a network of its own in a temporary folder with `weft quickstart`, on ports of
//! its own, and then either leaves it running as that one process or starts controller and router
//! from the files that were written, so that they can be killed one by one. Clients are the Rust
//! SDK and plain TCP in this process; the operator is the management client or `weft` itself.
//!
//! [`collector`] is where spans go, [`program`] is a running `weft`, [`network`] a network of them, [`operator`] who administers it,
//! [`streams`] what flows through it, [`terminal`] a command at a terminal, [`wait`] how long
//! anything may take.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod collector;
mod network;
mod operator;
mod program;
mod streams;
mod terminal;
mod wait;

mod bound_by_name;
mod commands;
mod config_files;
mod controller_restart;
mod durable;
mod full_disk;
mod half_close;
#[cfg(target_os = "linux")]
mod interception;
mod keys;
mod mesh;
mod network_files;
mod printing;
mod questions;
mod restore;
mod router_restart;
#[cfg(unix)]
mod service;
mod several_routers;
mod slow_readers;
mod spans;
mod strangers;
mod tour;
mod traffic;
mod tunnel;
