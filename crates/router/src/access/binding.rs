//! The check that a token may be used with a certificate (docs/protocol/edge-control-plane.md 11.3).

use std::time::SystemTime;

use rustls_pki_types::CertificateDer;
use weft_identity::{Certificate, SpiffeId, TrustBundle, Verify};

/// The parts of a token that concern certificates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound<'a> {
    /// Id of the identity.
    pub(crate) identity: &'a str,
    /// Id of the API session.
    pub(crate) session: &'a str,
    /// Fingerprints of the certificates that the token may be used with.
    pub(crate) fingerprints: &'a [String],
    /// True for an opaque token.
    pub(crate) legacy: bool,
    /// True if these certificates may have expired.
    pub(crate) expired_allowed: bool,
}

/// The authorities that issue certificates of this network.
///
/// An authority of the operator's bundle counts if a known certificate of the network leads to it,
/// or if it is the root above such an authority. The other authorities of the bundle do not count:
/// one of them may have issued the certificate of a public server name, and its holder could issue
/// certificates for identities. Each authority that counts is an anchor, intermediates included.
#[derive(Debug, Clone, Default)]
pub(crate) struct FirstParty {
    anchors: TrustBundle,
    /// Intermediate certificates that a chain may lead through.
    intermediates: Vec<Certificate>,
}

