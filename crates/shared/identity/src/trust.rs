//! Trust bundles, and the verification that a leaf chains to a certificate of a bundle.
//!
//! Every authority of a bundle is a trust anchor, intermediates included, so that a partial chain
//! suffices (docs/protocol/config.md 2.3, docs/protocol/channel.md 3.2). A leaf that is
//! itself in the bundle is trusted, whatever its usage. A certificate of the bundle that is no
//! authority issues nothing: enrollment trusts exactly one server leaf that way.

use std::sync::Arc;
use std::time::SystemTime;

use rustls_pki_types::CertificateDer;

use crate::certificate::{self, Certificate};
use crate::error::{Error, Result};
use crate::path::Search;

/// Most certificates that a peer may send besides its leaf.
pub const MAX_PEER_CHAIN: usize = 32;

/// The usage that a leaf's extended key usage must allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RequiredKeyUsage {
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
    pub usage: RequiredKeyUsage,
    /// True if the dates of the leaf are ignored. The dates of the certificates above are always checked.
    pub ignore_leaf_validity: bool,
    /// Further certificates that a chain may lead through.
    pub intermediates: &'a [Certificate],
}

/// A set of trusted certificates. Clones are cheap.
#[derive(Debug, Clone, Default)]
pub struct TrustBundle {
    certificates: Arc<[Certificate]>,
}

impl TrustBundle {
    /// A bundle of these certificates without repetitions.
    #[must_use]
    pub fn new(certificates: impl IntoIterator<Item = Certificate>) -> Self {
        let mut kept: Vec<Certificate> = Vec::new();
        for certificate in certificates {
            if !kept.contains(&certificate) {
                kept.push(certificate);
            }
        }
        Self { certificates: kept.into() }
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
        &self.certificates
    }

    /// True if the bundle is empty: nothing is trusted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.certificates.is_empty()
    }

    /// The authorities that did not sign themselves.
    pub fn intermediates(&self) -> impl Iterator<Item = &Certificate> {
        self.certificates.iter().filter(|cert| cert.is_ca() && !cert.is_root())
    }

    /// The authorities that signed themselves.
    pub fn roots(&self) -> impl Iterator<Item = &Certificate> {
        self.certificates.iter().filter(|cert| cert.is_root())
    }

    /// The bundle as PEM text.
    #[must_use]
    pub fn to_pem(&self) -> String {
        certificate::to_pem(&*self.certificates)
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
        if self.certificates.contains(&leaf) {
            return self.verify_pinned(leaf, how, now);
        }
        // A filler that cannot be read does not belong to the chain, like one that leads nowhere.
        let read = |der: &CertificateDer<'_>| Certificate::from_der(der.clone().into_owned()).ok();
        let fillers = fillers.iter().filter_map(read);
        let others: Vec<Certificate> = fillers.chain(how.intermediates.iter().cloned()).collect();
        let search = Search {
            anchors: &self.certificates,
            others: &others,
            usage: how.usage,
            ignore_leaf_validity: how.ignore_leaf_validity,
            now,
        };
        search.path(&leaf)
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

    fn verify_pinned(
        &self,
        leaf: Certificate,
        how: Verify<'_>,
        now: SystemTime,
    ) -> Result<Vec<Certificate>> {
        if !how.ignore_leaf_validity {
            leaf.check_valid_at(now)?;
        }
        Ok(vec![leaf])
    }
}
