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
//! [`Snapshot`](weft_model::Snapshot) and never lock. A change of the model is an operation that
//! passes the gate, is *prepared* on the caller's task and *decided* by the one writer ([`weft_kernel::writer`]):
//!
//! - [`Controller::call`]: an operation of an API, without HTTP: gate, handler, reply;
//! - [`Auth::resolve`](weft_auth::Auth::resolve): turns the credentials of a request into a
//!   [`Caller`];
//! - [`Kernel::submit`](weft_kernel::Kernel::submit) and
//!   [`Kernel::subscribe`](weft_kernel::Kernel::subscribe): changes in, published batches out;
//! - [`weft_auth`]: logins, sessions, enrollment, tokens; [`domain`]: every operation on the model.
//!
//! ```
//! # use weft_controller::Keys;
//! # use weft_identity::{
//! #     Authority, AuthoritySpec, KeyAlgorithm, KeyedChain, Leaf, PrivateKey, KeyPurpose, SubjectName,
//! #     TrustBundle,
//! # };
//! # fn keys() -> Result<Keys, weft_identity::Error> {
//! #     let now = std::time::SystemTime::now();
//! #     let authority = Authority::make_root(&AuthoritySpec::new("root"), now)?;
//! #     let key = PrivateKey::generate(KeyAlgorithm::EcP256)?;
//! #     let subject = SubjectName::common_name("ctrl1");
//! #     let leaf = Leaf::for_key(key.public(), &subject, Vec::new(), KeyPurpose::Both, now)?;
//! #     let chain = KeyedChain::new(vec![authority.issue(&leaf)?], key)?;
//! #     let bundle = TrustBundle::new([authority.certificate().clone()]);
//! #     let (session, enrollment) = (chain.clone(), chain);
//! #     let trust_domain = "example".to_owned();
//! #     Ok(Keys { session, enrollment, authority, bundle, trust_domain })
//! # }
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! use std::sync::Arc;
//! use serde_json::json;
//! use weft_contract::Api;
//! use weft_controller::{Addresses, Call, Caller, Controller, Settings};
//! use weft_store::Memory;
//!
//! let settings = Settings::new("ctrl1", Arc::new(Memory::new()), keys()?, Addresses::default());
//! let controller = Controller::start(settings).await?;
//!
//! let create = Call::to(Api::Management, "createService", &[]).expect("an operation of the API");
//! let create = create.with_json(&json!({ "name": "web", "encryptionRequired": true }));
//! let reply = controller.call(Caller::system(), create).await?;
//! assert!(reply.data()["id"].is_string());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// The macro of `domain::fields` reads the table of a kind facet by facet, by recursion.
#![recursion_limit = "512"]

mod controller;
pub mod domain;
mod logins;
mod operator;
mod reset;
pub mod schema;
mod start;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use controller::Controller;
pub use reset::ResetError;
pub use start::StartError;
pub use weft_auth::members::REMOVED;
pub use weft_kernel::clock::{Clock, SystemClock};
pub use weft_kernel::settings::open_fetch;
pub use weft_kernel::{
    Addresses, BuildInfo, Call, Caller, Challenge, Content, Done, Durations, Failure, GuessLimits,
    Health, KeySource, Keys, Login, NetworkSecrets, Notice, Origin, Published, QueryParameters,
    Reply, Result, SessionRef, Settings, Subscription, Via, Wait, Who,
};
