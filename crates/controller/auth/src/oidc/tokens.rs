//! The token endpoint, and `userinfo` (docs/protocol/auth.md 15.5).

use std::time::{Duration, Instant};

use weft_contract::ErrorCode;
use weft_identity::Certificate;
use weft_kernel::events::SessionChange;
use weft_kernel::{Challenge, Failure};
use weft_model::entity::{ApiSession, Identity, TokenLogin};
use weft_model::token::TokenKind;
use weft_model::{Id, Timestamp};
use weft_oidc::client::Client;
use weft_oidc::login::Granted;
use weft_oidc::logins::Redeemed;
use weft_oidc::problem::{OidcError, OidcErrorCode};
use weft_oidc::refresh::{Numbers, Proof, RefreshVerdict, RequestedTokens};
use weft_oidc::scopes::Scopes;
use weft_oidc::token_request::{
    TokenAnswer, TokenGrant, TokenRequest, TokenType, exchanged, narrowed, proof,
};
use weft_oidc::userinfo;

use super::grant::{Given, Opening, problem_of, refused};
use super::unfinished::LoginFacts;
use super::{OidcReply, OidcRequest};
use crate::bearer::shown::is_shown;
use crate::bearer::verify::Proven;
use crate::bearer::{BearerRefusal, TokenSet};
use crate::factors::is_complete;
use crate::handle::Auth;
use crate::sessions::stands;

/// The time before the fixed end of a session in which its tokens are refreshed no more: what follows would end at the same
/// time. The native SDK (1.18.7) refreshes a token with less than 15 s each second until it is refused, and then logs in
/// again.
const LAST: Duration = Duration::from_secs(15);

/// A refusal, and the reason for which the session ends.
enum Turned {
    Refused(OidcError),
    Revoke { problem: OidcError, reason: String },
}

impl From<Failure> for Turned {
    fn from(failure: Failure) -> Self {
        Self::Refused(problem_of(&failure))
    }
}

/// A token that was verified, and may be used by the client that shows it.
struct Subject {
    proven: Proven,
    proof: Proof,
    /// The scopes that the new tokens have.
    scopes: Scopes,
}

impl Auth {
    /// `POST /oauth/token`.
    pub(super) async fn token_endpoint(&self, request: &OidcRequest) -> OidcReply {
        let basic = request.authorizations.first().map(String::as_str);
        let read = TokenRequest::read(request.content_type.as_deref(), &request.body, basic);
        let answered = match read {
            Ok(wanted) => self.answer_tokens(request, wanted).await,
            Err(problem) => Err(problem),
        };
        match answered {
            Ok(answer) => OidcReply::json(200, answer.body()),
            Err(problem) => {
                tracing::debug!(%problem, "a request for tokens is refused");
                let reply = OidcReply::problem(&problem);
                match problem.code {
                    OidcErrorCode::TemporarilyUnavailable => reply.with("retry-after", "1"),
                    _ => reply,
                }
            }
        }
    }

