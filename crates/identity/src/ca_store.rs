//! The bundle of authorities that a controller hands out: a PKCS#7 container without signatures, in
//! base64 (`/.well-known/est/cacerts`; docs/protocol/auth.md 2.5).

use base64::{Engine as _, engine::general_purpose::STANDARD};
use x509_parser::asn1_rs::{Any, FromDer as _};
use yasna::{Tag, models::ObjectIdentifier};

use crate::{
    certificate::Certificate,
    error::{Error, Result},
};

/// Largest container that is read, in bytes of base64.
pub const MAX_CA_STORE_BYTES: usize = 4 * 1024 * 1024;

const SIGNED_DATA: &[u64] = &[1, 2, 840, 113_549, 1, 7, 2];
const DATA: &[u64] = &[1, 2, 840, 113_549, 1, 7, 1];
const COLUMNS: usize = 64;

/// The bundle as the body of an answer: base64 in lines of 64 characters, without a line end after
/// the last.
#[must_use]
pub fn write_ca_store(certificates: &[Certificate]) -> String {
    let der = yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_oid(&ObjectIdentifier::from_slice(SIGNED_DATA));
            writer.next().write_tagged(Tag::context(0), |writer| {
                writer.write_sequence(|writer| {
                    writer.next().write_u8(1);
                    writer.next().write_set(|_| {});
                    writer.next().write_sequence(|writer| {
                        writer.next().write_oid(&ObjectIdentifier::from_slice(DATA));
                    });
                    writer.next().write_tagged_implicit(Tag::context(0), |writer| {
                        // The set is written unsorted, because readers keep the order.
                        writer.write_sequence(|writer| {
                            for certificate in certificates {
                                writer.next().write_der(certificate.der());
                            }
                        });
                    });
                    writer.next().write_set(|_| {});
                });
            });
        });
    });
    let text = STANDARD.encode(der);
    let mut out = String::with_capacity(text.len() + text.len() / COLUMNS);
    for (index, character) in text.chars().enumerate() {
        if index > 0 && index % COLUMNS == 0 {
            out.push('\n');
        }
        out.push(character);
    }
    out
}

/// Reads the certificates of a body as [`write_ca_store`] makes it, with line breaks anywhere.
/// Certificates that cannot be read are left out.
///
/// # Errors
/// When the body is too large, not such a container, or holds no certificate.
pub fn read_ca_store(body: &[u8]) -> Result<Vec<Certificate>> {
    let wrong = |reason: &str| Error::Document { what: "CA store", reason: reason.to_owned() };
    if body.len() > MAX_CA_STORE_BYTES {
        return Err(wrong("larger than 4 MiB"));
    }
    let text: Vec<u8> = body.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let der = STANDARD.decode(text).map_err(|_| wrong("not base64"))?;
    let certificates =
        certificates_of(&der).ok_or_else(|| wrong("not a PKCS#7 container of certificates"))?;
    let certificates: Vec<Certificate> =
        certificates.into_iter().filter_map(|der| Certificate::from_der(der).ok()).collect();
    if certificates.is_empty() { Err(Error::NoCertificate) } else { Ok(certificates) }
}

fn certificates_of(der: &[u8]) -> Option<Vec<Vec<u8>>> {
    // ContentInfo: type, [0] SignedData.
    let content = children(Any::from_der(der).ok()?.1.data)?;
    let signed = children(content.get(1)?.1.data)?;
    let (_, signed) = signed.into_iter().next()?;
    // SignedData: version, digests, content, [0] certificates, ...
    let (_, set) = children(signed.data)?
        .into_iter()
        .find(|(_, any)| any.header.is_contextspecific() && any.tag().0 == 0)?;
    Some(children(set.data)?.into_iter().map(|(raw, _)| raw.to_vec()).collect())
}

/// The elements inside a constructed element, each with its raw bytes.
fn children(mut bytes: &[u8]) -> Option<Vec<(&[u8], Any<'_>)>> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let (rest, any) = Any::from_der(bytes).ok()?;
        let raw = bytes.get(..bytes.len() - rest.len())?;
        out.push((raw, any));
        bytes = rest;
    }
    Some(out)
}
