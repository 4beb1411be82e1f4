//! Reading of distinguished names: the subjects and issuers of certificates and requests.
//!
//! A value may be of any string type of ASN.1. Which of several common names counts decides whom a
//! certificate names, so that it is decided here for everything that reads one: the last, as in the
//! original.

use x509_parser::asn1_rs::{Any, Tag};
use x509_parser::objects::{oid_registry, oid2abbrev};
use x509_parser::oid_registry::OID_X509_COMMON_NAME;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use crate::der::Element;

/// Most fields of one part of a name.
const MAX_FIELDS: usize = 16;

/// Whether the whole name was read. The parser stops at a part that it does not understand, and would leave out
/// what follows, the common name that counts included.
pub(crate) fn is_whole(name: &X509Name<'_>) -> bool {
    let whole = || {
        let parts = Element::only(name.as_raw())?.children()?;
        let mut read = name.iter_rdn();
        for part in parts {
            let (fields, read) = (part.children()?, read.next()?);
            let is_set = part.any.tag() == Tag::Set && !fields.is_empty();
            if !is_set || fields.len() > MAX_FIELDS || fields.len() != read.iter().count() {
                return None;
            }
            for field in fields {
                let [kind, _] = field.children()?.try_into().ok()?;
                let kind: Element<'_> = kind;
                if kind.any.tag() != Tag::Oid {
                    return None;
                }
            }
        }
        read.next().is_none().then_some(())
    };
    whole().is_some()
}

/// The common name that counts: the last one. `None` also if its value is no text.
pub(crate) fn common_name(name: &X509Name<'_>) -> Option<String> {
    let last = name.iter_by_oid(&OID_X509_COMMON_NAME).last()?;
    text(last.attr_value())
}

