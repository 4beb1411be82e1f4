//! Authenticators: credentials of identities.

use std::sync::Arc;

use bytes::Bytes;

use super::{Base, Link, OnDelete, Record};
use crate::row::{Value, row};
use crate::{ColdField, Id, Kind, RowError, Sparse, Timestamp};

row! {
    /// A user name and the hash of a password.
    pub struct UpdbCredential {
        /// Unique user name.
        1 => pub username: Arc<str>,
        /// Hash of the password: standard base64 with [`UpdbCredential::salt`], or a PHC string
        /// with an empty salt.
        2 => pub password: String,
        /// The salt of a base64 hash.
        3 => pub salt: String,
        /// Time since which the password is locked, after too many wrong ones in a row; `None`: not
        /// locked.
        4 => pub locked_at: Option<Timestamp>,
        /// End of the lock; `None`: until an administrator enables the identity.
        5 => pub locked_until: Option<Timestamp>,
        /// The addresses from which the wrong passwords came that locked the password, the latest few.
        6 => pub locked_by: Vec<Arc<str>>,
    }
}

impl UpdbCredential {
    /// True if the password is locked at `now`, so that even the right one is refused.
    pub fn is_locked(&self, now: Timestamp) -> bool {
        self.locked_at.is_some() && self.locked_until.is_none_or(|until| until > now)
    }

    /// Unlocks the password.
    pub fn unlock(&mut self) {
        self.locked_at = None;
        self.locked_until = None;
        self.locked_by.clear();
    }
}

row! {
    /// A client certificate.
    pub struct CertCredential {
        /// Unique: SHA-1 of the certificate, hex.
        1 => pub fingerprint: Arc<str>,
        /// The certificate, and its chain if there is one. Cold: empty in a stored entity.
        2 => pub cert_pem: String,
        /// True if the network's own signer issued the certificate.
        3 => pub is_issued_by_network: bool,
        /// The third-party CA that issued the certificate.
        4 => pub ca_id: Option<Id>,
        /// True if an administrator asked for an extension.
        5 => pub is_extend_requested: bool,
        /// True if the extension needs a new key.
        6 => pub is_key_roll_requested: bool,
        /// Time at which the extension was asked for.
        7 => pub extend_requested_at: Option<Timestamp>,
        /// True if the last extension had a new key.
        8 => pub last_extend_rolled_keys: bool,
        /// True if the last login sent a complete chain.
        9 => pub last_auth_resolved_to_root: bool,
        /// Fingerprint of the public key.
        10 => pub public_key_print: String,
        /// A new certificate that the client has not confirmed yet.
        11 => pub unverified_cert_pem: Sparse<String>,
        /// Fingerprint of `unverified_cert_pem`.
        12 => pub unverified_fingerprint: Sparse<String>,
    }
}

row! {
    /// An authenticator: exactly one of its credentials is set (docs/protocol/auth.md 7.1).
    pub struct Authenticator {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Id of the identity.
        2 => pub identity_id: Id,
        /// A user name and password.
        3 => pub updb: Option<Box<UpdbCredential>>,
        /// A certificate.
        4 => pub cert: Option<CertCredential>,
    }
}

/// Few authenticators have a password, so that it stands apart from the others.
impl Value for Box<UpdbCredential> {
    fn put(&self, out: &mut Vec<u8>) {
        (**self).put(out);
    }

    fn take(input: &mut &[u8]) -> Result<Self, RowError> {
        UpdbCredential::take(input).map(Box::new)
    }
}

impl Authenticator {
    /// Name of the method: `updb` or `cert`.
    pub fn method(&self) -> &'static str {
        if self.cert.is_some() { "cert" } else { "updb" }
    }

    /// Index of the fingerprint in [`Record::UNIQUE`].
    pub const FINGERPRINT: usize = 0;
    /// Index of the user name in [`Record::UNIQUE`].
    pub const USERNAME: usize = 1;
}

impl Record for Authenticator {
    const UNIQUE: &'static [&'static str] = &["fingerprint", "username"];
    const LINKS: &'static [Link] = &[
        Link::new("identityId", Kind::Identity, OnDelete::Cascade),
        Link::new("caId", Kind::Ca, OnDelete::Cascade),
    ];

    fn unique(&self, each: &mut dyn FnMut(usize, &Arc<str>)) {
        if let Some(cert) = &self.cert {
            each(Self::FINGERPRINT, &cert.fingerprint);
        }
        if let Some(updb) = &self.updb {
            each(Self::USERNAME, &updb.username);
        }
    }

    fn take_cold(&mut self, take: &mut dyn FnMut(ColdField, Bytes)) {
        let pem = self.cert.as_mut().map(|cert| std::mem::take(&mut cert.cert_pem));
        if let Some(pem) = pem.filter(|pem| !pem.is_empty()) {
            take(ColdField::CertPem, pem.into());
        }
    }

    fn links(&self, each: &mut dyn FnMut(usize, &Id)) {
        each(0, &self.identity_id);
        if let Some(ca) = self.cert.as_ref().and_then(|cert| cert.ca_id.as_ref()) {
            each(1, ca);
        }
    }
}
