//! Enrollment tickets, signed when they are read and never stored (docs/protocol/auth.md 4).

use hashbrown::HashMap;
use parking_lot::Mutex;
use weft_contract::resource::enrollment::{EnrollmentClaims, method};
use weft_identity::token::TokenSigner;
use weft_kernel::{Addresses, Keys};
use weft_model::entity::Enrollment;

use super::signing::aside;

/// Tickets kept so that two reads give the same text.
const KEPT: usize = 4096;
/// Audience of tickets for any holder.
const ENROLLER: &str = "openziti-enroller";

/// Signs tickets with the certificate that clients see at the API address.
#[derive(Debug, Default)]
pub struct Tickets {
    /// Tickets by name of the key: a client could not verify one of another key.
    kept: Mutex<HashMap<String, String>>,
}

impl Tickets {
    /// The ticket of an enrollment; empty if it cannot be signed.
    pub fn of(&self, enrollment: &Enrollment, addresses: &Addresses, keys: &Keys) -> String {
        let kid = keys.enrollment.leaf().fingerprint();
        let key = format!("{kid} {} {}", enrollment.token, enrollment.expires_at.0);
        if let Some(ticket) = self.kept.lock().get(&key) {
            return ticket.clone();
        }
        let subject = enrollment.identity_id.as_ref().or(enrollment.router_id.as_ref());
        let ticket = sign(
            keys,
            &EnrollmentClaims {
                iss: format!("https://{}", addresses.api),
                sub: subject.map(|id| id.to_string()).unwrap_or_default(),
                aud: vec![String::new()],
                exp: Some(enrollment.expires_at.secs()),
                jti: enrollment.token.to_string(),
                em: enrollment.method.as_str().to_owned(),
                ctrls: Some(addresses.ctrl.clone()),
                ctrl: None,
            },
        );
        let mut kept = self.kept.lock();
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(key, ticket.clone());
        ticket
    }

    /// The ticket with which holders of certificates of a CA enroll; clients verify it with the
    /// certificate that they see at the API address (docs/protocol/auth.md 4.2).
    pub(crate) fn of_ca(address: &str, ca: &str, keys: &Keys) -> String {
        sign(
            keys,
            &EnrollmentClaims {
                iss: format!("https://{address}/"),
                sub: ca.to_owned(),
                aud: vec![ENROLLER.to_owned()],
                exp: None,
                jti: ca.to_owned(),
                em: method::CA.to_owned(),
                ctrls: None,
                ctrl: None,
            },
        )
    }

    /// The ticket of the network, which anybody may use to trust it.
    pub(crate) fn of_network(
        &self,
        address: &str,
        keys: &Keys,
        id: impl FnOnce() -> String,
    ) -> String {
        let key = format!("{} network", keys.enrollment.leaf().fingerprint());
        if let Some(ticket) = self.kept.lock().get(&key) {
            return ticket.clone();
        }
        let issuer = format!("https://{address}/");
        let ticket = sign(
            keys,
            &EnrollmentClaims {
                iss: issuer.clone(),
                sub: issuer,
                aud: vec![ENROLLER.to_owned()],
                exp: None,
                jti: id(),
                em: method::NETWORK.to_owned(),
                ctrls: None,
                ctrl: None,
            },
        );
        self.kept.lock().insert(key, ticket.clone());
        ticket
    }
}

fn sign(keys: &Keys, claims: &EnrollmentClaims) -> String {
    let key = &keys.enrollment;
    let signed = aside(key.key().algorithm(), || TokenSigner::new(key)?.sign(claims));
    signed.unwrap_or_else(|error| {
        tracing::error!(%error, "an enrollment ticket could not be signed");
        String::new()
    })
}
