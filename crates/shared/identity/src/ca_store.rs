//! The bundle of authorities that a controller hands out: a PKCS#7 container without signatures, in
//! base64 (`/.well-known/est/cacerts`; docs/protocol/auth.md 2.5).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use yasna::Tag;
use yasna::models::ObjectIdentifier;

use crate::certificate::Certificate;
use crate::der::Element;
use crate::error::{Error, Result};

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
    let content = Element::only(der)?.children()?;
    let signed = content.get(1)?.children()?;
    // SignedData: version, digests, content, [0] certificates, ...
    let parts = signed.first()?.children()?;
    let is_set =
        |part: &&Element<'_>| part.any.header.is_contextspecific() && part.any.tag().0 == 0;
    let set = parts.iter().find(is_set)?.children()?;
    Some(set.iter().map(|certificate| certificate.raw.to_vec()).collect())
}
