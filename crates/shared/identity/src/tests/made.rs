//! Certificates of every form, also of those that weft does not issue.

use std::time::{Duration, SystemTime};

use yasna::models::{ObjectIdentifier, UTCTime};
use yasna::{Tag, TagClass};

use crate::public::Signature;
use crate::{Certificate, KeyAlgorithm, PrivateKey, SubjectName, extension};

/// An extension: OID, whether it is critical, and its value in DER.
pub(crate) type Ext = (&'static [u64], bool, Vec<u8>);

/// A certificate to be made.
#[derive(Clone)]
pub(crate) struct Form {
    pub(crate) version: u8,
    /// Subject in DER.
    pub(crate) subject: Vec<u8>,
    pub(crate) extensions: Vec<Ext>,
    /// Days before and after now in which it is valid.
    pub(crate) valid: (i64, i64),
    /// The algorithm that its contents name, if it is another than the signature's.
    pub(crate) inner: Option<Signature>,
}

/// A certificate with its key.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) certificate: Certificate,
    pub(crate) key: PrivateKey,
}

impl Form {
    pub(crate) fn named(name: &str) -> Self {
        Self::of(SubjectName::common_name(name).to_der().unwrap())
    }

    pub(crate) fn of(subject: Vec<u8>) -> Self {
        Self { version: 3, subject, extensions: Vec::new(), valid: (-1, 1), inner: None }
    }

    pub(crate) fn authority(name: &str) -> Self {
        Self::named(name).with(ca(true, None))
    }

    pub(crate) fn with(mut self, extension: Ext) -> Self {
        self.extensions.push(extension);
        self
    }

    /// Without extensions, in version 1 of X.509.
    pub(crate) fn version_1(name: &str) -> Self {
        Self { version: 1, ..Self::named(name) }
    }

    pub(crate) fn valid(self, from: i64, to: i64) -> Self {
        Self { valid: (from, to), ..self }
    }

    pub(crate) fn by_itself(&self) -> Made {
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let certificate = self.signed(&key, &self.subject, &key);
        Made { certificate, key }
    }

    pub(crate) fn by(&self, issuer: &Made) -> Made {
        self.for_key(&PrivateKey::generate(KeyAlgorithm::EcP256).unwrap(), issuer)
    }

    /// With the key of another certificate.
    pub(crate) fn for_key(&self, key: &PrivateKey, issuer: &Made) -> Made {
        let certificate = self.signed(key, issuer.certificate.subject_der(), &issuer.key);
        Made { certificate, key: key.clone() }
    }

    /// As [`Form::by_itself`], if it can be read.
    pub(crate) fn read(&self) -> crate::Result<Certificate> {
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        Certificate::from_der(self.written(&key, &self.subject, &key))
    }

    fn signed(&self, key: &PrivateKey, issuer: &[u8], signer: &PrivateKey) -> Certificate {
        Certificate::from_der(self.written(key, issuer, signer)).unwrap()
    }

    fn written(&self, key: &PrivateKey, issuer: &[u8], signer: &PrivateKey) -> Vec<u8> {
        let day = |days: i64| {
            let length = Duration::from_secs(days.unsigned_abs() * 86_400);
            let now = SystemTime::now();
            let time = if days < 0 { now - length } else { now + length };
            let whole = time::OffsetDateTime::from(time).replace_nanosecond(0).unwrap();
            UTCTime::from_datetime(whole)
        };
        let how = self.inner.unwrap_or(Signature::EcdsaSha256);
        let contents = yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                if self.version != 1 {
                    let version = self.version - 1;
                    writer.next().write_tagged(Tag::context(0), |writer| writer.write_u8(version));
                }
                writer.next().write_u8(7);
                extension::write_algorithm(writer.next(), how);
                writer.next().write_der(issuer);
                writer.next().write_sequence(|writer| {
                    writer.next().write_utctime(&day(self.valid.0));
                    writer.next().write_utctime(&day(self.valid.1));
                });
                writer.next().write_der(&self.subject);
                writer.next().write_der(key.public().spki());
                if self.extensions.is_empty() {
                    return;
                }
                writer.next().write_tagged(Tag::context(3), |writer| {
                    writer.write_sequence(|writer| {
                        for (oid, critical, value) in &self.extensions {
                            writer.next().write_sequence(|writer| {
                                writer.next().write_oid(&ObjectIdentifier::from_slice(oid));
                                if *critical {
                                    writer.next().write_bool(true);
                                }
                                writer.next().write_bytes(value);
                            });
                        }
                    });
                });
            });
        });
        extension::signed(&contents, signer).unwrap()
    }
}

/// Basic constraints.
pub(crate) fn ca(is_ca: bool, path_len: Option<u8>) -> Ext {
    let value = yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            if is_ca {
                writer.next().write_bool(true);
            }
            if let Some(path_len) = path_len {
                writer.next().write_u8(path_len);
            }
        });
    });
    (&[2, 5, 29, 19], true, value)
}

