//! The check that a certificate leads to an authority of this router's identity.

use rustls_pki_types::CertificateDer;
use weft_channel::clock::time_of_day;
use weft_identity::{Identity, Verify};

/// Checks that the leaf of a chain leads to an authority of the router's identity; an error names
/// the reason.
pub(crate) fn leads_to_authority(
    identity: &Identity,
    chain: &[CertificateDer<'_>],
) -> Result<(), String> {
    let intermediates: Vec<_> = identity.ca().intermediates().cloned().collect();
    let how = Verify { intermediates: &intermediates, ..Verify::default() };
    let verified = identity.ca().verify(chain, how, time_of_day());
    verified.map(|_| ()).map_err(|problem| problem.to_string())
}