    async fn answer_tokens(
        &self,
        request: &OidcRequest,
        TokenRequest { client, grant, csr }: TokenRequest,
    ) -> Result<TokenAnswer, OidcError> {
        self.admits_logins().map_err(|failure| problem_of(&failure))?;
        match grant {
            TokenGrant::Code { code, verifier, redirect } => {
                let redeemed = self.unfinished().lock().redeem(
                    &code,
                    client,
                    &redirect,
                    &verifier,
                    Instant::now(),
                );
                self.redeemed(request, redeemed, csr).await
            }
            TokenGrant::Device { code } => {
                let granted = self.unfinished().lock().ask(&code, client, Instant::now())?;
                let facts = LoginFacts { caller: request.caller.clone(), ..granted.kept };
                let granted = Granted { kept: facts, ..granted };
                let opening = Opening { issuer: issuer_of(request), csr, is_device: true };
                Ok(whole(self.open_granted(granted, opening).await?))
            }
            TokenGrant::Refresh { token, scopes } => {
                let subject = self.subject(request, client, &token, TokenKind::Refresh, scopes)?;
                Ok(whole(self.refreshed(request, &subject, csr).await?))
            }
            TokenGrant::Exchange { subject, subject_type, requested, scopes } => {
                let kind = match subject_type {
                    TokenType::Access => TokenKind::Access,
                    TokenType::Refresh => TokenKind::Refresh,
                    TokenType::Id => return Err(exchanged_for_nothing()),
                };
                let subject = self.subject(request, client, &subject, kind, scopes)?;
                match exchanged(kind, subject_type, requested)? {
                    TokenType::Refresh => {
                        let given = self.refreshed(request, &subject, csr).await?;
                        let issued_token_type = Some(TokenType::Refresh.urn());
                        Ok(TokenAnswer { issued_token_type, ..whole(given) })
                    }
                    TokenType::Access => self.exchanged_access(&subject),
                    TokenType::Id => self.exchanged_id(&subject),
                }
            }
        }
    }

    async fn redeemed(
        &self,
        request: &OidcRequest,
        redeemed: Redeemed<LoginFacts>,
        csr: Option<String>,
    ) -> Result<TokenAnswer, OidcError> {
        match redeemed {
            Redeemed::Granted(granted) => {
                let opening = Opening { issuer: issuer_of(request), csr, is_device: false };
                Ok(whole(self.open_granted(*granted, opening).await?))
            }
            Redeemed::Again { session, problem } => {
                self.end_stolen(&Id::new(&session), "its code was used twice");
                Err(problem)
            }
            Redeemed::Refused(problem) => Err(problem),
        }
    }

    /// Verifies a token that a client shows for another one.
    fn subject(
        &self,
        request: &OidcRequest,
        client: Client,
        token: &str,
        kind: TokenKind,
        scopes: Option<Scopes>,
    ) -> Result<Subject, OidcError> {
        let (now, snapshot) = (self.kernel().now(), self.kernel().snapshot());
        let proven = self.proven(&snapshot, token, kind, now).map_err(|refusal| match refusal {
            BearerRefusal::Expired => refused("refresh token expired"),
            BearerRefusal::Ended => refused("refresh token revoked"),
            BearerRefusal::Invalid(text) => refused(&format!("the token is not valid: {text}")),
        })?;
        if proven.claims.client_id != client.id() {
            return Err(refused("the token belongs to another client"));
        }
        if !stands(&snapshot, &proven.session, now) {
            return Err(refused("the credential of the login is no longer good"));
        }
        if !is_complete(&snapshot, &proven.session) {
            return Err(refused("the login lacks a factor that is asked for by now"));
        }
        let granted = Scopes::of(proven.claims.scopes.iter().map(String::as_str));
        let scopes = narrowed(granted, scopes)?;
        let named = proven.claims.z_cfs.as_deref().unwrap_or_default();
        let proof = proof(named, request.caller.leaf().map(Certificate::fingerprint))?;
        // Before anything is judged or signed, so that a refusal is no use of the token.
        let (session, identity) = (&proven.session.base.id, &proven.session.identity_id);
        let from = request.caller.origin.remote.map(|remote| remote.ip());
        self.token_rates().take(session, identity, from).map_err(|_| {
            let text = "too many requests for tokens of this session, identity or source";
            OidcError::new(OidcErrorCode::TemporarilyUnavailable, text)
        })?;
        Ok(Subject { proven, proof, scopes })
    }

