//! SDK channels: admission, and the state that all of them share.
//!
//! ```text
//!  hello -> gate (token and certificate are there) -> Result
//!   later: access judges token and certificate; requests of the SDK wait for that
//!
//!  messages ──> connect, bind ─┐
//!  routes ────> dial ──────────┼──> connection, binding ──> ids, hosted, live, trust
//!  access ────> events, revoke ┘
//! ```
//!
//! The answer to the hello comes before the session is judged, as SDKs expect; a session that is
//! refused shows as a closed connection (docs/protocol/sdk.md 2.2 and 3).

mod bind;
mod binding;
mod connect;
mod connection;
mod dial;
mod entries;
mod events;
mod gate;
mod hosted;
mod ids;
mod live;
mod messages;
mod nudge;
mod outbox;
mod pace;
mod patience;
mod refusals;
mod request;
mod revoke;
mod spans;
#[cfg(test)]
pub(crate) mod tests;
mod traces;
mod trust;

pub(crate) use self::binding::{Dialed, EdgeBinding, EdgeOptions};
pub(crate) use self::gate::EdgeGate;
