//! Typed HTTP calls to a controller: login, enrollment, lists by page.
//!
//! ```text
//!  token ──> trust ──> enroll ──> identity file, for SDKs and routers
//!  Address, password or identity file ──> ClientApi, ManagementClient ──> HTTP ──> controller
//!                                         └ operations and bodies of weft-contract
//! ```
//!
//! Routers, the SDK and the commands talk to controllers through this crate. It knows the
//! operations and bodies of `weft-contract` and the keys and trust of `weft-identity`.
//!
//! - [`ControllerAddress`]: the address of a controller, as people type it;
//! - [`ManagementClient`]: the management API, generic over the contract's tables;
//! - [`ClientApi`]: the client API: log in, list services, ask for sessions;
//! - [`Codes`]: codes of the second factor, for logins that ask for them; [`NewFactor`] sets one up, and
//!   [`TotpSecret`] makes codes without a person;
//! - [`LoginProtocol`]: opaque tokens, or the tokens of OpenID Connect;
//! - [`ExternalTokens`]: tokens of a company's identity provider, and [`ProviderLogin`], which gets them with a code;
//! - [`SecondTokens`]: such tokens as second factor;
//! - [`BrowserLogin`], [`DeviceLogin`]: logins on the pages of the controller, for [`SavedTokens`];
//! - [`enroll`]: from a one-time token to a certificate;
//! - [`trust`]: first contact with an unknown controller;
//! - [`SavedLogin`], [`Logins`]: logins in files, for the next command.
//!
//! Every answer is bounded ([`MAX_ANSWER`]), every call has a deadline, and 429 is waited out as
//! the server asks, up to 15 s ([`tell_waits`]); for snapshots and logins by password up to 1 s. A
//! request is sent again only if the controller cannot have acted on it.
//!
//! ```
//! use weft_client::ControllerAddress;
//!
//! let address: ControllerAddress = "controller.example:1280".parse()?;
//! assert_eq!((address.host(), address.port()), ("controller.example", 1280));
//! # Ok::<(), weft_client::Error>(())
//! ```

mod address;
mod authenticate;
mod call;
mod client_api;
mod connector;
mod credentials;
mod device_codes;
pub mod enroll;
mod error;
mod external_tokens;
mod http;
mod login;
mod management;
mod new_factor;
mod oidc;
mod provider_login;
mod saved_tokens;
mod second_factor;
mod second_tokens;
mod totp;
pub mod trust;

pub use address::ControllerAddress;
pub use call::{ExternalToken, ListPage, QueryPairs};
pub use client_api::ClientApi;
pub use credentials::{About, Credentials};
pub use device_codes::DevicePrompt;
pub use error::{ApiError, Error, FactorProblem, ProviderError, Result, chain};
pub use external_tokens::{ExternalTokens, TokenRequest};
pub use http::{MAX_ANSWER, Tls, tell_waits};
pub use login::{LoginKey, Logins, SavedLogin, SecondTokenFile};
pub use management::ManagementClient;
pub use new_factor::NewFactor;
pub use oidc::{BrowserLogin, DeviceLogin, LoginProtocol};
pub use provider_login::ProviderLogin;
pub use saved_tokens::SavedTokens;
pub use second_factor::{CodePurpose, CodeRequest, Codes};
pub use second_tokens::SecondTokens;
pub use totp::TotpSecret;

#[cfg(test)]
mod tests;
