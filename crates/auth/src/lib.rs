//! Who may log in, and what follows: passwords, certificates, sessions, enrollment, tokens.
//!
//! - `login`: `POST /authenticate`; [`resolve`]: the credentials of a request;
//! - [`sessions`]: API sessions with opaque tokens and the service sessions in them, kept by this
//!   controller (class Local), told to routers;
//! - [`service_session`]: leave to dial or bind, as a signed token; and its check for routers;
//! - `admission`: how many logins are worked on at once;
//! - `enroll`, [`tickets`], [`own_tickets`]: how identities and routers get their first credentials;
//! - [`keyring`], [`keys`]: the keys that are in use, and those of before; [`signing`],
//!   [`signing_turns`]: what is signed with them;
//! - [`operator`]: a session for the program around the controller;
//! - `router_certificate`: what certificates of routers say; `router_certificates`: how a router
//!   exchanges its certificate and is never locked out;
//! - [`password`], [`lockout`] with its [`lockouts`], `guesses`: hashes, how often one may be wrong in a row, and how fast;
//! - `mfa`, `totp`, `spent`, `attempts`: second factors, their codes, what a used one still does, and
//!   how fast codes may be tried;
//! - `posture`: what clients say of their devices, and what follows;
//! - `ending`: when whatever ends by itself is looked at again;
//! - `revocations`: how those that cover nothing any more go; `lapsed`: how identities that are
//!   disabled for a while come back;
//! - `external_id`, `fetch_policy`: rules for third-party CAs and external signers;
//! - [`handle`]: what all of them share; [`housekeeping`]: what goes on by itself.

pub mod admission;
pub mod attempts;
pub mod credentials;
pub mod current;
pub mod ending;
pub mod enroll;
pub mod external_id;
pub mod external_token;
pub mod fetch_policy;
pub mod guesses;
pub mod handle;
pub mod housekeeping;
pub mod keyring;
pub mod keys;
pub mod lapsed;
pub mod lockout;
pub mod lockouts;
pub mod login;
pub mod mfa;
pub mod operator;
pub mod own_tickets;
pub mod password;
pub mod posture;
pub mod public_keys;
pub mod resolve;
pub mod revocations;
pub mod router_certificate;
pub mod router_certificates;
pub mod service_changes;
pub mod service_session;
pub mod sessions;
pub mod signing;
pub mod signing_turns;
pub mod spent;
pub mod this_controller;
pub mod tickets;
pub mod tokens;
pub mod totp;
pub mod wanted_configs;

pub use handle::{Auth, WeakAuth};
