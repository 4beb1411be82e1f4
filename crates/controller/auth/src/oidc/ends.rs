//! The end of sessions by OpenID Connect: revocation and logout (docs/protocol/auth.md 16).

use std::time::SystemTime;

use serde::Deserialize;
use weft_identity::token::{Expect, TokenError};
use weft_kernel::clock::system_time;
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Result};
use weft_model::entity::{Identity, Revocation, RevocationType};
use weft_model::token::{AUDIENCE, AccessClaims, LEGACY_AUDIENCE};
use weft_model::{Base, Id, Timestamp};
use weft_oidc::end_session::{IdTokenHint, LogoutOutcome, LogoutRequest, confirmation};
use weft_oidc::params::Params;
use weft_oidc::revoke::{RevokeRequest, Revoked};
use weft_oidc::{browser, pages};

use super::{OidcReply, OidcRequest};
use crate::bearer::revoke::revoke_unknown;
use crate::handle::Auth;

/// The claims of an ID token that a logout looks at.
#[derive(Debug, Deserialize)]
struct Ended {
    azp: String,
    z_asid: String,
    exp: i64,
    /// Tokens of other kinds have it.
    #[serde(default)]
    z_t: Option<String>,
}

impl Auth {
    /// `POST /revoke`: a client gives a token back.
    pub(super) async fn revoke(&self, request: &OidcRequest) -> OidcReply {
        let basic = request.authorizations.first().map(String::as_str);
        let read = RevokeRequest::read(request.content_type.as_deref(), &request.body, basic);
        let wanted = match read {
            Ok(wanted) => wanted,
            Err(problem) => return OidcReply::problem(&problem),
        };
        let claims: Option<AccessClaims> = self.signed_here(&wanted.token);
        let done = match wanted.revoked(claims.as_ref()) {
            Revoked::Nothing => Ok(()),
            Revoked::Session(id) => self.end_shown(&Id::new(&id), &wanted.token, claims).await,
            Revoked::Token(id) => match claims {
                Some(claims) => self.revoke_token(&Id::new(&id), &wanted.token, claims).await,
                None => Ok(()),
            },
        };
        match done {
            Ok(()) => OidcReply::json(200, "{}"),
            Err(failure) => OidcReply::failure(&failure),
        }
    }

