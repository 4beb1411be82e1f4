//! The router: control, access, links, forwarder and bindings.
//!
//! Two halves meet in [`seam`]: the data half (forwarder, bindings) moves payloads, the control
//! half (control channels, access) talks to controllers. [`Router`] puts them together;
//! [`enroll`](enroll::enroll) gets the certificates it needs first.

mod access;
mod api_proxy;
mod authority;
mod bindings;
mod control;
mod controllers;
pub mod data;
pub mod enroll;
mod forwarder;
mod health;
mod link;
mod managed;
mod measures;
pub mod seam;
mod start;
#[cfg(test)]
mod tests;
mod web;

pub use start::{Build, Router, Runtimes, StartError, check_advertised};
pub use weft_web::PROTOCOLS as WEB_PROTOCOLS;
