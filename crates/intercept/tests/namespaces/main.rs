//! Interception in network namespaces, with real clients: `curl`, `dig`, `nc`, `iperf3`.
//!
//! Needs root and those programs; skipped, with a line that says so, where they are missing, and
//! failing there with `WEFT_NAMESPACES=required`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod crowds;
mod lab;
mod lifetime;
mod others;
mod ourselves;
mod program;
mod traffic;
