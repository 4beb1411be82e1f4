//! The signatures of certificates.
//!
//! The cryptographic library verifies them, by the algorithms that it knows: a certificate needs not be
//! one that the library itself would take as a leaf.

use rustls_pki_types::SignatureVerificationAlgorithm;
use x509_parser::asn1_rs::{FromDer as _, Oid};
use x509_parser::objects::{oid_registry, oid2sn};

use crate::der::Element;

/// Why a certificate's signature is not that of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotSigned {
    /// Another key made the signature, or the certificate was changed.
    Wrong,
    /// The algorithm, which is named, is not accepted.
    Algorithm(String),
}

/// A certificate, taken apart.
struct Signed<'a> {
    contents: &'a [u8],
    /// Contents of the algorithm identifier.
    algorithm: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Signed<'a> {
    fn of(certificate: &'a [u8]) -> Option<Self> {
        let parts = Element::only(certificate)?.children()?;
        let [contents, algorithm, signature] = parts.as_slice() else { return None };
        let (algorithm, signature) = (algorithm.sequence()?, signature.bits()?);
        // The contents name the algorithm too: version, serial number, algorithm. Version 1 is left out.
        let inside = contents.children()?;
        let is_version = |first: &Element<'_>| first.any.header.is_contextspecific();
        let place = if is_version(inside.first()?) { 2 } else { 1 };
        let is_same = inside.get(place)?.sequence()? == algorithm;
        is_same.then_some(Self { contents: contents.raw, algorithm, signature })
    }
}

/// Checks that the key in a SubjectPublicKeyInfo signed a certificate; both are DER.
pub(crate) fn check(certificate: &[u8], spki: &[u8]) -> Result<(), NotSigned> {
    let signed = Signed::of(certificate).ok_or(NotSigned::Wrong)?;
    let key = Element::only(spki).and_then(|key| key.children()).ok_or(NotSigned::Wrong)?;
    let [kind, key] = key.as_slice() else { return Err(NotSigned::Wrong) };
    let (Some(kind), Some(key)) = (kind.sequence(), key.bits()) else {
        return Err(NotSigned::Wrong);
    };
    let mut known = false;
    let fits = |one: &&dyn SignatureVerificationAlgorithm| {
        let id = one.signature_alg_id();
        let is_named = plain(id.as_ref()) == plain(signed.algorithm);
        known |= is_named;
        is_named && one.public_key_alg_id().as_ref() == kind
    };
    let all = webpki::ALL_VERIFICATION_ALGS;
    let mut fitting = all.iter().copied().filter(fits);
    if fitting.any(|one| one.verify_signature(key, signed.contents, signed.signature).is_ok()) {
        return Ok(());
    }
    match known {
        true => Err(NotSigned::Wrong),
        false => Err(NotSigned::Algorithm(algorithm_name(signed.algorithm))),
    }
}

/// An algorithm identifier without parameters that say nothing: programs differ in writing NULL.
fn plain(identifier: &[u8]) -> &[u8] {
    identifier.strip_suffix(&[5, 0]).unwrap_or(identifier)
}

/// The OID of an algorithm identifier, with its name if it has one.
fn algorithm_name(contents: &[u8]) -> String {
    match Oid::from_der(contents) {
        Ok((_, oid)) => named(&oid),
        Err(_) => "without a name".to_owned(),
    }
}

/// An OID, with the name that it has in the registry.
pub(crate) fn named(oid: &Oid<'_>) -> String {
    let number = oid.to_id_string();
    match oid2sn(oid, oid_registry()) {
        Ok(name) => format!("{number} ({name})"),
        Err(_) => number,
    }
}