    /// The successor of a refresh token, with its access token.
    async fn refreshed(
        &self,
        request: &OidcRequest,
        subject: &Subject,
        csr: Option<String>,
    ) -> Result<Given, OidcError> {
        let session = &subject.proven.session;
        if self.is_about_to_end(session) {
            return Err(refused(
                "the session ends within seconds, whatever is refreshed: log in again",
            ));
        }
        // A certificate is renewed by a client that proved its key.
        let csr = csr.filter(|_| subject.proof == Proof::Shown);
        let certificate = match csr {
            Some(csr) => {
                let names = (&session.base.id, &session.identity_id);
                Some(self.certificate_of(&request.caller, names, &csr).await?)
            }
            None => None,
        };
        let (fingerprint, chain) = certificate.unzip();
        let next_id = self.kernel().ids().token().to_string();
        let tokens = self.take_turn(subject, |login, is_next| {
            if is_next {
                login.refresh_id = next_id;
            }
            if let Some(fingerprint) = fingerprint {
                login.issued_fingerprint = fingerprint;
            }
        })?;
        self.sessions().begun().await;
        self.tell_session(&session.base.id, SessionChange::Refreshed, chain.is_some());
        Ok(Given { tokens, certificate: chain })
    }

    /// Whether the fixed end of a session, which no refresh moves, is near, and the last tokens reach to it.
    fn is_about_to_end(&self, session: &ApiSession) -> bool {
        let Some(login) = session.tokens.as_deref() else { return false };
        let issued_until = login.issued_at.plus(self.kernel().settings().durations.access_token);
        let is_near = |end: Timestamp| end <= self.kernel().now().plus(LAST) && end <= issued_until;
        login.last_end.is_some_and(is_near)
    }

    /// Judges a refresh token, and issues what follows from it.
    fn take_turn(
        &self,
        subject: &Subject,
        change: impl FnOnce(&mut TokenLogin, bool),
    ) -> Result<TokenSet, OidcError> {
        let (session, number) = (&subject.proven.session.base.id, subject.proven.claims.z_rn);
        let now = self.kernel().now();
        let issued = self.issue_tokens(session, Some(subject.scopes.names()), |login| {
            let is_next = judge(login, number, subject.proof, RequestedTokens::Refresh, now)?;
            change(login, is_next);
            Ok(())
        });
        issued.map_err(|turned| self.turn_away(session, turned))
    }

    /// Judges a refresh token that is exchanged for another kind of token, which uses nothing up.
    fn check_turn(&self, subject: &Subject) -> Result<(), OidcError> {
        let (session, number) = (&subject.proven.session.base.id, subject.proven.claims.z_rn);
        let (now, mut judged) = (self.kernel().now(), Ok(false));
        let known = self.sessions().change(session, now, |session| {
            if let Some(login) = &mut session.tokens {
                judged = judge(login, number, subject.proof, RequestedTokens::Other, now);
            }
        });
        known.ok_or_else(|| refused("refresh token revoked"))?;
        judged.map(drop).map_err(|turned| self.turn_away(session, turned))
    }

    fn turn_away(&self, session: &Id, turned: Turned) -> OidcError {
        match turned {
            Turned::Refused(problem) => problem,
            Turned::Revoke { problem, reason } => {
                self.end_stolen(session, &reason);
                problem
            }
        }
    }

    fn exchanged_access(&self, subject: &Subject) -> Result<TokenAnswer, OidcError> {
        let session = &subject.proven.session;
        if subject.proven.claims.z_t == TokenKind::Refresh {
            self.check_turn(subject)?;
        }
        let number = subject.proven.claims.z_rn;
        let made = self.access_token(session, subject.scopes.names(), number);
        let (access, seconds) = made.map_err(|failure| problem_of(&failure))?;
        self.tell_session(&session.base.id, SessionChange::Exchanged, false);
        let answer = TokenAnswer::bearer(access, seconds, subject.scopes);
        Ok(TokenAnswer { issued_token_type: Some(TokenType::Access.urn()), ..answer })
    }

