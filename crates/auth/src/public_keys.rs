//! The public keys of the data model (docs/protocol/edge-control-plane.md 7.2).

use weft_identity::Certificate;
use weft_model::entity::Ca;

use crate::handle::Auth;
use crate::third_party_ca;

/// A public key of the data model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    /// The name of the key: lowercase hex SHA-1 of `data`.
    pub kid: String,
    /// The certificate in DER.
    pub data: Vec<u8>,
    /// Whether routers verify tokens with it.
    pub for_tokens: bool,
    /// Whether routers verify client certificates with it.
    pub for_clients: bool,
}

impl PublicKey {
    fn of(certificate: &Certificate, for_tokens: bool) -> Self {
        Self {
            kid: certificate.fingerprint().to_owned(),
            data: certificate.der().to_vec(),
            for_tokens,
            for_clients: true,
        }
    }
}

impl Auth {
    /// This controller's certificate; the certificates that sign tokens of service sessions, and
    /// former ones whose tokens are in use; the roots of the CA bundle; verified third-party CAs.
    pub fn public_keys(&self) -> Vec<PublicKey> {
        let keys = self.keys();
        let signing = self.session_certificates();
        let mut found: Vec<_> = signing.iter().map(|it| PublicKey::of(it, true)).collect();
        let of_tokens = self.token_certificates();
        let alone = |it| PublicKey { for_clients: false, ..PublicKey::of(it, true) };
        found.extend(of_tokens.iter().map(alone));
        found.extend(keys.bundle.roots().map(|root| PublicKey::of(root, false)));
        let snapshot = self.snapshot();
        found.extend(snapshot.list::<Ca>().flat_map(|ca| of_ca(ca)));
        found
    }
}

/// The keys of a third-party CA: those of its authorities that count.
pub fn of_ca(ca: &Ca) -> Vec<PublicKey> {
    third_party_ca::counting(ca).iter().map(|it| PublicKey::of(it, false)).collect()
}
