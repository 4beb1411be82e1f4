//! The certificates of a third-party CA (docs/protocol/auth.md 14.1).
//!
//! The text of a CA may hold several authorities, in any order, such as a root and the authority below it
//! that issues. One of them is proven: it issued the certificate with the verification token. That one
//! counts, and those of the text that it issued, directly or through each other. The others do not: whoever
//! verified the CA showed nothing about their keys.

use std::sync::Arc;

use weft_identity::{Certificate, Error, TrustBundle, Verify};
use weft_kernel::clock::system_time;
use weft_model::Snapshot;
use weft_model::entity::Ca;

use crate::handle::Auth;

/// Most certificates in the text of a CA.
pub const MAX_CERTIFICATES: usize = 32;

/// Most signatures that are checked among the certificates of a CA, because each login by certificate checks them.
/// Certificates that are not reached by so many do not count.
const MAX_CHECKS: usize = 1024;

/// The authorities in the text of a CA, in order.
pub fn named(ca: &Ca) -> Vec<Certificate> {
    let all = Certificate::from_pem(ca.cert_pem.as_bytes()).unwrap_or_default();
    all.into_iter().take(MAX_CERTIFICATES).filter(Certificate::is_ca).collect()
}

/// The authorities of a CA that count, the proven one first; none before the CA is verified.
pub fn counting(ca: &Ca) -> Vec<Certificate> {
    let mut others = named(ca);
    if !ca.is_verified || others.is_empty() {
        return Vec::new();
    }
    // A CA that an earlier release or the original verified was proven for its first certificate.
    let is_proven = |it: &Certificate| it.fingerprint() == &*ca.verified_by;
    let proven = others.iter().position(is_proven).unwrap_or(0);
    let mut counting = vec![others.remove(proven)];
    let mut checks = MAX_CHECKS;
    loop {
        let mut is_below = |it: &Certificate| {
            counting.iter().any(|above| {
                let is_named = it.issuer_der() == above.subject_der();
                checks = checks.saturating_sub(usize::from(is_named));
                is_named && checks > 0 && it.is_issued_by(above)
            })
        };
        let (below, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(&mut is_below);
        if below.is_empty() {
            return counting;
        }
        counting.extend(below);
        others = rest;
    }
}

/// The authorities of a CA that count for the identities of a network. An authority of the network itself
/// does not, because it issues to all of them.
pub(crate) fn trusted(auth: &Auth, ca: &Ca) -> TrustBundle {
    let foreign = |it: &Certificate| !auth.keyring().is_of_authority(it);
    TrustBundle::new(counting(ca).into_iter().filter(foreign))
}

/// The first of these CAs to which a chain leads, with the path to its authority. A chain over an authority of
/// the network leads to no CA. The error is the reason of the refusal that says most.
pub(crate) fn issuer<'s>(
    auth: &Auth,
    snapshot: &'s Snapshot,
    chain: &[Certificate],
    how: Verify<'_>,
    is_wanted: impl Fn(&Ca) -> bool,
) -> Result<(&'s Arc<Ca>, Vec<Certificate>), Error> {
    let shown: Vec<_> = chain.iter().map(|it| it.der().clone()).collect();
    let now = system_time(auth.kernel().now());
    let mut reason: Option<Error> = None;
    for ca in snapshot.list::<Ca>().filter(|ca| is_wanted(ca)) {
        let path = trusted(auth, ca).verify(&shown, how, now);
        let error = match path {
            Ok(path) if !path.iter().skip(1).any(|it| auth.keyring().is_of_authority(it)) => {
                return Ok((ca, path));
            }
            Ok(_) => Error::Refused("its chain leads over an authority of this network".into()),
            Err(error) => error,
        };
        reason = Some(match reason {
            Some(reason) => reason.or(error),
            None => error,
        });
    }
    Err(reason.unwrap_or_else(|| Error::Refused("no CA may have issued it".into())))
}
