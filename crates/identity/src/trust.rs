//! Trust bundles, and the verification that a leaf chains to a certificate of a bundle.
//!
//! Every authority of a bundle is a trust anchor, intermediates included, so that a partial chain
//! suffices (docs/protocol/config.md 2.3, docs/protocol/channel.md 3.2). A leaf that is
//! itself in the bundle is trusted, whatever its usage. A certificate of the bundle that is no
//! authority issues nothing: enrollment trusts exactly one server leaf that way.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{
    EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeIdIter, KeyUsage,
    RequiredEkuNotFoundContext, VerifiedPath,
};

use crate::{
    certificate::{self, Certificate},
    error::{Error, Result, Validity},
};

/// Most certificates that a peer may send besides its leaf.
pub const MAX_PEER_CHAIN: usize = 32;

/// The usage that a leaf's extended key usage must allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Usage {
    /// Any usage: the extended key usage is ignored.
    #[default]
    Any,
    /// Client authentication, if the extension is present.
    Client,
    /// Server authentication, if the extension is present.
    Server,
}

/// Options of a verification.
#[derive(Debug, Clone, Copy, Default)]
pub struct Verify<'a> {
    /// The usage that the leaf must allow.
    pub usage: Usage,
    /// True if the dates of the leaf are ignored. The dates of the certificates above are always checked.
    pub ignore_leaf_validity: bool,
    /// Further certificates that a chain may lead through.
    pub intermediates: &'a [Certificate],
}

/// A set of trusted certificates. Clones are cheap.
#[derive(Debug, Clone, Default)]
pub struct TrustBundle {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    certificates: Vec<Certificate>,
    /// Trust anchors with the index of the certificate that each was made of.
    anchors: Vec<TrustAnchor<'static>>,
    anchor_of: Vec<usize>,
}

impl TrustBundle {
    /// A bundle of these certificates without repetitions.
    #[must_use]
    pub fn new(certificates: impl IntoIterator<Item = Certificate>) -> Self {
        let mut inner = Inner::default();
        for certificate in certificates {
            if inner.certificates.contains(&certificate) {
                continue;
            }
            if let Some(anchor) = anchor(&certificate) {
                inner.anchors.push(anchor);
                inner.anchor_of.push(inner.certificates.len());
            }
            inner.certificates.push(certificate);
        }
        Self { inner: Arc::new(inner) }
    }

    /// A bundle of all certificates of a PEM text.
    ///
    /// # Errors
    /// When the text holds none.
    pub fn from_pem(text: &[u8]) -> Result<Self> {
        Certificate::from_pem(text).map(Self::new)
    }

    /// The certificates, in order.
    #[must_use]
    pub fn certificates(&self) -> &[Certificate] {
        &self.inner.certificates
    }

