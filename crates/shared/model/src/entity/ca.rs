//! Third-party certificate authorities.

use std::sync::Arc;

use prost::Enumeration;
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use super::{Base, Record};
use crate::choice::Choice;
use crate::row::row;

/// Part of a certificate that holds the external id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Enumeration, Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
#[repr(i32)]
pub enum ClaimLocation {
    /// The subject's common name.
    CommonName = 0,
    /// A URI among the subject alternative names.
    SanUri = 1,
    /// An e-mail address among the subject alternative names.
    SanEmail = 2,
}

impl Choice for ClaimLocation {}

/// Values of that part that are considered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Enumeration, Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
#[repr(i32)]
pub enum ClaimMatcher {
    /// Every value.
    All = 0,
    /// Values with a prefix.
    Prefix = 1,
    /// Values with a suffix.
    Suffix = 2,
    /// URIs with a scheme.
    Scheme = 3,
}

impl Choice for ClaimMatcher {}

/// How a value is divided into results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Enumeration, Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
#[repr(i32)]
pub enum ClaimParser {
    /// The whole value is the only result.
    None = 0,
    /// The parts between separators are the results.
    Split = 1,
}

impl Choice for ClaimParser {}

row! {
    /// How an external id is read from a certificate (docs/protocol/auth.md 14.3).
    pub struct ExternalIdClaim {
        /// Part of the certificate that is read.
        1 => pub location: ClaimLocation,
        /// Values that are considered.
        2 => pub matcher: ClaimMatcher,
        /// Prefix, suffix or scheme of the values.
        3 => pub matcher_criteria: String,
        /// How a value is divided into results.
        4 => pub parser: ClaimParser,
        /// The separator.
        5 => pub parser_criteria: String,
        /// Position of the external id among the results, from 0.
        6 => pub index: u32,
    }
}

row! {
    /// A third-party CA (docs/protocol/auth.md 14).
    pub struct Ca {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Unique name.
        2 => pub name: Arc<str>,
        /// Certificates of the CA: authorities, in any order.
        3 => pub cert_pem: String,
        /// Unique: SHA-1 of the CA's first certificate, hex.
        4 => pub fingerprint: Arc<str>,
        /// True if possession of the CA's key was proven.
        5 => pub is_verified: bool,
        /// Common name of the certificate that proves possession.
        6 => pub verification_token: String,
        /// True if identities may log in with certificates of the CA.
        7 => pub is_auth_enabled: bool,
        /// True if identities may enroll by themselves with a certificate of the CA.
        8 => pub is_auto_ca_enrollment_enabled: bool,
        /// True if identities may enroll with a ticket and a certificate of the CA.
        9 => pub is_ott_ca_enrollment_enabled: bool,
        /// Role attributes of identities that enroll by themselves.
        10 => pub identity_roles: Vec<Arc<str>>,
        /// Format of the names of identities that enroll by themselves.
        11 => pub identity_name_format: String,
        /// How an external id is read from a certificate.
        12 => pub external_id_claim: Option<ExternalIdClaim>,
        /// SHA-1 of the certificate whose key was proven, hex; empty: the first.
        13 => pub verified_by: Arc<str>,
    }
}

impl Record for Ca {
    const UNIQUE: &'static [&'static str] = &["fingerprint"];

    fn name(&self) -> Option<&Arc<str>> {
        Some(&self.name)
    }

    fn unique(&self, each: &mut dyn FnMut(usize, &Arc<str>)) {
        each(0, &self.fingerprint);
    }
}
