//! Tokens of external signers as second factor of a session (docs/protocol/auth.md 10.1): every request shows one
//! beside the session, and it names the identity of the session.
//!
//! Routers see no token. For them the session has its second factor while the token that was shown last is good, and
//! at least for the time for which the session may be idle; a session outlives no token by more than that.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use weft_contract::headers::MAX_BEARERS;
use weft_kernel::{Caller, Origin};
use weft_model::entity::ApiSession;
use weft_model::{Id, Snapshot, Timestamp};

use crate::external_challenge::{Lack, secondary};
use crate::external_token::{Claimed, External, verify_known};
use crate::factors::{is_complete, second_factors};
use crate::handle::Auth;
use crate::resolve::RequestCredentials;
use crate::token_login::{check_source, identity_of};
use crate::token_refusal::TokenRefused;

/// The end of the second factor for routers is moved if it would be later by this part of the time for which a session
/// may be idle: not every request writes the session.
const STEP: u32 = 4;

/// The token of a signer among these that names an identity. Those with wrong signatures are counted against their source;
/// from one that showed too many of them only those are good that were verified before.
pub(crate) fn shown<'t>(
    auth: &Auth,
    snapshot: &Snapshot,
    (signer, identity): (&Id, &Id),
    tokens: impl Iterator<Item = &'t str>,
    origin: &Origin,
) -> Result<External, Vec<TokenRefused>> {
    let is_limited = check_source(auth, origin.ip()).is_err();
    let mut refused = Vec::new();
    for token in tokens.take(MAX_BEARERS) {
        match verify_known(auth, snapshot, signer, token, is_limited) {
            Ok(token)
                if identity_of(snapshot, &token).is_some_and(|it| it.base.id == *identity) =>
            {
                return Ok(token);
            }
            Ok(_) => refused.push("the token names another identity than the session".into()),
            Err(reason) => {
                auth.wrong_tokens().note(origin, token, &reason);
                refused.push(reason);
            }
        }
    }
    Err(refused)
}

impl Auth {
    /// Fetches the keys for the tokens that come with a session, if its identity needs one of them as second
    /// factor and a key is not known.
    pub async fn fetch_keys_for(&self, credentials: &RequestCredentials) {
        let token = credentials.session.as_deref().filter(|token| !token.is_empty());
        let session = token.filter(|_| !credentials.bearers.is_empty());
        let session =
            session.and_then(|token| self.sessions().by_token(token, self.kernel().now()));
        let Some(session) = session else { return };
        let snapshot = self.kernel().snapshot();
        let Some(signer) = second_factors(&snapshot, &session.identity_id).signer else { return };
        self.fetch_keys(
            &snapshot,
            &signer,
            credentials.bearers.iter().map(String::as_str),
            &credentials.origin,
        )
        .await;
    }

    async fn fetch_keys<'t>(
        &self,
        snapshot: &Snapshot,
        signer: &Id,
        tokens: impl Iterator<Item = &'t str>,
        origin: &Origin,
    ) {
        let from = origin.ip();
        if check_source(self, from).is_err() {
            return;
        }
        for token in tokens.take(MAX_BEARERS) {
            if let Ok(claimed) = Claimed::of(snapshot, Some(signer), token)
                && let Err(reason) = self.renewed_key(claimed, from).await
            {
                tracing::debug!(%signer, %reason, "the second factor of a session is not verified");
            }
        }
    }

    /// Fetches the key of a token: for the first time, or because the provider has given its name to another key.
    async fn renewed_key(
        &self,
        claimed: Claimed<'_>,
        from: Option<IpAddr>,
    ) -> Result<(), TokenRefused> {
        claimed.key(self, from).await?.verify_renewing(self).await.map(drop)
    }

    /// The second factor in the request of a login: its signer, and the time until which it counts for routers.
    pub(crate) async fn second_of_login<'t>(
        &self,
        identity: &Id,
        caller: &Caller,
        tokens: impl Iterator<Item = &'t str> + Clone,
    ) -> Option<(Id, Timestamp)> {
        let snapshot = self.kernel().snapshot();
        let signer = second_factors(&snapshot, identity).signer?;
        self.fetch_keys(&snapshot, &signer, tokens.clone(), &caller.origin).await;
        let token = shown(self, &snapshot, (&signer, identity), tokens, &caller.origin).ok()?;
        self.wrong_tokens().note_right(caller.origin.ip());
        let until = self.second_until(&token);
        Some((signer, until))
    }

    fn second_until(&self, token: &External) -> Timestamp {
        let (now, settings) = (self.kernel().now(), self.kernel().settings());
        let idle = now.plus(settings.durations.session);
        let longest = now.plus(settings.external_tokens.session_max_duration);
        token.expiry().map_or(idle, |expiry| expiry.max(idle)).min(longest)
    }

    /// Notes the second factor in a request of a session, for routers.
    pub(crate) fn note_second(
        &self,
        snapshot: &Snapshot,
        session: &Arc<ApiSession>,
        origin: &Origin,
    ) {
        let Some(signer) = second_factors(snapshot, &session.identity_id).signer else { return };
        let identity = &session.identity_id;
        let found = shown(self, snapshot, (&signer, identity), origin.tokens.iter(), origin);
        let Ok(token) = found else { return };
        let (until, now) = (self.second_until(&token), self.kernel().now());
        let external = &session.external;
        let known =
            external.second_until.filter(|_| external.second_signer.as_ref() == Some(&signer));
        let step: Duration = self.kernel().settings().durations.session / STEP;
        if known.is_some_and(|known| until < known.plus(step)) {
            return;
        }
        self.wrong_tokens().note_right(origin.ip());
        let was_complete = is_complete(snapshot, session);
        let changed = self.sessions().change(&session.base.id, now, |session| {
            session.external.second_signer = Some(signer);
            session.external.second_until = Some(until);
        });
        if let Some(changed) = changed.filter(|it| !was_complete && is_complete(snapshot, it)) {
            self.sessions().make_room(&changed, |it| is_complete(snapshot, it));
        }
    }

    /// The challenge for a caller whose session lacks a token of a signer; none if it lacks none.
    pub fn second_challenge(&self, caller: &Caller) -> Option<String> {
        let login = caller.login().filter(|login| !login.complete)?;
        let snapshot = self.kernel().snapshot();
        let identity = Id::new(&login.identity);
        let signer = second_factors(&snapshot, &identity).signer?;
        self.challenge_of(&snapshot, (&signer, &identity), caller.origin.tokens.iter(), caller)
    }

    /// The challenge for an identity that lacks a token of a signer; none if one of these tokens is good.
    pub(crate) fn challenge_of<'t>(
        &self,
        snapshot: &Snapshot,
        (signer, identity): (&Id, &Id),
        tokens: impl Iterator<Item = &'t str>,
        caller: &Caller,
    ) -> Option<String> {
        let refused = shown(self, snapshot, (signer, identity), tokens, &caller.origin).err()?;
        Some(secondary(snapshot, signer, Lack::of(&refused)))
    }
}
