//! Reads the signed tokens of sessions, and finds their sessions (docs/protocol/auth.md 10.1, 16).

use std::cell::Cell;
use std::sync::Arc;

use weft_identity::token::{Expect, TokenError};
use weft_kernel::clock::system_time;
use weft_model::entity::{ApiSession, Revocation, TokenLogin};
use weft_model::token::{AUDIENCE, AccessClaims, LEGACY_AUDIENCE, TokenKind};
use weft_model::{Id, Snapshot, Timestamp};

use super::adopted::names_no_scope;
use crate::handle::Auth;

/// Why a signed token proves no session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BearerRefusal {
    /// The token was good, and has expired.
    #[error("the token has expired")]
    Expired,
    /// The token is none of this network's, or of another kind.
    #[error("{0}")]
    Invalid(String),
    /// The token was revoked, or its session has ended.
    #[error("the session of the token has ended")]
    Ended,
}

impl From<TokenError> for BearerRefusal {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Expired => Self::Expired,
            other => Self::Invalid(other.to_string()),
        }
    }
}

/// A session that a token proves.
#[derive(Debug, Clone)]
pub(crate) struct Proven {
    pub(crate) session: Arc<ApiSession>,
    pub(crate) claims: AccessClaims,
}

impl Proven {
    /// What the session has by its tokens.
    pub(crate) fn login(&self) -> Option<&TokenLogin> {
        self.session.tokens.as_deref()
    }
}

impl Auth {
    /// Whether the header of a token names a key of this network, so that the token is none of an external signer. A
    /// signer with the issuer of this controller captures no token of it.
    pub(crate) fn is_own_token(&self, token: &str) -> bool {
        let header = weft_identity::token::peek::<serde::de::IgnoredAny>(token);
        let kid = header.ok().and_then(|(header, _)| header.kid);
        kid.is_some_and(|kid| self.token_key(&kid).is_some())
    }

    /// The session of a token of this kind. Its credentials, and the proof that the bearer has the key of the token, are
    /// still to be judged.
    pub(crate) fn proven(
        &self,
        snapshot: &Snapshot,
        token: &str,
        kind: TokenKind,
        now: Timestamp,
    ) -> Result<Proven, BearerRefusal> {
        let expect = Expect {
            now: system_time(now),
            issuer: None,
            audience: &[AUDIENCE, LEGACY_AUDIENCE],
            require_expiry: true,
            longest: None,
        };
        let kid = Cell::new(None);
        let key = |named: &str| {
            kid.set(Some(named.to_owned()));
            self.token_key(named)
        };
        let mut claims: AccessClaims = self.0.seen_tokens.verify(token, key, &expect)?;
        claims.check(kind, now).map_err(|error| BearerRefusal::Invalid(error.to_string()))?;
        let revoked = |id: &str| snapshot.get::<Revocation>(&Id::new(id)).map(|found| &**found);
        if claims.is_revoked(revoked) {
            return Err(BearerRefusal::Ended);
        }
        let kid = kid.take().unwrap_or_default();
        let session = self.sessions().by_id(&claims.z_asid);
        let session = session.or_else(|| self.adopted(&claims, &kid, now)).filter(|session| {
            session.tokens.is_some()
                && session.identity_id.as_str() == claims.sub
                && self.sessions().expires_at(session) > now
        });
        let session = session.ok_or(BearerRefusal::Ended)?;
        // What the original gave for a refresh token names no scopes, and has those of its login.
        if names_no_scope(&claims) && self.earlier_token(&claims, &kid).is_some() {
            let login = session.tokens.as_deref();
            claims.scopes = login.map(|login| login.scopes.clone()).unwrap_or_default();
        }
        // A key that never signed for the session makes no tokens of it, whoever has that key.
        let signed_by = session.tokens.as_deref().map(|login| &login.signed_by[..]);
        match signed_by.is_some_and(|known| known.is_empty() || known.contains(&kid)) {
            true => Ok(Proven { session, claims }),
            false => Err(BearerRefusal::Invalid("another key signs for the session".into())),
        }
    }

    /// Notes that a token was seen that was issued with the newest refresh token of its session: the client has got the
    /// answer to its last refresh.
    pub(crate) fn saw_newest(&self, proven: &Proven, now: Timestamp) {
        let is_news = proven.login().is_some_and(|login| {
            login.refresh_seen_at.is_none() && login.refresh_number == proven.claims.z_rn
        });
        if !is_news {
            return;
        }
        self.sessions().change(&proven.session.base.id, now, |session| {
            if let Some(login) = &mut session.tokens
                && login.refresh_number == proven.claims.z_rn
            {
                login.refresh_seen_at.get_or_insert(now);
            }
        });
    }
}
