//! Checks that the peer that answered is the dialed router.
//!
//! TLS has proved a chain to the CA bundle, the name in the address, and the key of the leaf. Every
//! router of the network can prove as much for its own addresses. At the enrollment a router gets
//! two certificates for one key: the enrolled one is for clients, and its listener shows the one
//! for servers. Therefore the leaf must be the enrolled certificate, or have its key.

use rustls_pki_types::CertificateDer;
use weft_identity::Certificate;
use weft_model::entity::Router;

/// The certificate of a router that a chain proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Proved {
    /// The current one.
    Current(String),
    /// The issued one that the router had not shown before.
    Waiting(Certificate),
}

impl Proved {
    /// The fingerprint of the certificate.
    pub(super) fn fingerprint(&self) -> &str {
        match self {
            Self::Current(fingerprint) => fingerprint,
            Self::Waiting(certificate) => certificate.fingerprint(),
        }
    }
}

/// The proof that a chain is the router's; the error is the reason why the chain proves nothing.
pub(super) fn prove(router: &Router, chain: &[CertificateDer<'static>]) -> Result<Proved, String> {
    let shown = chain.first().cloned().ok_or("no certificate was shown")?;
    let shown = Certificate::from_der(shown).map_err(|error| error.to_string())?;
    let current = router.fingerprint.as_deref().ok_or("the router is not enrolled")?;
    if is_of(&shown, current, &leaf(&router.cert_pem)) {
        return Ok(Proved::Current(current.to_owned()));
    }
    let waiting = leaf(&router.unverified_cert_pem);
    if let (Some(new), Some(waiting)) = (router.unverified_fingerprint.as_deref(), waiting)
        && is_of(&shown, new, &Some(waiting.clone()))
    {
        return Ok(Proved::Waiting(waiting));
    }
    Err("the certificate that is shown there is neither the router's nor one of the same key (a \
         router that controllers dial has no key of its own for servers, `identity.server_key`)"
        .to_owned())
}

fn leaf(pem: &str) -> Option<Certificate> {
    Certificate::from_pem(pem.as_bytes()).ok()?.into_iter().next()
}

/// Whether a leaf is the enrolled certificate, or has its key.
fn is_of(shown: &Certificate, fingerprint: &str, enrolled: &Option<Certificate>) -> bool {
    // The stored certificate has to match the fingerprint.
    let enrolled = enrolled.as_ref().filter(|one| one.fingerprint() == fingerprint);
    let key = enrolled.and_then(|one| one.public_key().ok());
    shown.fingerprint() == fingerprint
        || key.is_some_and(|key| shown.public_key().is_ok_and(|own| own == key))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use weft_identity::{
        Authority, AuthoritySpec, KeyAlgorithm, KeyPurpose, Leaf, PrivateKey, SubjectName,
    };

    use super::*;

    struct Pki(Authority);

    impl Pki {
        fn issue(&self, key: &PrivateKey, name: &str, purpose: KeyPurpose) -> Certificate {
            let subject = SubjectName::common_name(name);
            let now = SystemTime::now();
            let leaf = Leaf::for_key(key.public(), &subject, Vec::new(), purpose, now).unwrap();
            self.0.issue(&leaf).unwrap()
        }
    }

    fn key() -> PrivateKey {
        PrivateKey::generate(KeyAlgorithm::EcP256).unwrap()
    }

    #[test]
    fn only_the_enrolled_certificate_and_its_key_prove_a_router() {
        let authority = Authority::make_root(&AuthoritySpec::new("root"), SystemTime::now());
        let pki = Pki(authority.unwrap());
        let (own, new, other) = (key(), key(), key());
        let enrolled = pki.issue(&own, "r1", KeyPurpose::Client);
        let waiting = pki.issue(&new, "r1", KeyPurpose::Client);
        let mut router = Router {
            fingerprint: Some(enrolled.fingerprint().into()),
            cert_pem: enrolled.to_pem(),
            ..Router::default()
        };
        let shows = |router: &Router, leaf: &Certificate, more: &[&Certificate]| {
            let more = more.iter().map(|one| one.der().clone());
            let chain: Vec<_> = std::iter::once(leaf.der().clone()).chain(more).collect();
            prove(router, &chain).ok()
        };
        let current = Some(Proved::Current(enrolled.fingerprint().to_owned()));
        let server = pki.issue(&own, "r1", KeyPurpose::Server);
        assert_eq!(shows(&router, &enrolled, &[]), current);
        assert_eq!(shows(&router, &server, &[]), current);
        // The same name with another key proves nothing, even if the router's own certificate
        // follows it.
        let stranger = pki.issue(&other, "r1", KeyPurpose::Both);
        assert_eq!(shows(&router, &stranger, &[&enrolled, &server]), None);
        assert!(prove(&router, &[]).is_err());

        // A replaced key proves nothing; the key of an issued certificate does.
        let renewed = pki.issue(&new, "r1", KeyPurpose::Server);
        assert_eq!(shows(&router, &renewed, &[]), None);
        router.unverified_fingerprint = Some(waiting.fingerprint().into());
        router.unverified_cert_pem = waiting.to_pem();
        assert_eq!(shows(&router, &renewed, &[]), Some(Proved::Waiting(waiting.clone())));
        assert_eq!(shows(&router, &server, &[]), current);
        router.fingerprint = router.unverified_fingerprint.take();
        router.cert_pem = std::mem::take(&mut router.unverified_cert_pem);
        assert_eq!(shows(&router, &server, &[]), None);

        // If only the fingerprint of a router is known, its key is unknown: only that certificate
        // counts.
        router.cert_pem = String::new();
        assert_eq!(shows(&router, &renewed, &[]), None);
        assert!(shows(&router, &waiting, &[]).is_some());
        router.cert_pem = stranger.to_pem();
        assert_eq!(shows(&router, &stranger, &[]), None);
        router.fingerprint = None;
        assert_eq!(shows(&router, &waiting, &[]), None);
    }
}
