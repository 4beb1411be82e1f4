//! Which external signers may log an identity in (docs/protocol/auth.md 8.1).

use weft_model::entity::{AuthPolicy, Identity};
use weft_model::{Id, Snapshot};

/// Why the policy of an identity does not let tokens of a signer log it in; none if it does. An identity that
/// enrolled itself by a signer or a CA is logged in by that one only, unless the policy names others: another
/// provider may give the same name to somebody else.
pub(crate) fn forbidden(
    snapshot: &Snapshot,
    identity: &Identity,
    signer: &Id,
) -> Option<&'static str> {
    // Nothing is allowed without a policy.
    let policy = snapshot.get::<AuthPolicy>(&identity.auth_policy_id);
    let rules = policy.map(|policy| &policy.ext_jwt).filter(|rules| rules.allowed);
    let Some(rules) = rules else { return Some("its policy allows no login with tokens") };
    let named = &rules.allowed_signers;
    if named.is_empty() {
        let is_other = identity.enrolled_by.as_ref().is_some_and(|by| by != signer);
        return is_other.then_some(
            "it enrolled itself by another signer or authority, and its policy names no signer",
        );
    }
    (!named.contains(signer)).then_some("its policy names other signers")
}
