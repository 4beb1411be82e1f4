//! The sender of a one-time code.

use std::net::IpAddr;

use weft_model::Id;

/// The sender of a code.
#[derive(Debug, Clone)]
pub struct Guesser {
    /// The identity whose second factor the code is for.
    pub identity: Id,
    /// The session in which the code is sent.
    pub session: Id,
    /// The address from which the code is sent.
    pub source: Option<IpAddr>,
    /// Whether the session has sent a right code before.
    pub(crate) is_proven: bool,
}