impl FirstParty {
    /// Learns the authorities from a certificate of the network: a controller's, or the router's
    /// own. Authorities that are no longer in the bundle are forgotten.
    pub(crate) fn learn(
        &self,
        bundle: &TrustBundle,
        chain: &[CertificateDer<'static>],
        now: SystemTime,
    ) -> Self {
        let intermediates: Vec<Certificate> = bundle.intermediates().cloned().collect();
        let how = Verify { intermediates: &intermediates, ..Verify::default() };
        // The nearest anchor ends a path, even if the bundle has a root above it.
        let roots = TrustBundle::new(bundle.roots().cloned());
        let found = [bundle, &roots].into_iter().filter_map(|trusted| {
            let anchor = trusted.verify(chain, how, now).ok()?.pop()?;
            (anchor.is_ca() || anchor.is_root()).then_some(anchor)
        });
        let known = self.anchors.certificates().iter();
        let known = known.filter(|known| bundle.certificates().contains(known)).cloned();
        Self { anchors: TrustBundle::new(known.chain(found)), intermediates }
    }

    /// True if one of these authorities issued the leaf of a chain, by itself or through
    /// intermediates. The dates of the leaf are not checked.
    fn made(&self, chain: &[CertificateDer<'static>], now: SystemTime) -> bool {
        let how = Verify {
            ignore_leaf_validity: true,
            intermediates: &self.intermediates,
            ..Verify::default()
        };
        self.anchors.verify(chain, how, now).is_ok()
    }
}

/// Checks that the certificates of an SDK are among those that its token may be used with. The
/// reason of a refusal goes to the log and to the SDK.
pub(crate) fn check(
    bound: &Bound<'_>,
    chain: &[CertificateDer<'static>],
    first_party: &FirstParty,
    now: SystemTime,
) -> Result<(), String> {
    let Some(der) = chain.first() else { return Err("no client certificate".into()) };
    let leaf = Certificate::from_der(der.clone()).map_err(|error| error.to_string())?;
    let expired = !leaf.is_valid_at(now);
    if bound.fingerprints.iter().any(|known| known.eq_ignore_ascii_case(leaf.fingerprint())) {
        if expired && !bound.legacy && !bound.expired_allowed {
            return Err("the client certificate has expired".into());
        }
        return Ok(());
    }
    if !first_party.made(chain, now) {
        return Err(
            "the client certificate is not one of the session, and not of this network".into()
        );
    }
    by_name(bound, &leaf, expired)
}

/// Checks that a certificate of the network names the identity of the token, and its session if the
/// certificate names a session.
fn by_name(bound: &Bound<'_>, leaf: &Certificate, expired: bool) -> Result<(), String> {
    let mut uris = leaf.spiffe_uris();
    let (Some(uri), None) = (uris.next(), uris.next()) else {
        return Err("the client certificate does not name exactly one SPIFFE id".into());
    };
    let id: SpiffeId = uri.parse().map_err(|error: weft_identity::Error| error.to_string())?;
    let other = || Err("the client certificate is for another identity or session".to_owned());
    match id.identity_and_session() {
        Some((identity, Some(session))) => {
            if identity != bound.identity || session != bound.session {
                return other();
            }
            if expired { Err("the session certificate has expired".into()) } else { Ok(()) }
        }
        Some((identity, None)) => {
            if identity != bound.identity {
                return other();
            }
            if expired && !bound.legacy && !bound.expired_allowed {
                return Err("the client certificate has expired".into());
            }
            Ok(())
        }
        None => other(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use weft_identity::{
        Authority, AuthoritySpec, KeyAlgorithm, KeyPurpose, Leaf, PrivateKey, San, SubjectName,
    };

    use super::*;

    /// A root with two intermediates, one for controllers and one for clients.
    struct Pki {
        root: Authority,
        servers: Authority,
        clients: Authority,
    }

    impl Pki {
        fn new() -> Self {
            let spec = AuthoritySpec::new;
            let now = SystemTime::now();
            let root = Authority::make_root(&spec("root"), now).unwrap();
            let servers = root.make_intermediate(&spec("servers"), now).unwrap();
            let clients = root.make_intermediate(&spec("clients"), now).unwrap();
            Self { root, servers, clients }
        }
    }

    fn issued(by: &Authority, id: &SpiffeId) -> Certificate {
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let sans = vec![San::Uri(id.to_string())];
        let (subject, now) = (SubjectName::common_name("x"), SystemTime::now());
        by.issue(&Leaf::for_key(key.public(), &subject, sans, KeyPurpose::Both, now).unwrap())
            .unwrap()
    }

    fn chain(of: &[&Certificate]) -> Vec<CertificateDer<'static>> {
        of.iter().map(|one| one.der().clone()).collect()
    }

    fn session(of: &Authority) -> Vec<CertificateDer<'static>> {
        let leaf = issued(of, &SpiffeId::api_session("t", "alice", "as1", "c"));
        chain(&[&leaf, of.certificate()])
    }

    fn is_taken(first_party: &FirstParty, chain: &[CertificateDer<'static>]) -> bool {
        let bound = Bound {
            identity: "alice",
            session: "as1",
            fingerprints: &[],
            legacy: true,
            expired_allowed: true,
        };
        check(&bound, chain, first_party, SystemTime::now()).is_ok()
    }

    #[test]
    fn session_certificates_are_taken_whatever_of_the_chain_is_in_the_bundle() {
        let pki = Pki::new();
        let [root, servers, clients] =
            [&pki.root, &pki.servers, &pki.clients].map(Authority::certificate);
        let controller = issued(&pki.servers, &SpiffeId::controller("t", "ctrl1"));
        let shown = chain(&[&controller, servers]);
        let learn = |bundle: &[&Certificate]| {
            let bundle = TrustBundle::new(bundle.iter().map(|one| (*one).clone()));
            FirstParty::default().learn(&bundle, &shown, SystemTime::now())
        };
        for bundle in [&[root][..], &[root, servers], &[servers, root], &[root, servers, clients]] {
            assert!(is_taken(&learn(bundle), &session(&pki.clients)), "{}", bundle.len());
            assert!(is_taken(&learn(bundle), &session(&pki.servers)), "{}", bundle.len());
        }
        // If the bundle lacks the root, chains can lead to the intermediates only.
        assert!(is_taken(&learn(&[servers]), &session(&pki.servers)));
        assert!(!is_taken(&learn(&[servers]), &session(&pki.clients)));
        assert!(!is_taken(&learn(&[servers, clients]), &session(&pki.clients)));
        assert!(!is_taken(&learn(&[clients]), &session(&pki.clients)), "no controller leads there");
        assert!(!is_taken(&FirstParty::default(), &session(&pki.servers)));
    }

    #[test]
    fn an_authority_of_the_bundle_that_makes_nothing_of_the_network_does_not_count() {
        let (pki, public) = (Pki::new(), Pki::new());
        let [root, servers] = [&pki.root, &pki.servers].map(|one| one.certificate().clone());
        let controller = issued(&pki.servers, &SpiffeId::controller("t", "ctrl1"));
        let authorities = [&public.root, &public.servers].map(|one| one.certificate().clone());
        let bundle = TrustBundle::new([root, servers].into_iter().chain(authorities.clone()));
        // Certificates that a controller shows beside its own chain prove nothing.
        let shown = chain(&[&controller, pki.servers.certificate(), &authorities[0]]);
        let now = SystemTime::now();
        let learned = FirstParty::default().learn(&bundle, &shown, now);
        assert!(is_taken(&learned, &session(&pki.servers)));
        assert!(!is_taken(&learned, &session(&public.servers)));
        let stranger = issued(&public.servers, &SpiffeId::controller("t", "ctrl1"));
        let elsewhere = TrustBundle::new([pki.root.certificate().clone()]);
        let learned = FirstParty::default().learn(&elsewhere, &chain(&[&stranger]), now);
        assert!(!is_taken(&learned, &session(&public.servers)), "it is not in the bundle at all");
    }

    #[test]
    fn what_was_learned_stays_as_long_as_it_is_in_the_bundle() {
        let (old, new) = (Pki::new(), Pki::new());
        let shown = |pki: &Pki| {
            let leaf = issued(&pki.servers, &SpiffeId::controller("t", "ctrl1"));
            chain(&[&leaf, pki.servers.certificate()])
        };
        let both = [&old, &new].map(|pki| pki.root.certificate().clone());
        let (both, last) = (TrustBundle::new(both.clone()), TrustBundle::new([both[1].clone()]));
        let now = SystemTime::now();
        let learned = FirstParty::default().learn(&both, &shown(&old), now);
        let learned = learned.learn(&both, &shown(&new), now);
        assert!(is_taken(&learned, &session(&old.clients)));
        let learned = learned.learn(&last, &shown(&new), now);
        assert!(!is_taken(&learned, &session(&old.clients)));
        assert!(is_taken(&learned, &session(&new.clients)));
        let late = now + Duration::from_secs(100 * 365 * 86_400);
        assert!(!learned.made(&session(&new.clients), late), "an anchor that has expired");
    }
}
