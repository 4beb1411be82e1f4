//! Interception in network namespaces, with real clients: `curl`, `dig`, `nc`, `iperf3`.
//!
//! Needs root and those programs. Where they are missing, the tests are skipped with a line in the
//! output, or fail with `WEFT_NAMESPACES=required`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod busy_firewall;
mod crowds;
mod lab;
mod lifetime;
mod others;
mod ourselves;
mod program;
mod traffic;
