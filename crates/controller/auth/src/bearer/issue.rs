//! Signs the tokens of a session (docs/protocol/auth.md 15.5, 15.6).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use weft_identity::token::TokenSigner;
use weft_kernel::{Failure, Result};
use weft_model::entity::{ApiSession, Identity, TokenLogin};
use weft_model::token::{AccessClaims, TokenKind};
use weft_model::{Id, Timestamp};

use super::claims::Facts;
use crate::handle::Auth;
use crate::tokens::sign_with;

/// The scope with which a client asks for refresh tokens.
pub(crate) const OFFLINE: &str = "offline_access";
/// The scope with which a client asks for ID tokens.
pub(crate) const OPENID: &str = "openid";

/// Tokens that a client gets together.
#[derive(Debug, Clone)]
pub struct TokenSet {
    /// The access token.
    pub access: String,
    /// The refresh token, if the client asked for `offline_access`.
    pub refresh: Option<String>,
    /// The ID token, if the client asked for `openid`.
    pub id: Option<String>,
    /// Life of the access token in seconds.
    pub expires_in: u64,
    /// The scopes of the tokens.
    pub scopes: Vec<String>,
}

impl Auth {
    /// Issues tokens of a session, and moves its end to theirs. `change` sets what is new about the tokens, such as
    /// the number of the refresh token, or refuses. `scopes` are those of the new tokens, if these have fewer than the
    /// session.
    pub(crate) fn issue_tokens<E: From<Failure>>(
        &self,
        session: &Id,
        scopes: Option<Vec<String>>,
        change: impl FnOnce(&mut TokenLogin) -> Result<(), E>,
    ) -> Result<TokenSet, E> {
        self.may_sign()?;
        let now = self.kernel().now();
        let durations = &self.kernel().settings().durations;
        let (access, refresh) =
            (now.plus(durations.access_token), now.plus(durations.refresh_token));
        let mut refused = None;
        let mut ends = (access, access);
        let (signer, settled) = (self.token_signer(), self.settled_now());
        let changed = self.sessions().change(session, now, |session| {
            let Some(mut login) = session.tokens.take() else { return };
            let is_stolen = self.is_of_stolen_key(&login, signer.kid());
            let changed = if is_stolen { Err(E::from(ended())) } else { change(&mut login) };
            match changed {
                Ok(()) => {
                    let within = |end: Timestamp| login.last_end.map_or(end, |last| last.min(end));
                    ends = (within(access), within(refresh));
                    let is_refreshed = login.scopes.iter().any(|scope| scope == OFFLINE);
                    login.ends_at = if is_refreshed { ends.0.max(ends.1) } else { ends.0 };
                    login.issued_at = now;
                    self.note_signer(&mut login, signer.kid(), settled);
                }
                Err(error) => refused = Some(error),
            }
            session.tokens = Some(login);
        });
        if let Some(error) = refused {
            return Err(error);
        }
        let changed = changed.ok_or_else(|| E::from(ended()))?;
        Ok(self.sign_tokens(&signer, &changed, scopes, ends, now)?)
    }

    /// Notes that a key signs tokens of a session, and forgets keys whose tokens have all ended by then, so that a session
    /// that is refreshed for years keeps no former key.
    fn note_signer(&self, login: &mut TokenLogin, kid: &str, settled: Option<Timestamp>) {
        let keys = self.token_keys();
        let ring = keys.ring.load();
        login.signed_by.retain(|known| {
            known != kid
                && (ring.stages.may_have_tokens(known, keys.pace, settled)
                    || self.token_key_of_others(known).is_some())
        });
        login.signed_by.push(kid.to_owned());
    }

    /// Whether a key that signed or is to sign for a session was stolen meanwhile: then the session is about to end, and no
    /// other key may take its place before.
    fn is_of_stolen_key(&self, login: &TokenLogin, signer: &str) -> bool {
        let ring = self.token_keys().ring.load();
        let mut known = login.signed_by.iter().map(String::as_str).chain([signer]);
        known.any(|kid| ring.stages.is_stolen(kid))
    }

