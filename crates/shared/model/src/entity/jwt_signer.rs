//! External JWT signers: other issuers whose tokens are accepted.

use std::sync::Arc;

use prost::Enumeration;
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use super::{Base, Link, OnDelete, Record};
use crate::choice::Choice;
use crate::row::row;
use crate::{Id, Kind, Timestamp};

/// The issuer's token that clients send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Enumeration, Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
#[repr(i32)]
pub enum TargetToken {
    /// The access token.
    Access = 0,
    /// The id token.
    Id = 1,
}

impl Choice for TargetToken {}

row! {
    /// An external JWT signer (docs/protocol/management-api.md 7.7).
    pub struct ExtJwtSigner {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Unique name.
        2 => pub name: Arc<str>,
        /// Unique: the `iss` of its tokens.
        3 => pub issuer: Option<Arc<str>>,
        /// The `aud` of its tokens.
        4 => pub audience: Option<Arc<str>>,
        /// Certificate of the signing key; `None` if `jwks_endpoint` is set.
        5 => pub cert_pem: Option<String>,
        /// Address of the key set.
        6 => pub jwks_endpoint: Option<String>,
        /// Unique: id of the signing key, with a certificate.
        7 => pub kid: Option<Arc<str>>,
        /// Unique: fingerprint of the certificate.
        8 => pub fingerprint: Option<Arc<str>>,
        /// The certificate's common name.
        9 => pub common_name: String,
        /// Beginning of the certificate's validity.
        10 => pub not_before: Option<Timestamp>,
        /// End of the certificate's validity.
        11 => pub not_after: Option<Timestamp>,
        /// True if its tokens are accepted.
        12 => pub enabled: bool,
        /// Address at which clients log in.
        13 => pub external_auth_url: Option<String>,
        /// The claim that names the identity.
        14 => pub claims_property: Option<String>,
        /// True if that claim holds an external id instead of an id.
        15 => pub use_external_id: bool,
        /// Client id that clients use at the issuer.
        16 => pub client_id: Option<String>,
        /// The scopes that clients ask for.
        17 => pub scopes: Vec<String>,
        /// The token that clients send.
        18 => pub target_token: TargetToken,
        /// True if its tokens may enroll an identity with a certificate.
        19 => pub enroll_to_cert_enabled: bool,
        /// True if its tokens may enroll an identity without a certificate.
        20 => pub enroll_to_token_enabled: bool,
        /// The claim with the role attributes of a new identity.
        21 => pub enroll_attribute_claims_selector: String,
        /// The claim with the name of a new identity.
        22 => pub enroll_name_claims_selector: String,
        /// The auth policy of a new identity.
        23 => pub enroll_auth_policy_id: Option<Id>,
    }
}

impl ExtJwtSigner {
    /// Index of the issuer in [`Record::UNIQUE`].
    pub const ISSUER: usize = 0;
}

impl Record for ExtJwtSigner {
    const UNIQUE: &'static [&'static str] = &["issuer", "kid", "fingerprint"];
    const LINKS: &'static [Link] =
        &[Link::new("enrollAuthPolicyId", Kind::AuthPolicy, OnDelete::Refuse)];

    fn name(&self) -> Option<&Arc<str>> {
        Some(&self.name)
    }

    fn unique(&self, each: &mut dyn FnMut(usize, &Arc<str>)) {
        let values = [&self.issuer, &self.kid, &self.fingerprint];
        for (index, value) in values.into_iter().enumerate() {
            if let Some(value) = value {
                each(index, value);
            }
        }
    }

    fn links(&self, each: &mut dyn FnMut(usize, &Id)) {
        if let Some(id) = &self.enroll_auth_policy_id {
            each(0, id);
        }
    }
}
