//! Dial and bind services from a Rust program.
//!
//! An [`Endpoint`] is an identity in the network: it logs in at the controller, knows the services
//! that the identity may use, and keeps connections to the routers. [`Endpoint::dial`] opens a
//! [`Connection`] to a host of a service, [`Endpoint::bind`] hosts one. A connection is a tokio
//! stream with half-close; if the service requires it, its data is encrypted from end to end. Both
//! interoperate with the SDKs of OpenZiti.
//!
//! ```text
//!  application <-> Connection <-> Circuit (flow control) <-> RouterChannel (TLS) <-> router
//! ```
//!
//! There is no task per connection: the task of a router's channel passes payloads to their
//! circuits, and pulls payloads from circuits in fair turns. The flow control is in this program,
//! so that routers only forward and a slow reader holds up no other connection.
//!
//! ```no_run
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let endpoint = weft_sdk::Endpoint::load("laptop.json").await?;
//! let mut connection = endpoint.dial("greeter").await?;
//! connection.write_all(b"hello").await?;
//! connection.shutdown().await?; // no more from here; the answer can still be read
//! let mut answer = String::new();
//! connection.read_to_string(&mut answer).await?;
//! # Ok(())
//! # }
//! ```
//!
//! The rest of this page is the README of the crate.
#![doc = include_str!("../README.md")]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod account;
mod addresses;
mod bind_options;
mod builder;
mod channel;
mod circuit;
mod connecting;
mod connection;
mod dial;
mod endpoint;
mod ends;
mod error;
mod exchange;
mod hop;
mod hosting;
mod identity;
mod incoming;
mod inner;
mod jitter;
mod listener;
mod outlet;
mod posture;
mod proofs;
mod relisting;
mod renewal;
mod routed;
mod routers;
mod sealing;
mod service;
mod settings;
mod shown;
mod traces;
mod unproved;

pub use bind_options::BindOptions;
pub use builder::EndpointBuilder;
pub use bytes;
pub use connection::{Connection, Info, MAX_MESSAGE, ReadHalf, WriteHalf};
pub use dial::DialOptions;
pub use endpoint::{Endpoint, enroll};
pub use error::{Error, Refusal, Result};
pub use hop::Hop;
pub use identity::Identity;
pub use incoming::Incoming;
pub use listener::{Listener, ListenerChanges, ListenerState, ListenerTerms};
#[cfg(feature = "opentelemetry")]
pub use opentelemetry;
pub use serde_json;
pub use service::Service;
pub use tokio;
// Types of other crates that the items above take, return or contain.
pub use weft_client::{
    ApiError, CodePurpose, CodeRequest, ControllerAddress, DevicePrompt, Error as ControllerError,
    ExternalTokens, FactorProblem, LoginProtocol, NewFactor, ProviderError, ProviderLogin,
    SavedLogin, TokenRequest, TotpSecret, chain,
};
pub use weft_contract::operation::PathError;
pub use weft_contract::{Cause, ErrorBody};
pub use weft_e2e::ends::Peer;
pub use weft_identity::{
    Error as IdentityError, ExternalLogin, IdentityFile, IdentityMaterial, IdentitySection,
};
pub use weft_wire::ctrl::TerminatorPrecedence as Precedence;

#[cfg(test)]
mod tests;