    /// Signs the tokens of a session with these ends of access and refresh token.
    fn sign_tokens(
        &self,
        signer: &TokenSigner,
        session: &ApiSession,
        scopes: Option<Vec<String>>,
        (access_end, refresh_end): (Timestamp, Timestamp),
        now: Timestamp,
    ) -> Result<TokenSet> {
        let snapshot = self.kernel().snapshot();
        let login = session.tokens.as_deref().ok_or_else(ended)?;
        let identity = snapshot.get::<Identity>(&session.identity_id).ok_or_else(ended)?;
        let scopes = scopes.unwrap_or_else(|| login.scopes.clone());
        let facts = Facts { snapshot: &snapshot, session, login, scopes: &scopes, identity, now };
        let has = |scope: &str| scopes.iter().any(|own| own == scope);
        // The first access token has the id of its refresh token, as the original's has.
        let is_first = login.refresh_number <= 1;
        let jti = if is_first {
            login.refresh_id.clone()
        } else {
            self.kernel().ids().token().to_string()
        };
        let access = sign_with(signer, &facts.access(TokenKind::Access, &jti, access_end))?;
        let refresh = match login.scopes.iter().any(|own| own == OFFLINE) {
            true => {
                // Fewer scopes are those of the access token only.
                let whole = Facts { scopes: &login.scopes, ..facts };
                let claims = whole.access(TokenKind::Refresh, &login.refresh_id, refresh_end);
                Some(sign_with(signer, &claims)?)
            }
            false => None,
        };
        let id = match has(OPENID) {
            true => Some(self.sign_id(&facts, &access)?),
            false => None,
        };
        Ok(TokenSet { access, refresh, id, expires_in: seconds(access_end, now), scopes })
    }

    /// Signs the ID token that belongs to an access token. No router reads it, and clients expect the announced algorithm.
    fn sign_id(&self, facts: &Facts<'_>, access: &str) -> Result<String> {
        let end = facts.now.plus(self.kernel().settings().durations.id_token);
        let end = facts.login.last_end.map_or(end, |last| last.min(end));
        sign_with(&self.token_keys().signer(), &facts.id(end, at_hash(access)))
    }

    /// An ID token of a session, without an access token; and its life in seconds.
    pub(crate) fn id_token(&self, session: &ApiSession) -> Result<(String, u64)> {
        self.may_sign()?;
        let (now, snapshot) = (self.kernel().now(), self.kernel().snapshot());
        let login = session.tokens.as_deref().ok_or_else(ended)?;
        let identity = snapshot.get::<Identity>(&session.identity_id).ok_or_else(ended)?;
        let scopes = &login.scopes;
        let facts = Facts { snapshot: &snapshot, session, login, scopes, identity, now };
        let end = now.plus(self.kernel().settings().durations.id_token).min(login.ends_at);
        let token = sign_with(&self.token_keys().signer(), &facts.id(end, String::new()))?;
        Ok((token, seconds(end, now)))
    }

    /// One more access token of a session, which does not outlive it; and its life in seconds. `number` is that of the
    /// token that it is exchanged for.
    pub(crate) fn access_token(
        &self,
        session: &ApiSession,
        scopes: Vec<String>,
        number: u64,
    ) -> Result<(String, u64)> {
        self.may_sign()?;
        let (now, snapshot) = (self.kernel().now(), self.kernel().snapshot());
        let login = session.tokens.as_deref().ok_or_else(ended)?;
        let identity = snapshot.get::<Identity>(&session.identity_id).ok_or_else(ended)?;
        let facts = Facts { snapshot: &snapshot, session, login, scopes: &scopes, identity, now };
        let end = now.plus(self.kernel().settings().durations.access_token).min(login.ends_at);
        let jti = self.kernel().ids().token().to_string();
        let claims = AccessClaims { z_rn: number, ..facts.access(TokenKind::Access, &jti, end) };
        let (signer, settled) = (self.token_signer(), self.settled_now());
        if self.is_of_stolen_key(login, signer.kid()) {
            return Err(ended());
        }
        if !login.signed_by.iter().any(|kid| kid == signer.kid()) {
            let mut is_stolen = false;
            let changed = self.sessions().change(&session.base.id, now, |session| {
                let Some(login) = &mut session.tokens else { return };
                is_stolen = self.is_of_stolen_key(login, signer.kid());
                if !is_stolen {
                    self.note_signer(login, signer.kid(), settled);
                }
            });
            changed.filter(|_| !is_stolen).ok_or_else(ended)?;
        }
        Ok((sign_with(&signer, &claims)?, seconds(end, now)))
    }
}

fn seconds(end: Timestamp, now: Timestamp) -> u64 {
    end.since(now).as_secs()
}

fn ended() -> Failure {
    Failure::unauthorized("the session has ended")
}

/// The claim `at_hash`: the left half of the access token's digest, which is SHA-256 for signatures with P-256.
fn at_hash(access: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(&Sha256::digest(access)[..16])
}
