//! DER encoding of certificate extensions and signed structures.

use std::net::IpAddr;

use yasna::models::ObjectIdentifier;
use yasna::{DERWriter, DERWriterSeq, Tag};

use crate::certificate::San;
use crate::error::{Error, Result};
use crate::key::PrivateKey;
use crate::public::Signature;

/// Bits of the key usage extension; the first bit of the bit string is the highest.
pub(crate) mod usage {
    pub(crate) const DIGITAL_SIGNATURE: u16 = 0x8000;
    pub(crate) const KEY_ENCIPHERMENT: u16 = 0x2000;
    pub(crate) const DATA_ENCIPHERMENT: u16 = 0x1000;
    pub(crate) const KEY_CERT_SIGN: u16 = 0x0400;
    pub(crate) const CRL_SIGN: u16 = 0x0200;
}

pub(crate) const SERVER_AUTH: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 3, 1];
pub(crate) const CLIENT_AUTH: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 3, 2];

/// One extension.
pub(crate) fn write(
    writer: DERWriter<'_>,
    number: u64,
    critical: bool,
    value: impl FnOnce(DERWriter<'_>),
) {
    writer.write_sequence(|writer| {
        writer.next().write_oid(&ObjectIdentifier::from_slice(&[2, 5, 29, number]));
        if critical {
            writer.next().write_bool(true);
        }
        writer.next().write_bytes(&yasna::construct_der(value));
    });
}

/// Key usage from the bits of [`usage`].
pub(crate) fn key_usage(writer: DERWriter<'_>, bits: u16) {
    let used = 16 - bits.trailing_zeros() as usize;
    write(writer, 15, true, |writer| {
        writer.write_bitvec_bytes(&bits.to_be_bytes()[..used.div_ceil(8)], used);
    });
}

/// Extended key usage.
pub(crate) fn extended_key_usage(writer: DERWriter<'_>, purposes: &[&[u64]]) {
    write(writer, 37, false, |writer| {
        writer.write_sequence(|writer| {
            for purpose in purposes {
                writer.next().write_oid(&ObjectIdentifier::from_slice(purpose));
            }
        });
    });
}

/// Basic constraints of an authority.
pub(crate) fn authority_constraints(writer: DERWriter<'_>, path_len: Option<u8>) {
    write(writer, 19, true, |writer| {
        writer.write_sequence(|writer| {
            writer.next().write_bool(true);
            if let Some(path_len) = path_len {
                writer.next().write_u8(path_len);
            }
        });
    });
}

/// Subject key identifier.
pub(crate) fn subject_key_id(writer: DERWriter<'_>, id: &[u8]) {
    write(writer, 14, false, |writer| writer.write_bytes(id));
}

/// Authority key identifier.
pub(crate) fn authority_key_id(writer: DERWriter<'_>, id: &[u8]) {
    write(writer, 35, false, |writer| {
        writer.write_sequence(|writer| {
            writer.next().write_tagged_implicit(Tag::context(0), |writer| writer.write_bytes(id));
        });
    });
}

/// Subject alternative names, if there are any. The extension is critical if the subject is empty.
pub(crate) fn subject_alt_names(sans: &[San], critical: bool) -> Result<Option<Vec<u8>>> {
    if sans.is_empty() {
        return Ok(None);
    }
    if let Some(name) = sans.iter().find(|name| !is_writable(name)) {
        return Err(Error::Issue(format!("`{name}` cannot stand in a certificate: not ASCII")));
    }
    Ok(Some(yasna::construct_der(|writer| {
        write(writer, 17, critical, |writer| {
            writer.write_sequence(|writer| sans.iter().for_each(|name| write_name(writer, name)));
        });
    })))
}

fn is_writable(name: &San) -> bool {
    match name {
        San::Dns(text) | San::Email(text) | San::Uri(text) => !text.is_empty() && text.is_ascii(),
        San::Ip(_) => true,
    }
}

fn write_name(writer: &mut DERWriterSeq<'_>, name: &San) {
    let number = match name {
        San::Email(_) => 1,
        San::Dns(_) => 2,
        San::Uri(_) => 6,
        San::Ip(_) => 7,
    };
    writer.next().write_tagged_implicit(Tag::context(number), |writer| match name {
        San::Email(text) | San::Dns(text) | San::Uri(text) => writer.write_ia5_string(text),
        San::Ip(IpAddr::V4(address)) => writer.write_bytes(&address.octets()),
        San::Ip(IpAddr::V6(address)) => writer.write_bytes(&address.octets()),
    });
}

/// The algorithm identifier of a signature.
pub(crate) fn write_algorithm(writer: DERWriter<'_>, signature: Signature) {
    writer.write_sequence(|writer| {
        if let Some(oid) = signature.oid() {
            writer.next().write_oid(&ObjectIdentifier::from_slice(oid));
        }
        if signature.has_null() {
            writer.next().write_null();
        }
    });
}

/// A signed structure: contents, algorithm, signature.
pub(crate) fn signed(contents: &[u8], key: &PrivateKey) -> Result<Vec<u8>> {
    let (how, signature) = key.sign_x509(contents)?;
    Ok(yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_der(contents);
            write_algorithm(writer.next(), how);
            writer.next().write_bitvec_bytes(&signature, signature.len() * 8);
        });
    }))
}