    /// Revokes one access token until it expires.
    async fn revoke_token(&self, jti: &Id, token: &str, claims: AccessClaims) -> Result<()> {
        let end = Timestamp::from_secs(claims.exp);
        if end <= self.kernel().now() || self.kernel().snapshot().get::<Revocation>(jti).is_some() {
            return Ok(());
        }
        // Each one is a row of the model, which every router gets: beyond some of them the session ends with its token.
        if !self.sessions().unrevoked().count_token(&Id::new(&claims.sub)) {
            return self.end_shown(&Id::new(&claims.z_asid), token, Some(claims)).await;
        }
        let jti = jti.clone();
        let put = move |decision: &mut Decision<'_>| {
            decision.put(Revocation {
                base: Base::new(jti.clone(), decision.now()),
                revocation_type: RevocationType::Jti,
                expires_at: end,
                ..Revocation::default()
            });
            Ok(())
        };
        self.kernel().decide(&Caller::own("revocation of a token"), put).await.map(drop)
    }

    /// Ends a session by signed tokens.
    async fn end_one(&self, session: &Id) -> Result<()> {
        match self.sessions().by_id(session.as_str()) {
            Some(known) if known.tokens.is_some() => {
                self.sessions().end(std::slice::from_ref(session));
                self.sessions().kept().await
            }
            _ => Ok(()),
        }
    }

    /// Ends the session of a token, also if it is one of the program that signed before weft first started and none of its
    /// tokens was shown here yet.
    async fn end_shown(
        &self,
        session: &Id,
        token: &str,
        claims: Option<AccessClaims>,
    ) -> Result<()> {
        if self.sessions().by_id(session.as_str()).is_some() {
            return self.end_one(session).await;
        }
        let header = weft_identity::token::peek::<serde::de::IgnoredAny>(token);
        let kid = header.ok().and_then(|(header, _)| header.kid).unwrap_or_default();
        let (now, snapshot) = (self.kernel().now(), self.kernel().snapshot());
        let is_good = |claims: &AccessClaims| {
            Timestamp::from_secs(claims.exp) > now && self.earlier_token(claims, &kid).is_some()
        };
        let owner = claims.filter(is_good).map(|claims| Id::new(&claims.sub));
        let owner = owner.filter(|owner| snapshot.get::<Identity>(owner).is_some());
        match owner {
            Some(owner) if snapshot.get::<Revocation>(session).is_none() => {
                revoke_unknown(self, session, &owner).await
            }
            _ => Ok(()),
        }
    }

    /// `/end_session`: a program sends the browser here after a logout.
    pub(super) async fn end_session(&self, request: &OidcRequest) -> OidcReply {
        let failed = |problem: &weft_oidc::problem::OidcError| match request.wants_page() {
            true => OidcReply::page(400, &pages::problem(&request.host, &problem.description)),
            false => OidcReply::problem(problem),
        };
        let read = Params::read(&request.query, request.form());
        let wanted = read.and_then(|params| LogoutRequest::read(&params, &request.door.logouts));
        let wanted = match wanted {
            Ok(wanted) => wanted,
            Err(problem) => return failed(&problem),
        };
        let hint = wanted.hint.as_deref().and_then(|hint| self.hint_of(hint));
        let has_ended = match wanted.end(hint.as_ref(), request.browser()) {
            Err(problem) => return failed(&problem),
            Ok(LogoutOutcome::Ask(session)) => return self.ask_to_end(request, &session),
            Ok(LogoutOutcome::Nothing) => false,
            Ok(LogoutOutcome::Session(session)) => match self.end_one(&Id::new(&session)).await {
                Ok(()) => true,
                Err(failure) => return OidcReply::failure(&failure),
            },
        };
        match wanted.to {
            Some(to) => OidcReply::redirect(to),
            None => OidcReply::page(200, &pages::logged_out(&request.host, has_ended)),
        }
    }

    /// The page that asks whether a session is to end.
    fn ask_to_end(&self, request: &OidcRequest, session: &str) -> OidcReply {
        let (snapshot, known) = (self.kernel().snapshot(), self.sessions().by_id(session));
        let identity = known.and_then(|it| snapshot.get::<Identity>(&it.identity_id).cloned());
        let Some(identity) = identity else {
            return OidcReply::page(200, &pages::logged_out(&request.host, false));
        };
        let secret = browser::secret_for(request.browser(), &self.kernel().ids().bytes());
        let Ok(params) = Params::read(&request.query, request.form()) else {
            return OidcReply::page(200, &pages::logged_out(&request.host, false));
        };
        let names = ["id_token_hint", "client_id", "post_logout_redirect_uri", "state"];
        let kept: Vec<(&str, &str)> = names
            .into_iter()
            .filter_map(|name| Some((name, params.one(name, super::MAX_REPEATED).ok()??)))
            .collect();
        let to = params.one("post_logout_redirect_uri", super::MAX_REPEATED).ok().flatten();
        let to = to.and_then(|uri| request.door.logouts.find(uri));
        let target = to.as_ref().map(weft_oidc::uris::Uri::origin);
        let confirm = confirmation(&secret, session);
        let page = pages::end_question(&request.host, &identity.name, &kept, &confirm, target);
        OidcReply::page(200, &page).with("set-cookie", browser::set_cookie(&secret))
    }

    /// What an ID token says of its session, if it is one of this network's.
    fn hint_of(&self, token: &str) -> Option<IdTokenHint> {
        let claims: Ended = self.signed_here(token)?;
        if claims.z_t.is_some() {
            return None;
        }
        let has_expired = Timestamp::from_secs(claims.exp) <= self.kernel().now();
        Some(IdTokenHint { session: claims.z_asid, client: claims.azp, has_expired })
    }

    /// The claims of a token that this network signed, whether or not it has expired.
    fn signed_here<T: serde::de::DeserializeOwned>(&self, token: &str) -> Option<T> {
        let read = |now: SystemTime| {
            let expect = Expect {
                now,
                issuer: None,
                audience: &[AUDIENCE, LEGACY_AUDIENCE],
                require_expiry: true,
                longest: None,
            };
            weft_identity::token::verify(token, |kid| self.token_key(kid), &expect)
        };
        match read(system_time(self.kernel().now())) {
            // Just before its end a token was good.
            Err(TokenError::Expired) => {
                let (_, claims): (_, Expiry) = weft_identity::token::peek(token).ok()?;
                let before = Timestamp::from_secs(claims.exp.saturating_sub(1));
                read(system_time(before)).ok()
            }
            other => other.ok(),
        }
    }
}

#[derive(Deserialize)]
struct Expiry {
    exp: i64,
}
