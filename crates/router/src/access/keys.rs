//! Keys of the data model, parsed: those that verify tokens, and the authorities of clients'
//! certificates (docs/protocol/edge-control-plane.md 7.2, 11.1, 11.2).

use weft_identity::{Certificate, KeySet, PublicKey, TrustBundle};
use weft_wire::edge_ctrl::data_model::PublicKey as ModelKey;
use weft_wire::edge_ctrl::data_model::public_key::{Format, Usage};

use super::model::Model;

/// Keys of the data model.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// Keys that verify tokens, by name.
    pub(crate) tokens: KeySet,
    /// The authorities of clients' certificates.
    pub(crate) clients: TrustBundle,
}

impl Keys {
    /// Parses the keys of a model. A key that cannot be read is logged and left out.
    pub(crate) fn of(model: &Model) -> Self {
        let mut tokens = KeySet::new();
        let mut clients = Vec::new();
        for key in model.keys.values() {
            if let Err(problem) = add(key, &mut tokens, &mut clients) {
                tracing::warn!(
                    kid = %key.kid, %problem,
                    "a public key of the data model cannot be read and is left out"
                );
            }
        }
        Self { tokens, clients: TrustBundle::new(clients) }
    }
}

fn add(
    key: &ModelKey,
    tokens: &mut KeySet,
    clients: &mut Vec<Certificate>,
) -> weft_identity::Result<()> {
    let usages: Vec<Usage> = key.usages().collect();
    let certificate = match key.format() {
        Format::X509CertDer => Some(Certificate::from_der(key.data.to_vec())?),
        Format::PkixPublicKey => None,
    };
    if usages.contains(&Usage::JwtValidation) {
        let public = match &certificate {
            Some(certificate) => certificate.public_key()?.clone(),
            None => PublicKey::from_spki(&key.data)?,
        };
        tokens.insert(key.kid.clone(), public);
    }
    if usages.contains(&Usage::ClientX509CertValidation) {
        clients.extend(certificate);
    }
    Ok(())
}
