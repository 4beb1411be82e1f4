//! Third-party certificate authorities.

use std::sync::Arc;

use super::{Base, Record, named, record};
use crate::row::{choice, row};

choice! {
    /// Where in a certificate the external id stands.
    pub enum ClaimLocation {
        /// The subject's common name.
        CommonName = 0 "COMMON_NAME",
        /// A URI among the subject alternative names.
        SanUri = 1 "SAN_URI",
        /// An e-mail address among the subject alternative names.
        SanEmail = 2 "SAN_EMAIL",
    }
}

choice! {
    /// Which of several values is meant.
    pub enum ClaimMatcher {
        /// Every value.
        All = 0 "ALL",
        /// Values with a prefix.
        Prefix = 1 "PREFIX",
        /// Values with a suffix.
        Suffix = 2 "SUFFIX",
        /// URIs with a scheme.
        Scheme = 3 "SCHEME",
    }
}

choice! {
    /// What is taken out of the value.
    pub enum ClaimParser {
        /// All of it.
        None = 0 "NONE",
        /// A part between separators.
        Split = 1 "SPLIT",
    }
}

row! {
    /// How an external id is read from a certificate (protocol: auth 14.3).
    pub struct ExternalIdClaim {
        /// Where it stands.
        1 => pub location: ClaimLocation,
        /// Which value is meant.
        2 => pub matcher: ClaimMatcher,
        /// Prefix, suffix or scheme.
        3 => pub matcher_criteria: String,
        /// What is taken out of it.
        4 => pub parser: ClaimParser,
        /// The separator.
        5 => pub parser_criteria: String,
        /// Which of several results is meant.
        6 => pub index: u32,
    }
}

row! {
    /// A third-party CA (protocol: auth 14).
    pub struct Ca {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Unique name.
        2 => pub name: Arc<str>,
        /// Its certificate.
        3 => pub cert_pem: String,
        /// Unique: hex SHA-1 of its certificate.
        4 => pub fingerprint: Arc<str>,
        /// Whether possession of its key was proved.
        5 => pub is_verified: bool,
        /// The common name of the certificate that proves it.
        6 => pub verification_token: String,
        /// Whether its certificates may log in.
        7 => pub is_auth_enabled: bool,
        /// Whether its certificates may enroll by themselves.
        8 => pub is_auto_ca_enrollment_enabled: bool,
        /// Whether its certificates may enroll with a ticket.
        9 => pub is_ott_ca_enrollment_enabled: bool,
        /// Attributes of identities that enroll by themselves.
        10 => pub identity_roles: Vec<Arc<str>>,
        /// Names of identities that enroll by themselves.
        11 => pub identity_name_format: String,
        /// How an external id is read from a certificate.
        12 => pub external_id_claim: Option<ExternalIdClaim>,
    }
}

impl Record for Ca {
    record!(Ca);
    named!();

    const UNIQUE: &'static [&'static str] = &["fingerprint"];

    fn unique(&self, each: &mut dyn FnMut(usize, &Arc<str>)) {
        each(0, &self.fingerprint);
    }
}
