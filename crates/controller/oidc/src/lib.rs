//! The protocol of the OIDC provider: everything that can be decided without I/O.
//!
//! ```text
//!  /authorize ──> params ──> authorize::Request ──┐                      ┌──> login_form ──> steps
//!  /device_authorization ──> device ──────────────┴──> logins: login ────┤
//!  redirect <── code <── callback <── complete <───────────┘             └──> pages
//!      └──> /oauth/token ──> token_request ──> logins (code, device code), refresh (number) ──> tokens
//! ```
//!
//! Parameters, headers, times and random bytes go in; decisions, texts and values come out. Nothing here reads a clock or a
//! socket, keeps a session or signs a token. docs/protocol/auth.md 15 describes the protocol.
//!
//! - [`issuer`], [`host`]: the issuers of a listener, and discovery;
//! - [`client`], [`uris`]: the clients, and the URIs at which a login may end;
//! - [`params`], [`problem`], [`scopes`], [`pkce`], [`secret`]: parts of requests;
//! - [`authorize`]: the beginning of a login; [`browser`]: the cookie of its browser;
//! - [`login`]: the steps of one login; [`logins`]: all of them, with codes and device codes, in one bounded table
//!   (`pending`); [`device`]: logins of devices without a browser;
//! - [`login_form`]: the steps as requests and answers; [`pages`]: the same for people, written by `markup`;
//! - [`token_request`]: requests for tokens; [`refresh`]: the numbers of refresh tokens;
//! - [`revoke`], [`end_session`], [`userinfo`]: the other endpoints.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use weft_model::Timestamp;
//! use weft_oidc::authorize::{PrimaryFactor, AuthorizeRequest};
//! use weft_oidc::client::{Client, UriSources, Uris};
//! use weft_oidc::login::{Missing, Owner, Primary, Visitor};
//! use weft_oidc::logins::{Callback, PendingLogins, Redeemed};
//! use weft_oidc::params::Params;
//!
//! let (uris, _) = Uris::of_logins(&UriSources::default());
//! let query = "client_id=openziti&response_type=code&scope=openid&state=s\
//!     &redirect_uri=http://localhost:8080/auth/callback&code_challenge_method=S256\
//!     &code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
//! let request = AuthorizeRequest::read(&Params::read(query, "")?, "https://ctrl.example/oidc", &uris).unwrap();
//!
//! let (now, address) = (Instant::now(), [192, 0, 2, 1].into());
//! let mut logins = PendingLogins::<()>::default();
//! let begun = logins.begin(request, "session".into(), None, address, &[[1; 32], [2; 32]], now);
//! let primary = Primary {
//!     owner: Owner { identity: "alice".into(), authenticator: "a1".into() },
//!     method: PrimaryFactor::Password,
//!     at: Timestamp::from_secs(1_000),
//!     wanted: Missing::default(),
//! };
//! let missing = logins.step(&begun.id, now, |login| login.primary(Visitor::Json, primary, ()));
//! assert!(missing.unwrap().is_nothing());
//!
//! let Ok(Callback::Code(to)) = logins.callback(&begun.id, Visitor::Json, &[3; 32], now) else { panic!() };
//! assert!(to.starts_with("http://localhost:8080/auth/callback?state=s&iss="));
//! let (_, code) = to.rsplit_once("&code=").unwrap();
//! let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
//! let mut redeem = |code| {
//!     let redirect = "http://localhost:8080/auth/callback";
//!     logins.redeem(code, Client::OpenZiti, redirect, verifier, now + Duration::from_secs(5))
//! };
//! assert!(matches!(redeem(code), Redeemed::Granted(granted) if granted.owner.identity == "alice"));
//! assert!(matches!(redeem(code), Redeemed::Again { session, .. } if session == "session"));
//! # Ok::<(), weft_oidc::problem::OidcError>(())
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod authorize;
pub mod browser;
pub mod client;
pub mod device;
pub mod end_session;
pub mod host;
pub mod issuer;
pub mod login;
pub mod login_form;
pub mod logins;
mod markup;
pub mod pages;
pub mod params;
mod pending;
pub mod pkce;
pub mod problem;
pub mod refresh;
pub mod revoke;
pub mod scopes;
pub mod secret;
pub mod token_request;
pub mod uris;
pub mod userinfo;

#[cfg(test)]
mod tests;
