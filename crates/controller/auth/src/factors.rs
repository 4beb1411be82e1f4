//! The factors of a login: what the policy of an identity asks for, and what a session lacks (docs/protocol/auth.md 8.1).

use weft_model::entity::{ApiSession, AuthPolicy, ExtJwtSigner, Identity, Mfa};
use weft_model::{Id, Snapshot};

/// The login method of a token as a second factor, before the id of its signer.
pub const SECOND_TOKEN: &str = "ejs:";

/// The factors that a session still lacks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outstanding {
    /// A one-time code.
    pub totp: bool,
    /// A token of this signer.
    pub signer: Option<Id>,
}

impl Outstanding {
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// The factors that the auth policy, and a verified second factor, require and a session lacks
/// (docs/protocol/auth.md 8.1). A token of a signer counts for some time, for routers.
pub fn outstanding(snapshot: &Snapshot, session: &ApiSession) -> Outstanding {
    let required = second_factors(snapshot, &session.identity_id);
    let is_enabled =
        |signer: &Id| snapshot.get::<ExtJwtSigner>(signer).is_some_and(|signer| signer.enabled);
    let is_missing = |signer: &Id| !rests_on(session, signer) || !is_enabled(signer);
    let totp = required.totp && !session.is_mfa_complete;
    Outstanding { totp, signer: required.signer.filter(is_missing) }
}

/// Whether a session has a token of this signer as its second factor.
pub(crate) fn rests_on(session: &ApiSession, signer: &Id) -> bool {
    session.external.second_signer.as_ref() == Some(signer) || is_token_given(session, signer)
}

/// Whether a session by signed tokens has a token of this signer as its second factor.
fn is_token_given(session: &ApiSession, signer: &Id) -> bool {
    let of_signer =
        |method: &String| method.strip_prefix(SECOND_TOKEN).is_some_and(|id| id == signer.as_str());
    session.tokens.as_ref().is_some_and(|login| login.methods.iter().any(of_signer))
}

/// The factors that a new session of an identity lacks.
pub(crate) fn second_factors(snapshot: &Snapshot, identity: &Id) -> Outstanding {
    let owner = snapshot.get::<Identity>(identity);
    let policy = owner.and_then(|it| snapshot.get::<AuthPolicy>(&it.auth_policy_id));
    let required = policy.is_some_and(|policy| policy.secondary.require_totp);
    Outstanding {
        totp: required || has_mfa(snapshot, identity),
        signer: policy.and_then(|policy| policy.secondary.require_ext_jwt_signer.clone()),
    }
}

/// Whether a session lacks no factor.
pub fn is_complete(snapshot: &Snapshot, session: &ApiSession) -> bool {
    outstanding(snapshot, session).is_nothing()
}

/// Whether an identity has a verified second factor.
pub(crate) fn has_mfa(snapshot: &Snapshot, identity: &Id) -> bool {
    let mfa = snapshot.by_unique::<Mfa>(Mfa::IDENTITY, identity.as_str());
    mfa.is_some_and(|mfa| mfa.is_verified)
}
