//! The rules that the extensions of a certificate state.
//!
//! A critical extension makes a certificate unusable for a program that does not know what it says. Here
//! is decided, extension by extension, which are known; a refusal names the extension.

use std::collections::HashSet;

use x509_parser::asn1_rs::{Oid, oid};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{ParsedExtension, X509Extension};
use x509_parser::x509::X509Version;

use crate::der;
use crate::signed::named;

const NAME_CONSTRAINTS: Oid<'static> = oid!(2.5.29.30);

/// Policy mappings and policy constraints, which may make the policies of a chain matter.
const POLICY_RULES: [Oid<'static>; 2] = [oid!(2.5.29.33), oid!(2.5.29.36)];

/// Extensions that are acted upon.
const CHECKED: [Oid<'static>; 9] = [
    oid!(2.5.29.15), // key usage
    oid!(2.5.29.17), // subject alternative names
    oid!(2.5.29.19), // basic constraints
    NAME_CONSTRAINTS,
    oid!(2.5.29.32), // certificate policies
    oid!(2.5.29.33), // policy mappings
    oid!(2.5.29.36), // policy constraints
    oid!(2.5.29.37), // extended key usage
    oid!(2.5.29.54), // inhibit any policy
];

/// Extensions that say nothing about what the certificate may be used for: they identify keys and issuers,
/// and tell where more can be read.
const HARMLESS: [Oid<'static>; 5] = [
    oid!(2.5.29.14),         // subject key identifier
    oid!(2.5.29.18),         // issuer alternative names
    oid!(2.5.29.31),         // CRL distribution points
    oid!(2.5.29.35),         // authority key identifier
    oid!(1.3.6.1.5.5.7.1.1), // authority information access
];

/// The usages that an extended key usage names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Purposes {
    pub(crate) any: bool,
    pub(crate) client: bool,
    pub(crate) server: bool,
}

/// The rules of one certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Why nothing may be concluded from the certificate; `None` if every extension is understood.
    pub(crate) fault: Option<String>,
    /// Why it is not known what the certificate says. That counts for an anchor, too.
    pub(crate) malformed: Option<String>,
    /// True for an authority.
    pub(crate) is_ca: bool,
    /// Most authorities below this one in a chain; `None`: unlimited.
    pub(crate) path_len: Option<u32>,
    /// Whether the key usage includes the signing of certificates; `None` if there is no key usage.
    pub(crate) signs_certificates: Option<bool>,
    /// `None` if there is no extended key usage.
    pub(crate) purposes: Option<Purposes>,
    /// True if names below this certificate are constrained.
    pub(crate) has_name_constraints: bool,
    /// True if the policies of chains with this certificate have to be looked at.
    pub(crate) has_policy_constraints: bool,
}

impl Rules {
    pub(crate) fn of(certificate: &X509Certificate<'_>) -> Self {
        let malformed = malformed(certificate);
        let fault = malformed.clone().or_else(|| not_understood(certificate));
        let mut rules = Self { fault, malformed, ..Self::default() };
        for extension in certificate.iter_extensions() {
            // These count for an anchor too, whose faults do not.
            rules.has_name_constraints |= extension.oid == NAME_CONSTRAINTS;
            rules.has_policy_constraints |= POLICY_RULES.contains(&extension.oid);
            match extension.parsed_extension() {
                ParsedExtension::BasicConstraints(constraints) => {
                    rules.is_ca = constraints.ca;
                    rules.path_len = constraints.path_len_constraint;
                }
                ParsedExtension::KeyUsage(usage) => {
                    rules.signs_certificates = Some(usage.key_cert_sign());
                }
                ParsedExtension::ExtendedKeyUsage(usage) => {
                    rules.purposes = Some(Purposes {
                        any: usage.any,
                        client: usage.client_auth,
                        server: usage.server_auth,
                    });
                }
                _ => {}
            }
        }
        rules
    }
}

/// The first extension that is there twice, or cannot be read.
fn malformed(certificate: &X509Certificate<'_>) -> Option<String> {
    let all = certificate.extensions();
    if !all.is_empty() && certificate.version() != X509Version::V3 {
        return Some("it has extensions, but is not of version 3".to_owned());
    }
    let mut seen = HashSet::with_capacity(all.len());
    all.iter().find_map(|extension| {
        let oid = &extension.oid;
        if !seen.insert(oid.as_bytes()) {
            return Some(format!("it has the extension {} twice", named(oid)));
        }
        (CHECKED.contains(oid) && is_malformed(extension))
            .then(|| format!("its extension {} is malformed", named(oid)))
    })
}

/// The first critical extension that is not known.
fn not_understood(certificate: &X509Certificate<'_>) -> Option<String> {
    let is_known = |oid| CHECKED.contains(oid) || HARMLESS.contains(oid);
    let mut unknown =
        certificate.extensions().iter().filter(|one| one.critical && !is_known(&one.oid));
    let unknown = unknown.next()?;
    Some(format!("its critical extension {} is not understood", named(&unknown.oid)))
}

fn is_malformed(extension: &X509Extension<'_>) -> bool {
    if der::check(extension.value).is_err() {
        return true;
    }
    match extension.parsed_extension() {
        ParsedExtension::ParseError { .. } | ParsedExtension::UnsupportedExtension { .. } => true,
        ParsedExtension::ExtendedKeyUsage(_) => extension.value == [0x30, 0],
        _ => false,
    }
}
