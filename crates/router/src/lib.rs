//! The router: control, access, links, forwarder and bindings.
//!
//! Two halves meet in [`seam`]: the data half (forwarder, bindings) moves payloads, the control
//! half (control channels, access) talks to controllers.

mod bindings;
pub mod data;
mod forwarder;
pub mod seam;
