//! Checks that a peer is another controller: it shows the certificate that the entry of that controller names, or another
//! one for the same key.

use std::sync::Arc;

use rustls_pki_types::CertificateDer;
use weft_identity::Certificate;
use weft_model::Snapshot;
use weft_model::entity::ControllerMember;

/// Whether a leaf is that of a controller. TLS has proved that the peer has its key.
pub(super) fn is_of(member: &ControllerMember, leaf: &CertificateDer<'_>) -> bool {
    if member.certificate.is_empty() {
        return false;
    }
    if member.certificate[..] == leaf[..] {
        return true;
    }
    let key = |der: &[u8]| Certificate::from_der(der.to_vec()).ok()?.public_key().ok().cloned();
    key(&member.certificate).is_some_and(|known| key(leaf).is_some_and(|shown| known == shown))
}

/// The member of the network, other than this controller, that a leaf proves.
pub(crate) fn member_of<'s>(
    snapshot: &'s Snapshot,
    own: &str,
    leaf: &CertificateDer<'_>,
) -> Option<&'s Arc<ControllerMember>> {
    let others = snapshot.list::<ControllerMember>().filter(|it| it.base.id.as_str() != own);
    others.into_iter().find(|it| it.is_present() && is_of(it, leaf))
}