    fn exchanged_id(&self, subject: &Subject) -> Result<TokenAnswer, OidcError> {
        if !subject.scopes.openid {
            let text = "the login did not ask for the scope openid";
            return Err(OidcError::new(OidcErrorCode::InvalidScope, text));
        }
        self.check_turn(subject)?;
        let session = &subject.proven.session;
        let (id, seconds) = self.id_token(session).map_err(|failure| problem_of(&failure))?;
        self.tell_session(&session.base.id, SessionChange::Exchanged, false);
        Ok(TokenAnswer::of_id_token(id, seconds, subject.scopes))
    }

    /// Ends a session whose tokens somebody may have stolen.
    fn end_stolen(&self, session: &Id, reason: &str) {
        if let Some(known) = self.sessions().by_id(session.as_str()) {
            let identity = &known.identity_id;
            tracing::warn!(%session, %identity, reason, "a session ends, because somebody may have a copy of its tokens; its client logs in again");
            self.sessions().end(std::slice::from_ref(session));
        } else {
            self.unfinished().note_stolen(session);
        }
    }

    /// `/userinfo`: what an access token says of its identity.
    pub(super) fn userinfo(&self, request: &OidcRequest) -> OidcReply {
        let (now, snapshot) = (self.kernel().now(), self.kernel().snapshot());
        let (basic, media) =
            (request.authorizations.first().map(String::as_str), request.content_type.as_deref());
        let token = match userinfo::token(basic, media, &request.body) {
            Ok(token) => token.unwrap_or_default(),
            Err(problem) => return OidcReply::problem(&problem),
        };
        let leaf = request.caller.leaf();
        let proven = self.proven(&snapshot, &token, TokenKind::Access, now).ok().filter(|it| {
            stands(&snapshot, &it.session, now)
                && is_complete(&snapshot, &it.session)
                && is_shown(&it.session, &it.claims, leaf, now)
        });
        let identity = proven.as_ref().and_then(|proven| {
            snapshot.get::<Identity>(&proven.session.identity_id).filter(|it| !it.is_disabled(now))
        });
        let (Some(proven), Some(identity)) = (&proven, identity) else {
            return OidcReply::failure(&ErrorCode::Unauthorized.into())
                .with("www-authenticate", Challenge::InvalidBearer.text());
        };
        let scopes = Scopes::of(proven.claims.scopes.iter().map(String::as_str));
        let body = userinfo::body(identity.base.id.as_str(), &identity.name, scopes);
        OidcReply::json(200, body)
    }
}

/// Judges the number of a refresh token. True if its successor is a new one.
fn judge(
    login: &mut TokenLogin,
    number: u64,
    proof: Proof,
    wanted: RequestedTokens,
    now: Timestamp,
) -> Result<bool, Turned> {
    let mut numbers = Numbers::with(login.refresh_number, login.refresh_seen_at);
    let before = numbers.last();
    match numbers.judge(number, proof, wanted, now) {
        RefreshVerdict::Granted { .. } => {
            (login.refresh_number, login.refresh_seen_at) = (numbers.last(), numbers.seen());
            Ok(numbers.last() != before)
        }
        RefreshVerdict::Refused(problem) => Err(Turned::Refused(problem)),
        RefreshVerdict::Revoke { problem, reason } => Err(Turned::Revoke { problem, reason }),
    }
}

fn issuer_of(request: &OidcRequest) -> &str {
    request.issuer().map(weft_oidc::issuer::Issuer::url).unwrap_or_default()
}

fn exchanged_for_nothing() -> OidcError {
    OidcError::new(OidcErrorCode::InvalidRequest, "an ID token is exchanged for nothing")
}

/// An answer with all tokens that a client gets together.
fn whole(Given { tokens, certificate }: Given) -> TokenAnswer {
    let scopes = Scopes::of(tokens.scopes.iter().map(String::as_str));
    TokenAnswer {
        refresh_token: tokens.refresh,
        id_token: tokens.id,
        session_cert: certificate,
        ..TokenAnswer::bearer(tokens.access, tokens.expires_in, scopes)
    }
}
