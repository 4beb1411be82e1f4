//! The credentials of authenticators: hashes of passwords that the policy allows, and certificates.

use weft_identity::Certificate;
use weft_kernel::{Failure, Result};
use weft_model::Snapshot;
use weft_model::entity::{AuthPolicy, CertCredential, Identity, UpdbRules};

use super::password::Hashed;
use crate::handle::Auth;

/// Hashes a new password. Returns the hash and the password, which the decision checks against the
/// rules of the policy.
pub async fn hash(auth: &Auth, password: &str) -> Result<(Hashed, String)> {
    let hashed = auth.hasher().hash(password, auth.kernel().ids().bytes()).await?;
    Ok((hashed, password.to_owned()))
}

/// Checks a new password against the policy of its identity (docs/protocol/auth.md 7.3).
pub fn check_password(snapshot: &Snapshot, identity: &Identity, password: &str) -> Result<()> {
    let policy = snapshot.get::<AuthPolicy>(&identity.auth_policy_id);
    let rules = policy.map(|policy| policy.updb.clone()).unwrap_or_default();
    match broken_rule(&rules, password) {
        Some(reason) => Err(Failure::field("password", reason, "")),
        None => Ok(()),
    }
}

fn broken_rule(rules: &UpdbRules, password: &str) -> Option<String> {
    let least = rules.min_password_length.max(AuthPolicy::MIN_PASSWORD_LENGTH);
    let has = |test: fn(char) -> bool| password.chars().any(test);
    if password.chars().count() < least as usize {
        return Some(format!("must be at least {least} characters long"));
    }
    if rules.require_mixed_case && !(has(char::is_uppercase) && has(char::is_lowercase)) {
        return Some("must have upper and lower case letters".into());
    }
    if rules.require_number_char && !has(char::is_numeric) {
        return Some("must have a digit".into());
    }
    if rules.require_special_char && !has(|c| !c.is_alphanumeric()) {
        return Some("must have a special character".into());
    }
    None
}

/// A certificate as an authenticator keeps it.
pub fn credential(
    certificate: &Certificate,
    pem: &str,
    is_issued_by_network: bool,
) -> CertCredential {
    CertCredential {
        fingerprint: certificate.fingerprint().into(),
        cert_pem: pem.to_owned(),
        is_issued_by_network,
        public_key_print: certificate.public_key().map(|key| key.print()).unwrap_or_default(),
        ..CertCredential::default()
    }
}