/// Key usage with these bits of [`extension::usage`].
pub(crate) fn key_usage(bits: u16) -> Ext {
    let value = yasna::construct_der(|writer| writer.write_bitvec_bytes(&bits.to_be_bytes(), 9));
    (&[2, 5, 29, 15], true, value)
}

/// An extension that is a sequence of OIDs.
pub(crate) fn oids(number: &'static [u64], critical: bool, all: &[&[u64]]) -> Ext {
    let value = yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            for oid in all {
                writer.next().write_oid(&ObjectIdentifier::from_slice(oid));
            }
        });
    });
    (number, critical, value)
}

/// Extended key usage.
pub(crate) fn purposes(all: &[&[u64]]) -> Ext {
    oids(&[2, 5, 29, 37], false, all)
}

/// Certificate policies.
pub(crate) fn policies(critical: bool, all: &[&[u64]]) -> Ext {
    let value = yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            for oid in all {
                writer.next().write_sequence(|writer| {
                    writer.next().write_oid(&ObjectIdentifier::from_slice(oid));
                });
            }
        });
    });
    (&[2, 5, 29, 32], critical, value)
}

/// Policy mappings.
pub(crate) fn policy_mapping(issuers: &[u64], subjects: &[u64]) -> Ext {
    let value = yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_sequence(|writer| {
                writer.next().write_oid(&ObjectIdentifier::from_slice(issuers));
                writer.next().write_oid(&ObjectIdentifier::from_slice(subjects));
            });
        });
    });
    (&[2, 5, 29, 33], true, value)
}

/// Policy constraints: certificates until a policy has to be shared, and until policies are mapped no more.
pub(crate) fn policy_constraints(explicit: Option<u8>, mapping: Option<u8>) -> Ext {
    let value = yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            for (number, skip) in [(0, explicit), (1, mapping)] {
                let Some(skip) = skip else { continue };
                writer.next().write_tagged_implicit(Tag::context(number), |writer| {
                    writer.write_u8(skip);
                });
            }
        });
    });
    (&[2, 5, 29, 36], true, value)
}

/// Inhibit any policy.
pub(crate) fn inhibit_any_policy(skip: u8) -> Ext {
    (&[2, 5, 29, 54], true, yasna::construct_der(|writer| writer.write_u8(skip)))
}

/// A general name: the number of its kind, whether it is constructed, and its contents.
pub(crate) fn general(number: u64, contents: &[u8]) -> Vec<u8> {
    // Names of these kinds hold elements, so that they are constructed.
    if matches!(number, 0 | 3 | 4 | 5) {
        return yasna::construct_der(|writer| {
            writer.write_tagged(Tag::context(number), |writer| writer.write_der(contents));
        });
    }
    yasna::construct_der(|writer| {
        writer.write_tagged_implicit(Tag::context(number), |writer| writer.write_bytes(contents));
    })
}

/// Subject alternative names.
pub(crate) fn names(all: &[Vec<u8>]) -> Ext {
    let value = yasna::construct_der(|writer| {
        writer.write_sequence(|writer| all.iter().for_each(|name| writer.next().write_der(name)));
    });
    (&[2, 5, 29, 17], false, value)
}

/// Name constraints.
pub(crate) fn name_constraints(permitted: &[Vec<u8>], excluded: &[Vec<u8>]) -> Ext {
    let value = yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            for (number, all) in [(0, permitted), (1, excluded)] {
                if all.is_empty() {
                    continue;
                }
                writer.next().write_tagged_implicit(Tag::context(number), |writer| {
                    writer.write_sequence(|writer| {
                        for name in all {
                            writer.next().write_sequence(|writer| writer.next().write_der(name));
                        }
                    });
                });
            }
        });
    });
    (&[2, 5, 29, 30], true, value)
}

/// A value with a string type of ASN.1, by its number.
pub(crate) fn string(writer: yasna::DERWriter<'_>, number: u64, bytes: &[u8]) {
    let tag = Tag { tag_class: TagClass::Universal, tag_number: number };
    writer.write_tagged_implicit(tag, |writer| writer.write_bytes(bytes));
}

/// A distinguished name of fields, each with its kind below 2.5.4, the number of a string type, and bytes.
pub(crate) fn distinguished(fields: &[(u64, u64, &[u8])]) -> Vec<u8> {
    yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            for (kind, number, bytes) in fields {
                writer.next().write_set(|writer| {
                    writer.next().write_sequence(|writer| {
                        let kind = ObjectIdentifier::from_slice(&[2, 5, 4, *kind]);
                        writer.next().write_oid(&kind);
                        string(writer.next(), *number, bytes);
                    });
                });
            }
        });
    })
}
