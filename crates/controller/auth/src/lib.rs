//! Logins and what depends on them: passwords, certificates, sessions, enrollment, tokens.
//!
//! ```text
//!  ticket, certificate of a CA ──> enroll ──> authenticator
//!  password ──> guesses, lockout ──┐
//!  certificate ────────────────────┴──> login ──> API session ──> service sessions: signed tokens
//!  code ──> attempts ──> mfa ──> second factor of the API session
//!  request with a token ──> resolve: its API session ──> Caller ──> gate of the kernel
//! ```
//!
//! - `login`: `POST /authenticate`; `first_factor`: what it verified; [`resolve`]: finds the caller of a request by its credentials; [`factors`]: what a login lacks;
//! - [`sessions`]: API sessions and their service sessions, known to this controller only; those with
//!   opaque tokens are announced to routers;
//! - [`bearer`]: API sessions with signed tokens; [`oidc`]: the OIDC provider, which issues them;
//! - [`service_session`]: permissions to dial or host, as signed tokens, and their check for
//!   routers;
//! - [`refusals`]: refused certificates in the log;
//! - `admission`: limits the logins that are worked on at once; `rates`: limits how often an identity
//!   logs in; `waiting`: limits the logins that wait for both;
//! - `enroll`, [`tickets`], [`own_tickets`]: the first credentials of identities and routers;
//! - [`keyring`], [`keys`]: the keys in use, and former ones; [`signing`], [`slow_signing`]:
//!   slow signatures with them; [`token_keys`]: the keys that sign tokens, one after the other;
//! - [`operator`]: a session for the program around the controller;
//! - `router_certificate`: the names in certificates of routers; `router_certificates`: exchanges
//!   the certificate of a router without ever locking it out;
//! - [`password`], [`lockout`] with its [`lockouts`], `guesses`: hashes, locks after wrong
//!   passwords in a row, and limits on guessing;
//! - `mfa`, `totp`, `spent`, `attempts`: second factors, their codes, further uses of an accepted
//!   code, and limits on guessing;
//! - `posture`: posture data of clients, and its effects;
//! - `ending`: the times at which sessions are judged again;
//! - `revocations`: deletes expired revocations; `lapsed`: enables identities that were disabled
//!   for a time;
//! - [`third_party_ca`]: the certificates of third-party CAs that count;
//! - `external_id`, `fetch_policy`: rules for third-party CAs and external signers;
//! - [`external_token`], `token_login`, `second_token`: tokens of external signers, as login and as second
//!   factor; `token_rules`: which signers log an identity in; `token_refusal`, `external_challenge`: what is wrong
//!   with a token, and what a client is told; `wrong_tokens`: limits on wrong ones;
//!   `key_sets`: the keys of signers whose keys are at a URL; [`token_test`]: why a token is good, or
//!   not; [`signer_warnings`]: signers without keys, and signers that name the same identities;
//! - [`handle`]: the state that all modules share; [`housekeeping`]: background work.
//!
//! ```
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! use weft_auth::guesses::Guesses;
//! use weft_kernel::GuessLimits;
//!
//! let guesses = Guesses::new(GuessLimits { per_name: 1, per_address: 100 });
//! let from = Some("192.0.2.1".parse()?);
//! let attempt = guesses.attempt("alice", from).await.expect("no wrong password yet");
//! drop(attempt); // without a verdict the password counts as wrong
//!
//! let wait = guesses.attempt("alice", from).await.expect_err("one wrong password a minute is allowed");
//! assert!(wait.as_secs() > 30);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod admission;
pub mod attempts;
pub mod bearer;
pub mod credentials;
pub mod current;
pub mod end_statement;
pub mod ending;
pub mod enroll;
mod external_challenge;
pub mod external_id;
pub mod external_token;
pub mod factors;
pub mod fetch_policy;
mod first_factor;
mod former_signer;
pub mod guesses;
pub mod handle;
pub mod housekeeping;
mod key_sets;
pub mod keyring;
pub mod keys;
pub mod lapsed;
pub mod lockout;
pub mod lockouts;
pub mod login;
mod login_events;
pub mod members;
pub mod mfa;
pub mod oidc;
pub mod operator;
pub mod own_tickets;
pub mod password;
pub mod posture;
pub mod public_keys;
pub mod rates;
pub mod refusals;
pub mod renewals;
pub mod resolve;
pub mod revocations;
pub mod router_certificate;
pub mod router_certificates;
mod seat;
mod second_token;
pub mod service_changes;
pub mod service_session;
mod session_events;
pub mod sessions;
pub mod signer_warnings;
pub mod signing;
pub mod slow_signing;
pub mod spent;
pub mod third_party_ca;
pub mod this_controller;
pub mod tickets;
pub mod token_keys;
mod token_login;
mod token_rates;
mod token_refusal;
mod token_rules;
pub mod token_test;
pub mod tokens;
mod told_failures;
pub mod totp;
mod waiting;
pub mod wanted_configs;
mod way_back;
mod wrong_tokens;

pub use handle::{Auth, WeakAuth};
