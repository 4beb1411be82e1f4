//! Whole networks in one process.
//!
//! These tests need more than one crate: the floors of the workspace; a controller with its routers
//! and SDKs on free loopback ports; faults between them. Each module is one subject; all of them
//! share one test binary, so that it links once.
//!
//! Every wait of a test names a condition and has a deadline.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

#[cfg(test)]
mod bindings;
#[cfg(test)]
mod chaos;
#[cfg(test)]
mod controller_outage;
#[cfg(test)]
mod crowd;
#[cfg(test)]
mod datagrams;
#[cfg(test)]
mod dialed_routers;
#[cfg(test)]
mod edges;
#[cfg(test)]
mod end_proofs;
#[cfg(test)]
mod floors;
#[cfg(test)]
mod identities;
#[cfg(test)]
mod identity_limits;
#[cfg(test)]
mod killed_programs;
#[cfg(test)]
mod links;
#[cfg(test)]
mod logins_end;
#[cfg(test)]
mod lying_routers;
#[cfg(test)]
mod managed;
#[cfg(test)]
mod mesh;
#[cfg(test)]
mod native;
#[cfg(test)]
mod network;
#[cfg(test)]
mod posture;
#[cfg(test)]
mod rights;
#[cfg(test)]
mod router_files;
#[cfg(test)]
mod router_metrics;
#[cfg(test)]
mod sdk;
#[cfg(test)]
mod second_tokens;
#[cfg(test)]
mod security_page;
#[cfg(test)]
mod seed;
#[cfg(test)]
mod stopping_routers;
#[cfg(test)]
mod token_keys;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod traced_routes;
#[cfg(test)]
mod transit;
#[cfg(test)]
mod tunneler;
#[cfg(test)]
mod wires;
