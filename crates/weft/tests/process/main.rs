//! Tests with real processes: starts, kills and restarts of the `weft` program.
//!
//! Every test makes a network of its own in a temporary folder with `weft quickstart`, on its own
//! ports. It then leaves that process running, or starts controller and router from the written
//! files, so that they can be killed separately. Clients are the Rust SDK and plain TCP in this
//! process; the operator is the management client or `weft` itself.
//!
//! [`collector`] receives spans, [`program`] is a running `weft`, [`network`] a network of them,
//! [`operator`] its administrator, [`streams`] the traffic, [`terminal`] a command at a terminal,
//! [`wait`] waiting with deadlines.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod collector;
mod network;
mod operator;
mod program;
mod streams;
mod terminal;
mod wait;

#[cfg(unix)]
mod agent;
mod bound_by_name;
mod chaos;
mod cluster;
mod commands;
mod comparison;
mod config_files;
mod controller_restart;
mod durable;
mod full_disk;
mod half_close;
#[cfg(target_os = "linux")]
mod interception;
mod keys;
#[cfg(unix)]
mod logins;
mod lost_password;
mod mesh;
mod network_files;
#[cfg(target_os = "linux")]
mod open_files;
mod openziti_documents;
mod own_authority;
#[cfg(target_os = "linux")]
mod pipes;
mod posture;
mod printing;
mod questions;
mod restore;
mod router_restart;
#[cfg(unix)]
mod sdk_examples;
#[cfg(target_os = "linux")]
mod second_factor;
mod second_tokens;
#[cfg(unix)]
mod service;
mod several_controllers;
mod several_routers;
mod slow_readers;
mod spans;
mod strangers;
mod tour;
mod traffic;
mod tunnel;
#[cfg(unix)]
mod tunnel_ends;
mod tunnel_tokens;
