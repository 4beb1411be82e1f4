//! API sessions with signed tokens (docs/protocol/auth.md 10.1, 15.5, 15.6, 16).
//!
//! A session by OpenID Connect is a row of the same table as a session with an opaque token, and is judged by the same
//! rules: it ends with its credential, its identity and its policy. Its client shows an access token, which routers
//! judge by themselves; the controller looks up the session that the token names, so that a token without a session is
//! refused.
//!
//! - `claims`: the claims of the tokens of a session; `issue`: signs them;
//! - `verify`: reads an access or refresh token, and finds its session; `adopted`: makes the session of a token of the
//!   original;
//! - `shown`: the proof that the bearer of a token has the key that the token names;
//! - `revoke`: tells routers that the tokens of an ended session count no more; `unrevoked`: the sessions that it has yet
//!   to tell of.

mod adopted;
pub(crate) mod claims;
pub(crate) mod issue;
pub(crate) mod revoke;
pub(crate) mod shown;
pub(crate) mod unrevoked;
pub(crate) mod verify;

pub use issue::TokenSet;
pub use verify::BearerRefusal;
