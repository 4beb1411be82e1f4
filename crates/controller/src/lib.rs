//! The controller without HTTP: every operation on the model, and all parts put together.
//!
//! ```text
//!  request (weft-api) -> Controller::call: gate, handler -> prepared on the caller's task
//!                                                              |
//!  readers <- new Snapshot <- store <- decided by the one writer
//!                 |
//!                 +-> subscriptions: network part and control plane -> routers, SDKs
//! ```
//!
//! [`Controller`] is a handle that all parts share; a clone costs little. Readers take a
//! [`Snapshot`] and never lock. A change of the model is an operation that passes the gate, is
//! *prepared* on the caller's task and *decided* by the one writer ([`weft_kernel::writer`]):
//!
//! - [`Controller::call`]: an operation of an API, without HTTP: gate, handler, reply;
//! - [`Auth::resolve`](weft_auth::Auth::resolve): turns the credentials of a request into a
//!   [`Caller`];
//! - [`Kernel::submit`](weft_kernel::Kernel::submit) and
//!   [`Kernel::subscribe`](weft_kernel::Kernel::subscribe): changes in, published batches out;
//! - [`weft_auth`]: logins, sessions, enrollment, tokens; [`domain`]: every operation on the model.

// `domain::members` reads the table of a kind facet by facet.
#![recursion_limit = "512"]

mod controller;
pub mod domain;
mod logins;
mod start;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use controller::Controller;
pub use start::StartError;
pub use weft_kernel::{
    Addresses, Build, Call, Caller, Challenge, Content, Done, Durations, Failure, GuessLimits,
    Health, Keys, Login, Notice, Origin, Published, Query, Reply, SessionRef, Settings,
    Subscription, Via, Who,
};
