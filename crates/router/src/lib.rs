//! The router: control, access, links, forwarder and bindings.
//!
//! Two halves meet in [`seam`]: the data half (forwarder, bindings) moves payloads, the control
//! half (control channels, access) talks to controllers.

pub mod seam;
