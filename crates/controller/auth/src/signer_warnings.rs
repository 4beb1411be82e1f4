//! Warnings at the start about external signers: URLs of keys that are not fetched, and signers that could name the
//! same identities.

use std::collections::BTreeSet;

use weft_model::Snapshot;
use weft_model::entity::{AuthPolicy, ExtJwtSigner, Identity};

use crate::fetch_policy::check_url;
use crate::handle::Auth;

/// Most warnings of one kind.
const MOST: usize = 20;
/// Most signers that are compared with each other.
const MOST_COMPARED: usize = 1000;

/// Writes the warnings to the log.
pub(crate) fn warn(auth: &Auth, snapshot: &Snapshot) {
    let rules = &auth.kernel().settings().jwks_fetch;
    let enabled = || snapshot.list::<ExtJwtSigner>().filter(|signer| signer.enabled);
    let refused = enabled().filter_map(|signer| {
        let endpoint = signer.jwks_endpoint.as_deref()?;
        Some((&signer.name, endpoint, check_url(rules, endpoint).err()?))
    });
    for (signer, endpoint, reason) in refused.take(MOST) {
        tracing::warn!(%signer, %endpoint, %reason, "the keys of an external signer are not fetched, and its tokens are refused");
    }
    for (one, other) in alike(snapshot).into_iter().take(MOST) {
        tracing::warn!(signer = %one, %other, "two external signers name identities in the same way, and an auth policy in use lets both log them in: whoever one provider calls like somebody of the other is let in as them; name the signers of the policy in primary.extJwt.allowedSigners");
    }
}

/// Pairs of enabled signers, by name, that could name the same identities: both by external id, or both by id, under
/// an auth policy of some identity that lets both log it in.
pub fn alike(snapshot: &Snapshot) -> Vec<(String, String)> {
    let used: BTreeSet<_> = snapshot.list::<Identity>().map(|it| &it.auth_policy_id).collect();
    let policies: Vec<&AuthPolicy> = used
        .into_iter()
        .filter_map(|id| snapshot.get::<AuthPolicy>(id).map(|policy| &**policy))
        .filter(|policy| policy.ext_jwt.allowed && policy.ext_jwt.allowed_signers.len() != 1)
        .collect();
    let lets_in = |policy: &AuthPolicy, signer: &ExtJwtSigner| {
        let named = &policy.ext_jwt.allowed_signers;
        named.is_empty() || named.contains(&signer.base.id)
    };
    let enabled = snapshot.list::<ExtJwtSigner>().filter(|it| it.enabled);
    let enabled: Vec<_> = enabled.take(MOST_COMPARED).collect();
    let mut found = Vec::new();
    for (at, one) in enabled.iter().enumerate() {
        for other in enabled.iter().skip(at + 1) {
            let is_shared = one.use_external_id == other.use_external_id
                && policies.iter().any(|policy| lets_in(policy, one) && lets_in(policy, other));
            if is_shared {
                found.push((one.name.to_string(), other.name.to_string()));
            }
            if found.len() == MOST {
                return found;
            }
        }
    }
    found
}
