//! Sessions by OpenID Connect, at the provider that a controller has for its own clients (docs/protocol/auth.md 15).
//!
//! - `login`: a login as programs make it, step by step;
//! - `tokens`: the tokens of a session, and when they are refreshed;
//! - `requests`: requests for tokens, and their refusals;
//! - `key`: the key without which the tokens are worth nothing;
//! - `person`, `browser`: logins that people make on the pages of the provider;
//! - `pkce`: what proves that a code belongs to its login.

mod browser;
mod key;
mod login;
mod person;
mod pkce;
pub(crate) mod requests;
mod tokens;

pub(crate) use key::SessionKey;
pub(crate) use login::{Login, log_in};
pub use person::{BrowserLogin, DeviceLogin};
pub(crate) use requests::refreshed;
pub(crate) use tokens::Tokens;

/// The client that weft's programs are at the provider of a controller: that of OpenZiti's native programs.
pub(crate) const CLIENT: &str = "openziti";
/// What they ask for: an ID token, and a refresh token.
pub(crate) const SCOPE: &str = "openid offline_access";

/// Which protocol logins use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoginProtocol {
    /// OpenID Connect if the controller announces it, otherwise opaque tokens.
    #[default]
    Announced,
    /// OpenID Connect, also at a controller that serves it without announcing it.
    OpenIdConnect,
    /// Opaque tokens.
    Opaque,
}
