//! Whether the listener that answered is the router that was dialed.
//!
//! TLS has proved a chain to the CA bundle, the name in the address and the key of the leaf; all of that
//! every router of the network has for its own addresses. Enrollment made two certificates for one key: the
//! leaf that counts for the router is that of clients, and what a listener shows is that of servers. So the
//! leaf must be the enrolled one or have its key.

use rustls_pki_types::CertificateDer;
use weft_identity::Certificate;
use weft_model::entity::Router;

/// Which of a router's certificates was proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Proved {
    /// The one in use.
    Current(String),
    /// The one that was issued and had not been seen yet.
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

/// What a chain proves for a router; the reason if nothing.
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

/// Whether a leaf is the enrolled certificate, or has the same key as it.
fn is_of(shown: &Certificate, fingerprint: &str, enrolled: &Option<Certificate>) -> bool {
    // What is stored beside the fingerprint has to be what it is of.
    let enrolled = enrolled.as_ref().filter(|one| one.fingerprint() == fingerprint);
    let key = enrolled.and_then(|one| one.public_key().ok());
    shown.fingerprint() == fingerprint
        || key.is_some_and(|key| shown.public_key().is_ok_and(|own| own == key))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use weft_identity::{
        Authority, AuthoritySpec, KeyAlgorithm, Leaf, PrivateKey, Purpose, Subject,
    };

    use super::*;

    struct Pki(Authority);

    impl Pki {
        fn issue(&self, key: &PrivateKey, name: &str, purpose: Purpose) -> Certificate {
            let subject = Subject::common_name(name);
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
        let enrolled = pki.issue(&own, "r1", Purpose::Client);
        let waiting = pki.issue(&new, "r1", Purpose::Client);
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
        let server = pki.issue(&own, "r1", Purpose::Server);
        assert_eq!(shows(&router, &enrolled, &[]), current);
        assert_eq!(shows(&router, &server, &[]), current);
        // The same name with another key, also with the router's own certificate behind it.
        let stranger = pki.issue(&other, "r1", Purpose::Both);
        assert_eq!(shows(&router, &stranger, &[&enrolled, &server]), None);
        assert!(prove(&router, &[]).is_err());

        // A key that was replaced proves nothing; one that waits does.
        let renewed = pki.issue(&new, "r1", Purpose::Server);
        assert_eq!(shows(&router, &renewed, &[]), None);
        router.unverified_fingerprint = Some(waiting.fingerprint().into());
        router.unverified_cert_pem = waiting.to_pem();
        assert_eq!(shows(&router, &renewed, &[]), Some(Proved::Waiting(waiting.clone())));
        assert_eq!(shows(&router, &server, &[]), current);
        router.fingerprint = router.unverified_fingerprint.take();
        router.cert_pem = std::mem::take(&mut router.unverified_cert_pem);
        assert_eq!(shows(&router, &server, &[]), None);

        // Of a router of which only the fingerprint is known, that certificate alone counts.
        router.cert_pem = String::new();
        assert_eq!(shows(&router, &renewed, &[]), None);
        assert!(shows(&router, &waiting, &[]).is_some());
        router.cert_pem = stranger.to_pem();
        assert_eq!(shows(&router, &stranger, &[]), None);
        router.fingerprint = None;
        assert_eq!(shows(&router, &waiting, &[]), None);
    }
}
