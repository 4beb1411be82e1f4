//! Enrollment tickets, signed when they are read and never stored (docs/protocol/auth.md 4).

use hashbrown::HashMap;
use parking_lot::Mutex;
use weft_contract::resource::enrollment::{EnrollmentClaims, method};
use weft_identity::token::TokenSigner;
use weft_kernel::Keys;
use weft_model::Choice as _;
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
    /// The ticket of an enrollment at an API, for the controllers at these addresses; empty if it cannot be signed.
    pub fn of(
        &self,
        enrollment: &Enrollment,
        (api, ctrls): (&str, Vec<String>),
        keys: &Keys,
    ) -> String {
        let kid = keys.enrollment.leaf().fingerprint();
        let (token, end) = (&enrollment.token, enrollment.expires_at.0);
        let key = format!("{kid} {token} {end} {}", ctrls.join(" "));
        self.kept_or(key, || {
            let subject = enrollment.identity_id.as_ref().or(enrollment.router_id.as_ref());
            sign(
                keys,
                &EnrollmentClaims {
                    iss: format!("https://{api}"),
                    sub: subject.map(|id| id.to_string()).unwrap_or_default(),
                    aud: vec![String::new()],
                    exp: Some(enrollment.expires_at.secs()),
                    jti: enrollment.token.to_string(),
                    em: enrollment.method.as_str().to_owned(),
                    ctrls: Some(ctrls),
                    ctrl: None,
                },
            )
        })
    }

    /// The kept ticket of a key, or else a new one, which is kept if it was signed.
    fn kept_or(&self, key: String, sign: impl FnOnce() -> Option<String>) -> String {
        if let Some(ticket) = self.kept.lock().get(&key) {
            return ticket.clone();
        }
        let Some(ticket) = sign() else { return String::new() };
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
        .unwrap_or_default()
    }

    /// The ticket of the network, which anybody may use to trust it.
    pub(crate) fn of_network(
        &self,
        address: &str,
        keys: &Keys,
        id: impl FnOnce() -> String,
    ) -> String {
        let key = format!("{} network", keys.enrollment.leaf().fingerprint());
        self.kept_or(key, || {
            let issuer = format!("https://{address}/");
            sign(
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
            )
        })
    }
}

fn sign(keys: &Keys, claims: &EnrollmentClaims) -> Option<String> {
    let key = &keys.enrollment;
    let signed = aside(key.key().algorithm(), || TokenSigner::new(key)?.sign(claims));
    signed
        .inspect_err(|error| tracing::error!(%error, "an enrollment ticket could not be signed"))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_that_was_not_signed_is_signed_later() {
        let tickets = Tickets::default();
        assert_eq!(tickets.kept_or("a".into(), || None), "");
        assert_eq!(tickets.kept_or("a".into(), || Some("signed".into())), "signed");
        assert_eq!(tickets.kept_or("a".into(), || None), "signed");
    }

    #[test]
    fn no_more_than_the_limit_is_kept() {
        let tickets = Tickets::default();
        for number in 0..2 * KEPT + 1 {
            tickets.kept_or(number.to_string(), || Some(String::new()));
            assert!(tickets.kept.lock().len() <= KEPT);
        }
    }
}
