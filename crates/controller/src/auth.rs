//! Who may log in, and what follows: passwords, certificates, sessions, enrollment, tokens.
//!
//! - `login`: `POST /authenticate`; [`resolve`]: the credentials of a request;
//! - [`sessions`]: API sessions with opaque tokens and the service sessions in them, kept by this
//!   controller (class Local), told to routers;
//! - [`service_session`]: leave to dial or bind, as a signed token; and its check for routers;
//! - `admission`: how many logins are worked on at once;
//! - `enroll`, [`tickets`]: how identities and routers get their first credentials;
//! - [`keyring`]: the keys that are in use, and those of before;
//! - [`operator`]: a session for the program around the controller;
//! - `router_certificate`: what certificates of routers say; `router_certificates`: how a router
//!   exchanges its certificate and is never locked out;
//! - [`password`], `lockout`, `guesses`: hashes, how often one may be wrong in a row, and how fast;
//! - `mfa`, `totp`, `spent`, `attempts`: second factors, their codes, what a used one still does, and
//!   how fast codes may be tried;
//! - `posture`: what clients say of their devices, and what follows;
//! - `ending`: when whatever ends by itself is looked at again;
//! - `revocations`: how those that cover nothing any more go; `lapsed`: how identities that are
//!   disabled for a while come back;
//! - `external_id`, `fetch_policy`: rules for third-party CAs and external signers.

pub(crate) mod admission;
pub(crate) mod attempts;
pub(crate) mod client_services;
pub(crate) mod current;
pub(crate) mod ending;
pub(crate) mod enroll;
pub(crate) mod external_id;
pub(crate) mod external_token;
pub(crate) mod fetch_policy;
pub(crate) mod guesses;
pub(crate) mod keyring;
pub(crate) mod lapsed;
pub(crate) mod lockout;
pub(crate) mod login;
pub(crate) mod mfa;
mod operator;
pub(crate) mod own_authenticators;
pub mod password;
pub(crate) mod posture;
pub mod public_keys;
pub mod resolve;
pub(crate) mod revocations;
pub(crate) mod router_certificate;
pub(crate) mod router_certificates;
pub(crate) mod router_texts;
pub(crate) mod service_changes;
pub mod service_session;
pub mod sessions;
pub(crate) mod signing;
pub(crate) mod spent;
pub mod tickets;
pub mod tokens;
pub(crate) mod totp;

#[cfg(test)]
mod tests;
