//! Whole networks in one process.
//!
//! These tests need more than one crate: the floors of the workspace; a controller with its routers
//! and SDKs on free loopback ports; faults between them. Each module is one subject; all of them
//! share one test binary, so that it links once.
//!
//! Every wait of a test names a condition and has a deadline.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

#[cfg(test)]
mod away;
#[cfg(test)]
mod bindings;
#[cfg(test)]
mod chaos;
#[cfg(test)]
mod crowd;
#[cfg(test)]
mod datagrams;
#[cfg(test)]
mod dialed;
#[cfg(test)]
mod edges;
#[cfg(test)]
mod ends;
#[cfg(test)]
mod filled;
#[cfg(test)]
mod floors;
#[cfg(test)]
mod gone;
#[cfg(test)]
mod identities;
#[cfg(test)]
mod liars;
#[cfg(test)]
mod links;
#[cfg(test)]
mod logins_end;
#[cfg(test)]
mod managed;
#[cfg(test)]
mod measured;
#[cfg(test)]
mod mesh;
#[cfg(test)]
mod native;
#[cfg(test)]
mod network;
#[cfg(test)]
mod posture;
#[cfg(test)]
mod promises;
#[cfg(test)]
mod rights;
#[cfg(test)]
mod router_files;
#[cfg(test)]
mod sdk;
#[cfg(test)]
mod second_tokens;
#[cfg(test)]
mod seed;
#[cfg(test)]
mod stopped;
#[cfg(test)]
mod token_keys;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod traced;
#[cfg(test)]
mod transit;
#[cfg(test)]
mod tunneler;
#[cfg(test)]
mod wires;
