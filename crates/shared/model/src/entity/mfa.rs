//! Second factors by time-based one-time codes.

use std::sync::Arc;

use super::{Base, Link, OnDelete, Record};
use crate::row::row;
use crate::{Id, Kind};

row! {
    /// The second factor of an identity (docs/protocol/auth.md 11).
    pub struct Mfa {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Unique: id of the identity.
        2 => pub identity_id: Id,
        /// True if the first code was given.
        3 => pub is_verified: bool,
        /// The secret in base32.
        4 => pub secret: String,
        /// Recovery codes, each of which works once.
        5 => pub recovery_codes: Vec<String>,
        /// Last time step whose code was used, so that no code works twice.
        6 => pub last_step: u64,
    }
}

impl Mfa {
    /// Index of the identity in [`Record::UNIQUE`].
    pub const IDENTITY: usize = 0;
}

impl Record for Mfa {
    const UNIQUE: &'static [&'static str] = &["identityId"];
    const LINKS: &'static [Link] = &[Link::new("identityId", Kind::Identity, OnDelete::Cascade)];

    fn unique(&self, each: &mut dyn FnMut(usize, &Arc<str>)) {
        each(Self::IDENTITY, &self.identity_id.as_str().into());
    }

    fn links(&self, each: &mut dyn FnMut(usize, &Id)) {
        each(0, &self.identity_id);
    }
}
