//! The proof that the bearer of a token has the key of a certificate that the token names
//! (docs/protocol/auth.md 10.1). A router that a token was shown to has the token, and not the key.

use weft_identity::Certificate;
use weft_kernel::clock::system_time;
use weft_model::Timestamp;
use weft_model::entity::ApiSession;
use weft_model::token::AccessClaims;

/// Whether the peer has proved a key of the token, in its TLS handshake. A token that names no certificate needs no
/// proof. A certificate that was issued for the session counts until it expires; one that the token names counts longer
/// if the policy allows expired certificates.
pub(crate) fn is_shown(
    session: &ApiSession,
    claims: &AccessClaims,
    leaf: Option<&Certificate>,
    now: Timestamp,
) -> bool {
    let named = claims.z_cfs.as_deref().unwrap_or_default();
    if named.is_empty() {
        return true;
    }
    let Some(leaf) = leaf else { return false };
    let print = leaf.fingerprint();
    let is_current = leaf.is_valid_at(system_time(now));
    let is_named = named.iter().any(|known| known.eq_ignore_ascii_case(print));
    let is_of_session = || session.certificates.iter().any(|own| *own.fingerprint == *print);
    match is_named {
        true => is_current || claims.z_cae,
        false => is_current && is_of_session(),
    }
}
