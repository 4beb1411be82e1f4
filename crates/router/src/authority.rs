//! Whether certificates lead to an authority that this router believes.

use std::time::SystemTime;

use rustls_pki_types::CertificateDer;
use weft_identity::{Identity, Verify};

/// Whether the leaf of a chain leads to an authority of the router's identity; the reason if not.
pub(crate) fn leads_to_authority(
    identity: &Identity,
    chain: &[CertificateDer<'_>],
) -> Result<(), String> {
    let intermediates: Vec<_> = identity.ca().intermediates().cloned().collect();
    let how = Verify { intermediates: &intermediates, ..Verify::default() };
    let verified = identity.ca().verify(chain, how, SystemTime::now());
    verified.map(|_| ()).map_err(|problem| problem.to_string())
}
