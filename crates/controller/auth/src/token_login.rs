//! Logins with tokens of external signers (docs/protocol/auth.md 13.4).

use std::net::IpAddr;
use std::sync::Arc;

use weft_contract::ErrorCode;
use weft_contract::headers::MAX_BEARERS;
use weft_kernel::{Caller, Failure, Result};
use weft_model::entity::{ExtJwtSigner, Identity};
use weft_model::{Id, Snapshot};

use crate::external_challenge::{Lack, primary};
use crate::external_token::{Claimed, External, Keyed};
use crate::handle::Auth;
use crate::token_refusal::TokenRefused;
use crate::token_rules::forbidden;

/// Tokens of a login that wait to be verified. Their signers are known, and their keys are at hand.
pub(crate) struct Waiting<'t> {
    keyed: Vec<Keyed<'t>>,
    refused: Vec<TokenRefused>,
}

/// The identity that a token logs in.
pub(crate) struct Shown {
    pub(crate) signer: Arc<ExtJwtSigner>,
    pub(crate) identity: Arc<Identity>,
}

/// The identity that a token names: by its external id, or by its id.
pub(crate) fn identity_of<'s>(
    snapshot: &'s Snapshot,
    token: &External,
) -> Option<&'s Arc<Identity>> {
    let name = token.name()?;
    match token.signer.use_external_id {
        true => snapshot.by_unique::<Identity>(Identity::EXTERNAL_ID, name),
        false => snapshot.get::<Identity>(&Id::new(name)),
    }
}

/// Refuses a source that showed too many tokens with wrong signatures.
pub(crate) fn check_source(auth: &Auth, from: Option<IpAddr>) -> Result<()> {
    auth.wrong_tokens().check(from).map_err(|wait| {
        Failure::because(ErrorCode::ServerTooManyRequests, "too many tokens with wrong signatures")
            .with_retry_after(wait)
    })
}

/// Finds the signers and keys of the tokens in a request; keys that are not known are fetched. No signature is
/// verified yet.
pub(crate) async fn find<'t>(
    auth: &Auth,
    caller: &Caller,
    bearers: &[&'t str],
) -> Result<Waiting<'t>> {
    let from = caller.origin.remote.map(|remote| remote.ip());
    check_source(auth, from)?;
    let (mut keyed, mut refused) = (Vec::new(), Vec::new());
    for token in bearers.iter().take(MAX_BEARERS).copied() {
        let found = match Claimed::of(&auth.kernel().snapshot(), None, token) {
            Ok(claimed) => claimed.key(auth, from).await,
            Err(reason) => Err(reason),
        };
        match found {
            Ok(found) => keyed.push(found),
            Err(reason) => refused.push(reason),
        }
    }
    let waiting = Waiting { keyed, refused };
    match waiting.keyed.is_empty() {
        true => Err(refusal(auth, caller, &waiting.refused)),
        false => Ok(waiting),
    }
}

impl Waiting<'_> {
    /// What the tokens are called while they wait for a place.
    pub(crate) fn name(&self) -> String {
        let first = self.keyed.first().map(|keyed| keyed.claimed.signer.base.id.as_str());
        format!("token of {}", first.unwrap_or_default())
    }

    /// Verifies the tokens in turn: the first good one that names an identity logs it in.
    pub(crate) async fn verify(self, auth: &Auth, caller: &Caller) -> Result<Shown> {
        let from = caller.origin.remote.map(|remote| remote.ip());
        let mut refused = self.refused;
        for keyed in self.keyed {
            let judged = keyed.verify_renewing(auth).await;
            match judged.and_then(|token| named(auth, &token)) {
                Ok(shown) => {
                    auth.wrong_tokens().note_right(from);
                    return Ok(shown);
                }
                Err(reason) => {
                    auth.wrong_tokens().note(&caller.origin, keyed.claimed.token, &reason);
                    refused.push(reason);
                }
            }
        }
        Err(refusal(auth, caller, &refused))
    }
}

/// The identity that a verified token logs in, if it may.
fn named(auth: &Auth, token: &External) -> Result<Shown, TokenRefused> {
    let snapshot = auth.kernel().snapshot();
    let identity = identity_of(&snapshot, token).ok_or("the token names no identity")?;
    if identity.is_disabled(auth.kernel().now()) {
        return Err("the identity is disabled".into());
    }
    match forbidden(&snapshot, identity, &token.signer.base.id) {
        Some(reason) => Err(reason.into()),
        None => Ok(Shown { signer: Arc::clone(&token.signer), identity: Arc::clone(identity) }),
    }
}

/// The refusal of a login: the same for all reasons, with a challenge. The reason is in the log.
fn refusal(auth: &Auth, caller: &Caller, refused: &[TokenRefused]) -> Failure {
    for reason in refused {
        auth.refusals().write_token(caller, "a login", reason);
    }
    if refused.iter().any(|reason| matches!(reason, TokenRefused::Busy(_))) {
        let text = "too many tokens wait for the keys of their signers";
        return Failure::because(ErrorCode::ServerTooManyRequests, text);
    }
    let failure = Failure::from(ErrorCode::InvalidAuth);
    match primary(&auth.kernel().snapshot(), Lack::of(refused)) {
        Some(challenge) => failure.with_challenge_text(challenge),
        None => failure,
    }
}
