//! The public keys of the data model (docs/protocol/edge-control-plane.md 7.2).

use weft_identity::Certificate;
use weft_model::entity::Ca;

use crate::handle::Auth;
use crate::token_keys::Public;
use crate::{members, third_party_ca};

/// A public key of the data model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    /// The name of the key: lowercase hex SHA-1 of `data`.
    pub kid: String,
    /// The certificate or the key, in DER.
    pub data: Vec<u8>,
    /// Whether `data` is a certificate.
    pub is_certificate: bool,
    /// Whether routers verify tokens with it.
    pub for_tokens: bool,
    /// Whether routers verify client certificates with it.
    pub for_clients: bool,
}

impl PublicKey {
    /// The key of a certificate that verifies client certificates.
    pub(crate) fn of(certificate: &Certificate) -> Self {
        Self {
            kid: certificate.fingerprint().to_owned(),
            data: certificate.der().to_vec(),
            is_certificate: true,
            for_tokens: false,
            for_clients: true,
        }
    }

    /// A key that verifies tokens.
    fn of_tokens(kid: &str, public: &Public) -> Self {
        Self {
            kid: kid.to_owned(),
            data: public.data().to_vec(),
            is_certificate: public.certificate.is_some(),
            for_tokens: true,
            for_clients: false,
        }
    }
}

impl Auth {
    /// This controller's certificate; the keys of tokens, also those that sign later and those whose tokens are in use; the
    /// roots of the CA bundle; what other controllers tell of themselves; verified third-party CAs.
    pub fn public_keys(&self) -> Vec<PublicKey> {
        let keys = self.keys();
        let of_tokens = self.token_keys().ring.load();
        let mut found: Vec<_> = of_tokens
            .public
            .iter()
            .map(|(kid, public)| PublicKey::of_tokens(kid, public))
            .collect();
        // A certificate whose key signed tokens in an earlier release is one key with two uses.
        let others = self.own_certificates();
        // Routers of the original want the authority itself, if it is not that of the controller they enrolled at.
        let authority = self.is_member().then(|| keys.authority.certificate());
        let others = others.iter().chain(keys.bundle.roots()).chain(authority).map(PublicKey::of);
        for other in others {
            match found.iter_mut().find(|known| known.kid == other.kid) {
                Some(known) => known.for_clients = true,
                None => found.push(other),
            }
        }
        let snapshot = self.kernel().snapshot();
        for key in self.other_members(&snapshot).flat_map(|member| members::told_of(member)) {
            if found.iter().all(|known| known.kid != key.kid) {
                found.push(key);
            }
        }
        found.extend(snapshot.list::<Ca>().flat_map(|ca| of_ca(ca)));
        found
    }
}

/// The keys of a third-party CA: those of its authorities that count.
pub fn of_ca(ca: &Ca) -> Vec<PublicKey> {
    third_party_ca::counting(ca).iter().map(PublicKey::of).collect()
}