    /// True if the bundle is empty: nothing is trusted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.certificates.is_empty()
    }

    /// The authorities that did not sign themselves.
    pub fn intermediates(&self) -> impl Iterator<Item = &Certificate> {
        self.inner.certificates.iter().filter(|cert| cert.is_ca() && !cert.is_root())
    }

    /// The authorities that signed themselves.
    pub fn roots(&self) -> impl Iterator<Item = &Certificate> {
        self.inner.certificates.iter().filter(|cert| cert.is_root())
    }

    /// The bundle as PEM text.
    #[must_use]
    pub fn to_pem(&self) -> String {
        certificate::to_pem(&self.inner.certificates)
    }

    /// A leaf followed by the bundle's intermediates above it, without the root: the form in which
    /// issued certificates are handed out (docs/protocol/auth.md 2.4).
    #[must_use]
    pub fn chain_of(&self, leaf: &Certificate) -> Vec<Certificate> {
        let candidates: Vec<Certificate> = self.intermediates().cloned().collect();
        certificate::chain_up(leaf, &candidates)
    }

    /// Verifies that `chain[0]` leads to a certificate of the bundle, possibly through the rest of
    /// `chain`, and returns the path from the leaf to that certificate.
    ///
    /// Only the leaf is the peer; the rest are fillers that prove nothing by themselves
    /// (docs/protocol/channel.md 10).
    ///
    /// # Errors
    /// The reason of the refusal.
    pub fn verify(
        &self,
        chain: &[CertificateDer<'_>],
        how: Verify<'_>,
        now: SystemTime,
    ) -> Result<Vec<Certificate>> {
        let (leaf_der, fillers) =
            chain.split_first().ok_or_else(|| Error::Refused("none was presented".into()))?;
        if fillers.len() > MAX_PEER_CHAIN {
            return Err(Error::Refused(format!(
                "{} certificates in the chain, {MAX_PEER_CHAIN} are read",
                fillers.len()
            )));
        }
        let leaf = Certificate::from_der(leaf_der.clone().into_owned())?;
        if self.inner.certificates.contains(&leaf) {
            return self.verify_pinned(leaf, how, now);
        }
        let intermediates: Vec<CertificateDer<'_>> = fillers
            .iter()
            .cloned()
            .chain(how.intermediates.iter().map(|cert| cert.der().clone()))
            .collect();
        self.verify_path(leaf, &intermediates, how, now)
    }

    /// [`TrustBundle::verify`] for a parsed certificate without fillers.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub fn verify_leaf(
        &self,
        leaf: &Certificate,
        how: Verify<'_>,
        now: SystemTime,
    ) -> Result<Vec<Certificate>> {
        self.verify(std::slice::from_ref(leaf.der()), how, now)
    }

    /// Verifies a certificate of version 1 of X.509, which [`TrustBundle::verify`] refuses: an
    /// authority of the bundle has signed it, and both are valid at `now`. Such a certificate names
    /// no usage, so that it proves only one thing: its holder had it signed.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub fn verify_version_1(&self, leaf: &Certificate, now: SystemTime) -> Result<()> {
        let refused = |reason| Error::Refused(format!("`{}` {reason}", leaf.subject()));
        if !leaf.is_version_1() {
            return Err(refused("is not of the first version of X.509"));
        }
        if !leaf.is_valid_at(now) {
            return Err(not_valid(leaf, false, now));
        }
        let authorities = self.inner.certificates.iter();
        let mut valid = authorities.filter(|cert| cert.is_ca() && cert.is_valid_at(now));
        match valid.any(|authority| leaf.is_issued_by(authority)) {
            true => Ok(()),
            false => Err(refused("was not issued by an authority that is believed")),
        }
    }

    fn verify_pinned(
        &self,
        leaf: Certificate,
        how: Verify<'_>,
        now: SystemTime,
    ) -> Result<Vec<Certificate>> {
        if !how.ignore_leaf_validity && !leaf.is_valid_at(now) {
            return Err(not_valid(&leaf, false, now));
        }
        Ok(vec![leaf])
    }

    fn verify_path(
        &self,
        leaf: Certificate,
        intermediates: &[CertificateDer<'_>],
        how: Verify<'_>,
        now: SystemTime,
    ) -> Result<Vec<Certificate>> {
        let refused = |error: webpki::Error| self.refused(&error, &leaf, intermediates, how, now);
        let end = EndEntityCert::try_from(leaf.der()).map_err(refused)?;
        let at = if how.ignore_leaf_validity {
            now.clamp(leaf.not_before(), leaf.not_after().max(leaf.not_before()))
        } else {
            now
        };
        let dates_above = |path: &VerifiedPath<'_>| self.dates_above(path, now);
        let path = end
            .verify_for_usage(
                webpki::ALL_VERIFICATION_ALGS,
                &self.inner.anchors,
                intermediates,
                unix(at),
                how.usage,
                None,
                Some(&dates_above),
            )
            .map_err(refused)?;
        let mut out = vec![leaf.clone()];
        for cert in path.intermediate_certificates() {
            out.push(Certificate::from_der(cert.der().into_owned())?);
        }
        out.extend(self.certificate_of(path.anchor()).cloned());
        Ok(out)
    }

    /// The library's error in words. A date that is at fault is shown with its certificate.
    fn refused(
        &self,
        error: &webpki::Error,
        leaf: &Certificate,
        intermediates: &[CertificateDer<'_>],
        how: Verify<'_>,
        now: SystemTime,
    ) -> Error {
        use webpki::Error as E;
        let subject = leaf.subject();
        let reason = match error {
            E::CertExpired { .. } | E::CertNotValidYet { .. } => {
                if !how.ignore_leaf_validity && !leaf.is_valid_at(now) {
                    return not_valid(leaf, false, now);
                }
                let above = intermediates
                    .iter()
                    .filter_map(|der| Certificate::from_der(der.clone().into_owned()).ok());
                let above = above.chain(self.inner.certificates.iter().cloned());
                let above = above.filter(Certificate::is_ca);
                match above.into_iter().find(|authority| !authority.is_valid_at(now)) {
                    Some(authority) => return not_valid(&authority, true, now),
                    None => error.to_string(),
                }
            }
            E::UnknownIssuer => "no authority that is trusted here has issued it".to_owned(),
            E::InvalidSignatureForPublicKey => {
                "the trusted authority of its issuer's name has not issued it".to_owned()
            }
            E::RequiredEkuNotFoundContext(_) => match how.usage {
                Usage::Client => "it is not for clients".to_owned(),
                _ => "it is not for servers".to_owned(),
            },
            other => other.to_string(),
        };
        Error::Refused(format!("`{subject}`: {reason}"))
    }

    /// Checks the dates of every certificate above the leaf. The library ignores the dates of
    /// anchors, and checks the others at the time chosen for the leaf.
    fn dates_above(&self, path: &VerifiedPath<'_>, now: SystemTime) -> Result<(), webpki::Error> {
        let time = unix(now);
        let expired = |cert: &Certificate| webpki::Error::CertExpired {
            time,
            not_after: unix(cert.not_after()),
        };
        for cert in path.intermediate_certificates() {
            let cert = Certificate::from_der(cert.der().into_owned())
                .map_err(|_| webpki::Error::BadDer)?;
            if !cert.is_valid_at(now) {
                return Err(expired(&cert));
            }
        }
        match self.certificate_of(path.anchor()) {
            Some(anchor) if !anchor.is_valid_at(now) => Err(expired(anchor)),
            _ => Ok(()),
        }
    }

    fn certificate_of(&self, anchor: &TrustAnchor<'_>) -> Option<&Certificate> {
        let position = self.inner.anchors.iter().position(|one| {
            one.subject == anchor.subject
                && one.subject_public_key_info == anchor.subject_public_key_info
        })?;
        self.inner.certificates.get(*self.inner.anchor_of.get(position)?)
    }
}

impl ExtendedKeyUsageValidator for Usage {
    fn validate(&self, iter: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        match self {
            Self::Any => Ok(()),
            Self::Client => any_or(iter, &KeyUsage::client_auth()),
            Self::Server => any_or(iter, &KeyUsage::server_auth()),
        }
    }
}

/// Accepts the wanted usage, any usage, or no extension.
fn any_or(iter: KeyPurposeIdIter<'_, '_>, wanted: &KeyUsage) -> Result<(), webpki::Error> {
    const ANY: [usize; 5] = [2, 5, 29, 37, 0];
    let id: Vec<usize> = wanted.oid_values().collect();
    let mut present = Vec::new();
    for one in iter {
        let one = one?.to_decoded_oid();
        if one == ANY || one == id {
            return Ok(());
        }
        present.push(one);
    }
    if present.is_empty() {
        return Ok(());
    }
    Err(webpki::Error::RequiredEkuNotFoundContext(RequiredEkuNotFoundContext {
        required: *wanted,
        present,
    }))
}

/// The certificate is not valid at `now`.
fn not_valid(certificate: &Certificate, of_authority: bool, now: SystemTime) -> Error {
    Error::Validity(Box::new(Validity {
        host: None,
        subject: certificate.subject().to_owned(),
        of_authority,
        from: certificate.not_before(),
        until: certificate.not_after(),
        now,
    }))
}

fn anchor(certificate: &Certificate) -> Option<TrustAnchor<'static>> {
    // Roots of version 1 of X.509 have no extension that could mark them as authorities.
    if !certificate.is_ca() && !certificate.is_version_1() {
        return None;
    }
    webpki::anchor_from_trusted_cert(certificate.der()).ok().map(|anchor| anchor.to_owned())
}

fn unix(time: SystemTime) -> UnixTime {
    UnixTime::since_unix_epoch(
        time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO),
    )
}
