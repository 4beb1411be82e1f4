//! Revocations: tokens that are refused although they have not expired.

use super::{Base, Record, record};
use crate::{
    Timestamp,
    row::{choice, row},
};

choice! {
    /// What the id of a revocation names (protocol: auth 16).
    pub enum RevocationType {
        /// One token, by its `jti`.
        Jti = 0 "JTI",
        /// All tokens of an identity issued before a time.
        Identity = 1 "IDENTITY",
        /// All tokens of an API session.
        ApiSession = 2 "API_SESSION",
    }
}

row! {
    /// A revocation; its id is what is revoked.
    pub struct Revocation {
        /// Id, times and tags.
        1 => pub base: Base,
        /// What the id names.
        2 => pub revocation_type: RevocationType,
        /// When it may be forgotten, because every token it covers has expired.
        3 => pub expires_at: Timestamp,
        /// `IDENTITY`: tokens issued before this are refused; absent means all.
        4 => pub issued_before: Option<Timestamp>,
    }
}

impl Record for Revocation {
    record!(Revocation);
}
