//! Subjects of certificates and requests.

use yasna::DERWriterSeq;
use yasna::models::ObjectIdentifier;

use crate::error::{Error, Result};

/// Longest value of a subject field, in bytes.
const MAX_FIELD: usize = 256;

/// A subject, field by field. Empty fields are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubjectName {
    /// Country, two letters.
    pub country: String,
    /// State or province.
    pub province: String,
    /// Locality.
    pub locality: String,
    /// Organization.
    pub organization: String,
    /// Organizational unit.
    pub organizational_unit: String,
    /// Common name.
    pub common_name: String,
}

impl SubjectName {
    /// A subject that is only a common name.
    #[must_use]
    pub fn common_name(name: impl Into<String>) -> Self {
        Self { common_name: name.into(), ..Self::default() }
    }

    /// The subject in DER.
    ///
    /// # Errors
    /// When a field is too long.
    pub fn to_der(&self) -> Result<Vec<u8>> {
        let fields: [(&'static str, u64, &str); 6] = [
            ("country", 6, &self.country),
            ("organization", 10, &self.organization),
            ("organizational unit", 11, &self.organizational_unit),
            ("locality", 7, &self.locality),
            ("province", 8, &self.province),
            ("common name", 3, &self.common_name),
        ];
        if let Some((field, _, _)) = fields.iter().find(|(_, _, text)| text.len() > MAX_FIELD) {
            return Err(Error::Issue(format!("{field} is longer than {MAX_FIELD} bytes")));
        }
        Ok(yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                for (_, number, text) in fields {
                    if !text.is_empty() {
                        write_field(writer, number, text);
                    }
                }
            });
        }))
    }
}

fn write_field(writer: &mut DERWriterSeq<'_>, number: u64, text: &str) {
    // Country must be a PrintableString (RFC 5280 appendix A.1); the others may be UTF-8.
    let printable = number == 6 && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    writer.next().write_set(|writer| {
        writer.next().write_sequence(|writer| {
            writer.next().write_oid(&ObjectIdentifier::from_slice(&[2, 5, 4, number]));
            if printable {
                writer.next().write_printable_string(text);
            } else {
                writer.next().write_utf8_string(text);
            }
        });
    });
}
