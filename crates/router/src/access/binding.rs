//! Whether a token may be used with a certificate (protocol: edge-control-plane 11.3).

use std::time::SystemTime;

use rustls_pki_types::CertificateDer;
use weft_identity::{Certificate, SpiffeId, TrustBundle, Verify};

/// What a token says about certificates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound<'a> {
    /// Id of the identity.
    pub(crate) identity: &'a str,
    /// Id of the API session.
    pub(crate) session: &'a str,
    /// Certificates it may be used with.
    pub(crate) fingerprints: &'a [String],
    /// Whether the token is an opaque one.
    pub(crate) legacy: bool,
    /// Whether these certificates may have expired.
    pub(crate) expired_allowed: bool,
}

/// Whom certificates of this network's own making lead to.
#[derive(Debug, Clone, Default)]
pub(crate) struct FirstParty {
    /// Roots.
    pub(crate) roots: TrustBundle,
    /// Certificates a chain may lead through.
    pub(crate) intermediates: Vec<Certificate>,
}

/// Checks. The reason of a refusal is for the log and the SDK.
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
    let how = Verify {
        ignore_leaf_validity: true,
        intermediates: &first_party.intermediates,
        ..Verify::default()
    };
    first_party.roots.verify(chain, how, now).map_err(|_| {
        "the client certificate is not one of the session, and not of this network".to_owned()
    })?;
    by_name(bound, &leaf, expired)
}

/// A certificate of the network's own names who it is for.
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
