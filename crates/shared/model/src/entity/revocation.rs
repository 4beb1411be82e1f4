//! Revocations: tokens that are refused although they have not expired.

use bytes::Bytes;
use prost::Enumeration;
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use super::{Base, Record};
use crate::Timestamp;
use crate::choice::Choice;
use crate::row::row;

/// Type of a revocation: the kind of thing that its id names (docs/protocol/auth.md 16).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Enumeration, Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
#[repr(i32)]
pub enum RevocationType {
    /// One token, by its `jti`.
    Jti = 0,
    /// All tokens of an identity issued before a time.
    Identity = 1,
    /// All tokens of an API session.
    ApiSession = 2,
}

impl Choice for RevocationType {}

row! {
    /// A revocation. Its id is that of the token, identity or API session that is revoked.
    pub struct Revocation {
        /// Id, times and tags.
        1 => pub base: Base,
        /// The kind of thing that the id names.
        2 => pub revocation_type: RevocationType,
        /// Time at which every revoked token has expired, so that the revocation can be deleted.
        3 => pub expires_at: Timestamp,
        /// `IDENTITY`: tokens issued before this time are refused; `None`: all.
        4 => pub issued_before: Option<Timestamp>,
        /// `API_SESSION`: the sessions that are revoked, as a [list](crate::session_list), if many end together; the
        /// id is then that of the list. Empty for the session with this id.
        5 => pub sessions: Bytes,
    }
}

impl Record for Revocation {}