/// The name for messages, such as `C=DE, O=Example, CN=laptop`. A value that is no text is shown as its
/// bytes in hexadecimal digits after a `#`.
pub(crate) fn shown(name: &X509Name<'_>) -> String {
    let parts = name.iter_rdn().map(|part| {
        let fields: Vec<String> = part.iter().map(field).collect();
        fields.join(" + ")
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn field(field: &AttributeTypeAndValue<'_>) -> String {
    let kind = match oid2abbrev(field.attr_type(), oid_registry()) {
        Ok(short) => short.to_owned(),
        Err(_) => field.attr_type().to_id_string(),
    };
    let value = field.attr_value();
    match text(value) {
        Some(text) => format!("{kind}={text}"),
        None => format!("{kind}=#{}", hex::encode(value.data)),
    }
}

/// The text of a value of any string type; `None` if the value is of another type or malformed.
pub(crate) fn text(value: &Any<'_>) -> Option<String> {
    let bytes = value.data;
    match value.tag() {
        Tag::Utf8String
        | Tag::PrintableString
        | Tag::NumericString
        | Tag::Ia5String
        | Tag::VisibleString => String::from_utf8(bytes.to_vec()).ok(),
        // 8-bit strings whose character sets nobody implements: everybody writes Latin-1 into them.
        Tag::T61String | Tag::GeneralString | Tag::GraphicString | Tag::VideotexString => {
            Some(bytes.iter().copied().map(char::from).collect())
        }
        // UCS-2: a character has two bytes, and there are no surrogates.
        Tag::BmpString => of_units::<2>(bytes),
        Tag::UniversalString => of_units::<4>(bytes),
        _ => None,
    }
}

/// The text of big-endian code points of `N` bytes each. Zeros at the end, which some programs write
/// after a text, are no part of it.
fn of_units<const N: usize>(bytes: &[u8]) -> Option<String> {
    let (units, []) = bytes.as_chunks::<N>() else { return None };
    let point = |unit: &[u8; N]| unit.iter().fold(0, |point, byte| point << 8 | u32::from(*byte));
    let units = match units {
        [text @ .., last] if point(last) == 0 => text,
        all => all,
    };
    units.iter().map(|unit| char::from_u32(point(unit))).collect()
}

#[cfg(test)]
mod tests {
    use x509_parser::prelude::FromDer as _;
    use yasna::Tag as Written;
    use yasna::models::ObjectIdentifier;

    use super::*;

    const COMMON_NAME: &[u64] = &[2, 5, 4, 3];
    const ORGANIZATION: &[u64] = &[2, 5, 4, 10];

    /// A field: its kind, the number of a string type, and bytes.
    type Field<'a> = (&'a [u64], u64, &'a [u8]);
    /// Parts of a name, the common name that counts, and the text.
    type Row<'a> = (&'a [&'a [Field<'a>]], Option<&'a str>, &'a str);

    /// A name of these parts.
    fn name(parts: &[&[Field<'_>]]) -> Vec<u8> {
        yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                for part in parts {
                    // A set is written as it is given, because encoders do not sort either.
                    writer.next().write_tagged_implicit(
                        Written { tag_class: yasna::TagClass::Universal, tag_number: 17 },
                        |writer| {
                            writer.write_sequence(|writer| {
                                for (kind, number, bytes) in *part {
                                    writer.next().write_sequence(|writer| {
                                        let kind = ObjectIdentifier::from_slice(kind);
                                        writer.next().write_oid(&kind);
                                        let tag = Written {
                                            tag_class: yasna::TagClass::Universal,
                                            tag_number: *number,
                                        };
                                        writer.next().write_tagged_implicit(tag, |writer| {
                                            writer.write_bytes(bytes);
                                        });
                                    });
                                }
                            });
                        },
                    );
                }
            });
        })
    }

    fn read(der: &[u8]) -> (Option<String>, String) {
        let (rest, name) = X509Name::from_der(der).unwrap();
        assert!(rest.is_empty());
        (common_name(&name), shown(&name))
    }

    #[test]
    fn every_string_type_is_read() {
        let text = |text: &str| Some(text.to_owned());
        let table: [(u64, &[u8], Option<String>); 20] = [
            (12, "Zoë".as_bytes(), text("Zoë")),
            (12, b"\xff", None),
            (18, b"12345", text("12345")),
            (19, b"alice", text("alice")),
            // Characters that the type does not have are written into it all the same.
            (19, b"a_b@*", text("a_b@*")),
            (20, b"Zo\xeb", text("Zoë")),
            (21, b"Zo\xeb", text("Zoë")),
            (22, b"a@example.com", text("a@example.com")),
            (22, b"Zo\xeb", None),
            (25, b"Zo\xeb", text("Zoë")),
            (26, b"alice", text("alice")),
            (27, b"Zo\xeb", text("Zoë")),
            (28, b"\0\0\0Z\0\x01\xf6\0", text("Z\u{1f600}")),
            (28, b"\0\0Z", None),
            (30, b"\0Z\0o\0\xeb", text("Zoë")),
            (30, b"\0Z\0\0", text("Z")),
            (30, b"\0Z\0", None),
            // A surrogate.
            (30, b"\xd8\x3d\xde\0", None),
            // A bit string, and bytes.
            (3, b"\0Z", None),
            (4, b"Z", None),
        ];
        for (number, bytes, wanted) in table {
            let (found, _) = read(&name(&[&[(COMMON_NAME, number, bytes)]]));
            assert_eq!(found, wanted, "{number} {bytes:?}");
        }
    }

    #[test]
    fn the_last_common_name_counts() {
        let users: &[Field<'_>] = &[(COMMON_NAME, 12, b"Users")];
        let alice: &[Field<'_>] = &[(COMMON_NAME, 30, b"\0a\0l")];
        let org: &[Field<'_>] = &[(ORGANIZATION, 20, b"Zo\xeb")];
        let both: &[Field<'_>] = &[(COMMON_NAME, 12, b"one"), (COMMON_NAME, 12, b"two")];
        let none: &[Field<'_>] = &[(COMMON_NAME, 4, b"\x01")];
        let table: [Row<'_>; 6] = [
            (&[users, alice], Some("al"), "CN=Users, CN=al"),
            (&[alice, org, users], Some("Users"), "CN=al, O=Zoë, CN=Users"),
            (&[users, both], Some("two"), "CN=Users, CN=one + CN=two"),
            (&[org], None, "O=Zoë"),
            // A last one that cannot be read never makes another one count.
            (&[users, none], None, "CN=Users, CN=#01"),
            (&[], None, ""),
        ];
        for (parts, common_name, text) in table {
            let (found, shown) = read(&name(parts));
            assert_eq!((found.as_deref(), shown.as_str()), (common_name, text));
        }
    }
}
