//! Keys of the data model, made ready: those that verify tokens, and those that clients'
//! certificates lead to (docs/protocol/edge-control-plane.md 7.2, 11.1, 11.2).

use weft_identity::{Certificate, KeySet, PublicKey, TrustBundle};
use weft_wire::edge_ctrl::data_model::{
    PublicKey as ModelKey,
    public_key::{Format, Usage},
};

use super::model::Model;

/// Keys of the data model.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// Verify tokens, by name.
    pub(crate) tokens: KeySet,
    /// Clients' certificates lead to one of these.
    pub(crate) clients: TrustBundle,
}

impl Keys {
    /// The keys of a model. One that cannot be read is named in the log and left out.
    pub(crate) fn of(model: &Model) -> Self {
        let mut tokens = KeySet::new();
        let mut clients = Vec::new();
        for key in model.keys.values() {
            if let Err(problem) = add(key, &mut tokens, &mut clients) {
                tracing::warn!(kid = %key.kid, %problem, "public key of the data model left out");
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
