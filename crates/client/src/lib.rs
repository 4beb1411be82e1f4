//! Typed HTTP calls over the contract: login, enrollment, paging.
//!
//! The routers, the SDK and the commands talk to controllers through this crate; it knows the rows
//! and bodies of `weft-contract` and the keys and trust of `weft-identity`, and nothing of what a
//! controller is. What flows through:
//!
//! - [`Address`]: what people type as the address of a controller;
//! - [`ManagementClient`]: everything an administrator does, generic over the contract's tables;
//! - [`ClientApi`]: what an application does: log in, look at services, ask for sessions;
//! - [`enroll`]: from a one-time token to a certificate;
//! - [`trust`]: how a controller is believed that nobody has met before;
//! - [`SavedLogin`], [`Logins`]: logins that outlive the command that made them.
//!
//! Every answer is bounded ([`MAX_ANSWER`]), every call has a deadline, and 429 is waited out as the
//! server asks. Nothing is retried that could have happened.

mod address;
mod call;
mod client_api;
pub mod enroll;
mod error;
mod http;
mod login;
mod management;
pub mod trust;

pub use address::Address;
pub use call::{Page, Query};
pub use client_api::{About, ClientApi, Credentials};
pub use error::{ApiError, Error, Result};
pub use http::{MAX_ANSWER, Tls};
pub use login::{LoginKey, Logins, SavedLogin};
pub use management::ManagementClient;

#[cfg(test)]
mod tests;
